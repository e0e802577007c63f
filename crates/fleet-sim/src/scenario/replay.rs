//! Calls of the past on a scenario's provider, and the service with a configuration of one's own.

use std::collections::BTreeMap;

use paceline_config::Config;
use paceline_core::units::Span;

use super::{Expect, Part, Scenario, Written, read};
use crate::calls::{PastCall, PastCalls};
use crate::error::{SimulateError, suggest};

/// The most callers of one part at a time; calls beyond wait for one of them to be free.
const MOST_CALLERS: usize = 10_000;
/// A replay ends at the latest so long after its last call came.
const AFTERWARDS: Span = Span::from_secs(86_400);

/// The scenario with these calls in place of its fleet: its provider meets them as they came, each from a caller of its own.
/// Nothing is expected of it.
///
/// # Errors
/// What is wrong with the scenario; a call that its provider could never take.
pub fn replay(written: &Written, past: &PastCalls) -> Result<Scenario, SimulateError> {
    let (fleet, calls) = parts(&past.calls);
    let file = read::parse(&written.file, &written.text)?;
    let mut scenario = file.with_fleet(&written.name, fleet)?;
    scenario.past = calls.into();
    scenario.expect = Expect { given_up_share: 1.0, ..Expect::default() };
    let last = past.calls.last().map_or(Span::ZERO, |call| call.at);
    scenario.at_most = last + AFTERWARDS;
    scenario.validate()?;
    every_call_fits(&scenario)?;
    Ok(scenario)
}

/// Calls of the same class, tenant and model are one part of the fleet.
fn parts(calls: &[PastCall]) -> (Vec<Part>, Vec<(usize, PastCall)>) {
    let mut index_of: BTreeMap<(usize, &str, &str), usize> = BTreeMap::new();
    let mut fleet: Vec<Part> = Vec::new();
    let mut placed = Vec::with_capacity(calls.len());
    for call in calls {
        let key = (call.class.index(), call.tenant.as_str(), &*call.model);
        let index = *index_of.entry(key).or_insert_with(|| {
            fleet.push(part_of(call));
            fleet.len() - 1
        });
        if let Some(part) = fleet.get_mut(index) {
            part.calls += 1;
            part.workers = part.calls.min(MOST_CALLERS);
        }
        placed.push((index, call.clone()));
    }
    (fleet, placed)
}

fn part_of(call: &PastCall) -> Part {
    Part {
        workers: 0,
        calls: 0,
        model: call.model.clone(),
        class: call.class,
        tenant: call.tenant.clone(),
        weight: 1,
        cost: BTreeMap::new(),
        estimate: 1.0,
        every: None,
        starts: Span::ZERO,
        max_wait: None,
        oversleeps: None,
        leave: 0.0,
    }
}

fn every_call_fits(scenario: &Scenario) -> Result<(), SimulateError> {
    for limit in scenario.limits() {
        let most = limit.capacity().as_units_floor();
        let meter = &*limit.meter;
        let cost = |call: &PastCall| call.cost.iter().find(|(known, _)| known == meter).map_or(0, |(_, units)| *units);
        if let Some((_, call)) = scenario.past.iter().find(|(_, call)| cost(call) > most) {
            let (at, units) = (call.at, cost(call));
            let problem = format!(
                "the call that came {at} after the first cost {units} {meter}, and this provider takes {most} at most at once; \
                 is its limit right?"
            );
            return Err(SimulateError::Scenario { name: scenario.name.clone(), problem });
        }
    }
    Ok(())
}

impl Scenario {
    /// The same with another configuration of the service: a whole file, named `file` in messages. Calls go to `account`
    /// (provider and account) of it, or to the only one that it has.
    ///
    /// # Errors
    /// What is wrong with the configuration; an account that it does not have, or does not single out.
    pub fn configured(mut self, file: &str, config: &str, account: Option<(&str, &str)>) -> Result<Self, SimulateError> {
        let bad = |problem: String| SimulateError::File { file: file.to_owned(), problem };
        let parsed =
            Config::parse(config, file).map_err(|problems| SimulateError::Config { name: self.name.clone(), problems })?;
        let accounts =
            || parsed.provider_names().flat_map(|provider| parsed.account_names(provider).map(move |own| (provider, own)));
        let list = || accounts().map(|(provider, own)| format!("{provider}/{own}")).collect::<Vec<_>>();
        let (provider, own) = match account {
            Some(account) if accounts().any(|known| known == account) => account,
            Some((provider, own)) => {
                let (wanted, all) = (format!("{provider}/{own}"), list());
                let near = suggest(&wanted, all.iter().map(String::as_str));
                let hint = near.map_or_else(|| format!("it has: {}", all.join(", ")), |near| format!("did you mean {near}?"));
                return Err(bad(format!("it has no account {wanted}; {hint}")));
            }
            None => match accounts().collect::<Vec<_>>().as_slice() {
                [only] => *only,
                [] => {
                    return Err(bad(
                        "it has no account that calls could go to: providers: {NAME: {accounts: {NAME: ...}}}".into()
                    ));
                }
                _ => {
                    return Err(bad(format!(
                        "it has several accounts; say which is meant with --account: {}",
                        list().join(", ")
                    )));
                }
            },
        };
        (self.service.provider, self.service.account) = (provider.to_owned(), own.to_owned());
        config.clone_into(&mut self.service.config);
        Ok(self)
    }
}
