//! HTTP calls that pace themselves: a layer for [tower] services (feature `tower`) and a middleware for [reqwest] (feature
//! `reqwest`). Both ask before a request is sent, wait, send, report what came back, and send again what the service says may be sent
//! again. Nothing else of a program changes.
//!
//! [`Pacing`] is what both of them are made from: a limiter, a function that says what a request costs, and another that reads out of
//! an answer what it used. [`Pacing::llm`] has both for providers that speak like OpenAI or Anthropic.
//!
//! What is done for a request whose function says that it is to be asked for:
//!
//! * **Denied**: the call fails with [`Error::Denied`](crate::Error::Denied), and not with an answer 429: an answer would look like one of
//!   the provider's, and every layer above that repeats a 429 would repeat this one. When an attempt *was* answered and there is no slot
//!   for another, the caller gets that answer.
//! * **Answers below 400** go to the caller at once. Of a stream the headers are reported at its first byte, and its end when it is there;
//!   dropped before, it is reported as abandoned, broken as a time-out, with what it is known to have used; an error among its events is
//!   reported as one. Other bodies are reported once, at their end.
//! * **Answers from 400 on** are read (64 KiB and five seconds at most) before they are reported, since the reason is in the body.
//! * **Sent again** is what the service says, as far as the request's body is in memory; a stream past its first byte never.
//! * **A deadline** ([`Ask::deadline`](crate::Ask::deadline)) ends the wait for an answer's headers too.
//! * **No secrets**: credentials, cookies and what looks like a key are left out of reports.
//! * **The target** of the slot is in the request's extensions ([`Target`](crate::Target)), those of the chain for reqwest, for those who
//!   name `fallbacks`.
//!
//! [tower]: https://docs.rs/tower
//! [reqwest]: https://docs.rs/reqwest

mod body;
mod exchange;
mod llm;
#[cfg(feature = "reqwest")]
mod reqwest;
mod secrets;
#[cfg(feature = "tower")]
mod tower;
mod usage;

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::sync::Arc;

use http::{HeaderMap, Method, Uri, response};

pub use body::PacedBody;
pub use llm::llm_ask;
#[cfg(feature = "tower")]
pub use tower::{Once, Paced, Replay};
pub use usage::{ReadUsage, Usage, llm_usage};

use crate::ask::Ask;
use crate::limiter::Limiter;

/// A request before it is sent.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'a> {
    /// Its method.
    pub method: &'a Method,
    /// Where it goes.
    pub uri: &'a Uri,
    /// Its headers.
    pub headers: &'a HeaderMap,
    /// Its body, where all of it is in memory.
    pub body: Option<&'a [u8]>,
}

type AskOf = dyn Fn(&Outgoing<'_>) -> Option<Ask> + Send + Sync;
type UsageOf = dyn Fn(&response::Parts) -> Option<Box<dyn ReadUsage>> + Send + Sync;
type NeverSent = dyn Fn(&(dyn StdError + 'static)) -> bool + Send + Sync;

/// How HTTP calls are paced: a [`tower::Layer`](https://docs.rs/tower/latest/tower/trait.Layer.html) with the feature `tower`, a
/// `reqwest_middleware::Middleware` with the feature `reqwest`. Clones are the same.
#[derive(Clone)]
pub struct Pacing {
    limiter: Limiter,
    ask: Arc<AskOf>,
    usage: Arc<UsageOf>,
    never_sent: Arc<NeverSent>,
    retries: bool,
}

impl Pacing {
    /// Asks with what `ask` says of a request; one that it says `None` of is sent as if nothing were here. What answers used is not
    /// read: see [`Pacing::usage`].
    ///
    /// ```
    /// use paceline_client::http::{Outgoing, Pacing};
    /// use paceline_client::{Ask, Limiter, Repeat};
    ///
    /// # async fn make() -> Result<(), paceline_client::Error> {
    /// let pacing = Pacing::new(Limiter::from_env()?, |request: &Outgoing<'_>| {
    ///     let is_ours = request.uri.host() == Some("api.example.com");
    ///     is_ours.then(|| Ask::new("example").repeat(if request.method == "GET" { Repeat::Safe } else { Repeat::Never }))
    /// });
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(limiter: Limiter, ask: impl Fn(&Outgoing<'_>) -> Option<Ask> + Send + Sync + 'static) -> Self {
        Self {
            limiter,
            ask: Arc::new(ask),
            usage: Arc::new(|_| None),
            never_sent: Arc::new(is_refused_connection),
            retries: true,
        }
    }

    /// For a provider that speaks like OpenAI, Anthropic or Gemini, by its name in the catalogue: tokens are estimated as [`llm_ask`] tells, and
    /// read as [`llm_usage`] tells.
    ///
    /// ```
    /// # async fn make() -> Result<(), paceline_client::Error> {
    /// let pacing = paceline_client::http::Pacing::llm(paceline_client::Limiter::from_env()?, "openai");
    /// # Ok(())
    /// # }
    /// ```
    pub fn llm(limiter: Limiter, provider: impl Into<String>) -> Self {
        let provider = provider.into();
        Self::new(limiter, move |request| llm_ask(&provider, request)).usage(llm_usage)
    }

    /// Reads out of answers what they used.
    pub fn usage(mut self, usage: impl Fn(&response::Parts) -> Option<Box<dyn ReadUsage>> + Send + Sync + 'static) -> Self {
        self.usage = Arc::new(usage);
        self
    }

    /// Which errors of the service below mean that the request was never sent, besides connections that were refused (told by the
    /// `io::Error` among its causes). Only such a call is sure not to have run.
    pub fn never_sent(mut self, is_never_sent: impl Fn(&(dyn StdError + 'static)) -> bool + Send + Sync + 'static) -> Self {
        self.never_sent = Arc::new(move |error| is_never_sent(error) || is_refused_connection(error));
        self
    }

    /// Whether refused calls are sent again here; they are by default. With `false` somebody above does it, and each attempt is a call
    /// of its own to the service.
    pub fn retries(mut self, retries: bool) -> Self {
        self.retries = retries;
        self
    }
}

impl fmt::Debug for Pacing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pacing").field("limiter", &self.limiter).field("retries", &self.retries).finish_non_exhaustive()
    }
}

/// Whether nobody took the connection, by the error or one of its causes.
fn is_refused_connection(error: &(dyn StdError + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
        if matches!(
            kind,
            Some(io::ErrorKind::ConnectionRefused | io::ErrorKind::AddrNotAvailable | io::ErrorKind::HostUnreachable)
        ) {
            return true;
        }
        cause = error.source();
    }
    false
}
