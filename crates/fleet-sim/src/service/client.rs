//! What a worker under the service does: `docs/workers.md`, step by step.

use paceline_coordinator::api::{AcquireRequest, DEFAULT_HOLD, Grant, ReportRequest, RetryAsk, Target};
use paceline_coordinator::scope::ReplyId;
use paceline_core::amounts::Amounts;
use paceline_core::report::Outcome;
use paceline_core::units::{FleetTime, Span};
use paceline_provider_sim::Answer;

use crate::engine::jobs::Job;
use crate::engine::went_through;
use crate::scenario::Part;

/// One worker's side of the conversation.
#[derive(Clone, Debug, Default)]
pub(super) struct Client {
    /// What it asks for.
    pub(super) request: AcquireRequest,
    /// The slot it has.
    pub(super) lease_id: String,
    /// Which replica it talks to.
    pub(super) replica: usize,
    /// The request it waits for an answer to.
    pub(super) waits_for: Option<ReplyId>,
    /// The report whose answer it waits for; sent again when none comes.
    pub(super) report: Option<Box<ReportRequest>>,
    /// What it planned before its plans changed is void.
    pub(super) serial: u32,
    /// How often in a row nobody answered.
    pub(super) failures: u32,
}

impl Client {
    /// Begins with a new call.
    pub(super) fn begin(&mut self, target: Target, part: &Part, job: &Job, name: String) {
        self.request = AcquireRequest {
            request_id: name,
            attempt: 1,
            target,
            cost: Amounts::from_pairs(job.stated.iter().map(|(meter, units)| (meter.as_str(), *units))),
            cost_estimated: part.estimate != 1.0,
            max_wait: part.max_wait,
            hold: DEFAULT_HOLD,
            class: part.class,
            tenant: part.tenant.clone(),
            ..AcquireRequest::default()
        };
        self.report = None;
        self.waits_for = None;
        self.serial += 1;
        self.failures = 0;
    }

    /// Takes a slot; returns when its time is over.
    pub(super) fn granted(&mut self, grant: &Grant, now: FleetTime) -> FleetTime {
        self.lease_id.clone_from(&grant.lease_id);
        now + grant.wait + grant.use_within
    }

    /// The next attempt of the same call.
    pub(super) fn next_attempt(&mut self) {
        self.request.attempt += 1;
        self.request.ticket = None;
        self.request.previous_lease_id = Some(self.lease_id.clone());
    }

    /// Says what the provider said.
    pub(super) fn report(&self, answer: Answer, job: &Job) -> ReportRequest {
        let is_refusal = !went_through(&answer);
        let usage = if is_refusal {
            Amounts::default()
        } else {
            let meters = job.stated.iter().map(|(meter, _)| meter.as_str());
            Amounts::from_pairs(meters.map(|meter| (meter, job.call.used().of(meter))))
        };
        ReportRequest {
            identity: String::new(),
            lease_id: self.lease_id.clone(),
            seq: 1,
            outcome: if answer.is_reset() { Outcome::ConnectionFailed } else { Outcome::Response },
            status: u32::from(answer.status),
            grpc_status: None,
            headers: answer.headers,
            body: if is_refusal { answer.body.into_bytes() } else { Vec::new() },
            usage,
            usage_estimated: false,
            is_final: true,
            age: Span::ZERO,
            served_by: String::new(),
            retry: is_refusal.then(RetryAsk::default),
            decide_here: false,
        }
    }
}
