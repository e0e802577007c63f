//! What became of calls, from messages to core types and back.

use paceline_core::history::{Counts, Hourly, Units, Waits};
use paceline_core::mode::Mode;
use paceline_core::units::Span;

use crate::convert::duration;
use crate::v1;

/// Writes an hour that began so long ago.
pub fn hour(hour: &Hourly, age: Span) -> v1::HistoryHour {
    let some = Mode::ALL.into_iter().rev().filter(|mode| *hour.mode(*mode) != Counts::default());
    let calls = some.map(|mode| counted(mode, hour.mode(mode))).collect();
    v1::HistoryHour { age: Some(duration(age)), calls, lost: hour.lost }
}

/// Reads an hour in an answer; calls of a mode that is not known here are left out.
pub fn read_hour(told: &v1::HistoryHour) -> Hourly {
    let mut hour = Hourly::default();
    hour.lost = told.lost;
    for calls in &told.calls {
        let mode = match v1::Mode::try_from(calls.mode) {
            Ok(v1::Mode::Unspecified) | Err(_) => continue,
            Ok(mode) => Mode::from(mode),
        };
        hour.mode_mut(mode).add(&counts(calls));
    }
    hour
}

fn counted(mode: Mode, counts: &Counts) -> v1::CountedCalls {
    let of = |units: &Units| v1::CountedUnits { used: units.used, retried: units.retried, refused: units.refused };
    v1::CountedCalls {
        mode: v1::Mode::from(mode).into(),
        asks: counts.asks,
        retries: counts.retries,
        judged: counts.judged,
        waited: counts.waits.count,
        wait_total: Some(duration(counts.waits.total())),
        waits: counts.waits.bins.to_vec(),
        denied: counts.denied.clone().into_iter().collect(),
        answers: counts.answers,
        unanswered: counts.unanswered,
        silent: counts.silent,
        refused: counts.refused.clone().into_iter().collect(),
        unsaid: counts.unsaid,
        prevented: counts.prevented,
        needless: counts.needless,
        units: counts.units.iter().map(|(meter, units)| (meter.clone(), of(units))).collect(),
    }
}

fn counts(told: &v1::CountedCalls) -> Counts {
    let mut waits = Waits { count: told.waited, ..Waits::default() };
    let total = told.wait_total.unwrap_or_default();
    let millis = total.seconds.saturating_mul(1_000).saturating_add(i64::from(total.nanos) / 1_000_000);
    waits.total_millis = u64::try_from(millis).unwrap_or(0);
    for (bin, count) in waits.bins.iter_mut().zip(&told.waits) {
        *bin = *count;
    }
    let of = |units: &v1::CountedUnits| Units { used: units.used, retried: units.retried, refused: units.refused };
    Counts {
        asks: told.asks,
        retries: told.retries,
        judged: told.judged,
        waits,
        denied: told.denied.clone().into_iter().collect(),
        answers: told.answers,
        unanswered: told.unanswered,
        silent: told.silent,
        refused: told.refused.clone().into_iter().collect(),
        unsaid: told.unsaid,
        prevented: told.prevented,
        needless: told.needless,
        units: told.units.iter().map(|(meter, units)| (meter.clone(), of(units))).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_comes_back_as_it_was() {
        let mut there = Hourly::default();
        there.lost = 3;
        for mode in [Mode::Shadow, Mode::Enforce] {
            let counts = there.mode_mut(mode);
            (counts.asks, counts.judged, counts.answers, counts.prevented, counts.needless) = (9, 8, 7, 2, 1);
            counts.waits.note(Span::from_millis(1_250));
            counts.waits.note(Span::from_secs(100_000));
            counts.deny("deadline");
            counts.refuse(429, false);
            counts.units_of("tokens").retried = 5;
        }
        let told = hour(&there, Span::from_secs(60));
        assert_eq!((told.calls.len(), told.age.map(|age| age.seconds)), (2, Some(60)));
        assert_eq!(read_hour(&told), there);
        let newer = v1::HistoryHour { calls: vec![v1::CountedCalls { mode: 99, asks: 5, ..Default::default() }], ..told };
        let read = read_hour(&newer);
        assert_eq!((read.asks(), read.lost), (0, 3));
    }
}
