"""Every expression of a panel or a rule returns data from a Prometheus that scrapes a real fleet."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import promql_parser as promql
import pytest
from scene import SOURCES_THAT_WAIT, Scene, played
from test_rules import ids, rules

from boards.__main__ import boards, expressions
from boards.promql import plain, selectors
from boards.wanted import LABELS, METRICS

# What this short play does not bring about: the series are there, and what is asked of them does not come to pass.
RARE = {
    "Learned limits that swing": "a limit has to change back and forth within an hour",
    "Taken by others": "answers have to show for minutes that more is taken than was granted",
    "Steps of Redis' clock": "Redis' clock would have to be set",
    "State lost, rolled back, repaired": "the store would have to lose its state",
    "Leases that nobody reported": "a series that begins with its first event has no rate yet",
    "Leases without a report, slots used late": "a worker has to sleep through its slot",
    "Overtaken": "a leader has to be frozen while calls wait",
    "Accounts that stand for several quotas": "is told after ten minutes",
}


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with played(tmp_path_factory.mktemp("scene")) as running:
        yield running


# What takes longer than this play.
LONGER = {
    'rpc_response_status_code!="OK"': "no call of this play fails",
    "paceline_quota_exhausted_in_seconds": "is told when the use of a quota was watched for five minutes",
}


def short(expr: str) -> str:
    """The expression with lengths of time that fit into a play of half a minute."""
    expr = plain(expr.replace("$__range", "60s").replace("$__rate_interval", "10s").replace("$before", "5s"))
    return expr.replace("offset 1m", "offset 3s")


@pytest.mark.parametrize(("place", "expr"), [pytest.param(*one, id=one[0]) for board in boards() for one in expressions(board)])
def test_a_panel_has_data(scene: Scene, place: str, expr: str) -> None:
    if any(metric in expr for metric in LONGER):
        return
    title = place.split(": ")[1]
    found = scene.series(short(expr))
    if title in RARE or (title == "events" and not found):
        found = [series for selector in selectors(promql.parse(short(expr))) for series in scene.series(str(selector.prettify()))]
    assert found, short(expr)


@pytest.mark.parametrize("rule", rules(), ids=ids)
def test_a_rule_selects_what_is_exported(scene: Scene, rule: dict[str, Any]) -> None:
    for selector in selectors(promql.parse(rule["expr"])):
        text = re.sub(r" offset \w+", "", selector.prettify())
        if selector.name in METRICS or selector.name in LONGER or any(re.search(rf"\b{label}[=!]", text) for label in LABELS):
            continue
        assert scene.series(text), text


def test_every_source_of_waiting_happens_and_is_told(scene: Scene) -> None:
    found = scene.series("sum by (source) (paceline_delay_seconds_total) > 0")
    assert {series["metric"]["source"] for series in found} == SOURCES_THAT_WAIT


def test_a_refused_configuration_is_told_at_once(scene: Scene) -> None:
    assert scene.series('ALERTS{alertname="PacelineConfigRefused", alertstate="firing"}')
