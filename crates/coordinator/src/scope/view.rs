//! A scope as people see it: for status and the Admin service.

use std::sync::Arc;

use paceline_core::backing::Backing;
use paceline_core::bucket::BucketState;
use paceline_core::floor::Floor;
use paceline_core::in_force::ConfigHash;
use paceline_core::leader::{LEADS_FOR, Leader};
use paceline_core::mode::Modes;
use paceline_core::plan::{Class, OurPart, Owner, Refill, StoreDown};
use paceline_core::signal::Source;
use paceline_core::trust::PROOF_LASTS;
use paceline_core::units::{FleetTime, Span};
use paceline_core::usage::{Form, Remembered, UsageBook};

use super::{Scope, Tally};
use crate::lead::KNOWN_FOR;

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
    /// Where answers name several organisations: what tells them apart.
    pub organisations: Vec<String>,
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
    /// What calls were seen to use, those seen last first.
    pub usage: Vec<UsageView>,
    /// Headers that look like limits and that nothing read, and values nobody could read; as this replica saw them.
    pub unread: Vec<UnreadView>,
    /// Who decides about it, as this replica knows; it may be out of date.
    pub leader: Option<LeaderView>,
    /// The configuration that its limits come from, and since when, while that is another one than was read here.
    pub followed: Option<(ConfigHash, FleetTime)>,
    /// Set while this replica decides about it without the store.
    pub degraded: Option<DegradedView>,
}

/// Who leads a scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderView {
    /// Its number.
    pub replica: u32,
    /// Where it is reached.
    pub address: Arc<str>,
    /// How long ago it last committed, as far as is known.
    pub committed: Span,
}

/// A scope that is decided without the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DegradedView {
    /// For how long.
    pub lasts: Span,
    /// Among how many replicas limits are divided.
    pub among: u32,
    /// What is done with its calls; `None`: it differs, or nobody has asked.
    pub on_store_down: Option<StoreDown>,
}

/// What speaks for a learned value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BackingView {
    /// How long ago the last report said it.
    pub age: Span,
    /// How many reports in a row have said it.
    pub reports: u32,
    /// From 0 (a guess) to 1 (certain).
    pub confidence: f64,
}

/// What calls of one kind were seen to use of one meter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageView {
    /// The model; empty: any of the group that `label` names.
    pub model: String,
    /// The label; empty: any.
    pub label: String,
    /// Whether calls with images, sound or video, which are remembered apart.
    pub is_media: bool,
    /// What is counted; `run_time_ms`: how long they ran.
    pub meter: String,
    /// Half of the calls used no more.
    pub median: u64,
    /// Nine of ten calls used no more: what a call that does not say is charged.
    pub likely: u64,
    /// How many of the last calls count.
    pub calls: u32,
    /// How long ago the last one ended.
    pub age: Span,
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
    /// The limit that a person said for a while, in place of both.
    pub limit_override: Option<u64>,
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
    /// What speaks for the level: observations in a row that found it about right.
    pub level_backing: Option<BackingView>,
    /// What speaks for the limit from headers.
    pub limit_backing: Option<BackingView>,
    /// The floor under it.
    pub floor: Option<FloorView>,
    /// Units a minute that another consumer takes.
    pub foreign_drain: Option<f64>,
    /// What speaks for that, or for there being none.
    pub drain_backing: Option<BackingView>,
    /// Units a minute that pass where no header tells.
    pub limit_measured: Option<f64>,
    /// What speaks for that.
    pub measured_backing: Option<BackingView>,
    /// Units that may go back to back, as far as calls have proven it; `None`: nothing is known of it, or it does not refill.
    pub at_once: Option<f64>,
    /// What speaks for that.
    pub proof_backing: Option<BackingView>,
    /// Which part of the limit is ours.
    pub ours: OurPart,
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

/// A limit, and how it is enforced, changes rarely.
const A_DAY: Span = Span::from_secs(86_400);
/// Who else drinks comes and goes.
const A_MINUTE: Span = Span::from_secs(60);

fn backing(backing: Backing, now: FleetTime, lasts: Span) -> Option<BackingView> {
    let age = backing.age(now)?;
    Some(BackingView { age, reports: backing.reports, confidence: backing.confidence(now, lasts) })
}

fn bucket(bucket: &BucketState, now: FleetTime) -> BucketView {
    let effective = bucket.effective();
    let proven = bucket.rate().filter(|_| bucket.started).map(|rate| bucket.proven.min(bucket.most_at_once(&rate)));
    let seen = bucket.observed.map_or_else(Backing::default, |seen| Backing { at: seen.at, reports: seen.reports });
    let ceiling = bucket.ceiling.backing();
    BucketView {
        label: bucket.plan.id.label(),
        group: match &bucket.plan.id.owner {
            Owner::Group(group) => group.to_string(),
            Owner::Shared(_) | Owner::Account => String::new(),
        },
        meter: bucket.plan.meter.to_string(),
        limit_configured: bucket.plan.limit,
        limit_learned: bucket.learned.limit,
        limit_override: bucket.over.as_ref().map(|over| over.within(effective.per)),
        limit_effective: bucket.our_limit(),
        per: effective.per,
        refill: effective.refill,
        level: bucket.level_at(now).map(|level| level.as_units_f64()),
        observed: bucket.observed.map(|seen| (seen.remaining.as_units_floor(), now.since(seen.at))),
        level_backing: backing(seen, now, effective.per),
        limit_backing: bucket.learned.limit.and_then(|_| backing(bucket.learned.backing, now, A_DAY)),
        floor: floor(bucket.floor, now),
        foreign_drain: bucket.foreign_drain().map(|drain| drain.as_units_f64()),
        drain_backing: backing(bucket.drain.backing, now, A_MINUTE),
        limit_measured: (ceiling.reports > 0).then(|| bucket.ceiling.allowed.as_units_f64()),
        measured_backing: backing(ceiling, now, bucket.ceiling.hold.max(A_MINUTE)),
        at_once: proven.map(|proven| proven.as_units_f64()),
        proof_backing: backing(bucket.proof, now, PROOF_LASTS),
        ours: bucket.plan.ours,
    }
}

fn floor(floor: Option<Floor>, now: FleetTime) -> Option<FloorView> {
    floor.filter(|floor| floor.holds_at(now)).map(|floor| FloorView {
        ends_in: floor.until.since(now),
        source: floor.source,
        age: now.since(floor.since),
    })
}

fn usage(book: &UsageBook, now: FleetTime) -> Vec<UsageView> {
    let mut kinds: Vec<_> = book.kinds().iter().collect();
    kinds.sort_by_key(|kind| std::cmp::Reverse(kind.seen_at));
    let of_kind = |kind: &Remembered| -> Vec<UsageView> {
        let meters = kind.meters.iter().filter_map(|(meter, sketch)| {
            Some(UsageView {
                model: kind.model.to_string(),
                label: kind.label.to_string(),
                is_media: kind.form == Form::Media,
                meter: meter.to_string(),
                median: sketch.quantile(500)?,
                likely: sketch.quantile(900)?,
                calls: sketch.samples(),
                age: now.since(kind.seen_at),
            })
        });
        meters.collect()
    };
    kinds.into_iter().flat_map(of_kind).collect()
}

pub(super) fn view(scope: &Scope, now: FleetTime) -> ScopeView {
    let value = &scope.value;
    let buckets = value.buckets.iter().map(|state| bucket(state, now));
    let groups: Vec<GroupView> = value
        .groups
        .iter()
        .map(|group| GroupView {
            key: group.key.to_string(),
            floor: floor(group.floor, now),
            in_flight: group.flights.in_use(now).as_units_floor(),
            waiting: scope.queue.lanes().filter(|(key, _)| key.group == group.key).map(|(_, lane)| count(lane.depth())).sum(),
            modes: scope
                .plans
                .values()
                .find(|plan| plan.key == group.key)
                .map(|plan| scope.modes_shown(Some(&group.key), plan.modes)),
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
        modes: scope.modes_shown(None, scope.settings.modes(&scope.target).unwrap_or_default()),
        watched: scope.watched,
        organisations: scope.organisations.hints(now),
        buckets: buckets.collect(),
        lanes: lanes.collect(),
        floor: floor(value.floor, now),
        usage: usage(&value.usage, now),
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
        leader: leader(value.leader.as_ref(), now),
        followed: value.in_force.filter(|_| value.keeps_limits).map(|theirs| (theirs.hash, theirs.since)),
        degraded: degraded(scope, now),
    }
}

/// As calls are sent: to a lead that ended a moment ago, too.
fn leader(leader: Option<&Leader>, now: FleetTime) -> Option<LeaderView> {
    let leader = leader.filter(|leader| now < leader.until + KNOWN_FOR)?;
    let committed = now.since(leader.until - LEADS_FOR).at_least_zero();
    Some(LeaderView { replica: leader.replica, address: leader.address.clone(), committed })
}

impl ScopeView {
    /// The same with a leader that is known from elsewhere.
    pub(crate) fn led_by(self, known: Option<&Leader>, now: FleetTime) -> Self {
        Self { leader: leader(known, now), ..self }
    }
}

impl Scope {
    /// Whether every group in use denies its calls while the store is away.
    pub(crate) fn is_closed_without_store(&self) -> bool {
        !self.plans.is_empty() && self.plans.values().all(|plan| plan.store_down == StoreDown::Closed)
    }
}

fn degraded(scope: &Scope, now: FleetTime) -> Option<DegradedView> {
    let alone = scope.alone.as_ref()?;
    let mut done = scope.plans.values().map(|plan| plan.store_down);
    let first = done.next();
    let on_store_down = first.filter(|first| done.all(|other| other == *first));
    Some(DegradedView { lasts: now.since(alone.since).at_least_zero(), among: alone.among, on_store_down })
}

pub(super) fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
