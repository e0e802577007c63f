"""Dashboards: what is shown, said and linked."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models import dashboard

from boards import fleet, providers, scope, service, shadow, tenant
from boards.__main__ import FOLDER, boards, expressions, problems
from boards.catalogue import ROOT, catalogue, labels_of
from boards.model import Board, Note
from boards.promql import plain, selectors
from boards.wanted import METRICS


def title(board: Board) -> str:
    """A dashboard's name."""
    return board.title


@pytest.mark.parametrize("board", boards(), ids=title)
def test_nothing_is_wrong_with_a_dashboard(board: Board) -> None:
    assert list(problems(board)) == []


def test_every_metric_is_looked_at_by_a_panel_or_an_alert() -> None:
    import promql_parser

    rules = yaml.safe_load((ROOT / "deploy/prometheus/paceline.rules.yaml").read_text())["groups"]
    exprs = [plain(expr) for board in boards() for _, expr in expressions(board)]
    exprs += [rule["expr"] for group in rules for rule in group["rules"]]
    used = {
        re.sub("_(bucket|sum|count)$", "", found.name or "") for expr in exprs for found in selectors(promql_parser.parse(expr))
    }
    assert set(catalogue()) - used == set(), "no panel and no alert looks at these"


def test_what_is_there_is_no_longer_wanted() -> None:
    assert {name for name in METRICS if labels_of(name) is not None} == set(), "remove them from boards/wanted.py"


def test_what_is_asked_for_is_there_or_wanted() -> None:
    asked = {
        name
        for board in boards()
        for row in board.rows
        for panel in row.panels
        for query in panel.queries
        for name in re.findall(r"\b(?:paceline|process|rpc)_\w+\b", query.expr)
    }
    bare = {re.sub("_(bucket|sum|count)$", "", name) if labels_of(name) is None else name for name in asked}
    unknown = {name for name in bare if labels_of(name) is None and name not in METRICS}
    assert unknown - {"rpc_method", "rpc_response_status_code"} == set()


def test_every_panel_explains_itself_and_every_dashboard_links_to_the_others() -> None:
    uids = set()
    for path in sorted(FOLDER.glob("*.json")):
        made = json.loads(path.read_text())
        uids.add(made["uid"])
        assert made["links"][0]["tags"] == made["tags"] == ["paceline"]
        for panel in made["panels"]:
            if panel["type"] in {"row", "text"}:
                continue
            assert len(panel["description"]) > 20, panel["title"]
            assert panel["fieldConfig"]["defaults"]["noValue"], f"{panel['title']} says nothing when it is empty"
    for text in FOLDER.glob("*.json"):
        for linked in re.findall(r'"/d/([a-z-]+)/', text.read_text()):
            assert linked in uids


def test_panels_name_panels_and_runbooks_that_exist() -> None:
    titles = {panel.title for board in boards() for row in board.rows for panel in row.panels}
    titles |= {board.title.removeprefix("Paceline / ") for board in boards()}
    pages = {path.stem for path in (ROOT / "docs/operating/runbooks").glob("*.md")}
    for board in boards():
        for row in board.rows:
            for panel in row.panels:
                if isinstance(panel, Note):
                    continue
                for name in re.findall(r"[Rr]unbook `([a-z-]+)`", panel.description):
                    assert name in pages, f"{panel.title} names {name}"
                for name in re.findall(r"\*([A-Z][^*]+)\*", panel.description):
                    assert name in titles | {column.capitalize() for column in columns()}, f"{panel.title} names {name}"


def test_runbooks_name_panels_that_exist() -> None:
    every = [fleet, scope, providers, shadow, tenant, service]
    made = [module.board() for module in every]
    titles = {panel.title for board in made for row in board.rows for panel in row.panels}
    titles |= {board.title.removeprefix("Paceline / ") for board in made}
    titles |= {
        query.legend.capitalize() for board in made for row in board.rows for panel in row.panels for query in panel.queries
    }
    for page in sorted((ROOT / "docs/operating/runbooks").glob("*.md")):
        for name in re.findall(r"(?<!\*)\*([A-Z][^*\n]+)\*(?!\*)", page.read_text()):
            assert name in titles, f"{page.name} names {name}"


def columns() -> set[str]:
    """The names of all columns of tables."""
    return {query.legend for board in boards() for row in board.rows for panel in row.panels for query in panel.queries}


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.json")), ids=lambda path: path.name)
def test_grafanas_own_types_read_what_is_written(path: Path) -> None:
    register_default_plugins()
    made = json.loads(path.read_text())
    read = dashboard.Dashboard.from_json(made)
    assert read.uid == made["uid"]
    again = json.loads(json.dumps(read, cls=JSONEncoder))
    for written, kept in zip(made["panels"], again["panels"], strict=True):
        assert kept.get("targets") == written.get("targets"), written["title"]
        assert kept.get("fieldConfig") == written.get("fieldConfig"), written["title"]
        assert kept.get("options") == written.get("options"), written["title"]
