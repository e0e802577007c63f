//! What a mock provider saw: counts, per model and per 100 ms, and the last arrivals. Bounded however long it runs.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use paceline_core::units::{FleetTime, Span};
use serde_json::{Value, json};

use crate::gate::{MOST_MODELS, OTHER, OwnedReading};
use crate::provider::{Answer, Call, Outcome};

/// The width of a bin of accepted calls.
pub const BIN: Span = Span::from_millis(100);
/// The most bins kept: an hour of them. Calls accepted later are counted as beyond.
pub const MOST_BINS: usize = 36_000;
/// The most arrivals kept; the oldest go first.
pub const MOST_ARRIVALS: usize = 10_000;

/// Counts of calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Calls that arrived.
    pub sends: u64,
    /// Those that the meters let through.
    pub accepted: u64,
    /// Those that the meters refused, too large ones among them.
    pub rejected: u64,
    /// Those that came in an outage.
    pub down: u64,
    /// Those answered by the script of the first calls.
    pub scripted: u64,
}

impl Counts {
    fn add(&mut self, outcome: Outcome) {
        self.sends += 1;
        match outcome {
            Outcome::Accepted => self.accepted += 1,
            Outcome::Refused | Outcome::TooLarge => self.rejected += 1,
            Outcome::Down => self.down += 1,
            Outcome::Scripted => self.scripted += 1,
        }
    }

    fn to_json(self) -> Value {
        json!({
            "sends": self.sends,
            "accepted": self.accepted,
            "rejected": self.rejected,
            "down": self.down,
            "scripted": self.scripted,
        })
    }
}

/// One call as it arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When.
    pub at: FleetTime,
    /// For which model.
    pub model: Arc<str>,
    /// How it was answered; 0: its connection was reset.
    pub status: u16,
}

/// Everything seen since the start or the last reset.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    total: Counts,
    models: BTreeMap<Arc<str>, Counts>,
    span: Option<(FleetTime, FleetTime)>,
    arrivals: VecDeque<Arrival>,
    bins_start: FleetTime,
    bins: Vec<u32>,
    beyond_bins: u64,
}

impl Ledger {
    /// Notes a call and what became of it.
    pub fn record(&mut self, now: FleetTime, call: &Call, answer: &Answer) {
        self.total.add(answer.outcome);
        let is_known = self.models.len() < MOST_MODELS || self.models.contains_key(&call.model);
        let model: Arc<str> = if is_known { call.model.clone() } else { OTHER.into() };
        self.models.entry(model).or_default().add(answer.outcome);
        let first = self.span.map_or(now, |(first, _)| first);
        self.span = Some((first, now.max(first)));
        if self.arrivals.len() >= MOST_ARRIVALS {
            self.arrivals.pop_front();
        }
        self.arrivals.push_back(Arrival { at: now, model: call.model.clone(), status: answer.status });
        if answer.outcome == Outcome::Accepted {
            self.count_in_bin(now);
        }
    }

    /// All calls.
    pub fn total(&self) -> Counts {
        self.total
    }

    /// Calls of one model.
    pub fn of_model(&self, model: &str) -> Counts {
        self.models.get(model).copied().unwrap_or_default()
    }

    /// The first and the last arrival.
    pub fn span(&self) -> Option<(FleetTime, FleetTime)> {
        self.span
    }

    /// Accepted calls per [`BIN`] from the instant given with them.
    pub fn accepted_per_bin(&self) -> (FleetTime, &[u32]) {
        (self.bins_start, &self.bins)
    }

    /// The last arrivals, oldest first; at most [`MOST_ARRIVALS`].
    pub fn arrivals(&self) -> impl Iterator<Item = &Arrival> {
        self.arrivals.iter()
    }

    /// As JSON: instants in seconds since the Unix epoch, spans in seconds.
    pub fn to_json(&self, levels: &[OwnedReading]) -> Value {
        let mut json = self.total.to_json();
        let models: serde_json::Map<_, _> =
            self.models.iter().map(|(model, counts)| (model.to_string(), counts.to_json())).collect();
        if let Some(fields) = json.as_object_mut() {
            fields.insert("first_arrival_s".into(), self.span.map(|(first, _)| epoch_secs(first)).into());
            fields.insert("last_arrival_s".into(), self.span.map(|(_, last)| epoch_secs(last)).into());
            fields.insert("models".into(), models.into());
            fields.insert("meters".into(), levels.iter().map(level_json).collect());
        }
        json
    }

    /// The bins as JSON.
    pub fn bins_json(&self) -> Value {
        json!({
            "start_s": if self.bins.is_empty() { Value::Null } else { epoch_secs(self.bins_start).into() },
            "bin_s": BIN.as_secs_f64(),
            "counts": self.bins,
            "beyond": self.beyond_bins,
        })
    }

    /// The last arrivals as JSON.
    pub fn arrivals_json(&self) -> Value {
        let one =
            |arrival: &Arrival| json!({"at_s": epoch_secs(arrival.at), "model": &*arrival.model, "status": arrival.status});
        self.arrivals.iter().map(one).collect()
    }

    fn count_in_bin(&mut self, now: FleetTime) {
        if self.bins.is_empty() {
            self.bins_start = FleetTime::from_micros(now.as_micros().div_euclid(BIN.as_micros()) * BIN.as_micros());
        }
        let index = now.since(self.bins_start).as_micros() / BIN.as_micros();
        match usize::try_from(index).ok().filter(|index| *index < MOST_BINS) {
            None => self.beyond_bins += 1,
            Some(index) => {
                if self.bins.len() <= index {
                    self.bins.resize(index + 1, 0);
                }
                if let Some(bin) = self.bins.get_mut(index) {
                    *bin = bin.saturating_add(1);
                }
            }
        }
    }
}

fn level_json(level: &OwnedReading) -> Value {
    let reading = &level.reading;
    json!({
        "models": &*level.owner,
        "meter": &*reading.meter,
        "limit": reading.limit,
        "window_s": reading.window.as_secs_f64(),
        "remaining": reading.remaining,
        "reset_s": reading.reset_in.as_secs_f64(),
        "other_consumer": {
            "wanted": level.drained.wanted.as_units_f64(),
            "got": level.drained.got.as_units_f64(),
        },
    })
}

fn epoch_secs(time: FleetTime) -> f64 {
    (time - FleetTime::ZERO).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::Cost;

    fn answer(outcome: Outcome) -> Answer {
        Answer { status: 200, headers: Vec::new(), body: String::new(), latency: Span::ZERO, outcome }
    }

    #[test]
    fn counts_bins_and_arrivals() {
        let mut ledger = Ledger::default();
        let call = Call::new("m", Cost::one());
        for (millis, outcome) in
            [(1_050, Outcome::Accepted), (1_099, Outcome::Accepted), (1_100, Outcome::Refused), (1_350, Outcome::Accepted)]
        {
            ledger.record(FleetTime::ZERO + Span::from_millis(millis), &call, &answer(outcome));
        }
        assert_eq!(ledger.total(), Counts { sends: 4, accepted: 3, rejected: 1, ..Counts::default() });
        assert_eq!(ledger.of_model("m"), ledger.total());
        assert_eq!(ledger.accepted_per_bin(), (FleetTime::from_secs(1), &[2, 0, 0, 1][..]));
        let json = ledger.to_json(&[]);
        assert_eq!(json["first_arrival_s"], 1.05);
        assert_eq!(json["last_arrival_s"], 1.35);
        assert_eq!(json["models"]["m"]["rejected"], 1);
    }

    #[test]
    fn stays_bounded() {
        let mut ledger = Ledger::default();
        for index in 0..12_000_i64 {
            let call = Call::new(&format!("model-{index}"), Cost::one());
            ledger.record(FleetTime::from_secs(index), &call, &answer(Outcome::Accepted));
        }
        assert_eq!(ledger.arrivals().count(), MOST_ARRIVALS);
        assert_eq!(ledger.models.len(), MOST_MODELS + 1);
        assert!(ledger.accepted_per_bin().1.len() <= MOST_BINS);
        assert_eq!(ledger.bins_json()["beyond"], 12_000 - 3_600);
    }
}
