//! The outcome, as a table for people and as JSON for programs.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::judge::{Finding, Judgement, Verdict};
use super::script::Situation;

/// What was found out about a worker.
pub(super) struct Outcome<'a> {
    pub(super) judged: Vec<(&'a Situation, Judgement)>,
    /// What was wrong with no job in particular.
    pub(super) stray: Vec<Finding>,
}

impl Outcome<'_> {
    /// Whether nothing is wrong and everything was seen.
    pub(super) fn is_good(&self) -> bool {
        let is_good = |(situation, judgement): &(&Situation, Judgement)| match judgement.verdict {
            Verdict::Ok => true,
            Verdict::Wrong => false,
            Verdict::NotSeen => situation.is_optional(),
        };
        self.stray.is_empty() && self.judged.iter().all(is_good)
    }

    fn count(&self, verdict: Verdict) -> usize {
        self.judged.iter().filter(|(_, judgement)| judgement.verdict == verdict).count()
    }

    /// One line.
    pub(super) fn summary(&self) -> String {
        let (ok, wrong, unseen) = (self.count(Verdict::Ok), self.count(Verdict::Wrong), self.count(Verdict::NotSeen));
        let situations = if self.judged.len() == 1 { "situation" } else { "situations" };
        format!("{} {situations}: {ok} ok, {wrong} wrong, {unseen} not seen", self.judged.len())
    }

    /// For people; `story` tells what happened in a situation.
    pub(super) fn text(&self, story: impl Fn(&str) -> String) -> String {
        let widest = |of: fn(&Situation) -> usize| self.judged.iter().map(|(situation, _)| of(situation)).max().unwrap_or(0);
        let (name, title) = (widest(|situation| situation.id.len()), widest(|situation| situation.title.chars().count()));
        let mut text = String::new();
        for (situation, judgement) in &self.judged {
            let verdict = match judgement.verdict {
                Verdict::NotSeen if situation.is_optional() => "not seen (need not be)",
                verdict => word(verdict),
            };
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{:name$}  {:title$}  {verdict}", situation.id, situation.title);
            judgement.findings.iter().for_each(|finding| write_finding(&mut text, finding));
            if judgement.verdict == Verdict::NotSeen {
                judgement.missing.iter().for_each(|missing| {
                    let _ = writeln!(text, "    {missing}");
                });
            }
            text.push_str(&story(situation.id));
        }
        self.stray.iter().for_each(|finding| write_finding(&mut text, finding));
        let _ = writeln!(text, "\n{}", self.summary());
        if !self.is_good() {
            text.push_str("The rules and the protocol are told in docs/workers.md, the situations in docs/conformance.md.\n");
        }
        text
    }

    /// For programs.
    pub(super) fn json(&self) -> Value {
        let finding = |finding: &Finding| json!({"rule": finding.rule.to_string(), "seen": finding.seen});
        let situation = |(situation, judgement): &(&Situation, Judgement)| {
            json!({
                "id": situation.id,
                "title": situation.title,
                "optional": situation.is_optional(),
                "verdict": word(judgement.verdict).replace(' ', "_").to_lowercase(),
                "findings": judgement.findings.iter().map(finding).collect::<Vec<_>>(),
                "missing": judgement.missing,
            })
        };
        json!({
            "pass": self.is_good(),
            "situations": self.judged.iter().map(situation).collect::<Vec<_>>(),
            "findings": self.stray.iter().map(finding).collect::<Vec<_>>(),
        })
    }
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Ok => "ok",
        Verdict::Wrong => "WRONG",
        Verdict::NotSeen => "not seen",
    }
}

fn write_finding(text: &mut String, finding: &Finding) {
    let _ = writeln!(text, "    {}: {}", finding.rule, finding.seen);
}
