"""The metrics that exist, read from docs/reference/metrics.json, and selectors filled in from them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).resolve().parents[3]
SUFFIXES = ("_bucket", "_sum", "_count")
# What Prometheus adds to every series that it scrapes.
SCRAPED = frozenset({"namespace", "job", "instance"})
# Metrics of Prometheus itself that panels and rules may use.
OTHERS = {
    "ALERTS": frozenset({"alertname", "alertstate", "severity", "provider", "account", "priority"}),
    "up": frozenset[str](),
    "scrape_duration_seconds": frozenset[str](),
    "scrape_samples_scraped": frozenset[str](),
}
# Labels `model` of these name a group of models, which a choice of one model would hide.
GROUPS = "paceline_bucket_"


@dataclass(frozen=True)
class Metric:
    """One metric of the catalogue."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    labels: frozenset[str]
    across: Literal["parts", "whole", "each"]


@cache
def catalogue() -> dict[str, Metric]:
    """Every metric by its name."""
    listed = json.loads((ROOT / "docs/reference/metrics.json").read_text())
    return {one["name"]: Metric(one["name"], one["kind"], frozenset(one["labels"]), one["across"]) for one in listed}


def metric_of(series: str) -> Metric | None:
    """The metric that a series' name belongs to: those of a histogram have suffixes."""
    known = catalogue()
    if series in known:
        return known[series]
    for suffix in SUFFIXES:
        metric = known.get(series.removesuffix(suffix))
        if metric is not None and metric.kind == "histogram" and series.endswith(suffix):
            return metric
    return None


def labels_of(series: str) -> frozenset[str] | None:
    """The labels that a series can have; `None`: nobody exports it."""
    if series in OTHERS:
        return OTHERS[series] | SCRAPED
    metric = metric_of(series)
    if metric is None:
        return None
    return metric.labels | SCRAPED | ({"le"} if series.endswith("_bucket") else frozenset())


_SELECTOR = re.compile(r"(?<![\w:$])(paceline_\w+|process_\w+|rpc_server_\w+|ALERTS|up|scrape_\w+)\b(?!\()(?:\{([^}]*)\})?")


def filled(expr: str, variables: Iterable[str]) -> str:
    """The expression with a matcher for each variable that is a label of the selected metric and is not matched yet."""

    def select(match: re.Match[str]) -> str:
        series, matchers = match.group(1), match.group(2) or ""
        labels = labels_of(series) or frozenset()
        mine = [name for name in variables if name in labels and not re.search(rf"\b{name}\s*[=!]", matchers)]
        # An alert may be of no provider, and what was said for all of them is shown beside each.
        if series == "ALERTS" or series.startswith("paceline_override_"):
            mine = [name for name in mine if name in SCRAPED]
        if series.startswith(GROUPS):
            mine = [name for name in mine if name != "model"]
        parts = [f'{name}=~"${name}"' for name in mine] + ([matchers] if matchers else [])
        return f"{series}{{{', '.join(parts)}}}" if parts else series

    return _SELECTOR.sub(select, expr)


def is_there(expr: str) -> bool:
    """Whether every metric of an expression is exported, with the tenant where it is asked for."""
    found = [labels_of(match.group(1)) for match in _SELECTOR.finditer(expr)]
    is_by_tenant = re.search(r"by \([^)]*\btenant\b", expr) is not None
    return all(labels is not None and (not is_by_tenant or "tenant" in labels) for labels in found)
