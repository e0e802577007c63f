//! What became of each call, for whoever keeps it: recordings that are simulated later.
//!
//! A trace names models, accounts and tenants as metrics do. It holds no header, no body, no label and no identity, and a hash in
//! place of the name that a caller gave its call.

mod line;

use std::collections::BTreeMap;

use paceline_core::denial::Reason;
use paceline_core::plan::Class;
use paceline_core::report::Outcome;
use paceline_core::retry::Verdict;
use paceline_core::units::{FleetTime, Span};

use crate::api::{AcquireRequest, Answer, NotApplied, ReportAnswer, Target};
use crate::record::CallKey;
use crate::scope::ReportInput;
use crate::wire;

pub use line::{FORM, Heading, Line};

/// One attempt that ended, or a call that was denied before it was sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Traced {
    /// Stands for the call: the same for all its attempts.
    pub call: u64,
    /// From 1.
    pub attempt: u32,
    /// When the attempt was first asked for.
    pub asked_at: FleetTime,
    /// Where it was sent, or was to be sent.
    pub target: Target,
    /// How urgent.
    pub class: Class,
    /// For whom; never empty.
    pub tenant: String,
    /// What its caller said it costs, in units per meter.
    pub stated: BTreeMap<String, u64>,
    /// What it used, in units per meter, as reported; empty: nobody said.
    pub used: BTreeMap<String, u64>,
    /// From its first ask until its slot.
    pub waited: Span,
    /// From its slot until the answer; `None`: it was never sent.
    pub took: Option<Span>,
    /// How it ended.
    pub ended: Ended,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It was not sent, for this reason.
    Denied(Reason),
    /// It was sent.
    Sent {
        /// How it went.
        outcome: Outcome,
        /// HTTP status of a response; 0: none.
        status: u32,
        /// What its worker was told to do.
        verdict: Verdict,
    },
}

/// Is told of every attempt that ended. Called on the way of an answer to its caller: it must not wait for anything.
pub trait Trace: Send + Sync {
    /// Takes note of one.
    fn ended(&self, traced: Traced);
}

/// A call that was denied; `None`: it was not.
pub(crate) fn of_answer(request: &AcquireRequest, target: Target, answer: &Answer, now: FleetTime) -> Option<Traced> {
    let Answer::Denied(denied) = answer else { return None };
    let waited = denied.delays.iter().fold(Span::ZERO, |sum, part| sum + part.length);
    Some(Traced {
        call: number(&request.identity, &request.tenant, &request.request_id),
        attempt: request.attempt.max(1),
        asked_at: now - waited,
        target,
        class: request.class,
        tenant: request.tenant.clone(),
        stated: request.cost.iter().map(|(meter, units)| (meter.to_owned(), units)).collect(),
        used: BTreeMap::new(),
        waited,
        took: None,
        ended: Ended::Denied(denied.denial.reason),
    })
}

/// An attempt that ended with this report; `None`: it goes on, or was told before.
pub(crate) fn of_report(input: &ReportInput, answer: &ReportAnswer, now: FleetTime) -> Option<Traced> {
    let verdict = answer.verdict.filter(|_| matches!(answer.not_applied, None | Some(NotApplied::LeaseExpired)))?;
    let wire = input.lease.as_ref().filter(|_| input.is_authentic)?;
    let lease = wire::lease_of(wire);
    let answered_at = now - input.request.age;
    Some(Traced {
        call: number(&wire.identity, &wire.tenant, &wire.request_id),
        attempt: lease.attempt,
        asked_at: lease.asked_at,
        target: Target { provider: wire.provider.clone(), account: wire.account.clone(), model: wire.model.clone() },
        class: lease.class,
        tenant: wire.tenant.clone(),
        stated: wire.cost.clone(),
        used: input.request.usage.iter().map(|(meter, units)| (meter.to_owned(), units)).collect(),
        waited: lease.waited(),
        took: Some(answered_at.since(lease.send_at)),
        ended: Ended::Sent { outcome: input.request.outcome, status: input.request.status, verdict },
    })
}

/// A call that was denied the next attempt that its report asked for.
pub(crate) fn of_next(ended: &Traced, answer: &ReportAnswer, now: FleetTime) -> Option<Traced> {
    let Some(Answer::Denied(denied)) = &answer.next else { return None };
    let waited = denied.delays.iter().fold(Span::ZERO, |sum, part| sum + part.length);
    Some(Traced {
        attempt: ended.attempt.saturating_add(1),
        asked_at: now - waited,
        used: BTreeMap::new(),
        waited,
        took: None,
        ended: Ended::Denied(denied.denial.reason),
        ..ended.clone()
    })
}

fn number(identity: &str, tenant: &str, request_id: &str) -> u64 {
    let key = CallKey::new(identity, tenant, request_id, 1);
    key.0.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
}
