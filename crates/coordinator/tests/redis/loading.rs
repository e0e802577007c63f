//! A server that was restarted and reads a large dump refuses everything meanwhile (`LOADING`).

use std::time::Duration;

use paceline_tests::servers::{Answer, Server, wait_until};

use crate::{Replica, SLOW, left};

/// So many keys of other people.
const KEYS: usize = 3_000;

/// Replicas go on alone while the server loads, and with it by themselves as soon as it has: with what it held, and what was done
/// meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_loads_is_done_without_until_it_has() {
    let mut server = Server::redis();
    let replica = Replica::at(server.port(), "one", SLOW).await;
    assert_eq!(replica.drain("before", 10).await, 10);
    tokio::task::block_in_place(|| {
        let mut client = server.client();
        for key in 0..KEYS {
            client.run(&["SET", &format!("somebody:{key}"), "something"]);
        }
        assert_eq!(client.run(&["SAVE"]).text(), "OK");
        // Three seconds at least.
        server.start_again_slowly(1_000);
    });
    // Whoever asks now does not wait for it.
    let meanwhile = replica.drain("meanwhile", 5).await;
    let loads = matches!(server.run(&["GET", "somebody:1"]), Answer::Error(text) if text.starts_with("LOADING"));
    assert!(loads, "this machine is too slow for this test, or the server does not take its time");
    assert_eq!(meanwhile, 5, "alone it has all that is left");
    assert!(replica.metric("paceline_degraded") >= 1.0);

    let is_normal = || replica.metric("paceline_degraded") == 0.0;
    tokio::task::block_in_place(|| wait_until("it decides with the store again", Duration::from_secs(30), is_normal));
    let is_stored = || left(&server, replica.store_now()) == 85;
    tokio::task::block_in_place(|| wait_until("what was done meanwhile is stored", Duration::from_secs(10), is_stored));
    let rest = replica.drain("after", 200).await;
    assert!((80..=90).contains(&rest), "{rest} of the 85 that are left");
}
