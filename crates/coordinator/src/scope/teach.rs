//! Answers that came from here for calls that were sent elsewhere: a gateway chose another target than the one it was asked for.

use paceline_core::lease::{Charge, History, Lease, Repeat};
use paceline_core::report::{self, Outcome, Report};
use paceline_core::units::{FleetTime, Milli, Span};
use rand::Rng;

use super::{Effects, Input, Scope, TeachInput};

impl Scope {
    /// Learns from an answer to a call that has no lease here: nothing is settled, and its figures count as seen after everything
    /// that was granted so far. Returns whether calls that wait must be looked at again.
    pub(super) fn teach<R: Rng + ?Sized>(
        &mut self,
        answer: &TeachInput,
        now: FleetTime,
        rng: &mut R,
        fx: &mut Effects,
    ) -> bool {
        let Ok(plan) = self.plan(&answer.target.model) else { return false };
        let binding = self.value.bind(&plan, now);
        let serial = self.next_serial(now);
        let charges = binding.buckets.iter().filter_map(|index| self.value.buckets.get(*index)).map(|bucket| Charge {
            bucket: bucket.plan.id.clone(),
            amount: Milli::ZERO,
            mark: bucket.fired,
            window_end: bucket.window_end,
            held: bucket.is_held(),
            early: bucket.fired,
        });
        let lease = Lease {
            serial,
            stamp: serial,
            group: binding.plan.key.clone(),
            group_mark: self.value.groups.get(binding.group).map_or(0, |group| group.granted),
            charges: charges.collect(),
            class: answer.class,
            attempt: answer.attempt,
            asked_at: answer.sent_at,
            granted_at: answer.sent_at,
            send_at: answer.sent_at,
            use_by: answer.sent_at,
            ttl: Span::ZERO,
            hold_until: FleetTime::ZERO,
            deadline: None,
            repeat: Repeat::Unspecified,
            history: History::default(),
        };
        let facts = Report {
            outcome: Outcome::Response,
            signal: Some(&answer.signal),
            answered_at: now - answer.age,
            usage: None,
            is_final: true,
            is_open: false,
        };
        fx.changed = true;
        fx.take_again(Input::Teach(Box::new(answer.clone())));
        let done = report::apply(&mut self.value, &binding, &lease, &facts, now, rng);
        done.honored > Span::ZERO || done.limits_changed > 0
    }
}
