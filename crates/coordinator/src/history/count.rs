//! An event as sums. Pure.

use paceline_core::delays;
use paceline_core::history::Hourly;
use paceline_core::mode::Mode;
use paceline_core::report::Outcome;

use crate::scope::{DecidedAs, EndedAs, Event, ReportEvent, UnitsOf};

/// Adds what an event says.
pub(super) fn count(hour: &mut Hourly, event: &Event) {
    match event {
        Event::Decided { mode, is_retry, outcome, delays, .. } => {
            let counts = hour.mode_mut(*mode);
            match outcome {
                // It comes back with its ticket.
                DecidedAs::Queued => return,
                DecidedAs::Denied(reason) => counts.deny(reason.name()),
                DecidedAs::Granted if *mode == Mode::Enforce => counts.waits.note(delays::total(delays)),
                // What would have been is told by itself.
                DecidedAs::Granted => {}
            }
            counts.asks += 1;
            counts.retries += u64::from(*is_retry);
            counts.judged += u64::from(*mode == Mode::Enforce);
        }
        Event::Watched { wait, denied, is_needless, .. } => {
            let counts = hour.mode_mut(Mode::Shadow);
            counts.needless += u64::from(*is_needless);
            counts.waits.note(*wait);
            denied.iter().for_each(|reason| counts.deny(reason));
            // One whose name was taken is judged once more under a name of its own.
            counts.judged += u64::from(*denied != Some(crate::scope::NAME_TAKEN));
        }
        Event::Prevented { .. } => hour.mode_mut(Mode::Shadow).prevented += 1,
        Event::Reported(report) => {
            if let Some(ended) = &report.ended {
                count_end(hour, report, ended);
            }
        }
        Event::Used { mode, is_retry, units, .. } => {
            for UnitsOf { meter, used, .. } in units {
                let units = hour.mode_mut(*mode).units_of(meter);
                units.used += used;
                units.retried += if *is_retry { *used } else { 0 };
            }
        }
        Event::Spoilt { mode, units } => {
            for UnitsOf { meter, used, .. } in units {
                hour.mode_mut(*mode).units_of(meter).refused += used;
            }
        }
        Event::LeasesExpired(_)
        | Event::LateUse { .. }
        | Event::LimitFlapped { .. }
        | Event::AccountMixed { .. }
        | Event::Changed(_)
        | Event::Left(_)
        | Event::Repaired(_) => {}
    }
}

fn count_end(hour: &mut Hourly, report: &ReportEvent, ended: &EndedAs) {
    let counts = hour.mode_mut(ended.mode);
    if report.outcome != Outcome::Response {
        counts.unanswered += 1;
        return;
    }
    counts.answers += 1;
    counts.silent += u64::from(!ended.tells);
    if ended.is_refused {
        let says = report.refusal_source.is_some_and(|source| source != paceline_core::signal::Source::None);
        counts.refuse(if report.status > 0 { report.status } else { report.grpc_status.unwrap_or(0) }, says);
    }
}
