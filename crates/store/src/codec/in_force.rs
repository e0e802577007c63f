//! Whose configuration the limits come from.

use bytes::Bytes;
use paceline_core::in_force::{ConfigHash, InForce};
use paceline_core::units::FleetTime;

use super::wire;

pub(super) fn write(in_force: &InForce) -> wire::InForce {
    let InForce { hash, since, before } = in_force;
    wire::InForce { hash: bytes(*hash), since: since.as_micros(), before: bytes(*before) }
}

/// What cannot be read is nobody's: the next replica puts its own in force. One from the future would never be followed by
/// another: it counts from now.
pub(super) fn read(stored: &wire::InForce, since: FleetTime, now: FleetTime) -> Option<InForce> {
    let hash = hash(&stored.hash)?;
    let since = since.min(now);
    let before = if stored.before.is_empty() { ConfigHash::default() } else { self::hash(&stored.before)? };
    Some(InForce { hash, since, before })
}

fn bytes(hash: ConfigHash) -> Bytes {
    if hash == ConfigHash::default() { Bytes::new() } else { Bytes::copy_from_slice(&hash.0.to_be_bytes()) }
}

fn hash(stored: &Bytes) -> Option<ConfigHash> {
    <[u8; 16]>::try_from(&**stored).ok().map(|bytes| ConfigHash(u128::from_be_bytes(bytes)))
}
