//! What happens besides calls, told by the provider itself.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use proptest::prelude::*;

use super::*;
use crate::charging::TOKENS;
use crate::dialect::Dialect;
use crate::latency::Latency;
use crate::limit::{LimitGroup, Metering, ModelPattern};
use crate::meter::Reading;
use crate::outage::{Comeback, Failure};
use crate::provider::{Answer, Cost, Outcome, Provider};

const START: FleetTime = FleetTime::from_secs(1_800_000_000);
const MINUTE: Span = Span::from_secs(60);

fn at(millis: i64) -> FleetTime {
    START + Span::from_millis(millis)
}

fn provider(config: ProviderConfig) -> Provider {
    Provider::starting_at(config, START).unwrap()
}

fn per_minute(units: u64) -> ProviderConfig {
    ProviderConfig::metering(Dialect::OpenAi, vec![Limit::new("requests", units, MINUTE)])
}

fn call() -> Call {
    Call::new("m", Cost::one())
}

fn first(provider: &mut Provider, now: FleetTime) -> Reading {
    provider.levels(now)[0].reading.clone()
}

fn told(answer: &Answer) -> (u16, Option<&str>, Option<&str>) {
    (answer.status, answer.header("retry-after"), answer.header("retry-after-ms"))
}

#[test]
fn an_outage_answers_everyone_and_charges_nobody() {
    let outage = Outage::new(Span::from_secs(30), Span::from_secs(30));
    let answers = |outage: Outage, dialect| {
        let mut provider = provider(ProviderConfig { dialect, outages: vec![outage], ..per_minute(60) });
        let before = provider.arrive(at(29_999), &call());
        let (first, last) = (provider.arrive(at(30_000), &call()), provider.arrive(at(59_001), &call()));
        let left = provider.levels(at(59_001))[0].reading.remaining;
        let after = provider.arrive(at(60_000), &call());
        assert_eq!((before.outcome, after.outcome), (Outcome::Accepted, Outcome::Accepted));
        assert_eq!((first.outcome, last.outcome), (Outcome::Down, Outcome::Down));
        (first, last, left)
    };
    let (silent, _, left) = answers(outage, Dialect::OpenAi);
    assert_eq!((told(&silent), left), ((503, None, None), 60));
    assert!(silent.header("x-ratelimit-limit-requests").is_none() && silent.body.contains("overloaded"));

    let telling = Outage { comeback: Comeback::Remaining, failure: Failure::Status(529), ..outage };
    let (first, last, _) = answers(telling, Dialect::OpenAi);
    assert_eq!((told(&first), told(&last)), ((529, Some("30"), Some("30000")), (529, Some("1"), Some("999"))));
    let (_, last, _) = answers(telling, Dialect::Bare);
    assert_eq!((told(&last), last.body.as_str()), ((529, Some("1"), None), ""));
    let fixed = Outage { comeback: Comeback::Fixed(Span::from_secs(5)), ..outage };
    let (first, last, _) = answers(fixed, Dialect::Generic);
    assert_eq!((told(&first), told(&last)), ((503, Some("5"), None), (503, Some("5"), None)));

    let (reset, _, left) = answers(Outage { failure: Failure::Reset, charged: true, ..outage }, Dialect::OpenAi);
    assert!(reset.is_reset() && reset.headers.is_empty());
    assert_eq!(left, 59, "two calls, of which all but the last one's are back");
}

#[test]
fn a_cut_keeps_what_fits_and_a_rise_gives_nothing_at_once() {
    let changes: Vec<LimitChange> = ["10s=50%", "20s=requests=1200/min"].map(|text| text.parse().unwrap()).into();
    let mut provider = provider(ProviderConfig { changes, ..per_minute(600) });
    let of = |reading: Reading| (reading.limit, reading.remaining, reading.reset_in);
    assert_eq!(of(first(&mut provider, at(9_999))), (600, 600, Span::ZERO));
    assert_eq!(of(first(&mut provider, at(10_000))), (300, 300, Span::ZERO));
    assert_eq!(provider.arrive(at(19_999), &call()).header("x-ratelimit-limit-requests"), Some("300"));
    // A call before the rise; from then on twenty a second.
    assert_eq!(of(first(&mut provider, at(20_000))), (1_200, 299, Span::from_micros(45_049_750)));
    assert_eq!(first(&mut provider, at(21_000)).remaining, 319);
}

#[test]
fn a_model_that_comes_after_a_change_has_the_new_limit() {
    let group = LimitGroup { each: true, ..LimitGroup::shared(vec![Limit::new("requests", 10, MINUTE)]) };
    let other = LimitGroup { models: ModelPattern::new("x*"), ..group.clone() };
    let changes = vec!["1s=x*:5/min".parse().unwrap()];
    let config = ProviderConfig { groups: vec![group, other], changes, ..ProviderConfig::default() };
    let mut provider = provider(config);
    provider.arrive(at(2_000), &Call::new("x1", Cost::one()));
    let limits: Vec<u64> = provider.levels(at(2_000)).iter().map(|level| level.reading.limit).collect();
    assert_eq!(limits, [10, 5]);
}

#[test]
fn a_window_that_was_cut_below_its_use_lets_nothing_through() {
    let limits = vec![Limit::new("requests", 10, MINUTE).metered(Metering::FixedWindow { phase: Span::ZERO })];
    let changes = vec!["10s=50%".parse().unwrap()];
    let mut provider = provider(ProviderConfig { changes, ..ProviderConfig::metering(Dialect::OpenAi, limits) });
    for second in 0..8 {
        assert_eq!(provider.arrive(at(second * 1_000), &call()).status, 200);
    }
    let refused = provider.arrive(at(10_000), &call());
    assert_eq!((refused.status, refused.header("retry-after")), (429, Some("50")));
    assert_eq!(first(&mut provider, at(60_000)).remaining, 5);
}

#[test]
fn another_consumer_takes_its_share_and_only_what_is_there() {
    let other = Some(OtherConsumer::steady(30));
    let mut alone = provider(ProviderConfig { other, ..per_minute(1_200) });
    let drained = alone.levels(at(60_000))[0].drained;
    assert_eq!((drained.wanted, drained.got), (Milli::from_units(360), Milli::from_units(360)));
    // Calls every millisecond leave nothing: it gets less than it wants, and both together no more than there is.
    let mut crowded = provider(ProviderConfig { other, ..per_minute(1_200) });
    let accepted = (0..60_000).filter(|millis| crowded.arrive(at(*millis), &call()).outcome == Outcome::Accepted).count();
    let drained = crowded.levels(at(60_000))[0].drained;
    assert!(drained.got < drained.wanted);
    let taken = Milli::from_units(accepted as u64) + drained.got;
    assert!(taken <= Milli::from_units(2_400) && taken > Milli::from_units(2_398), "{taken:?}");
    // In an outage it gets nothing, and misses nothing that it could have had.
    let outages = vec![Outage::new(Span::ZERO, MINUTE)];
    let mut down = provider(ProviderConfig { other, outages, ..per_minute(1_200) });
    assert_eq!(down.levels(at(59_999))[0].drained.wanted, Milli::ZERO);
}

#[test]
fn output_is_settled_when_its_call_ends() {
    let latency = Latency::constant(Span::from_secs(10));
    let stated = Cost::one().with("output_tokens", 500).with(TOKENS, 600);
    let used = Some(Cost::one().with("output_tokens", 200).with(TOKENS, 300));
    let call = Call { used, ..Call::new("m", stated) };
    let levels = |charging, metering, begin: i64| {
        let limits = vec![Limit::new(TOKENS, 600, Span::from_secs(600)).metered(metering)];
        let config = ProviderConfig { charging, latency, ..ProviderConfig::metering(Dialect::OpenAi, limits) };
        let mut provider = provider(config);
        assert_eq!(provider.arrive(at(begin), &call).outcome, Outcome::Accepted);
        [begin, begin + 9_999, begin + 10_000].map(|millis| first(&mut provider, at(millis)).remaining)
    };
    assert_eq!(levels(Charging::OnArrival, Metering::TokenBucket, 0), [0, 9, 10]);
    assert_eq!(levels(Charging::Reserved, Metering::TokenBucket, 0), [0, 9, 310]);
    assert_eq!(levels(Charging::AtEnd, Metering::TokenBucket, 0), [500, 509, 310]);
    let window = Metering::FixedWindow { phase: Span::ZERO };
    assert_eq!(levels(Charging::Reserved, window, 0), [0, 0, 300]);
    assert_eq!(levels(Charging::Reserved, window, 595_000), [0, 600, 600], "its window is over");
    assert_eq!(levels(Charging::AtEnd, window, 595_000), [500, 600, 400], "charged where it ends");
}

#[test]
fn what_can_never_be_is_refused() {
    let refused = |config: ProviderConfig| Provider::new(config).unwrap_err().to_string();
    let bad = Outage { failure: Failure::Status(200), ..Outage::new(Span::ZERO, MINUTE) };
    assert!(refused(ProviderConfig { outages: vec![bad], ..per_minute(1) }).contains("400 to 599"));
    let changes = vec!["1s=tokens=5/min".parse().unwrap()];
    assert!(refused(ProviderConfig { changes, ..per_minute(1) }).contains("replaces none"));
    assert!(refused(ProviderConfig { other: Some(OtherConsumer::steady(100)), ..per_minute(1) }).contains("below 100"));
}

proptest! {
    /// Asking in between changes nothing: all that happens, happens at its own time.
    #[test]
    fn looking_changes_nothing(
        seed in any::<u64>(),
        percent in 1_u32..99,
        looks in prop::collection::vec(0_i64..120_000, 0..40),
        sends in prop::collection::vec(0_i64..120_000, 0..40),
    ) {
        let config = ProviderConfig {
            seed,
            charging: Charging::Reserved,
            latency: Latency { usual: Span::from_secs(5), jitter: Span::from_secs(4), refused: Span::ZERO },
            changes: vec!["30s=50%".parse().unwrap(), "60s=300%".parse().unwrap()],
            outages: vec![Outage::new(Span::from_secs(10), Span::from_secs(5))],
            other: Some(OtherConsumer::steady(percent)),
            ..per_minute(40)
        };
        let used = Some(Cost::one().with("requests", 0));
        let call = Call { used, ..call() };
        let mut times: Vec<(i64, bool)> = sends.iter().map(|at| (*at, true)).collect();
        times.extend(looks.iter().map(|at| (*at, false)));
        times.sort_unstable();
        let (mut watched, mut left_alone) = (provider(config.clone()), provider(config));
        for (millis, sends) in times {
            if sends {
                prop_assert_eq!(watched.arrive(at(millis), &call), left_alone.arrive(at(millis), &call));
            } else {
                watched.levels(at(millis));
            }
        }
        prop_assert_eq!(watched.levels(at(120_000)), left_alone.levels(at(120_000)));
    }
}
