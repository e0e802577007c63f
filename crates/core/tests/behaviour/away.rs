//! Callers that are away with a ticket: counted until their time is over, and then gone without a trace.

use paceline_core::queue::{Ask, Queue};
use paceline_core::units::{FleetTime, Span};

use crate::support::plans::{group, per_minute};
use crate::support::world::{START, World};

fn after(secs: i64) -> FleetTime {
    START + Span::from_secs(secs)
}

/// A queue that these have left, each to be remembered for so many seconds.
fn left(asks: &[Ask], secs: &[i64]) -> Queue {
    let mut queue = Queue::default();
    for (ask, secs) in asks.iter().zip(secs) {
        queue.push(ask.clone(), START);
        queue.leave(ask.id, START, after(*secs), Box::default()).unwrap();
    }
    queue
}

fn depth(queue: &Queue) -> usize {
    queue.lanes().map(|(_, lane)| lane.depth()).sum()
}

#[test]
fn they_are_forgotten_in_order_of_time_and_empty_lanes_with_them() {
    let (plan, mut world) = (group(vec![per_minute("requests", 60)]), World::new(1));
    let asks: Vec<Ask> = (0..4).map(|_| world.ask(&plan)).collect();
    let mut queue = left(&asks, &[9, 3, 7, 3]);
    assert_eq!((depth(&queue), queue.next_forgetting()), (4, Some(after(3))));
    for (now, remembered, next) in [(2, 4, Some(3)), (3, 2, Some(7)), (8, 1, Some(9)), (9, 0, None)] {
        queue.forget_absent(after(now));
        assert_eq!((depth(&queue), queue.next_forgetting()), (remembered, next.map(after)), "after {now} s");
    }
    assert_eq!(queue.lanes().count(), 0);
}

#[test]
fn who_comes_back_or_gives_its_place_back_is_not_away_any_more() {
    let (plan, mut world) = (group(vec![per_minute("requests", 60)]), World::new(1));
    let asks: Vec<Ask> = (0..3).map(|_| world.ask(&plan)).collect();
    let mut queue = left(&asks, &[3, 5, 7]);
    queue.push(asks[0].clone(), after(1));
    assert_eq!((depth(&queue), queue.next_forgetting()), (3, Some(after(5))));
    assert!(queue.forget_place(asks[1].stamp) && !queue.forget_place(asks[1].stamp));
    assert_eq!((depth(&queue), queue.next_forgetting()), (2, Some(after(7))));
    queue.forget_absent(after(60));
    assert_eq!((depth(&queue), queue.len()), (1, 1), "who is here stays");
    // Away once more, with another time: only that one counts.
    queue.leave(asks[0].id, after(61), after(90), Box::default()).unwrap();
    assert_eq!(queue.next_forgetting(), Some(after(90)));
    assert!(queue.forget_place(asks[0].stamp));
    assert_eq!((queue.lanes().count(), queue.next_forgetting()), (0, None));
}
