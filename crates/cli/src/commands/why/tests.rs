//! What is said of a call in each state.

use paceline_proto::v1::{
    CallLife, CallState, Delay, Outcome, Priority, Reason, Source, Target, Verdict, WhyRequest, WhyResponse,
};
use prost_types::Duration;

use super::{json, people, unknown};

fn secs(seconds: i64) -> Option<Duration> {
    Some(Duration { seconds, nanos: 0 })
}

fn call(state: CallState) -> CallLife {
    CallLife {
        request_id: "summarize-8231".into(),
        attempt: 1,
        tenant: "web".into(),
        identity: "ci".into(),
        target: Some(Target { provider: "openai".into(), account: "prod".into(), model: "gpt-4o".into() }),
        priority: Priority::Batch.into(),
        state: state.into(),
        known_age: secs(4),
        asked_age: secs(9),
        waited: secs(5),
        delays: vec![
            Delay { source: Source::FairShare.into(), duration: secs(2), ..Delay::default() },
            Delay { source: Source::Bucket.into(), duration: secs(3), bucket: "requests".into(), binding: true, free_in: None },
            Delay {
                source: Source::Bucket.into(),
                duration: secs(0),
                bucket: "tokens".into(),
                binding: false,
                free_in: secs(7),
            },
        ],
        ..CallLife::default()
    }
}

fn said(life: CallLife) -> String {
    people::told(&WhyResponse { lives: vec![life], silent_replicas: 0 })
}

#[test]
fn a_waiting_call_says_for_what_behind_whom_and_how_long() {
    let waiting = CallLife { ahead: 12, expected: secs(6), denied_in: secs(60), ..call(CallState::Waiting) };
    let expected = "\
call       summarize-8231 (attempt 1)
to         openai/prod gpt-4o, batch
asked      9 s ago by ci for tenant web
now        waits for the bucket to refill (requests), behind 12 calls in its lane
           expected in about 6 s; denied at the latest in 1 min
waited     5 s so far:
           2 s for calls before it in another lane
           3 s for the bucket to refill (requests)  <- this one governs
else       the bucket to refill (tokens) would have held it up, for 7 s from its first look
";
    assert_eq!(said(waiting), expected);
}

#[test]
fn every_state_is_a_sentence() {
    let away = CallLife { back_in: secs(3), expected: secs(20), ahead: 1, ..call(CallState::Away) };
    let late = CallLife { back_in: secs(-8), ..call(CallState::Away) };
    let running = CallLife { sent: true, lease_ends_in: secs(50), ..call(CallState::Granted) };
    let soon = CallLife { send_in: secs(2), lease_ends_in: secs(50), ..call(CallState::Granted) };
    let expired = CallLife { lease_ends_in: secs(-30), ..call(CallState::Expired) };
    let refused = CallLife {
        outcome: Outcome::Response.into(),
        status: 429,
        verdict: Verdict::Retry.into(),
        signal_source: Source::RetryAfterSeconds.into(),
        honored: secs(20),
        ..call(CallState::Settled)
    };
    let given_up = CallLife {
        outcome: Outcome::Timeout.into(),
        verdict: Verdict::GiveUp.into(),
        reason: Reason::NotRetryable.into(),
        ..call(CallState::Settled)
    };
    let denied = CallLife {
        reason: Reason::OverHonorCap.into(),
        detail: "the provider asks for 2 min".into(),
        retry_after: secs(120),
        ..call(CallState::Denied)
    };
    let cases = [
        (away, "away with a ticket since 4 s ago; waited for the bucket to refill (requests), behind 1 call in its lane"),
        (late, "it was to come back 8 s ago: its worker is late"),
        (running.clone(), "granted 4 s ago, sent and running"),
        (running, "its lease ends in 50 s without a report"),
        (soon, "to be sent in 2 s"),
        (expired, "its lease ended 30 s ago without a final report"),
        (refused.clone(), "answered 4 s ago with status 429; told to ask for the next attempt"),
        (refused, "taught     nothing is sent for 20 s after it (retry after seconds)"),
        (given_up, "without an answer in time; told to give up: not retryable"),
        (denied.clone(), "denied 4 s ago: over honor cap"),
        (denied, "the provider asks for 2 min; asking again could work 2 min after that"),
        (call(CallState::GivenBack), "its slot was given back"),
        (CallLife { state: 99, ..call(CallState::Denied) }, "newer release"),
    ];
    for (life, words) in cases {
        let text = said(life);
        assert!(text.contains(words), "{words}: {text}");
        assert!(text.lines().count() <= 12, "{text}");
    }
}

#[test]
fn a_token_that_nobody_remembers_tells_its_own_story() {
    let ticket =
        CallLife { request_id: String::new(), attempt: 0, from_token: true, delays: Vec::new(), ..call(CallState::Away) };
    let text = said(ticket);
    for words in ["a ticket, which does not hold", "attempt not known", "for what is not remembered", "from the token alone"] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn earlier_attempts_are_a_line_each_and_names_cannot_write_to_the_terminal() {
    let evil = CallLife { attempt: 9, request_id: "\u{1b}[2J".into(), ..call(CallState::Waiting) };
    let earlier = (1..9).rev().map(|attempt| CallLife { attempt, ..call(CallState::Settled) });
    let told = WhyResponse { lives: std::iter::once(evil).chain(earlier).collect(), silent_replicas: 2 };
    let text = people::told(&told);
    assert!(text.contains("before     attempt 8: ended") && text.contains("and 3 more"), "{text}");
    assert!(text.contains("2 replicas did not answer") && !text.contains('\u{1b}'), "{text}");
    let value = json::told(&told);
    assert_eq!((value["lives"].as_array().map(Vec::len), &value["silent_replicas"]), (Some(9), &2.into()));
    assert_eq!((&value["lives"][0]["state"], &value["lives"][0]["delays"][1]["source"]), (&"waiting".into(), &"bucket".into()));
}

#[test]
fn who_is_unknown_is_told_what_that_can_mean() {
    let asked = WhyRequest { call: "x".repeat(400), attempt: 2, tenant: String::new() };
    let text = unknown(&asked, &WhyResponse { lives: Vec::new(), silent_replicas: 1 }, "here:7070");
    for words in ["never have been asked for", "the last 10,000 calls", "another service", "without --attempt", "1 replica did"]
    {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(text.contains("xxx...`") && text.len() < 500, "{text}");
}
