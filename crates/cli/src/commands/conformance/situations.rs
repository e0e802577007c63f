//! The situations that a worker is led through. Data only.

use std::time::Duration;

use paceline_proto::v1::{Mode, NotApplied, Reason, Verdict};

use super::script::{AMPLE, Act, Ends, LONG_TTL, Need, Reply, Say, Situation, Tell, ms};

/// The service is away for so long where the situation is about that: not long enough to go on without it.
const AWAY: Duration = ms(1_200);
/// A word that no service has yet.
pub(super) const NEWER: i32 = 99;

/// All situations, in the order in which jobs are handed out; with those that need a process that the kit has started.
pub(super) fn situations() -> Vec<Situation> {
    let mut all = asking();
    all.extend(denials());
    all.extend(reporting());
    all.extend(unapplied());
    all.extend(refusals());
    all.extend(errors());
    all.extend(leaving());
    all.extend(accidents());
    all
}

/// A caller that leaves before its call is sent.
fn leaving() -> Vec<Situation> {
    let leaves = |id, title, asks| Situation {
        leaves_after: Some(ms(1_000)),
        ..Situation::new(id, title, asks).needs(vec![Need::Asks(1)]).ends(Ends::Left)
    };
    let at_once = Say::grant(Duration::ZERO);
    vec![
        leaves(
            "leave-line",
            "a caller that leaves while it waits in line",
            vec![Say::Queue { come_back_in: ms(3_000) }, at_once],
        ),
        leaves("leave-slot", "a caller that leaves before its slot is due", vec![Say::grant(ms(3_000))]),
    ]
}

/// What happens to a process.
fn accidents() -> Vec<Situation> {
    let at_once = || Say::grant(Duration::ZERO);
    let short = Say::Grant { after: Duration::ZERO, wait: ms(1_500), use_within: ms(300), ttl: LONG_TTL, mode: Mode::Enforce };
    let stopped = Situation::new("stopped", "a process that stands still while it waits", vec![short, Say::grant(ms(100))]);
    let killed = Situation::new("killed", "a process that is killed in the middle of a call", vec![at_once()])
        .replies(vec![Reply::Answer { after: ms(5_000), status: 200, retry_after: None }])
        .ends(Ends::Killed);
    vec![
        Situation { act: Some(Act::StandStill { after: ms(1_000), length: ms(4_000) }), ..stopped }
            .needs(vec![Need::Asks(2), Need::Calls(1)]),
        Situation { act: Some(Act::Kill), ..killed },
        Situation::new("after", "the first call of the next process", vec![at_once()]),
    ]
}

/// Asking and sending.
fn asking() -> Vec<Situation> {
    let at_once = || Say::grant(Duration::ZERO);
    vec![
        Situation::new("plain", "a grant at once", vec![at_once()]),
        Situation::new("wait", "a grant after a second", vec![Say::grant(ms(1_000))]),
        Situation::new(
            "late",
            "a grant that is over when the worker wakes",
            vec![
                Say::Grant {
                    after: Duration::ZERO,
                    wait: ms(200),
                    use_within: Duration::ZERO,
                    ttl: LONG_TTL,
                    mode: Mode::Enforce,
                },
                Say::grant(ms(100)),
            ],
        )
        .needs(vec![Need::Asks(2), Need::Calls(1)]),
        Situation::new(
            "queued",
            "in line twice, then a grant",
            vec![Say::Queue { come_back_in: ms(700) }, Say::Queue { come_back_in: ms(300) }, at_once()],
        )
        .needs(vec![Need::Asks(2), Need::Calls(1)]),
        Situation::new(
            "held",
            "an answer that is held for a second",
            vec![Say::Grant { after: ms(1_000), wait: ms(100), use_within: AMPLE, ttl: LONG_TTL, mode: Mode::Enforce }],
        ),
        Situation::new("away", "a replica that answers UNAVAILABLE, then works", vec![Say::Unavailable, at_once()])
            .needs(vec![Need::Asks(2), Need::Calls(1)]),
        Situation::new("away-long", "a service that is away for a second", vec![Say::Away { lasts: AWAY }, at_once()])
            .needs(vec![Need::Asks(2), Need::Calls(1)]),
        Situation { account: "kit-2", ..Situation::new("account", "another account of the provider", vec![at_once()]) },
        Situation {
            has_every_word: true,
            ..Situation::new("words", "answers with every word there is, and newer ones", vec![at_once()])
        },
        Situation::new("shadow", "a service that only watches", vec![not_enforced(Mode::Shadow)]),
        Situation::new("off", "a service that is switched off", vec![not_enforced(Mode::Off)]),
    ]
}

/// A grant at once of a service that makes nobody wait.
const fn not_enforced(mode: Mode) -> Say {
    Say::Grant { after: Duration::ZERO, wait: Duration::ZERO, use_within: AMPLE, ttl: LONG_TTL, mode }
}

/// A denial for each reason, and for one that only a newer service has.
fn denials() -> Vec<Situation> {
    let known = |reason: Reason, is_for_ever, id, title| (i32::from(reason), is_for_ever, id, title);
    let all = [
        known(Reason::Deadline, false, "denied", "a denial"),
        known(Reason::OverHonorCap, false, "denied-honor-cap", "a denial: the provider's floor is too long"),
        known(Reason::CostExceedsCapacity, true, "denied-cost", "a denial for ever: it never fits"),
        known(Reason::QueueFull, false, "denied-queue-full", "a denial: too many wait"),
        known(Reason::RetryBudget, false, "denied-budget", "a denial: too many retries"),
        known(Reason::AttemptsExhausted, true, "denied-attempts", "a denial for ever: sent often enough"),
        known(Reason::NotRetryable, true, "denied-retry", "a denial for ever: not to be sent again"),
        known(Reason::CrossProvider, true, "denied-provider", "a denial for ever: it may have run elsewhere"),
        known(Reason::QuotaExhausted, false, "denied-quota", "a denial: the quota is used up"),
        known(Reason::Paused, false, "denied-paused", "a denial: a person paused it"),
        known(Reason::StoreUnavailable, false, "denied-store", "a denial: the store is away"),
        (NEWER, true, "denied-newer", "a denial for a reason that nobody knows yet"),
    ];
    let denial = |(reason, is_for_ever, id, title)| {
        let says = vec![Say::Deny { reason, is_for_ever }];
        Situation::new(id, title, says).needs(vec![Need::Asks(1)]).ends(Ends::Denied)
    };
    all.into_iter().map(denial).collect()
}

/// Reports that change nothing: the lease is not there any more, or the report was there before.
fn unapplied() -> Vec<Situation> {
    let at_once = || Say::grant(Duration::ZERO);
    let not = |why, verdict| Tell::NotApplied { why, verdict };
    let lost = || not(NotApplied::LeaseUnknown, Verdict::Unspecified);
    let no_answer = || Tell::Unavailable { after: ms(300) };
    vec![
        Situation::new("report-late", "a report for a lease that the service lost", vec![at_once()]).reports(vec![lost()]),
        Situation::new("report-expired", "a report after the lease's end", vec![at_once()])
            .reports(vec![not(NotApplied::LeaseExpired, Verdict::Done)]),
        Situation::new("report-settled", "a report for a lease that is settled", vec![at_once()])
            .reports(vec![not(NotApplied::LeaseSettled, Verdict::Done)]),
        Situation::new("report-repeated", "a report that had arrived, and its answer had not", vec![at_once()])
            .reports(vec![no_answer(), not(NotApplied::Repeated, Verdict::Done)])
            .needs(vec![Need::Calls(1), Need::RepeatedReport]),
        Situation::new(
            "refused-repeated",
            "the same with a 429 that is to be sent again",
            vec![at_once(), Say::grant(ms(100))],
        )
        .replies(vec![Reply::REFUSAL, Reply::OK])
        .reports(vec![no_answer(), not(NotApplied::Repeated, Verdict::Retry)])
        .needs(vec![Need::Calls(2), Need::Asks(2), Need::RepeatedReport]),
        Situation::new("refused-lost", "a 429, and the lease was lost: nobody judges it", vec![at_once(), Say::grant(ms(100))])
            .replies(vec![Reply::REFUSAL, Reply::OK])
            .reports(vec![lost()])
            .ends(Ends::Either(429)),
        Situation::new("failed-lost", "a 500, and the lease was lost: it may have run", vec![at_once()])
            .replies(vec![Reply::error(500)])
            .reports(vec![lost()])
            .ends(Ends::Answered(500)),
    ]
}

/// Reporting what was answered.
fn reporting() -> Vec<Situation> {
    let at_once = || Say::grant(Duration::ZERO);
    let quick = |verdict| Tell::Verdict { after: Duration::ZERO, verdict, next: None };
    let unreachable = Situation {
        is_unreachable: true,
        ..Situation::new("unreachable", "a provider that nobody reaches", vec![at_once()])
            .reports(vec![quick(Verdict::GiveUp)])
            .needs(vec![Need::Asks(1), Need::NeverSent])
            .ends(Ends::Failed)
    };
    let stream = |id, title, is_cut| Situation {
        is_stream: true,
        ..Situation::new(id, title, vec![at_once()])
            .replies(vec![Reply::Stream { rest_after: ms(900), is_cut }])
            // Answered after the stream has ended: whoever does not wait for that overtakes it. And before a worker's patience ends.
            .reports(vec![Tell::Verdict { after: ms(1_600), verdict: Verdict::Unspecified, next: None }])
    };
    vec![
        Situation::new("report-again", "a report that nobody answers", vec![at_once()])
            .reports(vec![Tell::Unavailable { after: ms(800) }])
            .needs(vec![Need::Calls(1), Need::RepeatedReport]),
        Situation::new("report-away", "a service that is away for a second when it is reported to", vec![at_once()])
            .reports(vec![Tell::Away { lasts: AWAY }])
            .needs(vec![Need::Calls(1), Need::RepeatedReport]),
        stream("stream", "a stream", false).needs(vec![Need::Calls(1), Need::TwoReports]),
        stream("stream-cut", "a stream that breaks off", true).ends(Ends::Failed),
        Situation::new(
            "long",
            "a call that runs longer than its lease",
            vec![Say::Grant {
                after: Duration::ZERO,
                wait: Duration::ZERO,
                use_within: AMPLE,
                ttl: ms(1_000),
                mode: Mode::Enforce,
            }],
        )
        .replies(vec![Reply::Answer { after: ms(3_000), status: 200, retry_after: None }])
        .needs(vec![Need::Calls(1), Need::Running]),
        unreachable,
    ]
}

/// What follows a refusal of the provider.
fn refusals() -> Vec<Situation> {
    let at_once = || Say::grant(Duration::ZERO);
    let verdict = |verdict, next| Tell::Verdict { after: Duration::ZERO, verdict, next };
    vec![
        Situation::new("retry", "a 429, and the next slot with the report's answer", vec![at_once()])
            .replies(vec![Reply::REFUSAL, Reply::OK])
            .reports(vec![verdict(Verdict::Retry, Some(ms(300)))])
            .needs(vec![Need::Calls(2)]),
        Situation::new("retry-ask", "a 429, and the next slot to be asked for", vec![at_once(), Say::grant(ms(100))])
            .replies(vec![Reply::REFUSAL, Reply::OK])
            .reports(vec![verdict(Verdict::Retry, None)])
            .needs(vec![Need::Calls(2), Need::Asks(2)]),
        Situation::new("fail-over", "a 429, and the next slot is elsewhere", vec![at_once()])
            .replies(vec![Reply::REFUSAL, Reply::OK])
            .reports(vec![verdict(Verdict::FailOver, Some(ms(300)))])
            .needs(vec![Need::Calls(2)]),
        Situation::new("overloaded", "a 503, and the next slot with the report's answer", vec![at_once()])
            .replies(vec![Reply::error(503), Reply::OK])
            .reports(vec![verdict(Verdict::Retry, Some(ms(300)))])
            .needs(vec![Need::Calls(2)]),
    ]
}

/// Errors that are given up: their caller gets them.
fn errors() -> Vec<Situation> {
    let given_up = |id, title, reply, status| {
        let gives_up = Tell::Verdict { after: Duration::ZERO, verdict: Verdict::GiveUp, next: None };
        let situation = Situation::new(id, title, vec![Say::grant(Duration::ZERO)]);
        situation.replies(vec![reply]).reports(vec![gives_up]).ends(Ends::Answered(status))
    };
    let error = |id, title, status| given_up(id, title, Reply::error(status), status);
    vec![
        given_up("give-up", "a 429, and the call is given up", Reply::REFUSAL, 429),
        error("rejected", "a 400: the call is wrong", 400),
        error("quota", "a 402: billing", 402),
        error("impossible", "a 413: it never fits", 413),
        error("broken", "a 500, and the call is given up", 500),
    ]
}

#[cfg(test)]
mod tests;
