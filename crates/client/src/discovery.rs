//! Where replicas are: a name may stand for several, such as that of a headless service.

use std::fmt::Debug;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tonic::transport::{Channel, Endpoint};

use crate::error::Error;

/// A connection that takes longer is not coming: the next replica is asked.
const CONNECT_WITHIN: Duration = Duration::from_secs(2);
/// While a call is open and nothing was read for this long, the replica is pinged.
const PING_EVERY: Duration = Duration::from_secs(2);
/// A ping that is not answered in this time breaks the connection: one that vanished is left within four seconds.
const PONG_WITHIN: Duration = Duration::from_millis(1_500);

/// The replicas that were found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Scopes are spread over these; a replica has the same name in every client.
    pub replicas: Vec<String>,
    /// Asked only when none of `replicas` answers.
    pub spares: Vec<String>,
}

/// Finds replicas and connects to them: for a transport or a registry of one's own (TLS, a mesh). Addresses given to
/// [`Builder::addr`](crate::Builder::addr) are looked up by the system's resolver.
pub trait Discovery: Debug + Send + Sync + 'static {
    /// The replicas that are there now. Called at first, about twice a minute, and at once after one failed. While it fails or
    /// finds none, those found before stay; the error is a sentence for a person.
    fn find(&self) -> Pin<Box<dyn Future<Output = Result<Found, String>> + Send + '_>>;

    /// A connection to one of them, that is made when it is first used and again whenever it breaks.
    fn connect(&self, replica: &str) -> Channel;
}

/// The addresses given to a builder.
#[derive(Debug)]
pub(crate) struct Dns {
    hosts: Vec<Host>,
}

#[derive(Debug)]
struct Host {
    /// `name:port`, as the resolver takes it.
    authority: String,
    /// What it meant last time: a resolver that fails does not make replicas vanish.
    last: Mutex<Vec<SocketAddr>>,
}

impl Dns {
    /// Checks addresses; the first that cannot be used is the error.
    pub(crate) fn new(addrs: &[String]) -> Result<Self, Error> {
        let host = |addr: &String| Ok(Host { authority: authority(addr)?, last: Mutex::default() });
        Ok(Self { hosts: addrs.iter().map(host).collect::<Result<_, Error>>()? })
    }

    /// Whether a look-up can change anything: numbers mean the same for ever.
    pub(crate) fn has_names(&self) -> bool {
        self.hosts.iter().any(|host| host.authority.parse::<SocketAddr>().is_err())
    }

    /// What is known without asking anybody.
    pub(crate) fn numbers(&self) -> Found {
        let numbers = self.hosts.iter().filter_map(|host| host.authority.parse::<SocketAddr>().ok());
        Found { replicas: numbers.map(|addr| addr.to_string()).collect(), spares: Vec::new() }
    }

    async fn look_up(&self) -> Result<Found, String> {
        let (mut found, mut problem) = (Found::default(), None);
        for host in &self.hosts {
            match tokio::net::lookup_host(&host.authority).await {
                Ok(addrs) => {
                    let addrs: Vec<SocketAddr> = addrs.collect();
                    if !addrs.is_empty() {
                        *host.last.lock().unwrap_or_else(PoisonError::into_inner) = addrs;
                    }
                }
                Err(error) => problem = Some(format!("{} cannot be looked up: {error}", host.authority)),
            }
            let last = host.last.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let of_host = by_family(&last);
            found.replicas.extend(of_host.replicas);
            found.spares.extend(of_host.spares);
        }
        match problem {
            Some(problem) if found.replicas.is_empty() => Err(problem),
            _ => Ok(found),
        }
    }
}

impl Discovery for Dns {
    fn find(&self) -> Pin<Box<dyn Future<Output = Result<Found, String>> + Send + '_>> {
        Box::pin(self.look_up())
    }

    fn connect(&self, replica: &str) -> Channel {
        // Only names that came from `by_family` or `numbers` get here; should one not parse, connecting to it fails and says so.
        let endpoint = Endpoint::from_shared(format!("http://{replica}"));
        let endpoint = endpoint.unwrap_or_else(|_| Endpoint::from_static("http://0.0.0.0:0"));
        endpoint
            .connect_timeout(CONNECT_WITHIN)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PONG_WITHIN)
            .keep_alive_while_idle(false)
            .connect_lazy()
    }
}

/// A replica with addresses of two families is one replica: those of IPv4 count, the others are spares (`localhost` where only
/// `[::1]` listens).
fn by_family(addrs: &[SocketAddr]) -> Found {
    let (four, six): (Vec<&SocketAddr>, Vec<&SocketAddr>) = addrs.iter().partition(|addr| addr.is_ipv4());
    let names = |addrs: Vec<&SocketAddr>| addrs.into_iter().map(ToString::to_string).collect();
    if four.is_empty() {
        return Found { replicas: names(six), spares: Vec::new() };
    }
    Found { replicas: names(four), spares: names(six) }
}

/// Host and port of `http://host:port` or `host:port`.
fn authority(addr: &str) -> Result<String, Error> {
    let uri = if addr.contains("://") { addr.to_owned() } else { format!("http://{addr}") };
    let refuse = |problem: String| Error::Address { addr: addr.to_owned(), problem };
    if !uri.starts_with("http://") {
        let problem = "this client speaks plain HTTP/2; make the TLS connection yourself and give it to Builder::channel, or \
                       to Builder::discovery where a name stands for several replicas";
        return Err(refuse(problem.to_owned()));
    }
    let endpoint = Endpoint::from_shared(uri).map_err(|error| refuse(error.to_string()))?;
    let uri = endpoint.uri();
    match (uri.host(), uri.port()) {
        (Some(host), Some(port)) => Ok(format!("{host}:{port}")),
        (Some(_), None) => Err(refuse("it has no port".to_owned())),
        (None, _) => Err(refuse("it has no host".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addr(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn numbers_need_no_look_up() {
        let dns = Dns::new(&["http://10.0.0.1:7070".into(), "[::1]:7070".into(), "paceline:7070".into()]).unwrap();
        assert!(dns.has_names());
        assert_eq!(dns.numbers().replicas, ["10.0.0.1:7070", "[::1]:7070"]);
        assert!(!Dns::new(&["10.0.0.1:7070".into()]).unwrap().has_names());
    }

    #[test]
    fn a_replica_with_two_families_counts_once() {
        let found = by_family(&[addr("[fd00::1]:7070"), addr("10.0.0.1:7070"), addr("10.0.0.2:7070"), addr("[fd00::2]:7070")]);
        assert_eq!(found.replicas, ["10.0.0.1:7070", "10.0.0.2:7070"]);
        assert_eq!(found.spares, ["[fd00::1]:7070", "[fd00::2]:7070"]);
        assert_eq!(by_family(&[addr("[fd00::1]:7070")]).replicas, ["[fd00::1]:7070"]);
    }

    #[tokio::test]
    async fn a_name_that_means_nothing_is_told_and_does_not_hide_the_others() {
        let dns = Dns::new(&["paceline.invalid:7070".into()]).unwrap();
        let problem = dns.look_up().await.unwrap_err();
        assert!(problem.contains("paceline.invalid:7070 cannot be looked up"), "{problem}");
        let dns = Dns::new(&["paceline.invalid:7070".into(), "127.0.0.1:7070".into()]).unwrap();
        assert_eq!(dns.look_up().await.unwrap().replicas, ["127.0.0.1:7070"]);
    }

    #[tokio::test]
    async fn a_resolver_that_fails_does_not_make_replicas_vanish() {
        let dns = Dns::new(&["paceline.invalid:7070".into()]).unwrap();
        *dns.hosts[0].last.lock().unwrap() = vec![addr("10.0.0.1:7070")];
        assert_eq!(dns.look_up().await.unwrap().replicas, ["10.0.0.1:7070"]);
    }
}
