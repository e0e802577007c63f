//! A replica that is killed again and again leaves nothing behind that stays for ever or holds anybody up.

use std::process::Stdio;
use std::time::Duration;

use paceline_tests::servers::{Server, wait_until};
use rand::{RngExt as _, SeedableRng as _};
use serde_json::Value;

use crate::process::{Folder, Serving, paceline, run};

const CONFIG: &str = "providers: {bench: {dialect: generic, models: {\"*\": {limits: {requests: 1M/s}}}}}\n";

fn serving(store: &str, config: &str) -> Serving {
    let args =
        ["--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--store", store, "--config", config, "--log-filter", "error"];
    Serving::start(&args, &[])
}

/// What a load of twenty scopes for a second is told.
fn loaded(addr: &str) -> Value {
    let args =
        ["bench", "--addr", addr, "--provider", "bench", "--scopes", "20", "--in-flight", "40", "--duration", "1s", "--json"];
    let (code, told, errors) = run(&args);
    assert_eq!(code, Some(0), "{errors}");
    serde_json::from_str(&told).expect("one object")
}

/// Keys of Redis without an end.
fn endless(server: &Server) -> Vec<String> {
    let keys = server.run(&["KEYS", "*"]).list();
    assert!(keys.len() > 20, "values and records of twenty scopes");
    keys.iter().map(|key| key.text()).filter(|key| server.run(&["PTTL", key]).number() == -1).collect()
}

/// SE03: killed 20 times, 200 with `PACELINE_LONG_TESTS=1`, each time after some number of commits.
#[test]
fn se03_kills_leave_no_key_without_an_end_and_no_scope_stuck() {
    let (server, folder) = (Server::redis(), Folder::new("kills"));
    let config = folder.write("bench.yaml", CONFIG);
    let kills = if std::env::var_os("PACELINE_LONG_TESTS").is_some() { 200 } else { 20 };
    let mut rng = rand::rngs::StdRng::seed_from_u64(3);
    let commits = || {
        let stats = server.run(&["INFO", "commandstats"]).text();
        let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls=")).unwrap_or("0,");
        line.split(',').next().unwrap().parse::<u64>().unwrap()
    };
    for _ in 0..kills {
        let replica = serving(&server.url(), &config);
        let addr = replica.grpc.clone();
        let mut load = paceline(&["bench", "--addr", &addr, "--provider", "bench", "--scopes", "20", "--report", "--json"]);
        let mut load = load.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the binary runs");
        let until = commits() + rng.random_range(1..400);
        wait_until("so many commits", Duration::from_secs(30), || commits() >= until);
        replica.signal("KILL");
        drop(replica);
        load.kill().unwrap();
        load.wait().unwrap();
    }
    assert_eq!(endless(&server), [""; 0]);
    // Somebody took the ends away: they are back with the next use.
    let values = server.run(&["KEYS", "*:s"]).list().into_iter().map(|key| key.text());
    // What a replica wrote when it first looked at the store ends within seconds, and is not used again.
    let used: Vec<String> = values.filter(|key| server.run(&["PTTL", key]).number() > 60_000).collect();
    assert_eq!(used.len(), 20);
    for key in &used {
        server.run(&["PERSIST", key]);
    }
    assert_eq!(endless(&server).len(), 20);
    let replica = serving(&server.url(), &config);
    let told = loaded(&replica.grpc);
    assert_eq!((told["errors"].as_u64(), told["denied"].as_u64()), (Some(0), Some(0)), "{told}");
    assert!(told["acquires_per_s"].as_f64().unwrap() >= 20.0, "each scope grants: {told}");
    assert_eq!(endless(&server), [""; 0]);
}
