//! One run, second by second.

use std::io::Write;

use paceline_core::signal::Source;
use paceline_core::units::Span;
use paceline_fleet_sim::scenario::Scenario;
use paceline_fleet_sim::{Recording, run_recorded};

use super::SimulateFailure;

/// Writes a CSV with a line per second of each run; columns of sources that nobody waited for are left out.
pub(super) fn write(
    out: &mut dyn Write,
    scenarios: &[Scenario],
    strategies: &[&str],
    seed: u64,
) -> Result<(), SimulateFailure> {
    let mut recordings = Vec::new();
    for scenario in scenarios {
        for strategy in strategies {
            recordings.push(run_recorded(scenario, strategy, seed, Span::from_secs(1))?.1);
        }
    }
    let seen: Vec<(usize, Source)> =
        Source::ALL.iter().copied().enumerate().filter(|(at, _)| is_seen(&recordings, *at)).collect();
    write!(out, "scenario,strategy,seed,second,sends,rejections,level,meter")?;
    for (_, source) in &seen {
        write!(out, ",waiting_{}", source.name())?;
    }
    writeln!(out)?;
    for recording in &recordings {
        let rows = recording.sends.iter().zip(&recording.rejections).zip(&recording.level).zip(&recording.waiting_by_source);
        for (second, (((sends, rejections), level), waiting)) in rows.enumerate() {
            let Recording { title, strategy, seed, level_meter, .. } = recording;
            write!(out, "{title},{strategy},{seed},{second},{sends},{rejections},{level},{level_meter}")?;
            for (at, _) in &seen {
                write!(out, ",{:.1}", waiting.get(*at).copied().unwrap_or(0.0))?;
            }
            writeln!(out)?;
        }
    }
    Ok(())
}

fn is_seen(recordings: &[Recording], source: usize) -> bool {
    let mut bins = recordings.iter().flat_map(|recording| &recording.waiting_by_source);
    bins.any(|bin| bin.get(source).is_some_and(|waiting| *waiting > 0.0))
}
