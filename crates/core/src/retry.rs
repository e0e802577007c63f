//! What to do with a call after its answer: done, again, or give up.

use crate::denial::Reason;
use crate::lease::{History, Repeat};
use crate::plan::ClassPolicy;
use crate::report::Outcome;
use crate::signal::{AnswerKind, Signal};
use crate::units::{FleetTime, Span};

/// What the worker should do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The call is over.
    Done,
    /// Ask for the next attempt.
    Retry,
    /// Send it elsewhere.
    FailOver,
    /// Another attempt is pointless or not allowed; the reason says why.
    GiveUp(Reason),
}

impl Verdict {
    /// The metric label and JSON key.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Retry => "retry",
            Self::FailOver => "fail_over",
            Self::GiveUp(_) => "give_up",
        }
    }
}

/// An attempt that has ended.
#[derive(Clone, Copy, Debug)]
pub struct Ended<'a> {
    /// How.
    pub outcome: Outcome,
    /// What the answer said.
    pub signal: Option<&'a Signal>,
    /// Whether an answer that went through had begun before: its reader has seen a part, and a retry is not a resume.
    pub has_begun: bool,
    /// Which attempt it was, from 1.
    pub attempt: u32,
    /// Earlier attempts.
    pub history: History,
    /// Whether sending twice does harm.
    pub repeat: Repeat,
    /// The class's policy.
    pub policy: ClassPolicy,
    /// The earliest instant at which the next attempt could be sent.
    pub not_before: FleetTime,
    /// Whether that is the provider's word.
    pub providers_word: bool,
    /// When nobody cares any more.
    pub deadline: Option<FleetTime>,
    /// How long the call has waited, this attempt included.
    pub waited: Span,
    /// Now.
    pub now: FleetTime,
}

/// Whether an attempt that ended so may have run at the provider, and so may have been paid for.
pub fn may_have_run(outcome: Outcome, signal: Option<&Signal>) -> bool {
    match outcome {
        Outcome::Timeout | Outcome::Abandoned => true,
        Outcome::ConnectionFailed | Outcome::Running => false,
        Outcome::Response => signal.is_some_and(|signal| matches!(signal.kind, AnswerKind::Failed)),
    }
}

/// Decides what becomes of the call.
pub fn verdict(ended: &Ended<'_>) -> Verdict {
    let kind = ended.signal.map(|signal| signal.kind);
    match (ended.outcome, kind) {
        (Outcome::Response, None | Some(AnswerKind::Ok)) => return Verdict::Done,
        (Outcome::Response, Some(AnswerKind::QuotaExhausted)) => return Verdict::GiveUp(Reason::QuotaExhausted),
        (Outcome::Response, Some(AnswerKind::Rejected | AnswerKind::Impossible)) => {
            return Verdict::GiveUp(Reason::NotRetryable);
        }
        _ => {}
    }
    if ended.signal.is_some_and(|signal| !signal.retryable && signal.kind != AnswerKind::Failed) {
        return Verdict::GiveUp(Reason::NotRetryable);
    }
    let paid = may_have_run(ended.outcome, ended.signal);
    if paid && (ended.repeat == Repeat::Never || ended.has_begun) {
        return Verdict::GiveUp(Reason::NotRetryable);
    }
    let paid_attempts = ended.history.paid_attempts + u32::from(paid);
    if ended.attempt >= ended.policy.attempts || (paid && paid_attempts >= ended.policy.paid_attempts) {
        return Verdict::GiveUp(Reason::AttemptsExhausted);
    }
    let wait = ended.not_before.since(ended.now);
    if ended.providers_word && wait > ended.policy.honor_cap {
        return Verdict::GiveUp(Reason::OverHonorCap);
    }
    let over = ended.deadline.is_some_and(|deadline| ended.not_before >= deadline);
    if over || ended.waited + wait > ended.policy.max_wait {
        return Verdict::GiveUp(Reason::Deadline);
    }
    Verdict::Retry
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Class;

    fn answered(kind: AnswerKind, retryable: bool) -> Signal {
        Signal { kind, retryable, ..Signal::default() }
    }

    fn ended<'a>(outcome: Outcome, signal: Option<&'a Signal>) -> Ended<'a> {
        Ended {
            outcome,
            signal,
            has_begun: false,
            attempt: 1,
            history: History::default(),
            repeat: Repeat::Unspecified,
            policy: ClassPolicy::default_of(Class::Normal),
            not_before: FleetTime::ZERO,
            providers_word: false,
            deadline: None,
            waited: Span::ZERO,
            now: FleetTime::ZERO,
        }
    }

    #[test]
    fn refusals_are_sent_again_until_attempts_run_out() {
        let throttled = answered(AnswerKind::Throttled, true);
        let mut call = ended(Outcome::Response, Some(&throttled));
        for attempt in 1..5 {
            call.attempt = attempt;
            assert_eq!(verdict(&call), Verdict::Retry);
        }
        call.attempt = 5;
        assert_eq!(verdict(&call), Verdict::GiveUp(Reason::AttemptsExhausted));
    }

    #[test]
    fn what_may_have_run_is_sent_twice_at_most_and_never_with_repeat_never() {
        let mut call = ended(Outcome::Timeout, None);
        assert_eq!(verdict(&call), Verdict::Retry);
        call.history.paid_attempts = 1;
        assert_eq!(verdict(&call), Verdict::GiveUp(Reason::AttemptsExhausted));
        call.history.paid_attempts = 0;
        call.repeat = Repeat::Never;
        assert_eq!(verdict(&call), Verdict::GiveUp(Reason::NotRetryable));
        call.outcome = Outcome::ConnectionFailed;
        assert_eq!(verdict(&call), Verdict::Retry, "what was never sent may be sent");
    }

    #[test]
    fn a_stream_past_its_first_byte_is_never_sent_again() {
        let mut call = ended(Outcome::Abandoned, None);
        call.has_begun = true;
        assert_eq!(verdict(&call), Verdict::GiveUp(Reason::NotRetryable));
        call.outcome = Outcome::Timeout;
        assert_eq!(verdict(&call), Verdict::GiveUp(Reason::NotRetryable));
    }

    #[test]
    fn hopeless_answers_and_late_floors_end_the_call() {
        let billing = answered(AnswerKind::QuotaExhausted, false);
        assert_eq!(verdict(&ended(Outcome::Response, Some(&billing))), Verdict::GiveUp(Reason::QuotaExhausted));
        let bad = answered(AnswerKind::Rejected, false);
        assert_eq!(verdict(&ended(Outcome::Response, Some(&bad))), Verdict::GiveUp(Reason::NotRetryable));
        let throttled = answered(AnswerKind::Throttled, true);
        let mut call = ended(Outcome::Response, Some(&throttled));
        call.providers_word = true;
        call.not_before = FleetTime::from_secs(91);
        assert_eq!(verdict(&call), Verdict::GiveUp(Reason::OverHonorCap));
        call.not_before = FleetTime::from_secs(60);
        call.deadline = Some(FleetTime::from_secs(30));
        assert_eq!(verdict(&call), Verdict::GiveUp(Reason::Deadline));
    }
}
