//! What is sent, to whom, and what it may cost: made of the catalogue and the command line, before anything is sent.

use std::fmt::Write as _;

use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue, USER_AGENT};
use hyper::{HeaderMap, Uri};
use paceline_config::looks_like_a_key;
use paceline_signals::{Provider, Sure, catalogue};

use super::proxy::Proxy;
use super::secret::Key;
use super::{ProbeArgs, ProbeError};

/// A price that hardly any model exceeds, in USD for a million tokens: the bound that is told holds for a model nobody knows.
const DEAREST_USD_PER_MILLION: f64 = 200.0;

/// Where to connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) is_tls: bool,
    pub(super) host: String,
    pub(super) port: u16,
}

/// The calls of one probe.
#[derive(Debug)]
pub(super) struct Plan {
    /// The provider's name in the configuration.
    pub(super) name: String,
    /// By whose rules answers are read.
    pub(super) provider: &'static Provider,
    /// Whether the catalogue has it under that name.
    pub(super) is_known: bool,
    pub(super) account: String,
    /// Empty where the call names none.
    pub(super) model: String,
    pub(super) calls: u32,
    pub(super) url: Uri,
    pub(super) place: Place,
    /// All but the key's.
    pub(super) headers: HeaderMap,
    /// The header that carries the key, and what stands before it.
    pub(super) key: (HeaderName, String),
    /// JSON; `None`: a GET.
    pub(super) body: Option<String>,
    most_tokens: Option<u64>,
    /// Through which it goes, if through one.
    pub(super) proxy: Option<Proxy>,
    /// Whether the model is the catalogue's, which has it from nobody who tried it.
    is_unsure: bool,
}

impl Plan {
    /// The most that one of the calls takes of a meter, in its units; what nobody knows is without bound.
    pub(super) fn most_of_a_call(&self, meter: &str) -> u64 {
        match meter {
            "requests" => 1,
            "tokens" | "input_tokens" | "output_tokens" => self.most_tokens.unwrap_or(u64::MAX),
            _ => u64::MAX,
        }
    }

    /// What the command line asks for.
    ///
    /// # Errors
    /// The catalogue does not know how, the address is none or would show the key, a model is missing.
    pub(super) fn new(args: &ProbeArgs, key: &Key) -> Result<Self, ProbeError> {
        let known = catalogue().get(&args.provider);
        let provider = catalogue().get_or_generic(&args.provider);
        let name = known.map_or(args.provider.as_str(), Provider::name).to_owned();
        let typed = [Some(&args.provider), args.base_url.as_ref(), args.model.as_ref(), Some(&args.account)];
        if typed.into_iter().flatten().any(|text| key.is_in(text) || looks_like_a_key(text)) {
            return Err(ProbeError::KeyOnCommandLine);
        }
        let probe = provider.probe().ok_or_else(|| ProbeError::NoProbe(name.clone()))?;
        let base = args.base_url.as_deref().or(probe.base_url).ok_or_else(|| ProbeError::NoAddress(name.clone()))?;
        let model = args.model.as_deref().or(probe.model).unwrap_or_default().to_owned();
        if model.is_empty() && probe.needs_model() {
            return Err(ProbeError::NoModel(name));
        }
        let (url, place) = address(base, &probe.path_for(&model), args.plain_http)?;
        let body = probe.body_for(&model).map(|body| body.to_string());
        let mut headers = HeaderMap::new();
        headers.insert(USER_AGENT, HeaderValue::from_static(concat!("paceline/", env!("CARGO_PKG_VERSION"))));
        if body.is_some() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        let header_name = |text: &str| HeaderName::try_from(text).map_err(|_| ProbeError::BadHeader(text.to_owned()));
        for (header, value) in probe.headers {
            let value = HeaderValue::try_from(value).map_err(|_| ProbeError::BadHeader(header.to_owned()))?;
            headers.insert(header_name(header)?, value);
        }
        Ok(Self {
            is_known: known.is_some(),
            account: args.account.clone(),
            calls: args.calls,
            key: (header_name(probe.key.0)?, probe.key.1.to_owned()),
            most_tokens: probe.most_tokens,
            proxy: None,
            is_unsure: args.model.is_none() && !model.is_empty() && probe.provenance.sure == Some(Sure::Unsure),
            name,
            provider,
            model,
            url,
            place,
            headers,
            body,
        })
    }

    /// How people call it.
    pub(super) fn title(&self) -> &str {
        if self.is_known { self.provider.title() } else { &self.name }
    }

    /// What is about to be sent and what it may cost, for people.
    pub(super) fn announcement(&self, key: &Key) -> String {
        let (calls, method) = (count(self.calls), if self.body.is_some() { "POST" } else { "GET" });
        let model =
            if self.model.is_empty() || self.body.is_none() { String::new() } else { format!(", model {}", self.model) };
        let mut text = format!("This sends {calls} to {}: {method} {}{model}.\n", self.title(), self.url);
        if let Some(body) = &self.body {
            let _ = writeln!(text, "Each says: {body}");
        }
        if self.is_unsure {
            let _ = writeln!(
                text,
                "That model is the catalogue's guess: nobody has tried whether it is there for every key. If not, name one with --model."
            );
        }
        if let Some(proxy) = &self.proxy {
            let _ = writeln!(
                text,
                "It goes through the proxy {}:{} (HTTPS_PROXY), encrypted: the proxy sees to whom, and not the key.",
                proxy.host, proxy.port
            );
        }
        let _ = writeln!(
            text,
            "The key is taken from ${} and goes into the header {}, to {} only. It is not kept, printed or logged.",
            key.variable(),
            self.key.0,
            self.place.host
        );
        let _ = writeln!(text, "Price: {}.", self.price());
        text
    }

    /// A bound that holds whatever the model costs.
    fn price(&self) -> String {
        match self.most_tokens {
            Some(0) => "none; the catalogue says that this endpoint is free".to_owned(),
            Some(most) => {
                let tokens = most.saturating_mul(u64::from(self.calls));
                // Far below 2^53.
                let usd = tokens as f64 * DEAREST_USD_PER_MILLION / 1e6;
                format!(
                    "at most {tokens} tokens in all, which is {usd:.3} USD at {DEAREST_USD_PER_MILLION} USD for a million tokens; \
                     nearly every model costs less. They count in the limits of the account, as {} {}",
                    count(self.calls),
                    if self.calls == 1 { "does" } else { "do" }
                )
            }
            None => format!("whatever {} cost there; nothing is known of it", count(self.calls)),
        }
    }
}

fn count(calls: u32) -> String {
    if calls == 1 { "1 call".to_owned() } else { format!("{calls} calls") }
}

/// The address of the call, and where to connect.
fn address(base: &str, path: &str, plain_http: bool) -> Result<(Uri, Place), ProbeError> {
    let bad = |problem: &'static str| ProbeError::BadAddress(problem);
    let uri: Uri = base.parse().map_err(|_| bad("it is no address"))?;
    let is_tls = match uri.scheme_str() {
        Some("https") => true,
        Some("http") => false,
        _ => return Err(bad("it does not begin with https://")),
    };
    let authority = uri.authority().ok_or(bad("it names no host"))?;
    if authority.as_str().contains('@') {
        return Err(bad("it holds a user or a password, which would be seen by everybody on this machine"));
    }
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
    if host.is_empty() {
        return Err(bad("it names no host"));
    }
    let is_here = host == "localhost" || host.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback());
    if !is_tls && !is_here && !plain_http {
        return Err(ProbeError::Unencrypted(host));
    }
    let whole = if path.is_empty() { base.to_owned() } else { joined(base, path) };
    let url: Uri = whole.parse().map_err(|_| bad("with the path of the call it is no address"))?;
    let port = authority.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
    Ok((url, Place { is_tls, host, port }))
}

/// Base and path; a segment that both have (`https://host/v1` and `/v1/chat`) comes once.
fn joined(base: &str, path: &str) -> String {
    let base = base.split(['?', '#']).next().unwrap_or_default().trim_end_matches('/');
    let first = path.split('/').nth(1).unwrap_or_default();
    let has_it =
        !first.is_empty() && base.rsplit_once('/').is_some_and(|(before, last)| last == first && !before.ends_with('/'));
    let rest = if has_it { path.get(first.len() + 1..).unwrap_or(path) } else { path };
    format!("{base}{rest}")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn args(provider: &str, base_url: Option<&str>, model: Option<&str>) -> ProbeArgs {
        ProbeArgs { base_url: base_url.map(str::to_owned), model: model.map(str::to_owned), ..ProbeArgs::of_provider(provider) }
    }

    fn key() -> Key {
        Key::from_variable("A_KEY", Some("key-0123456789".into())).unwrap()
    }

    fn url(provider: &str, base: Option<&str>, model: Option<&str>) -> Result<String, ProbeError> {
        Plan::new(&args(provider, base, model), &key()).map(|plan| plan.url.to_string())
    }

    #[test]
    fn the_catalogue_says_where_calls_go() {
        for (provider, base, model, expected) in [
            ("openai", None, None, "https://api.openai.com/v1/chat/completions"),
            ("OpenAI", Some("https://eu.example/v1/"), None, "https://eu.example/v1/chat/completions"),
            ("openai", Some("http://127.0.0.1:8080"), None, "http://127.0.0.1:8080/v1/chat/completions"),
            ("gemini", None, Some("g 1"), "https://generativelanguage.googleapis.com/v1beta/models/g%201:generateContent"),
            ("acme", Some("https://acme.example/things?page=1"), None, "https://acme.example/things?page=1"),
            ("vllm", Some("http://[::1]:8000"), Some("m"), "http://[::1]:8000/v1/chat/completions"),
            (
                "azure",
                Some("https://a.openai.azure.com"),
                Some("d"),
                "https://a.openai.azure.com/openai/deployments/d/chat/completions?api-version=2024-10-21",
            ),
        ] {
            assert_eq!(url(provider, base, model).unwrap(), expected, "{provider}");
        }
    }

    #[test]
    fn what_cannot_be_sent_is_told_before_anything_is() {
        for (provider, base, model, part) in [
            ("acme", None, None, "--base-url"),
            ("vllm", Some("https://vllm.example"), None, "--model"),
            ("openai", Some("api.openai.com"), None, "https://"),
            ("openai", Some("ftp://api.openai.com"), None, "https://"),
            ("openai", Some("https://me:secret@api.example"), None, "password"),
            ("openai", Some("http://api.example"), None, "--plain-http"),
            ("openai", Some("https://api.example/?k=key-0123456789"), None, "command line"),
            ("openai", None, Some("key-0123456789"), "command line"),
        ] {
            let error = url(provider, base, model).unwrap_err().to_string();
            assert!(error.contains(part), "{provider} {base:?}: {error}");
            assert!(!error.contains("secret") && !error.contains("0123456789"), "{error}");
        }
    }

    #[test]
    fn a_provider_that_only_extends_another_never_gets_the_others_address() {
        assert!(matches!(url("azure-apim", None, Some("m")), Err(ProbeError::NoAddress(_))));
        assert!(matches!(url("vertex", None, Some("m")), Err(ProbeError::NoAddress(_))));
    }

    #[test]
    fn the_price_is_said_first() {
        let said = |provider: &str, base| Plan::new(&args(provider, base, None), &key()).unwrap().announcement(&key());
        let openai = said("openai", None);
        assert!(
            openai.contains("3 calls to OpenAI") && openai.contains("150 tokens") && openai.contains("0.030 USD"),
            "{openai}"
        );
        assert!(
            openai.contains("$A_KEY") && openai.contains("api.openai.com only") && !openai.contains("0123456789"),
            "{openai}"
        );
        assert!(said("github", None).contains("free"));
        assert!(said("acme", Some("https://acme.example")).contains("nothing is known"));
    }
}
