//! The same calls, once watched and once enforced, at a provider that counts for itself: what shadow mode says would have been is what
//! then is. `docs/shadow.md` names the tolerance.

use std::collections::BTreeMap;

use paceline_coordinator::api::{AcquireRequest, Answer};
use paceline_coordinator::scope::{Event, Reply, ReplyId};
use paceline_core::units::{FleetTime, Span};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::support::{World, answered, back, next, settings};

const TICK: Span = Span::from_millis(20);
/// How long a call takes.
const RUN: Span = Span::from_millis(60);

/// A provider's own bucket: what it refuses it does not count.
struct Provider {
    level: f64,
    at: FleetTime,
    per_second: f64,
    capacity: f64,
}

impl Provider {
    fn answer(&mut self, now: FleetTime) -> (u32, i64) {
        self.level = (self.level + now.since(self.at).as_secs_f64() * self.per_second).min(self.capacity);
        self.at = now;
        if self.level >= 1.0 {
            self.level -= 1.0;
            return (200, 0);
        }
        (429, ((1.0 - self.level) / self.per_second).ceil() as i64)
    }
}

/// What a worker does next.
enum Do {
    Ask(AcquireRequest),
    Send(AcquireRequest, String),
    Report(AcquireRequest, String, u32, i64),
}

/// What the provider takes, one call in a second, and how long a call may wait for it.
struct Limits {
    requests: &'static str,
    capacity: f64,
    max_wait: &'static str,
}

/// What became of all calls.
#[derive(Debug, Default)]
struct Seen {
    sent: u64,
    refused: u64,
    denied: u64,
    waits: Vec<Span>,
    /// If enforced: how many would have been sent.
    would_send: u64,
}

impl Seen {
    fn total(&self) -> f64 {
        self.waits.iter().map(|wait| wait.as_secs_f64()).sum()
    }

    fn quantile(&self, part: f64) -> f64 {
        let mut waits: Vec<f64> = self.waits.iter().map(|wait| wait.as_secs_f64()).collect();
        waits.sort_by(f64::total_cmp);
        waits[((waits.len() - 1) as f64 * part) as usize]
    }
}

/// Calls at these instants, in seconds; a worker sends a refused call again up to `attempts` times in all. `stays`: it waits in line as on
/// a Session, until it is decided; else it comes back with its ticket when it was told to.
fn drive(mode: &str, limits: &Limits, arrivals: &[f64], attempts: u32, stays: bool) -> Seen {
    let mut world = World::new(
        settings(&format!(
            "mode: {mode}\nproviders: {{acme: {{extends: generic, start_level: full, accounts: {{prod: {{models: {{m: \
             {{limits: {{requests: {}}}, max_wait: {}}}}}}}}}}}}}",
            limits.requests, limits.max_wait
        )),
        1,
    );
    let start = world.now;
    let mut provider = Provider { level: limits.capacity, at: start, per_second: 1.0, capacity: limits.capacity };
    let mut due: BTreeMap<(FleetTime, u64), Do> = BTreeMap::new();
    let mut number = 0;
    let mut plan = |due: &mut BTreeMap<(FleetTime, u64), Do>, at: FleetTime, what: Do| {
        number += 1;
        due.insert((at, number), what);
    };
    let mut begun: BTreeMap<String, FleetTime> = BTreeMap::new();
    for (n, at) in arrivals.iter().enumerate() {
        let at = start + Span::from_secs_f64(*at).unwrap();
        let first = crate::support::ask(&format!("call-{n}"));
        begun.insert(first.request_id.clone(), at);
        plan(&mut due, at, Do::Ask(first));
    }
    let (mut asked, mut heard): (BTreeMap<ReplyId, AcquireRequest>, usize) = (BTreeMap::new(), 0);
    let mut seen = Seen::default();
    while !due.is_empty() || !asked.is_empty() {
        world.pass(TICK);
        let answers: Vec<_> = world.answers[heard..].to_vec();
        heard += answers.len();
        for answered in answers {
            let Some(request) = asked.remove(&answered.id) else { continue };
            let Reply::Answer(Ok(answer)) = &answered.reply else { panic!("{:?}", answered.reply) };
            match answer {
                Answer::Granted(grant) => {
                    let send_at = answered.at + grant.wait;
                    if mode == "enforce" {
                        seen.waits.push(send_at.since(begun[&request.request_id]));
                    }
                    plan(&mut due, send_at, Do::Send(request, grant.lease_id.clone()));
                }
                Answer::Queued(queued) if stays => {
                    let again = back(&request, queued, Span::from_secs(3_600));
                    plan(&mut due, answered.at, Do::Ask(again));
                }
                Answer::Queued(queued) => {
                    let again = back(&request, queued, request.hold);
                    plan(&mut due, answered.at + queued.come_back_in, Do::Ask(again));
                }
                Answer::Denied(_) => seen.denied += 1,
            }
        }
        while let Some(entry) = due.first_entry().filter(|entry| entry.key().0 <= world.now) {
            match entry.remove() {
                Do::Ask(request) => drop(asked.insert(world.ask(request.clone()), request)),
                Do::Send(request, lease) => {
                    seen.sent += 1;
                    let (status, after) = provider.answer(world.now);
                    seen.refused += u64::from(status == 429);
                    plan(&mut due, world.now + RUN, Do::Report(request, lease, status, after));
                }
                Do::Report(request, lease, status, after) => {
                    let after_text = after.to_string();
                    let headers = [("retry-after", after_text.as_str())];
                    world.report(answered(&lease, status, if status == 429 { &headers } else { &[] }));
                    if status == 429 && request.attempt < attempts {
                        let pause = Span::from_secs(after.clamp(1, 5));
                        plan(&mut due, world.now + pause, Do::Ask(next(&request, &lease)));
                    }
                }
            }
        }
    }
    if mode == "shadow" {
        for event in &world.events {
            let Event::Watched { wait, denied, is_needless, .. } = event else { continue };
            seen.denied += u64::from(denied.is_some());
            if denied.is_none() && !is_needless {
                seen.waits.push(*wait);
                seen.would_send += 1;
            }
        }
    }
    seen
}

/// Five in a second for half a minute.
fn surge() -> Vec<f64> {
    (0..150).map(|n| f64::from(n) / 5.0).collect()
}

/// Twice the limit for five minutes.
fn overload() -> Vec<f64> {
    (0..600).map(|n| f64::from(n) / 2.0).collect()
}

/// A hundred at once every two minutes, and one every other second.
fn waves() -> Vec<f64> {
    let mut all: Vec<f64> = (0..300).map(|n| 0.7 + f64::from(n) * 2.0).collect();
    all.extend((0..500).map(|n| f64::from(n / 100) * 120.0 + f64::from(n % 100) / 50.0));
    all
}

/// Ninety at once every four minutes, and one every four seconds: the line ends between them.
fn bursts() -> Vec<f64> {
    let mut all: Vec<f64> = (0..180).map(|n| 0.7 + f64::from(n) * 4.0).collect();
    all.extend((0..270).map(|n| f64::from(n / 90) * 240.0 + f64::from(n % 90) / 50.0));
    all
}

fn close(told: f64, was: f64, slack: f64) -> bool {
    (told - was).abs() <= slack + 0.05 * was
}

fn both(told: &Seen, was: &Seen) -> String {
    let one = |seen: &Seen, sent: u64| {
        let quantiles = [0.5, 0.9, 0.99].map(|part| format!("{:.1}", seen.quantile(part))).join(", ");
        format!(
            "{:.0} s, p50, p90, p99 {quantiles}, {} denied, {sent} sent, {} refused",
            seen.total(),
            seen.denied,
            seen.refused
        )
    };
    format!("told {}; were {}", one(told, told.would_send), one(was, was.sent))
}

/// Whatever workers do when they are refused, shadow mode tells of the waits and denials that enforce then brings.
#[test]
fn what_would_have_been_is_what_then_is() {
    let cases = [
        ("surge", surge(), "10min"),
        ("overload", overload(), "30s"),
        ("waves", waves(), "10min"),
        ("bursts", bursts(), "10min"),
    ];
    for (name, arrivals, max_wait) in cases {
        let limits = &Limits { requests: "60/min", capacity: 60.0, max_wait };
        let was = drive("enforce", limits, &arrivals, 3, false);
        assert!(was.refused <= 2 && was.waits.len() > 100, "{name}: {was:?}");
        for attempts in [1, 3, 30] {
            let told = drive("shadow", limits, &arrivals, attempts, false);
            let text = format!("{name}, {attempts} attempts: {}", both(&told, &was));
            assert!(told.refused > 20, "{text}");
            assert!(close(told.total(), was.total(), 5.0), "{text}");
            assert!(close(told.quantile(0.5), was.quantile(0.5), 1.0), "{text}");
            assert!(close(told.quantile(0.99), was.quantile(0.99), 1.0), "{text}");
            assert!(close(told.denied as f64, was.denied as f64, 3.0), "{text}");
            assert!(close(told.would_send as f64, was.sent as f64, 3.0), "{text}");
            eprintln!("{text}");
        }
    }
}

/// A call now and then, `factor` times what the provider takes, for ten minutes.
fn random(seed: u64, factor: f64) -> Vec<f64> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let pauses = std::iter::repeat_with(|| -(1.0 - rng.random::<f64>()).ln() / factor);
    let instants = pauses.scan(0.0, |at, pause| {
        *at += pause;
        Some(*at)
    });
    instants.take_while(|at| *at < 600.0).collect()
}

/// From half of the limit to twice of it, with a line that may not be longer than half a minute: as told, so it was, for workers that wait
/// on a Session and for those that come back with a ticket.
#[test]
fn from_half_the_limit_to_twice_of_it() {
    let limits = Limits { requests: "{limit: 10, per: 10s}", capacity: 10.0, max_wait: "30s" };
    for (factor, seed) in [0.5, 0.9, 1.2, 2.0].into_iter().flat_map(|factor| [1, 2, 3].map(|seed| (factor, seed))) {
        let arrivals = random(seed, factor);
        let told = drive("shadow", &limits, &arrivals, 3, false);
        for stays in [true, false] {
            let was = drive("enforce", &limits, &arrivals, 3, stays);
            let text = format!("{factor} x the limit, seed {seed}, stays: {stays}: {}", both(&told, &was));
            assert!(close((told.denied + told.would_send) as f64, arrivals.len() as f64, 3.0), "{text}");
            assert!(close(told.total(), was.total(), 20.0), "{text}");
            for part in [0.5, 0.9, 0.99] {
                assert!(close(told.quantile(part), was.quantile(part), 1.0), "{text}");
            }
            assert!(close(told.denied as f64, was.denied as f64, 3.0), "{text}");
            assert!(close(told.would_send as f64, was.sent as f64, 3.0), "{text}");
            // Nearly all that the provider refused while nobody waited would not have been refused.
            assert!(was.refused <= 2 && (told.refused > 100 || factor < 1.0), "{text}");
            assert_eq!(told.denied > 50, factor > 1.0, "{text}");
            eprintln!("{text}");
        }
    }
}
