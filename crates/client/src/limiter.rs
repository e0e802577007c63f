//! The limiter: one per process, shared by all its calls.

use std::sync::Arc;
use std::time::Duration;

use paceline_proto::v1::Priority;
use tokio::runtime::Handle;
use tonic::transport::{Channel, Endpoint};

use crate::ask::{Ask, Asked, Defaults};
use crate::error::Error;
use crate::peers::Peers;
use crate::slot::Slot;
use crate::waiting;

/// Where a service is looked for when nobody says.
const DEFAULT_ADDR: &str = "http://127.0.0.1:7070";
/// How long a client goes on trying when no replica answers: longer than a restart takes.
const PATIENCE: Duration = Duration::from_secs(30);
const CONNECT_WITHIN: Duration = Duration::from_secs(3);
/// A replica that vanished without closing its connections is found out within these two.
const PING_EVERY: Duration = Duration::from_secs(10);
const PONG_WITHIN: Duration = Duration::from_secs(5);

/// Asks the service for slots. Clones share connections.
#[derive(Clone, Debug)]
pub struct Limiter {
    pub(crate) shared: Arc<Shared>,
}

/// What all calls of a limiter share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) peers: Peers,
    pub(crate) defaults: Defaults,
    /// Nobody is asked.
    pub(crate) is_off: bool,
    /// For what a guard does after it was dropped, on whatever thread that happens.
    pub(crate) runtime: Handle,
}

impl Limiter {
    /// A limiter is made by its builder.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// A limiter from the environment: `PACELINE_ADDR` (several with commas; 127.0.0.1:7070 when not set),
    /// `PACELINE_ACCOUNT`, `PACELINE_TENANT`, and `PACELINE_MODE`: `off` asks nobody (see [`Builder::off`]).
    ///
    /// # Errors
    /// [`Error::Address`], [`Error::NoRuntime`] and [`Error::Mode`].
    pub fn from_env() -> Result<Self, Error> {
        let variable = |name| std::env::var(name).unwrap_or_default();
        let addrs = variable("PACELINE_ADDR");
        let addrs = addrs.split(',').map(str::trim).filter(|addr| !addr.is_empty());
        let builder = Self::builder().addrs(addrs).account(variable("PACELINE_ACCOUNT")).tenant(variable("PACELINE_TENANT"));
        builder.off(is_off(&variable("PACELINE_MODE"))?).build()
    }

    /// Waits for a slot and returns when the call may be sent: never before. Dropping the future gives the place back.
    ///
    /// # Errors
    /// [`Error::Denied`] when the service decides that the call is not to be sent; the others say what is wrong.
    pub async fn acquire(&self, ask: Ask) -> Result<Slot, Error> {
        let asked = ask.start(&self.shared.defaults);
        self.slot(asked).await
    }

    pub(crate) async fn slot(&self, asked: Asked) -> Result<Slot, Error> {
        waiting::for_slot(&self.shared, asked, None).await
    }
}

/// Makes a [`Limiter`].
#[derive(Debug)]
pub struct Builder {
    addrs: Vec<String>,
    channels: Vec<(String, Channel)>,
    defaults: Defaults,
    is_off: bool,
    patience: Duration,
}

impl Default for Builder {
    fn default() -> Self {
        Self { addrs: Vec::new(), channels: Vec::new(), defaults: Defaults::default(), is_off: false, patience: PATIENCE }
    }
}

impl Builder {
    /// The address of a replica: `http://host:port`, or only `host:port`. Several may be given; 127.0.0.1:7070 when none is.
    pub fn addr(mut self, addr: impl Into<String>) -> Self {
        self.addrs.push(addr.into());
        self
    }

    /// The addresses of several replicas: when one does not answer, the next is asked.
    pub fn addrs<A: Into<String>>(mut self, addrs: impl IntoIterator<Item = A>) -> Self {
        self.addrs.extend(addrs.into_iter().map(Into::into));
        self
    }

    /// A connection made by the caller (its own TLS, its own transport), called `name` in errors.
    pub fn channel(mut self, name: impl Into<String>, channel: Channel) -> Self {
        self.channels.push((name.into(), channel));
        self
    }

    /// The account of asks that name none.
    pub fn account(mut self, account: impl Into<String>) -> Self {
        self.defaults.account = account.into();
        self
    }

    /// The tenant of asks that name none.
    pub fn tenant(mut self, tenant: impl Into<String>) -> Self {
        self.defaults.tenant = tenant.into();
        self
    }

    /// The priority of asks that name none.
    pub fn priority(mut self, priority: Priority) -> Self {
        self.defaults.priority = priority;
        self
    }

    /// How long the service may hold one RPC before it answers with a place in line; the service's 10 s by default. Shorter
    /// only where something between drops long RPCs.
    pub fn hold(mut self, hold: Duration) -> Self {
        self.defaults.hold = Some(hold);
        self
    }

    /// Ask nobody: every slot is there at once, nothing is reported, and calls that the provider refuses are sent again as an
    /// SDK would. The switch for a worker that is to go on without the service.
    pub fn off(mut self, is_off: bool) -> Self {
        self.is_off = is_off;
        self
    }

    /// How long to go on trying when no replica answers; 30 s by default.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Makes the limiter. It connects with the first call.
    ///
    /// # Errors
    /// [`Error::Address`] when an address cannot be used, [`Error::NoRuntime`] outside of a tokio runtime.
    pub fn build(self) -> Result<Limiter, Error> {
        let runtime = Handle::try_current().map_err(|_| Error::NoRuntime)?;
        let mut peers = self.channels;
        for addr in &self.addrs {
            peers.push((addr.clone(), connect(addr)?));
        }
        if peers.is_empty() {
            peers.push((DEFAULT_ADDR.to_owned(), connect(DEFAULT_ADDR)?));
        }
        let shared = Shared { peers: Peers::new(peers, self.patience), defaults: self.defaults, is_off: self.is_off, runtime };
        Ok(Limiter { shared: Arc::new(shared) })
    }
}

/// Reads `PACELINE_MODE`. Whether calls wait or are only watched is the service's decision, not a worker's.
fn is_off(mode: &str) -> Result<bool, Error> {
    match mode.trim() {
        "" | "enforce" => Ok(false),
        "off" => Ok(true),
        other => Err(Error::Mode { mode: other.to_owned() }),
    }
}

/// A connection that is made when it is first used, and again whenever it breaks.
fn connect(addr: &str) -> Result<Channel, Error> {
    let uri = if addr.contains("://") { addr.to_owned() } else { format!("http://{addr}") };
    let refuse = |problem: String| Error::Address { addr: addr.to_owned(), problem };
    if !uri.starts_with("http://") {
        let problem = "this client speaks plain HTTP/2; make the TLS connection yourself and give it to Builder::channel";
        return Err(refuse(problem.to_owned()));
    }
    let endpoint = Endpoint::from_shared(uri).map_err(|error| refuse(error.to_string()))?;
    if endpoint.uri().port().is_none() {
        return Err(refuse("it has no port".to_owned()));
    }
    let endpoint = endpoint
        .connect_timeout(CONNECT_WITHIN)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PONG_WITHIN)
        .keep_alive_while_idle(true);
    Ok(endpoint.connect_lazy())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn addresses_that_cannot_be_used_are_told_apart() {
        for addr in ["127.0.0.1:7070", "http://127.0.0.1:7070", "paceline.svc:7070", "http://[::1]:7070"] {
            assert!(Limiter::builder().addr(addr).build().is_ok(), "{addr}");
        }
        for (addr, says) in [
            ("https://paceline:7070", "Builder::channel"),
            ("http://paceline", "no port"),
            ("", "cannot be used"),
            ("a b:7070", "cannot be used"),
        ] {
            let error = Limiter::builder().addr(addr).build().unwrap_err().to_string();
            assert!(error.contains(says), "{addr:?}: {error}");
        }
    }

    #[test]
    fn a_mode_is_off_or_the_services_business() {
        assert!(is_off("off").unwrap() && is_off(" off ").unwrap());
        assert!(!is_off("").unwrap() && !is_off("enforce").unwrap());
        let error = is_off("shadow").unwrap_err().to_string();
        assert!(error.contains("`shadow`") && error.contains("configuration"), "{error}");
    }

    #[test]
    fn outside_of_a_runtime_the_error_says_what_to_do() {
        let error = Limiter::builder().build().unwrap_err();
        assert!(error.to_string().contains("inside a tokio runtime"), "{error}");
    }
}
