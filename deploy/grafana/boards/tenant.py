"""For a team: what we use, what we wait, what retries cost us."""

from __future__ import annotations

from boards.model import CLASSES, KINDS, RED, Board, Column, Lines, Panel, Query, Row, Table, Variable
from boards.parts import EVENTS, rate, share, steps

VARIABLES = [Variable("tenant", "paceline_units_total", is_multi=False), Variable("provider", "paceline_units_total")]


def board() -> Board:
    """The dashboard *Tenant*."""
    return Board(
        uid="paceline-tenant",
        title="Paceline / Tenant",
        about="For one team: what it uses, how long it waits, what its retries cost. Choose the tenant above.",
        variables=VARIABLES,
        events=EVENTS,
        since="now-24h",
        needs=("paceline_units_total", "tenant"),
        rows=[Row("How are we served?", _served()), Row("What do we use?", _used())],
    )


def _served() -> list[Panel]:
    asks = "paceline_tenant_acquires_total"
    return [
        Lines(
            title="Wait, a call",
            asks="How long do our calls wait for their slot, on average, by class?",
            act="Long waits of one class: ask who else is waiting (*Fleet*), or for a larger weight.",
            queries=[
                Query(
                    rate("paceline_tenant_wait_seconds_total", "", "priority")
                    + " / ("
                    + rate(asks, 'outcome=~"granted|denied"', "priority")
                    + " > 0)",
                    "{{priority}}",
                )
            ],
            width=12,
            unit="s",
            colours=CLASSES,
            empty="No call was asked for.",
        ),
        Lines(
            title="Denied, by class",
            asks="How many of our calls were told no?",
            act="`paceline why REQUEST_ID` says why one of them was.",
            queries=[
                Query(
                    share(rate(asks, 'outcome="denied"', "priority"), rate(asks, 'outcome=~"granted|denied"', "priority")),
                    "{{priority}}",
                )
            ],
            width=12,
            unit="percentunit",
            decimals=1,
            thresholds=steps((0.01, RED)),
            colours=CLASSES,
            empty="No call was asked for.",
        ),
    ]


def _used() -> list[Panel]:
    units, cost = "paceline_units_total", "paceline_cost_usd_total"
    retried = rate(units, 'kind="retry", meter="requests"')
    used = rate(units, 'kind=~"first|retry", meter="requests"')
    return [
        Lines(
            title="Calls",
            asks="How many calls do we make, by model?",
            queries=[Query(rate(units, 'kind=~"first|retry", meter="requests"', "model"), "{{model}}")],
            width=8,
            unit="reqps",
            is_stacked=True,
            empty="No call has ended.",
        ),
        Lines(
            title="Tokens",
            asks="How many tokens do we use, by model?",
            queries=[Query(rate(units, 'kind=~"first|retry", meter="tokens"', "model"), "{{model}}")],
            width=8,
            is_stacked=True,
            axis="tokens a second",
            empty="No tokens were used.",
        ),
        Lines(
            title="Retried",
            asks="Which part of our calls were second or later attempts?",
            act="Above the line (20 %): do we retry on our own as well? One layer is to retry, not three.",
            queries=[Query(share(retried, used), "retries")],
            width=8,
            unit="percentunit",
            decimals=1,
            thresholds=steps((0.2, RED)),
            colours={"retries": KINDS["retry"]},
            empty="No call has ended.",
        ),
        Lines(
            title="Money, an hour",
            asks="What do we spend, by first try and retry? Where prices are configured.",
            queries=[Query("3600 * " + rate(cost, 'kind=~"first|retry"', "kind"), "{{kind}}")],
            width=8,
            unit="currencyUSD",
            is_stacked=True,
            colours=KINDS,
            empty="No prices are configured.",
        ),
        Table(
            title="In the time shown",
            asks="What did we use and spend, by model?",
            queries=[
                Query(
                    'sum by (provider, model) (increase(paceline_units_total{kind=~"first|retry", meter="requests"}[$__range]))',
                    "calls",
                ),
                Query(
                    'sum by (provider, model) (increase(paceline_units_total{kind=~"first|retry", meter="tokens"}[$__range]))',
                    "tokens",
                ),
                Query('sum by (provider, model) (increase(paceline_cost_usd_total{kind=~"first|retry"}[$__range]))', "cost"),
                Query('sum by (provider, model) (increase(paceline_cost_usd_total{kind="retry"}[$__range]))', "of it retries"),
            ],
            width=16,
            keys=["provider", "model"],
            columns=[
                Column("calls", "short", 0),
                Column("tokens", "short", 0),
                Column("cost", "currencyUSD", 2),
                Column("of it retries", "currencyUSD", 2),
            ],
            sort_by="calls",
            empty="No call has ended.",
        ),
    ]
