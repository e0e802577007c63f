//! The process: its calls, its share of the machine, its runtime.

use super::{Across, Kind, Metric, SeriesBound};
use crate::rpc::{BOUNDS_SECONDS, MAX_RPCS};

/// How long remote calls take.
pub const RPC_DURATION: Metric = Metric {
    name: "rpc_server_call_duration_seconds",
    kind: Kind::Histogram { bounds: &BOUNDS_SECONDS },
    unit: "s",
    labels: &["rpc_system_name", "rpc_method", "rpc_response_status_code"],
    help: "Time from a gRPC call to its end; an Acquire is held while it waits, and a Session is one call as long as it lives.",
    question: "Is the service well: who calls what, how long does it take, what fails?",
    series: SeriesBound::InAll(MAX_RPCS + 1),
};

/// What it costs.
pub const PROCESS_CPU: Metric = Metric {
    name: "process_cpu_seconds_total",
    kind: Kind::Counter,
    unit: "s",
    labels: &[],
    help: "Processor time that this process used.",
    question: "Does a replica need more of the machine than it gets?",
    series: SeriesBound::InAll(1),
};

/// Its memory.
pub const PROCESS_MEMORY: Metric = Metric {
    name: "process_resident_memory_bytes",
    kind: Kind::Gauge(Across::Each),
    unit: "By",
    labels: &[],
    help: "Memory of this process that is in use.",
    question: "Does a replica grow?",
    series: SeriesBound::InAll(1),
};

/// Its files and connections.
pub const PROCESS_OPEN_FDS: Metric = Metric {
    name: "process_open_fds",
    kind: Kind::Gauge(Across::Each),
    unit: "",
    labels: &[],
    help: "File descriptors that are open: one for each connection, and some more.",
    question: "Are there file descriptors left for more connections?",
    series: SeriesBound::InAll(1),
};

/// How many it may have.
pub const PROCESS_MAX_FDS: Metric = Metric {
    name: "process_max_fds",
    kind: Kind::Gauge(Across::Each),
    unit: "",
    labels: &[],
    help: "File descriptors that may be open.",
    question: "Are there file descriptors left for more connections?",
    series: SeriesBound::InAll(1),
};

/// When it started.
pub const PROCESS_START: Metric = Metric {
    name: "process_start_time_seconds",
    kind: Kind::Gauge(Across::Each),
    unit: "s",
    labels: &[],
    help: "When this process started, in seconds since 1970.",
    question: "When was it started again?",
    series: SeriesBound::InAll(1),
};

/// Threads that run everything.
pub const RUNTIME_WORKERS: Metric = Metric {
    name: "paceline_runtime_workers",
    kind: Kind::Gauge(Across::Each),
    unit: "{thread}",
    labels: &[],
    help: "Threads that run the service's tasks.",
    question: "How many processors can a replica use?",
    series: SeriesBound::InAll(1),
};

/// How busy they are.
pub const RUNTIME_BUSY: Metric = Metric {
    name: "paceline_runtime_busy_seconds_total",
    kind: Kind::Counter,
    unit: "s",
    labels: &[],
    help: "Time that those threads were busy, together; its rate over their number is how busy they are.",
    question: "Is a replica at its limit?",
    series: SeriesBound::InAll(1),
};

/// What is under way.
pub const RUNTIME_TASKS: Metric = Metric {
    name: "paceline_runtime_tasks",
    kind: Kind::Gauge(Across::Each),
    unit: "{task}",
    labels: &[],
    help: "Tasks that are not over: one for each connection, each call under way, each scope in use.",
    question: "Do tasks pile up?",
    series: SeriesBound::InAll(1),
};
