//! The yardstick: how fast a fleet finishes its calls when it knows the provider's meters exactly.
//!
//! What it assumes: a call is sent the moment a worker is free, the provider is up and every meter has room, so nothing is ever
//! refused; calls that are not there from the start come in the order given, as they do to anyone; another consumer gets all of its share (a fleet that takes from it may be faster); the n-th call sent takes the n-th latency the
//! provider would draw; the network takes no time; the first calls are not scripted.
//!
//! Calls of one model go in the order given. For them this greedy schedule is exact: sending a call earlier never delays a
//! later one (a bucket that is drawn on earlier only wastes less at its brim, a window only fills sooner, a cut limit cuts off
//! less), so by induction every call leaves at the earliest time that any schedule in that order
//! allows. With output settled at a call's end two things soften that: units given back to a bucket at its brim are lost, which
//! takes workers to be short before the limit is; and output charged at the end could be outrun by calls held back so that more
//! of them end later. Between models, whichever can go first goes first,
//! which is exact while they share no meter and workers are no bottleneck, and otherwise what a very good scheduler does.
//! Re-packing calls of different sizes into fixed windows could beat it: that is a knapsack, which nobody solves online.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::sync::Arc;

use paceline_core::units::{FleetTime, Span};

use crate::error::SimError;
use crate::gate::{Shortage, Verdict};
use crate::provider::{Call, Provider, ProviderConfig};
use crate::world::World;

/// The least time in which `workers`, each with one call in flight at most, finish `calls` from `start`, on a provider with
/// full meters that starts at `start`; from then to the last answer.
pub fn clairvoyant_makespan(
    config: &ProviderConfig,
    start: FleetTime,
    calls: &[Call],
    workers: usize,
) -> Result<Span, SimError> {
    Provider::starting_at(config.clone(), start)?.clairvoyant_makespan(start, calls, workers)
}

/// A call that is there from some time on.
#[derive(Clone, Copy, Debug)]
pub struct Due<'a> {
    /// When it comes, from the start.
    pub from: Span,
    /// The call.
    pub call: &'a Call,
}

/// The same on meters as they are; `latency` gives that of the n-th call sent, from 0.
pub(crate) fn finish(
    world: World,
    start: FleetTime,
    calls: &[Due<'_>],
    workers: usize,
    latency: impl Fn(u64, &Call) -> Span,
) -> Result<Span, SimError> {
    if workers == 0 {
        return Err(SimError::NoWorkers);
    }
    let mut world = world.giving_way();
    let mut lines = lines_by_model(calls);
    let mut free: BinaryHeap<Reverse<FleetTime>> = (0..workers.min(calls.len())).map(|_| Reverse(start)).collect();
    let (mut now, mut end) = (start, start);
    for sent in 0..calls.len() {
        // There are never fewer free times than workers, so one is always there.
        let Some(Reverse(worker_free)) = free.pop() else { break };
        now = now.max(worker_free);
        let heads = lines.iter().filter_map(VecDeque::front).map(|(index, due)| (*index, start + due.from, due.call));
        let first = world.first_to_pass(now, heads).map_err(|(index, shortage)| never_fits(index, &shortage))?;
        let Some((at, index)) = first else { break };
        now = now.max(at);
        let line = lines.iter_mut().find(|line| line.front().is_some_and(|(head, _)| *head == index));
        let Some((_, Due { call, .. })) = line.and_then(VecDeque::pop_front) else { break };
        let verdict = world.admit(now, call);
        debug_assert_eq!(verdict, Verdict::Passed, "the meters said that it fits");
        let answered = now + latency(u64::try_from(sent).unwrap_or(u64::MAX), call);
        world.will_end(now, answered, call);
        end = end.max(answered);
        free.push(Reverse(answered));
    }
    Ok(end - start)
}

type Line<'a> = VecDeque<(usize, Due<'a>)>;

/// The calls of each model, in order.
fn lines_by_model<'a>(calls: &[Due<'a>]) -> Vec<Line<'a>> {
    let mut lines: Vec<Line<'_>> = Vec::new();
    let mut of_model: HashMap<&Arc<str>, usize> = HashMap::new();
    for (index, due) in calls.iter().enumerate() {
        let line = *of_model.entry(&due.call.model).or_insert_with(|| {
            lines.push(VecDeque::new());
            lines.len() - 1
        });
        if let Some(line) = lines.get_mut(line) {
            line.push_back((index, *due));
        }
    }
    lines
}

fn never_fits(index: usize, shortage: &Shortage) -> SimError {
    SimError::NeverFits { index, meter: shortage.reading.meter.to_string(), cost: shortage.cost, most: shortage.most }
}

#[cfg(test)]
#[path = "clairvoyant_laws.rs"]
mod laws;

#[cfg(test)]
#[path = "clairvoyant_worlds.rs"]
mod worlds;
