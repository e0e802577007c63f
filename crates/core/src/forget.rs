//! Forgetting what answers have taught, because a person knows better: floors, limits, breakers, used-up quotas.
//!
//! No level rises by it, and units in use stay in use. What is still true is learned anew from the next answers.

use crate::breaker::Breaker;
use crate::bucket::{BucketState, Calm, Learned};
use crate::ceiling::Ceiling;
use crate::controls::Whom;
use crate::drain::Drain;
use crate::level::Level;
use crate::plan::Owner;
use crate::provisional::Place;
use crate::units::{FleetTime, Milli};
use crate::value::{GroupState, RAMP_START, ScopeValue};

/// What is to be forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forget {
    /// Times before which nothing is granted.
    pub floors: bool,
    /// Limits, windows, ceilings and what others take, as read from answers.
    pub learned: bool,
    /// Failures in a row, and that the service is away because of them.
    pub breakers: bool,
    /// That money or quota has run out.
    pub quotas: bool,
}

/// How much was forgotten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forgotten {
    /// Floors that stood.
    pub floors: u64,
    /// Buckets of which something was learned.
    pub learned: u64,
    /// Groups with failures in a row.
    pub breakers: u64,
    /// Accounts and groups that had run out of something.
    pub quotas: u64,
}

impl Forgotten {
    /// Whether there was anything.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

impl ScopeValue {
    /// Forgets `what` of the groups and buckets that `whom` touches; what belongs to the whole account, or is shared between groups,
    /// only where it touches all models.
    pub fn forget(&mut self, what: &Forget, whom: &Whom, now: FleetTime) -> Forgotten {
        let mut forgotten = Forgotten::default();
        let is_whole = whom.is_of_all_models();
        let touches = |owner: &Owner| match owner {
            Owner::Group(key) => whom.touches_group(key),
            Owner::Shared(_) | Owner::Account => is_whole,
        };
        let mut buckets: Vec<&mut BucketState> =
            self.buckets.iter_mut().filter(|bucket| touches(&bucket.plan.id.owner)).collect();
        let mut groups: Vec<&mut GroupState> = self.groups.iter_mut().filter(|group| whom.touches_group(&group.key)).collect();
        if what.floors {
            let of_account = Some(&mut self.floor).filter(|_| is_whole);
            let floors = groups.iter_mut().map(|group| &mut group.floor).chain(of_account);
            for floor in floors.chain(buckets.iter_mut().map(|bucket| &mut bucket.floor)) {
                forgotten.floors += u64::from(floor.take().is_some_and(|floor| floor.holds_at(now)));
            }
            self.provisional.retain(|known| match &known.place {
                Place::Account => !is_whole,
                Place::Group(key) => !whom.touches_group(key),
                Place::Bucket(id) => !touches(&id.owner),
            });
        }
        if what.learned {
            forgotten.learned = buckets.iter_mut().map(|bucket| u64::from(bucket.unlearn(now))).sum();
            groups.iter_mut().for_each(|group| group.begin_ramp());
        }
        if what.breakers {
            for group in &mut groups {
                forgotten.breakers += u64::from(group.breaker.failures > 0);
                (group.breaker, group.refusals) = (Breaker::default(), 0);
            }
        }
        if what.quotas {
            let of_account = Some(&mut self.exhausted).filter(|_| is_whole);
            for exhausted in groups.iter_mut().map(|group| &mut group.exhausted).chain(of_account) {
                forgotten.quotas += u64::from(exhausted.take().is_some());
            }
        }
        forgotten
    }
}

impl GroupState {
    /// Calls in flight are bounded as at first, where no limit is known; more than that may be in flight already.
    fn begin_ramp(&mut self) {
        self.ramp = self.ramp.min(Milli::from_units(u64::from(RAMP_START)));
        (self.ramp_cut_mark, self.ramp_met_refusal) = (self.granted, false);
    }
}

impl BucketState {
    /// Forgets what answers told of it. Returns whether there was anything.
    fn unlearn(&mut self, now: FleetTime) -> bool {
        let has_learned =
            self.learned != Learned::default() || self.ceiling != Ceiling::default() || self.drain != Drain::default();
        if let Some(rate) = self.rate().filter(|_| self.started && !self.is_windowed()) {
            let burst = self.burst_rate(&rate);
            self.level.advance(now, &rate);
            self.burst.advance(now, &burst);
        }
        let (was_windowed, was) = (self.is_windowed(), self.effective());
        (self.learned, self.ceiling, self.drain) = (Learned::default(), Ceiling::default(), Drain::default());
        (self.calm, self.observed, self.lowest) = (Calm::default(), None, None);
        let is = self.effective();
        match self.rate() {
            // It is looked at anew by the next answer, or by its configuration.
            None => {
                self.started = false;
                (self.level, self.burst, self.proven) = (Level::default(), Level::default(), Milli::ZERO);
                (self.window_end, self.opens_at, self.spreading) = (FleetTime::ZERO, FleetTime::ZERO, false);
            }
            // Units of another kind of bucket, or of another window, say nothing of this one.
            Some(_) if self.started && (was_windowed != self.is_windowed() || was.per != is.per) => self.start_after_loss(now),
            Some(_) => self.clamp_to_capacity(),
        }
        has_learned
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::exhausted::{Exhausted, FIRST_INTERVAL};
    use crate::floor::Floor;
    use crate::plan::{BucketId, BucketPlan, OurPart, Refill, StartLevel};
    use crate::signal::Source;
    use crate::units::Span;

    const NOW: FleetTime = FleetTime::from_secs(1_800_000_000);
    const ALL: Forget = Forget { floors: true, learned: true, breakers: true, quotas: true };

    fn floor() -> Option<Floor> {
        Some(Floor { until: NOW + Span::from_secs(600), since: NOW, source: Source::RetryAfterSeconds })
    }

    fn bucket(group: &str, limit: Option<u64>) -> BucketState {
        let name: Arc<str> = Arc::from("requests");
        let mut bucket = BucketState::new(BucketPlan {
            id: BucketId { owner: Owner::Group(Arc::from(group)), name: name.clone() },
            meter: name,
            limit,
            per: Some(Span::from_secs(60)),
            capacity: None,
            burst: None,
            refill: Some(Refill::Continuous),
            calendar: None,
            start: StartLevel::Cautious,
            learn_above: false,
            ours: OurPart::default(),
        });
        bucket.learned.limit = Some(60);
        bucket.start(NOW, Milli::from_units(1));
        bucket.floor = floor();
        bucket
    }

    fn value() -> ScopeValue {
        let exhausted = Some(Exhausted { since: NOW, until: NOW + Span::from_secs(60), interval: FIRST_INTERVAL });
        let group = |key: &str| {
            let mut group = GroupState::new(Arc::from(key), false);
            (group.floor, group.exhausted, group.breaker.failures) = (floor(), exhausted, 5);
            group
        };
        let buckets = vec![bucket("gpt-4*", Some(600)), bucket("o1", None)];
        ScopeValue { buckets, groups: vec![group("gpt-4*"), group("o1")], floor: floor(), exhausted, ..ScopeValue::default() }
    }

    #[test]
    fn everything_that_is_touched_is_forgotten_and_no_level_rises() {
        let mut forgetful = value();
        let before = forgetful.buckets[0].level_at(NOW);
        let forgotten = forgetful.forget(&ALL, &Whom::default(), NOW);
        assert_eq!(forgotten, Forgotten { floors: 5, learned: 2, breakers: 2, quotas: 3 });
        assert_eq!(forgetful.floor, None);
        assert!(forgetful.buckets.iter().all(|bucket| bucket.floor.is_none()));
        assert_eq!(forgetful.buckets[0].effective().limit, Some(600), "what is configured holds");
        assert!(forgetful.buckets[0].level_at(NOW) <= before);
        assert_eq!(forgetful.buckets[1].level_at(NOW), None, "nothing is known of it any more");
        assert!(forgetful.forget(&ALL, &Whom::default(), NOW).is_nothing(), "there is nothing left");
    }

    #[test]
    fn one_model_leaves_the_others_and_the_account_alone() {
        let mut forgetful = value();
        let whom = Whom { model: Arc::from("gpt-4o"), ..Whom::default() };
        let forgotten = forgetful.forget(&ALL, &whom, NOW);
        assert_eq!(forgotten, Forgotten { floors: 2, learned: 1, breakers: 1, quotas: 1 });
        assert_eq!((forgetful.floor, forgetful.groups[1].floor), (floor(), floor()));
        let floors = Forget { learned: false, breakers: false, quotas: false, ..ALL };
        let mut forgetful = value();
        assert_eq!(forgetful.forget(&floors, &whom, NOW), Forgotten { floors: 2, ..Forgotten::default() });
    }
}
