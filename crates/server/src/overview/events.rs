//! What changed, as the store has it of the whole fleet.

use paceline_coordinator::{EventKind, Happened};
use paceline_core::units::{FleetTime, Span};
use paceline_proto::{convert, v1};
use paceline_store::Store;

use super::Overview;

/// The most events of an answer.
const MOST_TOLD: usize = 5_000;

/// Which events are asked for.
#[derive(Debug)]
pub(crate) struct EventsAsked {
    /// In which scopes; empty: in all, and of the fleet as a whole.
    pub(crate) selector: v1::Selector,
    /// From how long ago.
    pub(crate) since: Span,
    /// Of which kinds; empty: of all.
    pub(crate) kinds: Vec<EventKind>,
}

impl<S: Store> Overview<S> {
    /// What changed.
    pub(crate) async fn events(&self, asked: EventsAsked) -> v1::ListEventsResponse {
        let found = self.coordinator.events(asked.since).await;
        let now = self.coordinator.now();
        let mut events: Vec<_> = found.events.into_iter().filter(|event| asked.takes(event)).collect();
        let over = events.len().saturating_sub(MOST_TOLD);
        events.drain(..over);
        v1::ListEventsResponse {
            events: events.into_iter().map(|event| told(event, now)).collect(),
            not_told: found.dropped.saturating_add(u64::try_from(over).unwrap_or(u64::MAX)),
            store_away: found.store_away.unwrap_or_default(),
        }
    }
}

impl EventsAsked {
    fn takes(&self, event: &Happened) -> bool {
        let selector = &self.selector;
        (self.kinds.is_empty() || self.kinds.contains(&event.kind))
            && paceline_core::controls::selects(&selector.provider.to_lowercase(), &event.provider)
            && paceline_core::controls::selects(&selector.account, &event.account)
    }
}

fn told(event: Happened, now: FleetTime) -> v1::FleetEvent {
    v1::FleetEvent {
        age: Some(convert::duration(now.since(event.at).at_least_zero())),
        kind: event.kind.name().to_owned(),
        id: format!("{:08x}-{:x}-{:x}", event.replica, event.at.as_micros(), event.number),
        provider: event.provider,
        account: event.account,
        group: event.group,
        bucket: event.bucket,
        who: event.who,
        why: event.why,
        before: event.before,
        after: event.after,
    }
}
