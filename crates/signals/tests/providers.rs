//! What must hold for every provider of the catalogue, whatever anybody sends in its name: 200 answers each, more when
//! `PACELINE_LONG_TESTS` is set.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod support;

use std::collections::{BTreeMap, BTreeSet};

use paceline_core::signal::{AnswerKind, Signal, Source};
use paceline_core::units::{FleetTime, Span};
use paceline_signals::{Answer, LONGEST_READ, Provider, catalogue, read};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use support::arbitrary::{body, name, value};
use support::{Case, cases};

const NOW: FleetTime = FleetTime::from_secs(1_770_379_200);

/// An answer that may come from anywhere.
#[derive(Clone, Debug)]
struct Anything {
    status: u16,
    headers: Vec<(String, Vec<u8>)>,
    body: Vec<u8>,
}

impl Anything {
    fn read(&self, provider: &Provider) -> Signal {
        let headers: Vec<(&str, &[u8])> = self.headers.iter().map(|(name, value)| (name.as_str(), value.as_slice())).collect();
        let answer =
            Answer { status: self.status, headers: &headers, body: &self.body, received_at: Some(NOW), ..Answer::default() };
        read(provider, &answer)
    }

    fn with(&self, more: (String, Vec<u8>)) -> Self {
        let headers = self.headers.iter().cloned().chain([more]).collect();
        Self { headers, ..self.clone() }
    }
}

/// The provider's own names with its own values and with any others, bodies of its own (whole or cut) and any others.
fn anything(own: &[Case]) -> impl Strategy<Value = Anything> + use<> {
    let lines: Vec<(String, Vec<u8>)> = own
        .iter()
        .flat_map(|case| &case.headers)
        .map(|(name, value)| (name.clone(), value.clone().into_bytes()))
        .chain([("retry-after".to_owned(), b"7".to_vec())])
        .collect();
    let names: BTreeSet<String> = lines.iter().map(|(name, _)| name.clone()).collect();
    let own_name = prop::sample::select(names.into_iter().collect::<Vec<_>>());
    let header = prop_oneof![
        3 => prop::sample::select(lines),
        3 => (own_name, value()),
        1 => (name(), value()),
    ];
    let bodies: Vec<String> = own.iter().map(|case| case.body.clone().unwrap_or_default()).collect();
    let own_body = (prop::sample::select(bodies), 0.0..1.2_f64).prop_map(|(body, share)| {
        let mut bytes = body.into_bytes();
        let length = (bytes.len() as f64 * share) as usize;
        bytes.truncate(length);
        bytes
    });
    let body = prop_oneof![2 => own_body, 1 => body()];
    let status = prop_oneof![
        2 => prop::sample::select(own.iter().map(|case| case.status).collect::<Vec<_>>()),
        1 => Just(429),
        1 => any::<u16>(),
    ];
    (status, prop::collection::vec(header, 0..16), body).prop_map(|(status, headers, body)| Anything { status, headers, body })
}

/// Runs a law for each provider with answers that look like its own.
fn for_each_provider(law: impl Fn(&Provider, Anything) -> Result<(), TestCaseError>) {
    let mut by_provider: BTreeMap<String, Vec<Case>> = BTreeMap::new();
    for case in cases() {
        by_provider.entry(catalogue().get_or_generic(&case.provider).name().to_owned()).or_default().push(case);
    }
    let times = if std::env::var_os("PACELINE_LONG_TESTS").is_some() { 20_000 } else { 200 };
    for provider in catalogue().providers() {
        let own = by_provider.get(provider.name()).cloned().unwrap_or_default();
        assert!(!own.is_empty(), "{} has no case", provider.name());
        let mut runner = TestRunner::new(Config { cases: times, failure_persistence: None, ..Config::default() });
        let outcome = runner.run(&anything(&own), |answer| law(provider, answer));
        assert!(outcome.is_ok(), "{}: {}", provider.name(), outcome.unwrap_err());
    }
}

#[test]
fn any_answer_is_read_within_bounds() {
    for_each_provider(|provider, answer| {
        let signal = answer.read(provider);
        prop_assert_eq!(signal.retry_after.is_some(), signal.source != Source::None);
        prop_assert_eq!(signal.retry_after.is_some(), !signal.field.is_empty());
        prop_assert!(signal.retry_after.is_none_or(|wait| (Span::ZERO..=LONGEST_READ).contains(&wait)));
        for bucket in &signal.buckets {
            prop_assert!(bucket.limit != Some(0));
            prop_assert!(bucket.reset_in.is_none_or(|reset| (Span::ZERO..=LONGEST_READ).contains(&reset)));
            prop_assert!(bucket.window.is_none_or(|window| window > Span::ZERO));
            prop_assert!(bucket.name.chars().count() <= 80 && !bucket.meter.is_empty());
        }
        prop_assert!(signal.buckets.len() <= 32 && signal.unread_headers.len() <= 32 && signal.malformed_headers.len() <= 32);
        prop_assert!(!(signal.retryable && matches!(signal.kind, AnswerKind::QuotaExhausted | AnswerKind::Impossible)));
        prop_assert_eq!(&answer.read(provider), &signal, "the same answer is read the same way");
        Ok(())
    });
}

/// A wait that is addressed to the caller never ends earlier because of anything else in the answer.
#[test]
fn nothing_shortens_the_wait_of_a_retry_after() {
    for_each_provider(|provider, answer| {
        let headers: Vec<_> = answer.headers.iter().filter(|(name, _)| !is_a_wait(name)).cloned().collect();
        let answer = Anything { headers, ..answer };
        let with_wait = answer.with(("Retry-After".to_owned(), b"40".to_vec())).read(provider);
        prop_assert_eq!(with_wait.retry_after, Some(Span::from_secs(40)));
        let longer = answer.with(("retry-after".to_owned(), b"40, 41".to_vec())).read(provider);
        prop_assert_eq!(longer.retry_after, Some(Span::from_secs(41)));
        Ok(())
    });
}

/// Repeating a line adds nothing; in particular nobody is sent earlier for it.
#[test]
fn a_line_twice_is_never_earlier() {
    for_each_provider(|provider, answer| {
        // Of each name one line: several with other figures may describe several buckets, and then their number has a meaning.
        let mut seen = BTreeSet::new();
        let headers = answer.headers.into_iter().filter(|(name, _)| seen.insert(name.to_ascii_lowercase())).collect();
        let answer = Anything { headers, ..answer };
        let Some(first) = answer.headers.first().cloned() else { return Ok(()) };
        let (once, twice) = (answer.read(provider), answer.with(first).read(provider));
        if let (Some(once), Some(twice)) = (once.retry_after, twice.retry_after) {
            prop_assert!(twice >= once, "{} before {}", twice, once);
        }
        prop_assert_eq!(once.retryable, twice.retryable);
        Ok(())
    });
}

/// Headers of the ladder, whatever they stand beside.
fn is_a_wait(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.contains("retry") || name.contains("pushback")
}

/// The configuration makes a bucket of every meter the catalogue lists: each must be one.
#[test]
fn every_meter_is_valid() {
    for provider in catalogue().providers() {
        let meters: Vec<_> = provider.meters().collect();
        assert!(!meters.is_empty(), "{} counts nothing", provider.name());
        let names: BTreeSet<&str> = meters.iter().map(|meter| meter.name).collect();
        for meter in &meters {
            let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            assert!(!meter.name.is_empty() && meter.name.chars().all(is_word), "{}: meter `{}`", provider.name(), meter.name);
            assert!(meter.window.is_none_or(|window| window > Span::ZERO), "{}: {}", provider.name(), meter.name);
            if let Some(zone) = meter.zone {
                assert!(jiff::tz::TimeZone::get(zone).is_ok(), "{}: there is no zone `{zone}`", provider.name());
            }
        }
        let tiers: Vec<String> = provider.tiers().map(str::to_owned).collect();
        let published = tiers.iter().filter_map(|tier| provider.tier(tier)).flatten().chain(provider.models());
        for (meter, limit) in published.flat_map(|model| model.limits) {
            assert!(names.contains(meter), "{}: a limit of `{meter}`, which is no meter of it", provider.name());
            assert!(limit.units > 0, "{}: {meter}", provider.name());
        }
    }
}

/// One name stands for one provider, in any casing.
#[test]
fn every_name_is_one_providers() {
    let mut seen = BTreeSet::new();
    for provider in catalogue().providers() {
        for name in std::iter::once(provider.name()).chain(provider.also_called().iter().map(String::as_str)) {
            assert!(seen.insert(name.to_ascii_lowercase()), "`{name}` is the name of two providers");
            assert_eq!(catalogue().get(&name.to_ascii_uppercase()).map(Provider::name), Some(provider.name()));
        }
    }
}
