//! Who had how much, of two values: nobody gets a share twice, and no guarantee is forgotten.
//!
//! Order and shares let no call through (only levels do), so nothing here has to be cautious. But a lane that had its turn by
//! one value must not have it again by the other, and what is owed by one of them stays owed.

use super::union;
use crate::fair::{ClassTurn, ClassTurns, CrewTurn, CrewTurns, LaneTurn, MOST_LANE_TURNS};
use crate::tally::{Counts, Tally};

/// What the classes have coming in one bucket.
pub(super) fn classes(ours: ClassTurns, theirs: ClassTurns) -> ClassTurns {
    let both = |a: ClassTurn, b: ClassTurn| ClassTurn {
        waits_until: a.waits_until.max(b.waits_until),
        owed: a.owed.max(b.owed),
        over: a.over.max(b.over), // what one of them had of another's share is not had again
        clock: a.clock.max(b.clock),
    };
    let ([a, b, c], [x, y, z]) = (ours.0, theirs.0);
    ClassTurns([both(a, x), both(b, y), both(c, z)])
}

/// What the lanes of a group have had.
pub(super) fn crews(ours: &CrewTurns, theirs: &CrewTurns) -> CrewTurns {
    let ([a, b, c], [x, y, z]) = (&ours.0, &theirs.0);
    CrewTurns([crew(a, x), crew(b, y), crew(c, z)])
}

fn crew(ours: &CrewTurn, theirs: &CrewTurn) -> CrewTurn {
    let same = |a: &LaneTurn, b: &LaneTurn| a.lane == b.lane;
    let further = |a: &LaneTurn, b: &LaneTurn| LaneTurn { lane: a.lane, turn: a.turn.max(b.turn), at: a.at.max(b.at) };
    let mut lanes = union(&ours.lanes, &theirs.lanes, same, further);
    if lanes.len() > MOST_LANE_TURNS {
        // As when one too many is served: those that are least ahead lose least.
        let mut turns: Vec<_> = lanes.iter().map(|known| (known.turn, known.lane)).collect();
        turns.sort_unstable();
        if let Some(least) = turns.iter().rev().nth(MOST_LANE_TURNS - 1).copied() {
            lanes.retain(|known| (known.turn, known.lane) >= least);
        }
    }
    CrewTurn { turn: ours.turn.max(theirs.turn), clock: ours.clock.max(theirs.clock), lanes }
}

/// Calls sent of late: of each kind the most that one of both has counted. What was counted twice stands for a minute or two;
/// retries that nobody counts would be sent again.
pub(super) fn tally(ours: Tally, theirs: Tally) -> Tally {
    let since = ours.since.max(theirs.since);
    let (ours, theirs) = (ours.at(since), theirs.at(since));
    let most = |a: Counts, b: Counts| Counts {
        firsts: a.firsts.max(b.firsts),
        retries: a.retries.max(b.retries),
        fallbacks: a.fallbacks.max(b.fallbacks),
    };
    Tally { since, current: most(ours.current, theirs.current), before: most(ours.before, theirs.before) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fair::Turn;
    use crate::units::{FleetTime, Milli, Span};

    const NOW: FleetTime = FleetTime::from_secs(1_800_000_000);

    #[test]
    fn what_one_was_owed_stays_owed_and_what_one_had_is_not_had_again() {
        let one = ClassTurn { owed: Milli::from_units(3), over: Milli::from_milli(-2_000), ..ClassTurn::default() };
        let other = ClassTurn { over: Milli::from_units(1), clock: Turn::from_nanos(9), ..ClassTurn::default() };
        let [merged, ..] = classes(ClassTurns([one; 3]), ClassTurns([other; 3])).0;
        assert_eq!(merged, ClassTurn { owed: one.owed, over: other.over, clock: other.clock, ..one });
    }

    #[test]
    fn the_lanes_that_are_least_ahead_make_room() {
        let of = |range: std::ops::Range<u64>| {
            let lane = |lane: u64| LaneTurn { lane, turn: Turn::from_nanos(i64::try_from(lane).unwrap()), at: NOW };
            CrewTurn { lanes: range.map(lane).collect(), ..CrewTurn::default() }
        };
        let merged = crew(&of(0..80), &of(40..120));
        assert_eq!(merged.lanes, of(40..120).lanes);
        assert_eq!(crew(&merged, &of(0..80)), merged, "and are not there again");
    }

    #[test]
    fn retries_that_one_has_counted_are_counted() {
        let counted = |since: i64, retries: u64| Tally {
            since: NOW + Span::from_secs(since),
            current: Counts { firsts: 10, retries, fallbacks: 0 },
            before: Counts::default(),
        };
        let retries = |a: Tally, b: Tally| {
            assert_eq!(tally(a, b), tally(b, a));
            (tally(a, b).current.retries, tally(a, b).before.retries)
        };
        assert_eq!(retries(counted(0, 5), counted(0, 7)), (7, 0), "never their sum");
        assert_eq!(retries(counted(0, 5), counted(20, 1)), (5, 0), "a value that was begun anew");
        assert_eq!(retries(counted(0, 5), counted(70, 1)), (1, 5), "the minute before");
        assert_eq!(retries(counted(0, 5), counted(130, 1)), (1, 0), "long ago");
    }
}
