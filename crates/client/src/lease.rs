//! A lease: the number its reports carry, and its renewal while a call runs.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use paceline_proto::v1::ReportRequest;
use tokio::time::{Instant, sleep};

use crate::limiter::Shared;
use crate::rendezvous::Route;
use crate::report::Report;
use crate::timing;

/// A lease as its guard and its renewal share it.
#[derive(Debug)]
pub(crate) struct Lease {
    pub(crate) id: String,
    /// Where it is known best.
    pub(crate) route: Route,
    reports: Mutex<Reports>,
}

/// The order of a lease's reports. The service takes no report after one with a higher number, so a renewal must not overtake
/// what the worker reports: none begins while a report is under way.
#[derive(Debug, Default)]
struct Reports {
    last_seq: u32,
    under_way: u32,
}

impl Lease {
    pub(crate) fn new(id: String, route: Route) -> Self {
        Self { id, route, reports: Mutex::default() }
    }

    fn with<T>(&self, change: impl FnOnce(&mut Reports) -> T) -> T {
        change(&mut self.reports.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The number of a renewal; `None` while a report is under way, which renews the lease as well.
    fn renewal_seq(&self) -> Option<u32> {
        self.with(|reports| {
            (reports.under_way == 0).then(|| {
                reports.last_seq = reports.last_seq.saturating_add(1);
                reports.last_seq
            })
        })
    }
}

/// A report that is under way.
pub(crate) struct Telling<'a> {
    lease: &'a Lease,
    pub(crate) seq: u32,
}

impl<'a> Telling<'a> {
    pub(crate) fn begin(lease: &'a Lease) -> Self {
        let seq = lease.with(|reports| {
            reports.under_way = reports.under_way.saturating_add(1);
            reports.last_seq = reports.last_seq.saturating_add(1);
            reports.last_seq
        });
        Self { lease, seq }
    }
}

impl Drop for Telling<'_> {
    fn drop(&mut self) {
        self.lease.with(|reports| reports.under_way = reports.under_way.saturating_sub(1));
    }
}

/// Renews a lease until it is over or its guard is gone.
pub(crate) async fn renew(shared: Arc<Shared>, lease: Arc<Lease>, ttl: Duration) {
    let mut ends = timing::after(Instant::now(), ttl);
    loop {
        sleep(timing::renew_in(ends.saturating_duration_since(Instant::now()), rand::random())).await;
        if Instant::now() >= ends {
            tracing::debug!("a lease ended because no replica took its renewals");
            return;
        }
        let Some(seq) = lease.renewal_seq() else { continue };
        let request: ReportRequest = Report::running().request_at(Instant::now(), &lease.id, seq, None);
        match shared.peers.send_once(lease.route, request).await {
            Ok(response) if response.applied => {
                let ttl = response.ttl.as_ref().map_or(ttl, timing::length);
                ends = timing::after(Instant::now(), ttl);
            }
            Ok(response) => {
                tracing::debug!(why = response.not_applied().as_str_name(), "a lease was not renewed");
                return;
            }
            Err(error) => tracing::debug!(%error, "a renewal did not arrive; trying again"),
        }
    }
}
