//! The worker's process, and all that it started: begun, stopped for a while, killed, begun again.

use std::ffi::OsString;
use std::io;
use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::{Child, Command};
use tokio::time::sleep;

use super::ConformanceError;

/// A worker that the kit has started.
pub(super) struct Worker {
    command: Vec<OsString>,
    http: SocketAddr,
    grpc: SocketAddr,
    child: Child,
}

impl Worker {
    /// Starts it, if there is one to start. What it prints goes to standard error.
    ///
    /// # Errors
    /// There is no such program.
    pub(super) fn start(command: &[OsString], http: SocketAddr, grpc: SocketAddr) -> Result<Option<Self>, ConformanceError> {
        if command.is_empty() {
            return Ok(None);
        }
        let child = spawn(command, http, grpc)?;
        Ok(Some(Self { command: command.to_vec(), http, grpc, child }))
    }

    /// Waits until it ends by itself; says how.
    pub(super) async fn exited(&mut self) -> String {
        self.child.wait().await.map_or_else(|error| error.to_string(), |status| status.to_string())
    }

    /// Lets it stand still, as a machine that is suspended or a process that is starved does.
    pub(super) fn stand_still(&self, after: Duration, length: Duration) {
        let Some(id) = self.child.id() else { return };
        tokio::spawn(async move {
            sleep(after).await;
            signal(id, "STOP").await;
            sleep(length).await;
            signal(id, "CONT").await;
        });
    }

    /// Kills it.
    pub(super) async fn kill(&mut self) {
        if let Some(id) = self.child.id() {
            signal(id, "KILL").await;
        }
        // Gone already, unless there are no process groups here.
        let _ = self.child.kill().await;
    }

    /// Starts it anew.
    ///
    /// # Errors
    /// It cannot be started again.
    pub(super) fn restart(&mut self) -> Result<(), ConformanceError> {
        self.child = spawn(&self.command, self.http, self.grpc)?;
        Ok(())
    }
}

fn spawn(command: &[OsString], http: SocketAddr, grpc: SocketAddr) -> Result<Child, ConformanceError> {
    let (program, arguments) = command.split_first().ok_or(io::Error::from(io::ErrorKind::InvalidInput))?;
    let mut command = Command::new(program);
    command.args(arguments).env("KIT_URL", format!("http://{http}")).env("PACELINE_ADDR", grpc.to_string());
    command.stdin(Stdio::null()).stdout(Stdio::from(io::stderr())).kill_on_drop(true);
    // A group of its own: what is stopped or killed is also what a wrapper (npx, sh) has started.
    #[cfg(unix)]
    command.process_group(0);
    command.spawn().map_err(|source| ConformanceError::Worker { command: program.clone(), source })
}

/// Sends a signal to a whole group. Where that cannot be done nothing happens, and the situation is not seen.
async fn signal(group: u32, name: &str) {
    let script = format!("kill -{name} -{group}");
    let _ = Command::new("sh").args(["-c", &script]).stdin(Stdio::null()).stderr(Stdio::null()).status().await;
}
