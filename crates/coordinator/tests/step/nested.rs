//! Calls within calls: layers that all retry do not multiply their attempts.

use paceline_coordinator::api::{AcquireRequest, Answer};
use paceline_coordinator::scope::Reply;
use paceline_core::denial::Reason;
use paceline_core::retry::Verdict;
use paceline_core::units::Span;

use crate::support::{Look, World, answered, ask, back, limits, next, reported};

fn world(seed: u64) -> World {
    World::new(limits("limits: {requests: 6000/min}"), seed)
}

fn within(parent: &str, request_id: &str) -> AcquireRequest {
    AcquireRequest { parent: parent.to_owned(), ..ask(request_id) }
}

/// Asks at a replica until it is decided.
fn decided(world: &mut World, replica: usize, request: &AcquireRequest) -> Answer {
    let mut id = world.ask_at(replica, request.clone()).unwrap();
    for _ in 0..100 {
        world.pass(Span::from_secs(1));
        match world.replied(id) {
            Some(Reply::Answer(Ok(Answer::Queued(queued)))) => {
                let again = back(request, &queued.clone(), Span::from_secs(30));
                id = world.ask_at(replica, again).unwrap();
            }
            Some(reply) => return reply.answer().clone(),
            None => {}
        }
    }
    panic!("{} was never decided", request.request_id);
}

/// One layer: a call that is sent up to five times, each of which the provider refuses; how often it was sent, and what ended it.
fn layer(world: &mut World, request: &AcquireRequest) -> (u32, Option<Reason>) {
    let mut sent = 0;
    let mut request = request.clone();
    loop {
        let lease = match decided(world, 0, &request) {
            Answer::Granted(grant) => grant.lease_id.clone(),
            Answer::Denied(denied) => return (sent, Some(denied.denial.reason)),
            Answer::Queued(_) => unreachable!("it was decided"),
        };
        sent += 1;
        let id = world.report(answered(&lease, 429, &[]));
        match reported(world.reply(id)).verdict {
            Some(Verdict::Retry) => request = next(&request, &lease),
            Some(Verdict::GiveUp(reason)) => return (sent, Some(reason)),
            _ => return (sent, None),
        }
    }
}

#[test]
fn three_layers_of_five_are_five_and_not_125() {
    // Only the innermost layer asks; the outer ones start it anew under one parent.
    let mut world = world(1);
    let mut sent = 0;
    for outer in 0..5 {
        for middle in 0..5 {
            sent += layer(&mut world, &within("job", &format!("{outer}/{middle}"))).0;
        }
    }
    assert_eq!(sent, 5);
    let Answer::Denied(denied) = decided(&mut world, 1, &within("job", "again")) else { panic!("it was sent") };
    assert_eq!((denied.denial.reason, denied.denial.retry_after), (Reason::AttemptsExhausted, None));
    assert!(denied.denial.detail.contains("parent call \"job\""), "{}", denied.denial.detail);
}

#[test]
fn layers_that_all_ask_count_in_every_layer_above() {
    let mut world = world(2);
    let Answer::Granted(outer) = decided(&mut world, 0, &ask("outer")) else { panic!("denied") };
    let Answer::Granted(_) = decided(&mut world, 0, &within("outer", "middle")) else { panic!("denied") };
    assert_eq!(layer(&mut world, &within("middle", "inner")), (5, Some(Reason::AttemptsExhausted)));
    // Whoever is next in line is not sent: another inner call, another middle one, and the outer one's next attempt.
    for request in [within("middle", "inner two"), within("outer", "middle two"), next(&ask("outer"), &outer.lease_id)] {
        let Answer::Denied(denied) = decided(&mut world, 0, &request) else { panic!("{request:?}") };
        assert_eq!(denied.denial.reason, Reason::AttemptsExhausted, "{}", request.request_id);
    }
    // Also a call of a middle one that began afterwards would have inherited it.
    let Answer::Granted(_) = decided(&mut world, 0, &ask("elsewhere")) else { panic!("denied") };
}

#[test]
fn the_verdict_ends_a_call_when_its_layers_have_used_up_the_attempts() {
    let mut world = world(3);
    assert_eq!(
        layer(&mut world, &AcquireRequest { class: paceline_core::plan::Class::Interactive, ..within("job", "a") }).0,
        3
    );
    assert_eq!(layer(&mut world, &within("job", "b")), (2, Some(Reason::AttemptsExhausted)), "five in all for a normal call");
}

#[test]
fn a_success_ends_the_row_and_many_calls_of_one_parent_are_no_retries() {
    let mut world = world(4);
    for call in 0..40 {
        let Answer::Granted(grant) = decided(&mut world, 0, &within("agent", &call.to_string())) else { panic!("{call}") };
        // Every fifth fails, and is not tried again.
        let status = if call % 5 == 4 { 400 } else { 200 };
        world.report(answered(&grant.lease_id, status, &[]));
    }
}

#[test]
fn a_repeated_report_counts_once_and_a_refused_commit_too() {
    let mut world = world(5);
    for call in 0..4 {
        let Answer::Granted(grant) = decided(&mut world, 0, &within("job", &call.to_string())) else { panic!("{call}") };
        world.refuse = 2;
        world.report(answered(&grant.lease_id, 429, &[]));
        world.report(answered(&grant.lease_id, 429, &[]));
        world.report_at(1, answered(&grant.lease_id, 429, &[])).unwrap();
    }
    let Answer::Granted(_) = decided(&mut world, 1, &within("job", "fifth")) else { panic!("four have failed, not more") };
}

#[test]
fn others_calls_of_the_same_name_are_another_family() {
    let mut world = world(6);
    assert_eq!(layer(&mut world, &within("job", "a")).0, 5);
    let other = AcquireRequest { tenant: "other".into(), ..within("job", "a") };
    let Answer::Granted(_) = decided(&mut world, 0, &other) else { panic!("tenants do not share names") };
    // One that names itself is its own call, not a nested one.
    let Answer::Granted(_) = decided(&mut world, 0, &within("b", "b")) else { panic!("denied") };
}
