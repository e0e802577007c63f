//! Where other replicas reach this one, and what to say when they cannot.

use std::net::SocketAddr;
use std::sync::Arc;

use paceline_config::{Config, Listen};

/// What kind of store a replica has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// One that other replicas use too.
    Shared,
    /// One in this process that somebody handed to it, and may have handed to others in the process.
    MaybeShared,
    /// One of its own.
    Own,
}

/// The address that others are told: the one that is configured, else the one that is bound, unless that is a wildcard.
pub(crate) fn address(listen: &Listen, bound: SocketAddr, sharing: Sharing) -> Option<Arc<str>> {
    if sharing == Sharing::Own {
        return None;
    }
    let callable = (!bound.ip().to_canonical().is_unspecified()).then(|| Arc::from(bound.to_string()));
    listen.advertise.clone().or(callable)
}

/// What is valid and will surprise who runs a fleet.
pub(crate) fn warning(config: &Config, address: Option<&str>, sharing: Sharing) -> Option<String> {
    match (sharing, address) {
        (Sharing::Shared, None) => Some(
            "no other replica can reach this one: it listens on every address and advertises none; calls cannot be sent on to \
             it, so order among the callers of different replicas is only approximate; set listen.advertise (--advertise, \
             PACELINE_SERVE_ADVERTISE) to this machine's address and gRPC port"
                .to_owned(),
        ),
        (Sharing::Own, _) if config.expected_replicas() > 1 => Some(format!(
            "expected_replicas is {}, but the state is in this process's memory: each replica would give out the whole limit; \
             set store to one that all of them use",
            config.expected_replicas()
        )),
        _ => None,
    }
}

/// The store is away at the start, so replicas cannot see each other: what that may cost.
pub(crate) fn unseen(config: &Config) -> Option<&'static str> {
    let warning =
        "replicas that nobody has seen yet may each take the whole limit: set expected_replicas / --expected-replicas";
    (config.expected_replicas() == 1).then_some(warning)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Config {
        Config::parse(text, "paceline.yaml").expect("valid")
    }

    #[test]
    fn the_configured_address_else_the_bound_one() {
        let told = |text: &str, bound: &str, sharing| {
            address(config(text).listen(), bound.parse().expect("an address"), sharing).map(|address| address.to_string())
        };
        let written = "listen: {advertise: pod-0.paceline:7070}";
        for (text, bound, sharing, expected) in [
            (written, "0.0.0.0:7070", Sharing::Shared, Some("pod-0.paceline:7070")),
            (written, "0.0.0.0:7070", Sharing::Own, None),
            ("", "10.0.0.1:7070", Sharing::Shared, Some("10.0.0.1:7070")),
            ("", "127.0.0.1:34567", Sharing::MaybeShared, Some("127.0.0.1:34567")),
            ("", "[::1]:7070", Sharing::Shared, Some("[::1]:7070")),
            ("", "0.0.0.0:7070", Sharing::Shared, None),
            ("", "[::]:7070", Sharing::Shared, None),
            ("", "10.0.0.1:7070", Sharing::Own, None),
        ] {
            assert_eq!(told(text, bound, sharing).as_deref(), expected, "{text} {bound} {sharing:?}");
        }
    }

    #[test]
    fn who_runs_a_fleet_is_warned_of_what_cannot_work() {
        let unreachable = warning(&config(""), None, Sharing::Shared);
        assert!(unreachable.is_some_and(|said| said.contains("--advertise")));
        let multiplied = warning(&config("expected_replicas: 3"), None, Sharing::Own);
        assert!(multiplied.is_some_and(|said| said.contains("expected_replicas is 3")));
        assert_eq!(warning(&config("expected_replicas: 3"), Some("a:1"), Sharing::Shared), None);
        assert_eq!(warning(&config(""), None, Sharing::Own), None);
        assert!(unseen(&config("")).is_some_and(|said| said.contains("--expected-replicas")));
        assert_eq!(unseen(&config("expected_replicas: 3")), None);
    }
}
