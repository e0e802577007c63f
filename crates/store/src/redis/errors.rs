//! What a server's error means for the request, the connection and the way to the key.

use redis::ServerError;

use super::endpoint::Endpoint;
use crate::error::StoreError;
use crate::observe::Failure;

/// What to do about an error of a server. Whatever it is: nothing was written, since scripts check before they write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// The script is not there: send it in full.
    NoScript,
    /// A key of ours holds something of another type.
    WrongType,
    /// The slot lives elsewhere for good. No host: the same host as the one that was asked.
    Moved(Redirect),
    /// The slot is on its way: ask there, this once.
    Ask(Redirect),
    /// It cannot do it: try again later, on another connection when `elsewhere`.
    Not {
        /// What it is counted as.
        failure: Failure,
        /// Whether this connection leads to the wrong place.
        elsewhere: bool,
    },
}

/// Where to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Redirect {
    host: Option<String>,
    port: u16,
}

impl Redirect {
    /// `3999 127.0.0.1:6381`; IPv6 addresses have no brackets there.
    fn read(details: &str) -> Option<Self> {
        let (host, port) = details.split_whitespace().nth(1)?.rsplit_once(':')?;
        let host = Some(host).filter(|host| !matches!(*host, "" | "?")).map(str::to_owned);
        Some(Self { host, port: port.parse().ok()? })
    }

    /// The place, as seen from the server that said so.
    pub(super) fn from(self, asked: &Endpoint) -> Endpoint {
        match (self.host, asked) {
            (Some(host), _) => Endpoint::Tcp { host, port: self.port },
            (None, Endpoint::Tcp { host, .. }) => Endpoint::Tcp { host: host.clone(), port: self.port },
            (None, Endpoint::Unix(path)) => Endpoint::Unix(path.clone()),
        }
    }
}

/// Words of errors, as they come from commands and, within other words, from scripts of older servers.
const WORDS: [(&str, Failure, bool); 13] = [
    ("READONLY", Failure::ReadOnly, true),
    ("NOREPLICAS", Failure::ReadOnly, false),
    ("LOADING", Failure::Loading, true),
    ("MASTERDOWN", Failure::Loading, true),
    ("CLUSTERDOWN", Failure::ClusterDown, true),
    ("TRYAGAIN", Failure::ClusterDown, false),
    ("OOM", Failure::Full, false),
    ("MISCONF", Failure::Full, false),
    ("NOPERM", Failure::Denied, false),
    ("NOAUTH", Failure::Denied, true),
    ("WRONGPASS", Failure::Denied, true),
    ("BUSY", Failure::Other, false),
    ("UNBLOCKED", Failure::ReadOnly, true),
];

/// Reads an error.
pub(super) fn said(error: &ServerError) -> Said {
    let (code, details) = (error.code(), error.details().unwrap_or_default());
    let not = |failure, elsewhere| Said::Not { failure, elsewhere };
    match code {
        "NOSCRIPT" => return Said::NoScript,
        "WRONGTYPE" => return Said::WrongType,
        "MOVED" => return Redirect::read(details).map_or(not(Failure::ClusterDown, true), Said::Moved),
        "ASK" => return Redirect::read(details).map_or(not(Failure::ClusterDown, true), Said::Ask),
        _ => {}
    }
    if let Some((_, failure, elsewhere)) = WORDS.iter().find(|(word, ..)| *word == code) {
        return not(*failure, *elsewhere);
    }
    // Before version 7 the error of a command within a script comes as text.
    if details.contains("-WRONGTYPE") || details.contains("WRONGTYPE Operation") {
        return Said::WrongType;
    }
    let word = WORDS.iter().find(|(word, ..)| details.contains(&format!("-{word}")));
    // A command denied within a script: "The user executing the script can't run this command or subcommand".
    let denied = details.contains("executing the script can't") || details.contains("user executing the script");
    match word {
        Some((_, failure, elsewhere)) => not(*failure, *elsewhere),
        None => not(if denied { Failure::Denied } else { Failure::Other }, false),
    }
}

/// What the caller gets to see; errors of servers hold no secrets.
pub(super) fn unavailable(error: &ServerError) -> StoreError {
    let said = match error.details() {
        Some(details) => format!("{} {details}", error.code()),
        None => error.code().to_owned(),
    };
    let advice = match self::said(error) {
        Said::Not { failure: Failure::Denied, .. } => "; check the user's rights, docs/operating/redis.md lists them",
        Said::Not { failure: Failure::Full, .. } => "; give it more memory or disk",
        Said::Not { failure: Failure::ReadOnly, .. } => "; it is a replica, or lost its own",
        _ => "",
    };
    StoreError::Unavailable { detail: format!("Redis says: {said}{advice}") }
}
