//! What is done to the fleet, and when.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::processes::Service;

/// Something that was done.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) what: &'static str,
    /// From the start of the run.
    pub(crate) at: Duration,
    /// Whether what Redis held may be gone.
    pub(crate) may_lose: bool,
}

/// One round of faults in every two minutes, at these parts of it.
const ROUND: Duration = Duration::from_secs(120);

/// Does it all; returns what was done when the run is over.
pub(crate) async fn inject(service: &mut Service, start: Instant, length: Duration) -> Vec<Fault> {
    let mut faults = Vec::new();
    let rounds = (length.as_secs() / ROUND.as_secs()).max(1);
    let round = length / u32::try_from(rounds).unwrap();
    for nth in 0..u32::try_from(rounds).unwrap() {
        let at = |part: u32| start + round * nth + round * part / 100;
        // The replica that the workers' scope goes to, so that it leads.
        let addrs = service.addrs();
        let home = paceline_client::replica_for("acme", "prod", addrs.iter().map(String::as_str)).unwrap().to_owned();
        let home = addrs.iter().position(|addr| *addr == home).unwrap();

        sleep_until(at(17)).await;
        note(&mut faults, start, "the leading replica is killed", false);
        service.replicas[home].kill();
        sleep_until(at(30)).await;
        note(&mut faults, start, "it is started again", false);
        tokio::task::block_in_place(|| service.replicas[home].start());

        sleep_until(at(45)).await;
        note(&mut faults, start, "SCRIPT FLUSH and FLUSHALL", true);
        tokio::task::block_in_place(|| {
            service.primary().run(&["SCRIPT", "FLUSH"]);
            service.primary().run(&["FLUSHALL"]);
        });

        sleep_until(at(65)).await;
        note(&mut faults, start, "the primary of Redis is killed", true);
        let killed = tokio::task::block_in_place(|| {
            let port = service.primary().port();
            let killed = service.redis.servers().iter().position(|server| server.port() == port).unwrap();
            service.redis.servers_mut()[killed].kill();
            killed
        });
        sleep_until(at(85)).await;
        note(&mut faults, start, "it is started again, as a replica", true);
        tokio::task::block_in_place(|| service.redis.servers_mut()[killed].start_again());
    }
    sleep_until(start + length).await;
    faults
}

fn note(faults: &mut Vec<Fault>, start: Instant, what: &'static str, may_lose: bool) {
    faults.push(Fault { what, at: start.elapsed(), may_lose });
}
