//! Servers that stall, restart, change their roles or vanish, and the way to them.

use std::sync::Arc;
use std::time::Duration;

use paceline_core::units::Span;
use paceline_store::{Announcement, Committed, Failure, RedisStore, Store, StoreError, Version};
use paceline_tests::proxy::{Fault, Proxy};
use paceline_tests::servers::{Options, Server, wait_until};
use tokio::time::{Instant, sleep};

use crate::support::{connect, contact, open, scope, until_well, write};

/// Well again after a fault, without anybody's help.
const SOON: Duration = Duration::from_secs(2);

fn through(proxy: &Proxy, query: &str) -> String {
    format!("redis://127.0.0.1:{}{query}", proxy.port())
}

/// RF02: the primary becomes a replica, no socket is closed, and the name leads to the new one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_demoted_primary_is_left() {
    let (old, new) = (Server::redis(), Server::redis());
    let proxy = Proxy::before(old.port());
    for is_used in [true, false] {
        let (old, new) = if is_used { (&old, &new) } else { (&new, &old) };
        proxy.lead_to(old.port());
        let (store, counts) = open(&through(&proxy, ""));
        contact(&store).await;
        old.run(&["REPLICAOF", "127.0.0.1", &new.port().to_string()]);
        proxy.lead_to(new.port());
        if !is_used {
            // Nobody writes: it is found all the same.
            sleep(Duration::from_millis(1_300)).await;
        }
        let took = until_well(&store, SOON).await;
        println!("demoted primary, used {is_used}: well after {took:?}");
        assert!(counts.failed(Failure::ReadOnly) > 0 || !is_used, "{counts:?}");
        old.run(&["REPLICAOF", "NO", "ONE"]);
        new.run(&["FLUSHALL"]);
    }
}

/// RF03: late answers never become those of other requests.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn late_answers_belong_to_nobody() {
    let server = Server::redis();
    let proxy = Proxy::before(server.port());
    let (store, counts) = open(&through(&proxy, "?timeout_ms=2&connections=4"));
    contact_slowly(&store).await;
    proxy.set(Fault { delay: Duration::from_millis(5), share: 0.01, ..Fault::default() });
    let rounds = if std::env::var_os("PACELINE_LONG_TESTS").is_some() { 6_000 } else { 300 };
    let tasks: Vec<_> = (0..16_u32)
        .map(|task| {
            let store = store.clone();
            tokio::spawn(async move {
                let mut done = 0;
                for round in 0..rounds {
                    let (scope, body) = (scope(), format!("{task}/{round}"));
                    let asked = write(&store, &scope, Version::NONE, body.as_bytes());
                    if round % 7 == 0 {
                        // A caller that goes away in the middle.
                        let _ = tokio::time::timeout(Duration::from_micros(300), asked).await;
                        continue;
                    }
                    if let Ok(Committed::Done(version)) = asked.await {
                        done += 1;
                        if let Ok(loaded) = store.load(&scope).await {
                            assert_eq!(loaded.version, version);
                            assert!(loaded.value.is_some_and(|value| value.ends_with(body.as_bytes())), "{body}");
                        }
                    }
                }
                done
            })
        })
        .collect();
    let mut done = 0;
    for task in tasks {
        done += task.await.unwrap();
    }
    println!("{done} of {} done; {counts:?}", 16 * rounds);
    assert_eq!(counts.failed(Failure::Protocol), 0);
    assert!(done > 0);
}

/// RF04: nothing passes and nobody is told. Requests fail in their time, and none of them is carried out later.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_black_hole_keeps_nothing_for_later() {
    let server = Server::redis();
    let proxy = Proxy::before(server.port());
    let (store, counts) = open(&through(&proxy, "?timeout_ms=100"));
    contact(&store).await;
    let keys_before = server.run(&["DBSIZE"]).number();
    proxy.set(Fault { drop: true, ..Fault::default() });
    let start = Instant::now();
    let mut asked = 0;
    while start.elapsed() < Duration::from_secs(3) {
        let burst: Vec<_> = (0..50)
            .map(|_| {
                let store = store.clone();
                tokio::spawn(async move {
                    let sent = Instant::now();
                    let answer = write(&store, &scope(), Version::NONE, &[7; 1_000]).await;
                    (answer, sent.elapsed())
                })
            })
            .collect();
        for task in burst {
            let (answer, took) = task.await.unwrap();
            assert!(answer.is_err() && took < Duration::from_millis(300), "{answer:?} after {took:?}");
            asked += 1;
        }
        sleep(Duration::from_millis(50)).await;
    }
    proxy.heal();
    let took = until_well(&store, SOON).await;
    println!("black hole: {asked} asked, well after {took:?}; {counts:?}");
    // Only what had left before the first time-out may arrive, and what shows that all is well.
    let more = server.run(&["DBSIZE"]).number() - keys_before;
    assert!(more <= 2 * 50 + 16, "{more} stale commits were carried out");
    assert!(counts.failed(Failure::Timeout) > 0);
}

/// The other end is gone and says nothing: found without traffic.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_half_open_connection_is_found_without_traffic() {
    let server = Server::redis();
    let proxy = Proxy::before(server.port());
    let (store, counts) = open(&through(&proxy, "?timeout_ms=100"));
    contact(&store).await;
    proxy.set(Fault { mute: true, ..Fault::default() });
    let start = Instant::now();
    while counts.failed(Failure::Timeout) < 2 {
        assert!(start.elapsed() < Duration::from_secs(5), "{counts:?}");
        sleep(Duration::from_millis(10)).await;
    }
    proxy.heal();
    let took = until_well(&store, SOON).await;
    println!("half-open: well after {took:?}");
}

/// RF13: however many connections are lost, a process opens 20 a second at most, and requests fail at once meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_storm_of_connections_after_a_restart() {
    let mut server = Server::redis();
    let proxy = Proxy::before(server.port());
    let store = connect(&through(&proxy, "?connections=20")).await;
    let before = proxy.accepted().len();
    server.kill();
    proxy.cut();
    let down = Instant::now();
    let mut asked = 0;
    while down.elapsed() < Duration::from_secs(3) {
        let sent = Instant::now();
        let answer = write(&store, &scope(), Version::NONE, b"v").await;
        assert!(answer.is_err(), "{answer:?}");
        assert!(sent.elapsed() < Duration::from_millis(250), "it fails fast, not after {:?}", sent.elapsed());
        asked += 1;
        sleep(Duration::from_millis(2)).await;
    }
    server.start_again();
    contact(&store).await;
    let accepted = proxy.accepted().split_off(before);
    let second = Duration::from_secs(1);
    let busiest =
        accepted.iter().map(|first| accepted.iter().filter(|at| **at >= *first && **at < *first + second).count()).max();
    println!("{asked} asked in 3 s, {} connections, {busiest:?} in the busiest second", accepted.len());
    assert!(busiest.unwrap_or(0) <= 22, "{busiest:?} connections within a second");
}

/// A restart, with and without what was stored.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_is_over_soon() {
    let mut server = Server::start(Options::new().line("appendonly yes").line("appendfsync always"));
    let (store, counts) = open(&server.url());
    contact(&store).await;
    let kept = scope();
    let Ok(Committed::Done(version)) = write(&store, &kept, Version::NONE, b"kept").await else { panic!() };
    let keys = store.token_keys().await.unwrap();
    server.start_again();
    println!("restart: well after {:?}", until_well(&store, SOON).await);
    assert_eq!(store.load(&kept).await.unwrap().version, version);
    server.run(&["FLUSHALL"]);
    println!("flushed: well after {:?}", until_well(&store, SOON).await);
    assert_eq!(store.load(&kept).await.map(|loaded| loaded.value), Ok(None), "the store shows a loss as it is");
    let start = Instant::now();
    while store.token_keys().await.unwrap() != keys || server.run(&["HEXISTS", "paceline:meta", "tokens"]).number() == 0 {
        assert!(start.elapsed() < Duration::from_secs(5), "the token keys are put back");
        sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(counts.failed(Failure::Corrupt), 0);
}

/// A server that hangs: requests fail in their time, and go on when it does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_server_is_waited_for_no_longer_than_told() {
    let server = Server::redis();
    let (store, _) = open(&format!("{}?timeout_ms=100", server.url()));
    contact(&store).await;
    server.freeze();
    for _ in 0..10 {
        let sent = Instant::now();
        let error = write(&store, &scope(), Version::NONE, b"v").await.unwrap_err();
        assert!(sent.elapsed() < Duration::from_millis(300), "{error} after {:?}", sent.elapsed());
        assert!(matches!(error, StoreError::Timeout { .. } | StoreError::Unavailable { .. }), "{error:?}");
    }
    server.thaw();
    println!("frozen: well after {:?}", until_well(&store, SOON).await);
}

/// CK02: the server's clock is set back by a minute and forward by an hour, as a fail-over to another machine does: fleet time goes
/// on, for all replicas, and is counted.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn fleet_time_goes_on_when_the_server_is_another() {
    let server = Server::redis();
    let proxy = Proxy::before(server.port());
    let (one, counts) = open(&through(&proxy, ""));
    let (two, _) = open(&through(&proxy, ""));
    contact(&one).await;
    contact(&two).await;
    let start = (Instant::now(), one.now());
    assert!((one.now() - two.now()).to_duration() < Duration::from_secs(1), "both have the same time");
    for offset_secs in [60_i64, -3_600] {
        // Whoever agreed on another offset has, in effect, set the clock.
        let held = server.run(&["HGET", "paceline:meta", "clock"]).text();
        let (offset, steps) = held.split_once(' ').map(|(a, b)| (a.parse::<i64>().unwrap(), b.to_owned())).unwrap();
        server.run(&["HSET", "paceline:meta", "clock", &format!("{} {steps}", offset + offset_secs * 1_000_000)]);
        let wanted = Instant::now() + Duration::from_secs(5);
        loop {
            let now = server.run(&["HGET", "paceline:meta", "clock"]).text();
            let back = now.split_once(' ').map(|(a, _)| a.parse::<i64>().unwrap()).unwrap();
            if (back - offset).abs() < 100_000 {
                break;
            }
            assert!(Instant::now() < wanted, "{now} instead of {held}");
            sleep(Duration::from_millis(20)).await;
        }
        for store in [&one, &two] {
            let off = (store.now() - start.1).to_duration().abs_diff(start.0.elapsed());
            // A step would be a minute or an hour; a busy machine hands out what it measured late.
            assert!(off < Duration::from_secs(2), "off by {off:?}");
        }
    }
    assert!(counts.steps() >= 1, "{counts:?}");
    // Lost, it is put back.
    server.run(&["DEL", "paceline:meta"]);
    let store = one.clone();
    let me = Announcement { id: 7, ..Announcement::default() };
    assert_eq!(store.heartbeat(&me).await.unwrap().len(), 1);
    tokio::task::spawn_blocking(move || {
        wait_until("time and keys are put back", Duration::from_secs(5), || {
            server.run(&["HLEN", "paceline:meta"]).number() == 3
        });
        server
    })
    .await
    .unwrap();
}

/// A server that is not there at first is used as soon as it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_may_come_later_than_its_users() {
    let port = paceline_tests::servers::free_port();
    let (store, _) = open(&format!("redis://127.0.0.1:{port}"));
    let keys = store.token_keys().await.unwrap();
    assert!(matches!(store.load(&scope()).await, Err(StoreError::Unavailable { .. })));
    let before = store.now();
    let server = Server::start(Options::new().port(port));
    contact(&store).await;
    assert!(store.now() >= before && store.now() < before + Span::from_secs(60));
    let other = connect(&server.url()).await;
    let known = other.token_keys().await.unwrap();
    assert!(known.find(keys.current.id).is_some(), "what the lonely one signed is honoured by all");
}

async fn contact_slowly(store: &Arc<RedisStore>) {
    let mut contact = store.contact();
    contact.wait_for(|contacted| *contacted).await.unwrap();
}
