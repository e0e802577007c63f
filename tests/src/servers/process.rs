//! One server process.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::certificates::Certificates;
use super::{Answer, Client, Flavour, free_port};

/// How often another port is tried when somebody was faster.
const MOST_TRIES: usize = 10;
/// How long a server may take to answer.
const READY_WITHIN: Duration = Duration::from_secs(20);

/// How to start a server.
#[derive(Clone, Debug, Default)]
pub struct Options {
    flavour: Option<Flavour>,
    lines: Vec<String>,
    tls: bool,
    certificates: Option<Certificates>,
    password: Option<String>,
    socket: bool,
    port: Option<u16>,
    sentinel: bool,
}

impl Options {
    /// Redis with nothing special.
    pub fn new() -> Self {
        Self::default()
    }

    /// Another one's server.
    #[must_use]
    pub fn flavour(mut self, flavour: Flavour) -> Self {
        self.flavour = Some(flavour);
        self
    }

    /// A line of its configuration.
    #[must_use]
    pub fn line(mut self, line: &str) -> Self {
        self.lines.push(line.to_owned());
        self
    }

    /// With TLS on a second port, which asks for client certificates; see [`Server::certificates`].
    #[must_use]
    pub fn tls(mut self) -> Self {
        self.tls = true;
        self
    }

    /// The same with somebody else's certificates, so that servers trust each other. They must live as long.
    #[must_use]
    pub fn tls_as(mut self, certificates: &Certificates) -> Self {
        self.certificates = Some(certificates.clone());
        self.tls()
    }

    /// Nobody is served without this password, its own replicas included.
    #[must_use]
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self
    }

    /// With a socket in the file system; see [`Server::socket`].
    #[must_use]
    pub fn socket(mut self) -> Self {
        self.socket = true;
        self
    }

    /// On this port, where it was before.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    pub(super) fn sentinel(mut self) -> Self {
        self.sentinel = true;
        self
    }
}

/// A server that runs; dropped, it is killed and its folder is gone.
pub struct Server {
    options: Options,
    folder: Folder,
    child: Option<Child>,
    port: u16,
    tls_port: u16,
    certificates: Option<Certificates>,
}

impl Server {
    /// Starts Redis with nothing special.
    pub fn redis() -> Self {
        Self::start(Options::new())
    }

    /// Starts a server and waits until it answers.
    pub fn start(options: Options) -> Self {
        let folder = Folder::new();
        let made = || options.tls.then(|| Certificates::make(folder.path()));
        let certificates = options.certificates.clone().or_else(made);
        let mut server = Self { options, folder, child: None, port: 0, tls_port: 0, certificates };
        for _ in 0..MOST_TRIES {
            server.port = server.options.port.unwrap_or_else(free_port);
            server.tls_port = free_port();
            if server.try_start(|answer| !is_loading(answer)) {
                return server;
            }
        }
        panic!("a server for tests does not start; its log says:\n{}", server.log());
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its port for TLS.
    pub fn tls_port(&self) -> u16 {
        self.tls_port
    }

    /// Who it is, and who may come.
    pub fn certificates(&self) -> &Certificates {
        self.certificates.as_ref().expect("started with Options::tls")
    }

    /// Its socket.
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("redis.sock")
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().map(Child::id).expect("it runs")
    }

    /// Its address for clients.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// A connection to it.
    pub fn client(&self) -> Client {
        self.try_client().unwrap_or_else(|| panic!("a server for tests is gone; its log says:\n{}", self.log()))
    }

    /// A connection to it, if it runs.
    pub fn try_client(&self) -> Option<Client> {
        let mut client = Client::connect(self.port)?;
        if let Some(password) = &self.options.password {
            client.try_run(&["AUTH", password]).ok()?;
        }
        Some(client)
    }

    pub(super) fn password(&self) -> Option<&str> {
        self.options.password.as_deref()
    }

    /// A file beside it that is gone when it is.
    pub fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::write(&path, content).expect("a file can be written");
        path
    }

    /// Runs one command on a connection of its own.
    pub fn run(&self, command: &[&str]) -> Answer {
        self.client().run(command)
    }

    /// Runs a command and takes its text apart: `key:value` lines, as INFO writes them.
    pub fn info(&self, section: &str, key: &str) -> String {
        let text = self.run(&["INFO", section]).text();
        let found = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
        found.unwrap_or_else(|| panic!("INFO {section} has no {key}")).trim().to_owned()
    }

    /// Ends it at once, as a crash does.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Starts it again where it was, with what it wrote to disk, if anything.
    pub fn start_again(&mut self) {
        self.start_again_until(|answer| !is_loading(answer));
    }

    /// The same, taking so many microseconds for each key that it loads; returns as soon as it says that it does.
    pub fn start_again_slowly(&mut self, micros_a_key: u32) {
        let slow = [format!("key-load-delay {micros_a_key}"), "loading-process-events-interval-bytes 1024".to_owned()];
        self.options.lines.extend(slow);
        self.start_again_until(is_loading);
    }

    fn start_again_until(&mut self, is_ready: impl Fn(&Answer) -> bool) {
        self.kill();
        for _ in 0..MOST_TRIES {
            if self.try_start(&is_ready) {
                return;
            }
        }
        panic!("a server for tests does not start again; its log says:\n{}", self.log());
    }

    /// Stops it where it is, as a machine that hangs: sockets stay open and nothing answers.
    pub fn freeze(&self) {
        signal("STOP", self.pid());
    }

    /// Lets it go on.
    pub fn thaw(&self) {
        signal("CONT", self.pid());
    }

    /// What it wrote to its log.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// One attempt; `false`: somebody else has the port.
    fn try_start(&mut self, is_ready: impl Fn(&Answer) -> bool) -> bool {
        let folder = self.folder.path();
        let config = folder.join("redis.conf");
        // Sentinels write into their configuration: what is there already is the newer one.
        if !(self.options.sentinel && config.is_file()) {
            fs::write(&config, self.config()).expect("a configuration can be written");
        }
        let log = File::options().create(true).append(true).open(folder.join("log")).expect("a log can be written");
        let mut command: Command = self.options.flavour.unwrap_or(Flavour::Redis).command();
        command.arg(&config).current_dir(folder).stdin(Stdio::null());
        if self.options.sentinel {
            command.arg("--sentinel");
        }
        command.stdout(log.try_clone().expect("a log can be written twice")).stderr(log);
        let mut child = command.spawn().unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        let deadline = Instant::now() + READY_WITHIN;
        loop {
            if child.try_wait().ok().flatten().is_some() {
                return false;
            }
            // Somebody else's server may answer there when ours ends because of it.
            let mut client = Client::connect(self.port);
            let answer = client.as_mut().and_then(|client| client.try_run(&["PING"]).ok());
            if answer.is_some_and(|answer| is_ready(&answer)) && child.try_wait().ok().flatten().is_none() {
                self.child = Some(child);
                return true;
            }
            assert!(Instant::now() < deadline, "a server for tests does not answer; its log says:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn config(&self) -> String {
        let mut lines = vec![format!("port {}", self.port), "bind 127.0.0.1".to_owned(), "protected-mode no".to_owned()];
        if !self.options.sentinel {
            lines.extend(["save \"\"".to_owned(), "appendonly no".to_owned(), "databases 16".to_owned()]);
        }
        if let Some(certificates) = &self.certificates {
            lines.push(format!("tls-port {}", self.tls_port));
            lines.push(format!("tls-cert-file {}", certificates.server_cert().display()));
            lines.push(format!("tls-key-file {}", certificates.server_key().display()));
            lines.push(format!("tls-ca-cert-file {}", certificates.ca().display()));
            lines.push("tls-auth-clients yes".to_owned());
        }
        if let Some(password) = &self.options.password {
            lines.push(format!("requirepass {password}"));
            if !self.options.sentinel {
                lines.push(format!("masterauth {password}"));
            }
        }
        if self.options.socket {
            lines.push(format!("unixsocket {}", self.socket().display()));
        }
        lines.extend(self.options.lines.iter().cloned());
        lines.join("\n") + "\n"
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

fn is_loading(answer: &Answer) -> bool {
    matches!(answer, Answer::Error(text) if text.starts_with("LOADING"))
}

fn signal(name: &str, pid: u32) {
    let sent = Command::new("kill").arg(format!("-{name}")).arg(pid.to_string()).status();
    assert!(sent.is_ok_and(|status| status.success()), "cannot send {name} to a server for tests");
}

/// A folder that is gone when it is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        // Short: the path of a socket has some hundred characters at most.
        let name = format!("paceline-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).expect("a temporary folder can be made");
        Self(path)
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left is in the system's folder for such things.
        let _ = fs::remove_dir_all(&self.0);
    }
}
