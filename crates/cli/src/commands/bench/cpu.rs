//! The CPU time of the service's processes, where they run on this machine under Linux.

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use super::BenchError;

/// Linux counts CPU time for processes in hundredths of a second, whatever the kernel's own clock (USER_HZ).
const TICK: Duration = Duration::from_millis(10);
/// The state of a socket that listens (`TCP_LISTEN`), as /proc/net/tcp has it.
const LISTENS: &str = "0A";

/// The processes whose time is counted.
pub(super) struct Cpu {
    pids: Vec<u32>,
}

impl Cpu {
    /// These processes, else those that listen at the addresses on this machine; none when they are elsewhere.
    pub(super) fn of(pids: &[u32], addrs: Vec<SocketAddr>) -> Result<Self, BenchError> {
        let pids = if pids.is_empty() { listening(&addrs) } else { pids.to_vec() };
        let cpu = Self { pids };
        cpu.read()?; // a process that is not there is told now, and not after a minute of load
        Ok(cpu)
    }

    /// The time they used so far; `None` without processes.
    pub(super) fn read(&self) -> Result<Option<Duration>, BenchError> {
        if self.pids.is_empty() {
            return Ok(None);
        }
        let mut sum = Duration::ZERO;
        for pid in &self.pids {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
            let read = stat.map_err(|error| error.to_string()).and_then(|stat| used(&stat).ok_or("it reads oddly".to_owned()));
            sum += read.map_err(|why| BenchError::Pid { pid: *pid, why })?;
        }
        Ok(Some(sum))
    }
}

/// User and system time out of a line of /proc/PID/stat (proc(5): fields 14 and 15; the second is a name in parentheses that may
/// hold anything).
fn used(stat: &str) -> Option<Duration> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_whitespace().skip(11);
    let (user, system): (u32, u32) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some(TICK * user + TICK * system)
}

/// The processes that listen at these addresses, as far as this user may see them; none unless each has one.
fn listening(addrs: &[SocketAddr]) -> Vec<u32> {
    let ports: BTreeSet<u16> = addrs.iter().filter(|addr| addr.ip().is_loopback()).map(SocketAddr::port).collect();
    if ports.len() != addrs.len() {
        return Vec::new();
    }
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| fs::read_to_string(path).unwrap_or_default());
    let inodes: BTreeSet<String> = tables.iter().flat_map(|table| listeners(table, &ports)).collect();
    let mut found: Vec<u32> = pids().into_iter().filter(|pid| holds(*pid, &inodes)).collect();
    found.sort_unstable();
    if found.len() < ports.len() { Vec::new() } else { found }
}

/// The inodes of sockets that listen at one of these ports (proc_net_tcp(5)).
fn listeners(table: &str, ports: &BTreeSet<u16>) -> Vec<String> {
    let inode = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (_, port) = fields.get(1)?.rsplit_once(':')?;
        let port = u16::from_str_radix(port, 16).ok()?;
        let is_one = *fields.get(3)? == LISTENS && ports.contains(&port);
        is_one.then(|| fields.get(9).map(ToString::to_string))?
    };
    table.lines().skip(1).filter_map(inode).collect()
}

fn pids() -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// Whether a process has one of these sockets.
fn holds(pid: u32, inodes: &BTreeSet<String>) -> bool {
    let Ok(entries) = fs::read_dir(Path::new("/proc").join(pid.to_string()).join("fd")) else { return false };
    entries.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok()).any(|link| {
        let name = link.to_string_lossy();
        let inode = name.strip_prefix("socket:[").and_then(|rest| rest.strip_suffix(']'));
        inode.is_some_and(|inode| inodes.contains(inode))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_read_whatever_the_process_is_called() {
        let stat = "4242 (a (b) c d) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20 0 9 0 12345";
        assert_eq!(used(stat), Some(Duration::from_secs(2)));
        assert_eq!(used("4242 (cut"), None);
    }

    #[test]
    fn only_those_that_listen_at_the_port_are_taken() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
                     0: 0100007F:1B9E 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 777 1\n\
                     1: 0100007F:1B9E 0100007F:9999 01 00000000:00000000 00:00000000 00000000  1000        0 778 1\n\
                     2: 0100007F:1B9F 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 779 1\n\
                     cut\n";
        assert_eq!(listeners(table, &BTreeSet::from([7070])), ["777"]);
    }
}
