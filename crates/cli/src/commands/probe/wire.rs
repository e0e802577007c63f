//! One call over HTTP/1.1, with or without TLS. The only place here that reads a clock or opens a socket.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::HOST;
use hyper::{HeaderMap, Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use paceline_core::units::{FleetTime, Span};
use rustls::pki_types::ServerName;
use rustls::{CertificateError, ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;

use super::plan::{Place, Plan};
use super::secret::Key;

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(10);
/// How long an answer may take: a model that sleeps is woken in this time.
const ANSWER: Duration = Duration::from_secs(60);
/// So much of an answer's body is read, in bytes.
const MOST_BODY: usize = 64 * 1024;

/// What came back.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    /// From sending to the end of the answer.
    pub(super) took: Duration,
    /// When the head of the answer was there, by this machine's clock.
    pub(super) received_at: FleetTime,
}

/// Why nothing came back.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WireError {
    /// The name has no address.
    #[error("{host} cannot be found ({error}): is the address right, and does this machine reach the internet?")]
    NoSuchHost {
        /// Which.
        host: String,
        /// What the system said.
        error: io::Error,
    },
    /// Nobody listens there, or nothing gets there.
    #[error(
        "no connection to {host} port {port}: {error}. Is the address right, and may this machine connect to it? A proxy is used where \
         HTTPS_PROXY names one"
    )]
    NoConnection {
        /// Where.
        host: String,
        /// Where.
        port: u16,
        /// What the system said.
        error: io::Error,
    },
    /// The proxy does not let us through.
    #[error("the proxy {proxy} (HTTPS_PROXY) is of no use: {problem}")]
    Proxy {
        /// Host and port.
        proxy: String,
        /// Why, and what to do.
        problem: String,
    },
    /// The other side is not who it should be, or speaks no TLS.
    #[error("no TLS with {host}: {problem}")]
    Tls {
        /// Who.
        host: String,
        /// Why, and what to do.
        problem: String,
    },
    /// Nothing came in time.
    #[error("{host} has not answered within {} s", after.as_secs())]
    Slow {
        /// Who.
        host: String,
        /// How long was waited.
        after: Duration,
    },
    /// What came is no HTTP/1.1.
    #[error("{host} did not answer as an HTTP server does: {problem}")]
    NoHttp {
        /// Who.
        host: String,
        /// What went wrong.
        problem: String,
    },
}

/// Makes one call of the plan.
///
/// # Errors
/// No connection, no TLS, no answer.
pub(super) async fn call(plan: &Plan, key: &Key) -> Result<Answered, WireError> {
    let host = || plan.place.host.clone();
    let slow = |after| move |_| WireError::Slow { host: host(), after };
    let stream = timeout(CONNECT, reach(plan)).await.map_err(slow(CONNECT))??;
    if !plan.place.is_tls {
        return timeout(ANSWER, exchange(stream, plan, key)).await.map_err(slow(ANSWER))?;
    }
    let stream = timeout(CONNECT, encrypt(stream, &plan.place)).await.map_err(slow(CONNECT))??;
    timeout(ANSWER, exchange(stream, plan, key)).await.map_err(slow(ANSWER))?
}

/// A connection to the provider, through a proxy where there is one.
async fn reach(plan: &Plan) -> Result<TcpStream, WireError> {
    let Some(proxy) = &plan.proxy else { return connect(&plan.place).await };
    let failed = |problem: String| WireError::Proxy { proxy: format!("{}:{}", proxy.host, proxy.port), problem };
    let place = Place { is_tls: false, host: proxy.host.clone(), port: proxy.port };
    let stream = connect(&place).await.map_err(|error| {
        failed(match error {
            WireError::NoSuchHost { error, .. } => format!("it cannot be found ({error})"),
            WireError::NoConnection { error, .. } => format!("no connection to it: {error}"),
            other => other.to_string(),
        })
    })?;
    proxy.tunnel(stream, &plan.place).await.map_err(failed)
}

async fn connect(place: &Place) -> Result<TcpStream, WireError> {
    let host = || place.host.clone();
    let found = lookup_host((place.host.as_str(), place.port)).await;
    let found = found.map_err(|error| WireError::NoSuchHost { host: host(), error })?;
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in found {
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(WireError::NoConnection { host: host(), port: place.port, error: last })
}

async fn encrypt(stream: TcpStream, place: &Place) -> Result<impl AsyncRead + AsyncWrite + Send + Unpin + use<>, WireError> {
    let failed = |problem: String| WireError::Tls { host: place.host.clone(), problem };
    for name in ["SSL_CERT_FILE", "SSL_CERT_DIR"] {
        if let Some(path) = std::env::var_os(name).filter(|path| !Path::new(path).exists()) {
            return Err(failed(format!("{name} names {}, which does not exist", path.display())));
        }
    }
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        let problem = "this machine trusts no authority. Install its certificates (on Debian: apt-get install ca-certificates), \
                       or name a file of them in SSL_CERT_FILE";
        return Err(failed(problem.to_owned()));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(|error| failed(error.to_string()))?.with_root_certificates(roots).with_no_client_auth();
    let name = ServerName::try_from(place.host.clone()).map_err(|error| failed(error.to_string()))?;
    let connected = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
    connected.map_err(|error| failed(why_no_tls(&error)))
}

/// What a failed handshake means, and what to do about it.
fn why_no_tls(error: &io::Error) -> String {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(rustls::Error::InvalidCertificate(reason)) => format!(
            "its certificate is not trusted: {}. Somebody between here and there may be reading along, so nothing was sent. \
             If that is a server or a proxy of your own, name the certificate of the authority that signed its in SSL_CERT_FILE",
            why_untrusted(reason)
        ),
        Some(rustls::Error::InvalidMessage(_)) => {
            "it does not speak TLS on this port; if it is a server of your own without TLS, write http://".to_owned()
        }
        _ => error.to_string(),
    }
}

/// What is wrong with a certificate, in words.
fn why_untrusted(reason: &CertificateError) -> String {
    match reason {
        CertificateError::UnknownIssuer => "no authority that this machine trusts has signed it".to_owned(),
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "it is over".to_owned(),
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "it does not hold yet; is this machine's clock right?".to_owned()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "it is for another name".to_owned()
        }
        CertificateError::Other(other) if format!("{other:?}").contains("CaUsedAsEndEntity") => {
            "it signed itself, as an authority. Such a one cannot be trusted as a server's: make an authority, and let it sign one for the \
             server (CA:FALSE)"
                .to_owned()
        }
        other => other.to_string(),
    }
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    plan: &Plan,
    key: &Key,
) -> Result<Answered, WireError> {
    let failed = |problem: String| WireError::NoHttp { host: plan.place.host.clone(), problem };
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|error| failed(error.to_string()))?;
    // Ends with the sender; what went wrong with it is told to whoever waits for the answer.
    tokio::spawn(connection);
    let request = request(plan, key).ok_or_else(|| failed("the call cannot be written as HTTP".to_owned()))?;
    let sent = Instant::now();
    let response = sender.send_request(request).await.map_err(|error| failed(error.to_string()))?;
    let received_at = now();
    let (mut head, body) = response.into_parts();
    key.strip(&mut head.headers);
    // What the body lacks is missing in an error's text at worst; the headers are what was asked for.
    let body = Limited::new(body, MOST_BODY).collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    Ok(Answered { status: head.status, headers: head.headers, body, took: sent.elapsed(), received_at })
}

fn request(plan: &Plan, key: &Key) -> Option<Request<Full<Bytes>>> {
    let mut request = Request::new(Full::new(Bytes::from(plan.body.clone().unwrap_or_default())));
    *request.method_mut() = if plan.body.is_some() { Method::POST } else { Method::GET };
    let target = plan.url.path_and_query().map_or("/", |target| target.as_str());
    *request.uri_mut() = target.parse().ok()?;
    *request.headers_mut() = plan.headers.clone();
    let authority = plan.url.authority()?.as_str();
    request.headers_mut().insert(HOST, authority.parse().ok()?);
    let (name, before) = &plan.key;
    request.headers_mut().insert(name.clone(), key.header_value(before)?);
    Some(request)
}

fn now() -> FleetTime {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    FleetTime::ZERO + Span::from(since_epoch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_with_a_certificate_is_told_in_words() {
        let told = |error: rustls::Error| why_no_tls(&io::Error::new(io::ErrorKind::InvalidData, error));
        for (reason, part) in [
            (CertificateError::UnknownIssuer, "no authority that this machine trusts has signed it"),
            (CertificateError::Expired, "it is over"),
            (CertificateError::NotValidYet, "is this machine's clock right"),
            (CertificateError::NotValidForName, "it is for another name"),
        ] {
            let text = told(rustls::Error::InvalidCertificate(reason));
            assert!(text.contains(part) && text.contains("nothing was sent") && text.contains("SSL_CERT_FILE"), "{text}");
        }
        let plain = told(rustls::Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType));
        assert!(plain.contains("does not speak TLS on this port") && plain.contains("http://"), "{plain}");
        assert_eq!(why_no_tls(&io::Error::other("cut off")), "cut off");
    }
}
