//! Calls that may go to one of several targets: where they go, what they may not, and what each target learns.

use paceline_coordinator::api::{AcquireRequest, Answer, CallError, ReportRequest, RetryAsk, Target};
use paceline_core::denial::Reason;
use paceline_core::lease::Repeat;
use paceline_core::report::Outcome;
use paceline_core::retry::Verdict;
use paceline_core::units::Span;

use crate::support::{Look, answered, ask, back, report, settings, target};
use crate::{Service, secs, service, sleep, store};

/// `acme` and `other` are two providers; `other` has two accounts.
const TWO: &str = "providers:
  acme: {extends: generic, start_level: full, accounts: {prod: {models: {m: {limits: {requests: ACME}}}}}}
  other:
    extends: generic
    start_level: full
    models: {m: {limits: {requests: OTHER}}}
    accounts: {prod: {}, spare: {}}
";

async fn two(acme: &str, other: &str) -> Service<std::sync::Arc<paceline_store::MemoryStore>> {
    service(store(), settings(&TWO.replace("ACME", acme).replace("OTHER", other))).await
}

fn other(account: &str) -> Target {
    Target { provider: "other".into(), account: account.into(), model: "m".into() }
}

/// To `acme`, else to `other/prod`.
fn either(request_id: &str) -> AcquireRequest {
    AcquireRequest { fallbacks: vec![other("prod")], ..ask(request_id) }
}

fn retrying(report: ReportRequest) -> ReportRequest {
    ReportRequest { retry: Some(RetryAsk::default()), ..report }
}

async fn granted_at(service: &Service<std::sync::Arc<paceline_store::MemoryStore>>, request: AcquireRequest) -> String {
    service.worker(request).await.0.target.provider
}

#[tokio::test(start_paused = true)]
async fn the_preferred_target_while_it_can_then_the_next_one() {
    let service = two("{limit: 60, per: 1m, burst: 2}", "600/min").await;
    let mut told = Vec::new();
    for call in 0..6 {
        told.push(match service.ask(AcquireRequest { hold: Span::ZERO, ..either(&call.to_string()) }).await {
            Answer::Granted(grant) => grant.target.provider,
            other => format!("in line, {}", other.queued().estimated_wait),
        });
    }
    // Two at once, and one more is due within a second: that is soon enough. The others are not made to wait.
    assert_eq!(told, ["acme", "acme", "in line, 1 s", "other", "other", "other"]);
    sleep(secs(10)).await;
    assert_eq!(granted_at(&service, either("later")).await, "acme", "it is preferred as soon as it can");
}

#[tokio::test(start_paused = true)]
async fn when_both_are_busy_the_shorter_wait_counts() {
    let service = two("{limit: 1, per: 1m}", "{limit: 6, per: 1m, capacity: 1}").await;
    granted_at(&service, ask("first")).await;
    granted_at(&service, AcquireRequest { target: other("prod"), ..ask("second") }).await;
    let queued = service.ask(AcquireRequest { hold: Span::ZERO, ..either("A") }).await.queued().clone();
    assert!(queued.estimated_wait <= secs(12), "{}", queued.estimated_wait);
    sleep(secs(9)).await;
    let granted = service.ask(back(&either("A"), &queued, secs(10))).await;
    assert_eq!(granted.grant().target.provider, "other");
}

#[tokio::test(start_paused = true)]
async fn a_call_never_has_two_places_or_two_slots() {
    let service = two("{limit: 1, per: 1m}", "{limit: 60, per: 1m, burst: 1}").await;
    granted_at(&service, ask("first")).await;
    granted_at(&service, AcquireRequest { target: other("prod"), ..ask("second") }).await;
    let first = AcquireRequest { hold: Span::ZERO, ..either("A") };
    let mut request = first.clone();
    for round in 0..50 {
        let answer = service.ask(request.clone()).await;
        let waiting = waiting(&service).await;
        assert!(waiting <= 1, "round {round}: {waiting} places");
        match &answer {
            Answer::Granted(grant) => {
                // The answer was lost: the same call asks again, by now the preferred target is free.
                sleep(Span::from_millis(900)).await;
                let again = service.ask(first).await;
                assert_eq!(again.grant().lease_id, grant.lease_id, "the same slot wherever it is asked for");
                return;
            }
            queued => request = back(&first, queued.queued(), Span::ZERO),
        }
        sleep(Span::from_millis(100)).await;
    }
    panic!("never granted");
}

async fn waiting(service: &Service<std::sync::Arc<paceline_store::MemoryStore>>) -> u64 {
    service.coordinator.scopes().await.iter().flat_map(|scope| scope.lanes.iter().map(|lane| lane.depth)).sum()
}

#[tokio::test(start_paused = true)]
async fn a_place_is_left_for_a_target_that_is_free_again() {
    let service = two("{limit: 1, per: 10m}", "600/min").await;
    granted_at(&service, ask("first")).await;
    let probe = service.grant(AcquireRequest { target: other("prod"), ..ask("probe") }).await;
    service.coordinator.report(answered(&probe.lease_id, 429, &[("retry-after", "60")])).await.unwrap();
    let request = AcquireRequest { hold: Span::ZERO, max_wait: Some(secs(3_000)), ..either("A") };
    let queued = service.ask(request.clone()).await.queued().clone();
    assert_eq!(waiting(&service).await, 1);
    sleep(secs(70)).await;
    let grant = service.ask(back(&request, &queued, secs(10))).await.grant().clone();
    assert_eq!(grant.target.provider, "other");
    assert_eq!(waiting(&service).await, 0, "the place is given up");
    assert!(paceline_core::delays::total(&grant.delays) >= secs(70), "the whole wait is told: {:?}", grant.delays);
}

#[tokio::test(start_paused = true)]
async fn a_retry_goes_to_another_target_than_the_one_that_refused() {
    let service = two("600/min", "600/min").await;
    let first = service.worker(either("A")).await.0;
    let answer = service.coordinator.report(retrying(answered(&first.lease_id, 503, &[]))).await.unwrap();
    assert_eq!(answer.verdict, Some(Verdict::FailOver));
    let second = answer.next.as_ref().expect("a slot").grant().clone();
    assert_eq!(second.target, other("prod"));
    // The second one refuses as well: back to the first.
    let answer = service.coordinator.report(retrying(answered(&second.lease_id, 503, &[]))).await.unwrap();
    assert_eq!(answer.next.as_ref().expect("a slot").grant().target, target("m"));
    // A worker that asks by itself is told the same.
    sleep(secs(10)).await;
    let third = service.worker(either("B")).await.0;
    let answer = service.coordinator.report(answered(&third.lease_id, 429, &[("retry-after", "30")])).await.unwrap();
    assert_eq!((answer.verdict, answer.next.is_none()), (Some(Verdict::FailOver), true));
    let next = AcquireRequest { attempt: 2, previous_lease_id: Some(third.lease_id), ..either("B") };
    assert_eq!(granted_at(&service, next).await, "other");
}

#[tokio::test(start_paused = true)]
async fn what_ends_a_call_at_one_target_is_no_end_where_another_can_take_it() {
    let service = two("600/min", "600/min").await;
    // Longer than a normal call waits for: alone it would be given up.
    let first = service.grant(ask("alone")).await;
    let answer = service.coordinator.report(answered(&first.lease_id, 429, &[("retry-after", "600")])).await.unwrap();
    assert_eq!(answer.verdict, Some(Verdict::GiveUp(Reason::OverHonorCap)));
    let denied = service.ask(ask("B")).await;
    assert_eq!(denied.reason(), Reason::OverHonorCap);
    assert_eq!(granted_at(&service, either("B")).await, "other", "a first attempt goes where it can");
    let answer = service.coordinator.report(ReportRequest { seq: 2, ..answered(&first.lease_id, 429, &[]) }).await.unwrap();
    assert!(answer.not_applied.is_some() && answer.next.is_none(), "a settled lease asks for nothing");
}

#[tokio::test(start_paused = true)]
async fn when_all_refuse_the_preferred_one_says_so_and_the_others_too() {
    let service = two("600/min", "600/min").await;
    for (call, at) in [("A", target("m")), ("B", other("prod"))] {
        let lease = service.grant(AcquireRequest { target: at, ..ask(call) }).await.lease_id;
        service.coordinator.report(answered(&lease, 429, &[("retry-after", "900")])).await.unwrap();
    }
    let denied = service.ask(either("C")).await.denied().denial.clone();
    assert_eq!(denied.reason, Reason::OverHonorCap);
    assert!(denied.detail.contains("; fallback 1: the provider said to wait"), "{}", denied.detail);
}

#[tokio::test(start_paused = true)]
async fn across_a_provider_boundary_only_after_a_definite_refusal_or_when_safe() {
    let service = two("600/min", "600/min").await;
    let elsewhere = |id: &str, lease: &str, repeat| AcquireRequest {
        attempt: 2,
        target: other("prod"),
        previous_lease_id: Some(lease.to_owned()),
        repeat,
        ..ask(id)
    };
    // (what the first attempt came to, whether it may have run)
    let outcomes: [(&str, Option<ReportRequest>, bool); 6] = [
        ("refused", Some(answered("", 429, &[])), false),
        ("overloaded", Some(answered("", 503, &[])), false),
        ("never sent", Some(report("", 1, Outcome::ConnectionFailed)), false),
        ("timed out", Some(report("", 1, Outcome::Timeout)), true),
        ("failed", Some(answered("", 500, &[])), true),
        ("unreported", None, true),
    ];
    for (what, outcome, may_have_run) in outcomes {
        for (repeat, is_safe) in [(Repeat::Unspecified, false), (Repeat::Keyed, false), (Repeat::Safe, true)] {
            let id = format!("{what} {repeat:?}");
            let lease = service.grant(AcquireRequest { repeat, ..ask(&id) }).await.lease_id;
            if let Some(outcome) = &outcome {
                service.coordinator.report(ReportRequest { lease_id: lease.clone(), ..outcome.clone() }).await.unwrap();
            }
            let answer = service.ask(elsewhere(&id, &lease, repeat)).await;
            match may_have_run && !is_safe {
                true => {
                    assert_eq!(answer.reason(), Reason::CrossProvider, "{id}");
                    assert!(answer.denied().denial.detail.contains("may have run at acme"));
                }
                false => assert_eq!(answer.grant().target.provider, "other", "{id}"),
            }
            sleep(secs(20)).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_lease_carries_where_it_may_have_run_over_any_number_of_attempts() {
    let service = two("600/min", "600/min").await;
    let first = service.grant(AcquireRequest { repeat: Repeat::Safe, ..ask("A") }).await.lease_id;
    service.coordinator.report(report(&first, 1, Outcome::Timeout)).await.unwrap();
    // Safe for the second attempt, and refused there; the third says nothing of being safe.
    let second =
        AcquireRequest { attempt: 2, target: other("prod"), previous_lease_id: Some(first), repeat: Repeat::Safe, ..ask("A") };
    let second = service.grant(second).await.lease_id;
    service.coordinator.report(answered(&second, 429, &[])).await.unwrap();
    sleep(secs(5)).await;
    let third = |at: Target| AcquireRequest { attempt: 3, target: at, previous_lease_id: Some(second.clone()), ..ask("A") };
    let denied = service.ask(third(other("spare"))).await;
    assert_eq!(denied.reason(), Reason::CrossProvider, "another account of the same provider, but acme may have run it");
    assert_eq!(granted_at(&service, third(target("m"))).await, "acme", "where it may have run it may be sent again");
}

#[tokio::test(start_paused = true)]
async fn an_unsafe_call_that_timed_out_stays_where_it_was() {
    let service = two("600/min", "600/min").await;
    let first = service.grant(either("A")).await;
    let answer = service.coordinator.report(retrying(report(&first.lease_id, 1, Outcome::Timeout))).await.unwrap();
    assert_eq!(answer.verdict, Some(Verdict::Retry));
    assert_eq!(answer.next.as_ref().expect("an answer").grant().target, target("m"));
    // A call that may be sent twice goes on.
    let first = service.grant(AcquireRequest { repeat: Repeat::Safe, ..either("B") }).await;
    let answer = service.coordinator.report(retrying(report(&first.lease_id, 1, Outcome::Timeout))).await.unwrap();
    assert_eq!((answer.verdict, &answer.next.unwrap().grant().target), (Some(Verdict::FailOver), &other("prod")));
}

#[tokio::test(start_paused = true)]
async fn a_target_near_its_own_limit_takes_a_tenth_of_its_rate_from_others() {
    let service = two("{limit: 1, per: 10m}", "{limit: 100, per: 1m}").await;
    granted_at(&service, ask("first")).await;
    for call in 0..85 {
        service.grant(AcquireRequest { target: other("prod"), ..ask(&format!("own {call}")) }).await;
    }
    let mut taken = 0;
    for call in 0..15 {
        let request = AcquireRequest { max_wait: Some(secs(3_000)), hold: Span::ZERO, ..either(&call.to_string()) };
        taken += usize::from(matches!(service.ask(request).await, Answer::Granted(_)));
    }
    assert_eq!(taken, 10, "a tenth of 100 a minute");
    service.grant(AcquireRequest { target: other("prod"), ..ask("its own calls go on") }).await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_from_elsewhere_teaches_who_gave_it_and_is_settled_where_it_was_charged() {
    let service = two("{limit: 100, per: 1h}", "600/min").await;
    let lease = service.grant(AcquireRequest { cost: crate::support::cost([("requests", 5)]), ..ask("A") }).await.lease_id;
    let refused = ReportRequest {
        served_by: "other/prod".into(),
        usage: crate::support::cost([("requests", 1)]),
        ..answered(&lease, 429, &[("retry-after", "40")])
    };
    let answer = service.coordinator.report(refused).await.unwrap();
    assert_eq!((answer.not_applied, answer.verdict), (None, Some(Verdict::Retry)));
    // Whoever answered is left alone, and whoever was asked is not.
    let waits = service.ask(AcquireRequest { target: other("prod"), hold: Span::ZERO, ..ask("B") }).await;
    assert_eq!(waits.queued().binding.source, paceline_core::signal::Source::RetryAfterSeconds);
    granted_at(&service, ask("C")).await;
    let view = service.coordinator.scope("acme", "prod").await.unwrap().expect("it is known");
    assert_eq!(view.buckets[0].level.map(f64::round), Some(98.0), "4 of 5 came back, and C took one");
    assert!(view.floor.is_none() && view.groups[0].floor.is_none());
    // An unknown name teaches nobody, and the call is settled all the same.
    let lease = service.grant(ask("D")).await.lease_id;
    let refused = ReportRequest { served_by: "somewhere".into(), ..answered(&lease, 429, &[("retry-after", "40")]) };
    assert_eq!(service.coordinator.report(refused).await.unwrap().not_applied, None);
    granted_at(&service, ask("E")).await;
}

#[tokio::test(start_paused = true)]
async fn names_of_fallbacks_are_checked_like_targets() {
    let service = two("600/min", "600/min").await;
    let refuse = async |fallback: Target| {
        let request = AcquireRequest { fallbacks: vec![other("prod"), fallback], ..ask("A") };
        service.coordinator.acquire(request).await.unwrap_err()
    };
    let error = refuse(other("nobody")).await;
    assert!(
        matches!(&error, CallError::Invalid { field: "fallbacks", problem } if problem.starts_with("number 2:")),
        "{error}"
    );
    assert!(matches!(refuse(Target { provider: "othr".into(), ..other("prod") }).await, CallError::UnknownProvider(_)));
    // The same target twice is one.
    let request = AcquireRequest { fallbacks: vec![target("m"), target("m")], ..ask("B") };
    assert_eq!(granted_at(&service, request).await, "acme");
}
