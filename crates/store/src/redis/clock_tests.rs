//! Fleet time over drift, steps, fail-overs and losses, with several replicas at one server.

use proptest::prelude::*;

use super::*;

const SECOND: i64 = 1_000_000;
const START: i64 = 1_800_000_000 * SECOND;

/// A server whose clock can be set, with what the replicas agreed on.
struct Server {
    set_by: i64,
    agreed: Option<Agreed>,
}

impl Server {
    fn new() -> Self {
        Self { set_by: 0, agreed: None }
    }

    /// A sample that takes `trip` and begins at `at` of the true time; each replica's monotonic clock begins elsewhere.
    fn sample(&self, replica: &Replica, at: i64, trip: i64) -> Sample {
        let sent = at - START + replica.began;
        Sample { sent, received: sent + trip, server: at + trip / 3 + self.set_by, agreed: self.agreed }
    }
}

struct Replica {
    began: i64,
    clock: FleetClock,
    steps: u64,
}

impl Replica {
    fn new(began: i64, wall_off: i64) -> Self {
        Self { began, clock: FleetClock::new(began, START + wall_off), steps: 0 }
    }

    fn read(&self, at: i64) -> i64 {
        self.clock.line().read(at - START + self.began)
    }

    /// Looks at the server and does as it is advised; returns whether all is well.
    fn look(&mut self, server: &mut Server, at: i64, trip: i64) -> bool {
        match self.clock.observe(server.sample(self, at, trip), true) {
            Advice::Fine => true,
            Advice::Doubt => false,
            Advice::Adopted => {
                self.steps += 1;
                true
            }
            Advice::Propose(agreed) => {
                let old = server.agreed.map_or(0, |old| old.steps);
                self.steps += agreed.steps - old;
                server.agreed = Some(agreed);
                self.clock.written(agreed);
                false
            }
        }
    }
}

/// Lets two replicas look each 100 ms for ten seconds; time must be as it was, within `slack`, and never go back.
fn run(replicas: &mut [Replica], server: &mut Server, from: i64, ahead: i64, slack: i64) -> i64 {
    let mut last: Vec<i64> = replicas.iter().map(|replica| replica.read(from)).collect();
    let mut at = from;
    while at < from + 10 * SECOND {
        at += SECOND / 10;
        for (replica, last) in replicas.iter_mut().zip(&mut last) {
            replica.look(server, at, 300);
            let now = replica.read(at);
            assert!(now >= *last, "went back by {} us", *last - now);
            assert!((now - at - ahead).abs() <= slack, "off by {} us", now - at - ahead);
            *last = now;
        }
    }
    at
}

#[test]
fn steps_of_the_server_do_not_reach_the_fleet() {
    // CK02: a minute back, then an hour forward; the others adopt what the first one proposes.
    let (mut server, mut fleet) = (Server::new(), [Replica::new(0, 0), Replica::new(77 * SECOND, 0)]);
    let mut at = run(&mut fleet, &mut server, START, 0, 1_000);
    for step in [-60 * SECOND, 3_600 * SECOND, -3_540 * SECOND] {
        server.set_by += step;
        at = run(&mut fleet, &mut server, at, 0, 2_000);
    }
    assert_eq!(server.agreed, Some(Agreed { offset: 0, steps: 3 }));
    assert_eq!(fleet.map(|replica| replica.steps), [3, 3], "each counts each step once");
}

#[test]
fn a_clock_that_is_set_by_less_than_a_second_is_followed_slowly() {
    let (mut server, mut fleet) = (Server::new(), [Replica::new(0, 0)]);
    let at = run(&mut fleet, &mut server, START, 0, 1_000);
    server.set_by += 400_000;
    let at = run(&mut fleet, &mut server, at, 200_000, 210_000);
    assert_eq!(server.agreed, Some(Agreed::default()), "the fleet follows its server");
    assert!((fleet[0].read(at) - at - 400_000).abs() < 1_000);
}

#[test]
fn what_was_agreed_is_put_back_when_it_is_lost() {
    let (mut server, mut fleet) = (Server::new(), [Replica::new(0, 0), Replica::new(5, 0)]);
    let at = run(&mut fleet, &mut server, START, 0, 1_000);
    server.set_by += 3_600 * SECOND;
    let at = run(&mut fleet, &mut server, at, 0, 2_000);
    let agreed = server.agreed.take();
    let at = run(&mut fleet, &mut server, at, 0, 2_000);
    assert_eq!(server.agreed, agreed);
    // An older copy takes over, from before the step: two replicas know better.
    server.agreed = Some(Agreed::default());
    run(&mut fleet, &mut server, at, 0, 2_000);
    assert_eq!(server.agreed.map(|agreed| agreed.offset), agreed.map(|agreed| agreed.offset));
}

#[test]
fn who_starts_with_a_wrong_system_clock_takes_the_fleets_time() {
    let mut server = Server { set_by: 0, agreed: Some(Agreed { offset: 5 * SECOND, steps: 2 }) };
    for wall_off in [-86_400 * SECOND, 0, 2 * SECOND] {
        let mut replica = Replica::new(3, wall_off);
        assert!(replica.look(&mut server, START + SECOND, 100));
        assert!((replica.read(START + SECOND) - START - 6 * SECOND).abs() < 1_000);
        assert_eq!(replica.steps, 0, "nobody's clock was set");
    }
    // One that told the time before its first sample, and was ahead, waits.
    let mut ahead = Replica::new(3, 9 * SECOND);
    let told = ahead.read(START + SECOND);
    ahead.look(&mut server, START + SECOND, 100);
    assert_eq!(ahead.read(START + SECOND + 200), told + 100, "it stands where it was when the sample came");
    assert!((ahead.read(START + 10 * SECOND) - START - 15 * SECOND).abs() < 1_000);
}

#[test]
fn one_odd_sample_changes_nothing() {
    let (mut server, mut fleet) = (Server::new(), [Replica::new(0, 0)]);
    let at = run(&mut fleet, &mut server, START, 0, 1_000);
    for odd in [60, -60, 3_600] {
        server.set_by = odd * SECOND;
        assert!(!fleet[0].look(&mut server, at + 10, 100), "it looks again");
    }
    server.set_by = 0;
    run(&mut fleet, &mut server, at, 0, 1_000);
    assert_eq!(server.agreed, Some(Agreed::default()));
}

proptest! {
    /// Whatever the server's clock and the network do, time never goes back in a process, and goes on at about its pace while
    /// looks come: within what is doubted for three of them.
    #[test]
    fn time_never_goes_back(
        events in prop::collection::vec((prop_oneof![3 => Just(0i64), 1 => -4_000_000_000i64..4_000_000_000], 1i64..400_000, 1i64..2_000_000), 1..60),
    ) {
        let (mut server, mut replica) = (Server::new(), Replica::new(11, 0));
        let (mut at, mut last) = (START, START);
        for (set, trip, gap) in events {
            server.set_by += set;
            at += gap.max(trip + 1);
            replica.look(&mut server, at, trip);
            for ahead in [trip, trip + 1, trip + gap / 2] {
                let now = replica.read(at + ahead.min(gap));
                prop_assert!(now >= last || at + ahead.min(gap) < at, "{now} after {last}");
                last = now.max(last);
            }
            at += gap;
        }
        // It is not left behind either: a second of true time is about a second.
        let (one, two) = (replica.read(at + SECOND), replica.read(at + 2 * SECOND));
        prop_assert!((0..=SECOND + SECOND / SLEW + 1).contains(&(two - one)));
    }
}
