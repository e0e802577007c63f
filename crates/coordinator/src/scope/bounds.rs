//! What a call is refused for before it gets a place: attempts, deadlines, the retry budget, a full line.

use paceline_core::denial::{Denial, Reason};
use paceline_core::lease::Repeat;
use paceline_core::mode::Mode;
use paceline_core::plan::{Class, ClassPolicy};
use paceline_core::queue::{Ask, MOST_WAITING_IN_GROUP};
use paceline_core::retry_budget;
use paceline_core::units::{FleetTime, Span};
use paceline_core::verdict;

use super::ask::{Bounds, Past};
use super::{AskInput, Effects, Event, ReplyId, Scope, reply_to};
use crate::api::{Answer, Denied, ReportAnswer};
use crate::scope::DecidedAs;

impl Scope {
    /// Until when the call may be sent: it must have waited no longer than `max_wait`, and end before its deadline if it runs
    /// as long as such calls typically do.
    pub(super) fn bounds(&self, input: &AskInput, policy: &ClassPolicy, past: &Past, now: FleetTime) -> Bounds {
        let deadline = input.request.deadline.map(|deadline| now + deadline).or(input.deadline_at);
        let run = self.typical_run(&input.request.target.model);
        let max_wait = input.request.max_wait.unwrap_or(policy.max_wait);
        let by_max_wait = past.asked_at.unwrap_or(now) + (max_wait - past.history.waited).at_least_zero();
        let by_deadline = deadline.map(|deadline| deadline - run);
        Bounds {
            wait_until: by_deadline.map_or(by_max_wait, |latest| latest.min(by_max_wait)),
            until_deadline: by_deadline.is_some_and(|latest| latest < by_max_wait),
            deadline,
            run,
        }
    }

    /// How long calls of a model typically run; nothing while too few are known.
    pub(super) fn typical_run(&self, model: &str) -> Span {
        self.value.usage.typical_run(model).unwrap_or(Span::ZERO)
    }

    /// Why the call gets no place, if it does not: the first reason that holds, those of the buckets included.
    pub(super) fn turned_away(&mut self, input: &AskInput, ask: &Ask, now: FleetTime) -> Option<Denial> {
        let found = [too_late(input, ask, now), self.over_retry_budget(input, ask, now), self.line_is_full(ask)];
        let own = found.into_iter().flatten().min_by_key(|denial| denial.reason)?;
        // What the buckets say is looked at in the next pass anyhow; here only to name the reason that comes first.
        let by_buckets = verdict::hopeless(&mut self.value, ask, now);
        Some(by_buckets.filter(|theirs| theirs.reason <= own.reason).unwrap_or(own))
    }

    fn over_retry_budget(&mut self, input: &AskInput, ask: &Ask, now: FleetTime) -> Option<Denial> {
        // Whoever has a place was within the budget when it got it.
        if !ask.sent.is_retry || input.ticket.is_some() {
            return None;
        }
        let binding = self.value.bind(&ask.plan, now);
        let waiting = self.queue.kinds_of_group(&ask.plan.key).retries;
        retry_budget::denial(&self.value, &binding, waiting, now)
    }

    fn line_is_full(&self, ask: &Ask) -> Option<Denial> {
        (self.queue.len_of_group(&ask.plan.key) >= MOST_WAITING_IN_GROUP).then(|| Denial {
            reason: Reason::QueueFull,
            retry_after: Some(Span::from_secs(1)),
            detail: format!("{MOST_WAITING_IN_GROUP} calls wait for {} already", ask.plan.key),
        })
    }
}

/// Why the call is pointless whatever its buckets hold, if it is: what earlier attempts said, and how many there were.
pub(super) fn refusal(provider: &str, input: &AskInput, class: Class, policy: &ClassPolicy, past: &Past) -> Option<Denied> {
    let request = &input.request;
    if let Some(reason) = past.gave_up {
        let detail = format!("the attempt before ended with {}; another one is not allowed", reason.name());
        return Some(Denied::at_once(reason, None, detail));
    }
    if request.attempt > policy.attempts {
        let detail = format!(
            "a {} call is sent {} times at most, and this is attempt {}",
            class.name(),
            policy.attempts,
            request.attempt
        );
        return Some(Denied::at_once(Reason::AttemptsExhausted, None, detail));
    }
    let elsewhere = past.ran_at.iter().find(|ran_at| *ran_at != provider).filter(|_| request.repeat != Repeat::Safe)?;
    let detail = format!(
        "an earlier attempt may have run at {elsewhere}: only a call with repeat = SAFE is sent to another provider then (report how \
         that attempt went if it was refused)"
    );
    Some(Denied::at_once(Reason::CrossProvider, None, detail))
}

fn too_late(input: &AskInput, ask: &Ask, now: FleetTime) -> Option<Denial> {
    let late = |detail: String| Denial { reason: Reason::Deadline, retry_after: Some(Span::ZERO), detail };
    if input.request.deadline == Some(Span::ZERO) {
        return Some(late("the deadline is over already (deadline = 0)".to_owned()));
    }
    let is_doomed = ask.until_deadline && ask.run > Span::ZERO && ask.wait_until < now;
    is_doomed.then(|| late(verdict::too_late(ask, Span::ZERO, "nothing", now)))
}

/// Answers an ask with a refusal.
pub(super) fn deny(
    reply: ReplyId,
    input: &AskInput,
    report: Option<Box<ReportAnswer>>,
    denied: Denied,
    now: FleetTime,
    fx: &mut Effects,
) {
    let outcome = DecidedAs::Denied(denied.denial.reason);
    let event = Event::decided(&input.request, input.request.class, Mode::Enforce, outcome, Vec::new());
    fx.remember(reply, super::why::denied(input, input.request.class, &denied.denial, &denied.delays, now));
    fx.answer(reply, reply_to(report, Ok(Answer::Denied(Box::new(denied)))), Some(event));
}
