//! From the coordinator's answers to messages.

use paceline_coordinator::api::{AcquireRequest, Answer, Grant, NotApplied, Queued, ReportAnswer, Target, Watched};
use paceline_core::delays::{self, Cause, DelayPart, RunnerUp};
use paceline_core::denial::{Denial, Reason};
use paceline_core::lease::Repeat;
use paceline_core::mode::Mode;
use paceline_core::retry::Verdict;
use paceline_core::signal::Source;
use paceline_core::units::Span;
use paceline_proto::convert;
use paceline_proto::v1;
use paceline_proto::v1::acquire_response::Outcome;

/// The answer to an ask; `is_degraded`: it was decided without the store.
pub(super) fn acquire_response(answer: &Answer, is_degraded: bool) -> v1::AcquireResponse {
    let mut mode = Mode::Enforce;
    let mut watched = None;
    let (outcome, delays) = match answer {
        Answer::Granted(granted) => {
            (mode, watched) = (granted.mode, granted.shadow.as_deref());
            let binding = delays::governing(&granted.delays).map(|part| part.cause.clone());
            (Outcome::Grant(grant(granted)), delays_of(&granted.delays, binding.as_ref(), granted.runner_up.as_ref()))
        }
        Answer::Queued(waiting) => {
            let delays = delays_of(&waiting.delays, Some(&waiting.binding), waiting.runner_up.as_ref());
            (Outcome::Queued(queued(waiting)), delays)
        }
        Answer::Denied(denied) => {
            let binding = delays::governing(&denied.delays).map(|part| part.cause.clone());
            (Outcome::Denial(denial(&denied.denial)), delays_of(&denied.delays, binding.as_ref(), None))
        }
    };
    v1::AcquireResponse {
        outcome: Some(outcome),
        delays,
        mode: v1::Mode::from(mode).into(),
        shadow: watched.map(shadow),
        degraded: is_degraded,
    }
}

/// The answer to a report; `has_signal`: there was an answer of the provider to be read; `is_degraded`: what follows it was
/// decided without the store.
pub(super) fn report_response(answer: &ReportAnswer, has_signal: bool, is_degraded: bool) -> v1::ReportResponse {
    let honored = Some(answer.honored).filter(|honored| *honored > Span::ZERO);
    let reason = match answer.verdict {
        Some(Verdict::GiveUp(reason)) => v1::Reason::from(Wire(reason)),
        _ => v1::Reason::Unspecified,
    };
    v1::ReportResponse {
        applied: answer.not_applied.is_none(),
        not_applied: answer.not_applied.map_or(v1::NotApplied::Unspecified, not_applied).into(),
        ttl: Some(answer.ttl).filter(|ttl| *ttl > Span::ZERO).map(convert::duration),
        verdict: answer.verdict.map_or(v1::Verdict::Unspecified, verdict).into(),
        reason: reason.into(),
        signal: has_signal.then(|| convert::signal(&answer.signal, honored)),
        next: answer.next.as_ref().map(|next| acquire_response(next, is_degraded)),
        detail: detail(answer),
    }
}

/// An ask as it is passed on; who asks is told beside it.
pub(super) fn acquire_request(ask: AcquireRequest) -> v1::AcquireRequest {
    v1::AcquireRequest {
        request_id: ask.request_id,
        attempt: ask.attempt,
        target: Some(target(&ask.target)),
        fallbacks: ask.fallbacks.iter().map(target).collect(),
        cost: ask.cost.iter().map(|(meter, units)| (meter.to_owned(), units)).collect(),
        cost_estimated: ask.cost_estimated,
        max_wait: ask.max_wait.map(convert::duration),
        deadline: ask.deadline.map(convert::duration),
        hold: Some(convert::duration(ask.hold)),
        run_time: ask.run_time.map(convert::duration),
        priority: v1::Priority::from(ask.class).into(),
        tenant: ask.tenant,
        labels: ask.labels,
        parent: ask.parent,
        ticket: ask.ticket.unwrap_or_default(),
        previous_lease_id: ask.previous_lease_id.unwrap_or_default(),
        repeat: repeat(ask.repeat).into(),
    }
}

const fn repeat(repeat: Repeat) -> v1::Repeat {
    match repeat {
        Repeat::Unspecified => v1::Repeat::Unspecified,
        Repeat::Safe => v1::Repeat::Safe,
        Repeat::Keyed => v1::Repeat::Keyed,
        Repeat::Never => v1::Repeat::Never,
    }
}

fn grant(grant: &Grant) -> v1::Grant {
    v1::Grant {
        lease_id: grant.lease_id.clone(),
        target: Some(target(&grant.target)),
        wait: Some(convert::duration(grant.wait)),
        use_within: Some(convert::duration(grant.use_within)),
        ttl: Some(convert::duration(grant.ttl)),
        reserved: grant.reserved.clone(),
        estimated: grant.estimated.clone(),
        place_lost: grant.place_lost,
    }
}

fn shadow(watched: &Watched) -> v1::Shadow {
    let binding = delays::governing(&watched.delays).map(|part| part.cause.clone());
    v1::Shadow {
        wait: Some(convert::duration(watched.wait)),
        denial: watched.denial.as_ref().map(denial),
        delays: delays_of(&watched.delays, binding.as_ref(), None),
    }
}

/// A target as a message.
pub(crate) fn target(target: &Target) -> v1::Target {
    v1::Target { provider: target.provider.clone(), account: target.account.clone(), model: target.model.clone() }
}

/// A call that another replica has sent on goes back to it, with its place: it leads by now.
pub(super) fn give_back(ticket: Vec<u8>) -> v1::AcquireResponse {
    let queued = v1::Queued { ticket, come_back_in: Some(convert::duration(Span::ZERO)), ..v1::Queued::default() };
    v1::AcquireResponse { outcome: Some(Outcome::Queued(queued)), ..v1::AcquireResponse::default() }
}

fn queued(queued: &Queued) -> v1::Queued {
    v1::Queued {
        ticket: queued.ticket.clone(),
        come_back_in: Some(convert::duration(queued.come_back_in)),
        estimated_wait: Some(convert::duration(queued.estimated_wait)),
        ahead: queued.ahead,
        place_lost: queued.place_lost,
    }
}

fn denial(denial: &Denial) -> v1::Denial {
    v1::Denial {
        reason: v1::Reason::from(Wire(denial.reason)).into(),
        retry_after: denial.retry_after.map(convert::duration),
        detail: denial.detail.clone(),
    }
}

/// The parts in their order, the binding one marked (added with no length when no time has gone to it yet), then the runner-up.
pub(crate) fn delays_of(parts: &[DelayPart], binding: Option<&Cause>, runner_up: Option<&RunnerUp>) -> Vec<v1::Delay> {
    let delay = |cause: &Cause, length: Span| v1::Delay {
        source: v1::Source::from(cause.source).into(),
        duration: Some(convert::duration(length)),
        bucket: cause.bucket.to_string(),
        binding: binding == Some(cause),
        free_in: None,
    };
    let mut out: Vec<v1::Delay> = parts.iter().map(|part| delay(&part.cause, part.length)).collect();
    if let Some(binding) = binding.filter(|binding| !parts.iter().any(|part| part.cause == **binding)) {
        out.push(delay(binding, Span::ZERO));
    }
    if let Some(runner_up) = runner_up.filter(|runner_up| binding != Some(&runner_up.cause)) {
        let free_in = Some(convert::duration(runner_up.free_in));
        out.push(v1::Delay { free_in, ..delay(&runner_up.cause, Span::ZERO) });
    }
    out
}

/// A verdict as a message.
pub(crate) const fn verdict(verdict: Verdict) -> v1::Verdict {
    match verdict {
        Verdict::Done => v1::Verdict::Done,
        Verdict::Retry => v1::Verdict::Retry,
        Verdict::FailOver => v1::Verdict::FailOver,
        Verdict::GiveUp(_) => v1::Verdict::GiveUp,
    }
}

const fn not_applied(why: NotApplied) -> v1::NotApplied {
    match why {
        NotApplied::LeaseUnknown => v1::NotApplied::LeaseUnknown,
        NotApplied::LeaseExpired => v1::NotApplied::LeaseExpired,
        NotApplied::LeaseSettled => v1::NotApplied::LeaseSettled,
        NotApplied::Repeated => v1::NotApplied::Repeated,
    }
}

/// A reason as a message.
pub(crate) fn reason(reason: Reason) -> v1::Reason {
    Wire(reason).into()
}

/// Neither type is of this crate, so the conversion needs one that is.
struct Wire(Reason);

impl From<Wire> for v1::Reason {
    fn from(Wire(reason): Wire) -> Self {
        match reason {
            Reason::NotRetryable => Self::NotRetryable,
            Reason::AttemptsExhausted => Self::AttemptsExhausted,
            Reason::CrossProvider => Self::CrossProvider,
            Reason::CostExceedsCapacity => Self::CostExceedsCapacity,
            Reason::Paused => Self::Paused,
            Reason::StoreUnavailable => Self::StoreUnavailable,
            Reason::QuotaExhausted => Self::QuotaExhausted,
            Reason::OverHonorCap => Self::OverHonorCap,
            Reason::Deadline => Self::Deadline,
            Reason::RetryBudget => Self::RetryBudget,
            Reason::QueueFull => Self::QueueFull,
        }
    }
}

/// A sentence for a person: what became of the report, and why this verdict.
fn detail(answer: &ReportAnswer) -> String {
    let settled = match answer.not_applied {
        None => "",
        Some(NotApplied::LeaseUnknown) => {
            "nothing was settled: this lease is not known here (the service was restarted, or another one granted it)"
        }
        Some(NotApplied::LeaseExpired) => {
            "nothing was settled: the lease had expired (report more often, or ask with a longer run_time)"
        }
        Some(NotApplied::LeaseSettled) => "nothing was settled: the lease had been settled or released before",
        Some(NotApplied::Repeated) => "nothing was settled: a report with this seq or a higher one came before",
    };
    let next = match answer.verdict {
        None | Some(Verdict::Done) => String::new(),
        Some(Verdict::Retry) => match held_back(answer) {
            Some(why) => format!("ask for the next attempt: {why}"),
            None => "ask for the next attempt".to_owned(),
        },
        Some(Verdict::FailOver) => "ask for the next attempt at another provider".to_owned(),
        Some(Verdict::GiveUp(reason)) => {
            let floor = held_back(answer).map(|why| format!(" ({why})")).unwrap_or_default();
            format!("do not send it again: {}{floor}", given_up(reason))
        }
    };
    [settled, &next].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ")
}

/// How long calls are held back because of this answer, and who says so.
fn held_back(answer: &ReportAnswer) -> Option<String> {
    let honored = Some(answer.honored).filter(|honored| *honored > Span::ZERO)?;
    Some(match answer.honored_source {
        // A wait of zero, or until a date that is over: said, and no use.
        Source::Backoff if answer.signal.retry_after.is_some() => {
            let field = &answer.signal.field;
            format!(
                "nothing is sent for {honored}, our guess, since the wait that the provider names ({field}) is over already"
            )
        }
        Source::Backoff => format!("nothing is sent for {honored}, our guess, since the provider did not say"),
        source if answer.signal.field.is_empty() => {
            format!("nothing is sent for {honored}, as the provider says ({})", source.name())
        }
        _ => format!("nothing is sent for {honored}, as the provider says in {}", answer.signal.field),
    })
}

const fn given_up(reason: Reason) -> &'static str {
    match reason {
        Reason::NotRetryable => "the answer says that it is pointless, or `repeat` forbids it",
        Reason::AttemptsExhausted => "it was sent as often as its class allows",
        Reason::CrossProvider => "it may have run elsewhere",
        Reason::CostExceedsCapacity => "it can never fit",
        Reason::Paused => "a person paused it",
        Reason::StoreUnavailable => "the store is away",
        Reason::QuotaExhausted => "billing or a quota that waiting does not cure",
        Reason::OverHonorCap => "the provider asks for a longer wait than its class allows",
        Reason::Deadline => "the next attempt would come after its deadline or max_wait",
        Reason::RetryBudget => "too large a share of the calls are retries",
        Reason::QueueFull => "too many calls wait already",
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use paceline_core::signal::Signal;

    use super::*;

    fn cause(source: Source, bucket: &str) -> Cause {
        Cause::new(source, &Arc::from(bucket))
    }

    fn secs(delay: &v1::Delay) -> i64 {
        delay.duration.map_or(0, |duration| duration.seconds)
    }

    #[test]
    fn delays_add_up_and_say_which_governs() {
        let parts = [
            DelayPart { cause: cause(Source::Bucket, "tokens"), length: Span::from_secs(12) },
            DelayPart { cause: cause(Source::Jitter, ""), length: Span::from_secs(1) },
        ];
        let runner_up = RunnerUp { cause: cause(Source::Bucket, "requests"), free_in: Span::from_secs(2) };
        let told = delays_of(&parts, Some(&parts[0].cause), Some(&runner_up));
        assert_eq!(told.iter().map(secs).sum::<i64>(), 13);
        assert_eq!(told.iter().map(|delay| delay.binding).collect::<Vec<_>>(), [true, false, false]);
        assert_eq!((told[2].bucket.as_str(), secs(&told[2]), told[2].free_in.unwrap().seconds), ("requests", 0, 2));
    }

    #[test]
    fn what_binds_is_told_before_any_time_has_passed() {
        let floor = cause(Source::RetryAfterSeconds, "");
        let told = delays_of(&[], Some(&floor), None);
        assert_eq!(told.len(), 1);
        assert!(told[0].binding && told[0].source() == v1::Source::RetryAfterSeconds && secs(&told[0]) == 0);
        let same = RunnerUp { cause: floor.clone(), free_in: Span::from_secs(2) };
        assert_eq!(delays_of(&[], Some(&floor), Some(&same)), told, "the runner-up is another one");
    }

    #[test]
    fn verdicts_are_explained() {
        let answer = ReportAnswer {
            not_applied: None,
            ttl: Span::ZERO,
            verdict: Some(Verdict::Retry),
            signal: Signal { field: "retry-after".into(), ..Signal::default() },
            honored: Span::from_secs(2),
            honored_source: Source::RetryAfterSeconds,
            next: None,
        };
        assert_eq!(detail(&answer), "ask for the next attempt: nothing is sent for 2 s, as the provider says in retry-after");
        let guessed = ReportAnswer { honored_source: Source::Backoff, ..answer.clone() };
        assert!(detail(&guessed).contains("our guess"));
        let over = ReportAnswer { verdict: Some(Verdict::GiveUp(Reason::OverHonorCap)), ..answer.clone() };
        assert!(detail(&over).starts_with("do not send it again: the provider asks for a longer wait"), "{}", detail(&over));
        let settled = ReportAnswer { not_applied: Some(NotApplied::LeaseSettled), verdict: Some(Verdict::Done), ..answer };
        assert_eq!(detail(&settled), "nothing was settled: the lease had been settled or released before");
    }

    #[test]
    fn reasons_keep_their_names_on_the_wire() {
        for reason in [
            Reason::NotRetryable,
            Reason::AttemptsExhausted,
            Reason::CrossProvider,
            Reason::CostExceedsCapacity,
            Reason::Paused,
            Reason::StoreUnavailable,
            Reason::QuotaExhausted,
            Reason::OverHonorCap,
            Reason::Deadline,
            Reason::RetryBudget,
            Reason::QueueFull,
        ] {
            let told = v1::Reason::from(Wire(reason)).as_str_name().to_lowercase();
            assert_eq!(told, format!("reason_{}", reason.name()));
        }
    }
}
