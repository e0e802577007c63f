//! What is simulated: a provider, a fleet, what the service is told, what happens meanwhile, and what is expected of us.
//!
//! A scenario is a file of about ten lines; `docs/simulate.md` explains every key. [`read`] turns the text into these types.

mod builtin;
mod judge;
mod quantities;
mod read;
mod replay;

use std::collections::BTreeMap;
use std::sync::Arc;

use paceline_core::plan::Class;
use paceline_core::units::Span;
use paceline_provider_sim::{Latency, Limit, ProviderConfig};

pub use builtin::{SUITE, Selection, Written, builtin, select, written};
pub use read::read;
pub use replay::replay;

use crate::calls::PastCall;

use crate::error::SimulateError;

/// One scenario.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Its name: that of its file.
    pub name: String,
    /// One sentence for people.
    pub about: String,
    /// The provider, except for its seed.
    pub provider: ProviderConfig,
    /// Who calls it.
    pub fleet: Vec<Part>,
    /// Calls of the past that it makes, each with the number of its part, in order of time; empty: calls are made up as the parts
    /// say.
    pub past: Arc<[(usize, PastCall)]>,
    /// What stands in front of it.
    pub service: ServiceSpec,
    /// What happens in the fleet meanwhile, in order of time.
    pub events: Vec<FleetEvent>,
    /// What is expected of ours.
    pub expect: Expect,
    /// Runs end here, whatever is left to do.
    pub at_most: Span,
}

/// A part of the fleet: workers that do the same.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// How many workers.
    pub workers: usize,
    /// How many calls they have to make together.
    pub calls: usize,
    /// For which model.
    pub model: Arc<str>,
    /// How urgent.
    pub class: Class,
    /// For whom.
    pub tenant: String,
    /// The tenant's weight.
    pub weight: u32,
    /// What calls cost, per meter.
    pub cost: BTreeMap<String, Amount>,
    /// What callers think it costs, as a multiple of what it does.
    pub estimate: f64,
    /// How often a call comes in, instead of all at once: the mean gap between two.
    pub every: Option<Span>,
    /// Over how long its workers start, each at some instant of it; zero: all at the same one.
    pub starts: Span,
    /// The longest a call waits for its slots; `None`: its class's.
    pub max_wait: Option<Span>,
    /// Of how many calls the worker wakes late from its wait, and by how much at most.
    pub oversleeps: Option<(f64, Span)>,
    /// How many callers go away while they wait, without a word.
    pub leave: f64,
}

/// How many units of a meter calls cost: drawn from one of these ranges, with these weights.
#[derive(Clone, Debug, PartialEq)]
pub struct Amount(pub Vec<(f64, u64, u64)>);

/// What stands between the fleet and the provider.
#[derive(Clone, Debug, PartialEq)]
pub struct ServiceSpec {
    /// Its configuration file.
    pub config: String,
    /// The provider's name in it.
    pub provider: String,
    /// The account's.
    pub account: String,
    /// How many replicas.
    pub replicas: usize,
    /// From a worker to a replica, one way.
    pub network: Span,
    /// From a replica to the store and back.
    pub store: Span,
    /// How many of the store's answers get lost.
    pub store_loss: f64,
    /// Whether it is told limits at all.
    pub knows_limits: bool,
}

/// Something that happens in the fleet.
#[derive(Clone, Debug, PartialEq)]
pub struct FleetEvent {
    /// When, from the start.
    pub at: Span,
    /// What.
    pub what: Happens,
}

/// What happens in the fleet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Happens {
    /// So many of the workers die, with whatever they hold; their calls are made by others later.
    WorkersCrash(f64),
    /// A replica dies with all it knows.
    ReplicaLost(usize),
    /// It is back, knowing nothing.
    ReplicaBack(usize),
    /// The store answers nobody for so long.
    StoreAway(Span),
}

/// What is expected of a run. What is not stated is not judged.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Expect {
    /// Makespan over the clairvoyant's, at most.
    pub makespan_ratio: Option<f64>,
    /// Rejected calls of all calls sent, at most.
    pub rejected_share: Option<f64>,
    /// Calls sent per call finished, at most.
    pub calls_per_job: Option<f64>,
    /// Jain's index, at least.
    pub jain: Option<f64>,
    /// The 99th percentile of the wait of all calls, at most.
    pub wait_p99: Option<Span>,
    /// The same of interactive calls.
    pub interactive_wait_p99: Option<Span>,
    /// Batch's part of what was served while others waited too, at least.
    pub batch_share: Option<f64>,
    /// Calls given up of all calls, at most; nothing stated: none may be.
    pub given_up_share: f64,
}

impl Scenario {
    /// How many workers there are.
    pub fn workers(&self) -> usize {
        self.fleet.iter().map(|part| part.workers).sum()
    }

    /// How many calls there are.
    pub fn calls(&self) -> usize {
        self.fleet.iter().map(|part| part.calls).sum()
    }

    /// The provider's limits.
    pub fn limits(&self) -> impl Iterator<Item = &Limit> {
        self.provider.groups.iter().flat_map(|group| &group.limits)
    }

    /// How long its answers take.
    pub fn latency(&self) -> &Latency {
        &self.provider.latency
    }

    /// Refuses what cannot be simulated.
    pub(crate) fn validate(&self) -> Result<(), SimulateError> {
        self.provider.validate().map_err(|error| self.bad(error.to_string()))?;
        if self.fleet.is_empty() || self.workers() == 0 || self.calls() == 0 {
            return Err(self.bad("there is nobody, or nothing to do: `fleet` needs `workers` and `calls`".to_owned()));
        }
        if self.workers() > MOST || self.calls() > MOST {
            return Err(self.bad(format!("more than {MOST} workers or calls would take too long")));
        }
        for part in &self.fleet {
            if part.workers == 0 {
                return Err(self.bad("a part of the fleet has calls and no workers".to_owned()));
            }
            for limit in self.limits() {
                let most = limit.capacity().as_units_floor();
                let largest = part.cost.get(&*limit.meter).map_or(1, Amount::largest);
                if largest > most {
                    let meter = &limit.meter;
                    return Err(self.bad(format!("calls cost up to {largest} {meter}, and the provider takes {most} at most")));
                }
            }
        }
        for event in &self.events {
            match event.what {
                Happens::ReplicaLost(index) | Happens::ReplicaBack(index) if index >= self.service.replicas => {
                    let replicas = self.service.replicas;
                    return Err(self.bad(format!("replica {index}: there are {replicas}, counted from 0")));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn bad(&self, problem: String) -> SimulateError {
        SimulateError::Scenario { name: self.name.clone(), problem }
    }
}

/// The most workers, and the most calls.
const MOST: usize = 1_000_000;

impl Amount {
    /// Always the same.
    pub fn fixed(units: u64) -> Self {
        Self(vec![(1.0, units, units)])
    }

    /// The most it can be.
    pub fn largest(&self) -> u64 {
        self.0.iter().map(|(_, _, most)| *most).max().unwrap_or(0)
    }

    /// What it is on average.
    pub fn mean(&self) -> f64 {
        let total: f64 = self.0.iter().map(|(weight, _, _)| weight).sum();
        let sum: f64 = self.0.iter().map(|(weight, least, most)| weight * (*least as f64 + *most as f64) / 2.0).sum();
        if total > 0.0 { sum / total } else { 0.0 }
    }
}
