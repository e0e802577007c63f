//! How many of a group's calls may be retries. A provider that refuses is not helped by being asked again and again: beyond a
//! share of the first attempts, retries are turned away until the next minute looks better.
//!
//! Retries are bounded by the larger of a share of the first attempts and of a small number that lets a quiet fleet retry at
//! all; the number is never more than a tenth of the limit, so that retries alone cannot keep a bucket empty.

use crate::denial::{Denial, Reason};
use crate::plan::Refill;
use crate::tally::{COUNTED_OVER, Tally};
use crate::units::{FleetTime, Milli, Span};
use crate::value::{Binding, ScopeValue};

/// How much of the limit the small number may be: a tenth.
const OF_THE_LIMIT: i64 = 10;

/// The bounds of retries in a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Retries per million first attempts.
    pub share_ppm: u32,
    /// So many within `per` are let through whatever the share.
    pub at_least: u64,
    /// Over how long `at_least` counts.
    pub per: Span,
}

impl Default for RetryPolicy {
    /// A fifth of the first attempts, and 3 in 10 s.
    fn default() -> Self {
        Self { share_ppm: 200_000, at_least: 3, per: Span::from_secs(10) }
    }
}

/// How retries stand in a group at one instant, over the last minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// First attempts sent.
    pub firsts: Milli,
    /// Retries sent.
    pub retries: Milli,
    /// How many retries are allowed.
    pub allowed: Milli,
}

impl RetryPolicy {
    /// How retries stand. `limit`: what the group may send in a minute, if anybody knows.
    pub fn standing(&self, tally: &Tally, limit: Option<Milli>, now: FleetTime) -> Standing {
        let recent = tally.recent(now);
        let share = part(recent.firsts, i128::from(self.share_ppm), 1_000_000);
        Standing { firsts: recent.firsts, retries: recent.retries, allowed: share.max(self.least(limit)) }
    }

    /// What is allowed whatever the share. One at least, unless none is configured: a budget that never lets anything through
    /// would be a switch.
    fn least(&self, limit: Option<Milli>) -> Milli {
        if self.at_least == 0 {
            return Milli::ZERO;
        }
        let told = part(
            Milli::from_units(self.at_least),
            i128::from(COUNTED_OVER.as_micros()),
            i128::from(self.per.as_micros().max(1)),
        );
        let tenth = limit.map_or(told, |limit| Milli::from_milli(limit.as_milli() / OF_THE_LIMIT));
        told.min(tenth).max(Milli::from_units(1))
    }
}

fn part(amount: Milli, times: i128, by: i128) -> Milli {
    Milli::from_milli(i64::try_from(i128::from(amount.as_milli()) * times / by).unwrap_or(i64::MAX))
}

/// Why another retry is turned away, if it is; `waiting`: retries of the group that are in line and will be sent.
pub fn denial(value: &ScopeValue, binding: &Binding, waiting: u64, now: FleetTime) -> Option<Denial> {
    let group = value.groups.get(binding.group)?;
    let policy = &binding.plan.retries;
    let limit = limit_per_minute(value, binding);
    let with_this_one = Milli::from_units(waiting.saturating_add(1));
    let fits = |at: FleetTime| {
        let standing = policy.standing(&group.tally, limit, at);
        standing.retries + with_this_one <= standing.allowed
    };
    if fits(now) {
        return None;
    }
    let standing = policy.standing(&group.tally, limit, now);
    let retries = standing.retries + Milli::from_units(waiting);
    let retry_after = (1..=2 * COUNTED_OVER.as_micros() / 1_000_000).map(Span::from_secs).find(|ahead| fits(now + *ahead));
    Some(Denial {
        reason: Reason::RetryBudget,
        // Those in line are still to be counted: look again when they have been.
        retry_after: Some(retry_after.unwrap_or(COUNTED_OVER)),
        detail: format!(
            "{} retries within the last minute beside {} first attempts of {}, and {} are allowed: the provider refuses more \
             than sending again can cure (see `retries` in the configuration)",
            retries.as_units_floor(),
            standing.firsts.as_units_floor(),
            group.key,
            standing.allowed.as_units_floor(),
        ),
    })
}

/// What the group may send in a minute, by the scarcest of its known limits on requests.
pub fn limit_per_minute(value: &ScopeValue, binding: &Binding) -> Option<Milli> {
    let of = |index: &usize| {
        let bucket = value.buckets.get(*index).filter(|bucket| &*bucket.plan.meter == "requests")?;
        let rate = bucket.effective();
        if rate.refill == Refill::Held {
            return None;
        }
        let limit = Milli::from_units(bucket.our_limit()?);
        Some(part(limit, i128::from(COUNTED_OVER.as_micros()), i128::from(rate.per.as_micros().max(1))))
    };
    binding.buckets.iter().filter_map(of).min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::Sent;

    fn sent(firsts: u64, retries: u64) -> Tally {
        let mut tally = Tally::default();
        for _ in 0..firsts {
            tally.count(Sent { is_retry: false, is_fallback: false }, FleetTime::from_secs(100));
        }
        for _ in 0..retries {
            tally.count(Sent { is_retry: true, is_fallback: false }, FleetTime::from_secs(100));
        }
        tally
    }

    fn allowed(firsts: u64, limit: Option<u64>) -> u64 {
        let standing =
            RetryPolicy::default().standing(&sent(firsts, 0), limit.map(Milli::from_units), FleetTime::from_secs(101));
        standing.allowed.as_units_floor()
    }

    #[test]
    fn a_fifth_of_the_firsts_or_three_in_ten_seconds() {
        assert_eq!(allowed(0, None), 18);
        assert_eq!(allowed(0, Some(600)), 18, "a tenth of the limit is more");
        assert_eq!(allowed(0, Some(60)), 6, "a tenth of the limit is less");
        assert_eq!(allowed(0, Some(5)), 1, "one at least");
        assert_eq!(allowed(1_000, Some(60)), 200);
        assert_eq!(allowed(1_000, None), 200);
    }

    #[test]
    fn nothing_at_least_means_the_share_alone() {
        let policy = RetryPolicy { at_least: 0, ..RetryPolicy::default() };
        assert_eq!(policy.standing(&sent(0, 0), None, FleetTime::from_secs(101)).allowed, Milli::ZERO);
        assert_eq!(policy.standing(&sent(10, 0), None, FleetTime::from_secs(101)).allowed, Milli::from_units(2));
    }
}
