//! Who else lives on a limit, and which part of it is ours.

use paceline_core::backing::Backing;
use paceline_core::bucket::BucketState;
use paceline_core::drain::Drain;
use paceline_core::plan::{BucketPlan, OurPart, Portion};
use paceline_core::units::{FleetTime, Milli, Span};

use crate::support::plans::{per_minute, unknown, windowed};

const NOW: FleetTime = FleetTime::from_secs(1_800_000_000);
const MINUTE: Span = Span::from_secs(60);

fn percent(part: u32) -> Portion {
    Portion::from_millionths(part * 10_000)
}

fn ours(plan: BucketPlan, least: u32, most: u32) -> BucketState {
    BucketState::new(BucketPlan { ours: OurPart { least: percent(least), most: percent(most) }, ..plan })
}

/// Units a minute that are ours while others are seen to take so many.
fn pace(least: u32, most: u32, others: u64) -> u64 {
    let mut bucket = ours(per_minute("requests", 1_000), least, most);
    bucket.drain.per_minute = Milli::from_units(others);
    bucket.rate().unwrap().gained_in(MINUTE).as_units_floor()
}

/// SK08: we give way to others, down to our share, and never take more than our part.
#[test]
fn sk08_two_stacks_on_one_account() {
    for (least, most, others, expected) in [
        (0, 100, 0, 1_000),
        (0, 100, 300, 700),
        (0, 100, 990, 20), // a little, or we would never notice that they left
        (30, 100, 300, 700),
        (30, 100, 900, 300),
        (0, 50, 0, 500),
        (0, 50, 300, 500), // they stay within their part, we within ours
        (0, 50, 700, 300),
        (40, 50, 700, 400),
        (60, 50, 700, 500),
    ] {
        assert_eq!(pace(least, most, others), expected, "share {least} %, use {most} %, others take {others}");
    }
}

#[test]
fn our_part_is_taken_of_limits_that_headers_tell() {
    let mut bucket = ours(unknown("requests"), 0, 50);
    assert_eq!(bucket.our_limit(), None);
    bucket.learned.limit = Some(600);
    assert_eq!(
        (bucket.effective().limit, bucket.our_limit(), bucket.capacity()),
        (Some(600), Some(300), Some(Milli::from_units(300)))
    );
    // What a person wrote is the whole, and so is what the provider cuts it to.
    let mut bucket = ours(BucketPlan { capacity: Some(500), burst: Some(41), ..per_minute("requests", 1_000) }, 0, 50);
    bucket.start(NOW, Milli::from_units(1));
    let rate = bucket.rate().unwrap();
    assert_eq!((rate.gained_in(MINUTE), rate.capacity), (Milli::from_units(500), Milli::from_units(250)));
    assert_eq!(bucket.most_at_once(&rate), Milli::from_units(20), "rounded down");
    bucket.learned.limit = Some(600);
    assert_eq!(bucket.rate().unwrap().gained_in(MINUTE), Milli::from_units(300));
    // A part is at least one unit, or nothing could ever be sent.
    let mut day = ours(windowed("requests", 3, MINUTE), 0, 10);
    day.start(NOW, Milli::from_units(1));
    assert_eq!(day.capacity(), Some(Milli::from_units(1)));
}

/// Bursts that nobody has made for a day, and others whom nobody has seen for ten minutes, are not taken for granted.
#[test]
fn what_is_old_is_doubted() {
    let one = Milli::from_units(1);
    let mut bucket =
        BucketState::new(BucketPlan { start: paceline_core::plan::StartLevel::Cautious, ..per_minute("requests", 1_200) });
    bucket.start(NOW, one);
    let first = bucket.proven;
    bucket.proven = Milli::from_units(1_200);
    bucket.proof = Backing { at: NOW, reports: 40 };
    bucket.drain = Drain { per_minute: Milli::from_units(300), backing: Backing { at: NOW, reports: 4 }, ..Drain::default() };
    bucket.start(NOW + Span::from_secs(599), one);
    assert_eq!((bucket.proven, bucket.foreign_drain()), (Milli::from_units(1_200), Some(Milli::from_units(300))));
    bucket.start(NOW + Span::from_secs(601), one);
    assert_eq!((bucket.proven, bucket.foreign_drain()), (Milli::from_units(1_200), None));
    bucket.start(NOW + Span::from_secs(86_401), one);
    assert_eq!(bucket.proven, first, "as in the beginning");
    // Who vouched for it has vouched for good.
    let mut vouched = BucketState::new(per_minute("requests", 1_200));
    vouched.start(NOW, one);
    vouched.proof = Backing { at: NOW, reports: 40 };
    vouched.start(NOW + Span::from_secs(86_401), one);
    assert_eq!(vouched.proven, Milli::from_units(1_200));
}
