//! One run: a fresh provider, the fleet, and what was counted.

use std::sync::Arc;

use tokio::task::JoinSet;

use super::DemoError;
use super::alone;
use super::outcome::{Outcome, Run, Strategy};
use super::plan::Plan;
use super::provider::{Caller, Provider};
use super::service::Service;
use super::tally::Tally;
use super::together::Worker;
use super::view::{Screen, View};

/// Runs the fleet once.
pub(super) async fn run(plan: &Arc<Plan>, strategy: Strategy, screen: Screen) -> Result<Outcome, DemoError> {
    // Everything is there before the clock starts; the provider last, since what is left of its limits grows.
    let service = match strategy {
        Strategy::Paceline => Some(Service::start(plan).await?),
        Strategy::Alone => None,
    };
    let provider = Provider::start(plan).await?;
    screen.say(&where_it_runs(service.as_ref(), &provider));
    let inspector = service.as_ref().map(|service| service.inspector(plan.catalogue_name())).transpose()?;
    let caller = Caller::new(provider.address())?;
    let limiters = service.as_ref().map(|service| service.limiters(plan.workers)).transpose()?;
    let clairvoyant = provider.clairvoyant(plan)?;
    let tally = Arc::new(Tally::start());

    let mut fleet = JoinSet::new();
    for number in 0..plan.workers {
        let (plan, caller, tally) = (plan.clone(), caller.clone(), tally.clone());
        let limiter = limiters.as_ref().and_then(|limiters| limiters.get(number % limiters.len().max(1)).cloned());
        fleet.spawn(async move {
            match limiter {
                Some(limiter) => {
                    let worker = Worker { plan: &plan, number, limiter: &limiter, caller: &caller, tally: &tally };
                    worker.work().await
                }
                None => alone::work(&plan, number, &caller, &tally).await,
            }
        });
    }
    let view = View { screen, strategy, calls: plan.calls(), tally: &tally, provider: &provider, inspector };
    view.during(all(&mut fleet)).await?;

    let counts = provider.counts();
    Ok(Outcome::new(Run {
        strategy,
        seed: plan.seed,
        workers: plan.workers,
        sends: counts.sends,
        refused: counts.refused,
        clairvoyant,
        by_workers: tally.take(),
    }))
}

/// Waits for every worker; the first error ends them all.
async fn all(fleet: &mut JoinSet<Result<(), DemoError>>) -> Result<(), DemoError> {
    while let Some(ended) = fleet.join_next().await {
        ended.map_err(|panicked| DemoError::Worker(panicked.to_string()))??;
    }
    Ok(())
}

fn where_it_runs(service: Option<&Service>, provider: &Provider) -> String {
    match service {
        Some(service) => {
            format!("\nWith Paceline: workers ask {} (gRPC) and call {} (HTTP).\n", service.address(), provider.address())
        }
        None => format!("\nAlone: workers call {} (HTTP) and do as the SDKs do.\n", provider.address()),
    }
}
