//! What this replica knows of a scope, as messages.

use paceline_coordinator::scope::{BackingView, DegradedView, FloorView, LeaderView, ScopeView, Tally, UnreadView, UsageView};
use paceline_core::plan::{Class, Portion, StoreDown};
use paceline_core::units::Span;
use paceline_proto::{convert, v1};

/// A scope in a line, as replica `me` knows it.
pub(super) fn summary(me: u32, view: &ScopeView) -> v1::ScopeSummary {
    v1::ScopeSummary {
        provider: view.provider.clone(),
        account: view.account.clone(),
        mode: convert::main_mode(view.modes).into(),
        modes: convert::mode_shares(view.modes),
        waiting: view.lanes.iter().map(|lane| lane.depth).sum(),
        in_flight: view.in_flight,
        oldest_wait: view.lanes.iter().map(|lane| lane.oldest_wait).max().map(convert::duration),
        floor: last_floor(view).map(floor),
        leader: view.leader.as_ref().map(|lead| leader(me, lead)),
        degraded: view.degraded.map(|alone| degraded(me, alone)).into_iter().collect(),
    }
}

/// The floor that ends last, of all there are in a scope.
fn last_floor(view: &ScopeView) -> Option<FloorView> {
    let of_buckets = view.buckets.iter().filter_map(|bucket| bucket.floor);
    let of_groups = view.groups.iter().filter_map(|group| group.floor);
    of_buckets.chain(of_groups).chain(view.floor).max_by_key(|floor| floor.ends_in)
}

/// A scope in full, as replica `me` knows it.
pub(super) fn scope(me: u32, view: &ScopeView) -> v1::GetScopeResponse {
    let buckets = view.buckets.iter().map(|bucket| v1::Bucket {
        label: bucket.label.clone(),
        group: bucket.group.clone(),
        meter: bucket.meter.clone(),
        limit_configured: bucket.limit_configured,
        limit_learned: bucket.limit_learned,
        limit_effective: bucket.limit_effective,
        window: Some(bucket.per).filter(|per| *per > Span::ZERO).map(convert::duration),
        refill: v1::Refill::from(bucket.refill).into(),
        level: bucket.level,
        observed_remaining: bucket.observed.map(|(remaining, _)| remaining),
        observed_age: bucket.observed.map(|(_, age)| convert::duration(age)),
        floor: bucket.floor.map(floor),
        foreign_drain: bucket.foreign_drain,
        limit_measured: bucket.limit_measured,
        level_evidence: bucket.level_backing.map(evidence),
        limit_evidence: bucket.limit_backing.map(evidence),
        foreign_drain_evidence: bucket.drain_backing.map(evidence),
        limit_measured_evidence: bucket.measured_backing.map(evidence),
        at_once: bucket.at_once,
        at_once_evidence: bucket.proof_backing.map(evidence),
        r#use: part(bucket.ours.most),
        share: part(bucket.ours.least),
        limit_override: bucket.limit_override,
    });
    let groups = view.groups.iter().map(|group| v1::Group {
        key: group.key.clone(),
        floor: group.floor.map(floor),
        in_flight: group.in_flight,
        waiting: group.waiting,
        modes: group.modes.map(convert::mode_shares).unwrap_or_default(),
    });
    let lanes = view.lanes.iter().map(|lane| v1::Lane {
        group: lane.group.clone(),
        priority: priority(lane.class).into(),
        tenant: lane.tenant.clone(),
        depth: lane.depth,
        oldest_wait: Some(convert::duration(lane.oldest_wait)),
        waits_for: v1::Source::from(lane.waits_for).into(),
    });
    v1::GetScopeResponse {
        provider: view.provider.clone(),
        account: view.account.clone(),
        mode: convert::main_mode(view.modes).into(),
        modes: convert::mode_shares(view.modes),
        watched: watched(view.watched),
        organisations: view.organisations.clone(),
        buckets: buckets.collect(),
        groups: groups.collect(),
        lanes: lanes.collect(),
        in_flight: view.in_flight,
        floor: view.floor.map(floor),
        unread: view.unread.iter().map(unread).collect(),
        usage: view.usage.iter().map(usage).collect(),
        leader: view.leader.as_ref().map(|lead| leader(me, lead)),
        degraded: view.degraded.map(|alone| degraded(me, alone)).into_iter().collect(),
    }
}

fn evidence(backing: BackingView) -> v1::Evidence {
    v1::Evidence { age: Some(convert::duration(backing.age)), reports: backing.reports, confidence: backing.confidence }
}

fn part(portion: Portion) -> f64 {
    f64::from(portion.as_millionths()) / f64::from(Portion::WHOLE.as_millionths())
}

fn usage(seen: &UsageView) -> v1::LearnedUsage {
    v1::LearnedUsage {
        model: seen.model.clone(),
        label: seen.label.clone(),
        media: seen.is_media,
        meter: seen.meter.clone(),
        median: seen.median,
        likely: seen.likely,
        calls: seen.calls,
        age: Some(convert::duration(seen.age)),
    }
}

fn watched(tally: Tally) -> Option<v1::WatchedCalls> {
    (tally.asks > 0).then_some(v1::WatchedCalls {
        asks: tally.asks,
        would_wait: tally.would_wait,
        would_deny: tally.would_deny,
        prevented: tally.prevented,
    })
}

fn unread(header: &UnreadView) -> v1::UnreadHeader {
    v1::UnreadHeader {
        name: header.name.clone(),
        count: header.count,
        sample: header.sample.clone(),
        malformed: header.is_malformed,
        age: Some(convert::duration(header.age)),
    }
}

fn priority(class: Class) -> v1::Priority {
    v1::Priority::from(class)
}

fn floor(floor: FloorView) -> v1::Floor {
    v1::Floor {
        ends_in: Some(convert::duration(floor.ends_in)),
        source: v1::Source::from(floor.source).into(),
        age: Some(convert::duration(floor.age)),
    }
}

fn leader(me: u32, leader: &LeaderView) -> v1::Leader {
    let is_me = leader.replica == me;
    v1::Leader {
        replica: leader.replica,
        address: leader.address.to_string(),
        asked: is_me,
        answers: is_me,
        commit_age: Some(convert::duration(leader.committed)),
    }
}

fn degraded(me: u32, alone: DegradedView) -> v1::Degraded {
    let done = match alone.on_store_down {
        None => v1::OnStoreDown::Unspecified,
        Some(StoreDown::Local) => v1::OnStoreDown::Local,
        Some(StoreDown::Closed) => v1::OnStoreDown::Closed,
    };
    v1::Degraded { replica: me, lasts: Some(convert::duration(alone.lasts)), among: alone.among, on_store_down: done.into() }
}
