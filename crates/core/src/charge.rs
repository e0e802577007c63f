//! What a call is charged in a bucket: what it says, what follows from that, else what such calls turn out to use.

use crate::amounts::Amounts;
use crate::bucket::BucketState;
use crate::plan::{BucketPlan, CONCURRENCY, Refill};
use crate::queue::Ask;
use crate::units::Milli;
use crate::usage::{Form, is_media};
use crate::value::ScopeValue;

/// What `ask` is charged in `bucket`, and whether that was filled in. Never cut to what fits, unless it was filled in.
pub fn cost_in(value: &ScopeValue, ask: &Ask, bucket: &BucketState) -> (Milli, bool) {
    let meter = &*bucket.plan.meter;
    let one = (Milli::from_units(1), false);
    if is_stock(&bucket.plan) {
        // A stock holds what is put into it; most calls put nothing there.
        return (Milli::from_units(ask.cost.of(meter).unwrap_or(0)), false);
    }
    match (ask.cost.of(meter), meter) {
        (Some(units), _) => match unstated_part(value, ask, meter) {
            Some(more) => (bounded(units.saturating_add(more), bucket).max(Milli::from_units(units)), true),
            None => (Milli::from_units(units), false),
        },
        (None, "requests" | CONCURRENCY) => one,
        // What it puts into a stock is counted there, and not when it is handed over.
        (None, _) if puts_into_stock(value, ask) => (Milli::ZERO, false),
        (None, _) => (guess(value, ask, bucket), true),
    }
}

/// Whether a bucket is a stock other than calls in flight: units are held in it until the call ends.
pub fn is_stock(plan: &BucketPlan) -> bool {
    plan.refill == Some(Refill::Held) && &*plan.meter != CONCURRENCY
}

/// What of a meter a call used, by what is reported. Media that are not named were none.
pub fn used_in(usage: &Amounts, meter: &str) -> Option<u64> {
    usage.of(meter).or_else(|| (is_media(meter) && !usage.is_empty()).then_some(0))
}

/// Total tokens of a call that states only its input, or only its output: the other part as learned.
fn unstated_part(value: &ScopeValue, ask: &Ask, meter: &str) -> Option<u64> {
    if meter != "tokens" || ask.cost.stated("tokens").is_some() {
        return None;
    }
    let other = match (ask.cost.stated("input_tokens"), ask.cost.stated("output_tokens")) {
        (Some(_), None) => "output_tokens",
        (None, Some(_)) => "input_tokens",
        _ => return None,
    };
    learned(value, ask, other)
}

/// What such calls turn out to use, else a guess by the bucket alone.
fn guess(value: &ScopeValue, ask: &Ask, bucket: &BucketState) -> Milli {
    let meter = &*bucket.plan.meter;
    match learned(value, ask, meter) {
        // Text has no images.
        Some(0) if is_media(meter) && Form::of(&ask.cost) == Form::Text => Milli::ZERO,
        Some(units) => bounded(units, bucket),
        None if is_media(meter) => Milli::from_units(1),
        None => bucket.guess_cost(),
    }
}

fn learned(value: &ScopeValue, ask: &Ask, meter: &str) -> Option<u64> {
    value.usage.likely(&ask.kind, &ask.plan.key, Form::of(&ask.cost), meter)
}

/// At least one unit, and never more than half of what fits: a guess must not keep a call out.
fn bounded(units: u64, bucket: &BucketState) -> Milli {
    let one = Milli::from_units(1);
    let half = bucket.capacity().map_or(Milli::MAX, |capacity| Milli::from_milli(capacity.as_milli() / 2));
    Milli::from_units(units).min(half).max(one)
}

fn puts_into_stock(value: &ScopeValue, ask: &Ask) -> bool {
    value.buckets_of(&ask.plan).any(|plan| is_stock(plan) && ask.cost.of(&plan.meter).is_some_and(|units| units > 0))
}
