//! Asking again at once: whoever is told that nobody is there waits before the next try, and longer each time.

use std::time::Duration;

use super::super::event::{Answer, Event, Said, What};
use super::{Findings, Rule};

/// So many tries within a second are too many: pauses that double from 50 ms make five.
const MOST: usize = 10;
const SECOND: Duration = Duration::from_secs(1);

/// Checks the pace of asks and reports that nobody answered.
pub(super) fn check(events: &[&Event], findings: &mut Findings) {
    for (what, tries) in [("asked", failed_asks(events)), ("reported", failed_reports(events))] {
        let most = busiest(&tries);
        if most > MOST {
            let seen = format!("{what} {most} times within a second, each time answered UNAVAILABLE; pauses have to grow");
            findings.add(Rule::Number(8), seen);
        }
    }
}

/// When was asked what nobody answered.
fn failed_asks(events: &[&Event]) -> Vec<Duration> {
    let (mut last, mut tries) = (None, Vec::new());
    for event in events {
        match &event.what {
            What::Asked { .. } => last = Some(event.at),
            What::Answered(Answer::Failed) => tries.extend(last.take()),
            _ => {}
        }
    }
    tries
}

/// When was reported what nobody answered.
fn failed_reports(events: &[&Event]) -> Vec<Duration> {
    let is_failed = |wanted: u64| {
        let says = |event: &&Event| matches!(&event.what, What::Told { number, said: Said::Failed } if *number == wanted);
        events.iter().any(says)
    };
    let tries = events.iter().filter(|event| matches!(&event.what, What::Reported { number, .. } if is_failed(*number)));
    tries.map(|event| event.at).collect()
}

/// The most of these instants that lie within a second.
fn busiest(tries: &[Duration]) -> usize {
    let from = |start: &Duration| tries.iter().filter(|at| **at >= *start && **at < *start + SECOND).count();
    tries.iter().map(from).max().unwrap_or(0)
}
