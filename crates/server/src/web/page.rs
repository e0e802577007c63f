//! The status page: every scope in a few lines of plain HTML. Whatever a caller named is escaped.

use std::fmt::{self, Write as _};
use std::time::Duration;

use paceline_core::units::Span;
use paceline_proto::{convert, v1};
use prost_types::Duration as Length;

use super::fleet;
use crate::life::Phase;

/// More scopes than these are only counted.
pub(super) const MOST_SCOPES: usize = 200;
/// More kinds of calls than these are left to the command line.
const MOST_USAGE: usize = 20;

const ENFORCE: i32 = v1::Mode::Enforce as i32;

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
    /// Who serves, and what is live.
    pub(super) list: &'a v1::ListScopesResponse,
    /// Of these the first [`MOST_SCOPES`], in full.
    pub(super) scopes: &'a [v1::GetScopeResponse],
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
    fleet::write(page, facts.list, facts.config_hash)?;
    if facts.scopes.is_empty() {
        write!(page, "<p>Nobody has asked for a slot in the last two minutes.</p>")?;
    }
    for scope in facts.scopes {
        write_scope(page, scope)?;
    }
    if let Some(more) = facts.list.scopes.len().checked_sub(MOST_SCOPES).filter(|more| *more > 0) {
        write!(page, "<p>and {more} more scopes; <code>paceline status</code> lists them all</p>")?;
    }
    write!(page, "</body></html>")
}

fn write_scope(page: &mut String, scope: &v1::GetScopeResponse) -> fmt::Result {
    let waiting: u64 = scope.lanes.iter().map(|lane| lane.depth).sum();
    let account = if scope.account.is_empty() { "(no account)" } else { &scope.account };
    write!(
        page,
        "<h2>{} / {}</h2><p>{waiting} waiting, {} in flight{}</p>",
        Escaped(&scope.provider),
        Escaped(account),
        scope.in_flight,
        Floored(scope.floor.as_ref())
    )?;
    fleet::write_who_decides(page, scope)?;
    if !scope.organisations.is_empty() {
        let names = scope.organisations.join(", ");
        write!(page, "<p class=\"floor\">answers name several organisations: {}</p>", Escaped(&names))?;
    }
    let is_usual = matches!(scope.modes.as_slice(), [] | [v1::ModeShare { mode: ENFORCE, .. }]);
    if !is_usual || scope.watched.is_some() {
        write!(page, "<p>mode: {}{}</p>", Modes(&scope.modes), Watched(scope.watched))?;
    }
    for group in scope.groups.iter().filter(|group| !group.modes.is_empty() && group.modes != scope.modes) {
        write!(page, "<p>mode of {}: {}</p>", Escaped(&group.key), Modes(&group.modes))?;
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
        write!(page, "<p>{}{}</p>", Escaped(&group.key), Floored(group.floor.as_ref()))?;
    }
    if !scope.lanes.is_empty() {
        let head = "<th>lane</th><th>class</th><th>tenant</th><th class=\"n\">waiting</th><th>oldest</th><th>for</th>";
        write!(page, "<table><tr>{head}</tr>")?;
        for lane in &scope.lanes {
            write!(
                page,
                "<tr><td>{}</td><td>{}</td><td>{}</td><td class=\"n\">{}</td><td>{}</td><td>{}</td></tr>",
                Escaped(&lane.group),
                word(lane.priority().as_str_name(), "PRIORITY_"),
                Escaped(&lane.tenant),
                lane.depth,
                span(lane.oldest_wait.as_ref()),
                reads(lane.waits_for)
            )?;
        }
        write!(page, "</table>")?;
    }
    write_usage(page, scope)
}

/// What calls were seen to use, where anything was.
fn write_usage(page: &mut String, scope: &v1::GetScopeResponse) -> fmt::Result {
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
            if seen.media { " (media)" } else { "" },
            Escaped(&seen.label),
            Escaped(&seen.meter),
            seen.median,
            seen.likely,
            seen.calls,
            span(seen.age.as_ref())
        )?;
    }
    write!(page, "</table>")
}

fn write_bucket(page: &mut String, bucket: &v1::Bucket) -> fmt::Result {
    let number = |number: Option<u64>| number.map_or_else(|| "?".to_owned(), |number| number.to_string());
    let level = bucket.level.map_or_else(|| "?".to_owned(), |level| format!("{level:.0}"));
    let per = match bucket.refill() {
        v1::Refill::Held => "in flight".to_owned(),
        _ => bucket.window.as_ref().map_or_else(|| "?".to_owned(), |window| span(Some(window)).to_string()),
    };
    let told = Backed(bucket.limit_evidence);
    let mut from = match (bucket.limit_configured, bucket.limit_learned) {
        (Some(configured), Some(learned)) => format!("configured {configured}, learned {learned}{told}"),
        (Some(_), None) => "configured".to_owned(),
        (None, Some(_)) => format!("learned{told}"),
        (None, None) => "not known yet".to_owned(),
    };
    // Parts are told to a millionth.
    let percent = |part: f64| (part * 1e6).round() / 1e4;
    let (most, least) = (percent(bucket.r#use), percent(bucket.share));
    if most < 100.0 || least > 0.0 {
        write!(from, "; ours: at most {most}%, at least {least}%")?;
    }
    let mut shown = Vec::new();
    shown.extend(bucket.limit_measured.map(|units| format!("{units:.0}/min pass{}", Backed(bucket.limit_measured_evidence))));
    shown.extend(
        bucket.foreign_drain.map(|units| format!("others take {units:.0}/min{}", Backed(bucket.foreign_drain_evidence))),
    );
    shown.extend(bucket.at_once.map(|units| format!("{units:.0} at once{}", Backed(bucket.at_once_evidence))));
    let shown = shown.join("; ");
    let agreed = bucket.level_evidence.map_or(0, |evidence| evidence.reports);
    let observed = bucket
        .observed_remaining
        .map_or_else(String::new, |left| format!("{left}, {} ago ({agreed} agree)", span(bucket.observed_age.as_ref())));
    write!(
        page,
        "<tr><td>{}</td><td>{}</td><td class=\"n\">{level}</td><td class=\"n\">{}</td><td>{per}</td><td>{from}</td>\
         <td class=\"n\">{observed}</td><td>{shown}</td><td>{}</td></tr>",
        Escaped(&bucket.label),
        Escaped(&bucket.group),
        number(bucket.limit_effective),
        Floored(bucket.floor.as_ref())
    )
}

/// What speaks for a learned value.
struct Backed(Option<v1::Evidence>);

impl fmt::Display for Backed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(v1::Evidence { age, reports, confidence }) = self.0 else { return Ok(()) };
        write!(f, " ({reports} reports, {} ago, {:.0}% sure)", span(age.as_ref()), confidence * 100.0)
    }
}

/// A source as a person reads it.
fn reads(source: i32) -> String {
    convert::source(source).name().replace('_', " ")
}

/// A value of an enum without its prefix.
fn word(name: &str, prefix: &str) -> String {
    name.strip_prefix(prefix).unwrap_or(name).to_lowercase()
}

/// A length of time as a person reads it.
pub(super) fn span(length: Option<&Length>) -> Span {
    let Some(Length { seconds, nanos }) = length else { return Span::ZERO };
    Span::from_secs(*seconds).saturating_add(Span::from_micros(i64::from(*nanos) / 1_000))
}

/// The word, or the parts: `enforce 20%, shadow 80%`.
struct Modes<'a>(&'a [v1::ModeShare]);

impl fmt::Display for Modes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [.., last] = self.0 else { return f.write_str("enforce") };
        for share in self.0 {
            f.write_str(&word(share.mode().as_str_name(), "MODE_"))?;
            if self.0.len() > 1 {
                write!(f, " {}%", (share.share * 1e4).round() / 1e2)?;
                f.write_str(if std::ptr::eq(share, last) { "" } else { ", " })?;
            }
        }
        Ok(())
    }
}

/// A floor, if there is one.
struct Floored<'a>(Option<&'a v1::Floor>);

impl fmt::Display for Floored<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(floor) = self.0 else { return Ok(()) };
        let (ends_in, age) = (span(floor.ends_in.as_ref()), span(floor.age.as_ref()));
        write!(f, " <span class=\"floor\">nothing for {ends_in} ({}, set {age} ago)</span>", reads(floor.source))
    }
}

/// What became of calls that were only watched, if there were any.
struct Watched(Option<v1::WatchedCalls>);

impl fmt::Display for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(v1::WatchedCalls { asks, would_wait, would_deny, prevented }) = self.0 else { return Ok(()) };
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
    use super::*;

    fn secs(seconds: i64) -> Option<Length> {
        Some(Length { seconds, nanos: 0 })
    }

    fn evidence(age: i64, reports: u32, confidence: f64) -> Option<v1::Evidence> {
        Some(v1::Evidence { age: secs(age), reports, confidence })
    }

    fn nasty() -> v1::GetScopeResponse {
        let evil = "<script>alert('x')</script>\"&\u{202e}".to_owned();
        let floor = Some(v1::Floor { ends_in: secs(9), source: v1::Source::RetryAfterSeconds.into(), age: secs(1) });
        let share = |mode: v1::Mode, share| v1::ModeShare { mode: mode.into(), share };
        v1::GetScopeResponse {
            provider: evil.clone(),
            account: evil.clone(),
            modes: vec![share(v1::Mode::Enforce, 0.2), share(v1::Mode::Shadow, 0.8)],
            organisations: vec![evil.clone(), "org-2".to_owned()],
            watched: Some(v1::WatchedCalls { asks: 10, would_wait: 4, would_deny: 1, prevented: 2 }),
            leader: Some(v1::Leader { replica: 7, address: evil.clone(), ..v1::Leader::default() }),
            buckets: vec![v1::Bucket {
                label: evil.clone(),
                group: evil.clone(),
                meter: evil.clone(),
                limit_configured: Some(60),
                limit_learned: Some(50),
                limit_effective: Some(50),
                window: secs(60),
                refill: v1::Refill::Continuous.into(),
                level: Some(-3.2),
                observed_remaining: Some(7),
                observed_age: secs(4),
                floor,
                foreign_drain: Some(12.0),
                level_evidence: evidence(4, 3, 0.7),
                limit_evidence: evidence(2, 9, 0.9),
                foreign_drain_evidence: evidence(5, 2, 0.6),
                at_once: Some(40.0),
                share: 0.2,
                r#use: 0.5,
                ..v1::Bucket::default()
            }],
            usage: vec![v1::LearnedUsage {
                model: evil.clone(),
                label: evil.clone(),
                media: true,
                meter: evil.clone(),
                median: 900,
                likely: 1_800,
                calls: 35,
                age: secs(6),
            }],
            groups: vec![v1::Group { key: evil.clone(), floor, in_flight: 1, waiting: 2, modes: Vec::new() }],
            lanes: vec![v1::Lane {
                group: evil.clone(),
                priority: v1::Priority::Batch.into(),
                tenant: evil.clone(),
                depth: 2,
                oldest_wait: secs(3),
                waits_for: v1::Source::RetryAfterSeconds.into(),
            }],
            floor,
            in_flight: 1,
            ..v1::GetScopeResponse::default()
        }
    }

    fn page(list: &v1::ListScopesResponse, scopes: &[v1::GetScopeResponse], file: &str) -> String {
        render(&Facts {
            version: "1.2.3",
            phase: Phase::Ready,
            up_for: Duration::from_secs(65),
            config_file: file,
            config_hash: "abc",
            list,
            scopes,
        })
    }

    #[test]
    fn whatever_a_name_says_is_text() {
        let evil = "<script>".to_owned();
        let replica = |id| v1::Replica { id, address: evil.clone(), version: evil.clone(), ..v1::Replica::default() };
        let store = v1::Store { address: evil.clone(), away_for: secs(3), problem: evil.clone(), among: 2 };
        let list = v1::ListScopesResponse {
            replicas: vec![replica(1), replica(2)],
            store: Some(store),
            ..v1::ListScopesResponse::default()
        };
        let page = page(&list, &[nasty()], "<b>.yaml");
        assert!(!page.contains("<script") && !page.contains("<b>") && !page.contains('\u{202e}'), "{page}");
        assert_eq!(page.matches("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&quot;&amp;").count(), 12);
    }

    #[test]
    fn it_tells_what_binds() {
        let list = v1::ListScopesResponse::default();
        let told = page(&list, &[nasty()], "");
        for words in [
            "mode: enforce 20%, shadow 80%; of 10 watched calls 4 would have waited",
            "2 refusals",
            "2 waiting, 1 in flight",
            "which does not answer: calls that wait there are not shown",
            "configured 60, learned 50 (9 reports, 2 s ago, 90% sure); ours: at most 50%, at least 20%",
            "7, 4 s ago (3 agree)",
            "others take 12/min (2 reports, 5 s ago, 60% sure); 40 at once",
            ">900</td><td class=\"n\">1800</td>",
            ">-3<",
            "retry after seconds",
            "9 s",
        ] {
            assert!(told.contains(words), "{words}: {told}");
        }
        assert!(page(&list, &[], "").contains("Nobody has asked"));
    }
}
