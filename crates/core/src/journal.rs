//! What changed in a scope that somebody may ask about tomorrow: told by comparing its value with what was told of it before.
//!
//! Comparing costs a few words per group and bucket, and holds however a change came about: by an answer, a configuration, a merge
//! with another replica's value. What comes and goes all the time is no change: floors of a few seconds, a learned limit that moves by
//! less than a hundredth.

use std::sync::Arc;

use crate::floor::Floor;
use crate::plan::Owner;
use crate::signal::Source;
use crate::units::{FleetTime, Span};
use crate::value::ScopeValue;

/// Floors shorter than this are everyday pacing.
pub const SHORTEST_TOLD: Span = Span::from_secs(5);
/// An end that moves by more than this part of what was left is told again.
const MOVED_PART: i64 = 4;

/// Where in a scope something changed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Where {
    /// The whole account.
    Account,
    /// A group of models, by its key.
    Group(Arc<str>),
    /// A bucket: its group's key (empty: shared or account-wide) and its label.
    Bucket(Arc<str>, Arc<str>),
}

/// What changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Nothing is sent before an instant.
    FloorSet {
        /// Until when.
        until: FleetTime,
        /// Who said so.
        source: Source,
    },
    /// That ended before its time.
    FloorLifted {
        /// Until when it was to last.
        until: FleetTime,
        /// Who had said so.
        source: Source,
    },
    /// The limit in force is another one, in units per window.
    Limit {
        /// Before; `None`: unknown.
        before: Option<u64>,
        /// Now; `None`: unknown.
        after: Option<u64>,
        /// Answers taught it; false: it was written down, by a person or in the catalogue.
        is_learned: bool,
    },
    /// The provider answers with failures only: one call goes at a time, to see.
    BreakerOpened,
    /// It answers again.
    BreakerClosed {
        /// How long it was open.
        lasted: Span,
    },
    /// The provider said that money or a quota is used up: one call goes now and then, to see.
    Exhausted,
    /// It takes calls again.
    NotExhausted,
}

/// A change and where it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// Where.
    pub at: Where,
    /// What.
    pub what: Change,
}

/// What was told of a scope's value.
#[derive(Clone, Debug, Default)]
pub struct Told {
    account: Of,
    groups: Vec<(Arc<str>, Of, FleetTime)>,
    buckets: Vec<Bucket>,
    is_first: bool,
}

/// What was told of an account or a group.
#[derive(Clone, Copy, Debug, Default)]
struct Of {
    floor: Option<Floor>,
    is_exhausted: bool,
}

#[derive(Clone, Debug)]
struct Bucket {
    floor: Option<Floor>,
    limit: Option<u64>,
}

impl Told {
    /// Everything as it is in a value that others may have told of already.
    pub fn of(value: &ScopeValue, now: FleetTime) -> Self {
        let mut told = Self { is_first: true, ..Self::default() };
        told.changes(value, now);
        told.is_first = false;
        told
    }

    /// What is different from what was told before, which is told from here on.
    pub fn changes(&mut self, value: &ScopeValue, now: FleetTime) -> Vec<Changed> {
        let mut changed = Vec::new();
        let is_first = self.is_first;
        let mut tell = |at: &dyn Fn() -> Where, what: Change| {
            if !is_first {
                changed.push(Changed { at: at(), what });
            }
        };
        account_or_group(&mut self.account, value.floor, value.exhausted.is_some(), now, &mut |what| {
            tell(&|| Where::Account, what)
        });
        for (index, group) in value.groups.iter().enumerate() {
            // Positions are stable while a value lives; where another value has taken its place, what was told is of another group.
            if self.groups.get(index).is_none_or(|(key, ..)| *key != group.key) {
                self.groups.truncate(index);
                self.groups.push((group.key.clone(), Of::default(), FleetTime::ZERO));
            }
            let Some((key, of, opened_at)) = self.groups.get_mut(index) else { continue };
            let at = || Where::Group(key.clone());
            account_or_group(of, group.floor, group.exhausted.is_some(), now, &mut |what| tell(&at, what));
            match (*opened_at != FleetTime::ZERO, group.breaker.is_open()) {
                (false, true) => tell(&at, Change::BreakerOpened),
                (true, false) => tell(&at, Change::BreakerClosed { lasted: now.since(*opened_at).at_least_zero() }),
                _ => {}
            }
            *opened_at = group.breaker.opened_at;
        }
        self.groups.truncate(value.groups.len());
        for (index, state) in value.buckets.iter().enumerate() {
            let at = || {
                let group = match &state.plan.id.owner {
                    Owner::Group(key) => key.clone(),
                    Owner::Shared(_) | Owner::Account => Arc::from(""),
                };
                Where::Bucket(group, Arc::from(state.plan.id.label()))
            };
            let limit = state.our_limit();
            // The first limit of a bucket is how it began, unless an answer taught it.
            let Some(told) = self.buckets.get_mut(index) else {
                self.buckets.push(Bucket { floor: state.floor, limit });
                if let Some(floor) = state.floor.filter(|floor| is_long(floor, now)) {
                    tell(&at, Change::FloorSet { until: floor.until, source: floor.source });
                }
                continue;
            };
            if let Some(what) = floors(&mut told.floor, state.floor, now) {
                tell(&at, what);
            }
            if differ(told.limit, limit) {
                let is_learned = limit.is_some() && (state.plan.limit.is_none() || state.learned.limit == limit);
                tell(&at, Change::Limit { before: told.limit, after: limit, is_learned });
                told.limit = limit;
            }
        }
        self.buckets.truncate(value.buckets.len());
        changed
    }
}

fn account_or_group(of: &mut Of, floor: Option<Floor>, is_exhausted: bool, now: FleetTime, tell: &mut dyn FnMut(Change)) {
    if let Some(what) = floors(&mut of.floor, floor, now) {
        tell(what);
    }
    if is_exhausted != of.is_exhausted {
        tell(if is_exhausted { Change::Exhausted } else { Change::NotExhausted });
        of.is_exhausted = is_exhausted;
    }
}

/// What became of a floor. One that ran out is nothing new: its end was told.
fn floors(told: &mut Option<Floor>, is: Option<Floor>, now: FleetTime) -> Option<Change> {
    let (was, is) = (told.filter(|floor| floor.holds_at(now)), is.filter(|floor| floor.holds_at(now)));
    match (was, is) {
        (was, Some(is)) if was.is_none_or(|was| moves(&was, &is, now)) && is_long(&is, now) => {
            *told = Some(is);
            Some(Change::FloorSet { until: is.until, source: is.source })
        }
        (Some(was), None) => {
            *told = None;
            // Shorter ones were never told.
            (was.until.since(now) >= SHORTEST_TOLD).then_some(Change::FloorLifted { until: was.until, source: was.source })
        }
        _ => None,
    }
}

fn is_long(floor: &Floor, now: FleetTime) -> bool {
    floor.until.since(now) >= SHORTEST_TOLD
}

/// Whether the end is another one, by more than answers that repeat each other differ.
fn moves(was: &Floor, is: &Floor, now: FleetTime) -> bool {
    let (left, by) = (was.until.since(now).as_micros(), is.until.since(was.until).as_micros().abs());
    by > SHORTEST_TOLD.as_micros() && by > left / MOVED_PART
}

fn differ(before: Option<u64>, after: Option<u64>) -> bool {
    match (before, after) {
        (Some(before), Some(after)) => before.abs_diff(after) > before.max(after) / 100,
        (None, None) => false,
        _ => true,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::bucket::BucketState;
    use crate::plan::{BucketId, BucketPlan, OurPart, Refill, StartLevel};
    use crate::value::GroupState;

    const NOW: FleetTime = FleetTime::from_secs(1_800_000_000);

    fn floor(secs: i64) -> Option<Floor> {
        Some(Floor { until: NOW + Span::from_secs(secs), since: NOW, source: Source::RetryAfterSeconds })
    }

    fn bucket(limit: Option<u64>) -> BucketState {
        BucketState::new(BucketPlan {
            id: BucketId { owner: Owner::Group(Arc::from("gpt")), name: Arc::from("requests") },
            meter: Arc::from("requests"),
            limit,
            per: Some(Span::from_secs(60)),
            capacity: None,
            burst: None,
            refill: Some(Refill::Continuous),
            calendar: None,
            start: StartLevel::Cautious,
            learn_above: false,
            ours: OurPart::default(),
        })
    }

    fn value() -> ScopeValue {
        let groups = vec![GroupState::new(Arc::from("gpt"), false)];
        ScopeValue { groups, buckets: vec![bucket(Some(500))], ..ScopeValue::default() }
    }

    fn whats(changed: Vec<Changed>) -> Vec<Change> {
        changed.into_iter().map(|one| one.what).collect()
    }

    #[test]
    fn floors_are_told_when_they_are_set_moved_and_lifted() {
        let (mut value, until) = (value(), |secs| NOW + Span::from_secs(secs));
        let source = Source::RetryAfterSeconds;
        let mut told = Told::of(&value, NOW);
        assert_eq!(told.changes(&value, NOW), []);
        value.groups[0].floor = floor(3);
        assert_eq!(told.changes(&value, NOW), [], "a few seconds are everyday pacing");
        value.groups[0].floor = floor(60);
        let at = Where::Group(Arc::from("gpt"));
        assert_eq!(
            told.changes(&value, NOW),
            [Changed { at: at.clone(), what: Change::FloorSet { until: until(60), source } }]
        );
        value.groups[0].floor = floor(64);
        assert_eq!(told.changes(&value, NOW), [], "the next answer says about the same");
        value.groups[0].floor = floor(600);
        assert_eq!(whats(told.changes(&value, NOW)), [Change::FloorSet { until: until(600), source }]);
        value.groups[0].floor = None;
        assert_eq!(told.changes(&value, NOW), [Changed { at, what: Change::FloorLifted { until: until(600), source } }]);
        value.floor = floor(60);
        assert_eq!(told.changes(&value, NOW)[0].at, Where::Account);
        assert_eq!(told.changes(&value, until(61)), [], "it ran out, as was told");
        value.floor = Some(Floor { until: until(120), since: until(61), source });
        assert_eq!(whats(told.changes(&value, until(61))), [Change::FloorSet { until: until(120), source }]);
    }

    #[test]
    fn limits_are_told_with_what_they_were_and_who_says_so() {
        let mut value = value();
        let mut told = Told::of(&value, NOW);
        value.buckets[0].learned.limit = Some(496);
        assert_eq!(told.changes(&value, NOW), [], "within a hundredth");
        value.buckets[0].learned.limit = Some(250);
        let at = Where::Bucket(Arc::from("gpt"), Arc::from("requests"));
        let what = Change::Limit { before: Some(500), after: Some(250), is_learned: true };
        assert_eq!(told.changes(&value, NOW), [Changed { at, what }]);
        value.buckets[0].learned.limit = None;
        value.buckets[0].plan.limit = Some(1_000);
        let what = Change::Limit { before: Some(250), after: Some(1_000), is_learned: false };
        assert_eq!(whats(told.changes(&value, NOW)), [what]);
        value.buckets.push(bucket(Some(10)));
        assert_eq!(told.changes(&value, NOW), [], "a bucket that begins");
    }

    #[test]
    fn breakers_and_empty_accounts_are_told() {
        let mut value = value();
        let mut told = Told::of(&value, NOW);
        value.groups[0].breaker.opened_at = NOW;
        value.groups[0].exhausted = Some(crate::exhausted::Exhausted { since: NOW, until: NOW, interval: Span::from_secs(60) });
        assert_eq!(whats(told.changes(&value, NOW)), [Change::Exhausted, Change::BreakerOpened]);
        let later = NOW + Span::from_secs(90);
        value.groups[0].breaker.opened_at = FleetTime::ZERO;
        value.groups[0].exhausted = None;
        let closed = Change::BreakerClosed { lasted: Span::from_secs(90) };
        assert_eq!(whats(told.changes(&value, later)), [Change::NotExhausted, closed]);
    }

    proptest! {
        /// Whatever a value becomes, telling it twice tells nothing new, and what a replica finds is not told as its own.
        #[test]
        fn nothing_is_told_twice(
            steps in prop::collection::vec((0_i64..900, prop::option::of(0_i64..900), 0_u64..3, any::<bool>(), 0_usize..4), 1..20)
        ) {
            let mut value = value();
            let mut told = Told::of(&value, NOW);
            let mut now = NOW;
            for (later, until, limit, is_open, groups) in steps {
                now = now + Span::from_secs(later);
                value.floor = until.map(|secs| Floor {
                    until: now + Span::from_secs(secs),
                    since: now,
                    source: Source::Backoff,
                });
                value.groups.resize_with(groups, || GroupState::new(Arc::from("more"), true));
                value.buckets.resize_with(groups, || bucket(None));
                if let (Some(group), Some(bucket)) = (value.groups.first_mut(), value.buckets.first_mut()) {
                    group.breaker.opened_at = if is_open { now } else { FleetTime::ZERO };
                    bucket.learned.limit = Some(limit * 100).filter(|limit| *limit > 0);
                }
                told.changes(&value, now);
                prop_assert_eq!(told.changes(&value, now), vec![]);
                prop_assert_eq!(Told::of(&value, now).changes(&value, now), vec![]);
            }
        }
    }
}
