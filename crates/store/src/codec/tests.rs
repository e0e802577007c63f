//! Laws of the codec: values come back exactly, damage stays where it is, no bytes can do harm.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::sync::Arc;

use bytes::Bytes;
use paceline_core::amounts::Amounts;
use paceline_core::bucket::BucketState;
use paceline_core::floor::Floor;
use paceline_core::level::Level;
use paceline_core::plan::{BucketId, BucketPlan, OurPart, Owner, Refill, StartLevel};
use paceline_core::signal::Source;
use paceline_core::units::{FleetTime, LONGEST_FLOOR, Milli, Span};
use paceline_core::usage::{CallKind, Form, UsageBook};
use paceline_core::value::{GroupState, ScopeValue};
use proptest::prelude::*;
use prost::Message;

use super::strategies::{NOW, scope_value};
use super::{Decoded, HEADER_BYTES, Header, SCHEMA, decode, encode, wire, write};
use crate::error::CodecError;
use crate::register::Version;

const HEADER: Header = Header::new(3, Version(41), 7);

fn bucket(name: &str, start: StartLevel) -> BucketState {
    let mut bucket = BucketState::new(BucketPlan {
        id: BucketId { owner: Owner::Group(Arc::from("gpt")), name: Arc::from(name) },
        meter: Arc::from(name),
        limit: Some(600),
        per: Some(Span::from_secs(60)),
        capacity: None,
        burst: Some(100),
        refill: Some(Refill::Continuous),
        calendar: None,
        start,
        learn_above: false,
        ours: OurPart::default(),
    });
    bucket.started = true;
    bucket.level = Level::new(Milli::from_units(50), NOW);
    bucket.burst = Level::new(Milli::from_units(20), NOW);
    bucket.fired = 123_000;
    bucket.fired_at_turn = 100_000;
    bucket
}

fn two_buckets() -> ScopeValue {
    let buckets = vec![bucket("requests", StartLevel::Cautious), bucket("tokens", StartLevel::Cautious)];
    ScopeValue { buckets, groups: vec![GroupState::new(Arc::from("gpt"), false)], ..ScopeValue::default() }
}

fn read(bytes: Bytes) -> Decoded {
    decode(&bytes, NOW).unwrap()
}

/// The value with its first bucket changed on the way.
fn with_first_bucket(value: &ScopeValue, change: impl FnOnce(&mut wire::Bucket)) -> Bytes {
    let mut body = write::scope(value);
    let mut first = wire::Bucket::decode(body.buckets[0].clone()).unwrap();
    change(&mut first);
    body.buckets[0] = first.encode_to_vec().into();
    sealed(&body)
}

fn sealed(body: &wire::Scope) -> Bytes {
    [&HEADER.to_bytes()[..], &body.encode_to_vec()].concat().into()
}

type Set = fn(&mut wire::Bucket, i64);

/// Every number of a bucket that decides about calls.
const NUMBERS: [(&str, Set); 19] = [
    ("level", |bucket, number| bucket.level.get_or_insert_default().amount = number),
    ("level as of", |bucket, number| bucket.level.get_or_insert_default().as_of = number),
    ("level carry", |bucket, number| bucket.level.get_or_insert_default().carry = number),
    ("burst", |bucket, number| bucket.burst.get_or_insert_default().amount = number),
    ("burst as of", |bucket, number| bucket.burst.get_or_insert_default().as_of = number),
    ("window end", |bucket, number| bucket.window_end = number),
    ("opens at", |bucket, number| bucket.opens_at = number),
    ("paced until", |bucket, number| bucket.paced_until = number),
    ("fired", |bucket, number| bucket.fired = number),
    ("fired at turn", |bucket, number| bucket.fired_at_turn = number),
    ("typical", |bucket, number| bucket.typical = number),
    ("typical reserved", |bucket, number| bucket.typical_reserved = number),
    ("observed mark", |bucket, number| bucket.observed.get_or_insert_default().mark = number),
    ("observed remaining", |bucket, number| bucket.observed.get_or_insert_default().remaining = number),
    ("observed at", |bucket, number| bucket.observed.get_or_insert_default().at = number),
    ("floor", |bucket, number| bucket.floor.get_or_insert_default().until = number),
    ("configured window", |bucket, number| bucket.plan.get_or_insert_default().per = Some(number)),
    ("learned window", |bucket, number| bucket.learned.get_or_insert_default().per = Some(number)),
    ("candidate's mark", |bucket, number| bucket.learned.get_or_insert_default().candidate_mark = number),
];

#[test]
fn a_number_out_of_bounds_costs_its_bucket_what_was_known_and_no_other() {
    // NU09, by hand in every number of a bucket.
    let value = two_buckets();
    for (field, set) in NUMBERS {
        for number in [i64::MIN, i64::MAX] {
            let decoded = read(with_first_bucket(&value, |bucket| set(bucket, number)));
            let [first, second] = &decoded.value.buckets[..] else { panic!("{field}: both buckets are there") };
            assert_eq!(second, &value.buckets[1], "{field} = {number}");
            assert!(decoded.repaired > 0 && decoded.value.repaired == decoded.repaired, "{field} = {number}");
            assert!(!first.started && first.observed.is_none() && first.floor.is_none(), "{field} = {number}");
            assert_eq!(first.plan.id, value.buckets[0].plan.id);
            assert_eq!(first.plan.limit, Some(600), "{field} = {number}: the limit stands");
            assert!(first.fired >= 100_000, "{field} = {number}: open leases have marks against it");
        }
    }
}

#[test]
fn levels_out_of_reach_are_damage_whatever_their_size() {
    let value = two_buckets();
    let set_level: Set = NUMBERS[0].1;
    let set_burst: Set = NUMBERS[3].1;
    let longest_debt = (LONGEST_FLOOR + Span::from_secs(60)).as_micros() / 100;
    for (what, set, number, is_sound) in [
        ("all that fits", set_level, 600_000, true),
        ("more than fits", set_level, 600_001, false),
        ("2^53 + 1", set_level, (1 << 53) + 1, false),
        ("a debt paid off in a month", set_level, -longest_debt, true),
        ("a debt for ever", set_level, -longest_debt - 1, false),
        ("the whole burst", set_burst, 100_000, true),
        ("more than the burst", set_burst, 100_001, false),
    ] {
        let decoded = read(with_first_bucket(&value, |bucket| set(bucket, number)));
        assert_eq!((decoded.repaired == 0, decoded.value.buckets[0].started), (is_sound, is_sound), "{what}");
    }
}

/// Sixty-four kinds of calls with three meters each, every one with a wide spread: the most that is carried along.
#[test]
fn what_calls_used_stays_small() {
    let mut book = UsageBook::default();
    for kind in 0..200 {
        for call in 0..60_u64 {
            let tokens = 1 << (5 + call % 8);
            let usage = Amounts::from_pairs([("input_tokens", tokens), ("output_tokens", tokens / 3)]);
            let meters = ["tokens", "input_tokens", "output_tokens"].into_iter();
            book.note_usage(
                &CallKind::new("gpt-4o-2024-11-20", &format!("feature {kind}")),
                &"g".into(),
                Form::Text,
                &usage,
                meters,
                NOW,
            );
        }
    }
    let value = ScopeValue { usage: book, ..ScopeValue::default() };
    let bytes = encode(&HEADER, &value).len();
    assert!(bytes < 16 * 1_024, "{bytes} bytes");
}

#[test]
fn instants_are_possible_or_damage() {
    let value = two_buckets();
    let set_as_of: Set = NUMBERS[1].1;
    for (micros, is_kept) in [(0, true), (-1, false), ((1 << 53) - 1, true), (1 << 53, false), ((1 << 53) + 1, false)] {
        let decoded = read(with_first_bucket(&value, |bucket| set_as_of(bucket, micros)));
        assert_eq!(decoded.value.buckets[0].started, is_kept, "as of {micros}");
        // What is kept and lies in the future is pulled back to where it blocks nobody for long.
        assert!(decoded.value.buckets[0].level.as_of <= NOW + Span::from_secs(70), "as of {micros}");
    }
}

#[test]
fn what_is_sound_outlives_damage_where_it_is_the_safer_choice() {
    let mut value = two_buckets();
    let floor = Floor { until: NOW + Span::from_secs(900), since: NOW, source: Source::RetryAfterSeconds };
    value.buckets[0].floor = Some(floor);
    value.buckets[0].holds.take(NOW + Span::from_secs(30), Milli::from_units(4));
    value.buckets[0].learned.limit = Some(500);
    let decoded = read(with_first_bucket(&value, |bucket| bucket.paced_until = -5));
    let first = &decoded.value.buckets[0];
    assert_eq!((first.floor, first.learned.limit), (Some(floor), Some(500)), "a wait is never shortened (I-3)");
    assert_eq!(first.holds, value.buckets[0].holds, "calls in flight still are");
}

#[test]
fn a_damaged_bucket_is_not_full_even_where_full_starts_are_configured() {
    let value = ScopeValue { buckets: vec![bucket("requests", StartLevel::Full)], ..ScopeValue::default() };
    for refill in [wire::REFILL_CONTINUOUS, wire::REFILL_WINDOW] {
        let decoded = read(with_first_bucket(&value, |bucket| {
            bucket.plan.get_or_insert_default().refill = refill;
            bucket.level.get_or_insert_default().amount = i64::MAX;
        }));
        let mut first = decoded.value.buckets[0].clone();
        first.start(NOW, Milli::from_units(1));
        assert_eq!(first.level_at(NOW), Some(Milli::from_units(10)), "one second of refill (I-10)");
        assert_eq!(first.plan.start, StartLevel::Full, "the configuration is as it was");
    }
}

#[test]
fn damage_that_hides_a_name_drops_the_bucket_alone() {
    let value = two_buckets();
    let latin1 = Bytes::from_static(b"caf\xe9");
    let long = Bytes::from(vec![b'x'; 5_000]);
    for (what, name, owner_kind) in [
        ("not UTF-8", latin1, wire::OWNER_GROUP),
        ("empty", Bytes::new(), wire::OWNER_GROUP),
        ("too long", long, wire::OWNER_GROUP),
        ("of a stranger", Bytes::from_static(b"requests"), 9),
        ("like the other's", Bytes::from_static(b"tokens"), wire::OWNER_GROUP),
    ] {
        let decoded = read(with_first_bucket(&value, |bucket| {
            let plan = bucket.plan.get_or_insert_default();
            (plan.name, plan.owner_kind) = (name, owner_kind);
        }));
        assert_eq!((decoded.value.buckets.len(), decoded.repaired), (1, 1), "{what}");
        assert_eq!(decoded.value.buckets[0].plan.id.name.as_ref(), "tokens", "{what}");
    }
    // "nan", "inf" and nothing where a number belongs: the wrong wire type, which only this bucket fails on.
    for text in ["nan", "inf", ""] {
        let mut body = write::scope(&value);
        let mut first = body.buckets[0].to_vec();
        first.extend([(7 << 3) | 2, u8::try_from(text.len()).unwrap()]);
        first.extend(text.as_bytes());
        body.buckets[0] = first.into();
        let decoded = read(sealed(&body));
        assert_eq!((decoded.value.buckets.len(), decoded.repaired), (1, 1), "fired = {text:?}");
    }
    let nameless = read(with_first_bucket(&value, |bucket| bucket.plan = None));
    assert_eq!((nameless.value.buckets.len(), nameless.repaired), (1, 1));
}

#[test]
fn groups_are_repaired_field_by_field() {
    let mut value = two_buckets();
    value.groups[0].granted = 10;
    let mut body = write::scope(&value);
    let mut stored = wire::Group::decode(body.groups[0].clone()).unwrap();
    stored.ramp = i64::MAX;
    stored.cut_mark = 11;
    stored.flights = vec![wire::Slot { ends: i64::MAX, amount: 3_000 }, wire::Slot { ends: NOW.as_micros(), amount: -1 }];
    body.groups.push(stored.encode_to_vec().into());
    body.groups.swap(0, 1);
    body.groups.push(Bytes::from_static(b"\xff\xff"));
    let decoded = read(sealed(&body));
    let [group] = &decoded.value.groups[..] else { panic!("one group, its double and the garbage are gone") };
    assert_eq!(decoded.repaired, 6);
    assert_eq!((group.ramp, group.cut_mark, group.granted), (Milli::from_units(4), 0, 10));
    assert_eq!(group.flights.in_use(NOW), Milli::from_units(3), "calls in flight count ...");
    assert_eq!(group.flights.in_use(NOW + Span::from_secs(3_600)), Milli::ZERO, "... and come free some day");
}

#[test]
fn values_of_later_releases_are_read_as_far_as_they_are_known() {
    let mut value = two_buckets();
    value.floor = Some(Floor { until: NOW + Span::from_secs(9), since: NOW, source: Source::Paused });
    // A field that nobody knows: number 1000, of type bytes.
    let unknown = [0xc2, 0x3e, 3, b'n', b'e', b'w'];
    let mut body = write::scope(&value);
    body.buckets[0] = [&body.buckets[0], &unknown[..]].concat().into();
    body.groups[0] = [&body.groups[0], &unknown[..]].concat().into();
    let bytes: Bytes = [&sealed(&body), &unknown[..]].concat().into();
    assert_eq!(read(bytes), Decoded { header: HEADER, value: value.clone(), repaired: 0 });
    // A floor for a reason that nobody knows is a floor.
    body.floor.get_or_insert_default().source = 200;
    let decoded = read(sealed(&body));
    let floor = Floor { source: Source::None, ..value.floor.unwrap() };
    assert_eq!((decoded.value.floor, decoded.repaired), (Some(floor), 0));
}

#[test]
fn bytes_that_are_no_value_are_refused_with_their_reason() {
    let good = encode(&HEADER, &two_buckets());
    assert_eq!(decode(&Bytes::new(), NOW), Err(CodecError::TooShort { got: 0, needed: HEADER_BYTES }));
    assert_eq!(decode(&good.slice(..31), NOW), Err(CodecError::TooShort { got: 31, needed: HEADER_BYTES }));
    assert!(matches!(decode(&good.slice(..good.len() - 1), NOW), Err(CodecError::Body(_))));
    let new = encode(&Header { min_reader: SCHEMA + 1, ..HEADER }, &two_buckets());
    let error = decode(&new, NOW).unwrap_err();
    assert_eq!(error, CodecError::TooNew { needed: SCHEMA + 1, known: SCHEMA });
    assert!(error.to_string().ends_with("upgrade this replica"), "{error}");
    assert_eq!(read(good.slice(..HEADER_BYTES)).value, ScopeValue::default(), "an empty body is an empty value");
}

#[test]
fn headers_compare_as_bytes() {
    let ordered = [
        Header::new(0, Version(0), 0),
        Header::new(0, Version(255), 9),
        Header::new(0, Version(256), 1),
        Header::new(0, Version(u64::MAX), 0),
        Header::new(1, Version(1), 0),
        Header::new(256, Version(0), 0),
    ];
    for pair in ordered.windows(2) {
        assert!(pair[0].to_bytes() < pair[1].to_bytes() && pair[0] < pair[1]);
    }
    assert_eq!(Header::read(&ordered[2].to_bytes()), Ok(ordered[2]));
}

/// Whether nothing in the value can promise more than there is, or block for ever.
fn is_sound(value: &ScopeValue) -> bool {
    let levels = value.buckets.iter().filter(|bucket| bucket.started).all(|bucket| {
        let Some(rate) = bucket.rate() else { return true };
        let burst = bucket.most_at_once(&rate);
        bucket.level.amount <= rate.capacity
            && bucket.burst.amount <= rate.capacity.min(burst)
            && rate.time_for(Milli::ZERO - bucket.level.amount) <= LONGEST_FLOOR + rate.per
    });
    let ends = value.groups.iter().map(|group| &group.flights).chain(value.buckets.iter().map(|bucket| &bucket.holds));
    let latest = NOW + Span::from_secs(3_600);
    let floors = value.groups.iter().map(|group| group.floor).chain(value.buckets.iter().map(|bucket| bucket.floor));
    let latest_floor = NOW + LONGEST_FLOOR;
    levels
        && ends.flat_map(|holds| holds.slots()).all(|slot| slot.ends <= latest && slot.amount > Milli::ZERO)
        && floors.chain([value.floor]).flatten().all(|floor| floor.until <= latest_floor)
        && value.buckets.iter().all(|bucket| bucket.fired >= 0 && bucket.level.as_of >= FleetTime::ZERO)
}

/// Whatever was read is sound, and reading it again finds nothing more to repair.
fn check_read(bytes: &Bytes) -> Result<(), TestCaseError> {
    let Ok(decoded) = decode(bytes, NOW) else { return Ok(()) };
    prop_assert!(is_sound(&decoded.value), "{:?}", decoded.value);
    let again = decode(&encode(&decoded.header, &decoded.value), NOW);
    prop_assert_eq!(again, Ok(Decoded { repaired: 0, ..decoded }));
    Ok(())
}

proptest! {
    /// Every value comes back exactly, but for instants beyond anything legal, which the core pulls back.
    #[test]
    fn values_come_back_exactly(value in scope_value(), epoch: u64, version: u64, writer: u64) {
        let header = Header::new(epoch, Version(version), writer);
        let mut expected = value.clone();
        let repaired = expected.repair(NOW);
        prop_assert_eq!(decode(&encode(&header, &value), NOW), Ok(Decoded { header, value: expected, repaired }));
    }

    /// No bytes do harm.
    #[test]
    fn any_bytes_are_refused_or_sound(head in any::<[u8; 28]>(), body in proptest::collection::vec(any::<u8>(), 0..600)) {
        check_read(&body.clone().into())?;
        check_read(&[&HEADER.to_bytes()[..], &body].concat().into())?;
        check_read(&[&head[..], &body].concat().into())?;
    }

    /// Nor do values with bytes changed, cut out or doubled.
    #[test]
    fn damaged_values_are_refused_or_sound(
        value in scope_value(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3_u8), 1..8),
    ) {
        let mut bytes = encode(&HEADER, &value).to_vec();
        for (place, byte, kind) in changes {
            let place = place.index(bytes.len());
            match kind {
                0 => bytes[place] = byte,
                1 => drop(bytes.remove(place)),
                _ => bytes.insert(place, byte),
            }
        }
        check_read(&bytes.into())?;
    }

    /// Numbers by hand, anywhere in a bucket.
    #[test]
    fn hand_written_numbers_are_repaired(
        fields in proptest::collection::vec((0..NUMBERS.len(), prop_oneof![any::<i64>(), -2..3_i64, Just((1 << 53) + 1)]), 1..4),
    ) {
        let value = two_buckets();
        let bytes = with_first_bucket(&value, |bucket| fields.iter().for_each(|(field, number)| NUMBERS[*field].1(bucket, *number)));
        check_read(&bytes)?;
        prop_assert_eq!(&read(bytes).value.buckets[1], &value.buckets[1]);
    }
}
