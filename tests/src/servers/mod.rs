//! Real servers for tests, each in a folder and on ports of its own: Redis alone, as a pair, as a cluster, behind sentinels;
//! the same with Valkey. They are started without waiting for anything but their readiness, and are killed when the value that
//! stands for them is dropped. A test whose server is not installed fails, and says how to install it.
//!
//! Speaks the servers' protocol itself, over blocking sockets, so that tests of a client do not rely on that client.

mod binaries;
mod certificates;
mod cluster;
mod process;
mod sentinel;
mod wire;

pub use binaries::Flavour;
pub use certificates::Certificates;
pub use cluster::Cluster;
pub use process::{Options, Server};
pub use sentinel::Sentinels;
pub use wire::{Answer, Client};

use std::time::{Duration, Instant};

/// Waits until `is_so`, and panics with `what` when it takes longer than `within`.
pub fn wait_until(what: &str, within: Duration, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + within;
    while !is_so() {
        assert!(Instant::now() < deadline, "after {within:?} still not: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A port that nobody listens on at this moment. Somebody else may take it before we do: who starts a server tries again then.
pub fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    listener.local_addr().expect("it has an address").port()
}
