"""What several dashboards share: expressions, thresholds, events, links."""

from __future__ import annotations

from boards.model import BLUE, CLASSES, GREEN, GREY, ORANGE, PURPLE, RED, YELLOW, Event, Threshold, Variable

RATE = "[$__rate_interval]"
PROVIDER = Variable("provider", "paceline_acquires_total")
ACCOUNT = Variable("account", "paceline_acquires_total")
MODEL = Variable("model", "paceline_acquires_total")
SCOPE = [PROVIDER, ACCOUNT, MODEL]

# The names of firing alerts are these.
ALERTS = 'ALERTS{alertname=~"Paceline.+", alertstate="firing"}'


def firing() -> str:
    """The alerts that fire, by name: 2 for those that page, 1 for the others."""
    every, paging = ALERTS, ALERTS.replace("}", ', severity="page"}')
    return f"max by (alertname) ({every}) + (max by (alertname) ({paging}) or 0 * max by (alertname) ({every}))"


def steps(*bounds: tuple[float, str]) -> list[Threshold]:
    """Green below the first bound, then each colour from its bound on."""
    return [(None, GREEN), *bounds]


def share(part: str, whole: str) -> str:
    """A part of a whole from 0 to 1: 0 where the part has no series yet, nothing where there is no whole."""
    return f"({part} or 0 * {whole}) / ({whole} > 0)"


def rate(metric: str, matchers: str = "", by: str = "", over: str = RATE) -> str:
    """The rate of a counter, summed over replicas."""
    selector = f"{metric}{{{matchers}}}" if matchers else metric
    grouping = f" by ({by})" if by else ""
    return f"sum{grouping} (rate({selector}{over}))"


def denied_share(by: str = "priority", over: str = RATE) -> str:
    """How many of the calls that got an answer were denied."""
    count = "paceline_wait_seconds_count"
    return share(rate(count, 'outcome="denied"', by, over), rate(count, 'outcome=~"granted|denied"', by, over))


def waited(quantile: float, by: str = "priority", matchers: str = 'outcome="granted"') -> str:
    """How long all but the slowest few waited."""
    return f"histogram_quantile({quantile}, sum by (le, {by}) (rate(paceline_wait_seconds_bucket{{{matchers}}}{RATE})))"


def by_class(expr: str) -> str:
    """A gauge by class that is zero for classes without a caller."""
    zeros = [f'label_replace(vector(0), "priority", "{one}", "", "")' for one in CLASSES]
    return " or ".join([expr, *zeros])


# Answers that asked to come back later, of all calls that ended: a call has one report with a verdict.
ENDED = 'verdict!=""'


def refused_share(by: str = "provider", over: str = RATE) -> str:
    """How many of the calls that ended were refused by the provider."""
    return share(rate("paceline_signals_total", "", by, over), rate("paceline_reports_total", ENDED, by, over))


def whole(metric: str, matchers: str = "", by: str = "provider, account, model, bucket") -> str:
    """A gauge of shared state: each replica that shows it shows the whole."""
    selector = f"{metric}{{{matchers}}}" if matchers else metric
    return f"max by ({by}) ({selector})"


EVENTS = [
    Event("Alerts", f"max by (alertname) ({ALERTS})", "{{alertname}} fires", RED),
    Event(
        "Configurations",
        "sum by (result) (increase(paceline_config_reloads_total[2m])) > 0",
        "A changed configuration was {{result}}",
        BLUE,
    ),
    Event(
        "Modes",
        "max by (provider, account, mode) (paceline_mode) != max by (provider, account, mode) (paceline_mode offset 1m)",
        "{{provider}} {{account}}: part in {{mode}} changed",
        PURPLE,
    ),
    Event(
        "Overrides",
        "max by (provider, account, kind) (paceline_override_active) > 0",
        "{{kind}} by hand: {{provider}} {{account}}",
        PURPLE,
    ),
    Event("Without the store", "max by (provider) (paceline_degraded) > 0", "{{provider}}: decided without Redis", ORANGE),
    Event(
        "Learned limits",
        'max by (provider, account, bucket) (paceline_bucket_limit{kind="learned"})'
        ' != max by (provider, account, bucket) (paceline_bucket_limit{kind="learned"} offset 1m)',
        "{{provider}} {{account}}: another limit of {{bucket}} was learned",
        GREY,
    ),
    Event(
        "Replicas",
        "count(paceline_build_info) != count(paceline_build_info offset 1m)",
        "A replica came or went",
        YELLOW,
    ),
]
