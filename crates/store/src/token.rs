//! The keys that sign lease and ticket tokens, as the store hands them out.

use std::fmt;

use paceline_core::units::Span;

/// How many older keys are still accepted beside the current one.
pub const MOST_OLDER_KEYS: usize = 2;
/// How long a key signs before the next one does.
pub const ROTATE_AFTER: Span = Span::from_secs(86_400);

/// One key: its secret is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenKey {
    /// Names the key in the tokens it signed.
    pub id: u32,
    /// The secret.
    pub secret: [u8; 32],
}

impl TokenKey {
    /// A key that nobody can guess. Its id is random too: a token from before a restart must name an unknown key, not a wrong
    /// one.
    pub fn random() -> Self {
        Self { id: rand::random(), secret: rand::random() }
    }
}

impl fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TokenKey({:08x})", self.id)
    }
}

/// The key that signs, and older ones that are still accepted, youngest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenKeys {
    /// Signs new tokens.
    pub current: TokenKey,
    /// Signed tokens that are still about: at most [`MOST_OLDER_KEYS`].
    pub older: Vec<TokenKey>,
}

impl TokenKeys {
    /// A first key.
    pub fn new(current: TokenKey) -> Self {
        Self { current, older: Vec::new() }
    }

    /// The key with this id, if it is still accepted.
    pub fn find(&self, id: u32) -> Option<&TokenKey> {
        std::iter::once(&self.current).chain(&self.older).find(|key| key.id == id)
    }

    /// Signs with a fresh key from now on; the one before is still accepted, and one before that.
    pub fn rotate(&mut self) {
        let mut next = TokenKey::random();
        // An id names one key only; of four billion one is taken about never, but "about" is no reason to break tokens.
        while self.find(next.id).is_some() {
            next = TokenKey::random();
        }
        self.older.insert(0, std::mem::replace(&mut self.current, next));
        self.older.truncate(MOST_OLDER_KEYS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_older_keys_are_accepted() {
        let mut keys = TokenKeys::new(TokenKey::random());
        let ids: Vec<u32> = (0..4)
            .map(|_| {
                let id = keys.current.id;
                keys.rotate();
                id
            })
            .collect();
        assert_eq!(keys.older.iter().map(|key| key.id).collect::<Vec<_>>(), [ids[3], ids[2]]);
        assert!(keys.find(ids[2]).is_some() && keys.find(ids[1]).is_none());
    }

    #[test]
    fn secrets_are_not_printed() {
        // I-12: neither as text nor as numbers.
        let key = TokenKey { id: 10, secret: [0xa7; 32] };
        assert_eq!(format!("{:?}", TokenKeys::new(key)), "TokenKeys { current: TokenKey(0000000a), older: [] }");
    }
}
