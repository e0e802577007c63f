//! Headers that look like limits and that nothing read, and values nobody could read: counted, with one harmless sample, so that
//! a person sees what a provider has begun to say. In this replica's memory only.

use std::collections::BTreeMap;

use paceline_core::signal::Signal;
use paceline_core::units::FleetTime;

/// The most names that are kept in a scope; later ones are not.
const MOST_NAMES: usize = 64;
/// Longer samples are cut.
const MOST_SAMPLE_CHARS: usize = 48;
/// A run of letters and digits this long may be a secret, and is not kept (I-12).
const SECRET_RUN: usize = 16;

/// What is known of one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) count: u64,
    pub(super) sample: String,
    pub(super) is_malformed: bool,
    pub(super) last: FleetTime,
}

/// The names of one scope.
#[derive(Clone, Debug, Default)]
pub(super) struct Unread(BTreeMap<String, Seen>);

impl Unread {
    /// Counts the names that a reading left over.
    pub(super) fn note(&mut self, signal: &Signal, headers: &[(String, String)], now: FleetTime) {
        let unread = signal.unread_headers.iter().map(|name| (name, false));
        let malformed = signal.malformed_headers.iter().map(|name| (name, true));
        for (name, is_malformed) in unread.chain(malformed) {
            if self.0.len() >= MOST_NAMES && !self.0.contains_key(name) {
                continue;
            }
            let value = headers.iter().find(|(header, _)| header.eq_ignore_ascii_case(name));
            let sample = value.map(|(_, value)| sample(value)).unwrap_or_default();
            let seen =
                self.0.entry(name.clone()).or_insert_with(|| Seen { count: 0, sample: String::new(), is_malformed, last: now });
            *seen = Seen { count: seen.count.saturating_add(1), sample, is_malformed, last: now };
        }
    }

    /// The names, sorted.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &Seen)> {
        self.0.iter().map(|(name, seen)| (name.as_str(), seen))
    }
}

/// A value that may be shown: short, printable, without anything that could be a key.
fn sample(value: &str) -> String {
    let longest = value.split(|c: char| !c.is_ascii_alphanumeric()).map(str::len).max().unwrap_or(0);
    if longest >= SECRET_RUN && !value.bytes().all(|byte| byte.is_ascii_digit()) {
        return "(not kept: it could be a key)".to_owned();
    }
    value.chars().filter(|c| !c.is_control()).take(MOST_SAMPLE_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_show_limits_and_hide_keys() {
        assert_eq!(sample("40/40"), "40/40");
        assert_eq!(sample("1786527660000000000"), "1786527660000000000");
        assert_eq!(sample("Bearer sk-abcdefghijklmnop1234"), "(not kept: it could be a key)");
        assert_eq!(sample(&"1 ".repeat(100)).len(), MOST_SAMPLE_CHARS);
        assert_eq!(sample("a\x1b[31mb"), "a[31mb");
    }

    #[test]
    fn names_are_counted_and_bounded() {
        let mut unread = Unread::default();
        for n in 0..100 {
            let signal = Signal { unread_headers: vec![format!("x-quota-{n:03}"), "x-quota-000".into()], ..Signal::default() };
            unread.note(&signal, &[("X-Quota-000".into(), "7".into())], FleetTime::from_secs(n));
        }
        assert_eq!(unread.iter().count(), MOST_NAMES);
        let (name, seen) = unread.iter().next().unwrap();
        assert_eq!((name, seen.count, seen.sample.as_str(), seen.last), ("x-quota-000", 101, "7", FleetTime::from_secs(99)));
    }
}
