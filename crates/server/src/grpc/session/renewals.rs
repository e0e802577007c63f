//! The leases of a stream, and when each is renewed next: whoever is connected need not say that its calls still run.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use paceline_core::units::Span;
use paceline_proto::v1;
use paceline_proto::v1::acquire_response::Outcome;
use paceline_proto::v1::session_response::Answer;
use tokio::time::Instant;

/// The most leases of one stream that are renewed; those that come later are for their workers to renew.
const MOST_LEASES: usize = 100_000;
/// The most calls of which it is remembered which slot they were told.
const MOST_UNUSED: usize = 4_096;
/// No lease is renewed more often than this.
const LEAST_PERIOD: Duration = Duration::from_millis(100);

/// A lease that a call was about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Lease {
    /// Something was reported of it.
    Reported(Arc<str>),
    /// It was given back.
    Released(Arc<str>),
}

/// Who is renewed when.
#[derive(Debug, Default)]
pub(super) struct Renewals {
    by_lease: HashMap<Arc<str>, (Instant, Duration)>,
    by_time: BTreeSet<(Instant, Arc<str>)>,
    /// Slots that were told and of which nothing was said yet, by the number of their call.
    unused: HashMap<u64, Arc<str>>,
    /// Those whose call was cancelled: the cancel and the slot have crossed.
    crossed: HashSet<Arc<str>>,
}

impl Renewals {
    /// Notes what a call's last answer means for leases: a grant begins one, a report goes on with one or ends it.
    pub(super) fn note(&mut self, call: u64, lease: Option<Lease>, answer: &Answer, now: Instant) {
        if let Some(Lease::Reported(lease) | Lease::Released(lease)) = &lease {
            self.crossed.remove(lease);
        }
        match (lease, answer) {
            (Some(Lease::Reported(lease)), Answer::Report(told)) => {
                self.renewed(&lease, told.ttl.as_ref().map(span), now);
            }
            // What follows the report that ended it.
            (Some(Lease::Reported(lease)), Answer::Acquire(_)) | (Some(Lease::Released(lease)), Answer::Release(_)) => {
                self.forget(&lease);
            }
            _ => {}
        }
        match answer {
            Answer::Acquire(answer) => self.granted(call, answer, now),
            Answer::Report(v1::ReportResponse { next: Some(answer), .. }) => self.granted(call, answer, now),
            _ => {}
        }
    }

    /// A lease lives for `ttl` from now on; `None`: it is over.
    pub(super) fn renewed(&mut self, lease: &Arc<str>, ttl: Option<Span>, now: Instant) {
        self.forget(lease);
        if let Some(ttl) = ttl {
            let period = period_of(ttl);
            self.plan(lease.clone(), now + period, period);
        }
    }

    /// When the next one is due.
    pub(super) fn next_at(&self) -> Option<Instant> {
        self.by_time.first().map(|(at, _)| *at)
    }

    /// Those that are due, at most `most` of them. One that is not heard of again is due again after a third of its ttl.
    pub(super) fn due(&mut self, now: Instant, most: usize) -> Vec<Arc<str>> {
        let mut due = Vec::new();
        while due.len() < most
            && self.next_at().is_some_and(|at| at <= now)
            && let Some((_, lease)) = self.by_time.pop_first()
        {
            due.push(lease);
        }
        for lease in &due {
            if let Some((_, period)) = self.by_lease.remove(lease) {
                self.plan(lease.clone(), now + period, period);
            }
        }
        due
    }

    /// A call was cancelled that had its last answer already: a slot in it is not used, and its caller gives it back as soon as it hears.
    pub(super) fn cancelled(&mut self, call: u64) {
        let told = self.unused.get(&call).filter(|lease| self.by_lease.contains_key(*lease));
        self.crossed.extend(told.cloned());
    }

    /// The slots that crossed a cancel and were not given back, now that the stream is over.
    pub(super) fn left_behind(&mut self) -> impl Iterator<Item = Arc<str>> {
        let Self { crossed, by_lease, .. } = self;
        crossed.drain().filter(|lease| by_lease.contains_key(lease))
    }

    fn granted(&mut self, call: u64, answer: &v1::AcquireResponse, now: Instant) {
        let Some(Outcome::Grant(grant)) = &answer.outcome else { return };
        // What is let through unseen holds nothing.
        let Some(ttl) = grant.ttl.as_ref().filter(|_| answer.mode() != v1::Mode::Off) else { return };
        let (wait, period) = (grant.wait.as_ref().map_or(Span::ZERO, span), period_of(span(ttl)));
        let lease: Arc<str> = Arc::from(grant.lease_id.as_str());
        self.forget(&lease);
        // Numbers are used again, and a cancel comes soon: the last few are enough.
        if self.unused.len() >= MOST_UNUSED {
            self.unused.clear();
        }
        self.unused.insert(call, lease.clone());
        self.plan(lease, now + wait.to_duration() + period, period);
    }

    fn plan(&mut self, lease: Arc<str>, at: Instant, period: Duration) {
        if self.by_lease.len() < MOST_LEASES {
            self.by_lease.insert(lease.clone(), (at, period));
            self.by_time.insert((at, lease));
        }
    }

    fn forget(&mut self, lease: &Arc<str>) {
        if let Some((at, _)) = self.by_lease.remove(lease) {
            self.by_time.remove(&(at, lease.clone()));
        }
    }
}

/// A length of time in one of our own answers.
pub(super) fn span(told: &prost_types::Duration) -> Span {
    Span::from_secs(told.seconds) + Span::from_micros(i64::from(told.nanos) / 1_000)
}

fn period_of(ttl: Span) -> Duration {
    (ttl.to_duration() / 3).max(LEAST_PERIOD)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: i64) -> Option<prost_types::Duration> {
        Some(prost_types::Duration { seconds, nanos: 0 })
    }

    fn grant(lease_id: &str, wait: i64, ttl: i64) -> Answer {
        let grant = v1::Grant { lease_id: lease_id.into(), wait: seconds(wait), ttl: seconds(ttl), ..v1::Grant::default() };
        let mode = v1::Mode::Enforce.into();
        Answer::Acquire(v1::AcquireResponse { outcome: Some(Outcome::Grant(grant)), mode, ..v1::AcquireResponse::default() })
    }

    fn reported(ttl: Option<i64>) -> Answer {
        Answer::Report(v1::ReportResponse { ttl: ttl.and_then(seconds), ..v1::ReportResponse::default() })
    }

    fn after(start: Instant, seconds: u64) -> Instant {
        start + Duration::from_secs(seconds)
    }

    #[test]
    fn a_lease_is_renewed_each_third_of_its_ttl_until_it_is_over() {
        let (mut renewals, start) = (Renewals::default(), Instant::now());
        let lease: Arc<str> = Arc::from("a");
        renewals.note(1, None, &grant("a", 3, 60), start);
        assert_eq!(renewals.next_at(), Some(after(start, 23)), "counted from when it is sent");
        assert!(renewals.due(after(start, 22), 9).is_empty());
        assert_eq!(renewals.due(after(start, 23), 9), [Arc::<str>::from("a")]);
        assert_eq!(renewals.next_at(), Some(after(start, 43)), "also when nothing is heard of it");
        // A report of the worker does the same.
        renewals.note(1, Some(Lease::Reported(lease.clone())), &reported(Some(60)), after(start, 30));
        assert_eq!(renewals.next_at(), Some(after(start, 50)));
        renewals.note(1, Some(Lease::Reported(lease.clone())), &reported(None), after(start, 31));
        assert_eq!(renewals.next_at(), None);
        assert!(renewals.by_lease.is_empty());
    }

    #[test]
    fn leases_end_with_their_release_and_with_what_follows_them() {
        let (mut renewals, start) = (Renewals::default(), Instant::now());
        renewals.note(1, None, &grant("a", 0, 60), start);
        renewals.note(
            1,
            Some(Lease::Released(Arc::from("a"))),
            &Answer::Release(v1::ReleaseResponse { released: true }),
            start,
        );
        assert_eq!(renewals.next_at(), None);
        renewals.note(1, None, &grant("b", 0, 60), start);
        renewals.note(1, Some(Lease::Reported(Arc::from("b"))), &grant("c", 0, 30), start);
        assert_eq!(renewals.due(after(start, 60), 9), [Arc::<str>::from("c")]);
    }

    #[test]
    fn many_are_taken_a_part_at_a_time_and_the_bound_holds() {
        let (mut renewals, start) = (Renewals::default(), Instant::now());
        (0..MOST_LEASES + 10).for_each(|number| renewals.note(1, None, &grant(&number.to_string(), 0, 60), start));
        assert_eq!(renewals.by_time.len(), MOST_LEASES);
        assert_eq!(renewals.due(after(start, 20), 64).len(), 64);
        assert_eq!(renewals.by_time.len(), MOST_LEASES);
    }

    #[test]
    fn a_slot_that_crossed_a_cancel_is_left_behind_unless_its_caller_gave_it_back() {
        let (mut renewals, start) = (Renewals::default(), Instant::now());
        for (call, lease) in [(1, "a"), (2, "b"), (3, "c"), (4, "d")] {
            renewals.note(call, None, &grant(lease, 0, 60), start);
        }
        [1, 2, 3, 3, 9].into_iter().for_each(|call| renewals.cancelled(call));
        renewals.note(
            5,
            Some(Lease::Released(Arc::from("b"))),
            &Answer::Release(v1::ReleaseResponse { released: true }),
            start,
        );
        renewals.note(6, Some(Lease::Reported(Arc::from("c"))), &reported(Some(60)), start);
        assert_eq!(renewals.left_behind().collect::<Vec<_>>(), [Arc::<str>::from("a")], "d was not cancelled, and c is in use");
        for call in 0..2 * MOST_UNUSED as u64 {
            renewals.note(call, None, &grant(&call.to_string(), 0, 60), start);
        }
        assert!(renewals.unused.len() <= MOST_UNUSED);
    }
}
