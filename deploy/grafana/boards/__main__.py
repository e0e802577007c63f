"""Writes the dashboards, or with `--check` says what is wrong with them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from boards import fleet, providers, scope, service, shadow, tenant
from boards.build import file_name, names, queries, shown, written
from boards.catalogue import filled, is_there, labels_of
from boards.model import Board, Note
from boards.promql import findings

FOLDER = Path(__file__).resolve().parents[1] / "dashboards"


def boards() -> list[Board]:
    """Every dashboard that has something to show."""
    every = [one.board() for one in (fleet, scope, providers, shadow, tenant, service)]
    return [one for one in every if has_what_it_needs(one) and shown(one)]


def has_what_it_needs(board: Board) -> bool:
    """Whether the label that a dashboard is about is exported."""
    return board.needs is None or board.needs[1] in (labels_of(board.needs[0]) or ())


def expressions(board: Board) -> Iterator[tuple[str, str]]:
    """Where each expression of a dashboard stands, and the expression as Grafana gets it."""
    for row in shown(board):
        for panel in row.panels:
            for query in queries(panel):
                yield f"{board.title}: {panel.title}: {query.legend}", filled(query.expr, names(board))
    for event in board.events:
        if is_there(event.expr):
            yield f"{board.title}: events: {event.name}", filled(event.expr, names(board))


def problems(board: Board) -> Iterator[str]:
    """What is wrong with a dashboard, leaving its file aside."""
    for place, expr in expressions(board):
        for finding in findings(expr):
            yield f"{place}: {finding}"
    for row in shown(board):
        for panel in row.panels:
            if not isinstance(panel, Note) and not panel.asks.rstrip().endswith((".", "?")):
                yield f"{board.title}: {panel.title}: its description is no sentence"
            if panel.thresholds and len(panel.thresholds) > 1 and not panel.act:
                yield f"{board.title}: {panel.title}: has thresholds and does not say what to do"


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a file would change")
    is_check = parser.parse_args().check
    wrong = [problem for board in boards() for problem in problems(board)]
    texts = {file_name(board): written(board) for board in boards()}
    FOLDER.mkdir(exist_ok=True)
    for path in FOLDER.glob("*.json"):
        if path.name not in texts:
            if is_check:
                wrong.append(f"{path.name} is made by nothing")
            else:
                path.unlink()
    for name, text in texts.items():
        path = FOLDER / name
        if not is_check:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            wrong.append(f"dashboards/{name} is out of date: run deploy/grafana/generate")
    for problem in wrong:
        print(problem, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
