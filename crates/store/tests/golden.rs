//! One stored value of each released schema, which every later release must read: what a fleet has stored before an upgrade
//! is still there after it. Written once with `UPDATE=1 cargo test -p paceline-store --test golden`; a released file is never
//! written again.

#![allow(clippy::unwrap_used)]

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use paceline_core::amounts::Amounts;
use paceline_core::backing::Backing;
use paceline_core::breaker::Breaker;
use paceline_core::bucket::{BucketState, Learned, Observation};
use paceline_core::calendar::{Calendar, CalendarUnit, Zone};
use paceline_core::ceiling::Ceiling;
use paceline_core::controls::Limits;
use paceline_core::drain::{Base, Drain};
use paceline_core::exhausted::Exhausted;
use paceline_core::fair::{ClassTurn, ClassTurns, CrewTurn, LaneTurn, Turn};
use paceline_core::floor::Floor;
use paceline_core::holds::Holds;
use paceline_core::in_force::{ConfigHash, InForce};
use paceline_core::leader::Leader;
use paceline_core::level::Level;
use paceline_core::lineage::{Lineage, Writer};
use paceline_core::plan::{BucketId, BucketPlan, Class, OurPart, Owner, Portion, Refill, StartLevel};
use paceline_core::provisional::{Place, Provisional};
use paceline_core::shape::NamedEnd;
use paceline_core::signal::Source;
use paceline_core::tally::{Counts, Tally};
use paceline_core::trail::Trail;
use paceline_core::units::{FleetTime, Milli, Span};
use paceline_core::usage::{CallKind, Form, UsageBook};
use paceline_core::value::{GroupState, ScopeValue};
use paceline_store::Version;
use paceline_store::codec::{self, Decoded, Header};

const NOW: FleetTime = FleetTime::from_secs(1_800_000_000);
const HEADER: Header = Header::new(2, Version(1_799_999_000_000_042), 0x1122_3344_5566_7788);

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/scope-v1.bin")
}

#[test]
fn the_value_of_schema_1_is_read_and_written_as_ever() {
    let value = value();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::create_dir_all(path().parent().unwrap()).unwrap();
        std::fs::write(path(), codec::encode(&HEADER, &value)).unwrap();
    }
    let golden = Bytes::from(std::fs::read(path()).unwrap());
    assert_eq!(codec::decode(&golden, NOW), Ok(Decoded { header: HEADER, value: value.clone(), repaired: 0 }));
    assert!(golden == codec::encode(&HEADER, &value), "the same value is written as other bytes: released readers?");
}

/// A value in which every field is set, each to something else.
fn value() -> ScopeValue {
    let floor = |secs, source| Some(Floor { until: NOW + Span::from_secs(secs), since: NOW - Span::from_secs(1), source });
    let mut group = GroupState::new(Arc::from("gpt-*"), true);
    group.floor = floor(2, Source::RetryAfterSeconds);
    (group.granted, group.refusals, group.cut_mark, group.ramp_cut_mark) = (1_000, 3, 990, 980);
    group.flights.take(NOW + Span::from_secs(60), Milli::from_units(5));
    group.breaker = Breaker {
        failures: 6,
        leases: 4,
        last_mark: 991,
        opened_at: NOW - Span::from_secs(3),
        gap: Span::from_millis(840),
        probing_until: NOW + Span::from_secs(4),
    };
    (group.ramp, group.ramp_met_refusal) = (Milli::from_milli(7_250), true);
    group.tally = Tally {
        since: NOW - Span::from_secs(12),
        current: Counts { firsts: 40, retries: 7, fallbacks: 3 },
        before: Counts { firsts: 50, retries: 6, fallbacks: 2 },
    };
    let exhausted = |secs| {
        let (since, until) = (NOW - Span::from_secs(9), NOW + Span::from_secs(secs));
        Some(Exhausted { since, until, interval: Span::from_secs(120) })
    };
    group.exhausted = exhausted(111);
    let lane = LaneTurn { lane: u64::MAX - 5, turn: Turn::from_nanos(7_000_000_001), at: NOW - Span::from_millis(3) };
    let (turn, clock) = (Turn::from_nanos(8_000_000_000), Turn::from_nanos(6_999_999_999));
    *group.crews.of_mut(Class::Normal) = CrewTurn { turn, clock, lanes: vec![lane] };
    ScopeValue {
        limits: Limits::default(),
        buckets: vec![tokens(), daily_requests(), concurrency()],
        groups: vec![group, GroupState::new(Arc::from(""), false)],
        floor: floor(900, Source::ErrorBody),
        last_refusal: Some((Arc::from("gpt-*"), NOW - Span::from_millis(250))),
        repaired: 4,
        lost_at: NOW - Span::from_secs(30),
        usage: usage(),
        exhausted: exhausted(51),
        provisional: vec![
            Provisional { place: Place::Account, told: NOW + Span::from_secs(86_400), mark: 7 },
            Provisional { place: Place::Group(Arc::from("gpt-*")), told: NOW + Span::from_secs(7_200), mark: 8 },
            Provisional {
                place: Place::Bucket(BucketId { owner: Owner::Account, name: Arc::from("requests_day") }),
                told: NOW + Span::from_secs(9_000),
                mark: 9,
            },
        ],
        lineage: Lineage::from_writers(vec![
            Writer { replica: 0xfedc_ba98, commits: 4_242 },
            Writer { replica: 7, commits: 1 },
        ]),
        leader: Some(Leader { replica: 7, address: Arc::from("10.0.0.7:7070"), until: NOW + Span::from_millis(900) }),
        in_force: Some(InForce { hash: ConfigHash(0xc0ff_ee00), since: NOW - Span::from_secs(3_600), before: ConfigHash(77) }),
        keeps_limits: false,
    }
}

/// Text and media of one model, under a label too, and how long its calls ran.
fn usage() -> UsageBook {
    let mut book = UsageBook::default();
    let kind = CallKind::new("gpt-4o", "search");
    for tokens in [0, 900, 1_000, 64_000] {
        let usage = Amounts::from_pairs([("tokens", tokens), ("images", 1)]);
        for form in [Form::Text, Form::Media] {
            book.note_usage(&kind, &Arc::from("gpt-*"), form, &usage, ["tokens", "images"].into_iter(), NOW);
        }
        book.note_run(&kind.model, Span::from_secs(3), NOW);
    }
    book
}

/// Continuous refill, everything configured and everything learned.
fn tokens() -> BucketState {
    BucketState {
        learned: Learned {
            limit: Some(250_000),
            per: Some(Span::from_secs(61)),
            windowed: Some(false),
            candidate: 450_000,
            agreeing: 2,
            candidate_mark: 1_200_000,
            brim: Some(200_000),
            anchor: Some((199_000, Span::from_millis(240))),
            far_mark: Some(190_000),
            ends_move: true,
            ends_stand: true,
            named_end: Some(NamedEnd {
                mark: 1_210_000,
                remaining: 198_000,
                reset_in: Span::from_secs(4),
                earliest: NOW + Span::from_secs(3),
                latest: NOW + Span::from_secs(5),
            }),
            backing: Backing { at: NOW - Span::from_secs(7), reports: 35 },
        },
        level: Level { amount: Milli::from_milli(-12_345), as_of: NOW + Span::from_millis(40), carry: 59_999_999 },
        burst: Level { amount: Milli::from_milli(7_001), as_of: NOW + Span::from_millis(41), carry: 17 },
        fired: 1_234_567,
        paced_until: NOW + Span::from_millis(730),
        observed: Some(Observation {
            mark: 1_222_222,
            remaining: Milli::from_units(17),
            at: NOW - Span::from_millis(5),
            reports: 12,
        }),
        typical: Milli::from_milli(812_345),
        started: true,
        proven: Milli::from_milli(7_500),
        proof: Backing { at: NOW - Span::from_secs(9), reports: 3 },
        lowest: Some(Milli::from_units(16)),
        trail: Trail { at: NOW - Span::from_millis(120), fired: 1_230_000, before: 1_220_000 },
        drain: Drain {
            per_minute: Milli::from_milli(61_234),
            base: Some(Base {
                mark: 1_200_100,
                remaining: Milli::from_milli(17_250),
                at: NOW - Span::from_secs(2),
                took: Span::from_millis(310),
            }),
            last: Milli::from_milli(60_111),
            backing: Backing { at: NOW - Span::from_secs(2), reports: 4 },
        },
        floor: Some(Floor { until: NOW + Span::from_secs(3), since: NOW, source: Source::ResetHeader }),
        ..BucketState::new(BucketPlan {
            id: BucketId { owner: Owner::Group(Arc::from("gpt-*")), name: Arc::from("tokens") },
            meter: Arc::from("tokens"),
            limit: Some(300_000),
            per: Some(Span::from_secs(60)),
            capacity: Some(200_000),
            burst: Some(10_000),
            refill: Some(Refill::Continuous),
            calendar: None,
            start: StartLevel::Full,
            learn_above: true,
            ours: OurPart { least: Portion::from_millionths(250_000), most: Portion::from_millionths(750_000) },
        })
    }
}

/// A window seen from somewhere in its middle.
fn daily_requests() -> BucketState {
    BucketState {
        window_end: NOW + Span::from_secs(40_000),
        opens_at: NOW - Span::from_secs(46_400),
        fired: 77_000,
        spreading: true,
        fired_at_turn: 70_000,
        ceiling: Ceiling {
            allowed: Milli::from_milli(700_500),
            measured: Milli::from_milli(690_250),
            anchor_at: NOW - Span::from_secs(40),
            anchor_mark: 60_000,
            refused: Milli::from_units(3),
            cut_mark: 61_000,
            is_silent: true,
            began_at: NOW - Span::from_secs(400),
            began_fired: 1_000,
            hold_until: NOW + Span::from_secs(12),
            hold: Span::from_secs(40),
            climbs: 3,
            stretch_at: NOW - Span::from_secs(90),
            stretch_passed: Milli::from_milli(580_000),
        },
        ..BucketState::new(plan(Owner::Shared(Arc::from("embeddings")), "requests_day", "requests", Refill::Window))
    }
}

/// Units in use.
fn concurrency() -> BucketState {
    let mut holds = Holds::default();
    holds.take(NOW + Span::from_secs(61), Milli::from_units(3));
    holds.take(NOW + Span::from_secs(320), Milli::from_units(1));
    let mut classes = ClassTurns::default();
    *classes.of_mut(Class::Batch) = ClassTurn {
        waits_until: NOW + Span::from_secs(2),
        owed: Milli::from_milli(950),
        over: Milli::from_milli(-4_000),
        clock: Turn::from_nanos(12_345),
    };
    BucketState { holds, classes, ..BucketState::new(plan(Owner::Account, "concurrency", "concurrency", Refill::Held)) }
}

fn plan(owner: Owner, name: &str, meter: &str, refill: Refill) -> BucketPlan {
    BucketPlan {
        id: BucketId { owner, name: Arc::from(name) },
        meter: Arc::from(meter),
        limit: Some(1_000),
        per: (refill == Refill::Window).then_some(Span::from_secs(86_400)),
        capacity: None,
        burst: None,
        refill: Some(refill),
        calendar: (refill == Refill::Window)
            .then(|| Calendar { unit: CalendarUnit::Day, zone: Zone::named("America/Los_Angeles").unwrap() }),
        start: StartLevel::Cautious,
        learn_above: false,
        ours: OurPart::default(),
    }
}
