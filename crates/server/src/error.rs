//! Why the service cannot run, in words that say what to do.

use std::io;
use std::net::SocketAddr;

use paceline_config::ConfigErrors;
use paceline_coordinator::api::CallError;

/// Why the service cannot start, or stopped by itself.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The configuration is wrong.
    #[error("{0}")]
    Config(#[from] ConfigErrors),
    /// An address cannot be listened on.
    #[error("cannot listen on {addr} for {what}: {}", listen_advice(.source, *.addr, .flag))]
    Listen {
        /// `gRPC` or `HTTP`.
        what: &'static str,
        /// What was asked for.
        addr: SocketAddr,
        /// The flag that sets it.
        flag: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The instruments cannot be set up.
    #[error(transparent)]
    Telemetry(#[from] paceline_telemetry::Error),
    /// Nothing can be pushed to a collector.
    #[error("OTEL_EXPORTER_OTLP_ENDPOINT: nothing can be pushed to {endpoint}: {problem}")]
    Otlp {
        /// The address.
        endpoint: String,
        /// What is wrong with it.
        problem: String,
    },
    /// Calls cannot be recorded.
    #[error("cannot record to {file}: {problem}")]
    Record {
        /// The file.
        file: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The store's address is none.
    #[error("--store, PACELINE_SERVE_STORE or `store:`: {0}")]
    StoreAddress(#[from] paceline_store::UrlError),
    /// The store's address leads to a server that will never do, as it is.
    #[error("the store {store} cannot be used, and waiting would not help: {what}")]
    WrongStore {
        /// Its address, without secrets.
        store: String,
        /// What is wrong, where, and what to do.
        what: String,
    },
    /// The store does not work.
    #[error("cannot start: {0}")]
    Store(#[from] CallError),
    /// The contract cannot be described by reflection: a broken build.
    #[error("reflection cannot be set up: {0}")]
    Reflection(#[from] tonic_reflection::server::Error),
    /// A listener ended although nobody asked it to.
    #[error("the {what} listener stopped: {why}")]
    Stopped {
        /// `gRPC` or `HTTP`.
        what: &'static str,
        /// What it said.
        why: String,
    },
}

impl ServeError {
    /// Whether what it was started with is wrong, so that starting it again changes nothing.
    pub fn is_mistake(&self) -> bool {
        match self {
            Self::StoreAddress(_) | Self::WrongStore { .. } => true,
            Self::Config(errors) => errors.are_of_flags(),
            _ => false,
        }
    }
}

fn listen_advice(source: &io::Error, addr: SocketAddr, flag: &str) -> String {
    let port = addr.port();
    match source.kind() {
        io::ErrorKind::AddrInUse => format!(
            "something listens there already (another paceline?); stop it, or choose another address with `{flag} {}:0` \
             (port 0 picks a free one)",
            addr.ip()
        ),
        io::ErrorKind::PermissionDenied => {
            format!("{source}; ports below 1024 need rights: choose another one than {port} with `{flag}`")
        }
        io::ErrorKind::AddrNotAvailable => format!(
            "this machine does not have the address {}; `{flag} 127.0.0.1:{port}` is this machine only, `{flag} 0.0.0.0:{port}` \
             everybody",
            addr.ip()
        ),
        _ => source.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_cannot_be_had_says_what_to_do() {
        for (kind, words) in [
            (io::ErrorKind::AddrInUse, ["another paceline", "--grpc 10.0.0.1:0"]),
            (io::ErrorKind::PermissionDenied, ["below 1024", "--grpc"]),
            (io::ErrorKind::AddrNotAvailable, ["does not have", "--grpc 127.0.0.1:80"]),
        ] {
            let addr = "10.0.0.1:80".parse().unwrap();
            let error = ServeError::Listen { what: "gRPC", addr, flag: "--grpc", source: kind.into() }.to_string();
            assert!(words.iter().all(|word| error.contains(word)), "{error}");
        }
    }
}
