//! The status page: every scope in a few lines of plain HTML. Whatever a caller named is escaped.

use std::fmt::{self, Write as _};
use std::time::Duration;

use paceline_coordinator::scope::{BackingView, BucketView, FloorView, ScopeView, Tally};
use paceline_core::mode::Modes;
use paceline_core::plan::{OurPart, Refill};
use paceline_core::signal::Source;
use paceline_core::units::Span;

use super::replicas::{self, Fleet};
use crate::life::Phase;

/// More scopes than these are only counted.
const MOST_SCOPES: usize = 200;
/// More kinds of calls than these are left to the command line.
const MOST_USAGE: usize = 20;

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;margin:2rem;max-width:70rem;color:#1a1a1a;background:#fff}\
    table{border-collapse:collapse;margin:.3rem 0 1rem}th,td{text-align:left;padding:.15rem .9rem .15rem 0;\
    border-bottom:1px solid #ddd;vertical-align:top}th{font-weight:600;color:#555}.n{text-align:right}\
    h2{margin:1.6rem 0 .2rem;font-size:1.1rem}p{margin:.2rem 0}.quiet{color:#666}.floor{color:#a33}\
    @media(prefers-color-scheme:dark){body{color:#ddd;background:#161616}th,.quiet{color:#999}th,td{border-color:#333}\
    .floor{color:#f88}a{color:#8bf}}";

/// What the page tells.
pub(super) struct Facts<'a> {
    pub(super) version: &'a str,
    pub(super) phase: Phase,
    pub(super) up_for: Duration,
    pub(super) config_file: &'a str,
    pub(super) config_hash: &'a str,
    pub(super) fleet: Fleet<'a>,
    pub(super) scopes: &'a [ScopeView],
}

/// The page as HTML.
pub(super) fn render(facts: &Facts<'_>) -> String {
    let mut page = String::with_capacity(8 * 1024);
    // Writing to a string cannot fail.
    let _ = write(&mut page, facts);
    page
}

fn write(page: &mut String, facts: &Facts<'_>) -> fmt::Result {
    let phase = match facts.phase {
        Phase::Starting => "starting",
        Phase::Ready => "ready",
        Phase::Draining => "draining",
    };
    let up_for = Span::from_secs(i64::try_from(facts.up_for.as_secs()).unwrap_or(i64::MAX));
    let config = if facts.config_file.is_empty() { "no configuration file" } else { facts.config_file };
    write!(
        page,
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>Paceline</title>\
         <meta name=\"viewport\" content=\"width=device-width\"><style>{STYLE}</style></head><body>\
         <h1>Paceline</h1><p>{phase}, up {up_for}, version {}; {} (hash {})</p>\
         <p class=\"quiet\"><a href=\"/metrics\">metrics</a> &middot; <a href=\"/debug/config\">configuration in force</a> \
         &middot; <a href=\"/readyz\">readyz</a> &middot; <a href=\"/healthz\">healthz</a></p>",
        facts.version,
        Escaped(config),
        Escaped(facts.config_hash)
    )?;
    replicas::write(page, &facts.fleet)?;
    if facts.scopes.is_empty() {
        write!(page, "<p>Nobody has asked for a slot in the last two minutes.</p>")?;
    }
    for scope in facts.scopes.iter().take(MOST_SCOPES) {
        write_scope(page, scope)?;
    }
    if let Some(more) = facts.scopes.len().checked_sub(MOST_SCOPES).filter(|more| *more > 0) {
        write!(page, "<p>and {more} more scopes; <code>paceline status</code> lists them all</p>")?;
    }
    write!(page, "</body></html>")
}

fn write_scope(page: &mut String, scope: &ScopeView) -> fmt::Result {
    let waiting: u64 = scope.lanes.iter().map(|lane| lane.depth).sum();
    let account = if scope.account.is_empty() { "(no account)" } else { &scope.account };
    write!(
        page,
        "<h2>{} / {}</h2><p>{waiting} waiting, {} in flight{}</p>",
        Escaped(&scope.provider),
        Escaped(account),
        scope.in_flight,
        Floored(scope.floor)
    )?;
    if !scope.organisations.is_empty() {
        let names = scope.organisations.join(", ");
        write!(page, "<p class=\"floor\">answers name several organisations: {}</p>", Escaped(&names))?;
    }
    if scope.modes != Modes::default() || scope.watched.asks > 0 {
        write!(page, "<p>mode: {}{}</p>", scope.modes, Watched(scope.watched))?;
    }
    for (group, modes) in scope.groups.iter().filter_map(|group| Some((group, group.modes.filter(|own| *own != scope.modes)?)))
    {
        write!(page, "<p>mode of {}: {modes}</p>", Escaped(&group.key))?;
    }
    if !scope.buckets.is_empty() {
        write!(
            page,
            "<table><tr><th>bucket</th><th>group</th><th class=\"n\">level</th><th class=\"n\">limit</th><th>per</th>\
             <th>limit from</th><th class=\"n\">provider said left</th><th>shown by answers</th><th></th></tr>"
        )?;
        scope.buckets.iter().try_for_each(|bucket| write_bucket(page, bucket))?;
        write!(page, "</table>")?;
    }
    for group in scope.groups.iter().filter(|group| group.floor.is_some()) {
        write!(page, "<p>{}{}</p>", Escaped(&group.key), Floored(group.floor))?;
    }
    if !scope.lanes.is_empty() {
        let head = "<th>lane</th><th>class</th><th>tenant</th><th class=\"n\">waiting</th><th>oldest</th><th>for</th>";
        write!(page, "<table><tr>{head}</tr>")?;
        for lane in &scope.lanes {
            write!(
                page,
                "<tr><td>{}</td><td>{}</td><td>{}</td><td class=\"n\">{}</td><td>{}</td><td>{}</td></tr>",
                Escaped(&lane.group),
                lane.class.name(),
                Escaped(&lane.tenant),
                lane.depth,
                lane.oldest_wait,
                reads(lane.waits_for)
            )?;
        }
        write!(page, "</table>")?;
    }
    write_usage(page, scope)
}

/// What calls were seen to use, where anything was.
fn write_usage(page: &mut String, scope: &ScopeView) -> fmt::Result {
    if scope.usage.is_empty() {
        return Ok(());
    }
    let head = "<th>calls of</th><th>label</th><th>meter</th><th class=\"n\">half use</th><th class=\"n\">nine of ten use</th>\
                <th class=\"n\">calls</th><th>last</th>";
    write!(page, "<table><tr>{head}</tr>")?;
    for seen in scope.usage.iter().take(MOST_USAGE) {
        write!(
            page,
            "<tr><td>{}{}</td><td>{}</td><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>\
             <td>{} ago</td></tr>",
            if seen.model.is_empty() { Escaped("any model of") } else { Escaped(&seen.model) },
            if seen.is_media { " (media)" } else { "" },
            Escaped(&seen.label),
            Escaped(&seen.meter),
            seen.median,
            seen.likely,
            seen.calls,
            seen.age
        )?;
    }
    write!(page, "</table>")
}

fn write_bucket(page: &mut String, bucket: &BucketView) -> fmt::Result {
    let number = |number: Option<u64>| number.map_or_else(|| "?".to_owned(), |number| number.to_string());
    let level = bucket.level.map_or_else(|| "?".to_owned(), |level| format!("{level:.0}"));
    let per = match bucket.refill {
        Refill::Held => "in flight".to_owned(),
        Refill::Continuous | Refill::Window => bucket.per.to_string(),
    };
    let told = Backed(bucket.limit_backing);
    let mut from = match (bucket.limit_configured, bucket.limit_learned) {
        (Some(configured), Some(learned)) => format!("configured {configured}, learned {learned}{told}"),
        (Some(_), None) => "configured".to_owned(),
        (None, Some(_)) => format!("learned{told}"),
        (None, None) => "not known yet".to_owned(),
    };
    let (most, least) = (bucket.ours.most.as_millionths(), bucket.ours.least.as_millionths());
    if bucket.ours != OurPart::default() {
        let percent = |millionths: u32| f64::from(millionths) / 1e4;
        write!(from, "; ours: at most {}%, at least {}%", percent(most), percent(least))?;
    }
    let mut shown = Vec::new();
    shown.extend(bucket.limit_measured.map(|units| format!("{units:.0}/min pass{}", Backed(bucket.measured_backing))));
    shown.extend(bucket.foreign_drain.map(|units| format!("others take {units:.0}/min{}", Backed(bucket.drain_backing))));
    shown.extend(bucket.at_once.map(|units| format!("{units:.0} at once{}", Backed(bucket.proof_backing))));
    let shown = shown.join("; ");
    let agreed = bucket.level_backing.map_or(0, |backing| backing.reports);
    let observed = bucket.observed.map_or_else(String::new, |(left, age)| format!("{left}, {age} ago ({agreed} agree)"));
    write!(
        page,
        "<tr><td>{}</td><td>{}</td><td class=\"n\">{level}</td><td class=\"n\">{}</td><td>{per}</td><td>{from}</td>\
         <td class=\"n\">{observed}</td><td>{shown}</td><td>{}</td></tr>",
        Escaped(&bucket.label),
        Escaped(&bucket.group),
        number(bucket.limit_effective),
        Floored(bucket.floor)
    )
}

/// What speaks for a learned value.
struct Backed(Option<BackingView>);

impl fmt::Display for Backed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(BackingView { age, reports, confidence }) = self.0 else { return Ok(()) };
        write!(f, " ({reports} reports, {age} ago, {:.0}% sure)", confidence * 100.0)
    }
}

/// A source as a person reads it.
fn reads(source: Source) -> String {
    source.name().replace('_', " ")
}

/// A floor, if there is one.
struct Floored(Option<FloorView>);

impl fmt::Display for Floored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(floor) = self.0 else { return Ok(()) };
        let (ends_in, source, age) = (floor.ends_in, reads(floor.source), floor.age);
        write!(f, " <span class=\"floor\">nothing for {ends_in} ({source}, set {age} ago)</span>")
    }
}

/// What became of calls that were only watched, if there were any.
struct Watched(Tally);

impl fmt::Display for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { asks, would_wait, would_deny, prevented } = self.0;
        if asks == 0 {
            return Ok(());
        }
        write!(
            f,
            "; of {asks} watched calls {would_wait} would have waited and {would_deny} would have been denied; {prevented} \
             refusals by the provider would not have happened"
        )
    }
}

/// A text that means nothing to a browser.
pub(super) struct Escaped<'a>(pub(super) &'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for letter in self.0.chars() {
            match letter {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                // Bidirectional controls could make a name read as another one.
                '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => f.write_char('\u{fffd}')?,
                letter if letter.is_control() => f.write_char('\u{fffd}')?,
                letter => f.write_char(letter)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use paceline_coordinator::scope::{GroupView, LaneView, UsageView};
    use paceline_core::plan::{Class, Portion};

    use super::*;

    fn nasty() -> ScopeView {
        let evil = "<script>alert('x')</script>\"&\u{202e}".to_owned();
        let floor = FloorView { ends_in: Span::from_secs(9), source: Source::RetryAfterSeconds, age: Span::from_secs(1) };
        ScopeView {
            provider: evil.clone(),
            account: evil.clone(),
            modes: Modes::split(200_000, 800_000),
            organisations: vec![evil.clone(), "org-2".to_owned()],
            watched: Tally { asks: 10, would_wait: 4, would_deny: 1, prevented: 2 },
            buckets: vec![BucketView {
                label: evil.clone(),
                group: evil.clone(),
                meter: evil.clone(),
                limit_configured: Some(60),
                limit_learned: Some(50),
                limit_effective: Some(50),
                per: Span::from_secs(60),
                refill: Refill::Continuous,
                level: Some(-3.2),
                observed: Some((7, Span::from_secs(4))),
                floor: Some(floor),
                foreign_drain: Some(12.0),
                limit_measured: None,
                level_backing: Some(BackingView { age: Span::from_secs(4), reports: 3, confidence: 0.7 }),
                limit_backing: Some(BackingView { age: Span::from_secs(2), reports: 9, confidence: 0.9 }),
                drain_backing: Some(BackingView { age: Span::from_secs(5), reports: 2, confidence: 0.6 }),
                measured_backing: None,
                at_once: Some(40.0),
                proof_backing: None,
                ours: OurPart { least: Portion::from_millionths(200_000), most: Portion::from_millionths(500_000) },
            }],
            usage: vec![UsageView {
                model: evil.clone(),
                label: evil.clone(),
                is_media: true,
                meter: evil.clone(),
                median: 900,
                likely: 1_800,
                calls: 35,
                age: Span::from_secs(6),
            }],
            groups: vec![GroupView { key: evil.clone(), floor: Some(floor), in_flight: 1, waiting: 2, modes: None }],
            lanes: vec![LaneView {
                group: evil.clone(),
                class: Class::Batch,
                tenant: evil.clone(),
                depth: 2,
                oldest_wait: Span::from_secs(3),
                waits_for: Source::RetryAfterSeconds,
            }],
            floor: Some(floor),
            in_flight: 1,
            unread: Vec::new(),
        }
    }

    fn facts<'a>(scopes: &'a [ScopeView], file: &'a str) -> Facts<'a> {
        Facts {
            version: "1.2.3",
            phase: Phase::Ready,
            up_for: Duration::from_secs(65),
            config_file: file,
            config_hash: "abc",
            fleet: Fleet { replicas: &[], me: 1, config_hash: "", now: paceline_core::units::FleetTime::ZERO },
            scopes,
        }
    }

    #[test]
    fn whatever_a_name_says_is_text() {
        let scopes = [nasty()];
        let page = render(&facts(&scopes, "<b>.yaml"));
        assert!(!page.contains("<script") && !page.contains("<b>") && !page.contains('\u{202e}'), "{page}");
        assert_eq!(page.matches("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&quot;&amp;").count(), 11);
    }

    #[test]
    fn it_tells_what_binds() {
        let scopes = [nasty()];
        let page = render(&facts(&scopes, ""));
        for words in [
            "mode: enforce 20%, shadow 80%; of 10 watched calls 4 would have waited",
            "2 refusals",
            "2 waiting, 1 in flight",
            "configured 60, learned 50 (9 reports, 2 s ago, 90% sure); ours: at most 50%, at least 20%",
            "7, 4 s ago (3 agree)",
            "others take 12/min (2 reports, 5 s ago, 60% sure); 40 at once",
            ">900</td><td class=\"n\">1800</td>",
            ">-3<",
            "retry after seconds",
            "9 s",
        ] {
            assert!(page.contains(words), "{words}: {page}");
        }
        assert!(render(&facts(&[], "")).contains("Nobody has asked"));
    }
}
