//! A TCP proxy whose faults are switched while it runs: delay, black hole, half-open, refusal; and whose other end may change.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often a stuck pump looks whether its fault is over.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// What is done to the bytes that pass.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Fault {
    /// What comes from the server is held back for this long ...
    pub delay: Duration,
    /// ... in this share of the pieces that pass, from 0 to 1.
    pub share: f64,
    /// Nothing passes, in either direction, and nobody is told.
    pub drop: bool,
    /// Nothing passes from the server; what is sent to it arrives.
    pub mute: bool,
    /// New connections are closed at once.
    pub refuse: bool,
}

/// A proxy; dropped, it closes everything.
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    to: AtomicU16,
    fault: Mutex<Fault>,
    /// Both ends of each connection, by its number.
    open: Mutex<HashMap<u64, (TcpStream, TcpStream)>>,
    accepted: Mutex<Vec<Instant>>,
    count: AtomicU64,
    over: AtomicBool,
}

impl Proxy {
    /// A proxy before a port of this machine, without a fault.
    pub fn before(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let shared = Arc::new(Shared {
            to: AtomicU16::new(port),
            fault: Mutex::default(),
            open: Mutex::default(),
            accepted: Mutex::default(),
            count: AtomicU64::new(0),
            over: AtomicBool::new(false),
        });
        let proxy = Self { port: listener.local_addr().expect("it has an address").port(), shared: shared.clone() };
        std::thread::spawn(move || accept(&listener, &shared));
        proxy
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// From now on this happens.
    pub fn set(&self, fault: Fault) {
        *lock(&self.shared.fault) = fault;
    }

    /// From now on nothing happens; what was held back passes.
    pub fn heal(&self) {
        self.set(Fault::default());
    }

    /// New connections lead here; those that are open stay as they are.
    pub fn lead_to(&self, port: u16) {
        self.shared.to.store(port, Ordering::SeqCst);
    }

    /// Closes all connections.
    pub fn cut(&self) {
        for (_, (client, server)) in lock(&self.shared.open).drain() {
            // They may be closed already.
            let _ = client.shutdown(Shutdown::Both);
            let _ = server.shutdown(Shutdown::Both);
        }
    }

    /// When connections came, refused ones too.
    pub fn accepted(&self) -> Vec<Instant> {
        lock(&self.shared.accepted).clone()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::SeqCst);
        self.cut();
        // Wakes who accepts.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for client in listener.incoming() {
        if shared.over.load(Ordering::SeqCst) {
            return;
        }
        let Ok(client) = client else { continue };
        lock(&shared.accepted).push(Instant::now());
        if lock(&shared.fault).refuse {
            continue;
        }
        let Ok(server) = TcpStream::connect(("127.0.0.1", shared.to.load(Ordering::SeqCst))) else { continue };
        // Both are sockets of this machine; if it refuses, delays are a little longer.
        let _ = client.set_nodelay(true);
        let _ = server.set_nodelay(true);
        let number = shared.count.fetch_add(1, Ordering::SeqCst);
        let (Ok(to_client), Ok(to_server)) = (client.try_clone(), server.try_clone()) else { continue };
        let (Ok(keep_client), Ok(keep_server)) = (client.try_clone(), server.try_clone()) else { continue };
        lock(&shared.open).insert(number, (keep_client, keep_server));
        for (from, to, back) in [(client, to_server, false), (server, to_client, true)] {
            let shared = shared.clone();
            std::thread::spawn(move || pump(from, to, back, number, &shared));
        }
    }
}

/// Carries bytes one way until an end closes; `back`: from the server.
fn pump(mut from: TcpStream, mut to: TcpStream, back: bool, number: u64, shared: &Shared) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        hold_back(back, number, shared);
        if to.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    // A half that is closed closes the other one, when nothing is dropped: a black hole tells nobody.
    hold_back(back, number, shared);
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
    lock(&shared.open).remove(&number);
}

fn hold_back(back: bool, number: u64, shared: &Shared) {
    let fault = *lock(&shared.fault);
    if back && fault.share > 0.0 && rand_share() < fault.share {
        std::thread::sleep(fault.delay);
    }
    loop {
        let fault = *lock(&shared.fault);
        let stuck = fault.drop || (back && fault.mute);
        if !stuck || shared.over.load(Ordering::SeqCst) || !lock(&shared.open).contains_key(&number) {
            return;
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// A number from 0 to 1; the hasher of the standard library is seeded at random.
fn rand_share() -> f64 {
    use std::hash::{BuildHasher as _, RandomState};
    let bits = RandomState::new().hash_one(Instant::now()) >> 11;
    bits as f64 / (1_u64 << 53) as f64
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
