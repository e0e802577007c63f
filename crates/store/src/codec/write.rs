//! From a scope value to its messages.

use bytes::Bytes;
use paceline_core::bucket::{BucketState, Calm, Learned, Observation};
use paceline_core::calendar::CalendarUnit;
use paceline_core::fair::{ClassTurn, ClassTurns, CrewTurn, CrewTurns, LaneTurn};
use paceline_core::floor::Floor;
use paceline_core::holds::Holds;
use paceline_core::level::Level;
use paceline_core::lineage::Writer;
use paceline_core::plan::{BucketId, BucketPlan, OurPart, Owner, Portion, Refill, StartLevel};
use paceline_core::provisional::{Place, Provisional};
use paceline_core::units::{Milli, Span};
use paceline_core::value::{GroupState, ScopeValue};
use prost::Message;

use super::{calls, pace, wire};

/// The body of a value.
pub(super) fn scope(value: &ScopeValue) -> wire::Scope {
    let ScopeValue {
        buckets,
        groups,
        floor: under,
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
        keeps_limits: _,
    } = value;
    let refusal = last_refusal.as_ref();
    wire::Scope {
        buckets: buckets.iter().map(|state| message(&bucket(state))).collect(),
        groups: groups.iter().map(|state| message(&group(state))).collect(),
        floor: under.map(floor),
        last_refusal: refusal.map(|(group, at)| wire::Refusal { group: text(group), at: at.as_micros() }),
        repaired: *repaired,
        lost_at: lost_at.as_micros(),
        usage: super::usage::write(usage),
        exhausted: exhausted.as_ref().map(calls::write_exhausted),
        provisional: provisional.iter().map(told_to_one).collect(),
        writers: lineage.writers().iter().map(writer).collect(),
        leader: leader.as_ref().map(|leader| wire::Leader {
            replica: leader.replica,
            address: leader.address.to_string(),
            until: leader.until.as_micros(),
        }),
        in_force: in_force.as_ref().map(super::in_force::write),
        limits: super::limits::write(limits),
    }
}

fn told_to_one(known: &Provisional) -> wire::Provisional {
    let Provisional { place, told, mark } = known;
    let (group, bucket) = match place {
        Place::Account => (None, None),
        Place::Group(key) => (Some(text(key)), None),
        Place::Bucket(id) => (None, Some(bucket_id(id))),
    };
    wire::Provisional { group, bucket, told: told.as_micros(), mark: *mark }
}

/// A bucket's name alone.
fn bucket_id(id: &BucketId) -> wire::Plan {
    let (owner_kind, owner) = owner(&id.owner);
    wire::Plan { owner_kind, owner, name: text(&id.name), ..wire::Plan::default() }
}

fn owner(owner: &Owner) -> (u32, Bytes) {
    match owner {
        Owner::Group(key) => (wire::OWNER_GROUP, text(key)),
        Owner::Shared(name) => (wire::OWNER_SHARED, text(name)),
        Owner::Account => (wire::OWNER_ACCOUNT, Bytes::new()),
    }
}

fn writer(writer: &Writer) -> wire::Writer {
    let Writer { replica, commits } = *writer;
    wire::Writer { replica, commits }
}

// Each state is taken apart by name, so that a new field cannot be forgotten here.

fn bucket(state: &BucketState) -> wire::Bucket {
    let BucketState {
        plan: planned,
        learned: known,
        over: _,
        level: stock,
        burst,
        window_end,
        opens_at,
        fired,
        spreading,
        fired_at_turn,
        paced_until,
        observed: seen,
        typical,
        typical_reserved,
        started,
        calm,
        proven,
        proof,
        lowest,
        trail,
        drain,
        ceiling,
        floor: under,
        holds: held,
        classes: ClassTurns([interactive, normal, batch]),
    } = state;
    wire::Bucket {
        plan: Some(plan(planned)),
        learned: (*known != Learned::default()).then(|| learned(known)),
        level: (*stock != Level::default()).then(|| level(stock)),
        burst: (*burst != Level::default()).then(|| level(burst)),
        window_end: window_end.as_micros(),
        opens_at: opens_at.as_micros(),
        fired: *fired,
        spreading: *spreading,
        fired_at_turn: *fired_at_turn,
        paced_until: paced_until.as_micros(),
        observed: seen.as_ref().map(observed),
        typical: typical.as_milli(),
        typical_reserved: typical_reserved.as_milli(),
        started: *started,
        floor: under.map(floor),
        holds: holds(held),
        calm: (*calm != Calm::default()).then(|| wire::Calm {
            until: calm.until.as_micros(),
            length: calm.length.as_micros(),
            mark: calm.mark,
        }),
        proven: proven.as_milli(),
        proof: pace::write_backing(proof),
        lowest: lowest.map(Milli::as_milli),
        trail: pace::write_trail(trail),
        drain: pace::write_drain(drain),
        ceiling: pace::write_ceiling(ceiling),
        interactive: class_turn(interactive),
        normal: class_turn(normal),
        batch: class_turn(batch),
    }
}

fn class_turn(turn: &ClassTurn) -> Option<wire::ClassTurn> {
    let ClassTurn { waits_until, owed, over, clock } = *turn;
    (*turn != ClassTurn::default()).then(|| wire::ClassTurn {
        waits_until: waits_until.as_micros(),
        owed: owed.as_milli(),
        over: over.as_milli(),
        clock: clock.as_nanos(),
    })
}

fn plan(plan: &BucketPlan) -> wire::Plan {
    let BucketPlan {
        id: BucketId { owner, name },
        meter,
        limit,
        per,
        capacity,
        burst,
        refill,
        calendar,
        start,
        learn_above,
        ours: OurPart { least, most },
    } = plan;
    let (owner_kind, owner) = self::owner(owner);
    wire::Plan {
        owner_kind,
        owner,
        name: text(name),
        meter: text(meter),
        limit: *limit,
        per: per.map(Span::as_micros),
        capacity: *capacity,
        burst: *burst,
        refill: match refill {
            None => wire::REFILL_UNKNOWN,
            Some(Refill::Continuous) => wire::REFILL_CONTINUOUS,
            Some(Refill::Window) => wire::REFILL_WINDOW,
            Some(Refill::Held) => wire::REFILL_HELD,
        },
        start: match start {
            StartLevel::Cautious => wire::START_CAUTIOUS,
            StartLevel::Full => wire::START_FULL,
        },
        learn_above: *learn_above,
        our_most: Some(most.as_millionths()).filter(|_| *most < Portion::WHOLE),
        our_least: least.as_millionths(),
        calendar: match calendar.as_ref().map(|calendar| calendar.unit) {
            None => wire::CALENDAR_NONE,
            Some(CalendarUnit::Day) => wire::CALENDAR_DAY,
            Some(CalendarUnit::Week) => wire::CALENDAR_WEEK,
            Some(CalendarUnit::Month) => wire::CALENDAR_MONTH,
        },
        zone: calendar.as_ref().map(|calendar| text(calendar.zone.name())).unwrap_or_default(),
    }
}

fn learned(learned: &Learned) -> wire::Learned {
    let Learned {
        limit,
        per,
        windowed,
        candidate,
        agreeing,
        candidate_mark,
        brim,
        anchor,
        far_mark,
        ends_move,
        ends_stand,
        named_end,
        backing,
    } = *learned;
    wire::Learned {
        limit,
        per: per.map(Span::as_micros),
        windowed,
        candidate,
        agreeing: u32::from(agreeing),
        candidate_mark,
        brim,
        far_mark,
        anchor: anchor.map(|(remaining, until_full)| wire::Anchor { remaining, until_full: until_full.as_micros() }),
        ends_move,
        ends_stand,
        named_end: named_end.as_ref().map(pace::write_named_end),
        backing: pace::write_backing(&backing),
    }
}

fn level(level: &Level) -> wire::Level {
    let Level { amount, as_of, carry } = *level;
    wire::Level { amount: amount.as_milli(), as_of: as_of.as_micros(), carry }
}

fn observed(seen: &Observation) -> wire::Observed {
    let Observation { mark, remaining, at, reports } = *seen;
    wire::Observed { mark, remaining: remaining.as_milli(), at: at.as_micros(), reports }
}

fn floor(floor: Floor) -> wire::Floor {
    let Floor { until, since, source } = floor;
    wire::Floor { until: until.as_micros(), since: since.as_micros(), source: u32::from(source as u8) }
}

fn holds(holds: &Holds) -> Vec<wire::Slot> {
    let slots = holds.slots().iter();
    slots.map(|slot| wire::Slot { ends: slot.ends.as_micros(), amount: slot.amount.as_milli() }).collect()
}

fn group(state: &GroupState) -> wire::Group {
    let GroupState {
        key,
        is_each,
        floor: under,
        granted,
        refusals,
        cut_mark,
        flights,
        ramp,
        ramp_cut_mark,
        ramp_met_refusal,
        is_starting,
        breaker,
        tally,
        exhausted,
        crews: CrewTurns([interactive, normal, batch]),
    } = state;
    wire::Group {
        key: text(key),
        is_each: *is_each,
        floor: under.map(floor),
        granted: *granted,
        refusals: *refusals,
        cut_mark: *cut_mark,
        flights: holds(flights),
        ramp: ramp.as_milli(),
        ramp_cut_mark: *ramp_cut_mark,
        ramp_met_refusal: *ramp_met_refusal,
        is_starting: *is_starting,
        breaker: pace::write_breaker(breaker),
        tally: calls::write_tally(tally),
        exhausted: exhausted.as_ref().map(calls::write_exhausted),
        interactive: crew_turn(interactive),
        normal: crew_turn(normal),
        batch: crew_turn(batch),
    }
}

fn crew_turn(crew: &CrewTurn) -> Option<wire::CrewTurn> {
    let CrewTurn { turn, clock, lanes } = crew;
    let lane = |known: &LaneTurn| {
        let LaneTurn { lane, turn, at } = *known;
        wire::LaneTurn { lane, turn: turn.as_nanos(), at: at.as_micros() }
    };
    (*crew != CrewTurn::default()).then(|| wire::CrewTurn {
        turn: turn.as_nanos(),
        clock: clock.as_nanos(),
        lanes: lanes.iter().map(lane).collect(),
    })
}

fn text(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn message(message: &impl Message) -> Bytes {
    message.encode_to_vec().into()
}
