//! Simulations as people read them: one table per scenario, the worst seed of each strategy.

use std::io::{self, Write};

use paceline_core::units::Span;
use paceline_fleet_sim::scenario::Scenario;
use paceline_fleet_sim::{Lead, Outcome};

/// Writes a table per scenario.
pub(super) fn write(out: &mut dyn Write, scenarios: &[Scenario], outcomes: &[Outcome]) -> io::Result<()> {
    for scenario in scenarios {
        writeln!(out, "{}: {}", scenario.name, scenario.about)?;
        let of_this: Vec<&Outcome> = outcomes.iter().filter(|outcome| outcome.scenario == scenario.name).collect();
        let mut strategies: Vec<&str> = of_this.iter().map(|outcome| outcome.strategy.as_str()).collect();
        strategies.dedup();
        let head = ["strategy", "makespan", "of best", "rejected", "calls/job", "p50 wait", "p99 wait", "Jain", "given up"];
        let [strategy, rest @ ..] = head;
        write!(out, "  {strategy:<17}")?;
        for title in rest {
            write!(out, "{title:>11}")?;
        }
        writeln!(out)?;
        for strategy in strategies {
            let runs: Vec<&Outcome> = of_this.iter().copied().filter(|outcome| outcome.strategy == strategy).collect();
            writeln!(out, "  {strategy:<17}{}", row(&runs))?;
        }
        for sentence in leads(&of_this) {
            writeln!(out, "  {sentence}")?;
        }
        writeln!(out)?;
    }
    writeln!(
        out,
        "Each figure is that of the worst seed. \"of best\": makespan over that of a scheduler that knows the meters exactly."
    )
}

/// Who was done before ours, each once with its greatest lead.
fn leads(runs: &[&Outcome]) -> Vec<String> {
    let mut greatest: Vec<(&str, &Lead)> = Vec::new();
    for (strategy, lead) in runs.iter().filter_map(|run| Some((run.strategy.as_str(), run.lead.as_ref()?))) {
        match greatest.iter_mut().find(|(known, _)| *known == strategy) {
            Some((_, known)) if known.paid.is_empty() || (!lead.paid.is_empty() && known.share >= lead.share) => {}
            Some((_, known)) => *known = lead,
            None => greatest.push((strategy, lead)),
        }
    }
    greatest.into_iter().map(|(strategy, lead)| lead.sentence(strategy)).collect()
}

fn row(runs: &[&Outcome]) -> String {
    let worst = |figure: fn(&Outcome) -> f64| runs.iter().map(|run| figure(run)).fold(0.0, f64::max);
    let span = |figure: fn(&Outcome) -> Span| seconds(runs.iter().map(|run| figure(run)).max().unwrap_or(Span::ZERO));
    let jain = runs.iter().map(|run| run.jain).fold(1.0, f64::min);
    let passed = runs.iter().filter(|run| run.pass()).count();
    let verdict = if passed == runs.len() {
        "pass".to_owned()
    } else {
        let worst = runs.iter().find(|run| !run.pass()).map_or_else(String::new, |run| run.missed.join("; "));
        format!("missed by {} of {} seeds: {worst}", runs.len() - passed, runs.len())
    };
    format!(
        "{:>11}{:>11.3}{:>9.2} %{:>11.2}{:>11}{:>11}{:>11.3}{:>9.2} %  {verdict}",
        span(|run| run.makespan),
        worst(Outcome::makespan_ratio),
        worst(Outcome::rejected_share) * 100.0,
        worst(Outcome::calls_per_job),
        span(|run| run.wait_p50),
        span(|run| run.wait_p99),
        jain,
        worst(Outcome::given_up_share) * 100.0,
    )
}

fn seconds(span: Span) -> String {
    format!("{:.1} s", span.as_secs_f64())
}
