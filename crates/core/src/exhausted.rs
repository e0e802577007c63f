//! Billing refusals: no wait cures them, but a person does, and nobody tells us. So calls are denied for a while, then one is let
//! through to see: one probe an interval, and the interval doubles while probes are refused as well.

use crate::denial::{Denial, Reason};
use crate::lease::Lease;
use crate::units::{FleetTime, Span};
use crate::value::{Binding, ScopeValue};

/// The first interval between probes.
pub const FIRST_INTERVAL: Span = Span::from_secs(60);
/// The longest: a topped-up account must not stand idle for much longer.
pub const LONGEST_INTERVAL: Span = Span::from_secs(600);

/// The provider said that money or a quota is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exhausted {
    /// When it said so last.
    pub since: FleetTime,
    /// Until then nothing is sent; after it one call, to see.
    pub until: FleetTime,
    /// How far probes lie apart.
    pub interval: Span,
}

impl Exhausted {
    fn first(now: FleetTime) -> Self {
        Self { since: now, until: now + FIRST_INTERVAL, interval: FIRST_INTERVAL }
    }

    /// Another refusal. Those of calls granted before the last one was reported only repeat it.
    fn again(self, granted_at: FleetTime, now: FleetTime) -> Self {
        if granted_at <= self.since {
            return self;
        }
        let interval = (self.interval + self.interval).min(LONGEST_INTERVAL);
        Self { since: now, until: now + interval, interval }
    }
}

/// Takes a billing refusal: the group stops; a second group that is refused while one is stopped means the whole account.
pub fn refused(value: &mut ScopeValue, binding: &Binding, lease: &Lease, now: FleetTime) {
    let second_group =
        value.groups.iter().enumerate().any(|(index, group)| index != binding.group && group.exhausted.is_some());
    if second_group || value.exhausted.is_some() {
        value.exhausted =
            Some(value.exhausted.map_or_else(|| Exhausted::first(now), |standing| standing.again(lease.granted_at, now)));
    }
    if let Some(group) = value.groups.get_mut(binding.group) {
        group.exhausted =
            Some(group.exhausted.map_or_else(|| Exhausted::first(now), |standing| standing.again(lease.granted_at, now)));
    }
}

/// Takes a success: when it was granted after the refusal, the quota is there again.
pub fn succeeded(value: &mut ScopeValue, binding: &Binding, lease: &Lease) {
    let is_over = |standing: &Option<Exhausted>| standing.is_some_and(|standing| lease.granted_at > standing.since);
    if is_over(&value.exhausted) {
        value.exhausted = None;
        // The others were stopped for the same account.
        for group in &mut value.groups {
            if is_over(&group.exhausted) {
                group.exhausted = None;
            }
        }
    }
    if let Some(group) = value.groups.get_mut(binding.group)
        && is_over(&group.exhausted)
    {
        group.exhausted = None;
    }
}

/// Notes a grant: if calls are denied otherwise, this one is the probe, and the next is due an interval later.
pub fn granted(value: &mut ScopeValue, binding: &Binding, now: FleetTime) {
    let next = |standing: &mut Option<Exhausted>| {
        if let Some(standing) = standing {
            standing.until = standing.until.max(now + standing.interval);
        }
    };
    next(&mut value.exhausted);
    if let Some(group) = value.groups.get_mut(binding.group) {
        next(&mut group.exhausted);
    }
}

/// Why nothing is sent, if nothing is.
pub fn denial(value: &ScopeValue, binding: &Binding, now: FleetTime) -> Option<Denial> {
    let group = value.groups.get(binding.group)?;
    let of_account = value.exhausted.map(|standing| (standing, "the account".to_owned()));
    let of_group = group.exhausted.map(|standing| (standing, group.key.to_string()));
    let (standing, who) = [of_account, of_group]
        .into_iter()
        .flatten()
        .filter(|(standing, _)| standing.until > now)
        .max_by_key(|it| it.0.until)?;
    let retry_after = standing.until.since(now);
    Some(Denial {
        reason: Reason::QuotaExhausted,
        retry_after: Some(retry_after),
        detail: format!(
            "the provider said {} ago that billing or a quota of {who} is used up, which no wait cures; one call in {} is let \
             through to see, the next in {retry_after}",
            now.since(standing.since),
            standing.interval,
        ),
    })
}
