"""What is found wrong with an expression, and what is not."""

import pytest

from boards.catalogue import filled, is_there
from boards.promql import findings, plain

RIGHT = [
    "sum by (source) (rate(paceline_delay_seconds_total[$__rate_interval]))",
    "max by (bucket) (paceline_bucket_level)",
    "sum(max by (provider, account) (paceline_inflight)) or vector(0)",
    "sum by (priority) (paceline_queue_depth)",
    "avg(max by (provider, account) (paceline_mode{mode='shadow'}))",
    "histogram_quantile(0.99, sum by (le, priority) (rate(paceline_wait_seconds_bucket[5m])))",
    "count(count by (hash) (paceline_config_hash_info))",
    "max by (instance) (scrape_duration_seconds and on (instance) paceline_build_info)",
]
WRONG = {
    "sum(": "cannot be parsed",
    "rate(paceline_nothing_total[5m])": "is not in docs/reference/metrics.json",
    "rate(paceline_acquires_total{outcom='granted'}[5m])": "has no label outcom",
    "sum by (tier) (rate(paceline_acquires_total[5m]))": "groups by tier",
    "paceline_bucket_level": "shared state",
    "sum(paceline_bucket_level)": "counts what every replica tells",
    "sum by (bucket) (paceline_bucket_level / paceline_bucket_limit)": "counts what every replica tells",
    "topk(3, paceline_inflight)": "counts what every replica tells",
    "avg(paceline_config_stale)": "counts what every replica tells",
    "sum(paceline_acquires_total)": "only grows",
    "rate(paceline_degraded[5m])": "which is a gauge",
}


@pytest.mark.parametrize("expr", RIGHT)
def test_what_is_right_passes(expr: str) -> None:
    assert list(findings(expr)) == []


@pytest.mark.parametrize("expr", WRONG)
def test_what_is_wrong_is_said(expr: str) -> None:
    assert any(WRONG[expr] in finding for finding in findings(expr)), list(findings(expr))


def test_selectors_are_filled_with_the_variables_that_a_metric_has() -> None:
    variables = ["namespace", "provider", "model"]
    assert filled("paceline_wait_seconds_count", variables) == (
        'paceline_wait_seconds_count{namespace=~"$namespace", provider=~"$provider"}'
    )
    assert filled('rate(paceline_acquires_total{model="x"}[5m])', variables) == (
        'rate(paceline_acquires_total{namespace=~"$namespace", provider=~"$provider", model="x"}[5m])'
    )
    # The group of a bucket is no model; an alert may have no provider.
    assert "model" not in filled("paceline_bucket_level", variables)
    assert filled('ALERTS{alertname="x"}', variables) == 'ALERTS{namespace=~"$namespace", alertname="x"}'


def test_variables_become_values() -> None:
    assert plain('x{a=~"$a", b=~"$b"}[$__rate_interval]', {"a": "one"}) == 'x{a=~"one", b=~".*"}[5m]'


def test_what_nobody_exports_is_known() -> None:
    assert is_there("paceline_mode > 0")
    assert not is_there("paceline_mode > on () paceline_nothing")
