//! Whose configuration the limits of a value come from, where replicas have read different ones.
//!
//! While a file is rolled out, some replicas have it and some do not. If each wrote its own limits into the value, they would
//! swing with every commit. So the value says which configuration its limits come from: who has read another one follows it,
//! until its own is the later one. Each loading takes effect at most once, later ones after earlier ones: nothing swings.

use crate::units::{FleetTime, Span};

/// A rollout is over after this long: a replica that then still has the configuration before was taken back to it.
pub const LONGEST_ROLLOUT: Span = Span::from_secs(600);

/// Tells configurations with different effect apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConfigHash(pub u128);

/// A configuration that a replica has read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// Which one.
    pub hash: ConfigHash,
    /// When it was read; [`FleetTime::ZERO`]: there is no file, see [`Loaded::nothing`].
    pub at: FleetTime,
    /// Whether it took the place of another one in a replica that runs: somebody has just changed it. A replica that starts may
    /// have a file of yesterday.
    pub is_reload: bool,
}

impl Loaded {
    /// What holds in a replica that was started without a file. Nobody wrote it, so it never takes the place of one that somebody
    /// wrote, and any file that is read takes its place.
    pub const fn nothing(hash: ConfigHash) -> Self {
        Self { hash, at: FleetTime::ZERO, is_reload: false }
    }
}

/// The configuration that the limits of a value come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InForce {
    /// Which one.
    pub hash: ConfigHash,
    /// When the replica that put it in force had read it.
    pub since: FleetTime,
    /// The one before; zero: none.
    pub before: ConfigHash,
}

/// What a replica does that comes to a value with a configuration of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meeting {
    /// It is the one in force.
    Same,
    /// Its own is put in force: this is to be written.
    Takes(InForce),
    /// It follows the one in force.
    Follows,
}

/// Compares a replica's configuration with the one in force at `now`.
pub fn meet(in_force: Option<InForce>, mine: &Loaded, now: FleetTime) -> Meeting {
    let Some(theirs) = in_force else {
        return Meeting::Takes(InForce { hash: mine.hash, since: mine.at, before: ConfigHash::default() });
    };
    if theirs.hash == mine.hash {
        return Meeting::Same;
    }
    // Strictly later, in an order of all of them: what was put in force only ever moves on, so no two replicas take turns.
    let is_later = (mine.at, mine.hash) > (theirs.since, theirs.hash);
    let is_new = mine.is_reload || mine.hash != theirs.before || now.since(theirs.since) >= LONGEST_ROLLOUT;
    if is_later && is_new {
        Meeting::Takes(InForce { hash: mine.hash, since: mine.at, before: theirs.hash })
    } else {
        Meeting::Follows
    }
}

/// Of two values that were one the configuration that was read last.
pub(crate) fn later(ours: Option<InForce>, theirs: Option<InForce>) -> Option<InForce> {
    ours.into_iter().chain(theirs).max_by_key(|one| (one.since, one.hash, one.before))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn at(secs: i64) -> FleetTime {
        FleetTime::from_secs(1_800_000_000 + secs)
    }

    fn started(hash: u128, secs: i64) -> Loaded {
        Loaded { hash: ConfigHash(hash), at: at(secs), is_reload: false }
    }

    fn reloaded(hash: u128, secs: i64) -> Loaded {
        Loaded { is_reload: true, ..started(hash, secs) }
    }

    const NO_FILE: Loaded = Loaded::nothing(ConfigHash(9));

    fn in_force(hash: u128, secs: i64, before: u128) -> InForce {
        InForce { hash: ConfigHash(hash), since: at(secs), before: ConfigHash(before) }
    }

    #[test]
    fn who_takes_and_who_follows() {
        let now = at(100);
        let old = Some(in_force(1, 0, 0));
        let new = Some(in_force(2, 50, 1));
        for (what, value, mine, expected) in [
            ("nobody was here", None, started(1, 5), Meeting::Takes(in_force(1, 5, 0))),
            ("the same file", old, started(1, 90), Meeting::Same),
            ("two changes in one moment", Some(in_force(3, 50, 1)), reloaded(2, 50), Meeting::Follows),
            ("the file was changed here", old, reloaded(2, 50), Meeting::Takes(in_force(2, 50, 1))),
            ("and not yet there", new, started(1, 10), Meeting::Follows),
            ("then there too", new, reloaded(2, 60), Meeting::Same),
            ("a replica of the rollout", old, started(2, 50), Meeting::Takes(in_force(2, 50, 1))),
            ("one of before starts again", new, started(1, 90), Meeting::Follows),
            ("somebody changes it back", new, reloaded(1, 90), Meeting::Takes(in_force(1, 90, 2))),
            ("an older reload elsewhere", new, reloaded(3, 40), Meeting::Follows),
        ] {
            assert_eq!(meet(value, &mine, now), expected, "{what}");
        }
        for (what, now) in [("at once", at(100)), ("long after any rollout", at(50) + LONGEST_ROLLOUT + LONGEST_ROLLOUT)] {
            assert_eq!(meet(old, &NO_FILE, now), Meeting::Follows, "no file takes the place of one: {what}");
        }
        let nobodys = InForce { hash: NO_FILE.hash, since: FleetTime::ZERO, before: ConfigHash(0) };
        assert_eq!(meet(None, &NO_FILE, now), Meeting::Takes(nobodys), "where nobody has one");
        let taken = Meeting::Takes(in_force(1, 5, NO_FILE.hash.0));
        assert_eq!(meet(Some(nobodys), &started(1, 5), now), taken, "until somebody has one");
        let rolled_back = meet(new, &started(1, 90), at(50) + LONGEST_ROLLOUT);
        assert_eq!(rolled_back, Meeting::Takes(in_force(1, 90, 2)), "all were taken back to it by starting again");
    }

    proptest! {
        /// However many configurations there are and whoever comes when: each loading takes force once at most.
        #[test]
        fn nothing_swings(
            loaded in prop::collection::vec((1_u128..4, 0_i64..50, any::<bool>()), 1..6),
            turns in prop::collection::vec((0_usize..6, 0_i64..400), 1..60),
        ) {
            let replicas: Vec<Loaded> =
                loaded.iter().map(|(hash, secs, is_reload)| Loaded { is_reload: *is_reload, ..started(*hash, *secs) }).collect();
            let (mut value, mut now, mut taken) = (None, at(50), 0);
            for (who, later) in turns {
                now = now + Span::from_secs(later);
                let Some(mine) = replicas.get(who % replicas.len()) else { continue };
                if let Meeting::Takes(new) = meet(value, mine, now) {
                    prop_assert!(value.is_none_or(|old: InForce| (new.since, new.hash) > (old.since, old.hash)));
                    (value, taken) = (Some(new), taken + 1);
                }
            }
            prop_assert!(taken <= replicas.len());
        }
    }
}
