"""What panels and rules ask for and the service does not export yet: they work by its absence. Empty when all is there."""

METRICS = {
    "paceline_ready",
    "paceline_calls_alone_total",
    "paceline_breaker_open",
    "paceline_cost_usd_total",
    "paceline_override_active",
    "paceline_override_ends_in_seconds",
    "paceline_quota_exhausted_in_seconds",
    "paceline_quota_resets_in_seconds",
    "paceline_tenant_acquires_total",
    "paceline_tenant_wait_seconds_total",
    "paceline_utilization",
    "process_cpu_seconds_total",
    "process_max_fds",
    "process_open_fds",
    "process_resident_memory_bytes",
    "rpc_server_call_duration_seconds",
}
# Labels of metrics that are there without them.
LABELS = {"policy", "tenant"}
