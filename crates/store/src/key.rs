//! Names of things in a store: hashes, so that no text of a user ever becomes part of a key.

use std::fmt;

use sha2::{Digest, Sha256};

/// Names a scope: 128 bits of a hash over provider and account, each with its length before it, so that no two different
/// pairs have the same key. Provider names are case-insensitive, accounts are taken exactly as written.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ScopeKey([u8; 16]);

impl ScopeKey {
    /// The key of an account at a provider.
    pub fn new(provider: &str, account: &str) -> Self {
        Self(hash("scope", [provider.to_lowercase().as_bytes(), account.as_bytes()]))
    }

    /// The key of something that the fleet keeps beside its scopes, named by these parts.
    pub fn of_fleet(parts: &[&[u8]]) -> Self {
        Self(hash("fleet", parts.iter().copied()))
    }

    /// The key of the book of controls, which is no scope's.
    pub fn of_controls() -> Self {
        Self(hash("controls", []))
    }

    /// Its bytes.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for ScopeKey {
    /// 32 hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(f, &self.0)
    }
}

impl fmt::Debug for ScopeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ScopeKey({self})")
    }
}

/// Names a record within a scope: the hash of an idempotency key or of a lease's serial.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordKey(pub [u8; 16]);

impl RecordKey {
    /// The key of something named by these parts; each counts with its length, so `["ab", "c"]` is not `["a", "bc"]`.
    pub fn of<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Self {
        Self(hash("record", parts))
    }
}

impl fmt::Display for RecordKey {
    /// 32 hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(f, &self.0)
    }
}

impl fmt::Debug for RecordKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RecordKey({self})")
    }
}

/// The first half of SHA-256 over a domain and parts, each behind its length in eight bytes.
fn hash<'a>(domain: &'static str, parts: impl IntoIterator<Item = &'a [u8]>) -> [u8; 16] {
    let mut hasher = Sha256::new();
    for part in std::iter::once(domain.as_bytes()).chain(parts) {
        // No slice is longer than isize::MAX.
        hasher.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        hasher.update(part);
    }
    let mut half = [0; 16];
    for (to, from) in half.iter_mut().zip(hasher.finalize()) {
        *to = from;
    }
    half
}

fn write_hex(f: &mut fmt::Formatter<'_>, bytes: &[u8; 16]) -> fmt::Result {
    let mut digits = [0; 32];
    for (pair, byte) in digits.chunks_exact_mut(2).zip(bytes) {
        for (digit, nibble) in pair.iter_mut().zip([byte >> 4, byte & 15]) {
            *digit = if nibble < 10 { b'0' + nibble } else { b'a' + nibble - 10 };
        }
    }
    f.write_str(str::from_utf8(&digits).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn awkward_names_never_share_a_key() {
        // RC04, crossed with itself: what separates keys elsewhere, cases, control characters, long names.
        let long = "x".repeat(300);
        let longer = "x".repeat(301);
        let names = ["", "{x}", "}{", "{}", "a:b", "a", "b", "ab", "a\n", "\0", "a\0b", ":", "\u{fffd}", &long, &longer];
        let accounts = names.iter().copied().chain(["A", "{X}", "A:b"]);
        let mut seen = HashMap::new();
        for account in accounts {
            for provider in names {
                let other = seen.insert(ScopeKey::new(provider, account), (provider, account));
                assert_eq!(other, None, "shares its key with {provider:?} {account:?}");
            }
        }
    }

    #[test]
    fn providers_differ_by_more_than_case_and_accounts_do_not_need_to() {
        assert_eq!(ScopeKey::new("OpenAI", "team"), ScopeKey::new("openai", "team"));
        assert_ne!(ScopeKey::new("openai", "Team"), ScopeKey::new("openai", "team"));
    }

    #[test]
    fn keys_read_as_32_digits_and_never_change_between_releases() {
        let key = ScopeKey::new("openai", "");
        assert_eq!(key.to_string(), "346862bf68c6274e0b44b7a61c34b4b1");
        assert_eq!(format!("{key:?}"), format!("ScopeKey({key})"));
        assert_ne!(RecordKey::of([&b"ab"[..], b"c"]), RecordKey::of([&b"a"[..], b"bc"]));
    }

    proptest! {
        /// Two pairs share a key only when they are the same pair.
        #[test]
        fn keys_tell_pairs_apart(a in ("[a-b{}:]{0,4}", "[a-bA{}:]{0,4}"), b in ("[a-b{}:]{0,4}", "[a-bA{}:]{0,4}")) {
            prop_assert_eq!(ScopeKey::new(&a.0, &a.1) == ScopeKey::new(&b.0, &b.1), a == b);
        }
    }
}
