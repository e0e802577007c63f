//! How replicas know each other: whoever holds the store's token keys is one of the fleet.

use paceline_coordinator::token::{Keyring, Kind, Opened};
use paceline_core::units::{FleetTime, Span};

/// The metadata of a Session in which a replica proves what it is.
pub(crate) const METADATA: &str = "paceline-peer-bin";
/// A proof is good for so long, so that one that was seen cannot be used later.
const GOOD_FOR: Span = Span::from_secs(60);
/// Two replicas, of four bytes each, and the time, of eight.
const BODY_BYTES: usize = 16;

/// What whoever looks for another replica is told; it knows itself by that what is wrong.
pub(crate) const FOR_ANOTHER: &str = "the proof is for another replica than the one that is reached here";

/// Why somebody is not taken for a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// Not made by a replica of this fleet.
    Forged,
    /// Made with a key that is not known here, or not yet.
    UnknownKey,
    /// Meant for another replica: one that was here before, or that shares the address.
    ForAnother {
        /// Whose proof it is.
        from: u32,
        /// Whom it is meant for.
        to: u32,
    },
    /// Too old, or of the future.
    Stale,
}

impl Refused {
    /// What is wrong, for whoever looks into the log of the other replica.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Forged => "the proof was not made by a replica of this fleet",
            Self::UnknownKey => "the proof was made with a key that this replica does not know",
            Self::ForAnother { .. } => FOR_ANOTHER,
            Self::Stale => "the proof is too old",
        }
    }
}

/// Proves to one replica that this one belongs to its fleet, now.
pub(crate) fn prove(keyring: &Keyring, from: u32, to: u32, now: FleetTime) -> Vec<u8> {
    let mut body = Vec::with_capacity(BODY_BYTES);
    body.extend(from.to_be_bytes());
    body.extend(to.to_be_bytes());
    body.extend(now.as_micros().to_be_bytes());
    keyring.seal(Kind::Peer, &body)
}

/// Which replica it is that proves itself to this one.
pub(crate) fn check(keyring: &Keyring, own: u32, now: FleetTime, proof: &[u8]) -> Result<u32, Refused> {
    let body = match keyring.open(Kind::Peer, proof) {
        Opened::Authentic(body) => body,
        Opened::UnknownKey(_) => return Err(Refused::UnknownKey),
        Opened::Forged => return Err(Refused::Forged),
    };
    let [a, b, c, d, e, f, g, h, time @ ..] = body.as_slice() else { return Err(Refused::Forged) };
    let time = <[u8; 8]>::try_from(time).map_err(|_| Refused::Forged)?;
    let (from, to) = (u32::from_be_bytes([*a, *b, *c, *d]), u32::from_be_bytes([*e, *f, *g, *h]));
    let made_at = FleetTime::from_micros(i64::from_be_bytes(time));
    if to != own {
        return Err(Refused::ForAnother { from, to });
    }
    let is_fresh = now.since(made_at) <= GOOD_FOR && made_at.since(now) <= GOOD_FOR;
    if is_fresh { Ok(from) } else { Err(Refused::Stale) }
}

#[cfg(test)]
mod tests {
    use paceline_store::{TokenKey, TokenKeys};

    use super::*;

    fn keyring(id: u32) -> Keyring {
        let current = TokenKey { id, secret: [u8::try_from(id).unwrap(); 32] };
        Keyring::new(TokenKeys { current, older: Vec::new() })
    }

    #[test]
    fn a_proof_is_for_one_replica_and_one_minute() {
        let (ring, now) = (keyring(1), FleetTime::from_micros(1_800_000_000_000_000));
        let proof = prove(&ring, 7, 9, now);
        assert_eq!(check(&ring, 9, now, &proof), Ok(7));
        assert_eq!(check(&ring, 9, now + Span::from_secs(59), &proof), Ok(7));
        assert_eq!(check(&ring, 8, now, &proof), Err(Refused::ForAnother { from: 7, to: 9 }));
        assert_eq!(check(&ring, 9, now + Span::from_secs(61), &proof), Err(Refused::Stale));
        assert_eq!(check(&ring, 9, now - Span::from_secs(61), &proof), Err(Refused::Stale));
        assert_eq!(check(&keyring(2), 9, now, &proof), Err(Refused::UnknownKey));
        assert_eq!(check(&ring, 9, now, b"paceline"), Err(Refused::Forged));
        for index in 0..proof.len() {
            let mut changed = proof.clone();
            changed[index] ^= 1;
            assert!(check(&ring, 9, now, &changed).is_err(), "byte {index}");
        }
        let lease = ring.seal(Kind::Lease, &[0; BODY_BYTES]);
        assert_eq!(check(&ring, 0, now, &lease), Err(Refused::Forged), "a lease is no proof");
    }
}
