//! Which replica decides about a scope: one at a time, so that order is exact and nobody's commit is in another's way.
//!
//! A lead makes nothing safe by itself: every commit is fenced by the version it was decided on. Who believes to lead while
//! another does only costs order and a second try.

use std::sync::Arc;

use crate::units::{FleetTime, Span};

/// A lead lasts this long after the leader's last commit.
pub const LEADS_FOR: Span = Span::from_secs(1);

/// The replica that leads a scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leader {
    /// Its number.
    pub replica: u32,
    /// Where other replicas reach it: `host:port`.
    pub address: Arc<str>,
    /// Until when, unless it commits again.
    pub until: FleetTime,
}

impl Leader {
    /// Whether it leads at `now`.
    pub fn holds_at(&self, now: FleetTime) -> bool {
        now < self.until
    }
}

/// Who leads after a commit by `replica` at `now`: itself, unless another one does; a replica without an address cannot lead.
pub fn after_commit(standing: Option<&Leader>, replica: u32, address: Option<&Arc<str>>, now: FleetTime) -> Option<Leader> {
    match (standing.filter(|leader| leader.replica != replica && leader.holds_at(now)), address) {
        (Some(other), _) => Some(other.clone()),
        (None, Some(address)) => Some(Leader { replica, address: address.clone(), until: now + LEADS_FOR }),
        (None, None) => None,
    }
}

/// Calls are looked at in stretches of this length at least ...
const STRETCH: Span = Span::from_secs(1);
/// ... and of so many calls.
const LEAST_CALLS: u32 = 8;
/// So many stretches in a row must say the same before a lead is handed over.
const STRETCHES: u32 = 5;

/// Where the calls of a scope come from, as its leader sees it. When nearly all of them come in at one other replica and are sent on from
/// there, that one should lead: each call takes a hop for nothing.
///
/// A lead that moves costs a moment of order, so it must not swing: five stretches of a second and eight calls, in each of which
/// nineteen of twenty came from the same replica. Where calls come in evenly none of these stretches is likely, let alone five.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    since: FleetTime,
    calls: u32,
    /// Where the first call of this stretch was sent on from, and how many since.
    from: Option<u32>,
    from_there: u32,
    /// Whence nearly all came in the last stretches, and in how many in a row.
    heir: Option<u32>,
    stretches: u32,
}

impl Traffic {
    /// A call came, at `now`, which another replica has sent on or nobody.
    pub fn note(&mut self, sent_on_by: Option<u32>, now: FleetTime) {
        if self.calls == 0 {
            (self.since, self.from, self.from_there) = (now, sent_on_by, 0);
        }
        self.calls += 1;
        self.from_there += u32::from(sent_on_by.is_some() && sent_on_by == self.from);
        if self.calls >= LEAST_CALLS && now.since(self.since) >= STRETCH {
            let nearly_all = self.from.filter(|_| u64::from(self.from_there) * 20 >= u64::from(self.calls) * 19);
            self.stretches = if nearly_all.is_some() && nearly_all == self.heir { self.stretches + 1 } else { 1 };
            (self.heir, self.calls) = (nearly_all, 0);
        }
    }

    /// The replica that should lead instead.
    pub fn heir(&self) -> Option<u32> {
        self.heir.filter(|_| self.stretches >= STRETCHES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: FleetTime = FleetTime::from_secs(1_800_000_000);

    #[test]
    fn a_lead_is_taken_renewed_kept_from_others_and_inherited() {
        let (mine, theirs): (Arc<str>, Arc<str>) = (Arc::from("a:1"), Arc::from("b:1"));
        let first = after_commit(None, 1, Some(&mine), NOW).unwrap();
        assert_eq!((first.replica, first.until), (1, NOW + LEADS_FOR));
        let half = NOW + Span::from_millis(500);
        assert_eq!(after_commit(Some(&first), 2, Some(&theirs), half).unwrap(), first, "a commit of another takes nothing");
        let renewed = after_commit(Some(&first), 1, Some(&mine), half).unwrap();
        assert_eq!(renewed.until, half + LEADS_FOR);
        assert_eq!(after_commit(Some(&first), 2, Some(&theirs), NOW + LEADS_FOR).unwrap().replica, 2, "its time is over");
        assert_eq!(after_commit(None, 2, None, NOW), None, "nobody could reach it");
    }

    /// The first call, by number, after which somebody else should lead.
    fn handed_over(calls: u32, every: Span, from: impl Fn(u32) -> Option<u32>) -> Option<(u32, u32)> {
        let (mut traffic, mut now) = (Traffic::default(), NOW);
        (0..calls).find_map(|call| {
            traffic.note(from(call), now);
            now = now + every;
            traffic.heir().map(|heir| (call, heir))
        })
    }

    #[test]
    fn a_lead_follows_its_calls_after_some_seconds() {
        let tenth = Span::from_millis(100);
        assert_eq!(handed_over(200, tenth, |_| Some(7)), Some((54, 7)), "five stretches of a second");
        let some_of_ours = |call: u32| (call % 25 != 20).then_some(7);
        assert!(handed_over(800, Span::from_millis(10), some_of_ours).is_some(), "one in twenty-five comes here");
        assert_eq!(handed_over(400, tenth, |call| (call % 10 != 3).then_some(7)), None, "one in ten does");
        assert_eq!(handed_over(39, Span::from_secs(2), |_| Some(7)), None, "a few calls say nothing");
        assert_eq!(handed_over(400, tenth, |_| None), None, "they come here");
        // Another replica within the five seconds begins them anew.
        assert_eq!(handed_over(100, tenth, |call| Some(if call < 50 { 7 } else { 8 })), None);
    }

    proptest::proptest! {
        /// However calls fall, as long as no replica is preferred.
        #[test]
        fn under_equal_shares_nothing_is_handed_over(seed: u64, replicas in 2_u32..6, every in 1_i64..400, in_turn: bool) {
            let from = |call: u32| {
                let mixed = (seed ^ u64::from(call)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 33;
                let at = if in_turn { u64::from(call) } else { mixed } % u64::from(replicas);
                u32::try_from(at).ok().filter(|at| *at > 0)
            };
            proptest::prop_assert_eq!(handed_over(3_000, Span::from_millis(every), from), None);
        }
    }
}
