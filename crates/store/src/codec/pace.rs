//! What learning knows of a bucket's pace and of a service's health, to messages and back.

use paceline_core::backing::{Backing, MOST_REPORTS};
use paceline_core::breaker::Breaker;
use paceline_core::ceiling::Ceiling;
use paceline_core::drain::{Base, Drain};
use paceline_core::shape::NamedEnd;
use paceline_core::trail::Trail;

use super::bounds::{Checks, MOST_COUNTED};
use super::wire;

/// `None` for what is as at the beginning: most buckets need none of this.
fn unless_new<T: Default + PartialEq, W>(state: &T, write: impl FnOnce(&T) -> W) -> Option<W> {
    (*state != T::default()).then(|| write(state))
}

pub(super) fn write_backing(backing: &Backing) -> Option<wire::Backing> {
    unless_new(backing, |Backing { at, reports }| wire::Backing { at: at.as_micros(), reports: *reports })
}

pub(super) fn read_backing(stored: Option<wire::Backing>, checks: &mut Checks) -> Backing {
    let Some(stored) = stored else { return Backing::default() };
    Backing { at: checks.instant(stored.at), reports: reports(stored.reports, checks) }
}

pub(super) fn reports(stored: u32, checks: &mut Checks) -> u32 {
    checks.only_if(stored <= MOST_REPORTS, stored).unwrap_or(0)
}

pub(super) fn write_named_end(end: &NamedEnd) -> wire::NamedEnd {
    let NamedEnd { mark, remaining, reset_in, earliest, latest } = *end;
    wire::NamedEnd {
        mark,
        remaining,
        reset_in: reset_in.as_micros(),
        earliest: earliest.as_micros(),
        latest: latest.as_micros(),
    }
}

pub(super) fn read_named_end(stored: &wire::NamedEnd, checks: &mut Checks) -> Option<NamedEnd> {
    let before = checks.found;
    let end = NamedEnd {
        mark: checks.mark(stored.mark),
        remaining: stored.remaining,
        reset_in: checks.length(stored.reset_in).unwrap_or_default(),
        earliest: checks.instant(stored.earliest),
        latest: checks.instant(stored.latest),
    };
    (checks.found == before).then_some(end)
}

pub(super) fn write_trail(trail: &Trail) -> Option<wire::Trail> {
    unless_new(trail, |Trail { at, fired, before }| wire::Trail { at: at.as_micros(), fired: *fired, before: *before })
}

pub(super) fn read_trail(stored: wire::Trail, checks: &mut Checks) -> Trail {
    Trail { at: checks.instant(stored.at), fired: checks.mark(stored.fired), before: checks.mark(stored.before) }
}

pub(super) fn write_drain(drain: &Drain) -> Option<wire::Drain> {
    unless_new(drain, |Drain { per_minute, base, last, backing }| wire::Drain {
        last: last.as_milli(),
        per_minute: per_minute.as_milli(),
        backing: write_backing(backing),
        base: base.map(|Base { mark, remaining, at, took }| wire::DrainBase {
            mark,
            remaining: remaining.as_milli(),
            at: at.as_micros(),
            took: took.as_micros(),
        }),
    })
}

pub(super) fn read_drain(stored: wire::Drain, checks: &mut Checks) -> Drain {
    let base = stored.base.and_then(|base| {
        let before = checks.found;
        let base = Base {
            mark: checks.mark(base.mark),
            remaining: checks.stock(base.remaining),
            at: checks.instant(base.at),
            took: checks.length(base.took).unwrap_or_default(),
        };
        (checks.found == before).then_some(base)
    });
    Drain {
        per_minute: checks.amount(stored.per_minute),
        base,
        last: checks.amount(stored.last),
        backing: read_backing(stored.backing, checks),
    }
}

pub(super) fn write_ceiling(ceiling: &Ceiling) -> Option<wire::Ceiling> {
    unless_new(ceiling, |ceiling| {
        let Ceiling {
            allowed,
            measured,
            anchor_at,
            anchor_mark,
            refused,
            cut_mark,
            is_silent,
            began_at,
            began_fired,
            hold_until,
            hold,
            climbs,
            stretch_at,
            stretch_passed,
        } = *ceiling;
        wire::Ceiling {
            allowed: allowed.as_milli(),
            measured: measured.as_milli(),
            anchor_at: anchor_at.as_micros(),
            anchor_mark,
            refused: refused.as_milli(),
            cut_mark,
            is_silent,
            began_at: began_at.as_micros(),
            began_fired,
            hold_until: hold_until.as_micros(),
            hold: hold.as_micros(),
            climbs,
            stretch_at: stretch_at.as_micros(),
            stretch_passed: stretch_passed.as_milli(),
        }
    })
}

pub(super) fn read_ceiling(stored: wire::Ceiling, checks: &mut Checks) -> Ceiling {
    Ceiling {
        allowed: checks.stock(stored.allowed),
        measured: checks.stock(stored.measured),
        anchor_at: checks.instant(stored.anchor_at),
        anchor_mark: checks.mark(stored.anchor_mark),
        refused: checks.stock(stored.refused),
        cut_mark: checks.mark(stored.cut_mark),
        is_silent: stored.is_silent,
        began_at: checks.instant(stored.began_at),
        began_fired: checks.mark(stored.began_fired),
        hold_until: checks.instant(stored.hold_until),
        hold: checks.length(stored.hold).unwrap_or_default(),
        climbs: stored.climbs,
        stretch_at: checks.instant(stored.stretch_at),
        stretch_passed: checks.stock(stored.stretch_passed),
    }
}

pub(super) fn write_breaker(breaker: &Breaker) -> Option<wire::Breaker> {
    unless_new(breaker, |breaker| {
        let Breaker { failures, leases, last_mark, opened_at, gap, probing_until } = *breaker;
        wire::Breaker {
            failures,
            leases,
            last_mark,
            opened_at: opened_at.as_micros(),
            gap: gap.as_micros(),
            probing_until: probing_until.as_micros(),
        }
    })
}

pub(super) fn read_breaker(stored: wire::Breaker, checks: &mut Checks) -> Breaker {
    Breaker {
        failures: stored.failures,
        leases: stored.leases,
        last_mark: checks.count(stored.last_mark, MOST_COUNTED),
        opened_at: checks.instant(stored.opened_at),
        gap: checks.length(stored.gap).unwrap_or_default(),
        probing_until: checks.instant(stored.probing_until),
    }
}
