"""What panels and rules ask for and the service does not export yet: they work by its absence. Empty when all is there."""

METRICS = {
    "paceline_cost_usd_total",
    "paceline_override_active",
    "paceline_override_ends_in_seconds",
}
# Labels of metrics that are there without them.
LABELS: set[str] = set()
