//! The text for people: what was read, from where, why, what follows, and what was not understood.

use std::fmt::Write as _;

use paceline_core::signal::{AnswerKind, ObservedOwner, ResetMeans, Source};
use paceline_core::units::Span;
use paceline_signals::{BucketReading, Provider, Reading};

/// Explains a reading in a screenful.
pub(super) fn explain(asked: &str, provider: &Provider, status: u16, reading: &Reading, colour: bool) -> String {
    let page = Page { text: String::new(), colour };
    page.headline(asked, provider, status, reading).wait(reading).buckets(reading).fleet(reading).gaps(reading).text
}

/// Text that grows from top to bottom.
struct Page {
    text: String,
    colour: bool,
}

#[derive(Clone, Copy)]
enum Ink {
    Bold = 1,
    Dim = 2,
    Red = 31,
    Green = 32,
    Yellow = 33,
}

impl Page {
    fn headline(mut self, asked: &str, provider: &Provider, status: u16, reading: &Reading) -> Self {
        let signal = &reading.signal;
        let (what, ink) = match signal.kind {
            AnswerKind::Ok => ("it went through", Ink::Green),
            AnswerKind::Throttled => ("the rate limit refused it", Ink::Yellow),
            AnswerKind::Overloaded => ("the service is overloaded or away, which is not your limit", Ink::Yellow),
            AnswerKind::QuotaExhausted => ("the quota or the credit is used up", Ink::Red),
            AnswerKind::Impossible => ("the request itself can never fit", Ink::Red),
            AnswerKind::Failed => ("the server failed, and may have run the call", Ink::Yellow),
            AnswerKind::Rejected => ("the request was refused for another reason than a limit", Ink::Red),
        };
        let read_as = if provider.name().eq_ignore_ascii_case(asked) || provider.title() == asked {
            format!("read as {}", provider.title())
        } else {
            format!("`{}` is not in the catalogue, read as {}", printable(asked), provider.name())
        };
        let again = match (signal.kind, signal.retryable) {
            (AnswerKind::Ok, _) => "",
            (_, true) => " The same call is worth sending again later.",
            (_, false) => " Sending the same call again is pointless.",
        };
        let status = self.ink(Ink::Bold, &status.to_string());
        let what = self.ink(ink, what);
        self.line(&format!("{status}  {what} ({read_as}).{again}"));
        self
    }

    fn wait(mut self, reading: &Reading) -> Self {
        let signal = &reading.signal;
        self.heading("Wait");
        match signal.retry_after {
            Some(wait) => {
                let (wait, field) = (self.ink(Ink::Bold, &wait.to_string()), self.ink(Ink::Dim, &printable(&signal.field)));
                self.line(&format!("  {wait}  from {field}"));
                self.line(&format!("  {}", reading.rule));
            }
            None => self.line(&format!("  none: {}", reading.rule)),
        }
        let has_instants = reading.buckets.iter().any(|bucket| bucket.is_reset_instant && bucket.reset_in.is_some());
        if signal.source == Source::RetryAfterDate || has_instants {
            let clock = if reading.is_server_clock { "the answer's own Date" } else { "--received-at: the answer has no Date" };
            self.line(&format!("  dates are measured from {clock}"));
        }
        self
    }

    fn buckets(mut self, reading: &Reading) -> Self {
        self.heading("Buckets");
        if reading.buckets.is_empty() {
            self.line("  none are described");
        }
        for bucket in &reading.buckets {
            let name = self.ink(Ink::Bold, &bucket_name(bucket));
            self.line(&format!("  {name}  {}", figures(bucket)));
            let fields = self.ink(Ink::Dim, &printable(&bucket.fields.join(", ")));
            self.line(&format!("    {fields}"));
        }
        self
    }

    fn fleet(mut self, reading: &Reading) -> Self {
        self.heading("The fleet would");
        consequences(reading).iter().for_each(|consequence| self.line(&format!("  - {consequence}")));
        self
    }

    fn gaps(mut self, reading: &Reading) -> Self {
        let signal = &reading.signal;
        for (names, title, meaning) in [
            (&signal.unread_headers, "Not read", "looks like a limit, and no rule reads it"),
            (&signal.malformed_headers, "Not understood", "a rule reads it, and the value fits no form: as if it were absent"),
        ] {
            if !names.is_empty() {
                self.heading(title);
                for name in names {
                    let name = self.ink(Ink::Yellow, &printable(name));
                    self.line(&format!("  {name}  {meaning}"));
                }
            }
        }
        self
    }

    fn heading(&mut self, title: &str) {
        let title = self.ink(Ink::Bold, title);
        self.line("");
        self.line(&title);
    }

    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn ink(&self, ink: Ink, text: &str) -> String {
        if self.colour { format!("\u{1b}[{}m{text}\u{1b}[0m", ink as u8) } else { text.to_owned() }
    }
}

/// `0 of 30000 left, full again in 823 ms`.
fn figures(bucket: &BucketReading) -> String {
    let mut text = match (bucket.remaining, bucket.limit) {
        (Some(remaining), Some(limit)) => format!("{remaining} of {limit} left"),
        (Some(remaining), None) => format!("{remaining} left"),
        (None, Some(limit)) => format!("limit {limit}, what is left is unknown"),
        (None, None) => "what is left is unknown".to_owned(),
    };
    if let Some(window) = bucket.window {
        let _ = write!(text, ", window of {window}");
    }
    if let Some(reset) = bucket.reset_in {
        let meaning = match bucket.reset_means {
            ResetMeans::Full => "full again",
            ResetMeans::Window => "the window ends",
            ResetMeans::Unspecified => "resets",
        };
        let _ = write!(text, ", {meaning} in {reset}");
    }
    text
}

fn bucket_name(bucket: &BucketReading) -> String {
    let owner = if bucket.owner == ObservedOwner::Account { "account/" } else { "" };
    format!("{owner}{}", printable(&bucket.name))
}

/// What follows from a reading, in sentences that begin after "the fleet would".
fn consequences(reading: &Reading) -> Vec<String> {
    let signal = &reading.signal;
    let mut all = Vec::new();
    match (signal.kind, signal.retry_after) {
        (AnswerKind::Ok, Some(wait)) if wait > Span::ZERO => all.push(format!("start no further call of this group for {wait}")),
        (AnswerKind::Ok, _) => all.push("go on".to_owned()),
        (AnswerKind::Throttled, Some(wait)) => all.push(throttled(reading, wait)),
        (AnswerKind::Throttled, None) => all.push(
            "hold this call back for a growing random time (source BACKOFF), slow its group down, and count an answer without a usable signal"
                .to_owned(),
        ),
        (AnswerKind::Overloaded, wait) => all.push(format!(
            "hold this call back {}; after five such answers in a row, send single probes only until one succeeds",
            wait.map_or("for a growing random time".to_owned(), |wait| format!("for {wait}"))
        )),
        (AnswerKind::Failed, wait) => all.push(format!(
            "try again {} if the call may be repeated (`repeat`), since it may have run",
            wait.map_or("after a growing random time".to_owned(), |wait| format!("after {wait}"))
        )),
        (AnswerKind::QuotaExhausted, _) => all.push("give this call up: no wait cures it, somebody has to pay or raise the quota".to_owned()),
        (AnswerKind::Impossible, _) => all.push("give this call up: it has to become smaller".to_owned()),
        (AnswerKind::Rejected, _) => all.push("give this call up and change no limit because of it".to_owned()),
    }
    if signal.kind != AnswerKind::Ok
        && !signal.retryable
        && matches!(signal.kind, AnswerKind::Throttled | AnswerKind::Overloaded)
    {
        all.push("not send this very call again: the provider forbids it".to_owned());
    }
    for bucket in signal.buckets.iter().filter(|bucket| bucket.remaining.is_some() || bucket.limit.is_some()) {
        let level = bucket.remaining.map(|remaining| format!("take `{}` to hold {remaining}", printable(&bucket.name)));
        let limit = bucket.limit.map(|limit| format!("take its limit to be at most {limit} per window"));
        all.push([level, limit].into_iter().flatten().collect::<Vec<_>>().join(", and "));
    }
    all
}

/// Whom a refusal holds up: the users of the empty bucket, this call alone, or everybody whose bucket it may have been.
fn throttled(reading: &Reading, wait: Span) -> String {
    let is_empty = |bucket: &&BucketReading| bucket.remaining.is_some_and(|remaining| remaining <= 0);
    let empty: Vec<_> = reading.buckets.iter().filter(is_empty).map(|bucket| format!("`{}`", bucket_name(bucket))).collect();
    let all_known = !reading.buckets.is_empty() && reading.buckets.iter().all(|bucket| bucket.remaining.is_some());
    match (empty.is_empty(), all_known) {
        (false, _) => format!("send nothing that uses {} for {wait}, then in turn, not all at once", empty.join(" or ")),
        (true, true) => {
            format!("hold this call back for {wait}; others go on, without bursts, since the buckets show room")
        }
        (true, false) => format!(
            "send nothing of this group for {wait}, and nothing of the account when a second group is refused; then in turn, not all at once"
        ),
    }
}

/// Text from outside, safe to print on a terminal.
fn printable(text: &str) -> String {
    text.chars().map(|character| if character.is_control() { '\u{fffd}' } else { character }).collect()
}
