//! Several meters, all or nothing: a call passes when each meter it touches has room, and then each is charged.

use std::collections::HashMap;
use std::sync::Arc;

use paceline_core::units::{FleetTime, Milli, Span};

use crate::change::LimitChange;
use crate::charging::Charging;
use crate::limit::{Limit, LimitGroup, REQUESTS};
use crate::meter::{Drained, Meter, Reading};
use crate::provider::Call;

/// From this many models with meters of their own, further ones share those of [`OTHER`]: names come from outside.
pub const MOST_MODELS: usize = 1_024;
/// Whose meters they share.
pub const OTHER: &str = "other";

/// What became of a call at the gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It passed and was charged everywhere.
    Passed,
    /// One meter at least is short.
    Short(Shortage),
    /// It is larger than what a meter can ever hold.
    TooLarge(Shortage),
}

/// The meter a call waits for longest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// What it said when the call came.
    pub reading: Reading,
    /// What the call costs there, in units.
    pub cost: u64,
    /// What fits there at once, in units.
    pub most: u64,
    /// Until the call fits in every meter, if nobody else takes any; zero for one that never does.
    pub wait: Span,
}

/// A reading with its owner, for statistics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedReading {
    /// The group's pattern, or the model where each has its own.
    pub owner: Arc<str>,
    /// What the meter says.
    pub reading: Reading,
    /// What another consumer took of it so far.
    pub drained: Drained,
}

/// All meters of a provider.
#[derive(Clone, Debug)]
pub struct Gate {
    groups: Vec<Group>,
    sets: Vec<Set>,
    charging: Charging,
}

#[derive(Clone, Debug)]
struct Group {
    /// With the limits that hold now.
    config: LimitGroup,
    /// The limits it started with, in the same order.
    first: Vec<Limit>,
    shared: Option<usize>,
    by_model: HashMap<Arc<str>, usize>,
}

#[derive(Clone, Debug)]
struct Set {
    group: usize,
    owner: Arc<str>,
    meters: Vec<Meter>,
}

impl Gate {
    /// Full meters for these groups, whose limits must be valid.
    pub fn new(groups: &[LimitGroup]) -> Self {
        let mut gate = Self { groups: Vec::new(), sets: Vec::new(), charging: Charging::OnArrival };
        for (index, config) in groups.iter().enumerate() {
            let shared = (!config.each).then(|| gate.open(index, config, config.models.as_str()));
            let first = config.limits.clone();
            gate.groups.push(Group { config: config.clone(), first, shared, by_model: HashMap::new() });
        }
        gate
    }

    /// The same, charging this way.
    pub fn charging(self, charging: Charging) -> Self {
        Self { charging, ..self }
    }

    /// Charges the call in every meter it touches, or in none.
    pub fn admit(&mut self, now: FleetTime, call: &Call) -> Verdict {
        let route = self.route(&call.model);
        match self.shortage(&route, now, call, |_| Milli::ZERO) {
            Some(verdict) => verdict,
            None => {
                let charging = self.charging;
                self.each_meter(&route, |meter| meter.take(now, charge(charging, call, meter)));
                Verdict::Passed
            }
        }
    }

    /// When the call passes at the earliest if nobody else takes any, leaving so much of each window to others; an error names
    /// the meter it never fits.
    pub fn earliest(&mut self, now: FleetTime, call: &Call, others: impl Fn(&Meter) -> Milli) -> Result<FleetTime, Shortage> {
        let route = self.route(&call.model);
        match self.shortage(&route, now, call, others) {
            None | Some(Verdict::Passed) => Ok(now),
            // What fits in one meter after its own wait still fits after a longer one, so the longest wait is enough.
            Some(Verdict::Short(shortage)) => Ok(now + shortage.wait),
            Some(Verdict::TooLarge(shortage)) => Err(shortage),
        }
    }

    /// Charges a refused call: its requests, as far as there are any; it produced nothing else.
    pub fn waste(&mut self, now: FleetTime, call: &Call) {
        let route = self.route(&call.model);
        let charging = self.charging;
        self.each_meter(&route, |meter| {
            if &*meter.limit().meter == REQUESTS {
                meter.waste(now, charge(charging, call, meter));
            }
        });
    }

    /// Settles a call that was charged at `charged` and has ended.
    pub fn settle(&mut self, charged: FleetTime, now: FleetTime, call: &Call) {
        let (route, charging) = (self.route(&call.model), self.charging);
        self.each_meter(&route, |meter| {
            let change = charging.at_end(call, &meter.limit().meter);
            if change != Milli::ZERO {
                meter.settle(charged, now, change);
            }
        });
    }

    /// Another consumer takes so much of each limit, or what there is of it. Of limits that each model has for itself it takes
    /// from the first call of that model on.
    pub fn drain(&mut self, now: FleetTime, wanted: impl Fn(&Limit) -> Milli) {
        for meter in self.sets.iter_mut().flat_map(|set| &mut set.meters) {
            let wanted = wanted(meter.limit());
            meter.drain(now, wanted);
        }
    }

    /// It takes all of it, which may leave a debt.
    pub fn drain_in_full(&mut self, now: FleetTime, wanted: impl Fn(&Limit) -> Milli) {
        for meter in self.sets.iter_mut().flat_map(|set| &mut set.meters) {
            let wanted = wanted(meter.limit());
            meter.take(now, wanted);
        }
    }

    /// Puts new limits in force.
    pub fn change(&mut self, now: FleetTime, change: &LimitChange) {
        for (index, group) in self.groups.iter_mut().enumerate() {
            for position in 0..group.first.len() {
                let changed = group.first.get(position).and_then(|first| change.of(&group.config, first));
                let (Some(changed), Some(limit)) = (changed, group.config.limits.get_mut(position)) else { continue };
                let sets = self.sets.iter_mut().filter(|set| set.group == index);
                for meter in sets.filter_map(|set| set.meters.get_mut(position)) {
                    meter.change(now, &changed);
                }
                *limit = changed;
            }
        }
    }

    /// What the meters of a model say.
    pub fn readings(&mut self, now: FleetTime, model: &str) -> Vec<Reading> {
        let route = self.route(model);
        self.meters(&route).map(|meter| meter.reading(now)).collect()
    }

    /// What all meters say.
    pub fn all_readings(&self, now: FleetTime) -> Vec<OwnedReading> {
        let owned = |set: &Set, meter: &Meter| OwnedReading {
            owner: set.owner.clone(),
            reading: meter.reading(now),
            drained: meter.drained(),
        };
        self.sets.iter().flat_map(|set| set.meters.iter().map(|meter| owned(set, meter))).collect()
    }

    fn shortage(&self, route: &[usize], now: FleetTime, call: &Call, others: impl Fn(&Meter) -> Milli) -> Option<Verdict> {
        let mut longest: Option<Shortage> = None;
        for meter in self.meters(route) {
            let wait = meter.wait_leaving(now, charge(self.charging, call, meter), others(meter));
            let shortage = || Shortage {
                reading: meter.reading(now),
                cost: self.charging.on_arrival(call, &meter.limit().meter),
                most: meter.limit().capacity().as_units_floor(),
                wait: wait.unwrap_or(Span::ZERO),
            };
            match wait {
                None => return Some(Verdict::TooLarge(shortage())),
                Some(Span::ZERO) => {}
                Some(wait) if longest.as_ref().is_none_or(|longest| wait > longest.wait) => longest = Some(shortage()),
                Some(_) => {}
            }
        }
        longest.map(Verdict::Short)
    }

    /// The sets of meters a model touches; opens them where each model has its own.
    fn route(&mut self, model: &str) -> Vec<usize> {
        let mut route = Vec::new();
        for index in 0..self.groups.len() {
            let Some(group) = self.groups.get(index) else { continue };
            if !group.config.models.matches(model) {
                continue;
            }
            let known = group.by_model.len();
            let owner = if group.by_model.contains_key(model) || known < MOST_MODELS { model } else { OTHER };
            let set = group.shared.or_else(|| group.by_model.get(owner).copied());
            route.push(set.unwrap_or_else(|| self.open_for(index, owner)));
        }
        route
    }

    fn open_for(&mut self, group: usize, owner: &str) -> usize {
        let Some(config) = self.groups.get(group).map(|group| group.config.clone()) else { return usize::MAX };
        let set = self.open(group, &config, owner);
        if let Some(group) = self.groups.get_mut(group) {
            group.by_model.insert(owner.into(), set);
        }
        set
    }

    fn open(&mut self, group: usize, config: &LimitGroup, owner: &str) -> usize {
        self.sets.push(Set { group, owner: owner.into(), meters: config.limits.iter().map(Meter::new).collect() });
        self.sets.len() - 1
    }

    fn meters<'a>(&'a self, route: &'a [usize]) -> impl Iterator<Item = &'a Meter> {
        route.iter().filter_map(|set| self.sets.get(*set)).flat_map(|set| &set.meters)
    }

    fn each_meter(&mut self, route: &[usize], mut change: impl FnMut(&mut Meter)) {
        for set in route {
            let Some(set) = self.sets.get_mut(*set) else { continue };
            set.meters.iter_mut().for_each(&mut change);
        }
    }
}

fn charge(charging: Charging, call: &Call, meter: &Meter) -> Milli {
    Milli::from_units(charging.on_arrival(call, &meter.limit().meter))
}
