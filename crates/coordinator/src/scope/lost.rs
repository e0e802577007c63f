//! Commits that were on their way when the store fell silent: nobody knew whether they were written, and nobody heard of what they
//! granted. When the store answers again its lineage tells; then nothing stays taken for calls that never began.

use paceline_core::alone::Alone;
use paceline_core::lease::{Lease, Serial};
use paceline_core::lineage::Lineage;
use paceline_core::report;
use paceline_core::units::FleetTime;
use paceline_core::value::ScopeValue;

use super::input::GivenBack;
use super::{Input, ReleaseInput, ReplyId, Scope};
use crate::record::{CallKey, Kept};

/// A commit of which nobody knows whether it was written.
#[derive(Clone, Debug)]
pub struct LostCommit {
    /// Its name: a value that includes it was written after it.
    pub lineage: Lineage,
    /// What it would write, where that can be read.
    pub value: Option<ScopeValue>,
    /// What it granted.
    pub(super) unheard: Vec<Unheard>,
}

/// A lease that nobody heard of.
#[derive(Clone, Debug)]
pub(super) struct Unheard {
    pub(super) key: CallKey,
    pub(super) lease: Lease,
}

/// What was done alone, until it is written for sure: another replica's commit may come first.
#[derive(Clone, Debug)]
pub(super) struct Return {
    pub(super) alone: Alone,
    pub(super) local: ScopeValue,
    pub(super) lost: Vec<LostCommit>,
}

impl LostCommit {
    /// A commit that would write `value`.
    pub fn new(lineage: Lineage, value: Option<ScopeValue>) -> Self {
        Self { lineage, value, unheard: Vec::new() }
    }
}

impl Return {
    /// The value to go on with, when the store holds `stored`, and the leases of lost commits in it whose calls were not granted
    /// anew here (as `is_anew` says).
    pub(super) fn with(
        &self,
        mut stored: ScopeValue,
        stored_at: FleetTime,
        is_anew: impl Fn(&Unheard) -> bool,
        now: FleetTime,
    ) -> (ScopeValue, Vec<Unheard>) {
        let mut alone = self.alone.clone();
        let mut written: Vec<&Unheard> = Vec::new();
        for commit in &self.lost {
            if !stored.lineage.includes(&commit.lineage) {
                commit.unheard.iter().for_each(|unheard| alone.unsent(&unheard.lease));
                continue;
            }
            written.extend(&commit.unheard);
            if let Some(mut value) = commit.value.clone() {
                written.iter().for_each(|unheard| report::release(&mut value, &unheard.lease));
                alone.was_written(value);
            }
        }
        let (anew, open): (Vec<_>, Vec<_>) = written.into_iter().partition(|unheard| is_anew(unheard));
        // The call has another lease by now: this one is as if it had never been.
        anew.into_iter().for_each(|unheard| report::release(&mut stored, &unheard.lease));
        (alone.end(&stored, stored_at, &self.local, now), open.into_iter().cloned().collect())
    }
}

impl Scope {
    /// Whether what was done alone is yet to be joined with what the store holds: then [`Scope::rejoin`] adopts a value.
    pub fn is_returning(&self) -> bool {
        self.alone.is_some() || self.back.is_some()
    }

    /// The lease of a lost commit is over: its call was granted another one here.
    pub(super) fn is_granted_anew(&self, unheard: &Unheard) -> bool {
        let record = self.pending.get(&unheard.key).map(|change| &change.record);
        record.is_some_and(|record| matches!(record, Kept::Call(record) if record.lease.serial != unheard.lease.serial))
    }

    /// What is to be done about leases that were stored and that nobody heard of: whoever waits here is told its own, the others are
    /// given back, unless another replica has told them. `number` names an answer that nobody waits for.
    pub fn settle_unheard(&mut self, mut number: impl FnMut() -> ReplyId) -> Vec<Input> {
        let target = self.target.clone();
        let settled = std::mem::take(&mut self.unheard).into_iter().map(|Unheard { key, lease }| {
            if self.by_key.contains_key(&key) {
                return Input::Taken(key);
            }
            let serial: Serial = lease.serial;
            let what = GivenBack::Lease(serial);
            let release = ReleaseInput { target: target.clone(), key: Some(key), what, place: None, is_unheard: true };
            Input::Release(number(), Box::new(release))
        });
        settled.collect()
    }
}
