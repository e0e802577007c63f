//! The attempts of one call: how many, how long in all, and what one knows of the one before.

use paceline_coordinator::api::{AcquireRequest, CallError, ReportRequest};
use paceline_core::denial::Reason;
use paceline_core::plan::Class;
use paceline_core::report::Outcome;
use paceline_core::retry::Verdict;
use paceline_core::signal::Source;
use paceline_core::units::Span;

use crate::support::{Look, World, answered, ask, back, limits, never_twice, next, report, reported, settings, with_retry};

fn secs(secs: i64) -> Span {
    Span::from_secs(secs)
}

/// Asks until it is granted; the lease.
fn granted(world: &mut World, request: &AcquireRequest) -> String {
    let mut id = world.ask(request.clone());
    for _ in 0..100 {
        world.pass(secs(1));
        match world.replied(id).map(Look::answer) {
            Some(paceline_coordinator::api::Answer::Granted(grant)) => return grant.lease_id.clone(),
            Some(paceline_coordinator::api::Answer::Queued(queued)) => {
                let queued = (**queued).clone();
                id = world.ask(back(request, &queued, secs(30)));
            }
            Some(paceline_coordinator::api::Answer::Denied(denied)) => panic!("{denied:?}"),
            None => {}
        }
    }
    panic!("{} was never granted", request.request_id);
}

#[test]
fn a_call_is_sent_as_often_as_its_class_allows() {
    for (class, attempts) in [(Class::Interactive, 3), (Class::Normal, 5), (Class::Batch, 8)] {
        let mut world = World::new(limits("limits: {requests: 600/min}"), 1);
        let mut request = AcquireRequest { class, max_wait: Some(secs(100_000)), ..ask("A") };
        for attempt in 1..=attempts {
            let lease = granted(&mut world, &request);
            let id = world.report(answered(&lease, 429, &[]));
            let last = Verdict::GiveUp(Reason::AttemptsExhausted);
            let expected = if attempt < attempts { Verdict::Retry } else { last };
            assert_eq!(reported(world.reply(id)).verdict, Some(expected), "{class:?}, attempt {attempt}");
            request = next(&request, &lease);
        }
        let id = world.ask(request);
        assert_eq!(world.reply(id).reason(), Reason::AttemptsExhausted);
    }
}

#[test]
fn what_may_have_been_paid_for_is_sent_twice_at_most() {
    let mut world = World::new(limits("limits: {requests: 600/min}"), 2);
    let first = granted(&mut world, &ask("A"));
    let id = world.report(report(&first, 1, Outcome::Timeout));
    assert_eq!(reported(world.reply(id)).verdict, Some(Verdict::Retry));
    // A free refusal in between changes nothing.
    let request = next(&ask("A"), &first);
    let second = granted(&mut world, &request);
    let id = world.report(answered(&second, 429, &[]));
    assert_eq!(reported(world.reply(id)).verdict, Some(Verdict::Retry));
    let request = next(&request, &second);
    let third = granted(&mut world, &request);
    let id = world.report(answered(&third, 500, &[]));
    assert_eq!(reported(world.reply(id)).verdict, Some(Verdict::GiveUp(Reason::AttemptsExhausted)));
    // Whoever asks all the same hears the same, on any replica.
    for replica in [0, 1] {
        let id = world.ask_at(replica, next(&request, &third)).unwrap();
        assert_eq!(world.reply(id).reason(), Reason::AttemptsExhausted);
        assert_eq!(world.reply(id).denied().denial.retry_after, None);
    }
}

#[test]
fn what_must_not_run_twice_is_not_sent_twice() {
    let mut world = World::new(limits("limits: {requests: 600/min}"), 3);
    let lease = granted(&mut world, &never_twice("A"));
    let id = world.report(with_retry(report(&lease, 1, Outcome::Timeout)));
    let answer = reported(world.reply(id));
    assert_eq!((answer.verdict, answer.next.is_none()), (Some(Verdict::GiveUp(Reason::NotRetryable)), true));
    let lease = granted(&mut world, &never_twice("B"));
    let id = world.report(answered(&lease, 429, &[]));
    assert_eq!(reported(world.reply(id)).verdict, Some(Verdict::Retry), "a refusal did not run");
}

#[test]
fn waits_add_up_over_the_attempts() {
    let mut world = World::new(limits("limits: {requests: 600/min}"), 4);
    let request = AcquireRequest { max_wait: Some(secs(15)), ..ask("A") };
    let mut call = request.clone();
    for attempt in 1..=4 {
        let lease = granted(&mut world, &call);
        let id = world.report(answered(&lease, 429, &[("retry-after", "4")]));
        let verdict = reported(world.reply(id)).verdict;
        if attempt <= 2 {
            assert_eq!(verdict, Some(Verdict::Retry), "attempt {attempt}");
        } else if verdict != Some(Verdict::Retry) {
            // 4 s and jitter of at most as much again each: the third or fourth would be too long.
            assert_eq!(verdict, Some(Verdict::GiveUp(Reason::Deadline)));
            let id = world.ask(next(&call, &lease));
            assert_eq!(world.reply(id).reason(), Reason::Deadline, "and it is so");
            return;
        }
        call = next(&call, &lease);
    }
    panic!("sixteen seconds fit into fifteen");
}

#[test]
fn the_time_at_the_provider_does_not_count_as_waiting() {
    let mut world = World::new(limits("limits: {requests: 600/min}"), 5);
    let request = AcquireRequest { max_wait: Some(secs(5)), run_time: Some(secs(600)), ..ask("A") };
    let lease = granted(&mut world, &request);
    world.pass(secs(300));
    let id = world.report(with_retry(answered(&lease, 429, &[("retry-after", "1")])));
    world.pass(secs(1));
    assert_eq!(reported(world.reply(id)).verdict, Some(Verdict::Retry));
}

#[test]
fn a_deadline_spans_the_attempts() {
    let mut world = World::new(limits("limits: {requests: 600/min}"), 6);
    let request = AcquireRequest { deadline: Some(secs(30)), run_time: Some(secs(60)), ..ask("A") };
    let lease = granted(&mut world, &request);
    world.pass(secs(27));
    let id = world.report(answered(&lease, 429, &[("retry-after", "5")]));
    assert_eq!(reported(world.reply(id)).verdict, Some(Verdict::GiveUp(Reason::Deadline)));
    let id = world.ask(AcquireRequest { deadline: None, ..next(&request, &lease) });
    assert_eq!(world.reply(id).reason(), Reason::Deadline, "the lease carries it");
}

#[test]
fn a_retry_asked_for_in_the_report_is_answered_in_it() {
    // Granted there, because the backoff is shorter than the second it is held.
    for seed in 0..20 {
        let mut world = World::new(limits("limits: {requests: 600/min}"), seed);
        let lease = granted(&mut world, &ask("A"));
        let id = world.report(with_retry(answered(&lease, 429, &[])));
        assert!(world.replied(id).is_none(), "held like a first ask");
        world.pass(secs(1));
        let answer = reported(world.reply(id));
        assert_eq!((answer.not_applied, answer.verdict), (None, Some(Verdict::Retry)));
        let second = answer.next.as_ref().expect("an answer").grant().clone();
        let backoff: Span = second
            .delays
            .iter()
            .filter(|part| part.cause.source == Source::Backoff)
            .map(|part| part.length)
            .fold(Span::ZERO, |a, b| a + b);
        assert!(backoff >= Span::from_millis(250), "{:?}", second.delays);
        // The key of attempt two is taken now: asking again gives the same lease.
        let again = world.ask(next(&ask("A"), &lease));
        assert_eq!(world.reply(again).grant().lease_id, second.lease_id);
    }
}

#[test]
fn a_retry_whose_slot_was_granted_before_is_told_it_in_the_report() {
    let mut world = World::new(limits("limits: {requests: 600/min}"), 7);
    let first = granted(&mut world, &ask("A"));
    // The worker asked for attempt two by itself, and reports late.
    let second = world.ask(next(&ask("A"), &first));
    let lease = world.reply(second).grant().lease_id.clone();
    let id = world.report(with_retry(answered(&first, 429, &[])));
    assert_eq!(reported(world.reply(id)).next.as_ref().map(|next| next.grant().lease_id.clone()), Some(lease.clone()));
    // Also when attempt two is over by then: the report was taken, there is just no slot.
    let other = granted(&mut world, &ask("B"));
    let second = granted(&mut world, &next(&ask("B"), &other));
    world.report(answered(&second, 200, &[]));
    let id = world.report(with_retry(answered(&other, 429, &[])));
    let answer = reported(world.reply(id));
    assert_eq!((answer.not_applied, answer.next.is_none()), (None, true));
}

#[test]
fn a_retry_that_has_to_wait_long_gets_a_ticket_with_its_history() {
    let mut world = World::new(limits("limits: {requests: 600/min}"), 8);
    let lease = granted(&mut world, &ask("A"));
    let id = world.report(with_retry(answered(&lease, 503, &[("retry-after", "20")])));
    world.pass(secs(2));
    let queued = reported(world.reply(id)).next.as_ref().expect("an answer").queued().clone();
    let request = AcquireRequest { attempt: 2, ..ask("A") };
    let held = world.ask(back(&request, &queued, secs(60)));
    world.pass(secs(60));
    let grant = world.reply(held).grant();
    assert!(paceline_core::delays::total(&grant.delays) >= secs(20), "{:?}", grant.delays);
}

#[test]
fn the_lease_before_belongs_to_the_same_call() {
    let mut world = World::new(limits("limits: {requests: 600/min}"), 9);
    let lease = granted(&mut world, &ask("A"));
    let wrong = world.ask_at(0, next(&ask("B"), &lease)).unwrap_err();
    assert!(matches!(wrong, CallError::Invalid { field: "previous_lease_id", .. }));
    let wrong = world.ask_at(0, AcquireRequest { attempt: 1, ..next(&ask("A"), &lease) }).unwrap_err();
    assert!(matches!(wrong, CallError::Invalid { field: "attempt", .. }));
    let wrong = world.ask_at(0, next(&ask("A"), "bm90IGEgdG9rZW4")).unwrap_err();
    assert!(matches!(wrong, CallError::Invalid { field: "previous_lease_id", .. }));
    let wrong = world.report_at(0, ReportRequest { identity: "someone".into(), ..answered(&lease, 200, &[]) }).unwrap_err();
    assert!(matches!(wrong, CallError::Invalid { field: "lease_id", .. }));
}

#[test]
fn only_the_refused_call_waits_when_its_buckets_show_room() {
    let models = "{m: {limits: {requests: 600/min, tokens: 60000/min}, start_level: full}}";
    let providers = format!("providers: {{acme: {{extends: openai, accounts: {{prod: {{models: {models}}}}}}}}}");
    let mut world = World::new(settings(&providers), 10);
    let lease = granted(&mut world, &ask("A"));
    let room = [
        ("retry-after", "20"),
        ("x-ratelimit-limit-requests", "600"),
        ("x-ratelimit-remaining-requests", "300"),
        ("x-ratelimit-limit-tokens", "60000"),
        ("x-ratelimit-remaining-tokens", "30000"),
    ];
    let id = world.report(with_retry(answered(&lease, 429, &room)));
    let other = world.ask(ask("B"));
    // Bursts are off for a while, so it gets the next paced slot.
    assert!(world.reply(other).grant().wait <= Span::from_millis(100));
    world.pass(secs(1));
    assert_eq!(reported(world.reply(id)).honored, secs(20));
    let queued = reported(world.reply(id)).next.as_ref().expect("an answer").queued().clone();
    assert_eq!(queued.binding.source, Source::RetryAfterSeconds);
    assert!(queued.estimated_wait >= secs(19), "{}", queued.estimated_wait);
}
