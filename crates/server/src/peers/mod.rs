//! The other replicas: calls are sent on to the one that leads their scope, over one Session to each.
//!
//! Nothing is decided here, and nothing depends on it: a call that cannot be sent on, or is not answered in time, is decided where
//! it came in, with the place it had. `docs/internals/forwarding.md` is the story.

mod health;
mod link;
mod look;
mod proof;
mod told;
mod wire;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use paceline_coordinator::api::Target;
use paceline_coordinator::{Coordinator, Lead};
use paceline_store::Store;
use paceline_telemetry::Telemetry;
use tokio::time::Instant;
use tonic::Status;
use tonic::metadata::MetadataMap;

pub use self::link::ARRIVES_WITHIN;
pub(crate) use self::link::{Link, NotThere, Sent};
use self::proof::{METADATA, Refused};
use self::told::Cases;

/// A replica to which nothing was sent for this long is forgotten.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60);

/// The replicas that calls were sent on to.
pub(crate) struct Peers<S> {
    coordinator: Coordinator<S>,
    telemetry: Telemetry,
    arrives_within: Duration,
    links: Mutex<HashMap<u32, Arc<Link>>>,
    /// Those who looked for another replica here, and those who are none.
    astray: Mutex<(Cases, Cases)>,
}

/// Where a call goes.
pub(crate) enum Way {
    /// It is decided here.
    Here,
    /// It is sent on.
    To(Arc<Link>),
    /// Another replica leads, and is not to be waited for: it is decided here, alone.
    Alone,
}

impl<S: Store> Peers<S> {
    pub(crate) fn new(coordinator: Coordinator<S>, telemetry: Telemetry, arrives_within: Duration) -> Self {
        Self { coordinator, telemetry, arrives_within, links: Mutex::new(HashMap::new()), astray: Mutex::default() }
    }

    /// The way of a call whose scope has this lead.
    pub(crate) fn way(&self, lead: Lead) -> Way {
        let Lead::At { replica, address } = lead else { return Way::Here };
        if replica == self.coordinator.replica() || address.is_empty() {
            return Way::Here;
        }
        let link = self.link(replica, address);
        if link.takes() { Way::To(link) } else { Way::Alone }
    }

    /// A call was decided here although another replica leads its scope: its order among that one's calls is lost.
    pub(crate) fn order_lost(&self, target: &Target) {
        self.telemetry.order_lost(&self.telemetry.scope(&target.provider, &target.account, &target.model));
    }

    /// The number of the replica of the fleet that speaks; `None`: it is somebody else.
    ///
    /// # Errors
    /// It says that it is one, and cannot prove it.
    pub(crate) async fn peer(&self, metadata: &MetadataMap) -> Result<Option<u32>, Status> {
        let Some(proof) = metadata.get_bin(METADATA) else { return Ok(None) };
        let denied = |refused: Refused| {
            self.tell(refused);
            Err(Status::permission_denied(format!("{METADATA}: {}", refused.as_str())))
        };
        let Ok(proof) = proof.to_bytes() else { return denied(Refused::Forged) };
        match self.check(&proof) {
            Ok(replica) => Ok(Some(replica)),
            // The keys may have been rotated a moment ago.
            Err(Refused::UnknownKey) => {
                if let Err(error) = self.coordinator.refresh_keys().await {
                    tracing::debug!(%error, "token keys cannot be fetched");
                }
                self.check(&proof).map_or_else(denied, |replica| Ok(Some(replica)))
            }
            Err(refused) => denied(refused),
        }
    }

    /// Tells of those who cannot prove what they say they are: once, however often they try.
    fn tell(&self, refused: Refused) {
        let mut astray = self.astray.lock().unwrap_or_else(PoisonError::into_inner);
        match refused {
            Refused::ForAnother { from, to } => {
                if astray.0.lasting(Instant::now()) {
                    tracing::warn!(
                        from,
                        "the address that replica {to} advertises is answered by this one, replica {}: check --advertise of both",
                        self.coordinator.replica()
                    );
                }
            }
            _ => {
                if astray.1.plain(Instant::now()) {
                    tracing::warn!(why = refused.as_str(), "somebody who is no replica of this fleet opened a Session as one");
                }
            }
        }
    }

    fn check(&self, proof: &[u8]) -> Result<u32, Refused> {
        proof::check(self.coordinator.keyring(), self.coordinator.replica(), self.coordinator.now(), proof)
    }

    /// The way to a replica.
    pub(crate) fn link(&self, replica: u32, address: Arc<str>) -> Arc<Link> {
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(link) = links.get(&replica) {
            return link.clone();
        }
        links.retain(|_, link| link.used_at().elapsed() < FORGOTTEN_AFTER);
        let coordinator = self.coordinator.clone();
        let prove = move || proof::prove(coordinator.keyring(), coordinator.replica(), replica, coordinator.now());
        let link = Arc::new(Link::new(replica, address, Box::new(prove), self.telemetry.clone(), self.arrives_within));
        links.insert(replica, link.clone());
        link
    }
}
