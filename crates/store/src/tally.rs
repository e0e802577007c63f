//! Tallies: named numbers of a scope and an hour, to which every replica adds. They say what became of calls and decide nothing, so
//! they are kept beside the value and never in its atomic step.

use std::collections::BTreeMap;

use paceline_core::history::Hour;
use paceline_core::units::FleetTime;
#[cfg(feature = "redis")]
use paceline_core::units::Span;

#[cfg(feature = "redis")]
use crate::life::bounded;

/// Named numbers; what they mean is the core's affair.
pub type Counters = BTreeMap<String, u64>;

/// The largest number that is added up exactly; sums stay at it.
pub const MOST_COUNTED: u64 = (1 << 53) - 1;

/// What one replica adds to an hour of a scope. Sent again, it is added once: a writer numbers what it adds to an hour, upwards, and
/// a number that is not above the last one of that writer is known already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addition {
    /// To which hour.
    pub hour: Hour,
    /// Who adds: a number that no other running replica has.
    pub writer: u32,
    /// Which of the additions of this writer to this hour, from 1.
    pub number: u64,
    /// What is added.
    pub counters: Vec<(String, u64)>,
}

/// A scope by its names, for those who ask which scopes there were.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ScopeName {
    /// The provider.
    pub provider: String,
    /// The account; may be empty.
    pub account: String,
}

/// A day of fleet time, counted from the Unix epoch: names are kept by day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Day(pub u32);

impl Day {
    /// The day that an hour lies in.
    pub const fn of(hour: Hour) -> Self {
        Self(hour.0 / 24)
    }

    /// Until when the names of this day are kept: as long as its last hour.
    pub fn kept_until(self) -> FleetTime {
        Hour(self.0.saturating_mul(24).saturating_add(23)).kept_until()
    }
}

/// How long what ends at `until` lives from now on.
#[cfg(feature = "redis")]
pub(crate) fn life(until: FleetTime, now: FleetTime) -> Span {
    bounded(until, now).since(now)
}

#[cfg(any(test, feature = "redis"))]
impl ScopeName {
    /// The names as bytes, whatever letters they have.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        format!("{}:{}{}", self.provider.len(), self.provider, self.account).into_bytes()
    }

    /// `None`: these bytes are not from [`ScopeName::to_bytes`].
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (length, names) = std::str::from_utf8(bytes).ok()?.split_once(':')?;
        let (provider, account) = names.split_at_checked(length.parse().ok()?)?;
        Some(Self { provider: provider.to_owned(), account: account.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_names_come_back() {
        for (provider, account) in [("openai", "prod"), ("", ""), ("a:b", ":"), ("ü\n\0", "7:x"), ("openai", "")] {
            let name = ScopeName { provider: provider.to_owned(), account: account.to_owned() };
            assert_eq!(ScopeName::from_bytes(&name.to_bytes()), Some(name));
        }
        for bad in [&b"openai"[..], b"9:ab", b"-1:ab", b"1:\xff", "1:ü".as_bytes()] {
            assert_eq!(ScopeName::from_bytes(bad), None);
        }
    }

    #[test]
    fn a_day_is_kept_as_long_as_its_last_hour() {
        assert_eq!(Day::of(Hour(47)), Day(1));
        assert_eq!(Day(1).kept_until(), Hour(47).kept_until());
    }
}
