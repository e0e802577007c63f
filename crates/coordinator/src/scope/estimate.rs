//! How long a call will probably wait, told to callers that are sent away with a ticket.

use std::collections::HashMap;

use paceline_core::decide;
use paceline_core::lease::Charge;
use paceline_core::plan::BucketId;
use paceline_core::queue::Ask;
use paceline_core::signal::Source;
use paceline_core::units::{FleetTime, LONGEST_FLOOR, Milli, Span};
use paceline_core::value::Binding;

use super::{Scope, from_now};

/// Weight of the newest figure: a thirty-second.
const SMOOTHING: i64 = 32;

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

impl Scope {
    /// The wait from now: until the line moves, and then for everyone before it at the pace of the scarcest bucket, if they cost
    /// what calls usually cost.
    pub(super) fn estimate(&self, binding: &Binding, ask: &Ask, seen: &decide::Outlook, ahead: u64, now: FleetTime) -> Span {
        let line = i64::try_from(ahead).unwrap_or(i64::MAX);
        if matches!(seen.opening.source, Source::Ramp | Source::Concurrency) && seen.opening.at > now {
            return self.until_calls_end(binding, ask, line, seen.opening.source, now);
        }
        let opens = if seen.opening.at == FleetTime::MAX { Span::from_secs(1) } else { from_now(seen.opening.at, now) };
        let per_call = binding.buckets.iter().filter_map(|index| {
            let bucket = self.value.buckets.get(*index)?;
            let (cost, _) = decide::charge_for(&self.value, ask, *index);
            let cost = self.usual.costs.get(&bucket.plan.id).map_or(cost, |usual| Milli::from_milli(*usual));
            let rate = bucket.rate()?;
            // A window's quota is handed out as soon as it opens.
            Some(if bucket.is_windowed() { bucket.gap(cost, now) } else { rate.time_for(cost) })
        });
        let spacing = per_call.max().unwrap_or(Span::ZERO);
        opens.saturating_add(Span::from_micros(line.saturating_mul(spacing.as_micros()))).min(LONGEST_FLOOR)
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
