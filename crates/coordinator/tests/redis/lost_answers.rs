//! TE06: what the server was sent is carried out, and nobody hears of it.

use std::time::Duration;

use paceline_coordinator::api::Answer;
use paceline_tests::proxy::{Fault, Proxy};
use paceline_tests::servers::{Server, wait_until};

use crate::support::{answered, ask};
use crate::{Replica, left, scope_value};

const TWO_AT_ONCE: &str = "concurrency: 2, limits: {requests: {limit: 100, per: 1h}}";

/// A call whose grant was written and not heard of is in flight once, and its second place is free as soon as the server is heard
/// again: not at the end of its lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_that_nobody_heard_of_holds_no_place() {
    let server = Server::redis();
    let proxy = Proxy::before(server.port());
    let replica = Replica::at(proxy.port(), "one", TWO_AT_ONCE).await;
    let in_flight = || {
        let value = scope_value(&server).unwrap();
        value.groups[0].flights.in_use(replica.store_now()).as_units_floor()
    };
    assert_eq!(replica.drain("before", 1).await, 1);
    assert_eq!(in_flight(), 1);

    proxy.set(Fault { mute: true, ..Fault::default() });
    let Answer::Granted(grant) = replica.coordinator.acquire(ask("unheard")).await.unwrap() else { panic!("there is room") };
    assert!(replica.metric("paceline_degraded") >= 1.0);
    assert_eq!(in_flight(), 2, "it was written all the same");
    proxy.heal();
    let is_normal = || replica.metric("paceline_degraded") == 0.0;
    tokio::task::block_in_place(|| wait_until("it is heard again", Duration::from_secs(20), is_normal));
    let report = replica.coordinator.report(answered(&grant.lease_id, 200, &[])).await.unwrap();
    assert_eq!(report.not_applied, None);
    tokio::task::block_in_place(|| wait_until("its place is free", Duration::from_secs(5), || in_flight() == 1));
    assert_eq!(replica.drain("after", 3).await, 1, "one of two places is taken");
    assert_eq!(left(&server, replica.store_now()), 97, "three calls are charged");
}
