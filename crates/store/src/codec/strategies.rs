//! Arbitrary scope values, of all shapes that the service can get into.

use std::sync::Arc;

use paceline_core::amounts::Amounts;
use paceline_core::backing::{Backing, MOST_REPORTS};
use paceline_core::breaker::Breaker;
use paceline_core::bucket::{BucketState, Calm, Learned, Observation};
use paceline_core::calendar::{Calendar, CalendarUnit, Zone};
use paceline_core::ceiling::Ceiling;
use paceline_core::controls::{LimitSaid, Limits, OverLimit};
use paceline_core::drain::{Base, Drain};
use paceline_core::exhausted::{Exhausted, LONGEST_INTERVAL};
use paceline_core::fair::{ClassTurn, ClassTurns, CrewTurn, CrewTurns, LINGER, LaneTurn, Turn};
use paceline_core::floor::Floor;
use paceline_core::holds::{Holds, Slot};
use paceline_core::in_force::{ConfigHash, InForce};
use paceline_core::leader::Leader;
use paceline_core::level::{Level, Rate};
use paceline_core::lineage::{Lineage, Writer};
use paceline_core::plan::{BucketId, BucketPlan, OurPart, Owner, Portion, Refill, StartLevel};
use paceline_core::provisional::{Place, Provisional};
use paceline_core::shape::NamedEnd;
use paceline_core::signal::Source;
use paceline_core::tally::{Counts, Tally};
use paceline_core::trail::Trail;
use paceline_core::units::{FleetTime, LONGEST_FLOOR, Milli, Span};
use paceline_core::usage::{CallKind, Form, UsageBook};
use paceline_core::value::{GroupState, ScopeValue};
use proptest::collection::{btree_map, vec};
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;

use super::bounds::{LATEST_MICROS, LONGEST_HOLD, LONGEST_WINDOW_MICROS, MOST_COUNTED};

/// When the values are read: in 2027.
pub(super) const NOW: FleetTime = FleetTime::from_secs(1_800_000_000);

/// Any value; its buckets and groups have different names.
pub(super) fn scope_value() -> impl Strategy<Value = ScopeValue> {
    let buckets = btree_map(bucket_id(), bucket(), 0..6)
        .prop_map(|buckets| buckets.into_iter().map(|(id, state)| with_id(state, id)).collect());
    let groups = btree_map(name(), group(), 0..4)
        .prop_map(|groups| groups.into_iter().map(|(key, state)| GroupState { key: Arc::from(key), ..state }).collect());
    let refusal = of((name(), instant()).prop_map(|(group, at)| (Arc::from(group), at)));
    let stops = (of(exhausted()), vec(provisional(), 0..4), lineage(), of(leader()), of(in_force()), limits());
    (buckets, groups, of(floor()), refusal, any::<u32>(), 0..=NOW.as_micros(), usage(), stops).prop_map(
        |(
            buckets,
            groups,
            floor,
            last_refusal,
            repaired,
            lost_at,
            usage,
            (exhausted, provisional, lineage, leader, in_force, limits),
        )| {
            let lost_at = FleetTime::from_micros(lost_at);
            let repaired = u64::from(repaired);
            let mut value = ScopeValue {
                buckets,
                groups,
                floor,
                last_refusal,
                repaired,
                lost_at,
                usage,
                exhausted,
                provisional,
                lineage,
                leader,
                in_force,
                limits,
                keeps_limits: false,
            };
            // Levels as they are under the limits that were said.
            value.obey(&value.limits.clone(), NOW);
            value
        },
    )
}

/// What calls turned out to use, as it comes to be known.
fn usage() -> impl Strategy<Value = UsageBook> {
    let call = (name(), "[a-z]{0,3}", any::<bool>(), units(), 0..1_000_000_000_i64);
    vec(call, 0..20).prop_map(|calls| {
        let mut book = UsageBook::default();
        for (model, label, is_media, units, run) in calls {
            let kind = CallKind::new(&model, &label);
            let form = if is_media { Form::Media } else { Form::Text };
            let usage = Amounts::from_pairs([("tokens", units), ("images", 1)]);
            book.note_usage(&kind, &Arc::from("group"), form, &usage, ["tokens", "images"].into_iter(), NOW);
            book.note_run(&kind.model, Span::from_micros(run), NOW);
        }
        book
    })
}

fn provisional() -> impl Strategy<Value = Provisional> {
    let place = prop_oneof![
        Just(Place::Account),
        name().prop_map(|key| Place::Group(Arc::from(key))),
        bucket_id().prop_map(Place::Bucket),
    ];
    (place, instant(), 0..=MOST_COUNTED).prop_map(|(place, told, mark)| Provisional { place, told, mark })
}

fn leader() -> impl Strategy<Value = Leader> {
    let place = (any::<u32>(), "[a-z0-9.]{1,20}:[0-9]{1,5}", instant());
    place.prop_map(|(replica, address, until)| Leader { replica, address: Arc::from(address), until })
}

fn in_force() -> impl Strategy<Value = InForce> {
    (1..u128::MAX, 0..=NOW.as_micros(), any::<u128>()).prop_map(|(hash, since, before)| InForce {
        hash: ConfigHash(hash),
        since: FleetTime::from_micros(since),
        before: ConfigHash(before),
    })
}

/// Labels as those of the buckets often are, so that some of them are meant.
fn limits() -> impl Strategy<Value = Limits> {
    let limit = (select(vec!["a", "account/a", "b"]), 1_u64..1_000_000, of(1_i64..86_400), "[ab*]{0,2}", 1_i64..86_400);
    let said = limit.prop_map(|(bucket, units, per, model, lasts)| LimitSaid {
        limit: OverLimit { bucket: Arc::from(bucket), units, per: per.map(Span::from_secs) },
        model: Arc::from(model),
        ends: NOW + Span::from_secs(lasts),
    });
    (0..=NOW.as_micros(), vec(said, 0..3)).prop_map(|(at, said)| Limits { at: FleetTime::from_micros(at), said })
}

fn lineage() -> impl Strategy<Value = Lineage> {
    let part = (any::<u32>(), 0..=MOST_COUNTED).prop_map(|(replica, commits)| Writer { replica, commits });
    vec(part, 0..20).prop_map(Lineage::from_writers)
}

fn with_id(state: BucketState, id: BucketId) -> BucketState {
    BucketState { plan: BucketPlan { id, ..state.plan }, ..state }
}

fn bucket() -> impl Strategy<Value = BucketState> {
    let instants = (instant(), instant(), instant(), instant(), instant());
    let amounts = (mark(), mark(), stock(), of((mark(), stock(), instant())));
    let parts = (0..=1_000_i64, 0..=1_000_i64, 0..=1_000_i64, any::<bool>());
    let held = (of(floor()), holds(), [class_turn(), class_turn(), class_turn()]);
    (plan(), learned(), instants, amounts, parts, any::<(bool, bool)>(), held).prop_map(
        |(plan, learned, instants, (fired, fired_at_turn, typical, observed), parts, (started, spreading), held)| {
            let (floor, holds, classes) = held;
            let (level_at, burst_at, window_end, opens_at, paced_until) = instants;
            let mut state = BucketState {
                learned,
                window_end,
                opens_at,
                fired,
                spreading,
                fired_at_turn,
                paced_until,
                observed: observed.map(|(mark, remaining, at)| Observation { mark, remaining, at, reports: 7 }),
                typical,
                typical_reserved: typical,
                calm: Calm { until: opens_at, length: Span::from_micros(fired_at_turn.clamp(0, 900_000_000)), mark: fired },
                proven: typical,
                proof: backing(paced_until),
                lowest: observed.map(|(_, remaining, _)| remaining),
                trail: Trail { at: level_at, fired, before: fired_at_turn },
                drain: Drain {
                    per_minute: Milli::ZERO - typical,
                    base: observed.map(|(mark, remaining, at)| Base { mark, remaining, at, took: Span::from_millis(300) }),
                    last: typical,
                    backing: backing(window_end),
                },
                ceiling: ceiling(fired, fired_at_turn, typical, window_end),
                started,
                floor,
                holds,
                classes: ClassTurns(classes),
                ..BucketState::new(plan)
            };
            set_levels(&mut state, level_at, burst_at, parts);
            state
        },
    )
}

fn backing(at: FleetTime) -> Backing {
    Backing { at, reports: u32::try_from(at.as_micros().rem_euclid(i64::from(MOST_REPORTS))).unwrap() }
}

fn ceiling(mark: i64, earlier: i64, amount: Milli, at: FleetTime) -> Ceiling {
    Ceiling {
        allowed: amount,
        measured: amount,
        anchor_at: at,
        anchor_mark: mark,
        refused: amount,
        cut_mark: earlier,
        is_silent: mark % 2 == 0,
        began_at: at,
        began_fired: earlier,
        hold_until: at,
        hold: Span::from_secs(20),
        climbs: u32::from(mark % 3 == 0),
        stretch_at: at,
        stretch_passed: amount,
    }
}

/// Levels that the limit in force allows: `parts` are thousandths of what fits, of the debt that is paid off in time, and of
/// the window.
fn set_levels(state: &mut BucketState, level_at: FleetTime, burst_at: FleetTime, parts: (i64, i64, i64, bool)) {
    let (level_part, burst_part, carry_part, in_debt) = parts;
    let per = state.effective().per.as_micros();
    let carry = i64::try_from(i128::from(per - 1) * i128::from(carry_part) / 1_000).unwrap();
    let rate = state.rate().filter(|_| state.started);
    let rate = rate.unwrap_or(Rate::new(Milli::MAX, Span::from_micros(1), Milli::MAX));
    let burst = state.most_at_once(&rate);
    let part_of = |amount: Milli, part: i64| {
        let part = i128::from(amount.as_milli()) * i128::from(part) / 1_000;
        Milli::from_milli(i64::try_from(part).unwrap())
    };
    let debt = part_of(rate.gained_in(LONGEST_FLOOR), level_part);
    let amount = if in_debt { Milli::ZERO - debt } else { part_of(rate.capacity, level_part) };
    state.level = Level { amount, as_of: level_at, carry };
    state.burst = Level { amount: part_of(burst, burst_part), as_of: burst_at, carry };
}

fn plan() -> impl Strategy<Value = BucketPlan> {
    let refill = of(select(vec![Refill::Continuous, Refill::Window, Refill::Held]));
    let start = select(vec![StartLevel::Cautious, StartLevel::Full]);
    (text(), of(units()), of(window()), of(units()), of(units()), refill, start, any::<bool>()).prop_map(
        |(meter, limit, per, capacity, burst, refill, start, learn_above)| {
            let id = BucketId { owner: Owner::Account, name: Arc::from("named later") };
            // Any refill may have a calendar here: what is stored is read as it was.
            let calendar = limit.filter(|_| learn_above).map(|limit| Calendar {
                unit: CalendarUnit::ALL[usize::try_from(limit % 3).unwrap()],
                zone: if limit % 2 == 0 { Zone::utc() } else { Zone::named("America/Los_Angeles").unwrap() },
            });
            let millionths = |units: Option<u64>| u32::try_from(units.unwrap_or(u64::MAX) % 1_000_000).unwrap();
            let ours = OurPart {
                least: Portion::from_millionths(millionths(capacity)),
                most: Portion::from_millionths(1 + millionths(burst)),
            };
            let meter = Arc::from(meter);
            BucketPlan { id, meter, limit, per, capacity, burst, refill, calendar, start, learn_above, ours }
        },
    )
}

fn bucket_id() -> impl Strategy<Value = BucketId> {
    let owner = prop_oneof![
        name().prop_map(|key| Owner::Group(Arc::from(key))),
        name().prop_map(|key| Owner::Shared(Arc::from(key))),
        Just(Owner::Account),
    ];
    (owner, text()).prop_map(|(owner, name)| BucketId { owner, name: Arc::from(name) })
}

fn learned() -> impl Strategy<Value = Learned> {
    let limit = of(units().prop_map(|limit| limit.max(1)));
    let end = (mark(), units(), window(), instant(), instant())
        .prop_map(|(mark, remaining, reset_in, earliest, latest)| NamedEnd { mark, remaining, reset_in, earliest, latest });
    let shape = (of(units().prop_map(|brim| brim.max(1))), of((units(), window())), any::<bool>(), of(end));
    (limit, of(window()), of(any::<bool>()), units(), any::<u8>(), mark(), shape).prop_map(
        |(limit, per, windowed, candidate, agreeing, candidate_mark, (brim, anchor, ends_move, named_end))| Learned {
            limit,
            per,
            windowed,
            candidate,
            agreeing,
            candidate_mark,
            brim,
            anchor,
            far_mark: anchor.map(|_| candidate_mark),
            ends_move,
            ends_stand: !ends_move,
            named_end,
            backing: named_end.map_or_else(Backing::default, |end| backing(end.latest)),
        },
    )
}

fn group() -> impl Strategy<Value = GroupState> {
    let counts = (0..=MOST_COUNTED, 0..=1_000_u64, 0..=1_000_u64, any::<u32>());
    let ramp = (1_000..=1_000_000_000_i64, any::<bool>(), any::<bool>());
    let calls = (tally(), of(exhausted()), [crew_turn(), crew_turn(), crew_turn()]);
    (any::<bool>(), of(floor()), counts, holds(), ramp, calls).prop_map(
        |(is_each, floor, (granted, cut, ramp_cut, refusals), flights, (ramp, ramp_met_refusal, is_starting), calls)| {
            GroupState {
                is_each,
                floor,
                granted,
                refusals,
                cut_mark: granted / 1_000 * cut,
                flights,
                ramp: Milli::from_milli(ramp),
                ramp_cut_mark: granted / 1_000 * ramp_cut,
                ramp_met_refusal,
                is_starting,
                breaker: Breaker {
                    failures: refusals,
                    leases: refusals,
                    last_mark: granted,
                    opened_at: NOW,
                    gap: Span::from_secs(1),
                    probing_until: NOW,
                },
                tally: calls.0,
                exhausted: calls.1,
                crews: CrewTurns(calls.2),
                ..GroupState::new(Arc::from("named later"), is_each)
            }
        },
    )
}

fn tally() -> impl Strategy<Value = Tally> {
    let count = || prop_oneof![0..100_u64, 0..=MOST_COUNTED];
    let counts =
        move || (count(), count(), count()).prop_map(|(firsts, retries, fallbacks)| Counts { firsts, retries, fallbacks });
    (0..=NOW.as_micros(), counts(), counts()).prop_map(|(since, current, before)| Tally {
        since: FleetTime::from_micros(since),
        current,
        before,
    })
}

fn exhausted() -> impl Strategy<Value = Exhausted> {
    (instant(), instant(), 0..=LONGEST_INTERVAL.as_micros()).prop_map(|(since, until, interval)| Exhausted {
        since,
        until,
        interval: Span::from_micros(interval),
    })
}

fn class_turn() -> impl Strategy<Value = ClassTurn> {
    let latest = (NOW + LINGER).as_micros();
    (0..=latest, stock(), mark(), turn()).prop_map(|(waits_until, owed, over, clock)| ClassTurn {
        waits_until: FleetTime::from_micros(waits_until),
        owed,
        over: Milli::ZERO - Milli::from_milli(over),
        clock,
    })
}

fn crew_turn() -> impl Strategy<Value = CrewTurn> {
    let lane = (any::<u64>(), turn(), 0..=NOW.as_micros()).prop_map(|(lane, turn, at)| LaneTurn {
        lane,
        turn,
        at: FleetTime::from_micros(at),
    });
    (turn(), turn(), vec(lane, 0..4)).prop_map(|(turn, clock, lanes)| CrewTurn { turn, clock, lanes })
}

fn turn() -> impl Strategy<Value = Turn> {
    prop_oneof![Just(0), 0..=i64::MAX].prop_map(Turn::from_nanos)
}

fn floor() -> impl Strategy<Value = Floor> {
    (instant(), instant(), select(Source::ALL.to_vec())).prop_map(|(until, since, source)| Floor { until, since, source })
}

fn holds() -> impl Strategy<Value = Holds> {
    let latest = (NOW + LONGEST_HOLD).as_micros();
    let slot = (0..=latest, 1..=Milli::MAX.as_milli() / 8);
    let slot = slot.prop_map(|(ends, amount)| Slot { ends: FleetTime::from_micros(ends), amount: Milli::from_milli(amount) });
    vec(slot, 0..6).prop_map(Holds::from_slots)
}

fn instant() -> impl Strategy<Value = FleetTime> {
    let now = NOW.as_micros();
    let micros = prop_oneof![Just(0), now - 1_000_000_000..now + 1_000_000_000, 0..=LATEST_MICROS];
    micros.prop_map(FleetTime::from_micros)
}

fn window() -> impl Strategy<Value = Span> {
    prop_oneof![Just(60_000_000), 1..=LONGEST_WINDOW_MICROS].prop_map(Span::from_micros)
}

fn units() -> impl Strategy<Value = u64> {
    prop_oneof![0..1_000_u64, Just(30_000), any::<u64>()]
}

fn stock() -> impl Strategy<Value = Milli> {
    (0..=Milli::MAX.as_milli()).prop_map(Milli::from_milli)
}

fn mark() -> impl Strategy<Value = i64> {
    prop_oneof![0..1_000_000_i64, 0..=i64::try_from(MOST_COUNTED).unwrap()]
}

/// A name that may be empty.
fn name() -> impl Strategy<Value = String> {
    "\\PC{0,12}"
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![Just("requests".to_owned()), "\\PC{1,12}"]
}
