//! What must hold, read from the grants.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use crate::faults::Fault;
use crate::workers::{Failure, Grant};
use crate::{CAPACITY, CAUTIOUS, PER_SECOND};

/// A decision is sent within the horizon of its class and its jitter, and as late as this machine is busy: by so much sends may lie
/// closer together than the decisions did.
const LAG: Duration = Duration::from_millis(500);
/// Two calls whose times are closer than this came together.
const TOGETHER: Duration = Duration::from_millis(400);
/// So long after a fault order is not exact: two may lead for a moment, and callers move.
const UNSETTLED: Duration = Duration::from_secs(6);

/// All that was seen.
pub(crate) struct Run {
    /// In the order of sending.
    pub(crate) grants: Vec<Grant>,
    pub(crate) failures: Vec<Failure>,
    pub(crate) faults: Vec<Fault>,
    /// Calls, and refused ones, as the provider counted.
    pub(crate) provider: (u64, u64),
    pub(crate) length: Duration,
}

impl Run {
    pub(crate) fn check(&self) {
        self.each_lease_once();
        let excess = self.most_above_the_line();
        assert!(excess <= 0.0, "I-1: {excess:.0} calls more than the limit and what losses may cost");
        let burst = self.largest_burst();
        assert!(burst <= CAPACITY + self.slack(self.length), "I-1: {burst:.0} calls beyond the refill in some window");
        for (fault, after) in self.after_losses() {
            assert!(after <= 2.0 * PER_SECOND + 2.5 * CAUTIOUS, "I-10: {after:.0} calls in 2 s after {:?}", fault.what);
        }
        let (inversions, compared) = self.inversions();
        assert!(inversions * 200 <= compared, "I-8: {inversions} of {compared} calls were overtaken");
        let (longest, ..) = self.longest_wait();
        assert!(longest <= Duration::from_secs(12), "a call waited {longest:?} for its slot");
        assert!(self.failures.len() * 100 <= self.grants.len(), "{} calls failed: {}", self.failures.len(), self.why());
        let (sends, refused) = self.provider;
        assert!(refused * 50 <= sends, "{refused} of {sends} calls were refused");
        let least = 0.75 * PER_SECOND * self.length.as_secs_f64();
        assert!(self.grants.len() as f64 >= least, "{} calls only", self.grants.len());
    }

    /// Figures to quote, one a line.
    pub(crate) fn figures(&self) -> String {
        let mut text = String::new();
        let (sends, refused) = self.provider;
        let _ = writeln!(text, "calls {} in {:?}, refused {refused} of {sends}", self.grants.len(), self.length);
        let (longest, median) = self.longest_wait();
        let _ = writeln!(text, "wait for a slot: median {median:.1?}, longest {longest:.1?}");
        let _ = writeln!(text, "I-1: at most {:.0} calls below the line of limit and losses", -self.most_above_the_line());
        let _ = writeln!(text, "I-1: largest burst beyond the refill {:.0}", self.largest_burst());
        for (fault, after) in self.after_losses() {
            let _ = writeln!(text, "I-10: {after:.0} calls in 2 s after: {}", fault.what);
        }
        let (inversions, compared) = self.inversions();
        let _ = writeln!(text, "I-8: {inversions} of {compared} calls overtaken while one leads");
        for fault in &self.faults {
            let normal = self.time_to_normal(fault).map_or("not before the end".to_owned(), |time| format!("{time:.1?}"));
            let _ = writeln!(text, "{:.0?}: {}: normal after {normal}", fault.at, fault.what);
        }
        let _ = writeln!(text, "asks and reports that failed: {} ({})", self.failures.len(), self.why());
        let by_second: Vec<String> = (0..self.length.as_secs()).map(|second| self.sent_in(second, 1).to_string()).collect();
        let _ = writeln!(text, "calls by second: {}", by_second.join(" "));
        text
    }

    fn each_lease_once(&self) {
        let mut seen = BTreeMap::new();
        for grant in &self.grants {
            let before = seen.insert(&grant.lease_id, grant);
            assert!(before.is_none(), "one lease for two calls: {before:?} and {grant:?}");
            assert_eq!(grant.requests, 1, "{grant:?}");
        }
    }

    /// By how much the calls sent so far were ever more than the start, the refill and the losses until then allow; negative: never.
    fn most_above_the_line(&self) -> f64 {
        let first = self.grants.first().map(|grant| grant.asked).unwrap_or_default();
        let above = self.grants.iter().enumerate().map(|(nth, grant)| {
            let allowed = CAUTIOUS + PER_SECOND * (grant.sent - first + LAG).as_secs_f64() + self.slack(grant.sent);
            (nth + 1) as f64 - allowed
        });
        above.fold(f64::NEG_INFINITY, f64::max)
    }

    /// What losses until then may have cost: each a cautious start, once.
    fn slack(&self, until: Duration) -> f64 {
        let losses = self.faults.iter().filter(|fault| fault.may_lose && fault.at <= until).count();
        CAUTIOUS * losses as f64
    }

    /// The most calls beyond the refill in any window.
    fn largest_burst(&self) -> f64 {
        let (mut lowest, mut largest) = (f64::INFINITY, 0.0_f64);
        for (nth, grant) in self.grants.iter().enumerate() {
            let beyond = nth as f64 - PER_SECOND * grant.sent.as_secs_f64();
            lowest = lowest.min(beyond);
            largest = largest.max(beyond + 1.0 - lowest);
        }
        largest
    }

    fn after_losses(&self) -> Vec<(&Fault, f64)> {
        let within = |fault: &Fault, grant: &Grant| grant.sent >= fault.at && grant.sent < fault.at + Duration::from_secs(2);
        let count = |fault: &Fault| self.grants.iter().filter(|grant| within(fault, grant)).count() as f64;
        self.faults.iter().filter(|fault| fault.may_lose).map(|fault| (fault, count(fault))).collect()
    }

    /// How many calls were sent clearly after one that had clearly been asked for later, faults aside; and of how many.
    fn inversions(&self) -> (usize, usize) {
        let is_settled = |at: Duration| self.faults.iter().all(|fault| at < fault.at || at > fault.at + UNSETTLED);
        let settled: Vec<&Grant> =
            self.grants.iter().filter(|grant| is_settled(grant.asked) && is_settled(grant.sent)).collect();
        // The latest ask of those sent clearly before.
        let (mut overtaken, mut before, mut latest) = (0, 0, Duration::ZERO);
        for grant in &settled {
            while settled[before].sent + TOGETHER < grant.sent {
                latest = latest.max(settled[before].asked);
                before += 1;
            }
            overtaken += usize::from(grant.asked + TOGETHER < latest);
        }
        (overtaken, settled.len())
    }

    fn longest_wait(&self) -> (Duration, Duration) {
        let mut waits: Vec<Duration> = self.grants.iter().map(|grant| grant.sent - grant.asked).collect();
        waits.sort_unstable();
        let at = |place: usize| waits.get(place).copied().unwrap_or_default();
        (at(waits.len().saturating_sub(1)), at(waits.len() / 2))
    }

    /// From a fault until three seconds in a row have at least four fifths of the limit.
    fn time_to_normal(&self, fault: &Fault) -> Option<Duration> {
        let step = Duration::from_millis(100);
        let mut from = fault.at;
        while from + Duration::from_secs(3) <= self.length {
            let is_normal = (0..3).all(|second| {
                let from = from + Duration::from_secs(second);
                let sent = self.grants.iter().filter(|grant| grant.sent >= from && grant.sent < from + Duration::from_secs(1));
                sent.count() as f64 >= 0.8 * PER_SECOND
            });
            if is_normal {
                return Some(from - fault.at);
            }
            from += step;
        }
        None
    }

    fn sent_in(&self, from_s: u64, seconds: u64) -> usize {
        let (from, until) = (Duration::from_secs(from_s), Duration::from_secs(from_s + seconds));
        self.grants.iter().filter(|grant| grant.sent >= from && grant.sent < until && !grant.was_refused).count()
    }

    /// Why calls failed, the most frequent reasons first.
    fn why(&self) -> String {
        let mut whys = BTreeMap::<String, (usize, Duration)>::new();
        for failure in &self.failures {
            let entry = whys.entry(failure.why.chars().take(160).collect()).or_insert((0, failure.at));
            entry.0 += 1;
        }
        let mut whys: Vec<_> = whys.into_iter().collect();
        whys.sort_by_key(|(_, (count, _))| std::cmp::Reverse(*count));
        let told = whys.iter().take(5).map(|(why, (count, first))| format!("{count} x {why}, first at {first:.0?}"));
        told.collect::<Vec<_>>().join("; ")
    }
}
