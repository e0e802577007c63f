//! What a slot costs: the service over Redis, next to a server of the same kind that runs one small script per acquire, and one that
//! only answers.
//!
//! ```console
//! $ cargo bench -p paceline --bench against_a_script -- [--seconds 5] [--in-flight 512] [--scopes 1000] [--rounds 3]
//! ```
//!
//! Both are processes that speak the same gRPC, are driven as hard as they go by `paceline bench`, and use as many connections to a
//! Redis of their own. The plain one has a token bucket with the server's time in its script; it keeps no order, no leases, no
//! idempotency, and learns nothing. One JSON object per run: acquires a second, CPU time of the server and of Redis per acquire; then
//! the medians compared.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a program for developers"
)]

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use paceline_proto::v1;
use paceline_proto::v1::acquire_response::Outcome;
use paceline_proto::v1::rate_limiter_server::{RateLimiter, RateLimiterServer};
use paceline_tests::servers::Server;
use redis::aio::MultiplexedConnection;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status, Streaming};

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

/// Connections to Redis, of either server.
const CONNECTIONS: usize = 4;

const CONFIG: &str =
    r#"providers: {bench: {dialect: generic, limits: {requests: 1G/s}, models: {"*": {limits: {requests: 1G/s}}}}}"#;

fn main() {
    let mut arguments = std::env::args().skip(1);
    match arguments.next().as_deref() {
        Some("serve-a-script") => return serve(Some(&arguments.next().unwrap())),
        Some("serve-an-echo") => return serve(None),
        _ => {}
    }
    let (seconds, rounds) = (argument("--seconds", 5), argument("--rounds", 3));
    let (in_flight, scopes) = (argument("--in-flight", 512), argument("--scopes", 1_000));
    let config = std::env::temp_dir().join(format!("paceline-against-a-script-{}.yaml", std::process::id()));
    std::fs::write(&config, CONFIG).unwrap();
    for scopes in [1, scopes] {
        let load = Load { scopes, in_flight, seconds };
        let mut runs = [Vec::new(), Vec::new(), Vec::new()];
        for _ in 0..rounds {
            // In turn, and each with a Redis of its own, so that none pays for what another left behind.
            for (way, runs) in ["echo", "script", "paceline"].into_iter().zip(&mut runs) {
                runs.push(load.run(way, config.to_str().unwrap()));
            }
        }
        load.compare(&runs);
    }
    let _ = std::fs::remove_file(config);
}

#[derive(Clone, Copy)]
struct Load {
    scopes: u64,
    in_flight: u64,
    seconds: u64,
}

/// What an acquire cost.
struct Cost {
    per_second: f64,
    server_us: f64,
    redis_us: f64,
}

impl Load {
    fn run(self, way: &str, config: &str) -> Cost {
        let redis = Server::redis();
        let server = match way {
            "echo" => Serving::start(Command::new(std::env::current_exe().unwrap()).arg("serve-an-echo")),
            "script" => Serving::start(Command::new(std::env::current_exe().unwrap()).args(["serve-a-script", &redis.url()])),
            _ => {
                let store = format!("{}?connections={CONNECTIONS}", redis.url());
                let mut command = Command::new(env!("CARGO_BIN_EXE_paceline"));
                command.args([
                    "serve",
                    "--grpc",
                    "127.0.0.1:0",
                    "--http",
                    "127.0.0.1:0",
                    "--store",
                    &store,
                    "--config",
                    config,
                ]);
                Serving::start(command.args(["--log-filter", "error"]))
            }
        };
        self.drive(&server, 1);
        let before = redis_cpu(&redis);
        let figures = self.drive(&server, self.seconds);
        let used = redis_cpu(&redis) - before;
        let figure = |key: &str| figures[key].as_f64().unwrap_or_else(|| panic!("{key}: {figures}"));
        assert_eq!((figure("errors"), figure("denied")), (0.0, 0.0), "{figures}");
        let per_second = figure("acquires_per_s");
        let redis_us = used.as_secs_f64() * 1e6 / (per_second * self.seconds as f64);
        let cost = Cost { per_second, server_us: figure("server_cpu_us_per_acquire"), redis_us };
        println!("{}", self.told(way, &cost));
        cost
    }

    /// Loads the server for so long, without a warm-up.
    fn drive(self, server: &Serving, seconds: u64) -> Value {
        let mut command = Command::new(env!("CARGO_BIN_EXE_paceline"));
        command.args(["bench", "--json", "--provider", "bench", "--warm-up", "0s", "--connections", "8"]);
        command.args(["--addr", &server.addr, "--server-pid", &server.child.id().to_string()]);
        command.args(["--in-flight", &self.in_flight.to_string(), "--scopes", &self.scopes.to_string()]);
        let output = command.args(["--duration", &format!("{seconds}s")]).stderr(Stdio::inherit()).output().expect("it runs");
        serde_json::from_slice(&output.stdout).expect("one object")
    }

    fn told(self, way: &str, cost: &Cost) -> Value {
        json!({
            "way": way, "scopes": self.scopes, "in_flight": self.in_flight,
            "acquires_per_s": cost.per_second.round(), "server_cpu_us": round(cost.server_us), "redis_cpu_us": round(cost.redis_us),
        })
    }

    fn compare(self, [echo, script, ours]: &[Vec<Cost>; 3]) {
        let ratio = |of: fn(&Cost) -> f64| round(median(ours, of) / median(script, of));
        let shown = json!({
            "compared": "medians, paceline / script", "scopes": self.scopes,
            "acquires": ratio(|cost| cost.per_second),
            "server_cpu": ratio(|cost| cost.server_us),
            "redis_cpu": ratio(|cost| cost.redis_us),
            "both_cpu": ratio(|cost| cost.server_us + cost.redis_us),
            "server_cpu_without_what_echo_takes": round(
                (median(ours, |cost| cost.server_us) - median(echo, |cost| cost.server_us))
                    / (median(script, |cost| cost.server_us) - median(echo, |cost| cost.server_us)),
            ),
        });
        println!("{shown}");
    }
}

fn median(costs: &[Cost], of: fn(&Cost) -> f64) -> f64 {
    let mut all: Vec<f64> = costs.iter().map(of).collect();
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

/// A server that listens.
struct Serving {
    addr: String,
    child: Child,
}

impl Serving {
    fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("it runs");
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let told = line.split_whitespace().find_map(|word| word.strip_prefix("grpc="));
        Self { addr: told.unwrap_or_else(|| panic!("{line:?}")).to_owned(), child }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The plain server on a runtime like that of the service: a script per acquire, or without a Redis just an answer.
fn serve(redis: Option<&str>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let script = match redis {
            Some(redis) => Script::connect(redis).await,
            None => Script::default(),
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        println!("listening grpc={}", listener.local_addr().unwrap());
        let server = tonic::transport::Server::builder().add_service(RateLimiterServer::new(script));
        server.serve_with_incoming(TcpListenerStream::new(listener)).await.unwrap();
    });
}

#[derive(Clone, Default)]
struct Script {
    connections: Arc<[MultiplexedConnection]>,
    next: Arc<AtomicUsize>,
    sha: Arc<str>,
}

impl Script {
    async fn connect(redis: &str) -> Self {
        let client = redis::Client::open(redis).unwrap();
        let mut connections = Vec::new();
        for _ in 0..CONNECTIONS {
            connections.push(client.get_multiplexed_async_connection().await.unwrap());
        }
        let sha: String = redis::cmd("SCRIPT").arg("LOAD").arg(SCRIPT).query_async(&mut connections[0]).await.unwrap();
        Self { connections: connections.into(), next: Arc::default(), sha: sha.into() }
    }

    async fn decide(&self, request: &v1::AcquireRequest) -> v1::AcquireResponse {
        let answer =
            v1::AcquireResponse { outcome: Some(Outcome::Grant(v1::Grant::default())), ..v1::AcquireResponse::default() };
        if self.connections.is_empty() {
            return answer;
        }
        let turn = self.next.fetch_add(1, Ordering::Relaxed) % self.connections.len();
        let mut connection = self.connections[turn].clone();
        let account = request.target.as_ref().map_or("", |target| &target.account);
        let mut command = redis::cmd("EVALSHA");
        command.arg(&*self.sha).arg(1).arg(format!("bucket:{account}")).arg(1_000_000_000_u64).arg(1_000_000_000_u64).arg(1);
        let granted: u64 = command.query_async(&mut connection).await.expect("an answer");
        assert_eq!(granted, 1, "nothing limits it");
        answer
    }
}

#[tonic::async_trait]
impl RateLimiter for Script {
    type SessionStream = tokio_stream::Empty<Result<v1::SessionResponse, Status>>;

    async fn acquire(&self, request: Request<v1::AcquireRequest>) -> Result<Response<v1::AcquireResponse>, Status> {
        Ok(Response::new(self.decide(request.get_ref()).await))
    }

    async fn session(&self, _: Request<Streaming<v1::SessionRequest>>) -> Result<Response<Self::SessionStream>, Status> {
        Err(Status::unimplemented("only asks are measured"))
    }

    async fn report(&self, _: Request<v1::ReportRequest>) -> Result<Response<v1::ReportResponse>, Status> {
        Err(Status::unimplemented("only asks are measured"))
    }

    async fn release(&self, _: Request<v1::ReleaseRequest>) -> Result<Response<v1::ReleaseResponse>, Status> {
        Err(Status::unimplemented("only asks are measured"))
    }

    async fn acquire_batch(&self, _: Request<v1::AcquireBatchRequest>) -> Result<Response<v1::AcquireBatchResponse>, Status> {
        Err(Status::unimplemented("only asks are measured"))
    }

    async fn report_batch(&self, _: Request<v1::ReportBatchRequest>) -> Result<Response<v1::ReportBatchResponse>, Status> {
        Err(Status::unimplemented("only asks are measured"))
    }
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
