//! Opens a connection: socket, TLS, password, and a look whether it leads to a server that takes writes.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ErrorKind, RedisConnectionInfo, RedisError, Value};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;

use super::endpoint::Endpoint;
use super::errors;
use super::link::Link;
use super::url::{Password, RedisUrl, TlsFiles};
use crate::observe::Failure;

/// A connection takes no longer than this to be set up, or as long as a request may take if that is more.
const LEAST_TIMEOUT: Duration = Duration::from_millis(500);
/// Requests that wait to be sent on one connection; who comes when they are as many waits in line.
const WAITING: usize = 256;

/// What to do where a password is wanted and there is none.
const NO_PASSWORD: &str = "it wants a password; give one as redis://:PASSWORD@host or ?password_file=FILE";

/// How to get in.
#[derive(Clone, Debug)]
pub(super) struct Access {
    pub(super) user: Option<String>,
    pub(super) password: Password,
    pub(super) db: i64,
    pub(super) tls: Option<TlsFiles>,
    pub(super) timeout: Duration,
}

impl Access {
    /// To the servers of a store.
    pub(super) fn of(url: &RedisUrl) -> Self {
        Self {
            user: url.user.clone(),
            password: url.password.clone(),
            db: url.db,
            tls: url.tls.clone(),
            timeout: url.timeout.max(LEAST_TIMEOUT),
        }
    }
}

/// What a server is, as it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// It takes writes.
    Primary,
    /// It copies another one.
    Replica,
    /// It does not say, or may not.
    Unknown,
}

/// Why there is no connection; shows no secrets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub(super) struct ConnectError {
    pub(super) failure: Failure,
    pub(super) detail: String,
    /// Whether somebody has to put something right: waiting does not help.
    pub(super) is_mistake: bool,
}

impl ConnectError {
    pub(super) fn new(failure: Failure, detail: impl Into<String>) -> Self {
        Self { failure, detail: one_line(detail.into()), is_mistake: false }
    }

    /// One that does not go by waiting.
    pub(super) fn mistake(failure: Failure, detail: impl Into<String>) -> Self {
        Self { failure, detail: one_line(detail.into()), is_mistake: true }
    }

    /// What to tell of two: what somebody can put right.
    pub(super) fn or(self, earlier: Option<Self>) -> Self {
        earlier.filter(|earlier| earlier.is_mistake && !self.is_mistake).unwrap_or(self)
    }

    fn io(endpoint: &Endpoint, error: &io::Error) -> Self {
        Self::new(Failure::Connection, format!("cannot connect to {endpoint}: {error}"))
    }
}

/// A text of which parts come from whoever listens there: it stands in a line of the log.
fn one_line(text: String) -> String {
    if !text.contains(char::is_control) {
        return text;
    }
    text.split(|c: char| c.is_control() || c == ' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Opens a connection; `on_end` is called when it ends by itself.
///
/// # Errors
/// Nobody listens there, the server is not who it should be, or does not let us in.
pub(super) async fn open(
    endpoint: &Endpoint,
    access: &Access,
    on_end: impl FnOnce() + Send + 'static,
) -> Result<Link, ConnectError> {
    match timeout(access.timeout, dial(endpoint, access, on_end)).await {
        Ok(opened) => opened,
        Err(_) => {
            let detail = format!("{endpoint} does not answer within {} ms", access.timeout.as_millis());
            Err(ConnectError::new(Failure::Timeout, detail))
        }
    }
}

/// Asks a server for its role.
///
/// # Errors
/// It does not answer, or is not ready.
pub(super) async fn role(link: &Link, deadline: Instant) -> Result<Role, ConnectError> {
    let answer = link.send(&redis::cmd("ROLE"), deadline).await;
    let answer = answer.map_err(|_| ConnectError::new(Failure::Timeout, format!("{} does not answer", link.endpoint())))?;
    match answer {
        Value::Array(parts) => Ok(match parts.first() {
            Some(Value::BulkString(role)) if role == b"master" => Role::Primary,
            Some(Value::BulkString(role)) if role == b"slave" => Role::Replica,
            Some(Value::BulkString(role)) if role == b"sentinel" => {
                let detail = format!(
                    "{0} is a sentinel: write redis+sentinel://{0}/NAME, with what it calls the primary",
                    link.endpoint()
                );
                return Err(ConnectError::mistake(Failure::Other, detail));
            }
            _ => Role::Unknown,
        }),
        Value::ServerError(error) => match errors::said(&error) {
            errors::Said::Not { failure: Failure::Denied, elsewhere: false } => Ok(Role::Unknown),
            errors::Said::Not { .. } if error.code() == "NOAUTH" => {
                let detail = format!("{} does not let us in: {NO_PASSWORD}", link.endpoint());
                Err(ConnectError::mistake(Failure::Denied, detail))
            }
            errors::Said::Not { failure, .. } => {
                Err(ConnectError::new(failure, format!("{} says: {}", link.endpoint(), error.code())))
            }
            _ => Ok(Role::Unknown),
        },
        _ => Ok(Role::Unknown),
    }
}

async fn dial(endpoint: &Endpoint, access: &Access, on_end: impl FnOnce() + Send + 'static) -> Result<Link, ConnectError> {
    let stream = socket(endpoint, access).await?;
    let mut info = RedisConnectionInfo::default().set_db(access.db).set_lib_name("paceline", env!("CARGO_PKG_VERSION"));
    if let Some(user) = &access.user {
        info = info.set_username(user);
    }
    if let Some(password) = password(&access.password)? {
        info = info.set_password(password);
    }
    // Time is kept per request, and a flood of requests is held back here rather than in the socket.
    let config =
        AsyncConnectionConfig::new().set_response_timeout(None).set_connection_timeout(None).set_pipeline_buffer_size(WAITING);
    let opened = MultiplexedConnection::new_with_config(&info, stream, config).await;
    let (connection, driver) = opened.map_err(|error| refused(endpoint, access, &error))?;
    Ok(Link::new(connection, endpoint.clone(), driver, on_end))
}

fn refused(endpoint: &Endpoint, access: &Access, error: &RedisError) -> ConnectError {
    let text = error.to_string();
    if error.kind() == ErrorKind::AuthenticationFailed || text.contains("NOAUTH") || text.contains("WRONGPASS") {
        let what = match (&access.password, &access.user) {
            (Password::None, _) => NO_PASSWORD,
            (_, None) => "it does not take the password",
            (_, Some(_)) => "it does not take user and password",
        };
        return ConnectError::mistake(Failure::Denied, format!("{endpoint} does not let us in: {what}"));
    }
    let db = access.db;
    if text.contains("DB index is out of range") {
        let detail =
            format!("{endpoint} has no database {db}: take a smaller number, or raise `databases` in its configuration");
        return ConnectError::mistake(Failure::Other, detail);
    }
    if text.contains("SELECT is not allowed in cluster mode") {
        let detail =
            format!("{endpoint} belongs to a cluster, which has database 0 only: write redis+cluster://, without /{db}");
        return ConnectError::mistake(Failure::ClusterDown, detail);
    }
    let alert = if access.tls.as_ref().is_some_and(|files| files.cert.is_none()) {
        " (does it want a certificate of ours? add ?cert=FILE&key=FILE)"
    } else {
        ""
    };
    if text.contains("received fatal alert") {
        let detail = format!("{endpoint} refuses our side of TLS: {text}{alert}");
        return ConnectError::mistake(Failure::Denied, detail);
    }
    let failure = if text.contains("LOADING") { Failure::Loading } else { Failure::Connection };
    let hint = if error.is_io_error() && access.tls.is_none() { " (does it want TLS? write rediss://)" } else { "" };
    ConnectError::new(failure, format!("{endpoint} does not set up the connection: {text}{hint}"))
}

/// Anything that carries bytes both ways.
trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

async fn socket(endpoint: &Endpoint, access: &Access) -> Result<Box<dyn Stream>, ConnectError> {
    let failed = |error: io::Error| ConnectError::io(endpoint, &error);
    match endpoint {
        Endpoint::Unix(path) => Ok(Box::new(UnixStream::connect(path.as_ref()).await.map_err(failed)?)),
        Endpoint::Tcp { host, port } => {
            let stream = TcpStream::connect((host.as_str(), *port)).await.map_err(failed)?;
            stream.set_nodelay(true).map_err(failed)?;
            // What has not left when we give a connection up must not arrive later: a charge that nobody waits for any more.
            stream.set_zero_linger().map_err(failed)?;
            let Some(files) = &access.tls else { return Ok(Box::new(stream)) };
            let name = ServerName::try_from(host.clone()).map_err(|_| {
                ConnectError::mistake(Failure::Connection, format!("{host} is no name that a certificate can have"))
            })?;
            let connector = TlsConnector::from(Arc::new(tls(files)?));
            let stream = connector.connect(name, stream).await.map_err(|error| {
                let hint = match files.ca {
                    None => "; for a certificate of your own authority add ?ca=FILE",
                    Some(_) => "",
                };
                let detail = format!("no TLS with {endpoint}: {error}{hint}");
                if is_distrust(&error) {
                    return ConnectError::mistake(Failure::Connection, detail);
                }
                ConnectError::new(Failure::Connection, detail)
            })?;
            Ok(Box::new(stream))
        }
    }
}

/// Whether the server showed a certificate that is not good for it, and not just none in time.
pub(super) fn is_distrust(error: &io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    matches!(inner, Some(rustls::Error::InvalidCertificate(_) | rustls::Error::AlertReceived(_)))
}

/// Reads the files anew with each connection: certificates are renewed.
pub(super) fn tls(files: &TlsFiles) -> Result<ClientConfig, ConnectError> {
    let broken = |what: String| ConnectError::mistake(Failure::Connection, what);
    let mut roots = RootCertStore::empty();
    match &files.ca {
        Some(path) => {
            for certificate in certificates(path)? {
                roots.add(certificate).map_err(|error| broken(format!("{}: {error}", path.display())))?;
            }
        }
        None => {
            let found = rustls_native_certs::load_native_certs();
            roots.add_parsable_certificates(found.certs);
            if roots.is_empty() {
                return Err(broken("this system trusts no authority; name the one of your server with ?ca=FILE".to_owned()));
            }
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| broken(error.to_string()))?
        .with_root_certificates(roots);
    let (Some(cert), Some(key)) = (&files.cert, &files.key) else { return Ok(builder.with_no_client_auth()) };
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| broken(format!("{}: {error}", key.display())))?;
    builder.with_client_auth_cert(certificates(cert)?, private).map_err(|error| broken(format!("{}: {error}", cert.display())))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, ConnectError> {
    let broken = |what: String| ConnectError::mistake(Failure::Connection, format!("{}: {what}", path.display()));
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let certificates = read.map_err(|error| broken(error.to_string()))?;
    if certificates.is_empty() { Err(broken("holds no certificate".to_owned())) } else { Ok(certificates) }
}

pub(super) fn password(password: &Password) -> Result<Option<String>, ConnectError> {
    match password {
        Password::None => Ok(None),
        Password::Given(secret) => Ok(Some(secret.reveal().to_owned())),
        Password::File(path) => {
            let text = fs::read_to_string(path).map_err(|error| {
                let detail = format!("cannot read the password file {}: {error}", path.display());
                ConnectError::mistake(Failure::Denied, detail)
            })?;
            let first = text.lines().next().unwrap_or_default();
            if first.is_empty() {
                let detail = format!("the password file {} begins with an empty line", path.display());
                return Err(ConnectError::mistake(Failure::Denied, detail));
            }
            Ok(Some(first.to_owned()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_stranger_says_stays_in_its_line() {
        let error = ConnectError::new(Failure::Connection, "Parse error at 1\nUnexpected `0`\r\n");
        assert_eq!(error.detail, "Parse error at 1 Unexpected `0`");
        assert_eq!(ConnectError::mistake(Failure::Other, "two  spaces").detail, "two  spaces");
    }
}
