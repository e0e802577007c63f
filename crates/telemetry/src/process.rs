//! The process as the system sees it, and what runs in it: read when somebody looks.

use std::sync::Arc;
use std::time::Duration;

use opentelemetry::metrics::Meter;

use crate::catalogue::{self, Metric};
use crate::instruments::instrument_name;
use crate::load::Observed;

/// The runtime that runs everything, since the start where it counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Runtime {
    /// Its threads.
    pub workers: u64,
    /// How long they were busy, together.
    pub busy: Duration,
    /// Tasks that are not over.
    pub tasks: u64,
}

/// What the system says of this process; `None`: it does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Process {
    cpu_seconds: Option<f64>,
    resident_bytes: Option<u64>,
    open_fds: Option<u64>,
    most_fds: Option<u64>,
    /// Seconds since 1970.
    started_at: Option<f64>,
}

/// So many ticks of `/proc` are a second: USER_HZ, the same on every architecture that runs this.
const TICKS: f64 = 100.0;

impl Process {
    /// From `/proc`; nothing where there is none.
    fn read() -> Self {
        let text = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let open_fds = std::fs::read_dir("/proc/self/fd").map(|entries| u64::try_from(entries.count()).unwrap_or(u64::MAX));
        Self {
            open_fds: open_fds.ok(),
            ..Self::of(&text("/proc/self/stat"), &text("/proc/self/status"), &text("/proc/self/limits"), &text("/proc/stat"))
        }
    }

    /// From the text of those files (proc(5)).
    fn of(stat: &str, status: &str, limits: &str, machine: &str) -> Self {
        // The second field is a name in parentheses and may hold anything; utime is the 14th, stime the 15th, starttime the 22nd.
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks = |number: usize| fields.get(number - 3)?.parse::<f64>().ok();
        let after = |text: &str, name: &str| -> Option<u64> {
            text.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse().ok())
        };
        let booted = after(machine, "btime");
        Self {
            cpu_seconds: ticks(14).zip(ticks(15)).map(|(user, system)| (user + system) / TICKS),
            resident_bytes: after(status, "VmRSS:").map(|kib| kib.saturating_mul(1_024)),
            open_fds: None,
            most_fds: after(limits, "Max open files"),
            started_at: booted.zip(ticks(22)).map(|(booted, since)| booted as f64 + since / TICKS),
        }
    }
}

/// Registers what is read of the process and its runtime.
pub(crate) fn register(meter: &Meter, observed: &Arc<Observed>) {
    let gauge = |metric: &'static Metric, read: fn(&Process) -> Option<f64>| {
        meter
            .f64_observable_gauge(instrument_name(metric))
            .with_unit(metric.unit)
            .with_description(metric.help)
            .with_callback(move |observer| {
                if let Some(value) = read(&Process::read()) {
                    observer.observe(value, &[]);
                }
            })
            .build();
    };
    gauge(&catalogue::PROCESS_MEMORY, |process| process.resident_bytes.map(|bytes| bytes as f64));
    gauge(&catalogue::PROCESS_OPEN_FDS, |process| process.open_fds.map(|fds| fds as f64));
    gauge(&catalogue::PROCESS_MAX_FDS, |process| process.most_fds.map(|fds| fds as f64));
    gauge(&catalogue::PROCESS_START, |process| process.started_at);

    let seconds = |metric: &'static Metric| {
        meter.f64_observable_counter(instrument_name(metric)).with_unit(metric.unit).with_description(metric.help)
    };
    seconds(&catalogue::PROCESS_CPU)
        .with_callback(|observer| {
            if let Some(seconds) = Process::read().cpu_seconds {
                observer.observe(seconds, &[]);
            }
        })
        .build();
    let of_runtime = observed.clone();
    seconds(&catalogue::RUNTIME_BUSY)
        .with_callback(move |observer| {
            if let Some(runtime) = of_runtime.runtime() {
                observer.observe(runtime.busy.as_secs_f64(), &[]);
            }
        })
        .build();
    let count = |metric: &'static Metric, read: fn(&Runtime) -> u64| {
        let observed = observed.clone();
        meter
            .u64_observable_gauge(instrument_name(metric))
            .with_unit(metric.unit)
            .with_description(metric.help)
            .with_callback(move |observer| {
                if let Some(runtime) = observed.runtime() {
                    observer.observe(read(&runtime), &[]);
                }
            })
            .build();
    };
    count(&catalogue::RUNTIME_WORKERS, |runtime| runtime.workers);
    count(&catalogue::RUNTIME_TASKS, |runtime| runtime.tasks);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_whatever_the_process_is_called() {
        let stat =
            "42 (pace) line) S 1 42 42 0 -1 4194304 1000 0 0 0 250 50 0 0 20 0 9 0 1200 1000000 5000 18446744073709551615";
        let status = "Name:\tpaceline\nVmPeak:\t 99999 kB\nVmRSS:\t   20480 kB\nThreads:\t9\n";
        let limits = "Limit                     Soft Limit           Hard Limit           Units\n\
                      Max open files            1024                 524288               files\n";
        let process = Process::of(stat, status, limits, "cpu 1 2 3\nbtime 1800000000\n");
        assert_eq!(process.cpu_seconds, Some(3.0));
        assert_eq!((process.resident_bytes, process.most_fds), (Some(20_480 * 1_024), Some(1_024)));
        assert_eq!(process.started_at, Some(1_800_000_012.0));
        assert_eq!(Process::of("", "", "Max open files unlimited unlimited files", ""), Process::default());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_has_them() {
        let process = Process::read();
        assert!(process.cpu_seconds.is_some() && process.started_at.is_some(), "{process:?}");
        assert!(
            process.resident_bytes > Some(100_000) && process.open_fds > Some(2) && process.most_fds > Some(2),
            "{process:?}"
        );
    }
}
