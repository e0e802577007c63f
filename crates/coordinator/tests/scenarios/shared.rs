//! HM12, SK08: limits that are not what the configuration says, because it is wrong or because others take their part. Workers
//! ask, send, report and ask again on two replicas, or on two stacks that know nothing of each other.

use paceline_coordinator::api::{AcquireRequest, Answer};
use paceline_core::units::{FleetTime, Span};

use super::secs;
use crate::support::{Look, START, World, answered, ask, back, limits, target};

/// What the provider really lets through.
struct Provider {
    per_minute: i64,
    /// Thousandths of a unit, and when.
    level: i64,
    at: FleetTime,
    tells: bool,
}

impl Provider {
    fn new(per_minute: i64, tells: bool) -> Self {
        Self { per_minute, level: per_minute * 1_000, at: START, tells }
    }

    fn arrive(&mut self, now: FleetTime) -> (u32, Vec<(&'static str, String)>) {
        let refilled = now.since(self.at).as_micros() * self.per_minute / 60_000;
        (self.level, self.at) = ((self.level + refilled).min(self.per_minute * 1_000), now);
        let status = if self.level >= 1_000 { 200 } else { 429 };
        self.level -= if status == 200 { 1_000 } else { 0 };
        let headers = vec![
            ("x-ratelimit-limit", self.per_minute.to_string()),
            ("x-ratelimit-remaining", (self.level / 1_000).to_string()),
        ];
        (status, if self.tells { headers } else { Vec::new() })
    }
}

enum State {
    /// Asks then, with a ticket or anew.
    Asks {
        at: FleetTime,
        request: AcquireRequest,
    },
    Asked {
        id: u64,
        request: AcquireRequest,
    },
    Sends {
        at: FleetTime,
        lease: String,
    },
}

/// Workers of one stack, each with the next call as soon as one is answered.
struct Crowd {
    name: &'static str,
    world: World,
    workers: Vec<State>,
    calls: u32,
    /// When each call was sent, and whether it was refused.
    sent: Vec<(FleetTime, bool)>,
}

impl Crowd {
    fn new(name: &'static str, yaml: &str, workers: usize, seed: u64) -> Self {
        let mut crowd = Self { name, world: World::new(limits(yaml), seed), workers: Vec::new(), calls: 0, sent: Vec::new() };
        crowd.workers = (0..workers).map(|_| crowd.another(START)).collect();
        crowd
    }

    fn another(&mut self, at: FleetTime) -> State {
        self.calls += 1;
        let name = format!("{} {}", self.name, self.calls);
        State::Asks { at, request: AcquireRequest { max_wait: Some(secs(3_600)), ..ask(&name) } }
    }

    /// A tenth of a second; worker `n` talks to replica `n % 2`.
    fn tick(&mut self, provider: &mut Provider) {
        let now = self.world.now;
        for worker in 0..self.workers.len() {
            let replica = worker % 2;
            let next = match &self.workers[worker] {
                State::Asks { at, request } if *at <= now => {
                    let request = request.clone();
                    let id = self.world.ask_at(replica, request.clone()).unwrap();
                    State::Asked { id, request }
                }
                State::Asked { id, request } => match self.world.replied(*id).map(|reply| reply.answer().clone()) {
                    None => continue,
                    Some(Answer::Granted(grant)) => {
                        State::Sends { at: self.world.replied_at(*id) + grant.wait, lease: grant.lease_id }
                    }
                    Some(Answer::Queued(queued)) => {
                        let request = back(request, &queued, secs(10));
                        State::Asks { at: self.world.replied_at(*id) + queued.come_back_in, request }
                    }
                    Some(Answer::Denied(denied)) => panic!("{denied:?}"),
                },
                State::Sends { at, lease } if *at <= now => {
                    let lease = lease.clone();
                    let (status, headers) = provider.arrive(now);
                    let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
                    self.world.report_at(replica, answered(&lease, status, &headers)).unwrap();
                    self.sent.push((now, status == 429));
                    self.another(now)
                }
                _ => continue,
            };
            self.workers[worker] = next;
        }
        self.world.pass(Span::from_millis(100));
    }

    /// A replica is lost with all that it held; its workers ask again.
    fn lose_replica(&mut self, replica: usize) {
        self.world.put_away(replica);
        let now = self.world.now;
        for worker in (replica..self.workers.len()).step_by(2) {
            if let State::Asked { request, .. } = &self.workers[worker] {
                self.workers[worker] = State::Asks { at: now, request: request.clone() };
            }
        }
    }

    /// Calls sent and refused in these seconds.
    fn between(&self, from: i64, to: i64) -> (usize, usize) {
        let within = |at: FleetTime| at >= START + secs(from) && at < START + secs(to);
        let sent = self.sent.iter().filter(|(at, _)| within(*at));
        (sent.clone().count(), sent.filter(|(_, refused)| *refused).count())
    }
}

/// HM12: sixty a minute are configured, five are allowed, and refusals come without a header. After two minutes less than a tenth
/// is refused, also when a replica has started again: what was learned lies in the shared value.
#[test]
fn hm12_a_limit_far_too_high_is_found_without_headers() {
    let (mut crowd, mut provider) = (Crowd::new("all", "limits: {requests: 60/min}", 20, 1), Provider::new(5, false));
    while crowd.world.now < START + secs(300) {
        if crowd.world.now == START + secs(150) {
            crowd.lose_replica(0);
        }
        crowd.tick(&mut provider);
    }
    let (sent, refused) = crowd.between(120, 300);
    assert!(refused * 10 < sent, "{refused} of {sent} were refused");
    // Fifteen units come in that time.
    assert!((13..=17).contains(&(sent - refused)), "{sent} were sent, {refused} refused");
    let allowed = crowd.world.stored_value(&target("")).buckets[0].rate().unwrap().gained_in(secs(60));
    assert!((4.0..=7.0).contains(&allowed.as_units_f64()), "{allowed:?} are allowed");
}

/// SK08: two stacks on one account, each with half of it by its configuration (`use: 50%`): neither is refused, and neither sends
/// more than its half.
#[test]
fn sk08_each_stack_keeps_to_its_part() {
    let yaml = "use: 50%, limits: {requests: {limit: 100, per: 60s, refill: continuous}}";
    let mut provider = Provider::new(100, true);
    let mut stacks = [Crowd::new("one", yaml, 10, 1), Crowd::new("other", yaml, 10, 2)];
    while stacks[0].world.now < START + secs(300) {
        stacks.iter_mut().for_each(|stack| stack.tick(&mut provider));
    }
    for stack in &stacks {
        let ((first, refused_first), (sent, refused)) = (stack.between(0, 60), stack.between(60, 300));
        assert_eq!((refused_first, refused), (0, 0), "nobody is refused");
        // Fifty a minute, and a full bucket of fifty at the beginning.
        assert!(first <= 100 && (195..=202).contains(&sent), "{first} in the first minute, {sent} in the four after it");
    }
}
