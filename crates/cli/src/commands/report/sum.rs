//! What became of calls, summed up. Pure: from bins to figures.

use paceline_core::history::{Counts, Hourly};
use paceline_core::mode::Mode;
use paceline_core::units::Span;
use paceline_proto::history::read_hour;
use paceline_proto::v1::{GetScopeResponse, ScopeHistory};

/// An hour of a scope.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Seen {
    /// From its beginning until now.
    pub(super) age: Span,
    /// What it saw.
    pub(super) counted: Hourly,
}

/// A scope, or several together.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Summary {
    /// Its name; of several together: empty.
    pub(super) provider: String,
    pub(super) account: String,
    /// The earliest first.
    pub(super) hours: Vec<Seen>,
    /// All hours together.
    pub(super) sum: Hourly,
    /// Its limits now, and what speaks for them.
    pub(super) scope: Option<GetScopeResponse>,
}

/// Refusals by the provider: what there were, and what enforcing would have left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Refusals {
    /// In all.
    pub(super) now: u64,
    /// Enforced, these calls would not have been sent then.
    pub(super) prevented: u64,
    /// Of those that would be left: for the provider's load and not for a rate, so that no limit prevents them.
    pub(super) overload: u64,
}

impl Refusals {
    pub(super) fn of(counts: &Counts) -> Self {
        let now = counts.all_refused();
        let prevented = counts.prevented.min(now);
        let for_load: u64 = counts.refused.iter().filter(|(status, _)| is_overload(**status)).map(|(_, count)| count).sum();
        Self { now, prevented, overload: for_load.min(now - prevented) }
    }

    /// What enforcing would have left.
    pub(super) fn left(self) -> u64 {
        self.now - self.prevented
    }
}

/// 503 and 529 say that the provider is overloaded or away; so does gRPC's UNAVAILABLE.
const fn is_overload(status: u32) -> bool {
    matches!(status, 502 | 503 | 529 | 14)
}

impl Summary {
    pub(super) fn of(told: &ScopeHistory) -> Self {
        let hours = told.hours.iter().map(|hour| Seen { age: age(hour.age.as_ref()), counted: read_hour(hour) });
        let mut summary = Self {
            provider: told.provider.clone(),
            account: told.account.clone(),
            hours: hours.collect(),
            sum: Hourly::default(),
            scope: told.scope.clone(),
        };
        summary.hours.sort_by_key(|seen| std::cmp::Reverse(seen.age));
        summary.hours.iter().for_each(|seen| summary.sum.add(&seen.counted));
        summary
    }

    /// All scopes together. Answers of several replicas agree about when an hour began but for a moment.
    pub(super) fn total(of: &[Self]) -> Self {
        let mut total = Self::default();
        for seen in of.iter().flat_map(|summary| &summary.hours) {
            let same = |known: &&mut Seen| whole_hours(known.age) == whole_hours(seen.age);
            match total.hours.iter_mut().find(same) {
                Some(known) => known.counted.add(&seen.counted),
                None => total.hours.push(seen.clone()),
            }
            total.sum.add(&seen.counted);
        }
        total.hours.sort_by_key(|seen| std::cmp::Reverse(seen.age));
        total
    }

    /// Calls that were only watched.
    pub(super) fn watched(&self) -> &Counts {
        self.sum.mode(Mode::Shadow)
    }

    /// Calls that were made to wait.
    pub(super) fn enforced(&self) -> &Counts {
        self.sum.mode(Mode::Enforce)
    }

    /// From the beginning of the first hour in which a call was watched until now.
    pub(super) fn watched_for(&self) -> Option<Span> {
        self.hours.iter().find(|seen| seen.counted.mode(Mode::Shadow).asks > 0).map(|seen| seen.age)
    }

    /// The hour in which calls of a mode waited longest, all together.
    pub(super) fn longest_hour(&self, mode: Mode) -> Option<&Seen> {
        let waited = |seen: &&Seen| seen.counted.mode(mode).waits.total_millis;
        self.hours.iter().filter(|seen| waited(seen) > 0).max_by_key(waited)
    }

    /// How many attempts would have been asked for: without those that follow a refusal which would not have happened.
    pub(super) fn would_ask(&self) -> u64 {
        let counts = self.watched();
        counts.judged.saturating_sub(counts.needless)
    }

    /// How many attempts would have been sent: of those that would have been asked for, all that would not have been denied.
    pub(super) fn would_send(&self) -> u64 {
        let counts = self.watched();
        counts.asks.saturating_sub(counts.needless).saturating_sub(counts.all_denied())
    }
}

/// Begun hours, from 0.
pub(super) fn whole_hours(age: Span) -> i64 {
    age.as_micros().div_euclid(3_600_000_000)
}

fn age(duration: Option<&prost_types::Duration>) -> Span {
    let duration = duration.copied().unwrap_or_default();
    Span::from_secs(duration.seconds).saturating_add(Span::from_micros(i64::from(duration.nanos) / 1_000))
}

/// A part of a whole, in percent.
pub(super) fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { 100.0 * part as f64 / whole as f64 }
}
