//! Calls that may be sent to one of several targets: each is asked what it would say, then one of them is asked for a slot.
//! A call never has places in two lines.

use std::sync::Arc;

use paceline_core::denial::Reason;
use paceline_core::lease::Serial;
use paceline_core::report::Outcome;
use paceline_core::retry::{self, Verdict};
use paceline_core::units::FleetTime;
use paceline_store::Store;

use crate::api::{Answer, CallError, NotApplied, ReportAnswer, RetryAsk, Target};
use crate::fallback::{Choice, Leaning, choose};
use crate::front::{Coordinator, lost};
use crate::scope::{
    AskInput, Elsewhere, GivenBack, Input, Quote, ReleaseInput, Reply, ReportInput, Served, TeachInput, next_ask,
};
use crate::wire;

impl<S: Store> Coordinator<S> {
    /// Asks for a slot at the one of these targets that suits best; the first is the preferred one. Returns which one answered.
    pub(crate) async fn ask_anywhere(&self, inputs: Vec<AskInput>) -> Result<(usize, Answer), CallError> {
        let inputs = self.recall(inputs).await?;
        if let [only] = inputs.as_slice() {
            return Ok((0, self.ask_at(only).await?));
        }
        let leaning = Leaning {
            has_place: inputs.iter().position(|input| input.has_place()),
            has_refused: inputs.iter().position(|input| input.was_made_here()),
        };
        let mut quotes = self.quotes(&inputs).await?;
        let mut has_asked_first = false;
        loop {
            let (index, refusal) = match choose(&quotes, leaning) {
                Choice::Refused(error) => return Err(error),
                Choice::At(index) => (index, None),
                // The preferred one says so itself, so that it is counted where it belongs.
                Choice::Denied(all) => (0, Some(all)),
            };
            if let Some(all) = refusal.as_ref().filter(|_| has_asked_first) {
                return Ok((0, Answer::Denied(all.clone())));
            }
            has_asked_first |= index == 0;
            let Some(input) = inputs.get(index) else { return Err(lost()) };
            let is_new_there = quotes.get(index).is_some_and(|quote| *quote != Quote::Here);
            let input = if leaning.has_place.is_some_and(|place| place != index) {
                self.leave_place(input).await?;
                input.clone().leaves_its_place()
            } else {
                input.clone()
            };
            match (self.ask_at(&input).await?, refusal) {
                (Answer::Denied(_), Some(all)) => return Ok((0, Answer::Denied(all))),
                (Answer::Denied(denied), None) if is_new_there => {
                    if let Some(quote) = quotes.get_mut(index) {
                        *quote = Quote::Denied(denied);
                    }
                }
                (answer, _) => return Ok((index, answer)),
            }
        }
    }

    /// After a report whose call may go on at one of several targets: the verdict with the others taken into account, and the next
    /// slot where that was asked for.
    pub(crate) async fn fail_over(&self, input: &ReportInput, answer: &mut ReportAnswer) {
        let (Some(lease), None) = (&input.lease, answer.not_applied) else { return };
        let may_go_on = match answer.verdict {
            Some(Verdict::Retry) => true,
            // What holds for this target only.
            Some(Verdict::GiveUp(reason)) => {
                matches!(reason, Reason::QuotaExhausted | Reason::OverHonorCap | Reason::Deadline | Reason::RetryBudget)
            }
            _ => false,
        };
        if !may_go_on {
            return;
        }
        let may_have_run = retry::may_have_run(input.request.outcome, input.signal.as_ref());
        let paid_attempts = lease.paid_attempts.saturating_add(u32::from(may_have_run));
        let elsewhere = Elsewhere { may_have_run, paid_attempts, gave_up: None };
        let mut asking = input.clone();
        let is_wanted = asking.request.retry.is_some();
        asking.request.retry.get_or_insert_with(RetryAsk::default);
        let inputs: Vec<AskInput> = input
            .candidates
            .iter()
            .enumerate()
            .filter_map(|(index, target)| {
                let mut next = next_ask(lease, &asking, target.clone())?;
                next.request.decide_here = true;
                Some(AskInput { is_fallback: index > 0, elsewhere: Some(elsewhere), ..next })
            })
            .collect();
        let Some(own) = inputs.iter().position(AskInput::was_made_here) else { return };
        if is_wanted {
            // The report was taken whatever becomes of the ask: an error costs no more than the slot.
            let Ok((index, next)) = self.ask_anywhere(inputs).await else { return };
            let is_denied = matches!(next, Answer::Denied(_));
            if index != own && !is_denied {
                answer.verdict = Some(Verdict::FailOver);
            } else if !is_denied {
                answer.verdict = Some(Verdict::Retry);
            }
            answer.next = Some(next).filter(|_| matches!(answer.verdict, Some(Verdict::Retry | Verdict::FailOver)));
            return;
        }
        let inputs: Vec<Arc<AskInput>> = inputs.into_iter().map(Arc::new).collect();
        let Ok(quotes) = self.quotes(&inputs).await else { return };
        let leaning = Leaning { has_place: None, has_refused: Some(own) };
        if matches!(choose(&quotes, leaning), Choice::At(index) if index != own) {
            answer.verdict = Some(Verdict::FailOver);
        }
    }

    /// Tells the scope that really answered what it said.
    pub(crate) fn teach(&self, input: &ReportInput, answer: &ReportAnswer, now: FleetTime) {
        let (Served::At(target), Some(lease), Some(signal)) = (&input.served, &input.lease, &input.signal) else { return };
        let is_known = input.is_authentic && matches!(answer.not_applied, None | Some(NotApplied::LeaseExpired));
        if !is_known || input.request.outcome != Outcome::Response {
            return;
        }
        let lease = wire::lease_of(lease);
        let told = TeachInput {
            target: target.clone(),
            signal: signal.clone(),
            sent_at: lease.send_at.min(now - input.request.age),
            age: input.request.age,
            class: lease.class,
            attempt: lease.attempt,
        };
        self.tell(target, Input::Teach(Box::new(told)));
    }

    async fn quotes(&self, inputs: &[Arc<AskInput>]) -> Result<Vec<Quote>, CallError> {
        let mut quotes = Vec::with_capacity(inputs.len());
        for input in inputs {
            match self.call(&input.request.target, |id| Input::Quote(id, input.clone())).await? {
                Reply::Quote(quote) => quotes.push(*quote),
                _ => return Err(lost()),
            }
        }
        Ok(quotes)
    }

    pub(crate) async fn ask_at(&self, input: &Arc<AskInput>) -> Result<Answer, CallError> {
        match self.call(&input.request.target, |id| Input::Ask(id, input.clone())).await? {
            Reply::Answer(answer) => answer,
            _ => Err(lost()),
        }
    }

    /// Gives back the place that a call leaves for another line.
    async fn leave_place(&self, input: &AskInput) -> Result<(), CallError> {
        let Some(ticket) = &input.ticket else { return Ok(()) };
        let Some(stamp) = ticket.stamp.clone().map(Serial::from) else { return Ok(()) };
        let target = Target { provider: ticket.provider.clone(), account: ticket.account.clone(), model: String::new() };
        let what = GivenBack::Place(stamp);
        let release = ReleaseInput { target: target.clone(), key: Some(input.key), what, place: None, is_unheard: false };
        self.call(&target, |id| Input::Release(id, Box::new(release))).await.map(drop)
    }

    /// Finds out what became of the attempt before, where that was made in another scope.
    async fn recall(&self, inputs: Vec<AskInput>) -> Result<Vec<Arc<AskInput>>, CallError> {
        let mut found: Option<Elsewhere> = None;
        let mut known = Vec::with_capacity(inputs.len());
        for mut input in inputs {
            if let (None, Some((scope, key, serial))) = (input.elsewhere, input.made_elsewhere()) {
                let recalled = match found {
                    Some(found) => found,
                    None => match self.call(&scope, |id| Input::Recall(id, key, serial)).await? {
                        Reply::Recalled(Some(recalled)) => recalled,
                        _ => Elsewhere::unknown(input.previous.as_ref().map_or(0, |lease| lease.paid_attempts)),
                    },
                };
                found = Some(recalled);
                input.elsewhere = Some(recalled);
            }
            known.push(Arc::new(input));
        }
        Ok(known)
    }
}
