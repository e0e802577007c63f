//! What several replicas know of one scope, put together. Pure.
//!
//! Levels, limits and floors are those of the leader, who has decided last. Waiting calls are added up, and so is what each
//! replica counts by itself: a call that has just moved counts at both until the one before lets it go.

use std::collections::BTreeMap;

use paceline_proto::v1;
use prost_types::Duration;

/// What each replica knows, by its number; the one that was asked among them.
type Views<V> = BTreeMap<u32, V>;

/// What both forms of a scope tell of who decides.
trait Decided {
    fn leader(&self) -> Option<&v1::Leader>;
    fn degraded(&self) -> &[v1::Degraded];
}

impl Decided for v1::ScopeSummary {
    fn leader(&self) -> Option<&v1::Leader> {
        self.leader.as_ref()
    }

    fn degraded(&self) -> &[v1::Degraded] {
        &self.degraded
    }
}

impl Decided for v1::GetScopeResponse {
    fn leader(&self) -> Option<&v1::Leader> {
        self.leader.as_ref()
    }

    fn degraded(&self) -> &[v1::Degraded] {
        &self.degraded
    }
}

/// Every scope that one of them knows; those with most waiting calls first, else by name.
pub(super) fn summaries(me: u32, own: Vec<v1::ScopeSummary>, heard: Views<Vec<v1::ScopeSummary>>) -> Vec<v1::ScopeSummary> {
    let mut by_name: BTreeMap<(String, String), Views<v1::ScopeSummary>> = BTreeMap::new();
    for (replica, scopes) in heard.into_iter().chain([(me, own)]) {
        for scope in scopes {
            by_name.entry((scope.provider.clone(), scope.account.clone())).or_default().insert(replica, scope);
        }
    }
    let mut merged: Vec<v1::ScopeSummary> = by_name.into_values().filter_map(|views| summary(me, views)).collect();
    // They are sorted by name, and equals stay in their order.
    merged.sort_by_key(|scope| std::cmp::Reverse(scope.waiting));
    merged
}

fn summary(me: u32, views: Views<v1::ScopeSummary>) -> Option<v1::ScopeSummary> {
    let leader = leader(me, &views);
    let base = base(me, leader.as_ref(), &views)?.clone();
    Some(v1::ScopeSummary {
        leader,
        waiting: views.values().map(|view| view.waiting).sum(),
        oldest_wait: views.values().filter_map(|view| view.oldest_wait).max_by_key(length),
        degraded: views.values().flat_map(|view| view.degraded.iter().copied()).collect(),
        ..base
    })
}

/// Whether a replica has something to tell of a scope that others do not: it leads it, or calls wait there, or it is cut off.
pub(super) fn tells(replica: u32, scopes: &[v1::ScopeSummary], listed: &v1::ScopeSummary) -> bool {
    let is_same = |scope: &&v1::ScopeSummary| scope.provider == listed.provider && scope.account == listed.account;
    scopes.iter().find(is_same).is_some_and(|scope| {
        let leads = listed.leader.as_ref().is_some_and(|leader| leader.replica == replica);
        leads || scope.waiting > 0 || !scope.degraded.is_empty()
    })
}

/// One scope in full; `heard`: what the others know of it.
pub(super) fn scope(
    me: u32,
    own: Option<v1::GetScopeResponse>,
    heard: Views<v1::GetScopeResponse>,
) -> Option<v1::GetScopeResponse> {
    let own = own.map(|view| (me, view));
    let views: Views<v1::GetScopeResponse> = heard.into_iter().chain(own).collect();
    let leader = leader(me, &views);
    let base = base(me, leader.as_ref(), &views)?.clone();
    let mut groups = base.groups;
    for group in &mut groups {
        let same = views.values().flat_map(|view| &view.groups).filter(|other| other.key == group.key);
        group.waiting = same.map(|other| other.waiting).sum();
    }
    Some(v1::GetScopeResponse {
        leader,
        groups,
        lanes: lanes(&views),
        degraded: views.values().flat_map(|view| view.degraded.iter().copied()).collect(),
        unread: unread(&views),
        watched: watched(&views),
        ..base
    })
}

/// Who leads, as the one says that knows it best; nobody does who is cut off from the store.
fn leader<V: Decided>(me: u32, views: &Views<V>) -> Option<v1::Leader> {
    let known = views.values().filter_map(|view| Some((!view.degraded().is_empty(), view.leader()?)));
    let age = |leader: &v1::Leader| leader.commit_age.as_ref().map_or((i64::MAX, 0), length);
    // Who is cut off does not know who leads by now.
    let (_, last) = known.min_by_key(|(is_cut_off, leader)| (*is_cut_off, age(leader)))?;
    let itself = views.get(&last.replica);
    if itself.is_some_and(|view| !view.degraded().is_empty()) {
        return None;
    }
    Some(v1::Leader { asked: last.replica == me, answers: itself.is_some(), ..last.clone() })
}

/// The view of the leader; else of the one that was asked; else of any.
fn base<'v, V>(me: u32, leader: Option<&v1::Leader>, views: &'v Views<V>) -> Option<&'v V> {
    let of_leader = leader.and_then(|leader| views.get(&leader.replica));
    of_leader.or_else(|| views.get(&me)).or_else(|| views.values().next())
}

fn lanes(views: &Views<v1::GetScopeResponse>) -> Vec<v1::Lane> {
    let mut merged: BTreeMap<(String, i32, String), v1::Lane> = BTreeMap::new();
    for lane in views.values().flat_map(|view| &view.lanes) {
        let key = (lane.group.clone(), lane.priority, lane.tenant.clone());
        let Some(known) = merged.get_mut(&key) else {
            merged.insert(key, lane.clone());
            continue;
        };
        known.depth += lane.depth;
        // What the one waits for that has waited longest.
        if known.oldest_wait.as_ref().map(length) < lane.oldest_wait.as_ref().map(length) {
            (known.oldest_wait, known.waits_for) = (lane.oldest_wait, lane.waits_for);
        }
    }
    merged.into_values().collect()
}

fn unread(views: &Views<v1::GetScopeResponse>) -> Vec<v1::UnreadHeader> {
    let mut merged: BTreeMap<String, v1::UnreadHeader> = BTreeMap::new();
    for header in views.values().flat_map(|view| &view.unread) {
        let Some(known) = merged.get_mut(&header.name) else {
            merged.insert(header.name.clone(), header.clone());
            continue;
        };
        let count = known.count + header.count;
        if header.age.as_ref().map(length) < known.age.as_ref().map(length) {
            *known = header.clone();
        }
        known.count = count;
    }
    merged.into_values().collect()
}

fn watched(views: &Views<v1::GetScopeResponse>) -> Option<v1::WatchedCalls> {
    let tallies = views.values().filter_map(|view| view.watched);
    tallies.reduce(|sum, more| v1::WatchedCalls {
        asks: sum.asks + more.asks,
        would_wait: sum.would_wait + more.would_wait,
        would_deny: sum.would_deny + more.would_deny,
        prevented: sum.prevented + more.prevented,
    })
}

fn length(duration: &Duration) -> (i64, i32) {
    (duration.seconds, duration.nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secs(seconds: i64) -> Option<Duration> {
        Some(Duration { seconds, nanos: 0 })
    }

    fn led_by(replica: u32, commit_age: i64) -> Option<v1::Leader> {
        Some(v1::Leader { replica, address: format!("r{replica}:1"), commit_age: secs(commit_age), ..v1::Leader::default() })
    }

    fn listed(leader: Option<v1::Leader>, waiting: u64, oldest: i64) -> v1::ScopeSummary {
        let oldest_wait = (waiting > 0).then_some(Duration { seconds: oldest, nanos: 0 });
        let account = "prod".to_owned();
        v1::ScopeSummary { account, leader, waiting, oldest_wait, in_flight: waiting, ..v1::ScopeSummary::default() }
    }

    fn cut_off(replica: u32) -> Vec<v1::Degraded> {
        vec![v1::Degraded { replica, lasts: secs(3), among: 3, ..v1::Degraded::default() }]
    }

    fn one(views: [(u32, v1::ScopeSummary); 2]) -> v1::ScopeSummary {
        let [(_, own), (other, theirs)] = views;
        let merged = summaries(1, vec![own], [(other, vec![theirs])].into());
        assert_eq!(merged.len(), 1);
        merged.into_iter().next().unwrap()
    }

    #[test]
    fn the_leader_tells_and_waiting_calls_are_added_up() {
        let merged = one([(1, listed(led_by(1, 9), 1, 2)), (2, listed(led_by(2, 0), 5, 7))]);
        let leader = merged.leader.unwrap();
        assert_eq!((leader.replica, leader.asked, leader.answers), (2, false, true), "who committed last knows best");
        assert_eq!((merged.waiting, merged.in_flight, merged.oldest_wait), (6, 5, secs(7)));
        let merged = one([(1, listed(led_by(1, 0), 1, 2)), (2, listed(led_by(1, 1), 0, 0))]);
        assert!(merged.leader.as_ref().is_some_and(|leader| leader.asked && leader.answers), "{merged:?}");
    }

    #[test]
    fn a_leader_that_does_not_answer_is_named() {
        let merged = one([(1, listed(led_by(3, 1), 0, 0)), (2, listed(led_by(3, 2), 0, 0))]);
        let leader = merged.leader.unwrap();
        assert_eq!((leader.replica, leader.address.as_str(), leader.answers), (3, "r3:1", false));
    }

    #[test]
    fn who_is_cut_off_leads_nothing_and_all_that_are_get_named() {
        let blind = |replica, waiting| v1::ScopeSummary { degraded: cut_off(replica), ..listed(led_by(2, 0), waiting, 1) };
        let merged = one([(1, blind(1, 4)), (2, blind(2, 3))]);
        assert_eq!((merged.leader, merged.waiting, merged.in_flight), (None, 7, 4), "its own view, and all who wait");
        assert_eq!(merged.degraded.iter().map(|one| one.replica).collect::<Vec<_>>(), [1, 2]);
        // One that is cut off alone tells what the leader knows, also when it took another one for that.
        let past = v1::ScopeSummary { leader: led_by(3, 0), ..blind(1, 4) };
        let merged = one([(1, past), (2, listed(led_by(2, 1), 3, 1))]);
        assert_eq!((merged.leader.map(|leader| leader.replica), merged.in_flight), (Some(2), 3));
    }

    #[test]
    fn what_nobody_asked_for_here_is_listed_too_and_the_busiest_comes_first() {
        let named = |account: &str, waiting| v1::ScopeSummary { account: account.into(), ..listed(None, waiting, 1) };
        let merged = summaries(1, vec![named("a", 0)], [(2, vec![named("b", 2), named("a", 1)]), (3, vec![])].into());
        let told: Vec<_> = merged.iter().map(|scope| (scope.account.as_str(), scope.waiting)).collect();
        assert_eq!(told, [("b", 2), ("a", 1)]);
    }

    #[test]
    fn a_scope_in_full_has_the_lanes_of_all() {
        let lane = |tenant: &str, depth, oldest, waits_for: v1::Source| v1::Lane {
            tenant: tenant.into(),
            depth,
            oldest_wait: secs(oldest),
            waits_for: waits_for.into(),
            ..v1::Lane::default()
        };
        let header = |count, age| v1::UnreadHeader { name: "x".into(), count, age: secs(age), ..v1::UnreadHeader::default() };
        let view = |leader, lanes, level, unread| v1::GetScopeResponse {
            leader,
            lanes,
            buckets: vec![v1::Bucket { level: Some(level), ..v1::Bucket::default() }],
            unread: vec![unread],
            watched: Some(v1::WatchedCalls { asks: 2, ..v1::WatchedCalls::default() }),
            ..v1::GetScopeResponse::default()
        };
        let own = view(led_by(2, 5), vec![lane("a", 1, 9, v1::Source::Store)], 1.0, header(3, 1));
        let theirs = vec![lane("a", 2, 4, v1::Source::Pacing), lane("b", 1, 1, v1::Source::Pacing)];
        let theirs = view(led_by(2, 0), theirs, 7.0, header(4, 8));
        let merged = scope(1, Some(own), [(2, theirs)].into()).unwrap();
        let lanes: Vec<_> = merged.lanes.iter().map(|lane| (lane.tenant.as_str(), lane.depth, lane.waits_for())).collect();
        assert_eq!(lanes, [("a", 3, v1::Source::Store), ("b", 1, v1::Source::Pacing)]);
        assert_eq!(merged.buckets.first().and_then(|bucket| bucket.level), Some(7.0), "levels are the leader's");
        assert_eq!(merged.unread.first().map(|header| (header.count, header.age)), Some((7, secs(1))));
        assert_eq!(merged.watched.map(|calls| calls.asks), Some(4));
        assert_eq!(scope(1, None, Views::new()), None);
    }
}
