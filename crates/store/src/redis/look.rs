//! A first look at a server, before anybody depends on it: a mistake that waiting does not mend is told at once, with what to do.
//!
//! Everything is tried that the service does later: the way there, the password, each script on keys of its own. What is
//! answered with an error that will stay, is a mistake. No answer, or one that may change by itself (loading, no primary yet),
//! is a server that is away, and worth waiting for.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use paceline_core::units::{FleetTime, Span};
use redis::Value;
use rustls::RootCertStore;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;

use super::calls::Request;
use super::cluster;
use super::connect::{self, Access, ConnectError, Role};
use super::endpoint::Endpoint;
use super::errors::{self, Said};
use super::inspect::Settings;
use super::keys::Keys;
use super::link::Link;
use super::meta::MetaRequest;
use super::routes::Route;
use super::script::{By, CommitRequest, LoadRequest};
use super::sentinel::Sentinels;
use super::url::{RedisUrl, Way};
use super::{RedisStore, url};
use crate::codec::Header;
use crate::key::{RecordKey, ScopeKey};
use crate::observe::Failure;
use crate::register::{Commit, Expect, RecordWrite, Version};

/// No look takes longer; a server that takes longer is away.
const PATIENCE: Duration = Duration::from_secs(3);
/// What a stranger gets to answer a word of the protocol.
const STRANGER: Duration = Duration::from_millis(300);
/// The first byte of an alert (RFC 8446, section 5.1): what a server with TLS says to plain text.
const TLS_ALERT: u8 = 21;
/// The time does not matter to what is tried.
const BEGINNING: FleetTime = FleetTime::ZERO;
/// Values looked for: a server of a cluster that has some of the slots sends us elsewhere for one of them.
const TRIES: usize = 16;

/// What was found at the address of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FirstLook {
    /// It answers, and takes what we send.
    Well,
    /// It does not answer, or not yet: why. It is worth waiting for.
    Away(String),
    /// It answers, and that will not change by waiting: what is wrong, where, and what to do. No secrets.
    Mistake(String),
}

impl RedisStore {
    /// Looks at the address of a store for the first time; takes three seconds at most. What it writes lies under keys of
    /// its own, and ends within minutes.
    pub async fn look(url: &RedisUrl) -> FirstLook {
        match timeout(PATIENCE, Looker::new(url).look()).await {
            Ok(Ok(())) => FirstLook::Well,
            Ok(Err(error)) if error.is_mistake => FirstLook::Mistake(error.detail),
            Ok(Err(error)) => FirstLook::Away(error.detail),
            Err(_) => FirstLook::Away(format!("no answer within {} s", PATIENCE.as_secs())),
        }
    }
}

struct Looker<'u> {
    url: &'u RedisUrl,
    access: Access,
    keys: Keys,
}

impl<'u> Looker<'u> {
    fn new(url: &'u RedisUrl) -> Self {
        Self { url, access: Access::of(url), keys: Keys::new(&url.prefix) }
    }

    async fn look(&self) -> Result<(), ConnectError> {
        if let Some(problem) = self.url.problems_of_files().into_iter().next() {
            return Err(ConnectError::mistake(Failure::Other, problem));
        }
        match &self.url.way {
            Way::Single(endpoint) => self.server(endpoint).await,
            Way::Sentinel { sentinels, name, user, password } => {
                let access = Access { user: user.clone(), password: password.clone(), ..self.access.clone() };
                let sentinels = Sentinels::new(sentinels.clone(), name.clone(), access);
                self.server(&sentinels.primary().await?).await
            }
            Way::Cluster(seeds) => self.cluster(seeds).await,
        }
    }

    /// One that has everything.
    async fn server(&self, endpoint: &Endpoint) -> Result<(), ConnectError> {
        let link = self.open(endpoint).await?;
        for _ in 0..TRIES {
            self.try_reading(&link, &any_scope()).await?;
        }
        self.try_writing(&link, &any_scope()).await?;
        self.try_meta(&link).await
    }

    /// Nodes of a cluster, until one says who has what.
    async fn cluster(&self, seeds: &[Endpoint]) -> Result<(), ConnectError> {
        let mut last: Option<ConnectError> = None;
        for seed in seeds {
            let asked = async {
                let link = self.open(seed).await?;
                cluster::slots(&link, self.access.timeout).await
            };
            match asked.await {
                Ok(ranges) => return self.nodes(&ranges).await,
                Err(error) => last = Some(error.or(last)),
            }
        }
        Err(last.unwrap_or_else(|| cluster::nowhere("no node of the cluster is named")))
    }

    async fn nodes(&self, ranges: &[(u16, u16, Endpoint)]) -> Result<(), ConnectError> {
        let owner = |slot: u16| {
            let range = ranges.iter().find(|(from, to, _)| (*from..=*to).contains(&slot));
            range.map(|(.., endpoint)| endpoint).ok_or_else(|| cluster::nowhere(format!("no node has slot {slot}")))
        };
        let scope = any_scope();
        let link = self.open(owner(Route::of(&scope).slot)?).await?;
        self.try_reading(&link, &scope).await?;
        self.try_writing(&link, &scope).await?;
        let link = self.open(owner(Route::of_key(&self.keys.meta()).slot)?).await?;
        self.try_meta(&link).await
    }

    /// A connection to a server that takes writes and is young enough.
    async fn open(&self, endpoint: &Endpoint) -> Result<Arc<Link>, ConnectError> {
        let link = match connect::open(endpoint, &self.access, || {}).await {
            Ok(link) => Arc::new(link),
            Err(error) => return Err(self.stranger(endpoint, error).await),
        };
        if connect::role(&link, self.deadline()).await? == Role::Replica {
            let detail = format!("{endpoint} is a replica and takes no writes");
            return Err(ConnectError::new(Failure::ReadOnly, detail));
        }
        match Settings::read(&link).await.mistake() {
            Some(finding) => Err(ConnectError::mistake(Failure::Other, format!("{endpoint}: {finding}"))),
            None => Ok(link),
        }
    }

    async fn try_reading(&self, link: &Link, scope: &ScopeKey) -> Result<(), ConnectError> {
        self.attempt(link, &LoadRequest::new(&self.keys, scope, BEGINNING)).await
    }

    async fn try_writing(&self, link: &Link, scope: &ScopeKey) -> Result<(), ConnectError> {
        let now = BEGINNING;
        let version = Version::NONE.next(now);
        let (name, life) = (RecordKey::of([b"first look".as_slice()]), now + Span::from_secs(1));
        let record = RecordWrite { key: name, value: Bytes::from_static(b"?"), keep_until: life, must_be: Expect::Absent };
        let value = Bytes::copy_from_slice(&Header::new(1, version, 1).to_bytes());
        let commit = Commit { expected: Version::NONE, value, keep_until: life, records: vec![record] };
        self.attempt(link, &CommitRequest::new(&self.keys, scope, commit, version, now)).await
    }

    async fn try_meta(&self, link: &Link) -> Result<(), ConnectError> {
        self.attempt(link, &MetaRequest::new(self.keys.meta())).await
    }

    /// In full, and by the name it has from then on.
    async fn attempt(&self, link: &Link, request: &impl Request) -> Result<(), ConnectError> {
        for by in [By::Source, By::Hash] {
            let answer = link
                .send(&request.command(by), self.deadline())
                .await
                .map_err(|_| ConnectError::new(Failure::Timeout, format!("{} does not answer", link.endpoint())))?;
            if let Value::ServerError(error) = answer {
                self.judge(link.endpoint(), &error)?;
            }
        }
        Ok(())
    }

    fn judge(&self, endpoint: &Endpoint, error: &redis::ServerError) -> Result<(), ConnectError> {
        let told = errors::unavailable(error).to_string();
        let is_cluster = matches!(self.url.way, Way::Cluster(_));
        let said = match errors::said(error) {
            // What is there instead is taken away later; a flush in between is none of our business.
            Said::WrongType | Said::NoScript => return Ok(()),
            Said::Moved(_) | Said::Ask(_) if is_cluster => return Ok(()),
            Said::Moved(_) | Said::Ask(_) => {
                let detail = format!("{endpoint} belongs to a cluster: write redis+cluster:// and some of its nodes");
                return Err(ConnectError::mistake(Failure::ClusterDown, detail));
            }
            said => said,
        };
        let is_unknown = error.code() == "ERR" && told.to_lowercase().contains("unknown");
        match said {
            Said::Not { failure: Failure::Denied, .. } => {
                Err(ConnectError::mistake(Failure::Denied, format!("{endpoint} lacks a right of ours: {told}")))
            }
            Said::Not { failure, .. } if is_unknown => {
                Err(ConnectError::mistake(failure, format!("{endpoint} lacks a command that is needed: {told}")))
            }
            Said::Not { failure, .. } => Err(ConnectError::new(failure, format!("{endpoint}: {told}"))),
            _ => Ok(()),
        }
    }

    /// Who answers, and not as it should: with TLS or without it, or not the protocol at all.
    async fn stranger(&self, endpoint: &Endpoint, error: ConnectError) -> ConnectError {
        let Endpoint::Tcp { host, port } = endpoint else { return error };
        if error.is_mistake || matches!(error.failure, Failure::Loading | Failure::Denied) {
            return error;
        }
        let first = timeout(STRANGER, first_word(host, *port)).await.unwrap_or_default();
        let mistake = |what: String| ConnectError::mistake(Failure::Protocol, format!("{endpoint} {what}"));
        match (first.first(), self.access.tls.is_some()) {
            (Some(b'+' | b'-'), true) => mistake("answers without TLS: write redis for rediss in the address".to_owned()),
            (Some(b'+' | b'-'), false) => error,
            (Some(word), _) if word.is_ascii_alphabetic() => {
                let word: String = first.iter().map(|byte| char::from(*byte)).take_while(char::is_ascii_graphic).collect();
                mistake(format!("is no Redis: to PING it says `{word}`; is that the right port?"))
            }
            // Neither an answer of Redis nor an alert of TLS: HTTP/2, for one, begins with a zero.
            (Some(byte), _) if !matches!(*byte, b'$' | b':' | b'*' | TLS_ALERT) => {
                mistake("is no Redis: to PING it answers in another protocol; is that the right port?".to_owned())
            }
            (_, false) if timeout(STRANGER, speaks_tls(host, *port)).await.unwrap_or(false) => {
                mistake("answers with TLS only: write rediss for redis in the address".to_owned())
            }
            _ => error,
        }
    }

    fn deadline(&self) -> Instant {
        Instant::now() + self.access.timeout
    }
}

impl RedisUrl {
    /// What is wrong with the files that it names: that one cannot be read, or holds something else. In sentences, without what is in
    /// them.
    pub fn problems_of_files(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let mut passwords = vec![&self.password];
        if let Way::Sentinel { password, .. } = &self.way {
            passwords.push(password);
        }
        let files = passwords.into_iter().filter(|password| matches!(password, url::Password::File(_)));
        problems.extend(files.filter_map(|file| connect::password(file).err()).map(|error| error.detail));
        problems.extend(self.tls.as_ref().and_then(|files| connect::tls(files).err()).map(|error| error.detail));
        problems
    }
}

/// A scope that nobody has.
fn any_scope() -> ScopeKey {
    ScopeKey::new("first look", &format!("{:032x}", rand::random::<u128>()))
}

/// What whoever listens says to PING in plain text; empty: nothing.
async fn first_word(host: &str, port: u16) -> Vec<u8> {
    let mut word = vec![0; 16];
    let heard = async {
        let mut stream = TcpStream::connect((host, port)).await.ok()?;
        stream.write_all(b"PING\r\n").await.ok()?;
        stream.read(&mut word).await.ok()
    };
    let length = heard.await.unwrap_or(0);
    word.truncate(length);
    word
}

/// Whether whoever listens begins TLS; whom it is, is not asked.
async fn speaks_tls(host: &str, port: u16) -> bool {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let Ok(versions) = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions() else {
        return false;
    };
    let config = versions.with_root_certificates(RootCertStore::empty()).with_no_client_auth();
    let Ok(name) = ServerName::try_from(host.to_owned()) else { return false };
    let Ok(stream) = TcpStream::connect((host, port)).await else { return false };
    match TlsConnector::from(Arc::new(config)).connect(name, stream).await {
        Ok(_) => true,
        Err(error) => connect::is_distrust(&error),
    }
}
