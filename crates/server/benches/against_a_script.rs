//! What a slot costs: our coordinator over its store, next to one small script per acquire, on the same Redis in the same run.
//!
//! ```console
//! $ cargo bench -p paceline-server --bench against_a_script -- [--seconds 5] [--in-flight 512] [--scopes 1000] [--only-scopes N]
//! ```
//!
//! With `--only-scopes` ours is driven alone, with so many scopes: for a profiler.
//!
//! Both are driven as hard as they go, with as many asks in flight, from this process, over as many connections of the same client
//! library. The plain script is a token bucket with the server's time; it keeps no order, no leases, no idempotency, and learns
//! nothing. One JSON object per run: acquires a second, CPU time of this process and of Redis per acquire.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, clippy::panic, reason = "a program for developers")]

use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use paceline_config::Config;
use paceline_coordinator::api::{AcquireRequest, Answer, DEFAULT_HOLD, Target};
use paceline_coordinator::{Configured, Coordinator, Options};
use paceline_core::plan::Class;
use paceline_core::units::Span;
use paceline_store::{RedisStore, RedisUrl, Store as _, Unobserved};
use paceline_telemetry::Telemetry;
use paceline_tests::servers::Server;
use redis::aio::MultiplexedConnection;
use serde_json::json;

/// As in the binary, and for both.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A token bucket as one would write it: level and time of its last change in a hash, the server's clock.
const SCRIPT: &str = "\
local rate, burst, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local v = redis.call('HMGET', KEYS[1], 'level', 'at')
local level, at = tonumber(v[1] or burst), tonumber(v[2] or now)
level = math.min(burst, level + (now - at) * rate / 1000000)
local granted = level >= cost
if granted then level = level - cost end
redis.call('HSET', KEYS[1], 'level', tostring(level), 'at', string.format('%.0f', now))
redis.call('PEXPIRE', KEYS[1], 60000)
return granted and 1 or 0";

/// Connections of either side.
const CONNECTIONS: usize = 4;

const CONFIG: &str =
    r#"providers: {bench: {dialect: generic, limits: {requests: 1G/s}, models: {"*": {limits: {requests: 1G/s}}}}}"#;

fn main() {
    let seconds = argument("--seconds", 5);
    let (in_flight, scopes) = (argument("--in-flight", 512), argument("--scopes", 1_000));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let length = Duration::from_secs(seconds);
    let only = argument("--only-scopes", 0);
    if only > 0 {
        let load = Load { way: Way::Paceline, scopes: only, in_flight, length };
        runtime.block_on(load.run(&Server::redis()));
        return;
    }
    for scopes in [1, scopes] {
        let mut costs = Vec::new();
        for way in [Way::Script, Way::Paceline] {
            // Each has a Redis of its own, so that neither pays for what the other left behind.
            let server = Server::redis();
            let load = Load { way, scopes, in_flight, length };
            costs.push(runtime.block_on(load.run(&server)));
        }
        if let [script, ours] = costs.as_slice() {
            let both = |cost: &Cost| cost.own_us + cost.redis_us;
            let shown = json!({
                "scopes": scopes, "compared": "paceline / script",
                "acquires": round(ours.per_second / script.per_second),
                "own_cpu": round(ours.own_us / script.own_us),
                "redis_cpu": round(ours.redis_us / script.redis_us),
                "both_cpu": round(both(ours) / both(script)),
            });
            println!("{shown}");
        }
    }
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Script,
    Paceline,
}

#[derive(Clone, Copy)]
struct Load {
    way: Way,
    scopes: u64,
    in_flight: u64,
    length: Duration,
}

/// What an acquire cost.
struct Cost {
    per_second: f64,
    own_us: f64,
    redis_us: f64,
}

impl Load {
    async fn run(self, server: &Server) -> Cost {
        let side = Arc::new(match self.way {
            Way::Script => Side::Script(Script::connect(server).await),
            Way::Paceline => Side::Paceline(coordinator(server).await),
        });
        // Warm: connections, the script, every scope.
        let next = Arc::new(AtomicU64::new(0));
        self.drive(&side, &next, Duration::from_secs(1)).await;
        let (own, redis, began) = (own_cpu(), redis_cpu(server), Instant::now());
        let acquired = self.drive(&side, &next, self.length).await;
        let (own, redis, took) = (own_cpu() - own, redis_cpu(server) - redis, began.elapsed());
        let each_us = |time: Duration| time.as_secs_f64() * 1e6 / acquired as f64;
        let cost = Cost { per_second: acquired as f64 / took.as_secs_f64(), own_us: each_us(own), redis_us: each_us(redis) };
        let shown = json!({
            "way": format!("{:?}", self.way).to_lowercase(), "scopes": self.scopes, "in_flight": self.in_flight,
            "acquires_per_s": cost.per_second.round(), "own_cpu_us": round(cost.own_us), "redis_cpu_us": round(cost.redis_us),
        });
        println!("{shown}");
        cost
    }

    /// Keeps asks in flight for so long, each with a number of its own from `next`; how many were granted.
    async fn drive(self, side: &Arc<Side>, next: &Arc<AtomicU64>, length: Duration) -> u64 {
        let until = Instant::now() + length;
        let granted = Arc::new(AtomicU64::new(0));
        let asking: Vec<_> = (0..self.in_flight)
            .map(|_| {
                let (side, granted, next) = (side.clone(), granted.clone(), next.clone());
                tokio::spawn(async move {
                    while Instant::now() < until {
                        let nth = next.fetch_add(1, Ordering::Relaxed);
                        side.acquire(nth, nth % self.scopes).await;
                        granted.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        for asking in asking {
            asking.await.unwrap();
        }
        granted.load(Ordering::Relaxed)
    }
}

enum Side {
    Script(Script),
    Paceline(Coordinator<RedisStore>),
}

impl Side {
    async fn acquire(&self, nth: u64, scope: u64) {
        match self {
            Self::Script(script) => script.acquire(nth, scope).await,
            Self::Paceline(coordinator) => {
                let target = Target { provider: "bench".into(), account: scope.to_string(), model: "bench".into() };
                let request = AcquireRequest {
                    request_id: format!("{:x}-{nth}", std::process::id()),
                    attempt: 1,
                    target,
                    hold: DEFAULT_HOLD,
                    run_time: Some(Span::from_secs(2)),
                    class: Class::Normal,
                    ..AcquireRequest::default()
                };
                let answer = coordinator.acquire(request).await.expect("an answer");
                assert!(matches!(answer, Answer::Granted(_)), "nothing limits it: {answer:?}");
            }
        }
    }
}

async fn coordinator(server: &Server) -> Coordinator<RedisStore> {
    let url = format!("{}?connections={CONNECTIONS}", server.url());
    let store = RedisStore::open(RedisUrl::from_str(&url).unwrap(), Arc::new(Unobserved));
    store.contact().wait_for(|has_answered| *has_answered).await.unwrap();
    store.token_keys().await.unwrap();
    let settings = Arc::new(Configured::new(Config::parse(CONFIG, "bench.yaml").unwrap()));
    let telemetry = Telemetry::new(Default::default()).unwrap();
    // With an address it leads its scopes, as a replica of a fleet does.
    let address = Some(Arc::from("127.0.0.1:7070"));
    Coordinator::new(Options { store, settings, telemetry, trace: None, address }).await.unwrap()
}

/// One script call per acquire.
struct Script {
    connections: Vec<MultiplexedConnection>,
    sha: String,
}

impl Script {
    async fn connect(server: &Server) -> Self {
        let client = redis::Client::open(server.url()).unwrap();
        let mut connections = Vec::new();
        for _ in 0..CONNECTIONS {
            connections.push(client.get_multiplexed_async_connection().await.unwrap());
        }
        let mut first = connections.first().unwrap().clone();
        let sha = redis::cmd("SCRIPT").arg("LOAD").arg(SCRIPT).query_async(&mut first).await.unwrap();
        Self { connections, sha }
    }

    async fn acquire(&self, nth: u64, scope: u64) {
        let turn = usize::try_from(nth).unwrap() % self.connections.len();
        let mut connection = self.connections.get(turn).unwrap().clone();
        let mut command = redis::cmd("EVALSHA");
        command.arg(&self.sha).arg(1).arg(format!("bucket:{scope}")).arg(1_000_000_000_u64).arg(1_000_000_000_u64).arg(1);
        let granted: u64 = command.query_async(&mut connection).await.expect("an answer");
        assert_eq!(granted, 1, "nothing limits it");
    }
}

/// User and system time of this process so far (proc(5); hundredths of a second).
fn own_cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields = stat.rsplit_once(')').unwrap().1.split_whitespace().skip(11).take(2);
    Duration::from_millis(10) * fields.map(|field| field.parse::<u32>().unwrap()).sum::<u32>()
}

/// User and system time of Redis so far, as it says itself.
fn redis_cpu(server: &Server) -> Duration {
    let used = |key| server.info("cpu", key).parse::<f64>().unwrap();
    Duration::try_from_secs_f64(used("used_cpu_user") + used("used_cpu_sys")).unwrap()
}

fn round(number: f64) -> f64 {
    (number * 100.0).round() / 100.0
}

/// A number behind a name on the command line.
fn argument(name: &str, default: u64) -> u64 {
    let mut given = std::env::args().skip_while(|argument| argument != name).skip(1);
    given.next().map_or(default, |value| value.parse().unwrap_or_else(|_| panic!("{name} takes a number")))
}
