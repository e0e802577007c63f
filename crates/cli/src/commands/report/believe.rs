//! Whether what a trial says can be believed, and if not, why and what to do. Pure.

use paceline_core::mode::Mode;
use paceline_core::units::Span;
use paceline_proto::v1::{Bucket, Evidence, GetScopeResponse, Group, Refill};

use super::people::times;
use super::sum::{Refusals, Summary, percent, whole_hours};

/// What a trial must have seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Thresholds {
    /// For how many hours calls must have been watched. From a day on, the peak of a day must be behind it as well.
    pub(super) min_hours: u32,
    /// How many answers of the provider.
    pub(super) min_answers: u64,
}

/// A reason not to believe it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Doubt {
    /// For programs.
    pub(super) code: &'static str,
    /// What is wrong.
    pub(super) what: String,
    /// What to do.
    pub(super) then: String,
}

/// So many reports in a row make a value more than a guess.
const ENOUGH_REPORTS: u32 = 4;
/// Fewer calls than these show no share of anything.
const SOME: u64 = 20;
/// How long what reports said counts.
const SAID_LATELY: Span = Span::from_secs(86_400);
const A_DAY: u32 = 24;
const A_WEEK: u32 = 7 * 24;

fn doubt(code: &'static str, what: impl Into<String>, then: impl Into<String>) -> Doubt {
    Doubt { code, what: what.into(), then: then.into() }
}

/// All that speaks against believing what is told of a scope; empty: nothing. A scope without watched calls is on no trial.
pub(super) fn doubts(summary: &Summary, asked: Thresholds) -> Vec<Doubt> {
    let counts = summary.watched();
    if counts.asks == 0 {
        let is_rolled_out = summary.enforced().asks > 0;
        let none = || {
            doubt("nothing-watched", "none of its calls was in shadow", "write `mode: shadow` for it, and look again in a day")
        };
        return if is_rolled_out { Vec::new() } else { vec![none()] };
    }
    let mut doubts = Vec::new();
    doubts.extend(age(summary, asked));
    doubts.extend(answers(summary, asked));
    doubts.extend(sums(summary));
    match &summary.scope {
        Some(scope) => {
            doubts.extend(limits(scope, summary));
            doubts.extend(others(scope));
        }
        None => doubts.push(doubt(
            "limits-not-shown",
            "its limits cannot be looked up: the configuration has no place for this account",
            "write it into the configuration, or leave it out with a selector",
        )),
    }
    doubts
}

/// Watched for too short a time.
fn age(summary: &Summary, asked: Thresholds) -> Option<Doubt> {
    let hours = u32::try_from(whole_hours(summary.watched_for()?)).unwrap_or(u32::MAX);
    if hours < asked.min_hours {
        return Some(doubt(
            "too-young",
            format!("it was watched for {hours} h, and a trial takes {} h", asked.min_hours),
            format!("look again in {} h, or say that less is enough with --min-hours", asked.min_hours - hours),
        ));
    }
    let calls = |is_late: bool| {
        let of = summary.hours.iter().filter(|seen| (whole_hours(seen.age) < 2) == is_late);
        of.map(|seen| seen.counted.mode(Mode::Shadow).asks).max().unwrap_or(0)
    };
    // Somebody who takes less than a day for enough asks for no peak.
    let still_rises = calls(true) >= SOME && calls(true) > calls(false).saturating_mul(5) / 4;
    (asked.min_hours >= A_DAY && hours < A_WEEK && still_rises).then(|| {
        doubt(
            "peak-to-come",
            format!("its busiest hour is the latest one ({} calls, before that {} at most)", calls(true), calls(false)),
            "look again when the calls become fewer",
        )
    })
}

/// Too few answers, and answers that say too little.
fn answers(summary: &Summary, asked: Thresholds) -> Vec<Doubt> {
    let counts = summary.watched();
    let mut doubts = Vec::new();
    if counts.answers < asked.min_answers {
        doubts.push(doubt(
            "few-answers",
            format!("it has seen {} of the provider, and a trial takes {}", times(counts.answers, "answer"), asked.min_answers),
            "look again later; if calls are many, check that workers report",
        ));
    }
    let reported = counts.answers + counts.unanswered;
    if counts.asks >= SOME && reported * 5 < counts.asks * 4 {
        doubts.push(doubt(
            "not-reported",
            format!("only {:.0} % of its calls were reported ({reported} of {})", percent(reported, counts.asks), counts.asks),
            "workers must report each call that they send, docs/workers.md says how",
        ));
    }
    doubts
}

/// Sums that do not fit, or that are not whole.
fn sums(summary: &Summary) -> Vec<Doubt> {
    let counts = summary.watched();
    let mut doubts = Vec::new();
    let lost = summary.sum.lost;
    if lost * 100 > summary.sum.asks() + lost {
        doubts.push(doubt(
            "counts-lost",
            format!("the counts of {} could not be kept, because the store was away for days", times(lost, "call")),
            "begin again with a later --since",
        ));
    }
    let unjudged = counts.asks.saturating_sub(counts.judged);
    if unjudged * 20 > counts.asks {
        doubts.push(doubt(
            "not-judged",
            format!("{unjudged} of its calls were let go while the store was away, so nothing is known of them"),
            "look at `paceline status`; when the store is well, begin again with a later --since",
        ));
    }
    let refusals = Refusals::of(counts);
    if counts.prevented > refusals.now {
        doubts.push(doubt(
            "contradiction",
            format!("more refusals would have been prevented ({}) than there were ({})", counts.prevented, refusals.now),
            "counts were lost; begin again with a later --since",
        ));
    }
    let for_rate = refusals.left() - refusals.overload;
    if for_rate >= 3 && for_rate * 200 > counts.answers {
        doubts.push(doubt(
            "refusals-left",
            format!(
                "{for_rate} refusals ({:.1} % of the answers) would be left, so the limits here are higher than the provider's, or others \
                 send on this account",
                percent(for_rate, counts.answers)
            ),
            "compare the limits with those of your contract; if only the first hours were like that, look with a shorter --since",
        ));
    }
    if counts.answers >= SOME && refusals.now == 0 && counts.waits.count * 20 > counts.judged {
        doubts.push(doubt(
            "waits-for-nothing",
            format!(
                "{} calls would have waited ({:.0} %), although the provider took every call: the limits here are lower than its own",
                counts.waits.count,
                percent(counts.waits.count, counts.judged)
            ),
            "raise the limits in the configuration, or let headers raise them with `learn_above: true`",
        ));
    }
    doubts
}

/// Limits that nobody knows, or that little speaks for.
fn limits(scope: &GetScopeResponse, summary: &Summary) -> Vec<Doubt> {
    let mut doubts = Vec::new();
    let is_limited = |group: &Group| rates(scope).any(|bucket| of_group(bucket, group) && bucket.limit_effective.is_some());
    let unknown: Vec<&str> = scope.groups.iter().filter(|group| !is_limited(group)).map(|group| group.key.as_str()).collect();
    if !unknown.is_empty() || scope.buckets.is_empty() {
        doubts.push(doubt(
            "limit-unknown",
            format!(
                "no limit is known{}",
                if unknown.is_empty() { String::new() } else { format!(" of {}", listed(&unknown)) }
            ),
            "write limits into the configuration, if only roughly; headers correct them",
        ));
    }
    let is_thin = |bucket: &&Bucket| {
        let only_learned = bucket.limit_effective.is_some() && bucket.limit_configured.is_none();
        only_learned && !is_backed(bucket.limit_evidence.as_ref()) && !is_backed(bucket.limit_measured_evidence.as_ref())
    };
    let thin: Vec<&str> = rates(scope).filter(is_thin).map(|bucket| bucket.label.as_str()).collect();
    if !thin.is_empty() {
        doubts.push(doubt(
            "limit-thin",
            format!("too few answers of the last day speak for the limit of {}", listed(&thin)),
            "look again when more calls were answered, or write the limit into the configuration",
        ));
    }
    let counts = summary.watched();
    let has_headers = rates(scope).any(|bucket| bucket.observed_remaining.is_some() || bucket.limit_learned.is_some());
    let is_written = scope
        .groups
        .iter()
        .all(|group| rates(scope).any(|bucket| of_group(bucket, group) && bucket.limit_configured.is_some()));
    if counts.answers >= SOME && counts.silent * 2 > counts.answers && !is_written {
        doubts.push(doubt(
            "no-signal",
            format!("{:.0} % of the answers said nothing about limits", percent(counts.silent, counts.answers)),
            "write the limits into the configuration: nothing corrects a guess here",
        ));
    }
    let unread: Vec<&str> = scope
        .unread
        .iter()
        .filter(|header| !header.malformed && header.count >= 10)
        .map(|header| header.name.as_str())
        .collect();
    if !unread.is_empty() && !has_headers {
        doubts.push(doubt(
            "headers-unread",
            format!("headers that look like limits are not read: {}", listed(&unread)),
            "`paceline explain` shows how an answer is read; a provider file says what they mean (docs/adding-a-provider.md)",
        ));
    }
    doubts
}

/// Calls on the same account that do not come through here, and accounts that are several.
fn others(scope: &GetScopeResponse) -> Vec<Doubt> {
    let mut doubts = Vec::new();
    let drained = |bucket: &&Bucket| {
        let per_minute = limit_per_minute(bucket).unwrap_or(f64::MAX);
        bucket.foreign_drain.is_some_and(|drain| drain * 20.0 > per_minute) && is_backed(bucket.foreign_drain_evidence.as_ref())
    };
    let drains: Vec<String> = rates(scope)
        .filter(drained)
        .map(|bucket| format!("{:.0} {} a minute", bucket.foreign_drain.unwrap_or_default(), bucket.label))
        .collect();
    if !drains.is_empty() {
        doubts.push(doubt(
            "others-send",
            format!("somebody else takes {} of this account, as its answers show", drains.join(", ")),
            "let those workers ask as well, give them an account of their own, or say with `share` what part is yours",
        ));
    }
    if scope.organisations.len() > 1 {
        doubts.push(doubt(
            "several-accounts",
            format!("its answers name {} organisations: one name stands for several quotas", scope.organisations.len()),
            "give each its own account name",
        ));
    }
    doubts
}

/// Buckets that refill.
fn rates(scope: &GetScopeResponse) -> impl Iterator<Item = &Bucket> {
    scope.buckets.iter().filter(|bucket| bucket.refill() != Refill::Held)
}

/// Whether the calls of a group take from a bucket; which groups share one is not told, so a shared one counts for all.
fn of_group(bucket: &Bucket, group: &Group) -> bool {
    bucket.group.is_empty() || bucket.group == group.key
}

fn limit_per_minute(bucket: &Bucket) -> Option<f64> {
    let window = bucket.window.as_ref().filter(|window| window.seconds > 0 || window.nanos > 0)?;
    let minutes = (window.seconds as f64 + f64::from(window.nanos) / 1e9) / 60.0;
    Some(bucket.limit_effective? as f64 / minutes)
}

/// Whether enough reports of the last day say it.
fn is_backed(evidence: Option<&Evidence>) -> bool {
    let age = |evidence: &Evidence| evidence.age.as_ref().map_or(0, |age| age.seconds);
    evidence.is_some_and(|evidence| evidence.reports >= ENOUGH_REPORTS && age(evidence) < SAID_LATELY.as_micros() / 1_000_000)
}

/// Some names, and how many more.
pub(super) fn listed(names: &[&str]) -> String {
    const MOST: usize = 5;
    let shown: Vec<String> = names
        .iter()
        .take(MOST)
        .map(|name| name.chars().map(|letter| if letter.is_control() { '\u{fffd}' } else { letter }).collect())
        .collect();
    let more = names.len().saturating_sub(MOST);
    shown.join(", ") + &if more > 0 { format!(" and {more} more") } else { String::new() }
}
