//! Who serves, as their announcements tell: who is there still, and who has read another configuration. Pure.

use std::collections::BTreeMap;

use paceline_core::units::FleetTime;
use paceline_store::{Announcement, Replica};

/// Without those whose place another one has taken: an address is one process's, so a replica that was last heard of before another
/// one with its address began is gone. Counted until it is missed, it would make everybody's part of a limit too small.
pub(crate) fn standing(found: Vec<Replica>) -> Vec<Replica> {
    let began: Vec<(String, u32, FleetTime)> = found
        .iter()
        .map(|replica| &replica.announced)
        .filter(|announced| !announced.address.is_empty() && announced.began > FleetTime::ZERO)
        .map(|announced| (announced.address.clone(), announced.id, announced.began))
        .collect();
    let is_replaced = |replica: &Replica| {
        let Announcement { id, address, .. } = &replica.announced;
        began.iter().any(|(taken, by, began)| taken == address && by != id && replica.seen <= *began)
    };
    found.into_iter().filter(|replica| !is_replaced(replica)).collect()
}

/// What has been told of configurations that are not ours.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Divergence {
    /// The hashes that were told of.
    told: Vec<String>,
}

/// What is to be told.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Diverges {
    /// Replicas have read another configuration: its hash, since when, and where they are.
    From {
        /// Theirs.
        hash: String,
        /// When the first of them had read it; `None`: they have no file, or it is not known.
        since: Option<FleetTime>,
        /// Addresses, or numbers of those that have none.
        replicas: Vec<String>,
    },
    /// This replica has no file, and these have one: what it lacks for calls that it decides about, nobody sees in a file.
    NoFileHere {
        /// The hash of theirs.
        hash: String,
        /// Addresses, or numbers of those that have none.
        replicas: Vec<String>,
    },
    /// All have the same one again.
    NoMore,
}

impl Diverges {
    /// Of these replicas, which have read another one than `me`.
    fn of(me: &Announcement, hash: &str, others: &[&Announcement]) -> Self {
        // Who has no file announces that it was read at no time.
        let since = others.iter().map(|one| one.config_read).filter(|read| *read > FleetTime::ZERO).min();
        let (hash, replicas) = (hash.to_owned(), others.iter().map(|one| name(one)).collect());
        match since {
            Some(_) if me.config_read == FleetTime::ZERO => Self::NoFileHere { hash, replicas },
            _ => Self::From { hash, since, replicas },
        }
    }
}

impl Divergence {
    /// Looks at the replicas there are; tells of each other configuration once.
    pub(crate) fn look(&mut self, me: &Announcement, found: &[Replica]) -> Vec<Diverges> {
        let mut others: BTreeMap<&str, Vec<&Announcement>> = BTreeMap::new();
        for announced in found.iter().map(|replica| &replica.announced) {
            if announced.id != me.id && announced.config_hash != me.config_hash {
                others.entry(&announced.config_hash).or_default().push(announced);
            }
        }
        let had_some = !self.told.is_empty();
        self.told.retain(|hash| others.contains_key(hash.as_str()));
        let new: Vec<Diverges> = others
            .iter()
            .filter(|(hash, _)| !self.told.iter().any(|told| told == *hash))
            .map(|(hash, of)| Diverges::of(me, hash, of))
            .collect();
        self.told.extend(new.iter().filter_map(|one| match one {
            Diverges::From { hash, .. } | Diverges::NoFileHere { hash, .. } => Some(hash.clone()),
            Diverges::NoMore => None,
        }));
        if had_some && self.told.is_empty() { vec![Diverges::NoMore] } else { new }
    }
}

/// What people call a replica: its address, or else its number.
pub(crate) fn name(announced: &Announcement) -> String {
    if announced.address.is_empty() { announced.id.to_string() } else { announced.address.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: i64) -> FleetTime {
        FleetTime::from_secs(1_800_000_000 + secs)
    }

    fn replica(id: u32, address: &str, began: i64, seen: i64) -> Replica {
        let announced = Announcement { id, address: address.into(), began: at(began), ..Announcement::default() };
        Replica { announced, seen: at(seen) }
    }

    fn ids(list: Vec<Replica>) -> Vec<u32> {
        list.iter().map(|replica| replica.announced.id).collect()
    }

    #[test]
    fn one_that_was_killed_is_gone_when_another_has_its_address() {
        let killed = replica(1, "a:1", 0, 100);
        let again = replica(2, "a:1", 103, 103);
        assert_eq!(ids(standing(vec![killed.clone(), again.clone(), replica(3, "b:1", 0, 101)])), [2, 3]);
        assert_eq!(ids(standing(vec![killed.clone()])), [1], "it may be there still");
        // Two that are told the same address by mistake both live, and both are heard of.
        assert_eq!(ids(standing(vec![replica(1, "a:1", 0, 104), again.clone()])), [1, 2]);
        // Without an address nobody takes anybody's place; nor does one that does not say since when it is there.
        assert_eq!(ids(standing(vec![replica(1, "", 0, 100), replica(2, "", 103, 103)])), [1, 2]);
        let older_release = Replica { announced: Announcement { began: FleetTime::ZERO, ..again.announced.clone() }, ..again };
        assert_eq!(ids(standing(vec![killed, older_release])), [1, 2]);
    }

    #[test]
    fn each_other_configuration_is_told_of_once() {
        let of = |id: u32, hash: &str, read: i64| Replica {
            announced: Announcement {
                id,
                address: format!("r{id}:1"),
                config_hash: hash.into(),
                config_read: at(read),
                ..Announcement::default()
            },
            seen: at(0),
        };
        let (me, mut divergence) = (of(1, "ours", 0), Divergence::default());
        let mut look = |others: &[Replica]| divergence.look(&me.announced, &[std::slice::from_ref(&me), others].concat());
        assert_eq!(look(&[of(2, "ours", 0)]), []);
        let told = look(&[of(2, "theirs", 7), of(3, "theirs", 5)]);
        let replicas = vec!["r2:1".to_owned(), "r3:1".to_owned()];
        assert_eq!(told, [Diverges::From { hash: "theirs".into(), since: Some(at(5)), replicas }]);
        assert_eq!(look(&[of(2, "theirs", 7), of(3, "theirs", 5)]), [], "once");
        assert_eq!(look(&[of(2, "theirs", 7), of(3, "third", 9)]).len(), 1, "another one is news");
        assert_eq!(look(&[of(2, "ours", 7), of(3, "ours", 9)]), [Diverges::NoMore]);
        assert_eq!(look(&[of(2, "ours", 7)]), []);
        assert_eq!(look(&[of(2, "theirs", 7)]).len(), 1, "again is news again");
        let has_none = Announcement { config_read: FleetTime::ZERO, ..me.announced.clone() };
        let mut divergence = Divergence::default();
        let told = divergence.look(&has_none, &[of(2, "theirs", 7)]);
        assert_eq!(told, [Diverges::NoFileHere { hash: "theirs".into(), replicas: vec!["r2:1".into()] }]);
        assert_eq!(divergence.look(&has_none, &[of(2, "theirs", 7)]), [], "once");
    }
}
