//! The targets that a call may be sent to, and the one that really answered: names made canonical.

use std::sync::Arc;

use paceline_core::lease::Serial;

use crate::api::{AcquireRequest, CallError, MOST_FALLBACKS, ReportRequest, Target};
use crate::fallback::distinct;
use crate::inputs::ask_input;
use crate::scope::{AskInput, Served};
use crate::settings::Settings;
use crate::token::Keyring;
use crate::wire::LeaseWire;

/// One input per target of an ask, in order of preference.
///
/// # Errors
/// As [`ask_input`]; names of fallbacks that nobody knows.
pub(crate) fn ask_inputs(
    mut request: AcquireRequest,
    settings: &dyn Settings,
    keyring: &Keyring,
) -> Result<Vec<AskInput>, CallError> {
    let fallbacks = std::mem::take(&mut request.fallbacks);
    if fallbacks.is_empty() {
        return Ok(vec![ask_input(request, settings, keyring)?]);
    }
    let others = canonical("fallbacks", &fallbacks, settings)?;
    let own = settings.canonical(&request.target)?;
    let targets = distinct(std::iter::once(own).chain(others));
    let input = |(index, target): (usize, &Target)| {
        let mut input = ask_input(AcquireRequest { target: target.clone(), ..request.clone() }, settings, keyring)?;
        // Only the preferred target's leader is looked for.
        input.request.decide_here |= index > 0;
        (input.is_fallback, input.candidates) = (index > 0, if targets.len() > 1 { targets.clone() } else { Vec::new() });
        Ok(input)
    };
    targets.iter().enumerate().map(input).collect()
}

/// The targets of a reported call's next attempt in order of preference; none where there is no choice.
pub(crate) fn of_report(request: &ReportRequest, lease: &LeaseWire, settings: &dyn Settings) -> Result<Vec<Target>, CallError> {
    let named = request.retry.as_ref().map(|retry| retry.fallbacks.as_slice()).unwrap_or_default();
    let own = Target { provider: lease.provider.clone(), account: lease.account.clone(), model: lease.model.clone() };
    let targets = match named {
        // Those that the configuration has lost meanwhile are no choice any more.
        [] => lease.candidates.iter().map(Target::from).filter(|target| settings.canonical(target).is_ok()).collect(),
        named => distinct(std::iter::once(own.clone()).chain(canonical("retry.fallbacks", named, settings)?)),
    };
    Ok(if targets.len() > 1 && targets.contains(&own) { targets } else { Vec::new() })
}

fn canonical(field: &'static str, targets: &[Target], settings: &dyn Settings) -> Result<Vec<Target>, CallError> {
    if targets.len() > MOST_FALLBACKS {
        let problem = format!("has {} targets; at most {MOST_FALLBACKS} are compared", targets.len());
        return Err(CallError::Invalid { field, problem });
    }
    let one = |(index, target): (usize, &Target)| {
        let in_the_list = |error| match error {
            CallError::Invalid { problem, .. } => {
                CallError::Invalid { field, problem: format!("number {}: {problem}", index + 1) }
            }
            other => other,
        };
        if paceline_config::looks_like_a_key(&target.account) {
            let problem = "names an account that looks like a key: use an alias of it, never the key itself".to_owned();
            return Err(in_the_list(CallError::Invalid { field, problem }));
        }
        settings.canonical(target).map_err(in_the_list)
    };
    targets.iter().enumerate().map(one).collect()
}

/// Who answered: `provider`, `provider/account` or `provider/account/model`, as far as it is not the target the call was sent to.
pub(crate) fn served(name: &str, lease: &LeaseWire, settings: &dyn Settings) -> Served {
    if name.is_empty() {
        return Served::AsSent;
    }
    let mut parts = name.splitn(3, '/').map(str::to_owned);
    let asked = Target {
        provider: parts.next().unwrap_or_default(),
        account: parts.next().unwrap_or_default(),
        model: parts.next().unwrap_or_default(),
    };
    let is_own_provider = asked.provider.eq_ignore_ascii_case(&lease.provider);
    let account = if asked.account.is_empty() && is_own_provider { lease.account.clone() } else { asked.account };
    let model = if asked.model.is_empty() { lease.model.clone() } else { asked.model };
    match settings.canonical(&Target { provider: asked.provider, account, model }) {
        Err(_) => Served::Unknown,
        Ok(target) if (&target.provider, &target.account, &target.model) == (&lease.provider, &lease.account, &lease.model) => {
            Served::AsSent
        }
        Ok(target) => Served::At(target),
    }
}

impl AskInput {
    /// Whether the ticket it came with is a place in this target's line.
    pub(crate) fn has_place(&self) -> bool {
        let target = &self.request.target;
        self.ticket.as_ref().is_some_and(|ticket| {
            (&ticket.provider, &ticket.account, &ticket.model) == (&target.provider, &target.account, &target.model)
        })
    }

    /// Without the place it had in another line; the time it has waited stays.
    pub(crate) fn leaves_its_place(mut self: Arc<Self>) -> Arc<Self> {
        if let Some(ticket) = &mut Arc::make_mut(&mut self).ticket {
            ticket.stamp = None;
        }
        self
    }

    /// Where the attempt before was made, if that was in another scope: its key and lease there.
    pub(crate) fn made_elsewhere(&self) -> Option<(Target, crate::record::CallKey, Serial)> {
        let (lease, key) = (self.previous.as_ref()?, self.previous_key?);
        let target = &self.request.target;
        if lease.provider == target.provider && lease.account == target.account {
            return None;
        }
        let scope = Target { provider: lease.provider.clone(), account: lease.account.clone(), model: String::new() };
        Some((scope, key, lease.serial.clone().map(Serial::from).unwrap_or_default()))
    }

    /// Whether the attempt before was made at this target.
    pub(crate) fn was_made_here(&self) -> bool {
        let target = &self.request.target;
        self.previous.as_ref().is_some_and(|lease| {
            (&lease.provider, &lease.account, &lease.model) == (&target.provider, &target.account, &target.model)
        })
    }
}
