//! Many runs at once, on all cores; results in a fixed order, whichever run ends first.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use crate::error::SimulateError;
use crate::run::{Outcome, run};
use crate::scenario::Scenario;

/// One run that is to be made.
#[derive(Clone, Debug)]
pub struct Plan<'a> {
    /// The scenario.
    pub scenario: &'a Scenario,
    /// The strategy's name.
    pub strategy: &'a str,
    /// The seed.
    pub seed: u64,
}

/// Makes all runs on `threads` threads; `ended` hears of each as it ends: how many have, of how many.
///
/// # Errors
/// The first run, in the order of `plans`, that could not be made.
pub fn run_all(plans: &[Plan<'_>], threads: usize, mut ended: impl FnMut(usize, usize)) -> Result<Vec<Outcome>, SimulateError> {
    let next = AtomicUsize::new(0);
    let (sender, receiver) = mpsc::channel();
    let mut results: Vec<Option<Result<Outcome, SimulateError>>> = plans.iter().map(|_| None).collect();
    std::thread::scope(|threads_of| {
        for _ in 0..threads.clamp(1, plans.len().max(1)) {
            let (sender, next) = (sender.clone(), &next);
            threads_of.spawn(move || {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(plan) = plans.get(index) else { return };
                    let result = run(plan.scenario, plan.strategy, plan.seed);
                    if sender.send((index, result)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        for (count, (index, result)) in receiver.into_iter().enumerate() {
            if let Some(slot) = results.get_mut(index) {
                *slot = Some(result);
            }
            ended(count + 1, plans.len());
        }
    });
    results.into_iter().flatten().collect()
}
