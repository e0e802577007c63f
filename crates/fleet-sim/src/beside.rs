//! Ours beside the others: who finishes sooner has to pay for it.
//!
//! A strategy may be done before ours when it floods the provider, takes from another consumer of the same limits, or was told limits
//! that ours has to find. Whoever is done sooner and pays nothing shows that we leave time on the table, and that is a miss like any
//! other. Who gives calls up is never done.

use crate::run::Outcome;
use crate::strategies::OURS;

/// This much sooner is not sooner: networks that others do not need, and chance.
const LEAD: f64 = 0.01;
/// From this share of rejected calls on, a strategy pays for its lead.
const FLOOD: f64 = 0.10;
/// From this much more than ours takes from the other consumer on, the lead is that one's time.
const TAKEN: f64 = 0.01;
/// From this share of calls given up on, more than ours, nobody can say that it finished.
const GIVEN_UP: f64 = 0.01;

/// What rounding may add.
const TINY: f64 = 1e-9;

/// How much sooner another strategy was done than ours with the same seed, and what it paid.
#[derive(Clone, Debug, PartialEq)]
pub struct Lead {
    /// The part of our makespan that it saved.
    pub share: f64,
    /// What it paid with, in words; empty: nothing, so ours is at fault.
    pub paid: Vec<String>,
}

impl Lead {
    /// For tables and programs: one sentence without a full stop.
    pub fn sentence(&self, strategy: &str) -> String {
        let by = self.share * 100.0;
        match self.paid.as_slice() {
            [] => format!("{strategy} finishes {by:.1} % sooner and pays nothing for it"),
            paid => format!("{strategy} finishes {by:.1} % sooner: {}", paid.join(", ")),
        }
    }
}

/// Compares every run with ours of the same scenario and seed. Notes leads with who has them, and leads that are not paid for as
/// something that ours missed.
pub fn compare(outcomes: &mut [Outcome]) {
    let ours: Vec<(usize, Outcome)> =
        outcomes.iter().cloned().enumerate().filter(|(_, outcome)| outcome.strategy == OURS).collect();
    for (index, own) in ours {
        let mut unpaid = Vec::new();
        let rivals = outcomes
            .iter_mut()
            .filter(|other| other.strategy != OURS && other.scenario == own.scenario && other.seed == own.seed);
        for other in rivals {
            other.lead = lead(&own, other);
            unpaid.extend(other.lead.iter().filter(|lead| lead.paid.is_empty()).map(|lead| lead.sentence(&other.strategy)));
        }
        if let Some(own) = outcomes.get_mut(index) {
            own.missed.extend(unpaid);
        }
    }
}

fn lead(ours: &Outcome, other: &Outcome) -> Option<Lead> {
    let share = 1.0 - other.makespan.as_secs_f64() / ours.makespan.as_secs_f64();
    let finished = other.given_up_share() <= ours.given_up_share() + GIVEN_UP;
    if !finished || share.is_nan() || share <= LEAD + TINY {
        return None;
    }
    let mut paid = Vec::new();
    if other.rejected_share() > FLOOD {
        paid.push(format!("{:.0} % of its calls are rejected", other.rejected_share() * 100.0));
    }
    if other.taken_from_other > ours.taken_from_other + TAKEN {
        paid.push(format!("{:.0} % of what the other consumer wanted is taken", other.taken_from_other * 100.0));
    }
    if other.was_told_more {
        paid.push("it was told the limits, which ours has to find".to_owned());
    }
    Some(Lead { share, paid })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::indexing_slicing, clippy::unwrap_used)]
    use paceline_core::units::Span;

    use super::*;

    fn outcome(strategy: &str, seed: u64, makespan: i64) -> Outcome {
        Outcome {
            scenario: "window".into(),
            strategy: strategy.into(),
            seed,
            makespan: Span::from_secs(makespan),
            clairvoyant: Span::from_secs(90),
            sends: 1_000,
            finished: 1_000,
            ..Outcome::default()
        }
    }

    #[test]
    fn a_lead_that_nobody_pays_for_is_a_miss_of_ours() {
        let mut runs = [outcome(OURS, 1, 100), outcome("header", 1, 97), outcome("spacing", 1, 100)];
        compare(&mut runs);
        assert_eq!(runs[0].missed, ["header finishes 3.0 % sooner and pays nothing for it"]);
        assert!(!runs[0].pass() && runs[1].missed.is_empty() && runs[2].lead.is_none());
    }

    #[test]
    fn a_hundredth_is_no_lead_and_only_the_same_seed_is_compared() {
        let mut runs = [outcome(OURS, 1, 100), outcome("header", 1, 99), outcome("header", 2, 50)];
        compare(&mut runs);
        assert!(runs.iter().all(|run| run.lead.is_none() && run.pass()));
    }

    #[test]
    fn who_floods_takes_or_knows_more_pays_and_who_gives_up_is_not_done() {
        let ours = outcome(OURS, 1, 100);
        let flood = Outcome { rejected: 101, ..outcome("header", 1, 90) };
        let takes = Outcome { taken_from_other: 0.2, ..outcome("spacing", 1, 90) };
        let gives_up = Outcome { finished: 900, given_up: 100, ..outcome("google-genai", 1, 90) };
        let knows = Outcome { was_told_more: true, ..outcome("fixed-split", 1, 90) };
        let just_not = Outcome { rejected: 100, taken_from_other: 0.01, ..outcome("exponential", 1, 90) };
        let mut runs = [ours, flood, takes, gives_up, knows, just_not];
        compare(&mut runs);
        let said = |index: usize| runs[index].lead.as_ref().unwrap().sentence(&runs[index].strategy);
        assert_eq!(said(1), "header finishes 10.0 % sooner: 10 % of its calls are rejected");
        assert_eq!(said(2), "spacing finishes 10.0 % sooner: 20 % of what the other consumer wanted is taken");
        assert!(runs[3].lead.is_none());
        assert_eq!(said(4), "fixed-split finishes 10.0 % sooner: it was told the limits, which ours has to find");
        assert_eq!(runs[0].missed, [said(5)]);
    }
}
