//! The limits that people have said for a while.

use bytes::Bytes;
use paceline_core::controls::{LimitSaid, Limits, MOST_CONTROLS, OverLimit};
use paceline_core::units::{FleetTime, Span};

use super::bounds::Checks;
use super::wire;

pub(super) fn write(limits: &Limits) -> Option<wire::Limits> {
    let Limits { at, said } = limits;
    let said = said.iter().map(|one| {
        let LimitSaid { limit: OverLimit { bucket, units, per }, model, ends } = one;
        wire::LimitSaid {
            bucket: text(bucket),
            units: *units,
            per: per.map(Span::as_micros),
            model: text(model),
            ends: ends.as_micros(),
        }
    });
    (*limits != Limits::default()).then(|| wire::Limits { at: at.as_micros(), said: said.collect() })
}

/// What cannot be read is not said: the next replica that has the book says it again. A book of the future would never be followed
/// by another: it counts from now.
pub(super) fn read(stored: Option<wire::Limits>, now: FleetTime, checks: &mut Checks) -> Limits {
    let Some(stored) = stored else { return Limits::default() };
    checks.require(stored.said.len() <= MOST_CONTROLS);
    let before = checks.found;
    let said = stored.said.into_iter().take(MOST_CONTROLS).filter_map(|one| {
        let bucket = checks.name(&one.bucket, false)?;
        let model = checks.name(&one.model, true)?;
        let per = checks.window(one.per);
        let ends = checks.instant(one.ends);
        let is_sound = checks.require(one.units > 0 && per.is_some() == one.per.is_some());
        is_sound.then_some(LimitSaid { limit: OverLimit { bucket, units: one.units, per }, model, ends })
    });
    let said = said.collect();
    let at = checks.instant(stored.at).min(now);
    if checks.found == before { Limits { at, said } } else { Limits::default() }
}

fn text(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}
