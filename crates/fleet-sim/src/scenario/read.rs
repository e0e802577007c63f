//! A scenario file, as written.

use std::collections::BTreeMap;
use std::sync::Arc;

use paceline_core::plan::Class;
use paceline_core::units::Span;
use paceline_provider_sim::{
    Charging, Comeback, Dialect, Failure, HeaderPolicy, Latency, Limit, LimitChange, LimitGroup, Metering, NewLimits,
    OtherConsumer, Outage, ProviderConfig, parse_percent,
};
use serde::{Deserialize, Deserializer};

use super::quantities::{Length, Limits, Part as Share, Units};
use super::{Amount, Expect, FleetEvent, Happens, Part, Scenario, ServiceSpec};
use crate::error::SimulateError;

/// Where the account of the service's configuration is called.
const ACCOUNT: &str = "fleet";
/// From a worker to the service, where nothing is said.
const NETWORK: Span = Span::from_millis(1);
/// Runs end after so much time, where nothing is said.
const AT_MOST: Span = Span::from_secs(7_200);
/// What an answer takes, where nothing is said.
const LATENCY: Latency =
    Latency { usual: Span::from_millis(800), jitter: Span::from_millis(400), refused: Span::from_millis(50) };

/// Reads a scenario file. `name` is what it is called in tables, `file` what it is called in messages.
///
/// # Errors
/// What is wrong with it, with line, column and the line itself.
pub fn read(name: &str, file: &str, text: &str) -> Result<Scenario, SimulateError> {
    let scenario = parse(file, text)?.into_scenario(name)?;
    scenario.validate()?;
    Ok(scenario)
}

/// As written, before anything is made of it.
pub(super) fn parse(file: &str, text: &str) -> Result<File, SimulateError> {
    serde_saphyr::from_str(text)
        .map_err(|error| SimulateError::File { file: file.to_owned(), problem: error.to_string().trim_end().to_owned() })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    #[serde(default)]
    about: String,
    provider: Provider,
    #[serde(default)]
    fleet: Fleet,
    #[serde(default)]
    service: Service,
    #[serde(default)]
    events: Vec<Event>,
    #[serde(default)]
    expect: Expected,
    at_most: Option<Length>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Provider {
    limits: Limits,
    #[serde(default)]
    dialect: Word<Dialect>,
    #[serde(default)]
    headers: Word<HeaderPolicy>,
    #[serde(default)]
    metering: Word<Metering>,
    #[serde(default)]
    mute_body: bool,
    #[serde(default)]
    charge_refused: bool,
    #[serde(default)]
    charging: Word<Charging>,
    other: Option<Word<OtherConsumer>>,
    latency: Option<Length>,
    latency_jitter: Option<Length>,
    latency_refused: Option<Length>,
}

/// One part of the fleet, or several.
#[derive(Default)]
struct Fleet(Vec<FleetPart>);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FleetPart {
    workers: usize,
    calls: usize,
    #[serde(default = "model")]
    model: String,
    #[serde(default)]
    class: ClassName,
    #[serde(default)]
    tenant: String,
    #[serde(default = "one")]
    weight: u32,
    #[serde(default)]
    cost: BTreeMap<String, Units>,
    #[serde(default = "unit")]
    estimate: f64,
    every: Option<Length>,
    starts: Option<Length>,
    max_wait: Option<Length>,
    oversleeps: Option<Oversleeps>,
    #[serde(default = "nothing")]
    leave: Share,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Oversleeps {
    share: Share,
    by: Length,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Service {
    #[serde(default)]
    limits: Known,
    #[serde(default)]
    start_level: StartLevel,
    #[serde(default = "yes")]
    learn_above: Option<bool>,
    config: Option<String>,
    replicas: Option<usize>,
    network: Option<Length>,
    store: Option<Length>,
    store_loss: Option<Share>,
}

/// What the service is told of the limits.
#[derive(Default)]
enum Known {
    #[default]
    Told,
    Unknown,
    As(Vec<Limit>),
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum StartLevel {
    #[default]
    Full,
    Cautious,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ClassName {
    Interactive,
    #[default]
    Normal,
    Batch,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Event {
    at: Length,
    limits: Option<Change>,
    outage: Option<Length>,
    status: Option<u16>,
    retry_after: Option<Word<Comeback>>,
    workers_crash: Option<Share>,
    replica_lost: Option<usize>,
    replica_back: Option<usize>,
    store_away: Option<Length>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Expected {
    makespan_ratio: Option<f64>,
    rejected_share: Option<Share>,
    calls_per_job: Option<f64>,
    jain: Option<f64>,
    wait_p99: Option<Length>,
    interactive_wait_p99: Option<Length>,
    batch_share: Option<Share>,
    given_up_share: Option<Share>,
}

fn model() -> String {
    "gpt-4o".to_owned()
}

fn one() -> u32 {
    1
}

fn unit() -> f64 {
    1.0
}

fn nothing() -> Share {
    Share(0.0)
}

fn yes() -> Option<bool> {
    Some(true)
}

impl File {
    pub(super) fn into_scenario(mut self, name: &str) -> Result<Scenario, SimulateError> {
        let fleet = std::mem::take(&mut self.fleet).0.into_iter().map(FleetPart::into_part).collect();
        self.with_fleet(name, fleet)
    }

    /// The scenario of another fleet.
    pub(super) fn with_fleet(self, name: &str, fleet: Vec<Part>) -> Result<Scenario, SimulateError> {
        let bad = |problem: String| SimulateError::Scenario { name: name.to_owned(), problem };
        let dialect = self.provider.dialect.0;
        let mut provider = self.provider.into_config();
        let service = self.service.into_spec(dialect, &provider, &fleet);
        let mut events = Vec::new();
        for event in self.events {
            match event.into_what().map_err(bad)? {
                What::Fleet(event) => events.push(event),
                What::Outage(outage) => provider.outages.push(outage),
                What::Change(change) => provider.changes.push(change),
            }
        }
        events.sort_by_key(|event| event.at);
        Ok(Scenario {
            name: name.to_owned(),
            about: self.about,
            provider,
            fleet,
            past: Arc::default(),
            service,
            events,
            expect: self.expect.into_expect(),
            at_most: self.at_most.map_or(AT_MOST, |length| length.0),
        })
    }
}

impl Provider {
    fn into_config(self) -> ProviderConfig {
        let limits: Vec<Limit> = self.limits.0.into_iter().map(|limit| limit.metered(self.metering.0)).collect();
        let latency = Latency {
            usual: self.latency.map_or(LATENCY.usual, |length| length.0),
            jitter: self
                .latency_jitter
                .map_or_else(|| self.latency.map_or(LATENCY.jitter, |length| length.0.scaled(0.5)), |length| length.0),
            refused: self.latency_refused.map_or(LATENCY.refused, |length| length.0),
        };
        ProviderConfig {
            dialect: self.dialect.0,
            groups: vec![LimitGroup::shared(limits)],
            headers: self.headers.0,
            mute_body: self.mute_body,
            charge_refused: self.charge_refused,
            charging: self.charging.0,
            other: self.other.map(|other| other.0),
            latency,
            ..ProviderConfig::default()
        }
    }
}

impl FleetPart {
    fn into_part(self) -> Part {
        Part {
            workers: self.workers,
            calls: self.calls,
            model: self.model.into(),
            class: match self.class {
                ClassName::Interactive => Class::Interactive,
                ClassName::Normal => Class::Normal,
                ClassName::Batch => Class::Batch,
            },
            tenant: self.tenant,
            weight: self.weight.max(1),
            cost: self.cost.into_iter().map(|(meter, units)| (meter, units.0)).collect::<BTreeMap<String, Amount>>(),
            estimate: self.estimate.clamp(0.001, 1_000.0),
            every: self.every.map(|length| length.0),
            starts: self.starts.map_or(Span::ZERO, |length| length.0),
            max_wait: self.max_wait.map(|length| length.0),
            oversleeps: self.oversleeps.map(|oversleeps| (oversleeps.share.0, oversleeps.by.0)),
            leave: self.leave.0,
        }
    }
}

impl Service {
    fn into_spec(self, dialect: Dialect, provider: &ProviderConfig, fleet: &[Part]) -> ServiceSpec {
        let name = if dialect == Dialect::OpenAi { "openai" } else { "generic" };
        let config = self.config.clone().unwrap_or_else(|| self.configuration(name, provider, fleet));
        ServiceSpec {
            config,
            provider: name.to_owned(),
            account: ACCOUNT.to_owned(),
            replicas: self.replicas.unwrap_or(1).max(1),
            network: self.network.map_or(NETWORK, |length| length.0),
            store: self.store.map_or(Span::ZERO, |length| length.0),
            store_loss: self.store_loss.map_or(0.0, |share| share.0),
            knows_limits: !matches!(self.limits, Known::Unknown),
        }
    }

    /// What a person would write into the service's configuration file.
    fn configuration(&self, name: &str, provider: &ProviderConfig, fleet: &[Part]) -> String {
        let told: Vec<Limit> = match &self.limits {
            Known::Told => provider.groups.iter().flat_map(|group| &group.limits).cloned().collect(),
            Known::Unknown => Vec::new(),
            Known::As(limits) => limits.clone(),
        };
        let models: std::collections::BTreeSet<&str> = fleet.iter().map(|part| &*part.model).collect();
        let settings = format!(
            "start_level: {}, learn_above: {}",
            match self.start_level {
                StartLevel::Full => "full",
                StartLevel::Cautious => "cautious",
            },
            self.learn_above.unwrap_or(true)
        );
        let metering = provider.groups.iter().flat_map(|group| &group.limits).map(|limit| limit.metering).next();
        let limits = told.iter().map(|limit| limit_text(limit, metering)).collect::<Vec<_>>().join(", ");
        // Models that share the provider's meters share a bucket of ours; only where there are several does that need saying.
        let account = match (limits.is_empty(), models.len()) {
            (true, _) => format!("{{{settings}}}"),
            (false, 0 | 1) => {
                let model = models.iter().next().copied().unwrap_or("*");
                format!("{{{settings}, models: {{\"{model}\": {{limits: {{{limits}}}}}}}}}")
            }
            (false, _) => {
                let groups = models.iter().map(|model| format!("\"{model}\": {{uses: [together]}}"));
                let groups = groups.collect::<Vec<_>>().join(", ");
                format!("{{{settings}, shared: {{together: {{limits: {{{limits}}}}}}}, models: {{{groups}}}}}")
            }
        };
        // Who has the weight that everybody has need not be named.
        let weights = fleet.iter().filter(|part| !part.tenant.is_empty() && part.weight != 1);
        let tenants: std::collections::BTreeSet<String> =
            weights.map(|part| format!("\"{}\": {{weight: {}}}", part.tenant, part.weight)).collect();
        let tenants: Vec<String> = tenants.into_iter().collect();
        let providers = format!("providers: {{{name}: {{accounts: {{{ACCOUNT}: {account}}}}}}}\n");
        if tenants.is_empty() { providers } else { format!("{providers}tenants: {{{}}}\n", tenants.join(", ")) }
    }
}

/// A limit as the configuration has it.
fn limit_text(limit: &Limit, metering: Option<Metering>) -> String {
    let micros = limit.per.as_micros();
    let per = if micros % 1_000_000 == 0 { format!("{}s", micros / 1_000_000) } else { format!("{}ms", micros / 1_000) };
    let burst = limit.burst.map_or_else(String::new, |burst| format!(", burst: {burst}"));
    let refill = match metering {
        Some(Metering::FixedWindow { .. }) => ", refill: window",
        _ => "",
    };
    format!("{}: {{limit: {}, per: {per}{burst}{refill}}}", limit.meter, limit.units)
}

/// What an event is about.
enum What {
    Fleet(FleetEvent),
    Outage(Outage),
    Change(LimitChange),
}

impl Event {
    fn into_what(self) -> Result<What, String> {
        let at = self.at.0;
        if self.outage.is_none() && (self.status.is_some() || self.retry_after.is_some()) {
            return Err(format!("the event at {at}: `status` and `retry_after` belong to an `outage`"));
        }
        let fleet = |what| What::Fleet(FleetEvent { at, what });
        let failure = match self.status {
            Some(0) => Failure::Reset,
            Some(status) => Failure::Status(status),
            None => Failure::Status(503),
        };
        let comeback = self.retry_after.map(|word| word.0).unwrap_or_default();
        let mut all = [
            self.outage.map(|length| What::Outage(Outage { failure, comeback, ..Outage::new(at, length.0) })),
            self.limits.map(|change| What::Change(LimitChange { at, to: change.0 })),
            self.workers_crash.map(|share| fleet(Happens::WorkersCrash(share.0))),
            self.replica_lost.map(|index| fleet(Happens::ReplicaLost(index))),
            self.replica_back.map(|index| fleet(Happens::ReplicaBack(index))),
            self.store_away.map(|length| fleet(Happens::StoreAway(length.0))),
        ]
        .into_iter()
        .flatten();
        let what = all.next().ok_or_else(|| format!("the event at {at} says nothing that happens"))?;
        if all.next().is_some() {
            return Err(format!("the event at {at} is several: write one entry for each"));
        }
        Ok(what)
    }
}

/// `50%` of what limits were at the start, or limits.
struct Change(NewLimits);

impl<'de> Deserialize<'de> for Change {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visit;
        impl<'de> serde::de::Visitor<'de> for Visit {
            type Value = Change;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a percentage of what limits were, such as 50%, or limits such as {requests: 600/min}")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Change, E> {
                parse_percent(text).map(|ppm| Change(NewLimits::Scaled { ppm })).map_err(E::custom)
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(self, map: A) -> Result<Change, A::Error> {
                let limits = Limits::deserialize(serde::de::value::MapAccessDeserializer::new(map))?;
                Ok(Change(NewLimits::Stated(LimitGroup::shared(limits.0))))
            }
        }
        deserializer.deserialize_any(Visit)
    }
}

impl Expected {
    fn into_expect(self) -> Expect {
        let share = |share: Option<Share>| share.map(|share| share.0);
        let length = |length: Option<Length>| length.map(|length| length.0);
        Expect {
            makespan_ratio: self.makespan_ratio,
            rejected_share: share(self.rejected_share),
            calls_per_job: self.calls_per_job,
            jain: self.jain,
            wait_p99: length(self.wait_p99),
            interactive_wait_p99: length(self.interactive_wait_p99),
            batch_share: share(self.batch_share),
            given_up_share: self.given_up_share.map_or(0.0, |share| share.0),
        }
    }
}

/// A word that `FromStr` understands.
#[derive(Clone, Copy, Default)]
struct Word<T>(T);

impl<'de, T: std::str::FromStr> Deserialize<'de> for Word<T>
where
    T::Err: std::fmt::Display,
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = String::deserialize(deserializer)?;
        word.parse().map(Self).map_err(serde::de::Error::custom)
    }
}

impl<'de> Deserialize<'de> for Fleet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visit;
        impl<'de> serde::de::Visitor<'de> for Visit {
            type Value = Fleet;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a fleet such as {workers: 500, calls: 6000}, or a list of its parts")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(self, map: A) -> Result<Fleet, A::Error> {
                let part = FleetPart::deserialize(serde::de::value::MapAccessDeserializer::new(map))?;
                Ok(Fleet(vec![part]))
            }

            fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut items: A) -> Result<Fleet, A::Error> {
                let mut parts = Vec::new();
                while let Some(part) = items.next_element()? {
                    parts.push(part);
                }
                Ok(Fleet(parts))
            }
        }
        deserializer.deserialize_any(Visit)
    }
}

impl<'de> Deserialize<'de> for Known {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visit;
        impl<'de> serde::de::Visitor<'de> for Visit {
            type Value = Known;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("`told`, `unknown`, or limits such as {requests: 600/min}")
            }

            fn visit_str<E: serde::de::Error>(self, word: &str) -> Result<Known, E> {
                match word {
                    "told" => Ok(Known::Told),
                    "unknown" => Ok(Known::Unknown),
                    _ => Err(E::invalid_value(serde::de::Unexpected::Str(word), &self)),
                }
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(self, map: A) -> Result<Known, A::Error> {
                let limits = Limits::deserialize(serde::de::value::MapAccessDeserializer::new(map))?;
                Ok(Known::As(limits.0))
            }
        }
        deserializer.deserialize_any(Visit)
    }
}
