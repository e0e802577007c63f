//! Why a call cannot be let through in time, in the order in which reasons are told.

use crate::decide::bind;
use crate::delays::{Cause, describe};
use crate::denial::{Denial, Reason};
use crate::exhausted;
use crate::outlook::{Outlook, charge_for, outlook};
use crate::queue::Ask;
use crate::signal::Source;
use crate::units::{FleetTime, Span};
use crate::value::{Binding, ScopeValue};

/// From this window on, an empty bucket is a used-up quota and not a wait.
const QUOTA_WINDOW: Span = Span::from_secs(3_600);

/// Why `ask` cannot be let through in time, if it cannot: the first reason of the list.
pub fn verdict(value: &ScopeValue, binding: &Binding, ask: &Ask, seen: &Outlook, now: FleetTime) -> Option<Denial> {
    let stops = || paused(ask, now).or_else(|| exhausted::denial(value, binding, now));
    if let Some(denial) = too_large(value, binding, ask).or_else(stops) {
        return Some(denial);
    }
    let best = seen.opening.at_best;
    let wait = best.since(now);
    let late = best > ask.wait_until;
    if late && seen.per >= QUOTA_WINDOW && matches!(seen.opening.source, Source::Bucket | Source::ResetHeader) {
        return Some(Denial {
            reason: Reason::QuotaExhausted,
            retry_after: Some(wait),
            detail: format!("the quota of {} per {} is used up; the next unit comes in {wait}", seen.bucket, seen.per),
        });
    }
    if let Some(floor) = seen.floor.filter(|floor| floor.until.since(now) > ask.honor_cap) {
        return Some(Denial {
            reason: Reason::OverHonorCap,
            retry_after: Some(floor.until.since(now)),
            detail: format!(
                "the provider said to wait ({}); {} of that are left, and a {} call waits {} for that at most",
                floor.source.name(),
                floor.until.since(now),
                ask.class.name(),
                ask.honor_cap
            ),
        });
    }
    let cause = || describe(&Cause { source: seen.opening.source, bucket: seen.bucket.clone() });
    late.then(|| Denial { reason: Reason::Deadline, retry_after: Some(wait), detail: too_late(ask, wait, &cause(), now) })
}

/// Why a call that would wait `wait` for `cause` comes too late, in words.
pub fn too_late(ask: &Ask, wait: Span, cause: &str, now: FleetTime) -> String {
    let (bound, ends_in) = match ask.until_deadline {
        true => ("the deadline", (ask.wait_until + ask.run).since(now)),
        false => ("max_wait", ask.wait_until.since(now)),
    };
    let sent = match wait {
        Span::ZERO => "even sent at once it would end too late".to_string(),
        _ => format!("even alone in line it would wait {wait} for {cause}"),
    };
    let run = match ask.until_deadline && ask.run > Span::ZERO {
        true => format!(": such calls typically run {}", ask.run),
        false => String::new(),
    };
    format!("{sent}{run}, and {bound} ends in {ends_in}")
}

/// Why `ask` could not be let through in time even if nobody else wanted anything; charges nothing.
pub fn hopeless(value: &mut ScopeValue, ask: &Ask, now: FleetTime) -> Option<Denial> {
    let binding = bind(value, ask, now);
    let seen = outlook(value, &binding, ask, now, false);
    verdict(value, &binding, ask, &seen, now)
}

/// A pause that lasts longer than the call may wait.
fn paused(ask: &Ask, now: FleetTime) -> Option<Denial> {
    let pause = ask.pause.as_ref().filter(|pause| pause.until > now && pause.until > ask.wait_until)?;
    let left = pause.until.since(now);
    let detail = format!("{}; it ends in {left}, and is ended before by `paceline resume`", pause.told);
    Some(Denial { reason: Reason::Paused, retry_after: Some(left), detail })
}

fn too_large(value: &ScopeValue, binding: &Binding, ask: &Ask) -> Option<Denial> {
    binding.plan.buckets.iter().zip(&binding.buckets).find_map(|(plan, index)| {
        let bucket = value.buckets.get(*index)?;
        let (cost, _) = charge_for(value, ask, *index);
        let capacity = bucket.capacity().filter(|capacity| cost > *capacity)?;
        Some(Denial {
            reason: Reason::CostExceedsCapacity,
            retry_after: None,
            detail: format!(
                "it costs {} {}, and {} holds {} at most: make the call smaller, or raise the limit if it is wrong",
                cost.as_units_floor(),
                plan.meter,
                plan.id.label(),
                capacity.as_units_floor()
            ),
        })
    })
}
