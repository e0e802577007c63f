//! Sentinels: who knows which server is the primary.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use redis::Value;
use tokio::time::Instant;

use super::connect::{self, Access, ConnectError};
use super::endpoint::Endpoint;
use crate::observe::Failure;

/// A sentinel that does not answer within this is passed over.
const PATIENCE: Duration = Duration::from_millis(300);

/// The sentinels of a primary.
#[derive(Debug)]
pub(super) struct Sentinels {
    /// The one that answered last comes first.
    places: Mutex<Vec<Endpoint>>,
    name: String,
    access: Access,
}

impl Sentinels {
    pub(super) fn new(places: Vec<Endpoint>, name: String, access: Access) -> Self {
        Self { places: Mutex::new(places), name, access: Access { db: 0, timeout: PATIENCE, ..access } }
    }

    /// What they call it.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Where the primary is, as the first one says that knows it.
    ///
    /// # Errors
    /// None of them knows it, with the reason of the last one.
    pub(super) async fn primary(&self) -> Result<Endpoint, ConnectError> {
        let places = self.places.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut last: Option<ConnectError> = None;
        for (index, place) in places.iter().enumerate() {
            match self.ask(place).await {
                Ok(primary) => {
                    if index > 0 {
                        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
                        places.rotate_left(index);
                    }
                    return Ok(primary);
                }
                Err(error) => last = Some(error.or(last)),
            }
        }
        Err(last.unwrap_or_else(|| ConnectError::new(Failure::Connection, "there are no sentinels")))
    }

    async fn ask(&self, place: &Endpoint) -> Result<Endpoint, ConnectError> {
        let link = connect::open(place, &self.access, || {}).await?;
        let mut question = redis::cmd("SENTINEL");
        question.arg("GET-MASTER-ADDR-BY-NAME").arg(&self.name);
        let unknown = |why: String| ConnectError::new(Failure::Connection, format!("sentinel {place} {why}"));
        let answer = link.send(&question, Instant::now() + PATIENCE).await;
        match answer.map_err(|_| unknown("does not answer".to_owned()))? {
            Value::Array(parts) => match parts.as_slice() {
                [Value::BulkString(host), Value::BulkString(port)] => {
                    let host = String::from_utf8_lossy(host).into_owned();
                    let port = std::str::from_utf8(port).ok().and_then(|port| port.parse().ok());
                    port.map(|port| Endpoint::Tcp { host, port }).ok_or_else(|| unknown("answers without a port".to_owned()))
                }
                _ => Err(unknown("answers with something else than an address".to_owned())),
            },
            Value::Nil => {
                let detail =
                    format!("sentinel {place} knows no primary called {}; `SENTINEL MASTERS` there lists them", self.name);
                Err(ConnectError::mistake(Failure::Connection, detail))
            }
            Value::ServerError(error) if error.details().unwrap_or_default().starts_with("unknown command") => {
                let detail = format!("{place} is no sentinel: name those, or write redis://{place} for one server");
                Err(ConnectError::mistake(Failure::Connection, detail))
            }
            Value::ServerError(error) if matches!(error.code(), "NOAUTH" | "NOPERM") => {
                let advice = "give a user and a password that may ask it: ?sentinel_user=NAME&sentinel_password_file=FILE";
                let detail = format!("sentinel {place} does not let us in ({}): {advice}", error.code());
                Err(ConnectError::mistake(Failure::Denied, detail))
            }
            Value::ServerError(error) => Err(unknown(format!("says: {}", error.code()))),
            _ => Err(unknown("answers with something else than an address".to_owned())),
        }
    }
}
