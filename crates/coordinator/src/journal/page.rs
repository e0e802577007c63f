//! Events as they are kept: a page for each hour, with a bound.

use prost::Message;

use paceline_core::units::FleetTime;

/// The most events of a page: beyond them the oldest go.
const MOST_EVENTS: usize = 1_000;

/// What kind of thing happened. The numbers are stored: they stay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u32)]
pub enum Kind {
    /// Of a newer release.
    #[default]
    Unknown = 0,
    /// Nothing is sent before an instant.
    FloorSet = 1,
    /// That ended early.
    FloorLifted = 2,
    /// Answers taught another limit.
    LimitLearned = 3,
    /// A person wrote another limit.
    LimitChanged = 4,
    /// The provider answers with failures only.
    BreakerOpened = 5,
    /// It answers again.
    BreakerClosed = 6,
    /// Money or a quota is used up.
    Exhausted = 7,
    /// It is there again.
    Replenished = 8,
    /// One account name stands for several organisations.
    AccountMixed = 9,
    /// A replica goes on without the store.
    StoreLost = 10,
    /// It has it again.
    StoreBack = 11,
    /// Another configuration is in force at a replica.
    ConfigApplied = 12,
    /// One was not: it is wrong.
    ConfigRefused = 13,
    /// A replica began.
    ReplicaJoined = 14,
    /// One is gone.
    ReplicaLeft = 15,
    /// A person steers.
    ControlBegan = 16,
    /// That is over.
    ControlEnded = 17,
    /// A person had something forgotten.
    Forgotten = 18,
}

impl Kind {
    /// All that this release knows.
    pub const ALL: [Self; 18] = [
        Self::FloorSet,
        Self::FloorLifted,
        Self::LimitLearned,
        Self::LimitChanged,
        Self::BreakerOpened,
        Self::BreakerClosed,
        Self::Exhausted,
        Self::Replenished,
        Self::AccountMixed,
        Self::StoreLost,
        Self::StoreBack,
        Self::ConfigApplied,
        Self::ConfigRefused,
        Self::ReplicaJoined,
        Self::ReplicaLeft,
        Self::ControlBegan,
        Self::ControlEnded,
        Self::Forgotten,
    ];

    /// As people and programs read it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::FloorSet => "floor_set",
            Self::FloorLifted => "floor_lifted",
            Self::LimitLearned => "limit_learned",
            Self::LimitChanged => "limit_changed",
            Self::BreakerOpened => "breaker_opened",
            Self::BreakerClosed => "breaker_closed",
            Self::Exhausted => "exhausted",
            Self::Replenished => "replenished",
            Self::AccountMixed => "account_mixed",
            Self::StoreLost => "store_lost",
            Self::StoreBack => "store_back",
            Self::ConfigApplied => "config_applied",
            Self::ConfigRefused => "config_refused",
            Self::ReplicaJoined => "replica_joined",
            Self::ReplicaLeft => "replica_left",
            Self::ControlBegan => "control_began",
            Self::ControlEnded => "control_ended",
            Self::Forgotten => "forgotten",
        }
    }

    fn from_number(number: u32) -> Self {
        Self::ALL.into_iter().find(|kind| *kind as u32 == number).unwrap_or_default()
    }
}

/// Something that happened.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Happened {
    /// Which replica noted it.
    pub replica: u32,
    /// Its number among those of that replica.
    pub number: u64,
    /// When, in fleet time.
    pub at: FleetTime,
    /// What.
    pub kind: Kind,
    /// To which scope; empty: to the fleet.
    pub provider: String,
    /// Its account.
    pub account: String,
    /// To which group of models; empty: to all.
    pub group: String,
    /// To which bucket; empty: not to one.
    pub bucket: String,
    /// Who did it: a person, a replica, the provider.
    pub who: String,
    /// Why.
    pub why: String,
    /// What was before.
    pub before: String,
    /// What is now.
    pub after: String,
}

#[derive(Clone, PartialEq, Message)]
struct EventWire {
    #[prost(uint32, tag = "1")]
    replica: u32,
    #[prost(uint64, tag = "2")]
    number: u64,
    #[prost(sint64, tag = "3")]
    at: i64,
    #[prost(uint32, tag = "4")]
    kind: u32,
    #[prost(string, tag = "5")]
    provider: String,
    #[prost(string, tag = "6")]
    account: String,
    #[prost(string, tag = "7")]
    group: String,
    #[prost(string, tag = "8")]
    bucket: String,
    #[prost(string, tag = "9")]
    who: String,
    #[prost(string, tag = "10")]
    why: String,
    #[prost(string, tag = "11")]
    before: String,
    #[prost(string, tag = "12")]
    after: String,
}

#[derive(Clone, PartialEq, Message)]
struct PageWire {
    #[prost(message, repeated, tag = "1")]
    events: Vec<EventWire>,
    #[prost(uint64, tag = "2")]
    dropped: u64,
}

/// The events of an hour.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Page {
    pub(super) events: Vec<Happened>,
    /// So many more were there.
    pub(super) dropped: u64,
}

impl Page {
    /// Adds those that are not there yet. Whether anything was to be added.
    pub(super) fn add(&mut self, events: &[Happened], dropped: u64) -> bool {
        let before = self.events.len();
        for event in events {
            let is_there =
                self.events.iter().any(|one| (one.replica, one.number, one.at) == (event.replica, event.number, event.at));
            if !is_there {
                self.events.push(event.clone());
            }
        }
        if self.events.len() == before {
            return false;
        }
        self.dropped += dropped;
        self.events.sort_by_key(|event| (event.at, event.replica, event.number));
        let over = self.events.len().saturating_sub(MOST_EVENTS);
        self.events.drain(..over);
        self.dropped += u64::try_from(over).unwrap_or(u64::MAX);
        true
    }

    pub(super) fn encode(&self, to: &mut Vec<u8>) {
        let events = self.events.iter().map(|event| EventWire {
            replica: event.replica,
            number: event.number,
            at: event.at.as_micros(),
            kind: event.kind as u32,
            provider: event.provider.clone(),
            account: event.account.clone(),
            group: event.group.clone(),
            bucket: event.bucket.clone(),
            who: event.who.clone(),
            why: event.why.clone(),
            before: event.before.clone(),
            after: event.after.clone(),
        });
        let page = PageWire { events: events.collect(), dropped: self.dropped };
        to.extend(page.encode_to_vec());
    }

    /// `None`: these bytes are no page.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let page = PageWire::decode(bytes).ok()?;
        let events = page.events.into_iter().map(|event| Happened {
            replica: event.replica,
            number: event.number,
            at: FleetTime::from_micros(event.at),
            kind: Kind::from_number(event.kind),
            provider: event.provider,
            account: event.account,
            group: event.group,
            bucket: event.bucket,
            who: event.who,
            why: event.why,
            before: event.before,
            after: event.after,
        });
        Some(Self { events: events.collect(), dropped: page.dropped })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    fn event(replica: u32, number: u64) -> Happened {
        let at = FleetTime::from_secs(1_800_000_000 + i64::try_from(number).unwrap());
        Happened {
            replica,
            number,
            at,
            kind: Kind::FloorSet,
            provider: "openai".into(),
            why: "x".into(),
            ..Happened::default()
        }
    }

    #[test]
    fn a_page_reads_back_and_its_bytes_may_be_anything() {
        let mut page = Page::default();
        assert!(page.add(&[event(1, 1), event(2, 1)], 3));
        let mut bytes = Vec::new();
        page.encode(&mut bytes);
        assert_eq!(Page::decode(&bytes), Some(page));
        assert_eq!(Page::decode(b"\xff\xff"), None);
    }

    #[test]
    fn what_is_written_twice_is_there_once() {
        let mut page = Page::default();
        assert!(page.add(&[event(1, 2), event(1, 1)], 0));
        assert!(!page.add(&[event(1, 1)], 5), "it was heard of late");
        assert!(page.add(&[event(1, 1), event(2, 1)], 0));
        let order: Vec<_> = page.events.iter().map(|event| (event.replica, event.number)).collect();
        assert_eq!(order, [(1, 1), (2, 1), (1, 2)]);
    }

    #[test]
    fn a_page_is_bounded_and_says_what_went() {
        let mut page = Page::default();
        let many: Vec<Happened> = (0..1_010).map(|number| event(1, number)).collect();
        assert!(page.add(&many, 2));
        assert_eq!((page.events.len(), page.events[0].number, page.dropped), (1_000, 10, 12));
    }

    #[test]
    fn every_kind_has_a_name_and_a_number_of_its_own() {
        for kind in Kind::ALL {
            assert_eq!(Kind::from_number(kind as u32), kind);
        }
        assert_eq!(Kind::from_number(99), Kind::Unknown);
        let names: std::collections::BTreeSet<_> = Kind::ALL.iter().map(|kind| kind.name()).collect();
        assert_eq!(names.len(), Kind::ALL.len());
    }
}
