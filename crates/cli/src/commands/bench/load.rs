//! How calls are sent: so many a second, or so many at a time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{sleep_until, timeout};

use super::BenchError;
use super::caller::{Caller, Ended};
use super::cpu::Cpu;
use super::figures::{Figures, Measured};

/// How long calls that were sent in time may take to be answered after the end.
const GRACE: Duration = Duration::from_secs(5);

/// How calls follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// So many a second, whatever becomes of those before. A call's latency counts from when it was due.
    Rate(u32),
    /// So many at a time: each is followed by the next.
    InFlight(u32),
}

/// Loads the service: first to warm up, then to measure.
pub(super) async fn run(
    caller: &Arc<Caller>,
    shape: Shape,
    warm_up: Duration,
    duration: Duration,
    cpu: Cpu,
) -> Result<Measured, BenchError> {
    let begins = Instant::now();
    let (from, until) = (begins + warm_up, begins + warm_up + duration);
    let figures = Arc::new(Figures::new(from));
    let mut calls = match shape {
        Shape::Rate(rate) => at_rate(caller, &figures, rate, until),
        Shape::InFlight(count) => in_flight(caller, &figures, count, until),
    };
    sleep_until(from.into()).await;
    let before = cpu.read()?;
    sleep_until(until.into()).await;
    let answered = figures.answered();
    let used = cpu.read()?.zip(before).map(|(after, before)| after.saturating_sub(before));
    let all_ended = async { while calls.join_next().await.is_some() {} };
    if timeout(GRACE, all_ended).await.is_err() {
        figures.unanswered(GRACE);
    }
    Ok(figures.measured(duration, used, answered))
}

/// Keeps so many calls in flight.
fn in_flight(caller: &Arc<Caller>, figures: &Arc<Figures>, count: u32, until: Instant) -> JoinSet<()> {
    let mut calls = JoinSet::new();
    let per_message = caller.per_message();
    for _ in 0..usize::try_from(count).unwrap_or(1).div_ceil(per_message) {
        let (caller, figures) = (caller.clone(), figures.clone());
        calls.spawn(async move {
            while Instant::now() < until {
                message(&caller, &figures, vec![Instant::now(); per_message]).await;
            }
        });
    }
    calls
}

/// Starts so many calls a second.
fn at_rate(caller: &Arc<Caller>, figures: &Arc<Figures>, rate: u32, until: Instant) -> JoinSet<()> {
    let (due, mut starts) = mpsc::unbounded_channel();
    // A thread of its own: the runtime's timers are a millisecond wide, which would be most of a latency.
    #[expect(clippy::disallowed_methods, reason = "it is no thread of the runtime that sleeps")]
    std::thread::spawn(move || {
        let begins = Instant::now();
        for nth in 0_u64.. {
            let at = begins + Duration::from_nanos(nth.saturating_mul(1_000_000_000) / u64::from(rate.max(1)));
            if at >= until {
                return;
            }
            std::thread::sleep(at.saturating_duration_since(Instant::now()));
            if due.send(at).is_err() {
                return;
            }
        }
    });
    let (caller, figures) = (caller.clone(), figures.clone());
    let mut all = JoinSet::new();
    all.spawn(async move {
        let (mut calls, mut together) = (JoinSet::new(), Vec::new());
        while let Some(at) = starts.recv().await {
            together.push(at);
            if together.len() < caller.per_message() {
                continue;
            }
            let (caller, figures, due) = (caller.clone(), figures.clone(), std::mem::take(&mut together));
            calls.spawn(async move { message(&caller, &figures, due).await });
            while calls.try_join_next().is_some() {}
        }
        while calls.join_next().await.is_some() {}
    });
    all
}

/// One message with calls that were due at these instants.
async fn message(caller: &Caller, figures: &Figures, due: Vec<Instant>) {
    due.iter().for_each(|due| figures.sent(*due));
    let (mut leases, mut has_failed) = (Vec::new(), false);
    for (ended, due) in caller.acquire(due.len()).await.into_iter().zip(&due) {
        match ended {
            Ended::Granted { lease_id, tickets, replica } => {
                figures.granted(*due, tickets);
                leases.push((lease_id, replica));
            }
            Ended::Denied { why } => figures.denied(*due, why),
            Ended::Failed { why } => {
                figures.failed(*due, why);
                has_failed = true;
            }
        }
    }
    if let Some(due) = due.last() {
        caller.report(leases).await.into_iter().for_each(|why| figures.failed(*due, why));
    }
    if has_failed {
        // Not a busy loop against something that refuses connections.
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
