//! The calls of a run: the same for every strategy with the same seed.

use paceline_core::units::Span;
use paceline_provider_sim::{Call, Charging, Cost};
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::calls::PastCall;
use crate::scenario::{Amount, Scenario};

/// One call that somebody has to make.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    /// Which part of the fleet makes it.
    pub(crate) part: usize,
    /// As the provider sees it.
    pub(crate) call: Call,
    /// What its caller says it costs: stated units per meter.
    pub(crate) stated: Vec<(String, u64)>,
    /// When it comes in, from the start.
    pub(crate) comes: Span,
    /// What it costs of the scarcest limit's window.
    pub(crate) weight: f64,
}

/// A generator for one purpose of one run.
pub(crate) fn stream(seed: u64, purpose: u64) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(purpose);
    rng
}

/// The calls of a scenario, those of the parts interleaved as they would be if all parts went equally far.
pub(crate) fn jobs(scenario: &Scenario, seed: u64) -> Vec<Job> {
    if !scenario.past.is_empty() {
        return scenario.past.iter().map(|(part, call)| replayed(scenario, *part, call)).collect();
    }
    let mut placed: Vec<(f64, Job)> = Vec::with_capacity(scenario.calls());
    for (index, part) in scenario.fleet.iter().enumerate() {
        let mut rng = stream(seed, 1_000 + u64::try_from(index).unwrap_or(0));
        let mut comes = Span::ZERO;
        for nth in 0..part.calls {
            let (mut cost, mut guess) = (Cost::one(), Cost::one());
            let mut stated = Vec::new();
            for (meter, amount) in &part.cost {
                let units = draw(amount, &mut rng);
                let guessed = estimate(units, part.estimate);
                (cost, guess) = (cost.with(meter, units), guess.with(meter, guessed));
                stated.push((meter.clone(), guessed));
            }
            if let Some(every) = part.every {
                // Exponential gaps: callers that know nothing of each other.
                comes += every.scaled(-(1.0 - rng.random::<f64>()).ln());
            }
            // Where a provider charges what a call says it may cost, it believes the same guess.
            let call = match scenario.provider.charging {
                Charging::OnArrival => Call::new(&part.model, cost),
                Charging::Reserved | Charging::AtEnd => Call { used: Some(cost), ..Call::new(&part.model, guess) },
            };
            let job = Job { part: index, weight: weight(scenario, &call), call, stated, comes };
            placed.push(((nth as f64 + 0.5) / part.calls as f64, job));
        }
    }
    placed.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    placed.into_iter().map(|(_, job)| job).collect()
}

/// A call of the past as it would come again; its caller states what it did, or what the call turned out to cost.
fn replayed(scenario: &Scenario, part: usize, past: &PastCall) -> Job {
    let cost = past.cost.iter().fold(Cost::one(), |cost, (meter, units)| cost.with(meter, *units));
    let call = Call { takes: past.duration, ..Call::new(&past.model, cost) };
    Job {
        part,
        weight: weight(scenario, &call),
        stated: past.stated.clone().unwrap_or_else(|| past.cost.clone()),
        call,
        comes: past.at,
    }
}

fn weight(scenario: &Scenario, call: &Call) -> f64 {
    let shares = scenario.limits().map(|limit| call.used().of(&limit.meter) as f64 / limit.units as f64);
    shares.fold(0.0, f64::max)
}

fn draw<R: Rng + ?Sized>(amount: &Amount, rng: &mut R) -> u64 {
    let total: f64 = amount.0.iter().map(|(weight, _, _)| weight).sum();
    let mut at = rng.random::<f64>() * total;
    let mut chosen = amount.0.last().copied();
    for range in &amount.0 {
        at -= range.0;
        if at < 0.0 {
            chosen = Some(*range);
            break;
        }
    }
    chosen.map_or(0, |(_, least, most)| rng.random_range(least..=most))
}

fn estimate(units: u64, factor: f64) -> u64 {
    ((units as f64 * factor).round() as u64).max(1)
}
