//! How long a call will probably wait, told to callers that are sent away with a ticket.

use std::collections::HashMap;

use paceline_core::lease::Charge;
use paceline_core::outlook;
use paceline_core::plan::BucketId;
use paceline_core::queue::{Ahead, Ask};
use paceline_core::signal::Source;
use paceline_core::units::{FleetTime, LONGEST_FLOOR, Milli, Span};
use paceline_core::value::Binding;

use super::{Scope, from_now};

/// Weight of the newest figure: a thirty-second.
const SMOOTHING: i64 = 32;

/// Of so many calls in a lane the costs are summed up; beyond, they count like these.
const MOST_COUNTED: i64 = 500;

/// How long calls take of which nobody has been reported yet.
const UNKNOWN_RUN: Span = Span::from_secs(1);

/// What calls usually cost, as this replica has seen them (a moving average); for estimates only.
#[derive(Debug, Default)]
pub(super) struct Usual {
    /// By bucket, in thousandths of a unit.
    costs: HashMap<BucketId, i64>,
}

impl Usual {
    pub(super) fn note_costs(&mut self, charges: &[Charge]) {
        for charge in charges.iter().filter(|charge| !charge.held) {
            let amount = charge.amount.as_milli();
            let usual = self.costs.entry(charge.bucket.clone()).or_insert(amount);
            *usual += (amount - *usual) / SMOOTHING;
        }
    }
}

/// What is known of those before a call in its lane.
struct Known {
    /// How many there are.
    calls: i64,
    /// What they cost together, by position of the bucket in the binding.
    charges: Vec<Milli>,
}

impl Scope {
    /// The wait from now: until the line moves, and then for everyone before it at the pace of the scarcest bucket: those in its
    /// lane by what they cost, others by what calls usually cost, all of them by how much of that calls turn out to use.
    pub(super) fn estimate(&self, binding: &Binding, ask: &Ask, seen: &outlook::Outlook, ahead: u64, now: FleetTime) -> Span {
        let line = i64::try_from(ahead).unwrap_or(i64::MAX);
        if matches!(seen.opening.source, Source::Ramp | Source::Concurrency) && seen.opening.at > now {
            return self.until_calls_end(binding, ask, line, seen.opening.source, now);
        }
        let opens = if seen.opening.at == FleetTime::MAX { Span::from_secs(1) } else { from_now(seen.opening.at, now) };
        let known = self.known_ahead(binding, ask);
        let others = line.saturating_sub(known.calls);
        let per_bucket = binding.buckets.iter().zip(&known.charges).filter_map(|(index, charged)| {
            let bucket = self.value.buckets.get(*index)?;
            let (cost, _) = outlook::charge_for(&self.value, ask, *index);
            let usual = self.usual.costs.get(&bucket.plan.id).map_or(cost, |usual| Milli::from_milli(*usual));
            if bucket.is_held() {
                return None;
            }
            if bucket.is_windowed() {
                // A window's quota is handed out as soon as it opens.
                return Some(Span::from_micros(line.saturating_mul(bucket.gap(usual, now).as_micros())));
            }
            let of_others = Milli::from_milli(usual.as_milli().saturating_mul(others));
            Some(bucket.handed_out_in(cost, *charged + of_others, now))
        });
        opens.saturating_add(per_bucket.max().unwrap_or(Span::ZERO)).min(LONGEST_FLOOR)
    }

    /// What the calls before this one in its lane cost in each bucket, as far as that is known; many are counted by a part of them.
    fn known_ahead(&self, binding: &Binding, ask: &Ask) -> Known {
        let mut charges = vec![Milli::ZERO; binding.buckets.len()];
        let (mut counted, mut calls) = (0_i64, 0_i64);
        for ahead in self.queue.lane_of(ask.id).into_iter().flat_map(|lane| lane.ahead_of(ask.stamp)) {
            calls += 1;
            if counted >= MOST_COUNTED {
                continue;
            }
            counted += 1;
            for (at, (sum, index)) in charges.iter_mut().zip(&binding.buckets).enumerate() {
                *sum += match ahead {
                    Ahead::Here(other) => outlook::charge_for(&self.value, other, *index).0,
                    Ahead::Away(charged) => charged.get(at).copied().unwrap_or(Milli::ZERO),
                };
            }
        }
        for sum in &mut charges {
            *sum = Milli::from_milli(sum.as_milli().saturating_mul(calls) / counted.max(1));
        }
        Known { calls, charges }
    }

    /// Where calls in flight have to end first: a round of them ends in the time a call usually takes. While a ramp grows, each
    /// round lets twice as many go.
    fn until_calls_end(&self, binding: &Binding, ask: &Ask, line: i64, source: Source, now: FleetTime) -> Span {
        let flights = self.value.groups.get(binding.group).map_or(1, |group| group.flights.in_use(now).as_units_floor());
        let flights = i64::try_from(flights).unwrap_or(i64::MAX).max(1);
        let rounds = match source {
            Source::Ramp => i64::from((line / flights).saturating_add(2).ilog2()),
            _ => line / flights + 1,
        };
        let model = self.calls.get(&ask.id).map(|call| call.input.request.target.model.as_str());
        let run = model.and_then(|model| self.value.usage.typical_run(model)).unwrap_or(UNKNOWN_RUN);
        Span::from_micros(run.as_micros().saturating_mul(rounds)).min(LONGEST_FLOOR)
    }
}
