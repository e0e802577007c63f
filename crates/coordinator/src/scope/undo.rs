//! When a commit is refused: what the step made true is taken back, and its inputs are taken again on the newer value.

use std::collections::HashSet;

use paceline_core::delays::{self, DelayPart};
use paceline_core::queue::Ask;
use paceline_core::signal::Source;
use paceline_core::units::{FleetTime, Span};

use super::effects::{Granted, Undo};
use super::{Effects, Input, Quote, ReplyId, Scope};
use crate::api::CallError;
use crate::scope::Reply;

impl Scope {
    /// Undoes what a refused commit would have made true: `adopt` the newer value, then step again with these inputs.
    pub fn undo(&mut self, fx: Effects, now: FleetTime) -> Vec<Input> {
        let mut again = Vec::new();
        let mut retaken: HashSet<ReplyId> = HashSet::new();
        for undo in fx.undo {
            match undo {
                Undo::Input(input) => {
                    // What it put in line would be there twice.
                    if let Some(reply) = input.reply() {
                        self.take_out(reply, now);
                        retaken.insert(reply);
                    }
                    again.push(input);
                }
                Undo::Ask(granted) => self.back_in_line(*granted, &retaken, now),
                Undo::Pending(changes) => self.keep_for_later(changes, now),
                Undo::Return(back) => self.back = Some(back),
            }
        }
        again
    }

    pub(super) fn back_in_line(&mut self, granted: Granted, retaken: &HashSet<ReplyId>, now: FleetTime) {
        let Granted { ask, call, hold_until, waited } = granted;
        self.move_flight(ask.class, Some(hold_until), None);
        if !retaken.contains(&call.reply) {
            self.enqueue(Ask { entered_at: now, prior: waited, ..ask }, call, now);
        }
    }

    /// What can be done while the store is away: callers leave, holds end, the configuration changes; what would change the
    /// value is refused.
    pub fn step_without_store(&mut self, inputs: Vec<Input>, why: &str, now: FleetTime) -> Effects {
        let mut fx = Effects::default();
        self.end_controls(now);
        let away = || CallError::Unavailable(why.to_string());
        for input in inputs {
            match input {
                Input::Ask(reply, ask) => self.ask_without_store(reply, &ask, None, away(), now, &mut fx),
                Input::Report(reply, report) => self.report_without_store(reply, &report, away(), now, &mut fx),
                Input::Release(reply, _) => fx.answer(reply, Reply::Released(false), None),
                Input::Quote(reply, _) => fx.answer(reply, Reply::Quote(Box::new(Quote::Refused(away()))), None),
                Input::Forget(reply, _) => fx.answer(reply, Reply::Forgotten(Err(away())), None),
                Input::Recall(reply, ..) => fx.answer(reply, Reply::Recalled(None), None),
                local => {
                    self.take_local(local, now, &mut fx);
                }
            }
        }
        self.let_through_without_store(now, &mut fx);
        self.end_holds(now, &mut fx);
        let end_of_hold = self.holds.first().map(|(at, _)| *at);
        fx.wake_at = end_of_hold.into_iter().chain(self.next_end_of_control()).min();
        fx
    }
}

/// The part of a granted slot's delays that was over when it was decided, `ahead` before its send time: the jitter is to come,
/// and so is the end of what governed.
pub(super) fn waited_so_far(mut parts: Vec<DelayPart>, ahead: Span) -> Vec<DelayPart> {
    let mut ahead = ahead;
    parts.sort_by_key(|part| (part.cause.source != Source::Jitter, std::cmp::Reverse(part.length)));
    for part in &mut parts {
        let cut = part.length.min(ahead);
        part.length -= cut;
        ahead -= cut;
    }
    let mut waited = Vec::new();
    for part in parts {
        delays::add(&mut waited, &part.cause, part.length);
    }
    waited
}

#[cfg(test)]
mod tests {
    use paceline_core::delays::Cause;

    use super::*;

    #[test]
    fn what_is_to_come_is_cut_off_and_the_rest_adds_up() {
        let part = |source, millis| DelayPart { cause: Cause::plain(source), length: Span::from_millis(millis) };
        let parts = vec![part(Source::Pacing, 40), part(Source::Bucket, 900), part(Source::Jitter, 30)];
        let waited = waited_so_far(parts, Span::from_millis(100));
        assert_eq!(waited, [part(Source::Bucket, 830), part(Source::Pacing, 40)]);
        assert!(waited_so_far(Vec::new(), Span::ZERO).is_empty());
    }
}
