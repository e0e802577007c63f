//! The limiter: one per process, shared by all its calls.

use std::sync::Arc;
use std::time::Duration;

use paceline_proto::v1::{Mode, Priority};
use tokio::runtime::Handle;
use tonic::transport::Channel;

use crate::ask::{Ask, Asked, Defaults};
use crate::discovery::{Discovery, Dns};
use crate::error::Error;
use crate::fleet::Fleet;
use crate::peers::Peers;
use crate::slot::Slot;
use crate::solo::Solo;
use crate::stats::Stats;
use crate::waiting;

/// Where a service is looked for when nobody says.
const DEFAULT_ADDR: &str = "http://127.0.0.1:7070";
/// How long a client goes on trying when no replica answers: longer than a restart takes.
const PATIENCE: Duration = Duration::from_secs(30);

/// The same where calls do not wait for the answer: what was not said by then is not worth keeping.
const PATIENCE_BESIDE_CALLS: Duration = Duration::from_secs(2);

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
    /// For when nobody answers.
    pub(crate) solo: Solo,
    /// Whether calls go on then.
    pub(crate) goes_on: bool,
    /// What the worker makes of the service: `Off` asks nobody, `Shadow` asks beside the call.
    pub(crate) mode: Mode,
    /// For what a guard does after it was dropped, on whatever thread that happens.
    pub(crate) runtime: Handle,
}

impl Limiter {
    /// A limiter is made by its builder.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// A limiter from the environment: `PACELINE_ADDR` (several with commas; 127.0.0.1:7070 when not set),
    /// `PACELINE_ACCOUNT`, `PACELINE_TENANT`, and `PACELINE_MODE`: `enforce`, `shadow` or `off` (see [`Builder::mode`]).
    ///
    /// # Errors
    /// [`Error::Address`], [`Error::NoRuntime`] and [`Error::Mode`].
    pub fn from_env() -> Result<Self, Error> {
        let variable = |name| std::env::var(name).unwrap_or_default();
        let addrs = variable("PACELINE_ADDR");
        let addrs = addrs.split(',').map(str::trim).filter(|addr| !addr.is_empty());
        let builder = Self::builder().addrs(addrs).account(variable("PACELINE_ACCOUNT")).tenant(variable("PACELINE_TENANT"));
        builder.mode(mode_of(&variable("PACELINE_MODE"))?).build()
    }

    /// Waits for a slot and returns when the call may be sent: never before. Dropping the future gives the place back.
    ///
    /// # Errors
    /// [`Error::Denied`] when the service decides that the call is not to be sent; the others say what is wrong.
    pub async fn acquire(&self, ask: Ask) -> Result<Slot, Error> {
        let asked = ask.start(&self.shared.defaults);
        self.slot(asked).await
    }

    /// What this limiter did so far, for the worker's own metrics.
    pub fn stats(&self) -> Stats {
        self.shared.peers.stats()
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
    discovery: Option<Arc<dyn Discovery>>,
    defaults: Defaults,
    goes_on: bool,
    mode: Mode,
    patience: Duration,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            addrs: Vec::new(),
            channels: Vec::new(),
            discovery: None,
            defaults: Defaults::default(),
            goes_on: true,
            mode: Mode::Enforce,
            patience: PATIENCE,
        }
    }
}

impl Builder {
    /// An address of the service: `http://host:port`, or only `host:port`; 127.0.0.1:7070 when none is given. A name may stand for
    /// several replicas, as that of a headless service does: it is looked up again about twice a minute, and when one fails.
    /// Calls of one provider and account go to the same replica from every client, and to the next one when it does not answer.
    pub fn addr(mut self, addr: impl Into<String>) -> Self {
        self.addrs.push(addr.into());
        self
    }

    /// Several addresses, each as in [`Builder::addr`].
    pub fn addrs<A: Into<String>>(mut self, addrs: impl IntoIterator<Item = A>) -> Self {
        self.addrs.extend(addrs.into_iter().map(Into::into));
        self
    }

    /// A connection made by the caller (its own TLS, its own transport), called `name` in errors. Each is taken for one replica,
    /// and every client should call it the same. Pings (`http2_keep_alive_interval`, `keep_alive_timeout`) are the caller's: with
    /// 2 s and 1.5 s a replica that vanished is left within four.
    pub fn channel(mut self, name: impl Into<String>, channel: Channel) -> Self {
        self.channels.push((name.into(), channel));
        self
    }

    /// Finds and connects replicas in a way of the caller's, instead of [`Builder::addr`].
    pub fn discovery(mut self, discovery: impl Discovery) -> Self {
        self.discovery = Some(Arc::new(discovery));
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

    /// What this worker makes of the service; the switch for trying it out, and for going on without it.
    ///
    /// * `Enforce` (and `Unspecified`): calls wait until the service lets them go.
    /// * `Shadow`: every slot is there at once and the ask goes *beside* the call, so that nothing waits for the service and nobody
    ///   notices when it is not there; what the provider says is reported as far as the service has a lease for the call by then.
    ///   To be used together with the service's own shadow mode: one that enforces lets a call that is sent already wait in line.
    /// * `Off`: nobody is asked, nothing is reported.
    ///
    /// In the last two, calls that the provider refuses are sent again as an SDK would.
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// [`Builder::mode`] with `Off`, or `Enforce` for `false`.
    pub fn off(self, is_off: bool) -> Self {
        self.mode(if is_off { Mode::Off } else { Mode::Enforce })
    }

    /// Whether calls go on when no replica has answered for as long as the client is patient; they do by default: at the pace of the
    /// client's recent share, halved each minute, then after five minutes unpaced, as without Paceline. With `false` they end in
    /// [`Error::Unreachable`].
    pub fn go_on_without_service(mut self, goes_on: bool) -> Self {
        self.goes_on = goes_on;
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
        let mut addrs = self.addrs;
        if addrs.is_empty() && self.channels.is_empty() && self.discovery.is_none() {
            addrs.push(DEFAULT_ADDR.to_owned());
        }
        let dns = Dns::new(&addrs)?;
        let (beforehand, has_names) = (dns.numbers(), dns.has_names());
        let is_found_elsewhere = self.discovery.is_some();
        let discovery = self.discovery.or_else(|| (!addrs.is_empty()).then(|| Arc::new(dns) as Arc<dyn Discovery>));
        let fleet = Fleet::start(self.channels, &beforehand, discovery, addrs.join(", "), runtime.clone());
        if (has_names || is_found_elsewhere) && self.mode != Mode::Off {
            fleet.keep_finding();
        }
        let is_watched = self.mode == Mode::Shadow;
        let patience = if is_watched { self.patience.min(PATIENCE_BESIDE_CALLS) } else { self.patience };
        let shared = Shared {
            peers: Peers::new(fleet, patience),
            defaults: self.defaults,
            solo: Solo::default(),
            goes_on: self.goes_on,
            mode: self.mode,
            runtime,
        };
        Ok(Limiter { shared: Arc::new(shared) })
    }
}

/// Reads `PACELINE_MODE`.
fn mode_of(mode: &str) -> Result<Mode, Error> {
    match mode.trim() {
        "" | "enforce" => Ok(Mode::Enforce),
        "shadow" => Ok(Mode::Shadow),
        "off" => Ok(Mode::Off),
        other => Err(Error::Mode { mode: other.to_owned() }),
    }
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
    fn a_mode_is_one_of_three() {
        for (text, mode) in [("", Mode::Enforce), ("enforce", Mode::Enforce), (" shadow ", Mode::Shadow), ("off", Mode::Off)] {
            assert_eq!(mode_of(text).unwrap(), mode, "{text:?}");
        }
        let error = mode_of("on").unwrap_err().to_string();
        assert!(error.contains("`on`") && error.contains("`shadow`"), "{error}");
    }

    #[test]
    fn outside_of_a_runtime_the_error_says_what_to_do() {
        let error = Limiter::builder().build().unwrap_err();
        assert!(error.to_string().contains("inside a tokio runtime"), "{error}");
    }
}
