//! What concerns a fleet: how many replicas there are, where one is reached, and what happens while the store is away.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use paceline_core::plan::StoreDown;

use super::scalars::word;
use crate::model::Written;
use crate::problem::{Problem, Problems};
use crate::redact;
use crate::tree::{Node, Value};

/// The most replicas of a fleet.
const MOST_REPLICAS: i128 = 10_000;
/// The longest name of a host (RFC 1035, section 2.3.4), in bytes.
const LONGEST_HOST: usize = 253;

/// A number of replicas.
pub(crate) fn replicas(node: &Node, path: &str, problems: &mut Problems) -> Option<u32> {
    if let Value::Int(number @ 1..=MOST_REPLICAS) = node.value {
        return u32::try_from(number).ok();
    }
    let message = "this is not a number of replicas";
    problems.add(Problem::at(node.pos, path, message).help("write a whole number from 1 to 10000"));
    None
}

/// What happens to calls while the store is away.
pub(super) fn store_down(node: &Node, path: &str, problems: &mut Problems) -> Option<Written<StoreDown>> {
    let words = StoreDown::ALL.map(|what| (what.name(), what));
    word(node, path, &words, problems).map(|value| Written { value, pos: node.pos })
}

/// Where other replicas reach this one: a name or an IP address, and a port.
pub(crate) fn advertised(node: &Node, path: &str, problems: &mut Problems) -> Option<Arc<str>> {
    let text = node.scalar().unwrap_or_default();
    match check_advertised(&text) {
        Ok(()) => Some(Arc::from(text)),
        Err((what, help)) => {
            let shown = if text.is_empty() { node.kind().to_owned() } else { format!("`{}`", redact::line(&text)) };
            problems.add(Problem::at(node.pos, path, format!("{shown} {what}")).help(help));
            None
        }
    }
}

const WRITE: &str = "write a host and a port that the other replicas can call: 10.1.2.3:7070, or pod-0.paceline:7070";

/// What is wrong with an address, and what to do.
fn check_advertised(text: &str) -> Result<(), (&'static str, String)> {
    let wrong = |what| Err((what, WRITE.to_owned()));
    if let Some((_, rest)) = text.split_once("://") {
        return Err(("is a URL", format!("write only the host and the port: {}", redact::line(rest.trim_end_matches('/')))));
    }
    let Some((host, port)) = text.rsplit_once(':') else { return wrong("names no port") };
    match port.parse::<u16>() {
        Ok(0) => return wrong("names no port: nobody can call port 0"),
        Ok(_) => {}
        Err(_) => return wrong("has no port that is a number from 1 to 65535"),
    }
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let ip = match bare {
        Some(bare) => match bare.parse::<Ipv6Addr>() {
            Ok(ip) => Some(IpAddr::V6(ip)),
            Err(_) => return wrong("has no IPv6 address between its brackets"),
        },
        None if host.contains(':') => return Err(("has an IPv6 address without brackets", format!("write [{host}]:{port}"))),
        None => host.parse().ok(),
    };
    match ip {
        Some(ip) if ip.to_canonical().is_unspecified() => {
            let help = format!(
                "it is every address of a machine and so none to call; write this machine's own, in Kubernetes the pod's: \
                 PACELINE_SERVE_ADVERTISE=$(POD_IP):{port}"
            );
            Err(("cannot be called", help))
        }
        None if !is_host(host) => wrong("has no name of a host before its port"),
        Some(_) | None => Ok(()),
    }
}

/// Whether a text can be the name of a host (RFC 1123, section 2.1; names of containers have underscores).
fn is_host(host: &str) -> bool {
    let is_label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    // Digits and dots alone are an address that cannot be read.
    let is_number = host.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    host.len() <= LONGEST_HOST && !is_number && host.trim_end_matches('.').split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_others_can_call() {
        for text in ["10.1.2.3:7070", "[fd00::1]:7070", "localhost:1", "pod-0.paceline.default.svc.:65535", "my_host:80"] {
            assert_eq!(check_advertised(text), Ok(()), "{text}");
        }
        for text in [
            "",
            ":7070",
            "host",
            "host:",
            "host:0",
            "host:65536",
            "0.0.0.0:7070",
            "[::]:7070",
            "[::ffff:0.0.0.0]:7070",
            "::1:7070",
            "[::1:7070",
            "[host]:7070",
            "http://host:7070",
            "ho st:7070",
            "-host:7070",
            "1.2.3:7070",
            "a..b:1",
            "999.1.1.1:7070",
        ] {
            assert!(check_advertised(text).is_err(), "{text}");
        }
    }
}
