"""What enforce would do to calls that are only watched, and whether that can be believed."""

from __future__ import annotations

from boards.model import BLUE, GREEN, MODES, ORANGE, Board, Column, Lines, Note, Number, Panel, Query, Row, Table
from boards.parts import EVENTS, SCOPE, rate, share, steps, whole

ASKS = "paceline_shadow_asks_total"
ABOUT = """\
**Is it safe to enforce?** These panels count calls that are only watched. `paceline report --shadow --since 24h` puts the \
same into words, compares what was refused with what would have been, and ends with exit code 1 while the limits are not \
believable yet.

1. *Limits* below: every bucket that matters has a limit, and *learned* is close to *configured*.
2. *Would be denied* is as low as you accept, and its reasons are the ones you expect.
3. *Waits added* is what batch work can bear; interactive work should see hardly any.

Then enforce a part: `mode: {enforce: 10%}` for one account, or \
`paceline mode enforce --provider P --account A --for 30m --reason "try"` to try.
"""


def board() -> Board:
    """The dashboard *Shadow*."""
    return Board(
        uid="paceline-shadow",
        title="Paceline / Shadow",
        about="What enforce would do to calls that are only watched.",
        variables=SCOPE,
        events=EVENTS,
        since="now-24h",
        rows=[
            Row("How to read it", [Note.of("Is it safe to enforce?", ABOUT, 12, 8), *_totals()]),
            Row("What would change for callers?", _callers()),
            Row("What would be gained, and is it believable?", _gain()),
        ],
    )


def _totals() -> list[Panel]:
    def total(title: str, asks: str, expr: str, unit: str = "short", act: str = "") -> Number:
        return Number(title=title, asks=asks, act=act, queries=[Query(expr)], width=4, unit=unit, empty="no call is watched")

    def grown(metric: str) -> str:
        return f"sum(increase({metric}[$__range]))"

    return [
        total("Calls watched", "How many calls were only watched in the time shown?", grown(ASKS)),
        total(
            "Would wait",
            "Which part of them would have waited?",
            share(grown("paceline_shadow_would_wait_total"), grown(ASKS)),
            "percentunit",
        ),
        total(
            "Would be denied",
            "Which part of them would have been told no?",
            share(grown("paceline_shadow_would_deny_total"), grown(ASKS)),
            "percentunit",
        ),
        total(
            "Refusals prevented",
            "How many refusals by the provider would not have happened?",
            grown("paceline_shadow_prevented_total"),
        ),
        total(
            "Wait added, a call",
            "How long would a call have waited on average?",
            f"{grown('paceline_shadow_wait_seconds_total')} / ({grown(ASKS)} > 0)",
            "s",
        ),
        total(
            "Refused now",
            "How many calls did providers refuse, watched or not?",
            "sum(increase(paceline_signals_total[$__range]))",
        ),
    ]


def _callers() -> list[Panel]:
    added = f"{rate('paceline_shadow_wait_seconds_total', '', 'provider, account')} / ({rate(ASKS, '', 'provider, account')} > 0)"
    denied = f"{rate('paceline_shadow_would_deny_total', '', 'reason')} / on () group_left () ({rate(ASKS)} > 0)"

    def part(metric: str, by: str = "provider, account") -> str:
        return share(rate(metric, "", by), rate(ASKS, "", by))

    return [
        Lines(
            title="Would wait",
            asks="Which part of the watched calls would have waited?",
            queries=[Query(part("paceline_shadow_would_wait_total"), "{{provider}} {{account}}")],
            width=8,
            unit="percentunit",
            decimals=0,
            most=1,
            empty="No call is watched.",
        ),
        Lines(
            title="Waits added",
            asks="How long would a watched call have waited, on average over all of them?",
            queries=[
                Query(
                    added,
                    "{{provider}} {{account}}",
                )
            ],
            width=8,
            unit="s",
            empty="No call is watched.",
        ),
        Lines(
            title="Would be denied, by reason",
            asks="Which part of the watched calls would have been told no, and why?",
            act="deadline: calls would wait longer than their class allows; a longer `max_wait`, or more quota, helps.",
            queries=[
                Query(
                    denied,
                    "{{reason}}",
                ),
            ],
            width=8,
            unit="percentunit",
            decimals=1,
            is_stacked=True,
            thresholds=steps((0.01, ORANGE)),
            empty="None would be.",
        ),
    ]


def _gain() -> list[Panel]:
    return [
        Lines(
            title="Refusals now, and prevented if enforced",
            asks="What is there to gain?",
            queries=[
                Query(rate("paceline_signals_total"), "refused now"),
                Query(rate("paceline_shadow_prevented_total"), "would be prevented"),
            ],
            width=8,
            unit="reqps",
            colours={"refused now": "#e02f44", "would be prevented": "#73bf69"},
            empty="No call was refused.",
        ),
        Table(
            title="Limits",
            asks="Are the limits believable? A bucket with neither figure was never told a limit.",
            act="*learned* far from *configured*: correct the file before you enforce.",
            queries=[
                Query(whole("paceline_bucket_limit", 'kind="configured"'), "configured"),
                Query(whole("paceline_bucket_limit", 'kind="learned"'), "learned"),
            ],
            width=9,
            keys=["provider", "account", "model", "bucket"],
            empty="No limit is known yet.",
        ),
        Table(
            title="Modes",
            asks="Which accounts are enforced, watched or let through?",
            queries=[Query(whole("paceline_mode", f'mode="{mode}"', "provider, account"), mode) for mode in MODES],
            width=7,
            keys=["provider", "account"],
            columns=[
                Column("enforce", "percentunit", 0, [(None, GREEN)], is_gauge=True),
                Column("shadow", "percentunit", 0, [(None, BLUE)], is_gauge=True),
                Column("off", "percentunit", 0, [(None, ORANGE)], is_gauge=True),
            ],
            empty="No account has been used yet.",
        ),
    ]
