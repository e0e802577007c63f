//! What people on call have said, as it holds in one scope: modes, pauses, limits; and what they want forgotten.

use paceline_core::controls::{Called, OfScope, Pause};
use paceline_core::forget::Forget;
use paceline_core::mode::{Mode, Modes};
use paceline_core::plan::Class;
use paceline_core::units::FleetTime;

use super::{Effects, Input, Reply, ReplyId, Scope};
use crate::api::{AcquireRequest, CallError, DEFAULT_TENANT};
use crate::scope::input::ForgetInput;

impl Scope {
    /// Takes over what the settings in force say of people's controls.
    pub(super) fn hear_controls(&mut self, now: FleetTime) {
        self.controls = OfScope::of(&self.settings.controls(), &self.target.provider, &self.target.account, now);
    }

    /// Lets go what is over, and keeps to limits that are newer than those in the value. Returns whether waiting calls are to be looked
    /// at again.
    pub(super) fn obey(&mut self, now: FleetTime, fx: &mut Effects) -> bool {
        let is_over = self.end_controls(now);
        let is_newer = self.value.obey(self.controls.limits(), now);
        fx.changed |= is_newer;
        is_over || is_newer
    }

    /// Lets go what is over. Returns whether anything was.
    pub(super) fn end_controls(&mut self, now: FleetTime) -> bool {
        if !self.has_heard {
            self.has_heard = true;
            self.hear_controls(now);
        }
        let is_over = self.controls.expire(now);
        if is_over {
            self.replan_waiting(now);
        }
        is_over
    }

    /// When the next control ends for which somebody may wait.
    pub(super) fn next_end_of_control(&self) -> Option<FleetTime> {
        self.controls.next_end().filter(|_| !self.calls.is_empty())
    }

    /// The mode of a call now: what people have said, else what its group says, and what its tenant says; whichever interferes less.
    pub(super) fn mode_of(&mut self, request: &AcquireRequest) -> Mode {
        let Ok(plan) = self.plan(&request.target.model) else { return Mode::Enforce };
        let tenants = self.settings.tenant_modes(&request.tenant);
        let modes = if self.controls.is_empty() {
            plan.modes.and(tenants)
        } else {
            let class = self.class_of(request);
            self.controls.modes(&called(request, class), plan.modes, tenants)
        };
        modes.only().unwrap_or_else(|| modes.of(super::mode::draw_of(&request.request_id)))
    }

    /// The pause that holds up a call which is treated as of this class.
    pub(super) fn pause_of(&self, model: &str, tenant: &str, class: Class) -> Option<Pause> {
        self.controls.pause(&Called { model, tenant: named(tenant), class })
    }

    /// The modes of all calls, or all of a group, as people are shown them.
    pub(super) fn modes_shown(&self, group: Option<&str>, planned: Modes) -> Modes {
        self.controls.modes_of_all(group, planned)
    }

    fn class_of(&self, request: &AcquireRequest) -> Class {
        request.class.max(self.settings.tenant(named(&request.tenant)).max_priority)
    }

    /// Forgets what a person wants forgotten; waiting calls are looked at again.
    pub(super) fn forget(&mut self, reply: ReplyId, input: Box<ForgetInput>, now: FleetTime, fx: &mut Effects) -> bool {
        if self.alone.is_some() {
            let why = "the store does not answer: what is forgotten now would come back with it".to_owned();
            fx.answer(reply, Reply::Forgotten(Err(CallError::Unavailable(why))), None);
            return false;
        }
        let ForgetInput { what, whom, .. } = &*input;
        let mut value = self.value.clone();
        let forgotten = value.forget(what, whom, now);
        if forgotten.is_nothing() || input.is_trial {
            fx.answer(reply, Reply::Forgotten(Ok(forgotten)), None);
            return false;
        }
        self.value = value;
        if what.floors {
            self.line.disregard_floors_of(&self.value, now);
        }
        fx.bind(reply, Input::Forget(reply, input));
        fx.answer(reply, Reply::Forgotten(Ok(forgotten)), None);
        true
    }
}

impl ForgetInput {
    /// What is forgotten; `is_trial`: nothing, it is only counted.
    pub fn new(what: Forget, whom: paceline_core::controls::Whom, is_trial: bool) -> Self {
        Self { what, whom, is_trial }
    }
}

fn called<'a>(request: &'a AcquireRequest, class: Class) -> Called<'a> {
    Called { model: &request.target.model, tenant: named(&request.tenant), class }
}

/// The tenant; who names none is `default`.
fn named(tenant: &str) -> &str {
    if tenant.is_empty() { DEFAULT_TENANT } else { tenant }
}
