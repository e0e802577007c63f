//! What calls turned out to use, stored. It is worth nothing when damaged and costs nobody anything when dropped: what is unsound
//! is counted and left out.

use bytes::Bytes;
use paceline_core::sketch::{Range, Sketch};
use paceline_core::usage::{Form, MOST_KINDS, MOST_METERS, Remembered, UsageBook};
use prost::Message;

use super::bounds::Checks;
use super::wire;

/// As stored.
pub(super) fn write(book: &UsageBook) -> Vec<Bytes> {
    book.kinds().iter().map(|kind| kind_message(kind).encode_to_vec().into()).collect()
}

/// From the store.
pub(super) fn read(stored: Vec<Bytes>, checks: &mut Checks) -> UsageBook {
    checks.require(stored.len() <= MOST_KINDS);
    let mut kinds: Vec<Remembered> = Vec::with_capacity(stored.len().min(MOST_KINDS));
    for bytes in stored.into_iter().take(MOST_KINDS) {
        let message = wire::Usage::decode(bytes).ok();
        checks.require(message.is_some());
        let Some(kind) = message.and_then(|message| kind(message, checks)) else { continue };
        let is_new =
            kinds.iter().all(|known| (&known.model, &known.label, known.form) != (&kind.model, &kind.label, kind.form));
        if checks.require(is_new) {
            kinds.push(kind);
        }
    }
    UsageBook::from_kinds(kinds)
}

fn kind_message(kind: &Remembered) -> wire::Usage {
    let Remembered { model, label, form, seen_at, meters } = kind;
    let meter = |(meter, sketch): &(std::sync::Arc<str>, Sketch)| wire::UsageMeter {
        meter: Bytes::copy_from_slice(meter.as_bytes()),
        ranges: sketch.ranges().iter().map(|range| u32::from(range.index)).collect(),
        counts: sketch.ranges().iter().map(|range| range.count).collect(),
        most: sketch.ranges().iter().map(|range| range.most).collect(),
    };
    wire::Usage {
        model: Bytes::copy_from_slice(model.as_bytes()),
        label: Bytes::copy_from_slice(label.as_bytes()),
        is_media: *form == Form::Media,
        seen_at: seen_at.as_micros(),
        meters: meters.iter().map(meter).collect(),
    }
}

fn kind(stored: wire::Usage, checks: &mut Checks) -> Option<Remembered> {
    let model = checks.name(&stored.model, true)?;
    let label = checks.name(&stored.label, true)?;
    checks.require(stored.meters.len() <= MOST_METERS);
    let mut meters = Vec::with_capacity(stored.meters.len().min(MOST_METERS));
    for stored in stored.meters.into_iter().take(MOST_METERS) {
        let sketch = sketch(&stored);
        checks.require(sketch.is_some());
        let (Some(meter), Some(sketch)) = (checks.name(&stored.meter, true), sketch) else { continue };
        meters.push((meter, sketch));
    }
    let form = if stored.is_media { Form::Media } else { Form::Text };
    Some(Remembered { model, label, form, seen_at: checks.instant(stored.seen_at), meters })
}

fn sketch(stored: &wire::UsageMeter) -> Option<Sketch> {
    let wire::UsageMeter { ranges, counts, most, .. } = stored;
    if ranges.len() != counts.len() || ranges.len() != most.len() {
        return None;
    }
    let range = |((index, count), most): ((&u32, &u32), &u64)| {
        u8::try_from(*index).ok().map(|index| Range { index, count: *count, most: *most })
    };
    Sketch::from_ranges(ranges.iter().zip(counts).zip(most).map(range).collect::<Option<_>>()?)
}
