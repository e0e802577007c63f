//! A scope in virtual time: the value, the queue, a clock that only tests move, and a seed.

use std::collections::BTreeMap;
use std::sync::Arc;

use paceline_core::amounts::Amounts;
use paceline_core::bucket::BucketState;
use paceline_core::decide::{self, Decision, Slot};
use paceline_core::delays::DelayPart;
use paceline_core::denial::Denial;
use paceline_core::lease::{History, Lease, Repeat, Serial};
use paceline_core::plan::{Class, GroupPlan, Weight};
use paceline_core::queue::{Ask, AskId, Queue};
use paceline_core::report::{self, Outcome, Report, Reported};
use paceline_core::signal::Signal;
use paceline_core::tally::Sent;
use paceline_core::units::{FleetTime, Span};
use paceline_core::usage::{CallKind, Form};
use paceline_core::value::ScopeValue;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// When every world begins: not zero, which means "never".
pub const START: FleetTime = FleetTime::from_secs(1_800_000_000);

/// One scope, its callers and its clock.
pub struct World {
    pub value: ScopeValue,
    pub queue: Queue,
    pub now: FleetTime,
    pub rng: ChaCha8Rng,
    /// When the core wants to be asked again.
    pub look: Option<FleetTime>,
    /// Leases granted and not settled.
    pub open: BTreeMap<AskId, Lease>,
    /// Everything granted, in the order of decision.
    pub granted: Vec<Granted>,
    /// Everything denied, in the order of decision.
    pub denied: Vec<Denied>,
    sequence: u64,
    recheck: bool,
}

/// A grant and when it was decided.
#[derive(Clone)]
pub struct Granted {
    pub ask: Ask,
    pub slot: Slot,
    pub at: FleetTime,
}

/// A denial and when it was decided.
#[derive(Clone)]
pub struct Denied {
    pub ask: Ask,
    pub denial: Denial,
    pub delays: Vec<DelayPart>,
    pub at: FleetTime,
}

impl World {
    pub fn new(seed: u64) -> Self {
        Self {
            value: ScopeValue::default(),
            queue: Queue::default(),
            now: START,
            rng: ChaCha8Rng::seed_from_u64(seed),
            look: None,
            open: BTreeMap::new(),
            granted: Vec::new(),
            denied: Vec::new(),
            sequence: 0,
            recheck: false,
        }
    }

    /// A normal call for `plan` that costs one request and waits an hour if it must; change its fields at will.
    pub fn ask(&mut self, plan: &Arc<GroupPlan>) -> Ask {
        self.sequence += 1;
        Ask {
            id: self.sequence,
            stamp: Serial { at: self.now, replica: 1, sequence: self.sequence },
            sent: Sent::default(),
            class: Class::Normal,
            tenant: Arc::from("default"),
            weight: Weight::ONE,
            plan: plan.clone(),
            cost: Amounts::from_pairs([("requests", 1)]),
            kind: CallKind::new(&plan.key, ""),
            cost_estimated: false,
            asked_at: self.now,
            entered_at: self.now,
            wait_until: self.now + Span::from_secs(3_600),
            until_deadline: false,
            run: Span::ZERO,
            honor_cap: Span::from_secs(3_600),
            not_before: None,
            pause: None,
            ttl: Span::from_secs(60),
            prior: Vec::new(),
        }
    }

    /// Puts `count` such calls in line.
    pub fn push_many(&mut self, plan: &Arc<GroupPlan>, count: usize) {
        for _ in 0..count {
            let ask = self.ask(plan);
            self.push(ask);
        }
    }

    pub fn push(&mut self, ask: Ask) -> AskId {
        let id = ask.id;
        self.queue.push(ask, self.now);
        id
    }

    /// One pass now.
    pub fn decide(&mut self) {
        let recheck = std::mem::take(&mut self.recheck);
        let pass = decide::decide(&mut self.value, &mut self.queue, self.now, recheck, &mut self.rng);
        self.look = pass.look_again_at;
        if let Some(look) = self.look {
            assert!(look > self.now, "asks to look again at {look:?}, and it is {:?}", self.now);
        }
        for (ask, decision) in pass.decided {
            match decision {
                Decision::Granted(slot) => {
                    self.open.insert(ask.id, lease_of(&ask, &slot, self.now));
                    self.granted.push(Granted { ask, slot: *slot, at: self.now });
                }
                Decision::Denied(denial, delays) => self.denied.push(Denied { ask, denial, delays, at: self.now }),
            }
        }
    }

    /// Decides now and whenever the core asks to, up to `time`, where it stops.
    pub fn run_until(&mut self, time: FleetTime) {
        self.decide();
        while let Some(look) = self.look.filter(|look| *look <= time) {
            self.now = look;
            self.decide();
        }
        self.now = self.now.max(time);
    }

    /// The same for a length of time.
    pub fn run_for(&mut self, span: Span) {
        self.run_until(self.now + span);
    }

    /// Decides whenever the core asks to until nobody waits, for a day at most.
    pub fn run_dry(&mut self) {
        let end = self.now + Span::from_secs(86_400);
        self.decide();
        while let Some(look) = self.look.filter(|look| *look <= end && !self.queue.is_empty()) {
            self.now = look;
            self.decide();
        }
    }

    /// Puts one call in line and runs until it is decided; its send time, or the denial.
    pub fn acquire(&mut self, ask: Ask) -> Result<Granted, Box<Denied>> {
        let id = self.push(ask);
        self.decide();
        while self.queue.get(id).is_some() {
            self.now = self.look.expect("something must happen some day");
            self.decide();
        }
        match self.granted.iter().rev().find(|granted| granted.ask.id == id) {
            Some(granted) => Ok(granted.clone()),
            None => Err(Box::new(self.denied.iter().rev().find(|denied| denied.ask.id == id).expect("decided").clone())),
        }
    }

    /// Reports an answer to an open lease that came just now, and ends the lease.
    pub fn answer(&mut self, id: AskId, signal: &Signal) -> Reported {
        self.report(id, Some(signal), Some(self.now), None, true)
    }

    /// Reports an answer; `usage` settles it.
    pub fn report(
        &mut self,
        id: AskId,
        signal: Option<&Signal>,
        answered_at: Option<FleetTime>,
        usage: Option<&Amounts>,
        is_final: bool,
    ) -> Reported {
        let lease = self.open.get(&id).expect("an open lease").clone();
        let said = Report {
            outcome: Outcome::Response,
            signal,
            answered_at: answered_at.unwrap_or(self.now),
            usage,
            is_final,
            is_open: true,
        };
        let done = self.apply(&lease, &said);
        if let Some(usage) = usage.filter(|_| is_final) {
            let granted = self.granted.iter().rev().find(|granted| granted.ask.id == id).expect("granted").ask.clone();
            let form = Form::of(&granted.cost).max(Form::of(usage));
            self.value.note_usage(&granted.kind, &granted.plan, form, usage, self.now);
        }
        match (is_final, self.open.get_mut(&id)) {
            (true, _) => drop(self.open.remove(&id)),
            (false, Some(open)) => open.hold_until = done.hold_until,
            (false, None) => {}
        }
        done
    }

    /// The connection of an open lease failed: nothing was sent.
    pub fn connection_fails(&mut self, id: AskId) {
        let lease = self.open.remove(&id).expect("an open lease");
        let said = Report {
            outcome: Outcome::ConnectionFailed,
            signal: None,
            answered_at: self.now,
            usage: None,
            is_final: true,
            is_open: true,
        };
        self.apply(&lease, &said);
    }

    /// Applies a report to any lease, also one that is settled.
    pub fn apply(&mut self, lease: &Lease, said: &Report<'_>) -> Reported {
        let plan =
            self.granted.iter().rev().find(|granted| granted.ask.stamp == lease.serial).expect("granted").ask.plan.clone();
        let binding = self.value.bind(&plan, self.now);
        let done = report::apply(&mut self.value, &binding, lease, said, self.now, &mut self.rng);
        self.recheck |= done.honored > Span::ZERO || done.limits_changed > 0;
        done
    }

    /// Floors or limits have changed: everybody's bounds are looked at again in the next pass.
    pub fn recheck(&mut self) {
        self.recheck = true;
    }

    /// Gives an unused lease back.
    pub fn release(&mut self, id: AskId) {
        let lease = self.open.remove(&id).expect("an open lease");
        report::release(&mut self.value, &lease);
    }

    /// Send times relative to the start, in the order of decision.
    pub fn sends(&self) -> Vec<Span> {
        self.granted.iter().map(|granted| granted.slot.send_at - START).collect()
    }

    /// The first bucket with this name.
    pub fn bucket(&self, name: &str) -> Option<&BucketState> {
        self.value.buckets.iter().find(|bucket| &*bucket.plan.id.name == name)
    }

    /// The level of the bucket with this name now, in whole units; panics when there is none.
    pub fn level(&self, name: &str) -> f64 {
        self.bucket(name).expect("such a bucket").level_at(self.now).expect("a known level").as_units_f64()
    }
}

/// The lease of a grant decided at `now`.
pub fn lease_of(ask: &Ask, slot: &Slot, now: FleetTime) -> Lease {
    Lease {
        serial: ask.stamp,
        stamp: ask.stamp,
        group: slot.group.clone(),
        group_mark: slot.group_mark,
        charges: slot.charges.clone(),
        class: ask.class,
        attempt: 1,
        asked_at: ask.asked_at,
        granted_at: now,
        send_at: slot.send_at,
        use_by: slot.send_at + Span::from_secs(2),
        ttl: ask.ttl,
        hold_until: slot.hold_until,
        deadline: None,
        repeat: Repeat::Safe,
        history: History::default(),
    }
}

/// So many seconds after the start.
pub fn at(secs: f64) -> FleetTime {
    START + Span::from_secs_f64(secs).expect("a length of time")
}
