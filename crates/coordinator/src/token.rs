//! Tokens that carry a lease or a place in line: version, kind, key id, body, MAC. Any replica reads them without a look-up,
//! and nobody can make one (RFC 2104 HMAC with SHA-256, cut to 16 bytes).

use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use hmac::{Hmac, KeyInit, Mac};
use paceline_store::{TokenKey, TokenKeys};
use sha2::Sha256;

const VERSION: u8 = 1;
const HEAD_BYTES: usize = 6;
const MAC_BYTES: usize = 16;
/// Longer tokens are none of ours.
const MOST_BYTES: usize = 64 * 1024;

/// What a token is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A granted slot.
    Lease = 1,
    /// A place in line.
    Ticket = 2,
    /// A replica that proves itself to another one.
    Peer = 3,
}

/// The key that signs, and older ones that are still accepted; replaced when the store's keys rotate.
pub struct Keyring(RwLock<TokenKeys>);

/// What a token turned out to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opened {
    /// One of ours, unchanged.
    Authentic(Vec<u8>),
    /// Signed with a key we do not have (any more): perhaps ours from before a restart. The body is not to be trusted.
    UnknownKey(Vec<u8>),
    /// Not a token of ours, or changed.
    Forged,
}

impl Keyring {
    /// A keyring with the store's keys.
    pub fn new(keys: TokenKeys) -> Self {
        Self(RwLock::new(keys))
    }

    /// Signs and accepts with these keys from now on.
    pub fn replace(&self, keys: TokenKeys) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = keys;
    }

    fn keys(&self) -> RwLockReadGuard<'_, TokenKeys> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Signs a body.
    pub fn seal(&self, kind: Kind, body: &[u8]) -> Vec<u8> {
        let keys = self.keys();
        let mut token = Vec::with_capacity(HEAD_BYTES + body.len() + MAC_BYTES);
        token.extend([VERSION, kind as u8]);
        token.extend(keys.current.id.to_be_bytes());
        token.extend(body);
        let mac = mac(&keys.current, &token).finalize().into_bytes();
        token.extend(mac.iter().take(MAC_BYTES));
        token
    }

    /// Checks a token.
    pub fn open(&self, kind: Kind, token: &[u8]) -> Opened {
        if token.len() < HEAD_BYTES + MAC_BYTES || token.len() > MOST_BYTES {
            return Opened::Forged;
        }
        let (signed, tag) = token.split_at(token.len() - MAC_BYTES);
        let [version, told_kind, a, b, c, d, body @ ..] = signed else { return Opened::Forged };
        if *version != VERSION || *told_kind != kind as u8 {
            return Opened::Forged;
        }
        let id = u32::from_be_bytes([*a, *b, *c, *d]);
        match self.keys().find(id) {
            None => Opened::UnknownKey(body.to_vec()),
            Some(key) if mac(key, signed).verify_truncated_left(tag).is_ok() => Opened::Authentic(body.to_vec()),
            Some(_) => Opened::Forged,
        }
    }
}

impl std::fmt::Debug for Keyring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Keyring")
    }
}

fn mac(key: &TokenKey, signed: &[u8]) -> Hmac<Sha256> {
    // A 32-byte key is shorter than the block, so the padded key is the key itself (RFC 2104, section 2).
    let mut block = [0_u8; 64];
    for (to, from) in block.iter_mut().zip(key.secret) {
        *to = from;
    }
    let mut mac = Hmac::<Sha256>::new(&block.into());
    mac.update(signed);
    mac
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ring(id: u32) -> Keyring {
        let current = TokenKey { id, secret: [u8::try_from(id).unwrap(); 32] };
        Keyring::new(TokenKeys { current, older: vec![TokenKey { id: 0, secret: [9; 32] }] })
    }

    #[test]
    fn tokens_open_with_their_key_and_kind_only() {
        let ring_one = ring(1);
        let token = ring_one.seal(Kind::Lease, b"body");
        assert_eq!(ring_one.open(Kind::Lease, &token), Opened::Authentic(b"body".to_vec()));
        assert_eq!(ring_one.open(Kind::Ticket, &token), Opened::Forged);
        assert_eq!(ring(2).open(Kind::Lease, &token), Opened::UnknownKey(b"body".to_vec()));
    }

    proptest! {
        #[test]
        fn no_changed_token_opens(body in proptest::collection::vec(any::<u8>(), 0..64), at in any::<prop::sample::Index>(), flip in 1_u8..) {
            let ring = ring(1);
            let mut token = ring.seal(Kind::Ticket, &body);
            let index = at.index(token.len());
            token[index] ^= flip;
            prop_assert!(!matches!(ring.open(Kind::Ticket, &token), Opened::Authentic(_)));
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = ring(1).open(Kind::Lease, &bytes);
        }
    }
}
