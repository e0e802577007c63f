//! What was found, as text for people and as JSON for programs.

use std::fmt::Write as _;

use paceline_core::plan::Refill;
use paceline_core::signal::ObservedOwner;
use paceline_core::units::Span;
use serde_json::{Value, json};

use super::found::{Bucket, Found, Sureness};
use super::plan::Plan;
use super::trouble::printable;

/// One call that was answered.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) status: u16,
    pub(super) took: Span,
}

/// Everything that a probe ends with.
#[derive(Debug)]
pub(super) struct Outcome<'a> {
    pub(super) plan: &'a Plan,
    pub(super) calls: Vec<Call>,
    pub(super) found: Found,
    pub(super) yaml: String,
    /// What was wrong, if anything was.
    pub(super) trouble: Option<String>,
}

impl Outcome<'_> {
    /// For people.
    pub(super) fn text(&self) -> String {
        let plan = self.plan;
        let mut text = String::new();
        let took = self.calls.iter().map(|call| format!("{} in {}", call.status, call.took)).collect::<Vec<_>>().join(", ");
        let read_as =
            if plan.is_known { String::new() } else { ", read as any provider that is not in the catalogue".to_owned() };
        let _ = writeln!(text, "{} answered{read_as}: {took}.", plan.title());
        self.limits(&mut text);
        self.gaps(&mut text);
        if self.trouble.is_none() || !self.found.buckets.is_empty() {
            let _ = writeln!(text, "\nTo paste into the configuration (check it with `paceline check-config`)\n{}", self.yaml);
        }
        printable(&text)
    }

    fn limits(&self, text: &mut String) {
        let plan = self.plan;
        if self.found.buckets.is_empty() {
            let _ = writeln!(
                text,
                "\nNo answer tells a limit. That is common: Paceline then learns from refusals what passes. If you know the limit, write it \
                 into the configuration, if only roughly: nothing is refused then."
            );
            return;
        }
        let _ = match plan.model.is_empty() {
            true => writeln!(text, "\nLimits"),
            false => writeln!(text, "\nLimits of {}", plan.model),
        };
        for bucket in &self.found.buckets {
            let others = self.is_used_by_others(bucket);
            let _ = writeln!(text, "  {}\n    read from {}", sentence(bucket, !others), bucket.headers.join(", "));
        }
        let foreign = self.found.buckets.iter().filter(|bucket| self.is_used_by_others(bucket));
        for bucket in foreign {
            let _ =
                writeln!(text, "  Of `{}` much more is gone than these calls took: somebody else uses it too.", bucket.name);
        }
    }

    /// Whether more than a twentieth of the limit is gone that we cannot have taken, or far more between two calls than one of them is.
    fn is_used_by_others(&self, bucket: &Bucket) -> bool {
        let (Some(limit), Some(remaining), Some(per_call)) = (bucket.limit, bucket.remaining, bucket.per_call) else {
            return false;
        };
        if per_call > self.plan.most_of_a_call(&bucket.meter).saturating_mul(4) {
            return true;
        }
        let calls = u64::try_from(self.calls.len()).unwrap_or(u64::MAX);
        let ours = per_call.saturating_mul(calls);
        limit.saturating_sub(remaining) > ours.saturating_mul(2).saturating_add(limit / 20)
    }

    fn gaps(&self, text: &mut String) {
        let found = &self.found;
        if !found.unread.is_empty() {
            let _ = writeln!(text, "\nNot read (they look like limits, and no rule reads them: docs/adding-a-provider.md)");
            found.unread.iter().for_each(|name| {
                let _ = writeln!(text, "  {name}");
            });
        }
        if !found.malformed.is_empty() {
            let _ = writeln!(text, "\nNot understood (a rule reads them, and the value fits no form: as if they were absent)");
            found.malformed.iter().for_each(|name| {
                let _ = writeln!(text, "  {name}");
            });
        }
    }

    /// For programs.
    pub(super) fn json(&self) -> Value {
        let plan = self.plan;
        let calls = self.calls.iter().map(|call| json!({"status": call.status, "took_ms": call.took.as_millis_ceil()}));
        json!({
            "provider": plan.name,
            "read_as": plan.provider.name(),
            "account": plan.account,
            "model": (!plan.model.is_empty()).then_some(&plan.model),
            "url": plan.url.to_string(),
            "calls": calls.collect::<Vec<_>>(),
            "buckets": self.found.buckets.iter().map(bucket_json).collect::<Vec<_>>(),
            "unread_headers": self.found.unread,
            "malformed_headers": self.found.malformed,
            "yaml": self.yaml,
            "error": self.trouble,
        })
    }
}

/// `requests: 500 per 1 min, refills evenly, 497 left; a call takes 1`.
fn sentence(bucket: &Bucket, is_ours: bool) -> String {
    let owner = if bucket.owner == ObservedOwner::Account { " (of the whole account)" } else { "" };
    let mut parts = Vec::new();
    parts.push(match (bucket.limit, bucket.window) {
        (Some(limit), _) if bucket.refill == Some(Refill::Held) => format!("{limit} at a time"),
        (Some(limit), Some((window, Sureness::AtLeast))) => format!("{limit} per {window} or longer"),
        (Some(limit), Some((window, Sureness::Reckoned))) => format!("{limit} per {window} (reckoned from its reset)"),
        (Some(limit), Some((window, Sureness::Guessed))) => {
            format!("{limit}, the window is not told ({window} would fit, which two answers have not shown)")
        }
        (Some(limit), Some((window, Sureness::Stated))) => format!("{limit} per {window}"),
        (Some(limit), None) => format!("{limit}, the window is not told"),
        (None, _) => "the limit is not told".to_owned(),
    });
    parts.extend(bucket.refill.map(|refill| {
        match refill {
            Refill::Continuous => "refills evenly",
            Refill::Window => "comes back all at once when its window ends",
            Refill::Held => "comes back when a call ends",
        }
        .to_owned()
    }));
    parts.extend(bucket.remaining.map(|remaining| format!("{remaining} left")));
    let end = if bucket.refill == Some(Refill::Continuous) { "full again" } else { "resets" };
    parts.extend(bucket.reset_in.map(|reset| format!("{end} in {reset}")));
    parts.extend(bucket.per_call.filter(|_| is_ours).map(|units| format!("a call took {units}")));
    format!("{}{owner}: {}", bucket.name, parts.join(", "))
}

fn bucket_json(bucket: &Bucket) -> Value {
    let window = bucket.window;
    json!({
        "name": bucket.name,
        "meter": bucket.meter,
        "owner": if bucket.owner == ObservedOwner::Account { "account" } else { "group" },
        "limit": bucket.limit,
        "remaining": bucket.remaining,
        "reset_ms": bucket.reset_in.map(Span::as_millis_ceil),
        "window_s": window.map(|(window, _)| window.as_secs_f64()),
        "window_is": window.map(|(_, sure)| match sure {
            Sureness::Stated => "stated",
            Sureness::Reckoned => "reckoned",
            Sureness::Guessed => "guessed",
            Sureness::AtLeast => "at_least",
        }),
        "refill": bucket.refill.map(|refill| match refill {
            Refill::Continuous => "continuous",
            Refill::Window => "window",
            Refill::Held => "held",
        }),
        "per_call": bucket.per_call,
        "headers": bucket.headers,
    })
}
