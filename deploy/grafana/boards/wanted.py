"""What panels and rules ask for and the service does not export yet: they work by its absence. Empty when all is there."""

METRICS = {
    "paceline_cost_usd_total",
    "paceline_override_active",
    "paceline_override_ends_in_seconds",
    "process_cpu_seconds_total",
    "process_max_fds",
    "process_open_fds",
    "process_resident_memory_bytes",
    "process_start_time_seconds",
    "paceline_runtime_busy_seconds_total",
    "paceline_runtime_tasks",
    "paceline_runtime_workers",
    "rpc_server_call_duration_seconds",
}
# Labels of metrics that are there without them.
LABELS: set[str] = set()
