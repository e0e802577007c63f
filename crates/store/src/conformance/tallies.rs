//! Named numbers to which all add.

use paceline_core::history::{Hour, KEPT_HOURS};
use tokio::task::JoinSet;

use super::{Harness, fresh_scope};
use crate::key::ScopeKey;
use crate::register::Store;
use crate::tally::{Addition, Counters, Day, MOST_COUNTED, ScopeName};

fn addition(hour: Hour, writer: u32, number: u64, counters: &[(&str, u64)]) -> Addition {
    Addition { hour, writer, number, counters: counters.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect() }
}

fn counters(of: &[(&str, u64)]) -> Counters {
    of.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
}

async fn hour_of<S: Store>(store: &S, scope: &ScopeKey, hour: Hour) -> Option<Counters> {
    let mut found = store.tallies(scope, hour..=hour).await.expect("tallies");
    assert!(found.len() <= 1 && found.iter().all(|(found, _)| *found == hour), "{found:?}");
    found.pop().map(|(_, counters)| counters)
}

pub(super) async fn additions_of_all_are_summed<H: Harness>(harness: &H) {
    let (store, scope) = (harness.store(), fresh_scope());
    let hour = Hour::of(store.now());
    assert_eq!(hour_of(&*store, &scope, hour).await, None, "nothing is added yet");
    let writers = [
        addition(hour, 1, 1, &[("a", 1), ("b", 10)]),
        addition(hour, 2, 1, &[("b", 5)]),
        addition(hour, 1, 2, &[("a", 2)]),
        addition(hour, u32::MAX, 9, &[("weird: \u{fc} name", 7)]),
    ];
    for addition in writers {
        harness.store().add_tally(&scope, addition).await.expect("it is added");
    }
    let sum = counters(&[("a", 3), ("b", 15), ("weird: \u{fc} name", 7)]);
    assert_eq!(hour_of(&*harness.store(), &scope, hour).await, Some(sum));
}

pub(super) async fn an_addition_counts_once<H: Harness>(harness: &H) {
    let (store, scope) = (harness.store(), fresh_scope());
    let hour = Hour::of(store.now());
    for number in [1, 1, 2, 1, 2, 2, 3] {
        harness.store().add_tally(&scope, addition(hour, 7, number, &[("a", 1)])).await.expect("it is added, or known");
    }
    assert_eq!(hour_of(&*store, &scope, hour).await, Some(counters(&[("a", 3)])));
    store.add_tally(&scope, addition(hour, 8, 1, &[("a", 1)])).await.expect("it is added");
    assert_eq!(hour_of(&*store, &scope, hour).await, Some(counters(&[("a", 4)])), "each writer has numbers of its own");
}

pub(super) async fn hours_and_scopes_stand_apart<H: Harness>(harness: &H) {
    let (store, scope, other) = (harness.store(), fresh_scope(), fresh_scope());
    let now = Hour::of(store.now());
    for back in [0, 1, 5, 100] {
        store
            .add_tally(&scope, addition(Hour(now.0 - back), 1, 1, &[("back", u64::from(back) + 1)]))
            .await
            .expect("it is added");
    }
    let all = store.tallies(&scope, Hour(now.0 - KEPT_HOURS)..=now).await.expect("tallies");
    let expected: Vec<(Hour, Counters)> =
        [100, 5, 1, 0].map(|back| (Hour(now.0 - back), counters(&[("back", u64::from(back) + 1)]))).into();
    assert_eq!(all, expected, "by hour");
    assert_eq!(store.tallies(&scope, Hour(now.0 - 5)..=Hour(now.0 - 1)).await.expect("tallies").len(), 2);
    assert_eq!(store.tallies(&other, Hour(0)..=now).await, Ok(Vec::new()));
}

pub(super) async fn no_addition_of_a_race_is_lost<H: Harness>(harness: &H) {
    let (store, scope) = (harness.store(), fresh_scope());
    let hour = Hour::of(store.now());
    let mut writers = JoinSet::new();
    for writer in 0..8 {
        let store = harness.store();
        writers.spawn(async move {
            for number in 1..=20 {
                store.add_tally(&scope, addition(hour, writer, number, &[("a", 1), ("b", 2)])).await.expect("it is added");
            }
        });
    }
    while let Some(ended) = writers.join_next().await {
        ended.expect("no writer fails");
    }
    assert_eq!(hour_of(&*store, &scope, hour).await, Some(counters(&[("a", 160), ("b", 320)])));
}

pub(super) async fn sums_stay_exact_and_bounded<H: Harness>(harness: &H) {
    let (store, scope) = (harness.store(), fresh_scope());
    let hour = Hour::of(store.now());
    let large = MOST_COUNTED - 10;
    store.add_tally(&scope, addition(hour, 1, 1, &[("a", large), ("b", u64::MAX)])).await.expect("it is added");
    store.add_tally(&scope, addition(hour, 1, 2, &[("a", 3), ("b", 1)])).await.expect("it is added");
    let sums = counters(&[("a", large + 3), ("b", MOST_COUNTED)]);
    assert_eq!(hour_of(&*store, &scope, hour).await, Some(sums), "to the unit, and never round again");
}

pub(super) async fn what_is_over_is_not_kept<H: Harness>(harness: &H) {
    let (store, scope) = (harness.store(), fresh_scope());
    let now = Hour::of(store.now());
    let (over, last) = (Hour(now.0 - KEPT_HOURS - 2), Hour(now.0 - KEPT_HOURS + 1));
    for hour in [over, last] {
        store.add_tally(&scope, addition(hour, 1, 1, &[("a", 1)])).await.expect("it is taken, or passed over");
    }
    let kept = store.tallies(&scope, over..=now).await.expect("tallies");
    assert_eq!(kept, [(last, counters(&[("a", 1)]))]);
}

pub(super) async fn scopes_are_named_by_day<H: Harness>(harness: &H) {
    let store = harness.store();
    let today = Day::of(Hour::of(store.now()));
    let name = |what: &str| ScopeName { provider: format!("{what}:ü"), account: format!("{:032x}", rand::random::<u128>()) };
    let (old, new, both) = (name("old"), name("new"), name("both"));
    store.name_scopes(Day(today.0 - 2), vec![old.clone(), both.clone()]).await.expect("they are named");
    harness.store().name_scopes(today, vec![new.clone(), both.clone()]).await.expect("they are named");
    harness.store().name_scopes(today, vec![both.clone()]).await.expect("twice is once");
    let all = store.named_scopes(Day(today.0 - 2)..=today).await.expect("names");
    assert!([&old, &new, &both].into_iter().all(|name| all.contains(name)), "{all:?}");
    let recent = store.named_scopes(Day(today.0 - 1)..=today).await.expect("names");
    assert!(!recent.contains(&old) && recent.contains(&new) && recent.contains(&both), "{recent:?}");
}
