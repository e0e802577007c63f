//! What people on call say: it holds at every replica, tells whom it touches, and ends.

use std::time::Duration;

use paceline_core::units::Span;
use paceline_proto::v1::acquire_response::Outcome as Answer;
use paceline_proto::v1::admin_client::AdminClient;
use paceline_proto::v1::{
    AcquireRequest, AcquireResponse, Bucket, Control, ControlKind, EndControlsRequest, ForgetRequest, GetScopeRequest, Header,
    Limit, ListControlsRequest, ListScopesRequest, Mode, PauseRequest, Priority, Reason, ReportRequest, Said, Selector,
    SetLimitRequest, SetModeRequest, Source,
};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tonic::transport::Channel;
use tonic::{Code, Status};

use crate::support::fleet::{Fleet, Replica};
use crate::support::{Service, ask, fields, granted, length, queued, report, secs, until};

/// `m` has room; `slow` lets one call through in ten seconds.
const CONFIG: &str = "
providers:
  acme:
    extends: generic
    accounts:
      prod:
        models:
          m: {limits: {requests: 600/min}, start_level: full}
          slow: {limits: {requests: {limit: 6, per: 1m, burst: 1}}, start_level: full}
";

fn acme() -> Selector {
    Selector { provider: "acme".into(), account: "prod".into(), ..Selector::default() }
}

fn batch() -> Selector {
    Selector { priority: Priority::Batch.into(), ..acme() }
}

fn said(seconds: i64) -> Option<Said> {
    Some(Said { lasts: Some(secs(seconds)), reason: "it hurts".into(), who: "ada@desk".into(), ..Said::default() })
}

fn pause(selector: Selector, seconds: i64) -> PauseRequest {
    PauseRequest { selector: Some(selector), said: said(seconds) }
}

fn end(selector: Selector) -> EndControlsRequest {
    EndControlsRequest { selector: Some(selector), ..EndControlsRequest::default() }
}

fn call(name: &str, model: &str, priority: Priority) -> AcquireRequest {
    AcquireRequest { priority: priority.into(), ..ask(name, model) }
}

/// A call that waits as long as it is let: it comes back with its ticket.
async fn patient(replica: &Replica, request: AcquireRequest) -> JoinHandle<(Instant, AcquireResponse)> {
    let mut limiter = replica.limiter().await;
    let mut request = AcquireRequest { hold: Some(secs(5)), ..request };
    tokio::spawn(async move {
        loop {
            let answer = limiter.acquire(request.clone()).await.expect("it is answered").into_inner();
            let Some(Answer::Queued(queued)) = &answer.outcome else { return (Instant::now(), answer) };
            request.ticket = queued.ticket.clone();
            let away = length(queued.come_back_in.as_ref());
            tokio::time::sleep(Duration::from_micros(u64::try_from(away.as_micros()).unwrap())).await;
        }
    })
}

async fn controls(admin: &mut AdminClient<Channel>) -> Vec<Control> {
    admin.list_controls(ListControlsRequest {}).await.unwrap().into_inner().controls
}

/// Waits until so many controls are in force at every replica, which must be soon.
async fn in_force(fleet: &Fleet, count: usize) {
    let began = Instant::now();
    for replica in &fleet.replicas {
        let admin = replica.admin().await;
        until("all have read the book", || {
            let mut admin = admin.clone();
            async move { controls(&mut admin).await.len() == count }
        })
        .await;
    }
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}; meant are two seconds", began.elapsed());
}

fn denied(answer: &AcquireResponse) -> (Reason, Span, String) {
    let Some(Answer::Denial(denied)) = &answer.outcome else { panic!("not denied: {answer:?}") };
    (denied.reason(), length(denied.retry_after.as_ref()), denied.detail.clone())
}

async fn waiting(replica: &Replica) -> u64 {
    let list = replica.admin().await.list_scopes(ListScopesRequest::default()).await.unwrap().into_inner();
    list.scopes.iter().map(|scope| scope.waiting).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batch_is_paused_everywhere_while_chats_go_on_and_resumes_in_order() {
    let fleet = Fleet::patient(3, CONFIG, Some(Duration::from_secs(20))).await;
    granted(&fleet.limiter(0).await.acquire(ask("first", "m")).await.unwrap().into_inner());
    let paused = fleet.replicas[1].admin().await.pause(pause(batch(), 60)).await.unwrap().into_inner();
    let control = paused.control.expect("it is in force");
    assert_eq!((control.kind(), control.who.as_str(), control.reason.as_str()), (ControlKind::Pause, "ada@desk", "it hurts"));
    let touched = paused.touched.unwrap();
    assert_eq!((touched.scopes.len(), touched.groups, touched.waiting, touched.silent_replicas), (1, 1, 0, 0), "{touched:?}");
    assert_eq!(paused.undo, "paceline resume --provider acme --account prod --priority batch");
    in_force(&fleet, 1).await;

    let mut held = Vec::new();
    for number in 0..3 {
        held.push(patient(&fleet.replicas[number % 2], call(&format!("b{number}"), "slow", Priority::Batch)).await);
        until("it waits", async || waiting(&fleet.replicas[2]).await == number as u64 + 1).await;
    }
    for (number, priority) in [Priority::Interactive, Priority::Normal].into_iter().enumerate() {
        let chat = fleet.limiter(number).await.acquire(call(&format!("c{number}"), "m", priority)).await.unwrap().into_inner();
        granted(&chat);
    }
    let hasty = AcquireRequest { max_wait: Some(secs(20)), ..call("hasty", "m", Priority::Batch) };
    let (reason, retry_after, detail) = denied(&fleet.limiter(2).await.acquire(hasty).await.unwrap().into_inner());
    assert_eq!(reason, Reason::Paused);
    assert!(retry_after > Span::from_secs(20) && retry_after <= Span::from_secs(60), "{retry_after}");
    for told in ["pause 1 (acme/prod, batch)", "ada@desk", "it hurts", "paceline resume"] {
        assert!(detail.contains(told), "{told}: {detail}");
    }
    let asked = AcquireRequest { hold: Some(secs(0)), ..call("patient", "m", Priority::Batch) };
    let place = fleet.limiter(2).await.acquire(asked).await.unwrap().into_inner();
    queued(&place);
    assert!(place.delays.iter().any(|delay| delay.binding && delay.source() == Source::Paused), "{place:?}");
    for replica in &fleet.replicas {
        assert_eq!(replica.counted_of("paceline_override_active{").await, 1.0);
        let left = replica.counted_of("paceline_override_ends_in_seconds{").await;
        assert!(left > 0.0 && left <= 60.0, "{left}");
        let page = replica.page().await;
        assert!(page.contains("pause 1 for acme/prod, batch") && page.contains("it hurts"), "{page}");
    }

    let resumed = fleet.replicas[2].admin().await.resume(end(batch())).await.unwrap().into_inner();
    assert_eq!(resumed.ended.iter().map(|ended| ended.id).collect::<Vec<_>>(), [control.id]);
    assert_eq!(resumed.touched.unwrap().waiting, 4, "three that are held, and one that is away");
    assert!(
        resumed.undo.starts_with("paceline pause --provider acme --account prod --priority batch --for "),
        "{}",
        resumed.undo
    );
    let first = held.remove(0).await.unwrap();
    granted(&first.1);
    assert!(held.iter().all(|other| !other.is_finished()), "one in ten seconds, and in the order they came");
    held.iter().for_each(JoinHandle::abort);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mode_off_lets_everybody_through_at_once_and_ends_by_itself() {
    let fleet = Fleet::patient(3, CONFIG, Some(Duration::from_secs(20))).await;
    granted(&fleet.limiter(0).await.acquire(ask("first", "slow")).await.unwrap().into_inner());
    let mut held = Vec::new();
    for (number, replica) in fleet.replicas.iter().enumerate() {
        held.push(patient(replica, ask(&format!("held{number}"), "slow")).await);
    }
    until("they wait", async || waiting(&fleet.replicas[1]).await == 3).await;
    let off = SetModeRequest { selector: Some(Selector::default()), mode: Mode::Off.into(), said: said(4) };
    let began = Instant::now();
    let done = fleet.replicas[2].admin().await.set_mode(off).await.unwrap().into_inner();
    assert_eq!((done.touched.unwrap().waiting, done.undo.as_str()), (3, "paceline mode --clear --all"));
    for (number, held) in held.into_iter().enumerate() {
        let (_, answer) = held.await.unwrap();
        granted(&answer);
        assert_eq!(answer.mode(), Mode::Off, "held{number}");
    }
    assert!(began.elapsed() < Duration::from_secs(8), "a slot of theirs comes in ten seconds: {:?}", began.elapsed());
    in_force(&fleet, 0).await;
    queued(&fleet.limiter(0).await.acquire(ask("later", "slow")).await.unwrap().into_inner());
}

#[tokio::test]
async fn a_replica_that_starts_later_has_it_and_so_has_one_whose_time_moves_on() {
    let service = Service::start_with(CONFIG).await;
    granted(&service.limiter().await.acquire(ask("first", "m")).await.unwrap().into_inner());
    service.admin().await.pause(pause(acme(), 600)).await.unwrap();
    let later = service.beside(CONFIG).await;
    assert_eq!(controls(&mut later.admin().await).await.len(), 1, "from its first moment on");
    let hasty = AcquireRequest { max_wait: Some(secs(20)), ..ask("hasty", "m") };
    let answer = later.limiter().await.acquire(hasty.clone()).await.unwrap().into_inner();
    assert_eq!(denied(&answer).0, Reason::Paused);
    service.advance(Span::from_secs(601));
    for (service, name) in [(&service, "a"), (&later, "b")] {
        let again = AcquireRequest { request_id: name.into(), ..hasty.clone() };
        granted(&service.limiter().await.acquire(again).await.unwrap().into_inner());
        assert_eq!(controls(&mut service.admin().await).await, []);
    }
}

fn limit(selector: Selector, bucket: &str, units: u64, per: Option<i64>) -> SetLimitRequest {
    let limit = Some(Limit { bucket: bucket.into(), units, per: per.map(secs) });
    SetLimitRequest { selector: Some(selector), limit, said: said(600) }
}

async fn bucket(replica: &Replica, group: &str) -> Bucket {
    let asked = GetScopeRequest { provider: "acme".into(), account: "prod".into() };
    let scope = replica.admin().await.get_scope(asked).await.unwrap().into_inner();
    scope.buckets.into_iter().find(|bucket| bucket.group == group && bucket.label == "requests").expect("it is there")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_is_set_lower_and_higher_and_refills_nothing() {
    let fleet = Fleet::patient(2, CONFIG, Some(Duration::from_secs(20))).await;
    for model in ["m", "slow"] {
        granted(&fleet.limiter(0).await.acquire(ask(&format!("first-{model}"), model)).await.unwrap().into_inner());
    }
    let mut admin = fleet.replicas[1].admin().await;
    let lower =
        admin.set_limit(limit(Selector { model: "m".into(), ..acme() }, "requests", 2, Some(60))).await.unwrap().into_inner();
    let touched = lower.touched.unwrap();
    let limits: Vec<_> = touched.limits.iter().map(|limit| (limit.group.as_str(), limit.before, limit.after)).collect();
    assert_eq!(limits, [("m", Some(600), 2)], "the other group keeps its own");
    assert_eq!(lower.undo, "paceline limit --clear requests --provider acme --account prod --model m");
    let seen = |bucket: &Bucket| (bucket.limit_configured, bucket.limit_override, bucket.limit_effective);
    for replica in &fleet.replicas {
        until("it holds", async || seen(&bucket(replica, "m").await) == (Some(600), Some(2), Some(2))).await;
    }
    assert_eq!(seen(&bucket(&fleet.replicas[0], "slow").await), (Some(6), None, Some(6)));
    let mut limiter = fleet.limiter(0).await;
    let mut granted_at_once = 0;
    for number in 0..5 {
        let answer = limiter.acquire(ask(&format!("few{number}"), "m")).await.unwrap().into_inner();
        granted_at_once += u32::from(matches!(answer.outcome, Some(Answer::Grant(_))));
    }
    assert!(granted_at_once <= 2, "{granted_at_once}");

    let higher = limit(acme(), "requests", 60, Some(1));
    let touched = admin.set_limit(higher).await.unwrap().into_inner().touched.unwrap();
    let limits: Vec<_> = touched.limits.iter().map(|limit| (limit.group.as_str(), limit.after)).collect();
    assert_eq!(limits, [("m", 3_600), ("slow", 3_600)], "a bucket keeps its window");
    until("it holds", async || bucket(&fleet.replicas[0], "slow").await.limit_effective == Some(3_600)).await;
    assert_eq!(bucket(&fleet.replicas[0], "m").await.limit_effective, Some(2), "who says more about whom is heard");
    let cleared =
        admin.clear_limit(EndControlsRequest { bucket: "requests".into(), ..end(acme()) }).await.unwrap().into_inner();
    assert_eq!(cleared.ended.len(), 2, "both lie within");
    until("the file holds", async || seen(&bucket(&fleet.replicas[0], "m").await) == (Some(600), None, Some(600))).await;
    let level = bucket(&fleet.replicas[0], "m").await.level.unwrap();
    assert!(level < 300.0, "no bucket is refilled by it: {level}");
}

#[tokio::test]
async fn forgetting_lifts_a_floor_and_says_what_there_was() {
    let service = Service::start_with(CONFIG).await;
    let mut limiter = service.limiter().await;
    let first = limiter.acquire(ask("a", "m")).await.unwrap().into_inner();
    let headers = vec![Header { name: "Retry-After".into(), value: "600".into() }];
    limiter.report(ReportRequest { headers, ..report(&granted(&first).lease_id, 429) }).await.unwrap();
    assert_eq!(denied(&limiter.acquire(ask("b", "m")).await.unwrap().into_inner()).0, Reason::OverHonorCap);
    let mut admin = service.admin().await;
    let forget = |dry_run| ForgetRequest {
        selector: Some(acme()),
        floors: true,
        dry_run,
        reason: "it was a mistake".into(),
        who: "ada".into(),
        ..ForgetRequest::default()
    };
    for dry_run in [true, false] {
        let forgotten = admin.forget(forget(dry_run)).await.unwrap().into_inner();
        assert_eq!(forgotten.scopes.iter().map(|scope| scope.floors).collect::<Vec<_>>(), [1], "{dry_run}");
    }
    // After a refusal calls are paced: it waits for the next slot, and not for ten minutes.
    let next = limiter.acquire(ask("c", "m")).await.unwrap().into_inner();
    assert!(length(queued(&next).estimated_wait.as_ref()) < Span::from_secs(1), "{next:?}");
    assert_eq!(admin.forget(forget(false)).await.unwrap().into_inner().scopes, [], "there is nothing left");
}

#[tokio::test]
async fn what_is_wrong_is_said_and_changes_nothing() {
    let service = Service::start_with(CONFIG).await;
    let mut admin = service.admin().await;
    let not_found = |status: Status| {
        assert_eq!(status.code(), Code::NotFound, "{status:?}");
        status.message().to_owned()
    };
    let unseen = not_found(admin.pause(pause(acme(), 60)).await.unwrap_err());
    assert!(
        unseen.contains("nothing live is touched by acme/prod; no scope is live") && unseen.contains("--even-if-unseen"),
        "{unseen}"
    );
    granted(&service.limiter().await.acquire(ask("a", "m")).await.unwrap().into_inner());
    let selector =
        |provider: &str, account: &str| Selector { provider: provider.into(), account: account.into(), ..Selector::default() };
    let unknown = not_found(admin.pause(pause(selector("opnai", ""), 60)).await.unwrap_err());
    assert!(unknown.contains("unknown provider `opnai`") && unknown.contains("openai"), "{unknown}");
    let account = admin.pause(pause(selector("acme", "prdo"), 60)).await.unwrap_err();
    assert!(account.message().contains("prod"), "{account:?}");
    let elsewhere = not_found(admin.pause(pause(selector("openai", ""), 60)).await.unwrap_err());
    assert!(elsewhere.contains("live are acme/prod"), "{elsewhere}");
    let bucket = not_found(admin.set_limit(limit(acme(), "tokens_hour", 1, Some(60))).await.unwrap_err());
    assert!(bucket.contains("has no bucket `tokens_hour`") && bucket.contains("requests"), "{bucket}");
    let held = not_found(admin.set_limit(limit(acme(), "requests", 1, None)).await.unwrap_err());
    assert!(held.contains("requests=1/min"), "{held}");
    let nothing = not_found(admin.resume(end(acme())).await.unwrap_err());
    assert_eq!(nothing, "no pause lies within acme/prod: none is in force");
    let nobody = admin.pause(PauseRequest { selector: None, said: said(60) }).await.unwrap_err();
    assert_eq!(fields(&nobody).into_keys().collect::<Vec<_>>(), ["selector"]);
    let no_reason = PauseRequest { selector: Some(acme()), said: Some(Said { who: "ada".into(), ..Said::default() }) };
    assert!(admin.pause(no_reason).await.unwrap_err().message().contains("a reason is needed"));
    let mut trial = pause(acme(), 60);
    trial.said.as_mut().unwrap().dry_run = true;
    let would = admin.pause(trial).await.unwrap().into_inner();
    assert_eq!(
        (would.control.map(|control| control.id), would.touched.map(|touched| touched.scopes.len())),
        (Some(0), Some(1))
    );
    assert_eq!(controls(&mut admin).await, [], "nothing was changed");

    admin.pause(pause(acme(), 60)).await.unwrap();
    let again = admin.pause(pause(acme(), 120)).await.unwrap().into_inner();
    assert_eq!((again.ended.len(), controls(&mut admin).await.len()), (1, 1), "the later one takes its place");
    let narrower = not_found(admin.resume(end(batch())).await.unwrap_err());
    assert_eq!(narrower, "no pause lies within acme/prod, batch; in force: 2 (acme/prod)");
    let by_number = EndControlsRequest { id: 2, ..EndControlsRequest::default() };
    assert_eq!(admin.resume(by_number).await.unwrap().into_inner().ended.len(), 1);
}

/// A pause does not touch who is only watched, and tells what it would have done.
#[tokio::test]
async fn shadow_calls_go_and_are_told_what_would_have_been() {
    let config = CONFIG.replace("      prod:\n", "      prod:\n        mode: shadow\n");
    let service = Service::start_with(&config).await;
    let mut limiter = service.limiter().await;
    granted(&limiter.acquire(ask("first", "m")).await.unwrap().into_inner());
    service.admin().await.pause(pause(acme(), 60)).await.unwrap();
    let patient = limiter.acquire(ask("patient", "m")).await.unwrap().into_inner();
    assert_eq!(granted(&patient).wait, Some(secs(0)));
    let hasty = AcquireRequest { max_wait: Some(secs(20)), ..ask("hasty", "m") };
    granted(&limiter.acquire(hasty).await.unwrap().into_inner());
    let watched = service.scope().await.watched.expect("they were watched");
    assert_eq!((watched.asks, watched.would_wait, watched.would_deny), (3, 1, 1), "{watched:?}");
}
