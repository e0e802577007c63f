//! The two protobuf messages of gRPC trailers that state a wait: `google.rpc.RetryInfo`, alone or among the details of a
//! `google.rpc.Status`. Only the fields that matter are looked at (google/rpc/error_details.proto, google/rpc/status.proto).

use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use paceline_core::units::Span;

/// Padding is optional (gRPC over HTTP/2, section "Requests": binary headers).
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent).with_decode_allow_trailing_bits(true),
);

/// The largest message that is looked at, in bytes as sent; gRPC libraries bound all headers together by 8 KiB.
const LARGEST: usize = 16 * 1024;

/// The delay of a `RetryInfo`, as the wire has it (base64) or as libraries hand it over (bytes). Negative is unusable.
pub(crate) fn retry_info(value: &[u8]) -> Option<Span> {
    decoded(value).iter().find_map(|message| delay(message))
}

/// The delay of the `RetryInfo` among the details of a `Status`; `None` when there is none.
pub(crate) fn status_details(value: &[u8]) -> Option<Span> {
    decoded(value).iter().find_map(|status| {
        let details = fields(status)?.into_iter().filter(|(number, _)| *number == 3);
        details.filter_map(|(_, detail)| of_any(detail.bytes()?)).max()
    })
}

/// What the value may stand for: decoded when it is base64, and as it is (a message starts with a byte no base64 has).
fn decoded(value: &[u8]) -> Vec<Vec<u8>> {
    if value.len() > LARGEST {
        return Vec::new();
    }
    let from_base64 = BASE64.decode(value.trim_ascii()).ok();
    from_base64.into_iter().chain([value.to_vec()]).collect()
}

fn of_any(any: &[u8]) -> Option<Span> {
    let fields = fields(any)?;
    let bytes = |wanted: u64| fields.iter().find(|(number, _)| *number == wanted).and_then(|(_, field)| field.bytes());
    let is_retry_info = bytes(1)?.ends_with(b"/google.rpc.RetryInfo");
    is_retry_info.then(|| delay(bytes(2)?)).flatten()
}

/// `RetryInfo { Duration retry_delay = 1; }`, `Duration { int64 seconds = 1; int32 nanos = 2; }`.
fn delay(retry_info: &[u8]) -> Option<Span> {
    let message = fields(retry_info)?;
    let duration = message.iter().rev().find(|(number, _)| *number == 1).and_then(|(_, field)| field.bytes())?;
    let duration = fields(duration)?;
    let part = |wanted: u64| {
        let found = duration.iter().rev().find(|(number, _)| *number == wanted);
        found.map_or(Some(0), |(_, field)| field.integer())
    };
    let (seconds, nanos) = (part(1)?, part(2)?);
    if seconds < 0 || !(0..1_000_000_000).contains(&nanos) {
        return None;
    }
    // Rounded up: a wait is never read as less than it is.
    let micros = nanos.unsigned_abs().div_ceil(1_000);
    Some(Span::from_micros(seconds.saturating_mul(1_000_000).saturating_add(i64::try_from(micros).ok()?)))
}

/// One field's value.
enum Field<'a> {
    Varint(u64),
    Bytes(&'a [u8]),
    Fixed,
}

impl<'a> Field<'a> {
    fn bytes(&self) -> Option<&'a [u8]> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    fn integer(&self) -> Option<i64> {
        match self {
            Self::Varint(value) => Some(value.cast_signed()),
            _ => None,
        }
    }
}

/// All fields of a message; `None` when the bytes are no message as a whole.
fn fields(mut message: &[u8]) -> Option<Vec<(u64, Field<'_>)>> {
    let mut found = Vec::new();
    while !message.is_empty() {
        let key = varint(&mut message)?;
        let field = match key & 7 {
            0 => Field::Varint(varint(&mut message)?),
            1 => take(&mut message, 8).map(|_| Field::Fixed)?,
            2 => {
                let length = varint(&mut message)?;
                Field::Bytes(take(&mut message, usize::try_from(length).ok()?)?)
            }
            5 => take(&mut message, 4).map(|_| Field::Fixed)?,
            _ => return None,
        };
        match key >> 3 {
            0 => return None,
            number => found.push((number, field)),
        }
    }
    Some(found)
}

fn varint(message: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for position in 0..10 {
        let (byte, rest) = message.split_first()?;
        *message = rest;
        value |= u64::from(byte & 0x7f) << (7 * position);
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn take<'a>(message: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, rest) = message.split_at_checked(length)?;
    *message = rest;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn micros(value: &[u8]) -> Option<i64> {
        retry_info(value).map(Span::as_micros)
    }

    #[test]
    fn retry_infos() {
        for (value, expected) in [
            (&b"CgIIAQ"[..], Some(1_000_000)),
            (b"CgIIAQ==", Some(1_000_000)),
            (b" CgIIAQ== ", Some(1_000_000)),
            (&[0x0a, 0x02, 0x08, 0x01], Some(1_000_000)),
            // 22 s and 500,000,001 ns.
            (b"CggIFhCByrXuAQ==", Some(22_500_001)),
            // No seconds, 1 ns.
            (b"CgIQAQ==", Some(1)),
            // A duration of zero, no delay at all.
            (b"CgA=", Some(0)),
            (b"", None),
            // Minus one second.
            (b"CgsI////////////AQ==", None),
            (b"soon", None),
            (b"CgII", None),
        ] {
            assert_eq!(micros(value), expected, "{value:?}");
        }
    }

    #[test]
    fn a_status_with_details() {
        let any = |url: &[u8], value: &[u8]| {
            let mut any = vec![0x0a, u8::try_from(url.len()).unwrap_or(0)];
            any.extend(url);
            any.extend([0x12, u8::try_from(value.len()).unwrap_or(0)]);
            any.extend(value);
            let mut field = vec![0x1a, u8::try_from(any.len()).unwrap_or(0)];
            field.extend(any);
            field
        };
        let mut status = vec![0x08, 0x08, 0x12, 0x02, b'n', b'o'];
        assert_eq!(status_details(&status), None);
        status.extend(any(b"type.googleapis.com/google.rpc.QuotaFailure", &[]));
        assert_eq!(status_details(&status), None);
        status.extend(any(b"type.googleapis.com/google.rpc.RetryInfo", &[0x0a, 0x02, 0x08, 0x07]));
        assert_eq!(status_details(&status), Some(Span::from_secs(7)));
        let text = base64::engine::general_purpose::STANDARD_NO_PAD.encode(&status);
        assert_eq!(status_details(text.as_bytes()), Some(Span::from_secs(7)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(value in prop::collection::vec(any::<u8>(), 0..64)) {
            let wait = retry_info(&value).max(status_details(&value));
            prop_assert!(wait.is_none_or(|wait| wait >= Span::ZERO));
        }
    }
}
