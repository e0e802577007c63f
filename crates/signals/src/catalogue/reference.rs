//! `docs/reference/providers.md`, made from the files of the catalogue: this compares it, and writes it with `UPDATE=1`.
#![allow(clippy::expect_used)]

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::Path;

use paceline_core::signal::ResetMeans;

use super::body_facts::BodyFacts;
use super::built_in::FILES;
use super::facts::{AnswerFact, BucketFact, FamilyFact, MeterFact, PartFact, ProviderFacts, Unusable};
use super::provenance::Provenance;
use super::provider::parse_facts;
use crate::value::time::TimeForm;

const INTRODUCTION: &str = "\
# Providers

<!-- Generated from crates/signals/catalogue: UPDATE=1 cargo test -p paceline-signals --lib reference -->

What Paceline knows of each provider: one file of [crates/signals/catalogue](../../crates/signals/catalogue) each. A provider that is
not here is read by what everybody does ([`generic`](#generic)); how to add one is told in
[adding a provider](../adding-a-provider.md), how an answer is read in [internals](../internals/reading-headers.md).

Every fact has a source, the day somebody last looked (`checked`), and how sure it is: `document` (the vendor's or a standard's page),
`sdk` (source of the vendor's SDK), `recorded` (a real answer), `measured`, `third-party` (only tests or write-ups of others), `unsure`.
What is old or not sure is a first guess: the headers of the first answers correct limits, and
`paceline_unread_headers_total` counts what a provider says that no file knows. A file says only what differs from the one it extends.
";

#[test]
fn the_page_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/providers.md");
    let page = page();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &page).expect("the page can be written");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "docs/reference/providers.md is out of date: UPDATE=1 cargo test -p paceline-signals --lib reference"
    );
}

fn page() -> String {
    let mut files: Vec<(&str, ProviderFacts)> =
        FILES.iter().map(|(name, yaml)| (*name, parse_facts(yaml, name).expect("a built-in file"))).collect();
    // What everybody does comes last: it is long, and looked up from the others.
    files.sort_by_key(|(name, _)| (*name == super::GENERIC, *name));
    let mut page = INTRODUCTION.to_owned();
    page.push_str(&overview(&files));
    for (name, facts) in &files {
        page.push_str(&section(name, facts));
    }
    page
}

fn overview(files: &[(&str, ProviderFacts)]) -> String {
    let rows = files.iter().map(|(name, facts)| {
        let facts_of_file = facts.provenances();
        let oldest = facts_of_file.iter().filter_map(|(_, provenance)| provenance.checked).min();
        let mut sures: Vec<_> = facts_of_file.iter().filter_map(|(_, provenance)| provenance.sure).collect();
        sures.sort_unstable();
        sures.dedup();
        vec![
            format!("[{}](#{})", facts.title.as_deref().unwrap_or(name), name),
            code_list(std::iter::once(*name).chain(facts.also_called.iter().map(String::as_str))),
            code_list(facts.meters.keys()),
            sures.iter().map(|sure| sure.name()).collect::<Vec<_>>().join(", "),
            oldest.map(|day| day.to_string()).unwrap_or_default(),
        ]
    });
    table(&["provider", "names in the configuration", "counts", "how sure", "oldest check"], rows.collect())
}

fn section(name: &str, facts: &ProviderFacts) -> String {
    let title = facts.title.as_deref().unwrap_or(name);
    let base = facts.extends.as_deref().unwrap_or(super::GENERIC);
    let extends = if name == super::GENERIC { String::new() } else { format!(", extends [`{base}`](#{base})") };
    let version = facts.version.map(|version| format!("; version {version}")).unwrap_or_default();
    let mut text = format!("## {name}\n\n{title}{extends}{version}.\n\n");
    text.push_str(&titled("What it counts", &["meter", "refill", "window", "a reset is", "whose", "more"], meters(facts)));
    text.push_str(&titled("Headers", &["name", "says", "of"], headers(facts)));
    text.push_str(&titled("Bodies", &["where", "says"], bodies(&facts.body)));
    text.push_str(&titled("Answers", &["status", "when", "is", "again later"], answers(&facts.answers)));
    let endpoints = facts.endpoints.iter().map(|fact| (vec![code(&fact.path), words(&fact.repeat)], fact.provenance()));
    text.push_str(&titled("May a call be sent twice?", &["path", "repeat"], endpoints.collect()));
    text.push_str(&titled("What `paceline probe` sends", &["call", "to", "the key in", "model"], probe(facts)));
    text.push_str(&titled("Published limits", &["tier", "models", "limits"], limits(facts)));
    text
}

/// What a row says, and where it is from.
type Row = (Vec<String>, Provenance);

fn meters(facts: &ProviderFacts) -> Vec<Row> {
    let more = |fact: &MeterFact| {
        let zone = fact.zone.as_ref().map(|zone| format!("days end in {zone}"));
        let charge = fact.charge.map(|charge| format!("units are {}", words(&charge)));
        let step = fact.step.map(|step| format!("figures are rounded to {step}"));
        zone.into_iter().chain(charge).chain(step).chain(fact.note.clone()).collect::<Vec<_>>().join("; ")
    };
    let meters = facts.meters.iter().map(|(meter, fact)| {
        let cells = vec![
            code(meter),
            fact.refill.map_or_else(|| "learned".to_owned(), |refill| words(&refill)),
            fact.window.map(|window| window.span().to_string()).unwrap_or_default(),
            fact.reset_means.map(reset_means).unwrap_or_default(),
            fact.owner.map(|owner| words(&owner)).unwrap_or_default(),
            more(fact),
        ];
        (cells, fact.provenance())
    });
    let backoff = facts.min_backoff.iter().map(|fact| {
        let least = format!("after a refusal that says nothing: {} at least", fact.at_least.span());
        (vec![String::new(), String::new(), String::new(), String::new(), String::new(), least], fact.provenance())
    });
    meters.chain(backoff).collect()
}

fn headers(facts: &ProviderFacts) -> Vec<Row> {
    let waits = facts.waits.iter().map(|fact| {
        let unusable = match fact.unusable {
            Unusable::DoNotRetry => "; unusable: do not send again",
            _ => "",
        };
        (
            vec![code(&fact.header), format!("how long to wait: {}{unusable}", forms(&fact.forms)), "the call".to_owned()],
            fact.provenance(),
        )
    });
    let flags = facts.retry_flags.iter().map(|fact| {
        (vec![code(&fact.header), "whether to send again: true, false".to_owned(), "the call".to_owned()], fact.provenance())
    });
    let families = facts.families.iter().map(|fact| (vec![names(fact), parts(&fact.parts), buckets(fact)], fact.provenance()));
    let fields = facts.rate_limit_fields.iter().map(|fact| {
        let names = code_list([&fact.header, &fact.policy]);
        (vec![names, "structured fields, list or dictionary".to_owned(), "the buckets they name".to_owned()], fact.provenance())
    });
    let refusals = facts.refusals.iter().map(|fact| {
        let says = format!("which bucket refused, and until when: {}", forms(&fact.forms));
        (vec![code_list([&fact.header, &fact.reset]), says, "the bucket it names".to_owned()], fact.provenance())
    });
    let prefixes = facts.prefixes.iter().map(|fact| {
        (
            vec![code(&format!("{}*", fact.prefix)), "what the provider behind it said".to_owned(), String::new()],
            fact.provenance(),
        )
    });
    let known = facts
        .known
        .iter()
        .map(|fact| (vec![code_list(&fact.headers), "nothing to act on".to_owned(), String::new()], fact.provenance()));
    waits.chain(flags).chain(families).chain(fields).chain(refusals).chain(prefixes).chain(known).collect()
}

/// Templates with the words that stand for the part, when they are few.
fn names(fact: &FamilyFact) -> String {
    let parts = fact.parts.keys().map(String::as_str).collect::<Vec<_>>().join(",");
    let filled = |template: &String| match fact.parts.len() {
        1 => template.replace("{part}", &parts),
        2..=6 => template.replace("{part}", &format!("{{{parts}}}")),
        _ => template.clone(),
    };
    code_list(fact.names.iter().map(filled))
}

fn parts(parts: &BTreeMap<String, PartFact>) -> String {
    let one = |(word, fact): (&String, &PartFact)| {
        let quantity = words(&fact.reads);
        let what = if *word == quantity { quantity } else { format!("{word} = {quantity}") };
        let how = match (fact.forms.as_slice(), fact.members.is_empty()) {
            (_, false) => format!(" ({})", self::parts(&fact.members)),
            ([], _) => String::new(),
            (forms, _) => format!(" ({})", self::forms(forms)),
        };
        let empty = if fact.empty.is_empty() { String::new() } else { format!(" (used up: {})", fact.empty.join(", ")) };
        format!("{what}{how}{empty}")
    };
    parts.iter().map(one).collect::<Vec<_>>().join("; ")
}

fn buckets(fact: &FamilyFact) -> String {
    let one = |bucket: &BucketFact| {
        let name = bucket
            .name
            .clone()
            .unwrap_or_else(|| format!("{}{}", bucket.meter, bucket.window.map_or("", super::Window::suffix)));
        code(&name)
    };
    let mut named: Vec<String> = fact.buckets.values().chain(&fact.bucket).map(one).collect();
    named.dedup();
    let is_open = fact.names.iter().any(|name| name.contains("{bucket}"));
    match (named.is_empty(), is_open) {
        (true, true) => "the bucket in its name".to_owned(),
        (true, false) => "`requests`".to_owned(),
        (false, _) => named.join(", "),
    }
}

fn bodies(body: &BodyFacts) -> Vec<Row> {
    let waits = body.waits.iter().map(|fact| {
        let says = if fact.fields.is_empty() {
            format!("a sentence with the wait after: {}", fact.after.join(", "))
        } else {
            format!("how long to wait: {}", forms(&fact.forms))
        };
        (vec![code_list(&fact.fields), says], fact.provenance())
    });
    let buckets = body.buckets.iter().map(|fact| {
        let rate = fact.per_second.as_ref().map(|path| format!(", per second in `{path}`")).unwrap_or_default();
        let cost = fact.cost.as_ref().map(|path| format!(", the cost in `{path}`")).unwrap_or_default();
        let says = format!("`{}`: limit in `{}`, the rest here{rate}{cost}", fact.bucket.meter, fact.limit);
        (vec![code(&fact.remaining), says], fact.provenance())
    });
    let quotas = body.quotas.iter().map(|fact| {
        let zone = fact.zone.as_ref().map(|zone| format!("; a day ends in {zone}")).unwrap_or_default();
        (vec![code(&fact.at), format!("quotas that are used up, by `{}`{zone}", fact.name)], fact.provenance())
    });
    let repeated = body.headers.iter().map(|fact| (vec![code(&fact.at), "header fields".to_owned()], fact.provenance()));
    let lists = body.lists.iter().map(|fact| {
        (
            vec![code(&fact.at), format!("a list of buckets, reset in `{}`: {}", fact.reset, forms(&fact.forms))],
            fact.provenance(),
        )
    });
    waits.chain(buckets).chain(quotas).chain(repeated).chain(lists).collect()
}

fn answers(rules: &[AnswerFact]) -> Vec<Row> {
    let rule = |fact: &AnswerFact| {
        let grpc = if fact.grpc.is_empty() { String::new() } else { format!("gRPC {}", fact.grpc) };
        let status = [fact.status.to_string(), grpc].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(", ");
        let said = |what: &str, is: Option<bool>| is.map(|is| if is { what.to_owned() } else { format!("not: {what}") });
        let mut when: Vec<String> = Vec::new();
        when.extend((!fact.code.is_empty()).then(|| format!("code {}", code_list(&fact.code))));
        when.extend((!fact.text.is_empty()).then(|| format!("text \"{}\"", fact.text.join("\", \""))));
        when.extend(fact.header.as_ref().map(|header| format!("`{}`: {}", header.name, header.is.join(", "))));
        when.extend(said("a wait is stated", fact.wait));
        when.extend(said("a bucket is empty", fact.empty));
        when.extend(said("a quota of zero is named", fact.zero));
        let again = fact.retryable.map(|yes| if yes { "yes" } else { "no" }.to_owned()).unwrap_or_default();
        (vec![status, when.join("; "), words(&fact.kind), again], fact.provenance())
    };
    rules.iter().map(rule).collect()
}

fn limits(facts: &ProviderFacts) -> Vec<Row> {
    let list = |limits: &BTreeMap<String, super::Limit>| {
        limits.iter().map(|(meter, limit)| format!("{meter} {limit}")).collect::<Vec<_>>().join(", ")
    };
    let tiers = facts.tiers.iter().flat_map(|(tier, fact)| {
        fact.models.iter().map(move |(pattern, limits)| (vec![tier.clone(), code(pattern), list(limits)], fact.provenance()))
    });
    let models = facts
        .models
        .iter()
        .map(|(pattern, fact)| (vec!["all".to_owned(), code(pattern), list(&fact.limits)], fact.provenance()));
    let aliases = facts.aliases.iter().map(|fact| {
        (vec!["all".to_owned(), code_list(&fact.names), format!("shared with `{}`", fact.model)], fact.provenance())
    });
    tiers.chain(models).chain(aliases).collect()
}

/// What the file itself says of it.
fn probe(facts: &ProviderFacts) -> Vec<Row> {
    let Some(fact) = &facts.probe else { return Vec::new() };
    let call = fact.call.as_ref().map(|call| {
        let method = if call.body.is_some() { "POST" } else { "GET" };
        let path = if call.path.is_empty() { "the address".to_owned() } else { code(&call.path) };
        let tokens = call.most_tokens.map_or_else(
            || "price not known".to_owned(),
            |most| match most {
                0 => "free".to_owned(),
                most => format!("at most {most} tokens"),
            },
        );
        format!("{method} {path}, {tokens}")
    });
    let to = fact.base_url.as_deref().map_or_else(|| "the address that is named".to_owned(), |url| code(&url));
    let key = fact.key.as_ref().map(|key| code(&format!("{}: {}KEY", key.header, key.before)));
    let cells = vec![call.unwrap_or_default(), to, key.unwrap_or_default(), fact.model.as_ref().map(code).unwrap_or_default()];
    vec![(cells, fact.provenance())]
}

/// A table with provenance behind it; nothing without rows.
fn titled(title: &str, heads: &[&str], rows: Vec<Row>) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let rows = rows.into_iter().map(|(mut cells, provenance)| {
        cells.push(provenance.sure.map(|sure| sure.name().to_owned()).unwrap_or_default());
        cells.push(provenance.checked.map(|day| day.to_string()).unwrap_or_default());
        cells.push(provenance.source.unwrap_or_default());
        cells
    });
    let heads: Vec<&str> = heads.iter().copied().chain(["sure", "checked", "source"]).collect();
    format!("**{title}**\n{}", table(&heads, rows.collect()))
}

/// A table; columns that are empty throughout are left out.
fn table(heads: &[&str], rows: Vec<Vec<String>>) -> String {
    let is_used = |column: usize| rows.iter().any(|row| row.get(column).is_some_and(|cell| !cell.is_empty()));
    let used: Vec<usize> = (0..heads.len()).filter(|column| is_used(*column)).collect();
    let line = |cell: &dyn Fn(usize) -> String| {
        let cells: Vec<String> = used.iter().map(|column| cell(*column).replace('|', "\\|")).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let mut text = String::from("\n");
    text.push_str(&line(&|column| heads.get(column).copied().unwrap_or_default().to_owned()));
    text.push_str(&line(&|_| "---".to_owned()));
    for row in &rows {
        text.push_str(&line(&|column| row.get(column).cloned().unwrap_or_default()));
    }
    text.push('\n');
    text
}

fn reset_means(means: ResetMeans) -> String {
    match means {
        ResetMeans::Full => "full again",
        ResetMeans::Window => "its window's end",
        ResetMeans::Unspecified => "",
    }
    .to_owned()
}

fn forms(forms: &[TimeForm]) -> String {
    let name = |form: &TimeForm| match form {
        TimeForm::Rfc3339 => "RFC 3339".to_owned(),
        TimeForm::HttpDate => "HTTP-date".to_owned(),
        TimeForm::RetryInfo => "google.rpc.RetryInfo".to_owned(),
        TimeForm::StatusDetails => "google.rpc.Status".to_owned(),
        other => words(other),
    };
    forms.iter().map(name).collect::<Vec<_>>().join(" or ")
}

/// `SecondsOrEpoch` is "seconds or epoch".
fn words(name: &impl Debug) -> String {
    let mut words = String::new();
    for character in format!("{name:?}").chars() {
        if character.is_ascii_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.push(character.to_ascii_lowercase());
    }
    words
}

fn code(text: &impl ToString) -> String {
    format!("`{}`", text.to_string())
}

fn code_list<T: ToString>(texts: impl IntoIterator<Item = T>) -> String {
    texts.into_iter().map(|text| code(&text)).collect::<Vec<_>>().join(", ")
}
