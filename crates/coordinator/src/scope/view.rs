//! A scope as people see it: for status and the Admin service.

use paceline_core::floor::Floor;
use paceline_core::mode::Modes;
use paceline_core::plan::{Class, Owner, Refill};
use paceline_core::signal::Source;
use paceline_core::units::{FleetTime, Milli, Span};

use super::{Scope, Tally};

/// A scope at one instant.
#[derive(Clone, Debug, PartialEq)]
pub struct ScopeView {
    /// The provider.
    pub provider: String,
    /// The account.
    pub account: String,
    /// What is done with its calls, where no group or tenant says otherwise.
    pub modes: Modes,
    /// What became of calls that were only watched; as this replica saw them.
    pub watched: Tally,
    /// The buckets.
    pub buckets: Vec<BucketView>,
    /// The groups.
    pub groups: Vec<GroupView>,
    /// The lanes in which somebody waits: here, or away with a ticket.
    pub lanes: Vec<LaneView>,
    /// The floor under the account.
    pub floor: Option<FloorView>,
    /// Calls in flight.
    pub in_flight: u64,
    /// Headers that look like limits and that nothing read, and values nobody could read; as this replica saw them.
    pub unread: Vec<UnreadView>,
}

/// A header that was not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadView {
    /// Its name.
    pub name: String,
    /// How often it came.
    pub count: u64,
    /// Its last value, where that cannot be a secret.
    pub sample: String,
    /// Whether it was to be read and could not.
    pub is_malformed: bool,
    /// How long ago it came.
    pub age: Span,
}

/// A bucket at one instant.
#[derive(Clone, Debug, PartialEq)]
pub struct BucketView {
    /// As people see it.
    pub label: String,
    /// The group it belongs to; empty for shared and account's buckets.
    pub group: String,
    /// What it counts.
    pub meter: String,
    /// From the configuration.
    pub limit_configured: Option<u64>,
    /// From headers.
    pub limit_learned: Option<u64>,
    /// In force.
    pub limit_effective: Option<u64>,
    /// The window in force.
    pub per: Span,
    /// The refill in force.
    pub refill: Refill,
    /// Units we believe are left; `None`: unknown.
    pub level: Option<f64>,
    /// `remaining` as last observed, and how long ago.
    pub observed: Option<(u64, Span)>,
    /// The floor under it.
    pub floor: Option<FloorView>,
    /// Units a minute that another consumer takes.
    pub foreign_drain: Option<f64>,
    /// Units a minute that pass where no header tells.
    pub limit_measured: Option<f64>,
}

/// A floor at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FloorView {
    /// It ends in.
    pub ends_in: Span,
    /// Who said so.
    pub source: Source,
    /// How long ago it was set.
    pub age: Span,
}

/// A group at one instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupView {
    /// Its key.
    pub key: String,
    /// The floor under it.
    pub floor: Option<FloorView>,
    /// Its calls in flight.
    pub in_flight: u64,
    /// Its calls waiting, those away with a ticket included.
    pub waiting: u64,
    /// What is done with its calls, where that is known here.
    pub modes: Option<Modes>,
}

/// A lane at one instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneView {
    /// The group.
    pub group: String,
    /// The class.
    pub class: Class,
    /// The tenant, or `other:NN` where many tenants share a lane.
    pub tenant: String,
    /// Calls waiting, those away with a ticket included.
    pub depth: u64,
    /// The longest wait.
    pub oldest_wait: Span,
    /// What the lane waits for.
    pub waits_for: Source,
}

pub(super) fn view(scope: &Scope, now: FleetTime) -> ScopeView {
    let value = &scope.value;
    let floor = |floor: Option<Floor>| {
        floor.filter(|floor| floor.holds_at(now)).map(|floor| FloorView {
            ends_in: floor.until.since(now),
            source: floor.source,
            age: now.since(floor.since),
        })
    };
    let buckets = value.buckets.iter().map(|bucket| {
        let effective = bucket.effective();
        BucketView {
            label: bucket.plan.id.label(),
            group: match &bucket.plan.id.owner {
                Owner::Group(group) => group.to_string(),
                Owner::Shared(_) | Owner::Account => String::new(),
            },
            meter: bucket.plan.meter.to_string(),
            limit_configured: bucket.plan.limit,
            limit_learned: bucket.learned.limit,
            limit_effective: effective.limit,
            per: effective.per,
            refill: effective.refill,
            level: bucket.level_at(now).map(|level| level.as_units_f64()),
            observed: bucket.observed.map(|seen| (seen.remaining.as_units_floor(), now.since(seen.at))),
            floor: floor(bucket.floor),
            foreign_drain: bucket.foreign_drain().map(|drain| drain.as_units_f64()),
            limit_measured: (bucket.ceiling.allowed > Milli::ZERO).then(|| bucket.ceiling.allowed.as_units_f64()),
        }
    });
    let groups: Vec<GroupView> = value
        .groups
        .iter()
        .map(|group| GroupView {
            key: group.key.to_string(),
            floor: floor(group.floor),
            in_flight: group.flights.in_use(now).as_units_floor(),
            waiting: scope.queue.lanes().filter(|(key, _)| key.group == group.key).map(|(_, lane)| count(lane.depth())).sum(),
            modes: scope.plans.values().find(|plan| plan.key == group.key).map(|plan| plan.modes),
        })
        .collect();
    let lanes = scope.queue.lanes().filter(|(_, lane)| lane.depth() > 0).map(|(key, lane)| LaneView {
        group: key.group.to_string(),
        class: key.class,
        tenant: key.tenant.to_string(),
        depth: count(lane.depth()),
        oldest_wait: lane.oldest().map_or(Span::ZERO, |since| now.since(since)),
        waits_for: lane.ledger.current().source,
    });
    ScopeView {
        provider: scope.target.provider.clone(),
        account: scope.target.account.clone(),
        modes: scope.settings.modes(&scope.target).unwrap_or_default(),
        watched: scope.watched,
        buckets: buckets.collect(),
        lanes: lanes.collect(),
        floor: floor(value.floor),
        unread: scope
            .unread
            .iter()
            .map(|(name, seen)| UnreadView {
                name: name.to_owned(),
                count: seen.count,
                sample: seen.sample.clone(),
                is_malformed: seen.is_malformed,
                age: now.since(seen.last),
            })
            .collect(),
        in_flight: groups.iter().map(|group| group.in_flight).sum(),
        groups,
    }
}

pub(super) fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
