//! What is in the server after a commit, and what the scripts do when something is not as it should be.

use std::time::{Duration, Instant};

use bytes::Bytes;
use paceline_core::units::Span;
use paceline_store::{Committed, Expect, Failure, Loaded, Operation, RecordKey, Store, StoreError, Version};
use paceline_tests::servers::{Answer, Options, Server};

use crate::support::{commit, connect, contact, open, record, scope, sealed, write};

/// NU08: whatever is asked for, what is stored lives for a second at least and 40 days at most.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_has_a_life_of_whole_milliseconds() {
    let server = Server::redis();
    let store = connect(&server.url()).await;
    let mut client = server.client();
    for life_micros in [0, 400, 1_500_500, 120_000_000, 1_860_000_000, 1_000_000_000_000_000_000] {
        let (scope, life) = (scope(), Span::from_micros(life_micros));
        let mut attempt = commit(&store, Version::NONE, b"value", vec![record(&store, "a", b"1", life, Expect::Absent)]);
        attempt.keep_until = store.now() + life;
        assert!(matches!(store.commit(&scope, attempt).await, Ok(Committed::Done(_))));
        let keys = client.run(&["KEYS", &format!("paceline:{{{scope}}}:*")]).list();
        assert_eq!(keys.len(), 2, "a value and a hash: {keys:?}");
        for key in keys {
            let left = client.run(&["PTTL", &key.text()]).number();
            assert!((900..=40 * 86_400_000).contains(&left), "{left} ms left after a life of {life_micros} us");
        }
    }
}

/// NU01: numbers of 64 bits and any bytes come back as they were written.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn versions_and_bytes_come_back_exactly() {
    let server = Server::redis();
    let store = connect(&server.url()).await;
    let scope = scope();
    let mut current = Version::NONE;
    let start = store.now();
    let micros = u64::try_from(start.as_micros()).unwrap();
    let versions = (micros..micros + 1_000).chain([1 << 53, (1 << 53) + 1, (1 << 53) + 2, u64::MAX - 1, u64::MAX]);
    for (step, version) in versions.map(Version).enumerate() {
        let body: Vec<u8> = (0..=u8::MAX).cycle().skip(step).take(300).collect();
        let mut attempt = commit(&store, current, &[], vec![record(&store, "a", &body, Span::from_secs(60), Expect::Anything)]);
        attempt.value = sealed(version, &body);
        assert_eq!(store.commit(&scope, attempt).await, Ok(Committed::Done(version)), "over {current:?}");
        // One version off, in either direction, is another version.
        for wrong in [version.0 - 1, current.0] {
            let stale = write(&store, &scope, Version(wrong), b"x").await;
            assert!(matches!(&stale, Ok(Committed::Stale(loaded)) if loaded.version == version), "{wrong}: {stale:?}");
        }
        if step % 100 == 0 || step >= 1_000 {
            assert_eq!(store.load(&scope).await.unwrap().value, Some(sealed(version, &body)));
            let read = store.records(&scope, &[RecordKey::of([&b"a"[..]])]).await.unwrap();
            assert_eq!(read, [Some(Bytes::from(body))]);
        }
        current = version;
        if version.0 == u64::MAX {
            break;
        }
    }
}

/// A renewed record lies in two hashes: the later one counts, also when it ends earlier.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_later_of_two_records_counts() {
    let server = Server::redis();
    let store = connect(&server.url()).await;
    let (scope, key) = (scope(), [RecordKey::of([&b"a"[..]])]);
    let mut version = Version::NONE;
    let expected: [&[u8]; 4] = [b"an hour", b"a minute", b"ten minutes", b"a second"];
    for (value, secs) in expected.into_iter().zip([3_600, 60, 600, 1]) {
        let writes = vec![record(&store, "a", value, Span::from_secs(secs), Expect::Anything)];
        let Ok(Committed::Done(next)) = store.commit(&scope, commit(&store, version, b"", writes)).await else { panic!() };
        version = next;
        assert_eq!(store.records(&scope, &key).await.unwrap(), [Some(Bytes::from_static(value))]);
        let again = vec![record(&store, "a", b"new", Span::from_secs(60), Expect::Absent)];
        let found = store.commit(&scope, commit(&store, version, b"", again)).await;
        assert_eq!(found, Ok(Committed::RecordExists { found: vec![(key[0], Bytes::from_static(value))] }));
    }
    assert_eq!(server.run(&["KEYS", "*:r:*"]).list().len(), 3, "one for each class of lives");
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let found = store.records(&scope, &key).await.unwrap();
        if found == [None] {
            break;
        }
        assert_eq!(found, [Some(Bytes::from_static(b"a second"))], "older ones do not come back");
        assert!(Instant::now() < deadline, "it has a life of a second");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let again = vec![record(&store, "a", b"new", Span::from_secs(60), Expect::Absent)];
    assert!(matches!(store.commit(&scope, commit(&store, version, b"", again)).await, Ok(Committed::Done(_))));
}

/// NU09: what lies under our keys and is not ours is taken away, counted, and blocks nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_ours_is_taken_away() {
    let server = Server::redis();
    let (store, counts) = open(&server.url());
    contact(&store).await;
    let mut client = server.client();
    for (round, broken) in
        [&["SET", "", ""][..], &["SET", "", "nan"], &["SET", "", "0123456789abcdef0123456789abcde"], &["LPUSH", "", "x"]]
            .into_iter()
            .enumerate()
    {
        for through_load in [true, false] {
            let scope = scope();
            let key = format!("paceline:{{{scope}}}:s");
            let command: Vec<&str> = broken.iter().enumerate().map(|(at, part)| if at == 1 { &key } else { *part }).collect();
            client.run(&command);
            if through_load {
                assert_eq!(store.load(&scope).await.map(|loaded| loaded.value), Ok(None), "round {round}");
            }
            let mut written = write(&store, &scope, Version::NONE, b"fresh").await;
            if let Ok(Committed::Stale(loaded)) = written {
                assert_eq!(loaded, Loaded::default(), "what was there is gone");
                written = write(&store, &scope, Version::NONE, b"fresh").await;
            }
            assert!(matches!(written, Ok(Committed::Done(_))), "round {round}: {written:?}");
        }
    }
    // A header with version zero can be no commit of ours.
    let zero = scope();
    client.run(&[b"SET".to_vec(), format!("paceline:{{{zero}}}:s").into_bytes(), vec![0; 40]]);
    assert_eq!(store.load(&zero).await.map(|loaded| loaded.value), Ok(None));
    assert!(matches!(write(&store, &zero, Version::NONE, b"").await, Ok(Committed::Done(_))));
    // A hash of records that is none.
    let scope = scope();
    let writes = || vec![record(&store, "a", b"1", Span::from_secs(60), Expect::Absent)];
    assert!(matches!(store.commit(&scope, commit(&store, Version::NONE, b"", writes())).await, Ok(Committed::Done(_))));
    let hash = client.run(&["KEYS", &format!("paceline:{{{scope}}}:r:*")]).list().remove(0).text();
    client.run(&["DEL", &hash]);
    client.run(&["SET", &hash, "none of ours"]);
    let version = store.load(&scope).await.unwrap().version;
    assert_eq!(store.records(&scope, &[RecordKey::of([&b"a"[..]])]).await, Ok(vec![None]));
    client.run(&["SET", &hash, "none of ours"]);
    assert!(matches!(store.commit(&scope, commit(&store, version, b"", writes())).await, Ok(Committed::Done(_))));
    assert!(counts.failed(Failure::Corrupt) >= 9, "{counts:?}");
}

/// RF01: a server that forgets its scripts all the time answers every request all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flushed_scripts_cost_nobody_an_answer() {
    let server = Server::redis();
    let store = connect(&server.url()).await;
    let flushed = {
        let mut client = server.client();
        let over = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let flag = over.clone();
        let flusher = tokio::task::spawn_blocking(move || {
            let mut count = 0;
            while !flag.load(std::sync::atomic::Ordering::Relaxed) {
                client.run(&["SCRIPT", "FLUSH"]);
                count += 1;
            }
            count
        });
        let tasks: Vec<_> = (0..16)
            .map(|_| {
                let store = store.clone();
                tokio::spawn(async move {
                    for _ in 0..100 {
                        let scope = scope();
                        let writes = vec![record(&store, "a", b"1", Span::from_secs(60), Expect::Absent)];
                        let done = store.commit(&scope, commit(&store, Version::NONE, b"v", writes)).await;
                        assert!(matches!(done, Ok(Committed::Done(_))), "{done:?}");
                        assert!(store.load(&scope).await.unwrap().value.is_some());
                        assert!(store.records(&scope, &[RecordKey::of([&b"a"[..]])]).await.unwrap()[0].is_some());
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        over.store(true, std::sync::atomic::Ordering::Relaxed);
        flusher.await.unwrap()
    };
    assert!(flushed > 20, "flushed {flushed} times");
}

/// Commits of a scope that are under way at once arrive in the order in which they were polled first.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn commits_of_a_scope_arrive_in_their_order() {
    let server = Server::redis();
    let store = connect(&server.url()).await;
    for _ in 0..50 {
        let scope = scope();
        let mut version = Version::NONE;
        let mut under_way = Vec::new();
        for step in 0..40_u8 {
            let next = commit(&store, version, &[step], Vec::new());
            version = paceline_store::codec::Header::read(&next.value).unwrap().version;
            under_way.push(Box::pin(store.commit(&scope, next)));
        }
        let mut answers = Vec::new();
        // Each is polled once, in order, before anybody is waited for; on a busy machine an answer may be there by then.
        let mut early = Vec::new();
        for commit in &mut under_way {
            early.push(std::future::poll_fn(|cx| std::task::Poll::Ready(commit.as_mut().poll(cx))).await);
        }
        for (commit, early) in under_way.into_iter().zip(early) {
            answers.push(match early {
                std::task::Poll::Ready(answer) => answer,
                std::task::Poll::Pending => commit.await,
            });
        }
        assert!(answers.iter().all(|answer| matches!(answer, Ok(Committed::Done(_)))), "{answers:?}");
    }
}

/// A server without memory, or one that does not let us: nothing is written, and the message says what to do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_refuses_says_why() {
    let server = Server::redis();
    let (store, counts) = open(&server.url());
    contact(&store).await;
    let scope = scope();
    server.run(&["CONFIG", "SET", "maxmemory", "1"]);
    let full = write(&store, &scope, Version::NONE, b"v").await;
    assert!(matches!(&full, Err(StoreError::Unavailable { detail }) if detail.contains("more memory")), "{full:?}");
    server.run(&["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(counts.failed(Failure::Full), 1);
    assert_eq!(store.load(&scope).await.map(|loaded| loaded.value), Ok(None), "nothing was written");
    server.run(&["ACL", "SETUSER", "default", "-set"]);
    let denied = write(&store, &scope, Version::NONE, b"v").await;
    assert!(matches!(&denied, Err(StoreError::Unavailable { detail }) if detail.contains("rights")), "{denied:?}");
    server.run(&["ACL", "SETUSER", "default", "+@all"]);
    assert!(matches!(write(&store, &scope, Version::NONE, b"v").await, Ok(Committed::Done(_))));
    assert!(counts.answered(Operation::Commit) > 0 && counts.failed(Failure::Denied) >= 1, "{counts:?}");
}

/// Passwords that are wrong, missing, or in a file.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_may_not_come_in_is_told_why() {
    let server = Server::start(Options::new().line("requirepass hunter2"));
    let file = std::env::temp_dir().join(format!("paceline-password-{}", std::process::id()));
    std::fs::write(&file, "hunter2\n").unwrap();
    for (user, part) in
        [("", "wants a password"), (":wrong@", "does not take the password"), ("app:wrong@", "user and password")]
    {
        let (store, counts) = open(&format!("redis://{user}127.0.0.1:{}", server.port()));
        let error = loop {
            let error = store.load(&scope()).await.unwrap_err().to_string();
            if !error.contains("not connected yet") {
                break error;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        assert!(error.contains(part), "{error}");
        assert!(!error.contains("wrong@") && counts.failed(Failure::Denied) > 0, "{error}: {counts:?}");
    }
    let url = format!("redis://127.0.0.1:{}?password_file={}", server.port(), file.display());
    let store = connect(&url).await;
    assert!(matches!(write(&store, &scope(), Version::NONE, b"v").await, Ok(Committed::Done(_))));
    let _ = std::fs::remove_file(file);
}

/// A server that evicts, and one that forgets, are complained about.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_that_lose_state_are_named() {
    let server = Server::start(Options::new().line("maxmemory-policy volatile-lru"));
    let warnings = connect(&server.url()).await.warnings().await.join("\n");
    assert!(warnings.contains("maxmemory-policy is volatile-lru") && warnings.contains("appendonly"), "{warnings}");
    let fine = Server::start(Options::new().line("appendonly yes"));
    assert_eq!(connect(&fine.url()).await.warnings().await, Vec::<String>::new());
    assert!(matches!(fine.run(&["DBSIZE"]), Answer::Number(_)));
}

/// What a commit costs the server, with as many records as a large batch has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_costs_the_server_little() {
    let server = Server::redis();
    let store = connect(&server.url()).await;
    for records in [0_u32, 1, 16, 512] {
        server.run(&["CONFIG", "RESETSTAT"]);
        let (scope, mut version) = (scope(), Version::NONE);
        for round in 0..100_u32 {
            let name = |number: u32| format!("{round}/{number}");
            let write = |number| record(&store, &name(number), &[7; 120], Span::from_secs(120), Expect::Absent);
            let next = commit(&store, version, &[7; 2_000], (0..records).map(write).collect());
            let Ok(Committed::Done(done)) = store.commit(&scope, next).await else { panic!("round {round}") };
            version = done;
        }
        let stats = server.info("commandstats", "cmdstat_evalsha");
        let micros: f64 = stats.split(',').find_map(|part| part.strip_prefix("usec_per_call=")).unwrap().parse().unwrap();
        println!("a commit with {records} records: {micros:.0} us of the server's time");
        assert!(micros < 10_000.0, "{stats}");
    }
}
