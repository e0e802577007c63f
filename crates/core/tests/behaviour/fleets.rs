//! What a fleet gets: makespan against a scheduler that knows the provider's meters exactly, and refusals met on the way.
//! 150 workers, calls of 0.2 to 2 s, up to 40 ms of reordering on the way to the provider; each bound holds for the worst of ten
//! seeds. Where a run is short beside its window, the number of calls is chosen so that the last window is partly used: a single
//! unit more in the last one would cost a whole window and say nothing.

use std::sync::Arc;

use paceline_core::plan::{BucketPlan, GroupPlan};
use paceline_core::units::Span;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::support::fleet::{Cost, Fleet, Outcome};
use crate::support::plans::{cautious, continuous, group, per_minute, unknown, windowed};
use crate::support::provider::{Headers, Meter, Provider};
use crate::support::world::START;

const MINUTE: Span = Span::from_secs(60);
const SEEDS: u64 = 10;

fn fleet(plan: Arc<GroupPlan>, meters: Vec<Meter>, headers: Headers, calls: usize) -> Fleet {
    let one = Cost { reserved_tokens: 0, actual_tokens: 0 };
    let provider = Provider { meters, headers };
    Fleet {
        workers: 150,
        slowest_ms: 2_000,
        calls: vec![one; calls],
        plan,
        provider,
        longest_way_ms: 40,
        tells_late: false,
        seed: 0,
    }
}

/// Calls that cost one request each.
fn requests(plan: BucketPlan, meter: Meter, headers: Headers, calls: usize) -> Fleet {
    fleet(group(vec![plan]), vec![meter], headers, calls)
}

/// Calls of 50 to 2,000 tokens that reserve `factor` times what they use.
fn mixed(calls: usize, factor: f64) -> Vec<Cost> {
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let cost = |actual_tokens| Cost { reserved_tokens: (actual_tokens as f64 * factor) as u64, actual_tokens };
    (0..calls).map(|_| cost(rng.random_range(50..2_000))).collect()
}

/// Runs each seed and holds the worst against the bounds: times the minimum, and percent rejected.
fn expect(what: &str, fleet: &Fleet, most_ratio: f64, most_rejected: f64) {
    let outcomes: Vec<Outcome> = (1..=SEEDS).map(|seed| Fleet { seed, ..fleet.clone() }.run()).collect();
    let ratio = outcomes.iter().map(Outcome::ratio).fold(0.0, f64::max);
    let rejected = 100.0 * outcomes.iter().map(Outcome::rejected_share).fold(0.0, f64::max);
    let found = format!("{what}: {ratio:.4} x the minimum, {rejected:.3} % rejected, {:?}", outcomes[0]);
    println!("{found}");
    assert!(outcomes.iter().all(|outcome| outcome.denied == 0), "calls were denied: {found}");
    assert!(ratio <= most_ratio, "at most {most_ratio} is allowed: {found}");
    assert!(rejected <= most_rejected, "at most {most_rejected} % is allowed: {found}");
}

#[test]
fn a_bucket_that_only_headers_describe() {
    for (limit, secs, calls) in [(600, 60, 1_500), (60, 60, 160), (5, 60, 20), (10, 1, 1_200), (3_600, 3_600, 3_900)] {
        let meter = Meter::full("requests", limit, Span::from_secs(secs), START);
        let fleet = requests(unknown("requests"), meter, Headers::All, calls);
        expect(&format!("{limit} per {secs} s, unknown"), &fleet, 1.022, 0.1);
    }
}

#[test]
fn a_full_bucket_that_only_headers_describe_is_used_up_in_a_short_run() {
    // A third of the time a drain of the surplus would take: what the first answers show goes out as the ramp grows.
    // The last call takes up to a second longer than the mean, which is what the minimum counts.
    for (calls, most) in [(800, 1.12), (1_000, 1.05), (1_200, 1.05)] {
        let meter = Meter::full("requests", 600, MINUTE, START);
        let fleet = requests(unknown("requests"), meter, Headers::All, calls);
        expect(&format!("{calls} calls on 600 per 60 s, unknown"), &fleet, most, 0.1);
    }
}

#[test]
fn a_bucket_that_holds_less_than_its_limit_and_says_so_nowhere() {
    for holds in [20, 300] {
        let level = i128::from(holds);
        let meter = Meter::bucket("requests", 1_200, MINUTE, holds, level, START);
        let fleet = requests(unknown("requests"), meter, Headers::All, 1_200);
        expect(&format!("1200 per 60 s that holds {holds}, unknown"), &fleet, 1.10, 1.5);
    }
}

#[test]
fn a_bucket_that_only_headers_describe_and_that_others_have_drawn_on() {
    for level in [0, 10, 300] {
        let meter = Meter::bucket("requests", 600, MINUTE, 600, level, START);
        let fleet = requests(unknown("requests"), meter.clone(), Headers::All, 1_500);
        expect(&format!("unknown, {level} left"), &fleet, 1.02, 0.5);
        let fleet = requests(cautious(per_minute("requests", 600)), meter, Headers::All, 1_500);
        expect(&format!("cautious, {level} left"), &fleet, 1.02, 0.7);
    }
}

#[test]
fn a_window_that_only_headers_describe() {
    for (limit, secs, phase, calls) in
        [(600, 60, 0.02, 2_500), (600, 60, 0.4, 2_500), (600, 60, 0.8, 2_500), (10, 1, 0.3, 1_205)]
    {
        let per = Span::from_secs(secs);
        let meter = Meter::window("requests", limit, per, START - per.scaled(phase));
        let fleet = requests(unknown("requests"), meter, Headers::All, calls);
        expect(&format!("{limit} per window of {secs} s, phase {phase}, unknown"), &fleet, 1.02, 0.5);
    }
}

/// Workers on a busy machine, whose calls overtake each other by more than a round trip.
#[test]
fn a_window_whose_calls_overtake_each_other() {
    for (way_ms, slowest_ms) in [(40, 100), (150, 100), (300, 400)] {
        for headers in [Headers::All, Headers::Vague] {
            let per = Span::from_secs(10);
            let meter = Meter::window("requests", 300, per, START - per.scaled(0.3));
            let fleet = requests(unknown("requests"), meter, headers, 905);
            let fleet = Fleet { longest_way_ms: way_ms, slowest_ms, ..fleet };
            expect(&format!("300 per 10 s, unknown, way of {way_ms} ms, {headers:?}"), &fleet, 1.05, 0.5);
        }
    }
}

/// Nothing tells the limit, and refusals say nothing: what passes between them does.
#[test]
fn limits_that_only_refusals_show() {
    let silent = |limit, per, holds, calls, ratio, rejected| {
        let meter = Meter::bucket("requests", limit, per, holds, i128::from(holds), START);
        let fleet = requests(unknown("requests"), meter, Headers::Bare, calls);
        expect(&format!("{limit} per {per}, holds {holds}, silent"), &fleet, ratio, rejected);
    };
    silent(600, MINUTE, 600, 2_400, 1.1, 2.0);
    silent(20, Span::from_secs(1), 20, 4_000, 1.2, 1.0);
    silent(1_200, MINUTE, 100, 4_000, 1.2, 1.0);
    // A window stands still until its end: then calls go on within seconds, and what passes in the time of a window is the pace.
    for phase in [0.0, 0.5] {
        let meter = Meter::window("requests", 600, MINUTE, START - MINUTE.scaled(phase));
        let fleet = requests(unknown("requests"), meter, Headers::Bare, 3_900);
        expect(&format!("600 per window, phase {phase}, silent"), &fleet, 1.25, 5.0);
    }
}

/// A time until full that nobody calls so: its end moves while units are used, and a window's would stand still.
#[test]
fn a_bucket_whose_reset_nobody_explains() {
    // Two of 160 calls are more than half a percent.
    for (limit, secs, calls, most_rejected) in
        [(600, 60, 1_500, 0.5), (600, 60, 1_000, 0.5), (60, 60, 160, 1.3), (5, 60, 20, 0.5), (10, 1, 1_200, 0.5)]
    {
        let meter = Meter::full("requests", limit, Span::from_secs(secs), START);
        for way_ms in [40, 300] {
            let fleet = requests(unknown("requests"), meter.clone(), Headers::Vague, calls);
            let fleet = Fleet { longest_way_ms: way_ms, ..fleet };
            expect(&format!("{limit} per {secs} s, vague, way of {way_ms} ms"), &fleet, 1.06, most_rejected);
        }
    }
}

#[test]
fn a_known_bucket_with_and_without_headers() {
    for (limit, secs, calls) in [(600, 60, 1_500), (60, 60, 160), (10, 1, 1_200)] {
        let per = Span::from_secs(secs);
        let meter = Meter::full("requests", limit, per, START);
        let fleet = |headers| requests(continuous("requests", limit, per), meter.clone(), headers, calls);
        expect(&format!("{limit} per {secs} s, all headers"), &fleet(Headers::All), 1.02, 0.1);
        expect(&format!("{limit} per {secs} s, only Retry-After"), &fleet(Headers::RetryAfter), 1.01, 0.1);
        expect(&format!("{limit} per {secs} s, no headers"), &fleet(Headers::Bare), 1.01, 0.1);
    }
}

#[test]
fn a_known_window_whose_phase_headers_tell() {
    for phase in [0.0, 0.4, 0.8] {
        let meter = Meter::window("requests", 600, MINUTE, START - MINUTE.scaled(phase));
        let fleet = requests(windowed("requests", 600, MINUTE), meter, Headers::All, 2_500);
        expect(&format!("window, phase {phase}, all headers"), &fleet, 1.02, 0.1);
    }
}

/// Without headers nobody can know the phase: what is left is that ours is as long as theirs.
#[test]
fn a_known_window_without_headers_that_begins_when_we_do() {
    let meter = Meter::window("requests", 600, MINUTE, START);
    for headers in [Headers::RetryAfter, Headers::Bare] {
        let fleet = requests(windowed("requests", 600, MINUTE), meter.clone(), headers, 2_500);
        expect(&format!("window, {headers:?}"), &fleet, 1.02, 0.5);
    }
}

#[test]
fn a_full_bucket_that_is_not_full_costs_the_calls_in_flight_and_no_more() {
    // 150 calls leave at once for a bucket with ten units: that is what `start: full` means. What is refused then is refused
    // once; the 140 that were in flight must not become three hundred.
    for headers in [Headers::All, Headers::RetryAfter, Headers::Bare] {
        let meter = Meter::bucket("requests", 600, MINUTE, 600, 10, START);
        let fleet = requests(per_minute("requests", 600), meter, headers, 1_500);
        expect(&format!("ten left, {headers:?}"), &fleet, 1.02, 9.0);
    }
}

#[test]
fn tokens_of_mixed_sizes() {
    let meters = vec![Meter::full("requests", 3_000, MINUTE, START), Meter::full("tokens", 200_000, MINUTE, START)];
    let known = group(vec![per_minute("requests", 3_000), per_minute("tokens", 200_000)]);
    for factor in [1.0, 2.0] {
        let fleet = Fleet { calls: mixed(1_000, factor), ..fleet(known.clone(), meters.clone(), Headers::All, 0) };
        expect(&format!("tokens, {factor} reserved for one"), &fleet, 1.02, 0.1);
        let plan = group(vec![unknown("requests"), unknown("tokens")]);
        expect(&format!("tokens, {factor} for one, unknown"), &Fleet { plan, ..fleet.clone() }, 1.02, 0.1);
        let provider = Provider { headers: Headers::Bare, ..fleet.provider.clone() };
        expect(&format!("tokens, {factor} for one, no headers"), &Fleet { provider, ..fleet }, 1.02, 0.1);
    }
}

/// Calls that use twice what they reserve: with headers the overrun is known from the first few on, without them it is a debt.
#[test]
fn tokens_that_overrun() {
    let meters = vec![Meter::full("tokens", 200_000, MINUTE, START)];
    for (plan, headers, most_rejected) in [
        (per_minute("tokens", 200_000), Headers::All, 1.0),
        (unknown("tokens"), Headers::All, 2.0),
        (per_minute("tokens", 200_000), Headers::Bare, 5.0),
    ] {
        let what = format!("overrun, {:?} known, {headers:?}", plan.limit);
        let fleet = fleet(group(vec![plan]), meters.clone(), headers, 0);
        expect(&what, &Fleet { calls: mixed(600, 0.5), ..fleet }, 1.05, most_rejected);
    }
}

/// Half of what is configured is there: the first answer says so.
#[test]
fn a_limit_that_is_lower_than_configured() {
    let fleet = requests(per_minute("requests", 600), Meter::full("requests", 300, MINUTE, START), Headers::All, 1_000);
    expect("600 configured, 300 told", &fleet, 1.01, 0.1);
}

/// Two limits on one meter, of which the plan knows one or both: the namesake is found, whichever comes first.
#[test]
fn a_minute_and_a_day() {
    let day = Meter::window("requests_day", 100_000, Span::from_secs(86_400), START - Span::from_secs(40_000));
    let minute = Meter::full("requests", 600, MINUTE, START);
    let of_day = BucketPlan { meter: Arc::from("requests"), ..unknown("requests_day") };
    for meters in [vec![day.clone(), minute.clone()], vec![minute, day]] {
        for plan in
            [vec![unknown("requests")], vec![unknown("requests"), of_day.clone()], vec![of_day.clone(), unknown("requests")]]
        {
            expect("a minute and a day", &fleet(group(plan), meters.clone(), Headers::All, 1_500), 1.022, 0.1);
        }
    }
}

/// Calls of 3 to 30 s, which are many in flight while the first answer is still to come.
#[test]
fn slow_calls() {
    let slow = |fleet: Fleet| Fleet { workers: 400, slowest_ms: 30_000, ..fleet };
    let meter = Meter::full("requests", 600, MINUTE, START);
    let fleet = slow(requests(per_minute("requests", 600), meter.clone(), Headers::All, 2_600));
    expect("slow, known", &fleet, 1.02, 0.1);
    expect("slow, known, told late", &Fleet { tells_late: true, ..fleet.clone() }, 1.02, 0.1);
    // The first of four answers comes after eight seconds, in the worst of ten seeds after twenty: nothing is known before.
    expect("slow, unknown", &slow(requests(unknown("requests"), meter, Headers::All, 2_600)), 1.12, 0.1);
    let meter = Meter::window("requests", 600, MINUTE, START - MINUTE.scaled(0.4));
    let fleet = slow(requests(windowed("requests", 600, MINUTE), meter, Headers::All, 2_600));
    expect("slow, window", &fleet, 1.05, 0.1);
    expect("slow, window, told late", &Fleet { tells_late: true, ..fleet }, 1.05, 0.1);
}

#[test]
fn figures_of_the_moment_when_the_answer_leaves() {
    let bucket = requests(unknown("requests"), Meter::full("requests", 600, MINUTE, START), Headers::All, 1_500);
    expect("bucket, told late", &Fleet { tells_late: true, ..bucket }, 1.02, 0.1);
    let meter = Meter::window("requests", 600, MINUTE, START - Span::from_secs(20));
    let window = requests(unknown("requests"), meter, Headers::All, 2_500);
    expect("window, told late", &Fleet { tells_late: true, ..window }, 1.02, 0.1);
}
