"""What can be wrong with an expression, found without a server: names, labels, and sums that count shared state twice."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import promql_parser as promql

from boards.catalogue import SCRAPED, labels_of, metric_of

# Grafana's own variables, as values of the right form.
MACROS = {"$__rate_interval": "5m", "$__interval": "1m", "$__range": "6h", "$before": "1d"}
# Functions that look at how a value changes: the ones that counters are for.
CHANGES = {"rate", "increase", "irate", "changes", "resets", "last_over_time", "present_over_time"}


def plain(expr: str, values: dict[str, str] | None = None) -> str:
    """The expression with Grafana's variables replaced: macros by lengths of time, choices by `values` or everything."""
    for macro, value in MACROS.items():
        expr = expr.replace(macro, value)
    return re.sub(r"\$(\w+)", lambda match: (values or {}).get(match.group(1), ".*"), expr)


def findings(expr: str) -> Iterator[str]:
    """What is wrong with an expression, in words."""
    try:
        tree = promql.parse(plain(expr))
    except ValueError as why:
        yield f"cannot be parsed: {why}"
        return
    yield from _names(tree)
    yield from _groupings(tree)
    yield from _replicas(tree)
    yield from _counters(tree, is_changing=False)


def selectors(tree: promql.Expr) -> list[promql.VectorSelector]:
    """Every selector in a tree."""
    if isinstance(tree, promql.MatrixSelector):
        return [tree.vector_selector]
    if isinstance(tree, promql.VectorSelector):
        return [tree]
    return [found for child in children(tree) for found in selectors(child)]


def children(tree: promql.Expr) -> list[promql.Expr]:
    """The expressions that an expression is made of."""
    match tree:
        case promql.BinaryExpr():
            return [tree.lhs, tree.rhs]
        case promql.Call():
            return list(tree.args)
        case promql.AggregateExpr() | promql.ParenExpr() | promql.UnaryExpr() | promql.SubqueryExpr():
            return [tree.expr]
        case _:
            return []


def _names(tree: promql.Expr) -> Iterator[str]:
    for selector in selectors(tree):
        labels = labels_of(selector.name or "")
        if labels is None:
            yield f"{selector.name} is not in docs/reference/metrics.json"
            continue
        for matcher in selector.matchers.matchers:
            if matcher.name not in labels:
                yield f"{selector.name} has no label {matcher.name}"


def _groupings(tree: promql.Expr) -> Iterator[str]:
    for child in children(tree):
        yield from _groupings(child)
    if any(labels_of(found.name or "") is None for found in selectors(tree)):
        return
    if isinstance(tree, promql.AggregateExpr) and tree.modifier is not None:
        there = {label for found in selectors(tree.expr) for label in labels_of(found.name or "") or ()} | SCRAPED
        made = set(re.findall(r'label_(?:replace|join)\(.*?, "(\w+)"', tree.expr.prettify(), re.DOTALL))
        for label in set(tree.modifier.labels) - there - made:
            yield f"groups by {label}, which nothing in it has"


def _replicas(tree: promql.Expr) -> Iterator[str]:
    """Shared state must meet `max` or `min` before anything else: every replica that shows it shows the whole."""
    raw = _unmerged(tree)
    problems: list[str] = []
    _sums(tree, problems.append)
    yield from problems
    for name in sorted(raw):
        metric = metric_of(name)
        if metric is not None and metric.across == "whole":
            yield f"{name} is shared state and would show once for each replica: take max by (...) of it"


def _unmerged(tree: promql.Expr) -> set[str]:
    """Gauges that no max or min has merged yet."""
    if isinstance(tree, promql.VectorSelector):
        metric = metric_of(tree.name or "")
        return {tree.name or ""} if metric is not None and metric.across != "parts" else set()
    if isinstance(tree, promql.MatrixSelector):
        return _unmerged(tree.vector_selector)
    below = {name for child in children(tree) for name in _unmerged(child)}
    if isinstance(tree, promql.AggregateExpr) and str(tree.op) in {"max", "min", "group"}:
        return set()
    if isinstance(tree, promql.BinaryExpr) and str(tree.op) in {"and", "unless"}:
        return _unmerged(tree.lhs)
    return below


def _sums(tree: promql.Expr, tell: Callable[[str], None]) -> None:
    for child in children(tree):
        _sums(child, tell)
    if isinstance(tree, promql.AggregateExpr) and str(tree.op) not in {"max", "min", "group", "count"}:
        for name in sorted(_unmerged(tree.expr)):
            tell(f"{tree.op} of {name} counts what every replica tells: take max by (...) of it first")


def _counters(tree: promql.Expr, *, is_changing: bool) -> Iterator[str]:
    match tree:
        case promql.VectorSelector() if not is_changing:
            name = tree.name or ""
            metric = metric_of(name)
            if metric is not None and metric.kind != "gauge":
                yield f"{name} only grows: ask for its rate or increase"
        case promql.MatrixSelector():
            yield from _counters(tree.vector_selector, is_changing=is_changing)
        case promql.Call():
            name = tree.func.name
            for child in tree.args:
                yield from _counters(child, is_changing=is_changing or name in CHANGES)
            if name in {"rate", "increase", "irate"}:
                for found in selectors(tree):
                    metric = metric_of(found.name or "")
                    if metric is not None and metric.kind == "gauge":
                        yield f"{name} of {found.name}, which is a gauge"
        case _:
            for child in children(tree):
                yield from _counters(child, is_changing=is_changing)
