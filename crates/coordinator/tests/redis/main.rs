//! The coordinator over a real server: what it makes of an older copy that takes over, of numbers that somebody damaged, and of
//! a server that loads, evicts, or whose answers are lost.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

#[allow(unused_imports, reason = "these tests need no virtual time")]
#[path = "../support/mod.rs"]
mod support;

mod emptied;
mod eviction;
mod full;
mod history;
mod loading;
mod lost_answers;

use std::sync::Arc;
use std::time::{Duration, Instant};

use paceline_coordinator::api::{AcquireRequest, Answer};
use paceline_coordinator::settings::Settings;
use paceline_coordinator::{Coordinator, Options};
use paceline_core::units::{FleetTime, Milli, Span};
use paceline_core::value::ScopeValue;
use paceline_store::codec::{Header, decode, encode};
use paceline_store::{RedisStore, ScopeKey, Store, Unobserved};
use paceline_telemetry::Telemetry;
use paceline_tests::proxy::Proxy;
use paceline_tests::servers::{self, Server, wait_until};

use support::{answered, ask, limits};

/// A bucket that hardly refills while a test runs.
const SLOW: &str = "limits: {requests: {limit: 100, per: 1h}}";

/// A replica with connections of its own.
struct Replica {
    coordinator: Coordinator<Arc<RedisStore>>,
    telemetry: Telemetry,
    store: Arc<RedisStore>,
    name: &'static str,
}

impl Replica {
    async fn at(port: u16, name: &'static str, configured: &str) -> Self {
        Self::with(port, name, limits(configured)).await
    }

    async fn with(port: u16, name: &'static str, settings: Arc<dyn Settings>) -> Self {
        let store = connected(port).await;
        let telemetry = Telemetry::new(Default::default()).unwrap();
        let options = Options { store: store.clone(), settings, telemetry: telemetry.clone(), trace: None, address: None };
        Self { coordinator: Coordinator::new(options).await.unwrap(), telemetry, store, name }
    }

    /// Asks until there is no slot any more, `most` times at most; how many there were.
    async fn drain(&self, round: &str, most: usize) -> usize {
        for granted in 0..most {
            let name = format!("{} {round} {granted}", self.name);
            let now = AcquireRequest { hold: Span::ZERO, max_wait: Some(Span::ZERO), ..ask(&name) };
            if !matches!(self.coordinator.acquire(now).await.unwrap(), Answer::Granted(_)) {
                return granted;
            }
        }
        most
    }

    fn store_now(&self) -> FleetTime {
        self.store.now()
    }

    fn metric(&self, name: &str) -> f64 {
        let text = self.telemetry.render().unwrap();
        let samples = text.lines().filter(|line| line.starts_with(name) && !line.starts_with('#'));
        samples.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }
}

/// A store that has reached its server, on every connection that the scope of these tests may take.
async fn connected(port: u16) -> Arc<RedisStore> {
    let url = format!("redis://127.0.0.1:{port}?connections=1").parse().unwrap();
    let store = Arc::new(RedisStore::open(url, Arc::new(Unobserved)));
    well(&store).await;
    store
}

async fn well(store: &RedisStore) {
    let start = Instant::now();
    while store.load(&scope()).await.is_err() {
        assert!(start.elapsed() < Duration::from_secs(20), "the server is not reached");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn scope() -> ScopeKey {
    ScopeKey::new("acme", "prod")
}

fn key() -> String {
    format!("paceline:{{{}}}:s", scope())
}

/// What is left of the calls of an hour, by the value at a server.
fn left(server: &Server, now: FleetTime) -> u64 {
    let value = scope_value(server).unwrap();
    let bucket = value.buckets.iter().find(|bucket| &*bucket.plan.meter == "requests").unwrap();
    bucket.level_at(now).unwrap().as_units_floor()
}

/// RF11: a copy that lags takes over, with the bucket as it was before it was drained. A replica that remembers looks as soon as
/// the server is reached and writes it back, although nobody asks it anything: nothing is granted twice from then on. Only one that
/// does not remember and is quicker than that grants again what the lag hid.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lagging_copy_that_takes_over_is_no_second_bucket() {
    for is_rushed in [false, true] {
        let mut primary = Server::redis();
        let copy = Server::redis();
        copy.run(&["REPLICAOF", "127.0.0.1", &primary.port().to_string()]);
        let proxy = Proxy::before(primary.port());
        let (one, two) = (Replica::at(proxy.port(), "one", SLOW).await, Replica::at(proxy.port(), "two", SLOW).await);
        assert_eq!((one.drain("known to both", 4).await, two.drain("known to both", 5).await), (4, 5));
        let Answer::Granted(running) = one.coordinator.acquire(ask("running")).await.unwrap() else { panic!("90 are left") };
        tokio::task::block_in_place(|| {
            let held = primary.run(&["GET", &key()]);
            wait_until("it is copied", Duration::from_secs(10), || copy.run(&["GET", &key()]) == held);
            // From here on it lags.
            copy.run(&["REPLICAOF", "NO", "ONE"]);
        });
        let start = Instant::now();
        let hidden = one.drain("hidden by the lag", 200).await;
        assert!((88..=92).contains(&hidden), "{hidden} after 10 of 100");
        let older = scope_value(&copy).unwrap();
        assert_eq!(older.buckets[0].fired, 10_000, "the copy has not heard of the rest");

        proxy.lead_to(copy.port());
        proxy.cut();
        primary.kill();
        let mut again = 0;
        if is_rushed {
            well(&two.store).await;
            again += two.drain("at once", 200).await;
        }
        let is_merged = || one.metric("paceline_state_merged_total") >= 1.0;
        tokio::task::block_in_place(|| wait_until("it is put right", Duration::from_secs(10), is_merged));
        well(&two.store).await;
        again += two.drain("after", 200).await;
        let ended = one.coordinator.report(answered(&running.lease_id, 200, &[])).await.unwrap();
        assert_eq!(ended.not_applied, None);
        again += one.drain("after", 200).await;
        // A cautious start holds one call.
        let allowed = 2.0 + start.elapsed().as_secs_f64() * 100.0 / 3_600.0 + if is_rushed { hidden as f64 } else { 0.0 };
        assert!(again as f64 <= allowed, "{again} more, where {allowed:.1} are allowed");
    }
}

/// The value of the scope at a server, if there is one.
fn scope_value(server: &Server) -> Option<ScopeValue> {
    match server.run(&["GET", &key()]) {
        servers::Answer::Bytes(bytes) => {
            let bytes = bytes?;
            let version = i64::try_from(Header::read(&bytes).unwrap().version.0).unwrap();
            Some(decode(&bytes.into(), FleetTime::from_micros(version)).unwrap().value)
        }
        other => panic!("{other:?} is no value"),
    }
}

/// NU09: numbers in a value that is stored are set by hand; what is damaged begins again cautiously, the rest stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damaged_numbers_in_the_server_block_nothing_and_open_nothing() {
    const TWO: &str = "limits: {requests: {limit: 100, per: 1h}, tokens: {limit: 100000, per: 1h}}";
    type Damage = fn(&mut ScopeValue);
    let damages: [(&str, Damage); 6] = [
        ("2^53 + 1", |value| value.buckets[0].level.amount = Milli::from_milli((1 << 53) + 1)),
        ("the largest", |value| value.buckets[0].level.amount = Milli::from_milli(i64::MAX)),
        ("the smallest", |value| value.buckets[0].level.amount = Milli::from_milli(i64::MIN)),
        ("minus one", |value| value.buckets[0].level.amount = Milli::from_milli(-1)),
        ("never", |value| value.buckets[0].level.as_of = FleetTime::from_micros(i64::MAX)),
        ("before time began", |value| value.buckets[0].level.as_of = FleetTime::from_micros(i64::MIN)),
    ];
    for (what, damage) in damages {
        // Another one for each: those who remember the last one's value would put it back where it was.
        let server = Server::redis();
        let store = connected(server.port()).await;
        assert_eq!(Replica::at(server.port(), "before", TWO).await.drain(what, 5).await, 5);
        let held = store.load(&scope()).await.unwrap().value.unwrap();
        let mut value = decode(&held, store.now()).unwrap().value;
        assert_eq!(&*value.buckets[0].plan.meter, "requests");
        let tokens = value.buckets[1].clone();
        damage(&mut value);
        let bytes = encode(&Header::read(&held).unwrap(), &value);
        server.client().run(&[b"SET", key().as_bytes(), &bytes]);

        let fresh = Replica::at(server.port(), "after", TWO).await;
        let granted = fresh.drain(what, 200).await;
        assert!(granted <= 2, "{what}: {granted} without a wait, where a second of refill is less than one");
        if what != "minus one" {
            assert!(fresh.metric("paceline_state_repaired_total") >= 1.0, "{what} is counted");
        }
        // Nobody waits longer than a call's refill, a window at the very most.
        let waits = AcquireRequest { max_wait: Some(Span::from_secs(7_200)), hold: Span::ZERO, ..ask("waits") };
        let answer = fresh.coordinator.acquire(waits).await.unwrap();
        assert!(!matches!(answer, Answer::Denied(_)), "{what}: {answer:?}");
        let after = decode(&store.load(&scope()).await.unwrap().value.unwrap(), store.now()).unwrap().value;
        assert!(after.buckets[1].level.amount <= tokens.level.amount, "{what}: the other bucket goes on");
        assert!(after.buckets[1].fired >= tokens.fired, "{what}");
    }
}
