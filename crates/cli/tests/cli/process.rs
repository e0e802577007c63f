//! Runs the binary.

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};

/// A folder of its own, removed afterwards.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("paceline-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    pub(crate) fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Left over in the folder for temporary files at worst.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The binary with nothing of this machine's environment.
pub(crate) fn paceline(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_paceline"));
    command.args(args).env_clear().stdin(Stdio::null());
    command
}

/// Status, standard output and standard error of a command that ends by itself.
pub(crate) fn run(args: &[&str]) -> (Option<i32>, String, String) {
    let output = paceline(args).output().expect("the binary runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// A running `paceline mock-provider`; killed at the end.
pub(crate) struct Mock {
    child: Child,
    pub(crate) http: String,
}

impl Mock {
    /// Starts it on a free port and waits for its first line.
    pub(crate) fn start(args: &[&str]) -> Self {
        let mut child = paceline(&["mock-provider"]).args(args).stdout(Stdio::piped()).spawn().expect("the binary runs");
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let http = line.trim_end().strip_prefix("listening http=").unwrap_or_else(|| panic!("{line:?}")).to_owned();
        Self { child, http }
    }
}

impl Drop for Mock {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A running `paceline serve`; killed when a test fails.
pub(crate) struct Serving {
    child: Child,
    pub(crate) grpc: String,
    pub(crate) http: String,
}

impl Serving {
    /// Starts it on free ports and waits for its first line.
    pub(crate) fn start(args: &[&str], variables: &[(&str, &str)]) -> Self {
        Self::start_in(".", args, variables)
    }

    /// The same in a folder.
    pub(crate) fn start_in(folder: &str, args: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut command = paceline(&["serve"]);
        command.current_dir(folder);
        command.args(args).envs(variables.iter().copied()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary runs");
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let addrs = line.trim_end().strip_prefix("listening grpc=").and_then(|rest| rest.split_once(" http="));
        let Some((grpc, http)) = addrs else {
            let mut why = String::new();
            child.stderr.take().unwrap().read_to_string(&mut why).unwrap();
            panic!("{line:?} instead of the addresses: {why}");
        };
        Self { grpc: grpc.to_owned(), http: http.to_owned(), child }
    }

    /// Sends a signal by name.
    #[cfg(unix)]
    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([&format!("-{name}"), &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// What it logs from now on, as it comes.
    #[cfg(target_os = "linux")]
    pub(crate) fn log(&mut self) -> std::sync::mpsc::Receiver<String> {
        let (sender, lines) = std::sync::mpsc::channel();
        let errors = BufReader::new(self.child.stderr.take().expect("it is taken once"));
        std::thread::spawn(move || errors.lines().map_while(Result::ok).all(|line| sender.send(line).is_ok()));
        lines
    }

    /// A figure of its memory, as the system counts it, in MiB.
    #[cfg(target_os = "linux")]
    pub(crate) fn memory_mib(&self, figure: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(figure)?.strip_prefix(':')).unwrap();
        line.split_whitespace().next().unwrap().parse::<u64>().unwrap() / 1_024
    }

    /// How it ended, and all it logged.
    pub(crate) fn ended(mut self) -> (ExitStatus, String) {
        let mut log = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut log).unwrap();
        (self.child.wait().unwrap(), log)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // Gone already when all went well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
