//! Which store the service uses, and what is counted of it.

use std::sync::Arc;
use std::time::Duration;

use paceline_config::{Config, StoreAddress};
use paceline_store::{AnyStore, Failure, FirstLook, Observer, Operation, RedisStore, RedisUrl};
use paceline_telemetry::Telemetry;
use tokio::time::timeout;

use crate::error::ServeError;
use crate::reached;

/// A service that has not reached its store takes calls all the same after this long: with its part of each limit, or as
/// `on_store_down` says. New replicas that never became ready would turn an outage of the store into one of everything.
const FIRST_CONTACT: Duration = Duration::from_secs(5);

/// Looks at the configured store once: a mistake is told before anybody depends on it. One that does not answer is no mistake:
/// a service must be able to start while its store is away.
///
/// # Errors
/// The address is none, or leads to a server that will never do.
pub(crate) async fn look(config: &Config) -> Result<(), ServeError> {
    let Some(text) = config.store().reveal() else { return Ok(()) };
    let url: RedisUrl = text.parse()?;
    match RedisStore::look(&url).await {
        FirstLook::Well => {}
        FirstLook::Away(why) => {
            tracing::warn!(store = %url, "the store does not answer yet; starting without it, and trying on: {why}");
            tracing::warn!("calls that come before the store answers are decided as on_store_down says");
            if let Some(warning) = reached::unseen(config) {
                tracing::warn!("{warning}");
            }
        }
        FirstLook::Mistake(what) => return Err(ServeError::WrongStore { store: url.to_string(), what }),
    }
    Ok(())
}

/// Opens the store of this address; connections are opened in the background.
///
/// # Errors
/// The address is none.
pub(crate) fn open(address: &StoreAddress, telemetry: &Telemetry) -> Result<AnyStore, ServeError> {
    let Some(text) = address.reveal() else { return Ok(AnyStore::memory()) };
    let url: RedisUrl = text.parse()?;
    for failure in Failure::ALL {
        telemetry.store_failed(failure.as_str(), 0);
    }
    telemetry.clock_stepped(0);
    Ok(AnyStore::Redis(Arc::new(RedisStore::open(url, Arc::new(Counted(telemetry.clone()))))))
}

/// Waits for the store's first answer, but not for ever.
pub(crate) async fn first_contact(store: &AnyStore) {
    let AnyStore::Redis(store) = store else { return };
    let mut contact = store.contact();
    let in_time = timeout(FIRST_CONTACT, contact.wait_for(|contacted| *contacted)).await.is_ok();
    match in_time {
        true => {
            tracing::info!(store = %store.url(), "the store answers");
            for warning in store.warnings().await {
                tracing::warn!("{warning} (docs/operating/redis.md)");
            }
        }
        false => tracing::error!(
            store = %store.url(),
            "the store has not answered for {} s; ready without it: calls are decided as on_store_down says, and it is tried on",
            FIRST_CONTACT.as_secs()
        ),
    }
}

struct Counted(Telemetry);

impl Observer for Counted {
    fn answered(&self, operation: Operation, took: Duration) {
        self.0.store_answered(operation.as_str(), took.as_secs_f64());
    }

    fn failed(&self, failure: Failure) {
        self.0.store_failed(failure.as_str(), 1);
    }

    fn clock_stepped(&self) {
        self.0.clock_stepped(1);
    }
}
