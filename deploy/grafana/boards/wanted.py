"""What panels and rules ask for and the service does not export yet: they work by its absence. Empty when all is there."""

METRICS = {
    "paceline_cost_usd_total",
}
# Labels of metrics that are there without them.
LABELS: set[str] = set()
