//! Which of several targets a call is sent to, from what each would say. Pure: quotes in, a choice out.
//!
//! The order is the caller's preference, so it counts first: the first target that lets the call go within a moment. Where none
//! does, the shortest wait counts. A retry looks at the one that refused it last of all. Why quotes, and not a place in each line:
//! a call that waits in two lines takes somebody's turn in the one it leaves, and is counted as load that is not there.

use paceline_core::denial::{Denial, Reason};
use paceline_core::units::Span;

use crate::api::{CallError, Denied, Target};
use crate::scope::Quote;

/// A target that lets a call go within this is good enough: looking further would trade the caller's preference for nothing that
/// a call to a provider would notice.
pub(crate) const PATIENCE: Span = Span::from_secs(1);

/// What to do.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Choice {
    /// Ask this one.
    At(usize),
    /// Every one would refuse.
    Denied(Box<Denied>),
    /// The key is used up.
    Refused(CallError),
}

/// What the order of preference leaves open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Leaning {
    /// Where the call has a place already.
    pub(crate) has_place: Option<usize>,
    /// Which one refused the attempt before.
    pub(crate) has_refused: Option<usize>,
}

/// Chooses among targets in the order of preference.
pub(crate) fn choose(quotes: &[Quote], leaning: Leaning) -> Choice {
    if let Some(here) = quotes.iter().position(|quote| *quote == Quote::Here) {
        return Choice::At(here);
    }
    if let Some(error) = quotes.iter().find_map(|quote| match quote {
        Quote::Refused(error) => Some(error.clone()),
        _ => None,
    }) {
        return Choice::Refused(error);
    }
    let mut open: Vec<(usize, Span)> =
        quotes.iter().enumerate().filter_map(|(index, quote)| Some((index, wait_of(quote)?))).collect();
    open.sort_by_key(|(index, _)| (leaning.has_refused == Some(*index), *index));
    let soon = open.iter().find(|(_, wait)| *wait <= PATIENCE);
    let Some((best, wait)) = soon.or_else(|| open.iter().min_by_key(|(_, wait)| *wait)).copied() else {
        return Choice::Denied(Box::new(refusal_of_all(quotes)));
    };
    // A place is worth something: it is left for one that is better by half, or that is as good as free.
    let placed = leaning.has_place.and_then(|index| open.iter().find(|(other, _)| *other == index)).copied();
    match placed {
        Some((index, held)) if held <= PATIENCE || (wait > PATIENCE && wait.as_micros() > held.as_micros() / 2) => {
            Choice::At(index)
        }
        _ => Choice::At(best),
    }
}

/// The wait in a quote that is not a refusal.
pub(crate) fn wait_of(quote: &Quote) -> Option<Span> {
    match quote {
        Quote::Here => Some(Span::ZERO),
        Quote::Wait(wait) => Some(*wait),
        Quote::Denied(_) | Quote::Refused(_) => None,
    }
}

/// The refusal of the target that the caller prefers, and what the others say; it can be asked again when the first of them can.
fn refusal_of_all(quotes: &[Quote]) -> Denied {
    let refusals: Vec<&Denial> = quotes
        .iter()
        .filter_map(|quote| match quote {
            Quote::Denied(denied) => Some(&denied.denial),
            _ => None,
        })
        .collect();
    let Some((first, others)) = refusals.split_first() else {
        return Denied::at_once(Reason::QueueFull, Some(Span::from_secs(1)), "no target would take it");
    };
    let retry_after = refusals.iter().filter_map(|denial| denial.retry_after).min();
    let others = others.iter().enumerate().map(|(index, denial)| format!("; fallback {}: {}", index + 1, denial.detail));
    let detail = format!("{}{}", first.detail, others.collect::<String>());
    Denied::at_once(first.reason, retry_after, detail)
}

/// The targets without repetitions, the first of each kept.
pub(crate) fn distinct(targets: impl IntoIterator<Item = Target>) -> Vec<Target> {
    let mut seen = Vec::new();
    for target in targets {
        if !seen.contains(&target) {
            seen.push(target);
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(secs: i64) -> Quote {
        Quote::Wait(Span::from_secs(secs))
    }

    fn denied(reason: Reason, retry_after: Option<i64>) -> Quote {
        Quote::Denied(Box::new(Denied::at_once(reason, retry_after.map(Span::from_secs), reason.name())))
    }

    fn none() -> Leaning {
        Leaning::default()
    }

    #[test]
    fn the_first_that_can_send_soon_else_the_shortest_wait() {
        assert_eq!(choose(&[wait(0), wait(0)], none()), Choice::At(0));
        assert_eq!(choose(&[wait(1), wait(0)], none()), Choice::At(0), "a second is no reason to go elsewhere");
        assert_eq!(choose(&[wait(9), wait(1), wait(0)], none()), Choice::At(1), "in order");
        assert_eq!(choose(&[wait(9), wait(4), wait(5)], none()), Choice::At(1), "the shortest");
        assert_eq!(choose(&[denied(Reason::OverHonorCap, Some(90)), wait(30)], none()), Choice::At(1));
    }

    #[test]
    fn a_retry_prefers_another_one_than_the_one_that_refused() {
        let refused = Leaning { has_refused: Some(0), ..none() };
        assert_eq!(choose(&[wait(0), wait(1)], refused), Choice::At(1));
        assert_eq!(choose(&[wait(0), wait(9)], refused), Choice::At(0), "unless the others have to wait");
        assert_eq!(choose(&[wait(2), denied(Reason::Deadline, None)], refused), Choice::At(0));
    }

    #[test]
    fn a_place_is_kept_unless_another_is_much_better() {
        let placed = Leaning { has_place: Some(0), ..none() };
        assert_eq!(choose(&[wait(10), wait(6)], placed), Choice::At(0));
        assert_eq!(choose(&[wait(10), wait(4)], placed), Choice::At(1));
        assert_eq!(choose(&[wait(10), wait(1)], placed), Choice::At(1));
        let placed = Leaning { has_place: Some(1), ..none() };
        assert_eq!(choose(&[wait(0), wait(1)], placed), Choice::At(1), "it is about to be sent");
        assert_eq!(choose(&[wait(3), denied(Reason::Deadline, None)], placed), Choice::At(0));
    }

    #[test]
    fn one_that_knows_the_call_is_the_only_one() {
        assert_eq!(choose(&[wait(0), Quote::Here], none()), Choice::At(1));
        let error = CallError::AlreadyExists("is over".into());
        assert_eq!(choose(&[wait(0), Quote::Refused(error.clone())], none()), Choice::Refused(error));
    }

    #[test]
    fn when_all_refuse_the_preferred_one_is_told_with_the_others() {
        let Choice::Denied(told) =
            choose(&[denied(Reason::OverHonorCap, Some(90)), denied(Reason::Deadline, Some(20))], none())
        else {
            panic!("nobody would take it");
        };
        assert_eq!((told.denial.reason, told.denial.retry_after), (Reason::OverHonorCap, Some(Span::from_secs(20))));
        assert_eq!(told.denial.detail, "over_honor_cap; fallback 1: deadline");
    }
}
