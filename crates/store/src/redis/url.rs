//! The address of a store: where the servers are, how to get in, and what is set beside.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use super::endpoint::Endpoint;
use super::secret::Secret;

const DEFAULT_PORT: u16 = 6379;
const DEFAULT_SENTINEL_PORT: u16 = 26_379;
const DEFAULT_PREFIX: &str = "paceline";
const DEFAULT_TIMEOUT: Duration = Duration::from_millis(200);
const DEFAULT_CONNECTIONS: usize = 2;

/// What may stand behind the question mark.
const PARAMETERS: [&str; 12] = [
    "ca",
    "cert",
    "connections",
    "db",
    "key",
    "password_file",
    "prefix",
    "sentinel_password_file",
    "sentinel_user",
    "timeout_ms",
    "tls",
    "user",
];

/// The address of a Redis or Valkey store. Prints without its passwords.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisUrl {
    pub(super) way: Way,
    pub(super) user: Option<String>,
    pub(super) password: Password,
    pub(super) db: i64,
    pub(super) tls: Option<TlsFiles>,
    pub(super) prefix: String,
    pub(super) timeout: Duration,
    pub(super) connections: usize,
}

/// How to get to the server that has a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// It is this one.
    Single(Endpoint),
    /// The nodes of a cluster know; some of them.
    Cluster(Vec<Endpoint>),
    /// Sentinels know which one is the primary.
    Sentinel {
        /// Some of them.
        sentinels: Vec<Endpoint>,
        /// What they call it.
        name: String,
        /// A user of theirs.
        user: Option<String>,
        /// A password of theirs.
        password: Password,
    },
}

/// Where a password comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Password {
    /// There is none.
    #[default]
    None,
    /// It stands in the address.
    Given(Secret),
    /// It is the first line of a file, read anew with each connection: it may change.
    File(PathBuf),
}

/// How to know the server, and how it knows us.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TlsFiles {
    /// Who signs the server's certificate; `None`: whom the system trusts.
    pub(super) ca: Option<PathBuf>,
    /// Our certificate.
    pub(super) cert: Option<PathBuf>,
    /// Its key.
    pub(super) key: Option<PathBuf>,
}

/// Why an address is none. Messages show no passwords.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an address of a store: {problem}")]
pub struct UrlError {
    problem: String,
}

fn wrong<T>(problem: impl Into<String>) -> Result<T, UrlError> {
    Err(UrlError { problem: problem.into() })
}

impl FromStr for RedisUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        let Some((scheme, rest)) = text.split_once("://") else {
            return wrong("it has no `://`; write redis://HOST:PORT, or memory");
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut query = Query::read(query)?;
        let mut url = match scheme {
            "redis" | "rediss" => single(rest)?,
            "unix" | "redis+unix" => unix(rest)?,
            "redis+cluster" | "rediss+cluster" => cluster(rest)?,
            "redis+sentinel" | "rediss+sentinel" => sentinel(rest, &mut query)?,
            "valkey" | "valkeys" => return wrong(format!("write redis instead of {scheme}: Valkey speaks the same")),
            _ => {
                return wrong(
                    "it begins with none of redis://, rediss://, unix://, redis+cluster://, rediss+cluster://, \
                     redis+sentinel://, rediss+sentinel://",
                );
            }
        };
        url.tls = scheme.starts_with("rediss").then(TlsFiles::default);
        url.apply(&mut query)?;
        match query.0.first() {
            Some((name, _)) => wrong(format!("{name} is for redis+sentinel://")),
            None => Ok(url),
        }
    }
}

impl RedisUrl {
    fn new(way: Way) -> Self {
        Self {
            way,
            user: None,
            password: Password::None,
            db: 0,
            tls: None,
            prefix: DEFAULT_PREFIX.to_owned(),
            timeout: DEFAULT_TIMEOUT,
            connections: DEFAULT_CONNECTIONS,
        }
    }

    /// What stands behind the question mark.
    fn apply(&mut self, query: &mut Query) -> Result<(), UrlError> {
        if let Some(user) = query.take("user") {
            self.user = Some(user);
        }
        if let Some(file) = query.take("password_file") {
            if self.password != Password::None {
                return wrong("there is a password in it and a password_file too; keep the file");
            }
            self.password = Password::File(file.into());
        }
        if self.user.is_some() && self.password == Password::None {
            return wrong("there is a user without a password; add `:password` or `?password_file=FILE`");
        }
        if let Some(prefix) = query.take("prefix") {
            let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':');
            if prefix.is_empty() || prefix.len() > 64 || !prefix.chars().all(fine) {
                return wrong("prefix takes 1 to 64 letters, digits, and - _ . :");
            }
            self.prefix = prefix;
        }
        if let Some(millis) = query.number("timeout_ms", 1, 60_000)? {
            self.timeout = Duration::from_millis(millis);
        }
        if let Some(connections) = query.number("connections", 1, 64)? {
            self.connections = usize::try_from(connections).unwrap_or(DEFAULT_CONNECTIONS);
        }
        if let Some(db) = query.number("db", 0, 1_000_000)? {
            self.db = i64::try_from(db).unwrap_or(0);
        }
        if self.db != 0 && matches!(self.way, Way::Cluster(_)) {
            return wrong("a cluster has database 0 only; use ?prefix=NAME to keep several stacks apart");
        }
        self.apply_tls(query)
    }

    fn apply_tls(&mut self, query: &mut Query) -> Result<(), UrlError> {
        let mut file = |name| query.take(name).map(PathBuf::from);
        let files = TlsFiles { ca: file("ca"), cert: file("cert"), key: file("key") };
        if files.cert.is_some() != files.key.is_some() {
            return wrong("a client certificate needs both, cert and key");
        }
        match &mut self.tls {
            Some(tls) => *tls = files,
            None if files != TlsFiles::default() => return wrong("ca, cert and key are for TLS: write rediss:// for redis://"),
            None => {}
        }
        Ok(())
    }

    fn scheme(&self) -> &'static str {
        match (&self.way, self.tls.is_some()) {
            (Way::Single(Endpoint::Unix(_)), _) => "unix",
            (Way::Single(_), false) => "redis",
            (Way::Single(_), true) => "rediss",
            (Way::Cluster(_), false) => "redis+cluster",
            (Way::Cluster(_), true) => "rediss+cluster",
            (Way::Sentinel { .. }, false) => "redis+sentinel",
            (Way::Sentinel { .. }, true) => "rediss+sentinel",
        }
    }
}

impl fmt::Display for RedisUrl {
    /// Without user, password and files; enough to tell one store from another.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://", self.scheme())?;
        if self.user.is_some() || self.password != Password::None {
            f.write_str("***@")?;
        }
        match &self.way {
            Way::Single(endpoint) => write!(f, "{endpoint}")?,
            Way::Cluster(nodes) => f.write_str(&list(nodes))?,
            Way::Sentinel { sentinels, name, .. } => write!(f, "{}/{name}", list(sentinels))?,
        }
        if self.db != 0 {
            write!(f, "{}{}", if matches!(self.way, Way::Single(Endpoint::Tcp { .. })) { "/" } else { "?db=" }, self.db)?;
        }
        if self.prefix != DEFAULT_PREFIX {
            write!(f, "?prefix={}", self.prefix)?;
        }
        Ok(())
    }
}

impl fmt::Debug for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedisUrl({self})")
    }
}

fn list(endpoints: &[Endpoint]) -> String {
    endpoints.iter().map(Endpoint::to_string).collect::<Vec<_>>().join(",")
}

/// `[user:password@]host[:port][/db]`.
fn single(rest: &str) -> Result<RedisUrl, UrlError> {
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (user, password, hosts) = credentials(authority)?;
    if hosts.contains(',') {
        return wrong("several hosts are for redis+cluster:// and redis+sentinel://");
    }
    let mut url = RedisUrl::new(Way::Single(endpoint(hosts, DEFAULT_PORT)?));
    (url.user, url.password) = (user, password);
    if !path.is_empty() {
        let db = path.parse().ok().filter(|db| (0..=1_000_000).contains(db));
        url.db = db.map_or_else(|| wrong("behind the host stands the number of the database, such as /0"), Ok)?;
    }
    Ok(url)
}

/// `[user:password@]/path/to/socket`.
fn unix(rest: &str) -> Result<RedisUrl, UrlError> {
    let at = rest.find('/').map(|slash| rest.split_at(slash));
    let Some((authority, path)) = at else { return wrong("a socket is a full path: unix:///run/redis/redis.sock") };
    let (user, password, host) = match authority {
        "" => (None, Password::None, ""),
        _ => credentials(authority)?,
    };
    if !host.is_empty() {
        return wrong("a socket has no host: three slashes, unix:///run/redis/redis.sock");
    }
    let mut url = RedisUrl::new(Way::Single(Endpoint::Unix(Arc::new(decode(path)?.into()))));
    (url.user, url.password) = (user, password);
    Ok(url)
}

/// `[user:password@]host[:port],host[:port],...`.
fn cluster(rest: &str) -> Result<RedisUrl, UrlError> {
    let rest = rest.strip_suffix('/').or_else(|| rest.strip_suffix("/0")).unwrap_or(rest);
    let (user, password, hosts) = credentials(rest)?;
    if hosts.contains('/') {
        return wrong("a cluster has database 0 only; use ?prefix=NAME to keep several stacks apart");
    }
    let mut url = RedisUrl::new(Way::Cluster(endpoints(hosts, DEFAULT_PORT)?));
    (url.user, url.password) = (user, password);
    Ok(url)
}

/// `[user:password@]host[:port],.../name[/db]`; user and password are those of the server, not of the sentinels.
fn sentinel(rest: &str, query: &mut Query) -> Result<RedisUrl, UrlError> {
    let Some((authority, path)) = rest.split_once('/').filter(|(_, path)| !path.is_empty()) else {
        return wrong("behind the sentinels stands the name of the primary: redis+sentinel://a,b,c/mymaster");
    };
    let (name, db) = path.split_once('/').unwrap_or((path, "0"));
    let Ok(db) = db.parse() else { return wrong("behind the primary's name stands the number of the database, such as /0") };
    let (user, password, hosts) = credentials(authority)?;
    let sentinels = endpoints(hosts, DEFAULT_SENTINEL_PORT)?;
    let theirs = query.take("sentinel_password_file").map_or(Password::None, |file| Password::File(file.into()));
    let way = Way::Sentinel { sentinels, name: decode(name)?, user: query.take("sentinel_user"), password: theirs };
    let mut url = RedisUrl::new(way);
    (url.user, url.password, url.db) = (user, password, db);
    Ok(url)
}

/// Splits `user:password@` off.
fn credentials(authority: &str) -> Result<(Option<String>, Password, &str), UrlError> {
    let Some((credentials, hosts)) = authority.rsplit_once('@') else { return Ok((None, Password::None, authority)) };
    let (user, password) = credentials.split_once(':').unwrap_or((credentials, ""));
    let user = Some(decode(user)?).filter(|user| !user.is_empty());
    let password = match decode(password)? {
        password if password.is_empty() => Password::None,
        password => Password::Given(Secret::new(password)),
    };
    Ok((user, password, hosts))
}

fn endpoints(hosts: &str, default_port: u16) -> Result<Vec<Endpoint>, UrlError> {
    hosts.split(',').map(|host| endpoint(host, default_port)).collect()
}

/// `host`, `host:port`, `[::1]` or `[::1]:port`.
fn endpoint(text: &str, default_port: u16) -> Result<Endpoint, UrlError> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((host, port)) => (host, port.strip_prefix(':')),
            None => return wrong("an address in brackets needs both of them: [::1]:6379"),
        },
        None => match text.split_once(':') {
            Some((_, port)) if port.contains(':') => return wrong("an IPv6 address needs brackets: [::1]:6379"),
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    if host.is_empty() {
        return wrong("there is no host in it");
    }
    let port = match port {
        None => default_port,
        Some(port) => match port.parse() {
            Ok(port) if port > 0 => port,
            _ => return wrong("a port is a number from 1 to 65535; encode @ : / in passwords as %40 %3A %2F"),
        },
    };
    Ok(Endpoint::Tcp { host: host.to_owned(), port })
}

/// Reads `%40` and the like.
fn decode(text: &str) -> Result<String, UrlError> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
        let (Some(high), Some(low)) = (digit(bytes.next()), digit(bytes.next())) else {
            return wrong("a % stands before two hexadecimal digits; encode a % itself as %25");
        };
        out.push(u8::try_from(high * 16 + low).unwrap_or(0));
    }
    String::from_utf8(out).or_else(|_| wrong("what is encoded with % is not UTF-8"))
}

/// Names and values behind the question mark.
struct Query(Vec<(String, String)>);

impl Query {
    fn read(text: &str) -> Result<Self, UrlError> {
        let mut pairs: Vec<(String, String)> = Vec::new();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            if !PARAMETERS.contains(&name) {
                let known: Vec<&str> = PARAMETERS.into_iter().filter(|name| *name != "tls").collect();
                let shown: String = name.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_').take(24).collect();
                return wrong(format!("nothing is called `{shown}` there; there are {}", known.join(", ")));
            }
            if name == "tls" {
                return wrong("TLS is chosen by the scheme: rediss:// for redis://");
            }
            if value.is_empty() {
                return wrong(format!("{name} has no value"));
            }
            if pairs.iter().any(|(other, _)| other == name) {
                return wrong(format!("{name} is there twice"));
            }
            pairs.push((name.to_owned(), decode(value)?));
        }
        Ok(Self(pairs))
    }

    fn take(&mut self, name: &str) -> Option<String> {
        let at = self.0.iter().position(|(found, _)| found == name)?;
        Some(self.0.swap_remove(at).1)
    }

    fn number(&mut self, name: &str, least: u64, most: u64) -> Result<Option<u64>, UrlError> {
        let Some(text) = self.take(name) else { return Ok(None) };
        match text.parse() {
            Ok(number) if (least..=most).contains(&number) => Ok(Some(number)),
            _ => wrong(format!("{name} takes a whole number from {least} to {most}")),
        }
    }
}

#[cfg(test)]
#[path = "url_tests.rs"]
mod tests;
