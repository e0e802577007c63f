//! How long an acquire takes at three replicas with a Redis that is a millisecond or two away: through a plain load balancer, and
//! with calls sent to their scope's replica.
//!
//! ```console
//! $ cargo bench -p paceline --bench three_replicas -- [--rate 1000] [--seconds 10] [--scopes 1]
//! ```
//!
//! Starts a Redis, a line to it that delays answers by 1 to 2 ms, three `paceline serve` and `paceline bench`. One JSON object per
//! run, latencies in round trips to Redis beside it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a program for developers"
)]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use paceline_tests::servers::Server;
use serde_json::{Value, json};

const CONFIG: &str =
    r#"providers: {bench: {dialect: generic, limits: {requests: 1G/s}, models: {"*": {limits: {requests: 1G/s}}}}}"#;
/// How long an answer of Redis is on its way.
const DELAY_US: std::ops::Range<u64> = 1_000..2_000;

fn main() {
    let (rate, seconds, scopes) = (argument("--rate", 1_000), argument("--seconds", 10), argument("--scopes", 1));
    let redis = Server::redis();
    let port = delayed(redis.port());
    let round_trip_us = round_trip_us(port);
    println!("{}", json!({"round_trip_to_redis_us": round_trip_us}));
    let config = std::env::temp_dir().join(format!("paceline-three-replicas-{}.yaml", std::process::id()));
    std::fs::write(&config, CONFIG).unwrap();
    let store = format!("redis://127.0.0.1:{port}");
    let replicas: Vec<Replica> = (0..3).map(|_| Replica::start(&store, config.to_str().unwrap())).collect();
    for via in ["acquire", "session"] {
        for balance in ["hash", "round-robin"] {
            let mut command = Command::new(env!("CARGO_BIN_EXE_paceline"));
            command.args(["bench", "--json", "--provider", "bench", "--warm-up", "3s", "--balance", balance, "--via", via]);
            command.args(["--rate", &rate.to_string(), "--duration", &format!("{seconds}s"), "--scopes", &scopes.to_string()]);
            replicas.iter().for_each(|replica| {
                command.args(["--addr", &replica.addr, "--server-pid", &replica.child.id().to_string()]);
            });
            let output = command.stderr(Stdio::inherit()).output().expect("the binary runs");
            let figures: Value = serde_json::from_slice(&output.stdout).expect("one object");
            let trips = |key: &str| (figures[key].as_f64().unwrap() / round_trip_us as f64 * 100.0).round() / 100.0;
            let shown = json!({
                "via": via, "balance": balance, "p50_round_trips": trips("p50_us"), "p99_round_trips": trips("p99_us"),
                "figures": figures,
            });
            println!("{shown}");
        }
    }
    let _ = std::fs::remove_file(config);
}

struct Replica {
    addr: String,
    child: Child,
}

impl Replica {
    fn start(store: &str, config: &str) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_paceline"));
        command.args(["serve", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--store", store, "--config", config]);
        command.args(["--expected-replicas", "3", "--log-filter", "warn"]);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("the binary runs");
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let addrs = line.trim_end().strip_prefix("listening grpc=").and_then(|rest| rest.split_once(" http="));
        let addr = addrs.unwrap_or_else(|| panic!("{line:?}")).0.to_owned();
        Self { addr, child }
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The port of a line to a server: what is sent passes at once, answers take their time, in order and without waiting for each other.
fn delayed(to: u16) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for near in listener.incoming().map_while(Result::ok) {
            let far = TcpStream::connect(("127.0.0.1", to)).unwrap();
            near.set_nodelay(true).unwrap();
            far.set_nodelay(true).unwrap();
            pass(near.try_clone().unwrap(), far.try_clone().unwrap(), 0..1);
            pass(far, near, DELAY_US);
        }
    });
    port
}

/// Passes bytes on, each piece so many microseconds after it came.
fn pass(mut from: TcpStream, mut to: TcpStream, delay_us: std::ops::Range<u64>) {
    let (pieces, due) = mpsc::channel::<(Instant, Vec<u8>)>();
    std::thread::spawn(move || {
        let mut bytes = vec![0; 64 * 1024];
        while let Ok(read @ 1..) = from.read(&mut bytes) {
            let at = Instant::now() + Duration::from_micros(rand::random_range(delay_us.clone()));
            if pieces.send((at, bytes.get(..read).unwrap().to_vec())).is_err() {
                return;
            }
        }
    });
    #[expect(clippy::disallowed_methods, reason = "a thread of its own")]
    std::thread::spawn(move || {
        while let Ok((at, bytes)) = due.recv() {
            std::thread::sleep(at.saturating_duration_since(Instant::now()));
            if to.write_all(&bytes).is_err() {
                return;
            }
        }
    });
}

/// The median of a few hundred pings.
fn round_trip_us(port: u16) -> u64 {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_nodelay(true).unwrap();
    let mut took: Vec<u64> = (0..300)
        .map(|_| {
            let began = Instant::now();
            stream.write_all(b"PING\r\n").unwrap();
            stream.read_exact(&mut [0; 7]).unwrap();
            u64::try_from(began.elapsed().as_micros()).unwrap()
        })
        .collect();
    took.sort_unstable();
    took.get(took.len() / 2).copied().unwrap()
}

/// A number behind a name on the command line.
fn argument(name: &str, default: u64) -> u64 {
    let mut given = std::env::args().skip_while(|argument| argument != name).skip(1);
    given.next().map_or(default, |value| value.parse().unwrap_or_else(|_| panic!("{name} takes a number")))
}
