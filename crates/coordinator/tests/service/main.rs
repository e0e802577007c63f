//! The coordinator as the service calls it, over the real store, in paused time: crowds, callers that leave, several
//! coordinators over one store, scopes that rest, a store that fails.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

#[path = "../support/mod.rs"]
mod support;

mod controls;
mod crowds;
mod events;
mod exits;
mod fallbacks;
mod history;
mod leading;
mod losses;
mod metrics;
mod replicas;
mod rest;
mod settling;
mod stores;
mod unheard;

use std::sync::Arc;

use paceline_coordinator::api::{AcquireRequest, Answer, Grant};
use paceline_coordinator::settings::Settings;
use paceline_coordinator::{Coordinator, Options};
use paceline_core::units::{FleetTime, Span};
use paceline_store::{MemoryStore, Store};
use paceline_telemetry::Telemetry;
use tokio::time::Instant;

use support::{Look, START, back};

/// A service under test.
struct Service<S> {
    coordinator: Coordinator<S>,
    telemetry: Telemetry,
}

/// An empty store on the runtime's clock, which tests pause.
fn store() -> Arc<MemoryStore> {
    let start = Instant::now();
    Arc::new(MemoryStore::with_clock(Arc::new(move || START + Span::from(start.elapsed()))))
}

async fn service<S: Store>(store: S, settings: Arc<dyn Settings>) -> Service<S> {
    service_at(None, store, settings).await
}

/// A service that other replicas reach at an address.
async fn service_at<S: Store>(address: Option<&str>, store: S, settings: Arc<dyn Settings>) -> Service<S> {
    let telemetry = Telemetry::new(Default::default()).unwrap();
    let address = address.map(Arc::from);
    let options = Options { store, settings, telemetry: telemetry.clone(), trace: None, address };
    Service { coordinator: Coordinator::new(options).await.unwrap(), telemetry }
}

impl<S: Store> Service<S> {
    async fn ask(&self, request: AcquireRequest) -> Answer {
        self.coordinator.acquire(request).await.unwrap()
    }

    /// A slot that must be there at once.
    async fn grant(&self, request: AcquireRequest) -> Grant {
        self.ask(AcquireRequest { hold: Span::ZERO, ..request }).await.grant().clone()
    }

    /// Comes back with tickets until there is a slot, as a worker does; the slot and when to send.
    async fn worker(&self, request: AcquireRequest) -> (Grant, FleetTime) {
        let mut asked = request.clone();
        loop {
            match self.ask(asked).await {
                Answer::Granted(grant) => {
                    let send_at = self.coordinator.now() + grant.wait;
                    return (*grant, send_at);
                }
                Answer::Queued(queued) => {
                    tokio::time::sleep(queued.come_back_in.to_duration()).await;
                    asked = back(&request, &queued, Span::from_secs(30));
                }
                Answer::Denied(denied) => panic!("{}: {denied:?}", request.request_id),
            }
        }
    }

    /// The sum of a metric's samples.
    fn metric(&self, name: &str) -> f64 {
        let text = self.telemetry.render().unwrap();
        let samples = text.lines().filter(|line| line.starts_with(name) && !line.starts_with('#'));
        samples.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }

    /// The sum of those samples of a metric that have these labels.
    fn value(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let text = self.telemetry.render().unwrap();
        let start = format!("{name}{{");
        let has = |line: &str| labels.iter().all(|(label, value)| line.contains(&format!("{label}=\"{value}\"")));
        let samples = text.lines().filter(|line| line.starts_with(&start) && has(line));
        samples.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }

    /// How many series a metric has.
    fn series(&self, name: &str) -> usize {
        let text = self.telemetry.render().unwrap();
        text.lines().filter(|line| line.split(['{', ' ']).next() == Some(name)).count()
    }
}

async fn sleep(span: Span) {
    tokio::time::sleep(span.to_duration()).await;
}

fn secs(secs: i64) -> Span {
    Span::from_secs(secs)
}
