//! The provider: one call in, one answer out. Time, calls and configuration are arguments; nothing else decides.

use std::sync::Arc;

use paceline_core::units::{FleetTime, Span};

use crate::change::LimitChange;
use crate::charging::Charging;
use crate::clairvoyant::{self, Due};
use crate::dialect::{self, Dialect, HeaderPolicy, Refusal, Telling};
use crate::error::SimError;
use crate::gate::{OwnedReading, Verdict};
use crate::latency::Latency;
use crate::limit::{Limit, LimitGroup, REQUESTS};
use crate::other::OtherConsumer;
use crate::outage::{Failure, Outage};
use crate::world::World;

/// What a call costs, in units per meter. A call that states no `requests` costs one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cost(Vec<(Arc<str>, u64)>);

impl Cost {
    /// One request and nothing else.
    pub fn one() -> Self {
        Self::default()
    }

    /// The same and so many units of another meter; replaces what was stated for it.
    pub fn with(mut self, meter: &str, units: u64) -> Self {
        self.0.retain(|(name, _)| &**name != meter);
        self.0.push((meter.into(), units));
        self
    }

    /// Units of a meter.
    pub fn of(&self, meter: &str) -> u64 {
        let stated = self.0.iter().find(|(name, _)| &**name == meter).map(|(_, units)| *units);
        stated.unwrap_or(u64::from(meter == REQUESTS))
    }
}

/// Which API a call was made to; decides the shape of the answer's body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Endpoint {
    /// `POST /v1/chat/completions` (OpenAI and all that imitate it).
    #[default]
    ChatCompletions,
    /// `POST /v1/messages` (Anthropic).
    Messages,
    /// Anything else.
    Other,
}

/// A call as it arrives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The model it is for.
    pub model: Arc<str>,
    /// What it states to cost: input, and output at most.
    pub cost: Cost,
    /// What it turns out to have cost; `None`: what it stated. See [`Charging`].
    pub used: Option<Cost>,
    /// How long its answer takes; `None`: as the provider's [`Latency`] has it.
    pub takes: Option<Span>,
    /// Where it was sent.
    pub endpoint: Endpoint,
    /// Whether it asked for a stream of events.
    pub stream: bool,
}

impl Call {
    /// A chat completion.
    pub fn new(model: &str, cost: Cost) -> Self {
        Self { model: model.into(), cost, used: None, takes: None, endpoint: Endpoint::ChatCompletions, stream: false }
    }

    /// What it turns out to have cost.
    pub fn used(&self) -> &Cost {
        self.used.as_ref().unwrap_or(&self.cost)
    }
}

/// Why a call was answered as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The meters had room; it was charged.
    Accepted,
    /// A meter was short.
    Refused,
    /// It is larger than the limit: no wait would help.
    TooLarge,
    /// It came in an outage: see [`Outage`].
    Down,
    /// It was among the first calls, which are answered as configured ([`FirstCalls`]).
    Scripted,
}

/// An answer and when it comes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// HTTP status; 0 where there is no answer: see [`Answer::is_reset`].
    pub status: u16,
    /// Header names (lower case) and values.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: String,
    /// From the call's arrival to this answer.
    pub latency: Span,
    /// Why.
    pub outcome: Outcome,
}

impl Answer {
    /// Whether the connection was reset instead of an answer.
    pub fn is_reset(&self) -> bool {
        self.status == 0
    }

    /// The value of the first header with this (lower-case) name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// How the first calls are answered, whatever the meters say: the simplest test of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirstCalls {
    /// How many.
    pub count: u64,
    /// With which status, from 200 to 599.
    pub status: u16,
    /// `Retry-After`, in seconds; with `retry-after-ms` when it is no whole number of them.
    pub retry_after: Option<Span>,
    /// Further headers, sent as they are.
    pub headers: Vec<(String, String)>,
    /// The body; `None`: the dialect's error body.
    pub body: Option<String>,
}

/// What kind of provider it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProviderConfig {
    /// How it answers.
    pub dialect: Dialect,
    /// What it limits. Empty: everything passes.
    pub groups: Vec<LimitGroup>,
    /// Which headers it sends at all.
    pub headers: HeaderPolicy,
    /// Whether the error's text leaves out when to try again.
    pub mute_body: bool,
    /// Whether refused calls are charged (their requests, as far as there are any).
    pub charge_refused: bool,
    /// How long answers take.
    pub latency: Latency,
    /// What the first calls get.
    pub first: Option<FirstCalls>,
    /// When output is charged.
    pub charging: Charging,
    /// When it is down.
    pub outages: Vec<Outage>,
    /// Limits that become others.
    pub changes: Vec<LimitChange>,
    /// Who else uses the account.
    pub other: Option<OtherConsumer>,
    /// Decides latencies and the other consumer's instants.
    pub seed: u64,
}

impl ProviderConfig {
    /// A provider with one set of limits for all models and no latency.
    pub fn metering(dialect: Dialect, limits: Vec<Limit>) -> Self {
        Self { dialect, groups: vec![LimitGroup::shared(limits)], ..Self::default() }
    }

    /// Refuses what no provider can do; says what to change.
    pub fn validate(&self) -> Result<(), SimError> {
        self.groups.iter().flat_map(|group| &group.limits).try_for_each(Limit::validate)?;
        self.latency.validate()?;
        self.outages.iter().try_for_each(Outage::validate)?;
        self.changes.iter().try_for_each(|change| change.validate(&self.groups))?;
        self.other.as_ref().map_or(Ok(()), OtherConsumer::validate)?;
        let Some(first) = &self.first else { return Ok(()) };
        if !(200..=599).contains(&first.status) {
            return Err(SimError::BadStatus { status: first.status });
        }
        first.headers.iter().try_for_each(|(name, value)| dialect::validate_header(name, value))
    }
}

/// A provider with its meters.
#[derive(Clone, Debug)]
pub struct Provider {
    config: ProviderConfig,
    world: World,
    arrived: u64,
    accepted: u64,
}

impl Provider {
    /// A provider that nobody has called yet: every meter is full. Outages and changes count from the epoch.
    pub fn new(config: ProviderConfig) -> Result<Self, SimError> {
        Self::starting_at(config, FleetTime::ZERO)
    }

    /// The same; outages, changes and the other consumer's visits count from `start`.
    pub fn starting_at(config: ProviderConfig, start: FleetTime) -> Result<Self, SimError> {
        config.validate()?;
        let world = World::new(&config, start);
        Ok(Self { config, world, arrived: 0, accepted: 0 })
    }

    /// What it was made from.
    pub fn config(&self) -> &ProviderConfig {
        &self.config
    }

    /// Decides and answers one call. Calls must be given in the order of their arrival; an earlier time than the last one's
    /// counts as the last one's.
    pub fn arrive(&mut self, now: FleetTime, call: &Call) -> Answer {
        self.arrive_telling(now, call, Telling::Everything)
    }

    /// The same, with so much of the answer written out: in simulations of many calls that takes most of the time.
    pub fn arrive_telling(&mut self, now: FleetTime, call: &Call, telling: Telling) -> Answer {
        self.arrived += 1;
        if let Some(first) = self.config.first.as_ref().filter(|first| self.arrived <= first.count) {
            let answer = dialect::scripted(self.arrived, now, call, self.config.dialect, first);
            let latency = if first.status < 400 { self.next_latency() } else { self.config.latency.refused };
            return answered(answer, latency, Outcome::Scripted);
        }
        if let Some(answer) = self.down(now, call) {
            return answer;
        }
        match self.world.admit(now, call) {
            Verdict::Passed => {
                let latency = call.takes.unwrap_or_else(|| self.config.latency.draw(self.config.seed, self.accepted));
                self.accepted += 1;
                self.world.will_end(now, now + latency, call);
                answered(self.told(now, call, None, telling), latency, Outcome::Accepted)
            }
            Verdict::Short(shortage) => {
                if self.config.charge_refused {
                    self.world.gate_at(now).waste(now, call);
                }
                let told = self.told(now, call, Some(Refusal::Short(shortage)), telling);
                answered(told, self.config.latency.refused, Outcome::Refused)
            }
            Verdict::TooLarge(shortage) => {
                let told = self.told(now, call, Some(Refusal::TooLarge(shortage)), telling);
                answered(told, self.config.latency.refused, Outcome::TooLarge)
            }
        }
    }

    /// What all meters hold now, and what the other consumer took of each.
    pub fn levels(&mut self, now: FleetTime) -> Vec<OwnedReading> {
        self.world.gate_at(now).all_readings(now)
    }

    /// From `now`: how fast `workers` could finish these calls on this provider if they knew its meters, and all that will
    /// happen to them, exactly. See [`clairvoyant`] for what that assumes. The provider itself is not touched.
    pub fn clairvoyant_makespan(&self, now: FleetTime, calls: &[Call], workers: usize) -> Result<Span, SimError> {
        let calls: Vec<Due<'_>> = calls.iter().map(|call| Due { from: Span::ZERO, call }).collect();
        self.clairvoyant_makespan_of(now, &calls, workers)
    }

    /// The same for calls that come one by one, given in the order they come.
    pub fn clairvoyant_makespan_of(&self, now: FleetTime, calls: &[Due<'_>], workers: usize) -> Result<Span, SimError> {
        let nth = self.accepted;
        let latency =
            |sent: u64, call: &Call| call.takes.unwrap_or_else(|| self.config.latency.draw(self.config.seed, nth + sent));
        clairvoyant::finish(self.world.clone(), now, calls, workers, latency)
    }

    /// The answer of an outage, if there is one.
    fn down(&mut self, now: FleetTime, call: &Call) -> Option<Answer> {
        let (outage, remaining) = self.world.outage(now)?;
        let (failure, wait, charged) = (outage.failure, outage.told(remaining), outage.charged);
        if charged {
            self.world.gate_at(now).waste(now, call);
        }
        let told = match failure {
            Failure::Status(status) => dialect::down(self.arrived, now, call, self.config.dialect, status, wait),
            Failure::Reset => dialect::Told { status: 0, headers: Vec::new(), body: String::new() },
        };
        Some(answered(told, self.config.latency.refused, Outcome::Down))
    }

    fn told(&mut self, now: FleetTime, call: &Call, refusal: Option<Refusal>, telling: Telling) -> dialect::Told {
        let readings = match telling {
            Telling::WaitsOnly => Vec::new(),
            Telling::Everything | Telling::NoCompletions => self.world.gate_at(now).readings(now, &call.model),
        };
        let facts = dialect::Facts { number: self.arrived, now, call, refusal: refusal.as_ref(), readings, telling };
        dialect::told(&self.config, &facts)
    }

    fn next_latency(&mut self) -> Span {
        self.accepted += 1;
        self.config.latency.draw(self.config.seed, self.accepted - 1)
    }
}

fn answered(told: dialect::Told, latency: Span, outcome: Outcome) -> Answer {
    Answer { status: told.status, headers: told.headers, body: told.body, latency, outcome }
}
