//! The report for programs: lengths of time in seconds, instants as RFC 3339.

use jiff::Timestamp;
use paceline_core::history::Counts;
use paceline_core::mode::Mode;
use paceline_core::units::Span;
use serde_json::{Map, Value, json};

use super::price::usd;
use super::sum::{Refusals, Seen, Summary, percent};
use super::{Judged, Report};

/// The whole report.
pub(super) fn report(report: &Report) -> Value {
    json!({
        "since": instant(report.now, report.since),
        "until": report.now.to_string(),
        "believable": report.is_believable(),
        "doubts": report.doubts.iter().map(doubt).collect::<Vec<_>>(),
        "silent_replicas": report.silent_replicas,
        "idle_prices": report.idle_prices(),
        "total": summary(report, &report.total),
        "scopes": report.scopes.iter().map(|judged| scope(report, judged)).collect::<Vec<_>>(),
    })
}

fn scope(report: &Report, judged: &Judged) -> Value {
    let mut scope = json!({
        "provider": judged.summary.provider,
        "account": judged.summary.account,
        "believable": judged.doubts.is_empty(),
        "doubts": judged.doubts.iter().map(doubt).collect::<Vec<_>>(),
    });
    if let (Value::Object(scope), Value::Object(figures)) = (&mut scope, summary(report, &judged.summary)) {
        scope.extend(figures);
    }
    scope
}

fn doubt(doubt: &super::believe::Doubt) -> Value {
    json!({ "code": doubt.code, "what": doubt.what, "do": doubt.then })
}

fn summary(report: &Report, summary: &Summary) -> Value {
    let mut modes = Map::new();
    for mode in Mode::ALL {
        let counts = summary.sum.mode(mode);
        modes.insert(mode.name().to_owned(), calls(report, summary, mode, counts));
    }
    json!({
        "modes": modes,
        "lost": summary.sum.lost,
        "hours": summary.hours.iter().map(|seen| hour(report.now, seen)).collect::<Vec<_>>(),
    })
}

fn calls(report: &Report, summary: &Summary, mode: Mode, counts: &Counts) -> Value {
    let refusals = Refusals::of(counts);
    let longest = summary.longest_hour(mode).map(|seen| {
        json!({ "began": instant(report.now, seen.age), "total_s": seen.counted.mode(mode).waits.total().as_secs_f64() })
    });
    let units = |(meter, units): (&String, &paceline_core::history::Units)| {
        (meter.clone(), json!({ "used": units.used, "retried": units.retried, "refused": units.refused }))
    };
    json!({
        "calls": counts.asks,
        "calls_if_enforced": (mode == Mode::Shadow).then(|| summary.would_send()),
        "needless": counts.needless,
        "judged": counts.judged,
        "answers": counts.answers,
        "unanswered": counts.unanswered,
        "silent_answers": counts.silent,
        "refused": {
            "now": refusals.now,
            "share": percent(refusals.now, counts.answers) / 100.0,
            "prevented": refusals.prevented,
            "if_enforced": refusals.left(),
            "without_retry_after": counts.unsaid,
            "by_status": counts.refused.iter().map(|(status, count)| (status.to_string(), json!(count))).collect::<Map<_, _>>(),
        },
        "waits": {
            "calls": counts.waits.count,
            "total_s": counts.waits.total().as_secs_f64(),
            "mean_s": counts.waits.mean().as_secs_f64(),
            "p50_s": counts.waits.quantile(500).as_secs_f64(),
            "p99_s": counts.waits.quantile(990).as_secs_f64(),
            "longest_hour": longest,
        },
        "denied": counts.denied.iter().map(|(reason, count)| (reason.clone(), json!(count))).collect::<Map<_, _>>(),
        "retries": counts.retries,
        "units": counts.units.iter().map(units).collect::<Map<_, _>>(),
        "usd": {
            "retried": usd(&report.prices, counts, |units| units.retried),
            "refused": usd(&report.prices, counts, |units| units.refused),
        },
    })
}

fn hour(now: Timestamp, seen: &Seen) -> Value {
    let of = |mode: Mode| {
        let counts = seen.counted.mode(mode);
        json!({
            "calls": counts.asks,
            "refused": counts.all_refused(),
            "prevented": counts.prevented,
            "waited": counts.waits.count,
            "wait_s": counts.waits.total().as_secs_f64(),
            "denied": counts.all_denied(),
        })
    };
    let modes: Map<String, Value> = Mode::ALL.into_iter().map(|mode| (mode.name().to_owned(), of(mode))).collect();
    json!({ "began": instant(now, seen.age), "modes": modes })
}

/// An instant so long ago, to the second: answers take a moment.
pub(super) fn instant(now: Timestamp, ago: Span) -> String {
    let at = Timestamp::from_microsecond(now.as_microsecond().saturating_sub(ago.as_micros())).unwrap_or(Timestamp::UNIX_EPOCH);
    at.round(jiff::Unit::Second).unwrap_or(at).to_string()
}
