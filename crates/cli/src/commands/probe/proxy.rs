//! The way through a proxy: which one the environment names for a host, and the tunnel to that host. Only what is encrypted goes
//! through one, so the proxy learns to whom it is, and never the key.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::Uri;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::plan::Place;

/// The longest answer of a proxy that is read, in bytes.
const MOST_HEAD: usize = 16 * 1024;

/// A proxy, as the environment names it.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Proxy {
    pub(super) host: String,
    pub(super) port: u16,
    /// User and password, for a proxy that wants them.
    login: Option<String>,
}

impl std::fmt::Debug for Proxy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Proxy({}:{})", self.host, self.port)
    }
}

impl Proxy {
    /// The proxy for a place; `read` reads a variable of the environment. `Ok(None)`: none is to be used.
    ///
    /// # Errors
    /// The variable names no proxy that can be used; the text says why, and not what it holds, which may be a password.
    pub(super) fn of(place: &Place, read: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, &'static str> {
        let first = |names: [&str; 2]| names.into_iter().find_map(|name| read(name).filter(|value| !value.trim().is_empty()));
        let Some(named) = first(["https_proxy", "HTTPS_PROXY"]).filter(|_| place.is_tls) else { return Ok(None) };
        if first(["no_proxy", "NO_PROXY"]).is_some_and(|exceptions| is_exempt(place, &exceptions)) {
            return Ok(None);
        }
        Self::parse(named.trim()).map(Some)
    }

    fn parse(text: &str) -> Result<Self, &'static str> {
        let text = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
        let uri: Uri = text.parse().map_err(|_| "it is no address")?;
        if uri.scheme_str() != Some("http") {
            return Err("only proxies at http:// can be used; what goes through is encrypted all the same");
        }
        let authority = uri.authority().ok_or("it names no host")?;
        let login = authority.as_str().rsplit_once('@').map(|(login, _)| login.to_owned());
        let host = authority.host().trim_matches(['[', ']']).to_owned();
        if host.is_empty() {
            return Err("it names no host");
        }
        Ok(Self { host, port: authority.port_u16().unwrap_or(80), login })
    }

    /// Has the proxy connect to a place; what is written to the stream from then on goes there.
    ///
    /// # Errors
    /// It does not, in words.
    pub(super) async fn tunnel(&self, mut stream: TcpStream, place: &Place) -> Result<TcpStream, String> {
        let host = if place.host.contains(':') { format!("[{}]", place.host) } else { place.host.clone() };
        let to = format!("{host}:{}", place.port);
        let login = self.login.as_ref().map(|login| format!("Proxy-Authorization: Basic {}\r\n", STANDARD.encode(login)));
        let request = format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n{}\r\n", login.unwrap_or_default());
        let broken = |error: std::io::Error| format!("the connection broke: {error}");
        stream.write_all(request.as_bytes()).await.map_err(broken)?;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            // One byte at a time: what follows is the other side's.
            let byte = stream.read_u8().await.map_err(broken)?;
            head.push(byte);
            if head.len() > MOST_HEAD {
                return Err("it does not answer as a proxy does".to_owned());
            }
        }
        match status(&head) {
            Some(200..=299) => Ok(stream),
            other => Err(why_not(other, &place.host)),
        }
    }
}

/// Whether a list of exceptions names the place: `*`, a host with all below it, or `host:port`.
fn is_exempt(place: &Place, exceptions: &str) -> bool {
    let host = place.host.to_ascii_lowercase();
    exceptions.split(',').map(|entry| entry.trim().to_ascii_lowercase()).filter(|entry| !entry.is_empty()).any(|entry| {
        let port = format!(":{}", place.port);
        let name = entry.strip_suffix(&port).unwrap_or(&entry).trim_start_matches("*.").trim_start_matches('.');
        let name = name.trim_matches(['[', ']']);
        entry == "*" || host == name || host.strip_suffix(name).is_some_and(|before| before.ends_with('.'))
    })
}

/// The status of a head such as `HTTP/1.1 200 OK`.
fn status(head: &[u8]) -> Option<u16> {
    let line = std::str::from_utf8(head).ok()?.lines().next()?;
    line.starts_with("HTTP/").then(|| line.split(' ').nth(1)?.parse().ok()).flatten()
}

fn why_not(status: Option<u16>, host: &str) -> String {
    match status {
        Some(407) => "it wants a user and a password (407): HTTPS_PROXY=http://user:password@proxy:port".to_owned(),
        Some(403) => format!("it lets nobody through to {host} (403)"),
        Some(status) => format!("it does not get through to {host} ({status})"),
        None => "it does not answer as a proxy does".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn of(host: &str, is_tls: bool, variables: &[(&str, &str)]) -> Result<Option<String>, &'static str> {
        let place = Place { is_tls, host: host.to_owned(), port: 443 };
        let read = |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        let proxy = Proxy::of(&place, read)?;
        Ok(proxy.map(|proxy| format!("{}:{} {}", proxy.host, proxy.port, proxy.login.unwrap_or_default()).trim().to_owned()))
    }

    #[test]
    fn the_environment_says_which_proxy_and_for_whom_none() {
        let proxy = ("HTTPS_PROXY", "http://proxy.example:3128");
        for (host, variables, expected) in [
            ("api.example", &[][..], None),
            ("api.example", &[proxy], Some("proxy.example:3128")),
            ("api.example", &[("HTTPS_PROXY", "proxy.example")], Some("proxy.example:80")),
            ("api.example", &[("HTTPS_PROXY", "http://me:secret@[::1]:8080/")], Some("::1:8080 me:secret")),
            ("api.example", &[proxy, ("https_proxy", "other:1")], Some("other:1")),
            ("api.example", &[("HTTPS_PROXY", " ")], None),
            ("api.example", &[("HTTP_PROXY", "http://proxy.example")], None),
            ("api.example", &[proxy, ("NO_PROXY", "*")], None),
            ("api.example", &[proxy, ("NO_PROXY", "localhost, .example")], None),
            ("API.example", &[proxy, ("no_proxy", "api.example:443")], None),
            ("api.example", &[proxy, ("NO_PROXY", "api.example:8443")], Some("proxy.example:3128")),
            ("myapi.example", &[proxy, ("NO_PROXY", "api.example")], Some("proxy.example:3128")),
            ("127.0.0.1", &[proxy, ("NO_PROXY", "127.0.0.1")], None),
        ] {
            assert_eq!(of(host, true, variables), Ok(expected.map(str::to_owned)), "{host} {variables:?}");
            assert_eq!(of(host, false, variables), Ok(None), "what is not encrypted goes through none");
        }
        for (value, part) in
            [("https://proxy.example", "http://"), ("socks5://proxy.example:1080", "http://"), ("http://", "no address")]
        {
            assert!(of("api.example", true, &[("HTTPS_PROXY", value)]).unwrap_err().contains(part), "{value}");
        }
    }

    #[test]
    fn an_answer_of_a_proxy_is_told_in_words() {
        for (head, part) in [
            ("HTTP/1.1 407 Authentication Required\r\n\r\n", "user and a password"),
            ("HTTP/1.0 403 Forbidden\r\n\r\n", "nobody through to api.example"),
            ("HTTP/1.1 502 Bad Gateway\r\n\r\n", "(502)"),
            ("SSH-2.0-x\r\n\r\n", "as a proxy does"),
        ] {
            assert!(why_not(status(head.as_bytes()), "api.example").contains(part), "{head}");
        }
        assert_eq!(status(b"HTTP/1.1 200 Connection established\r\n\r\n"), Some(200));
    }
}
