"""What providers say: refusals, the signals they come with, what nobody reads, outages, and before and after a migration."""

from __future__ import annotations

from boards.model import ORANGE, RED, SOURCES, Board, Column, Lines, Panel, Query, Row, Table, Variable
from boards.parts import ENDED, EVENTS, RATE, denied_share, rate, refused_share, share, steps, waited

PROVIDER = Variable("provider", "paceline_reports_total")
VERDICTS = {"done": "#73bf69", "retry": "#ff9830", "fail_over": "#b877d9", "give_up": "#e02f44"}
STATUSES = {"200": "#73bf69", "429": "#ff9830", "500": "#e02f44", "503": "#c4162a", "529": "#8f3bb8"}


def board() -> Board:
    """The dashboard *Providers*."""
    return Board(
        uid="paceline-providers",
        title="Paceline / Providers",
        about="What providers answer, whether Paceline understands it, and how it was before a change.",
        variables=[PROVIDER],
        choices={"before": ["1d", "7d", "14d", "28d"]},
        events=EVENTS,
        rows=[
            Row("What do they answer?", _answers()),
            Row("Do we understand it?", _literacy()),
            Row("Are they ill?", _outages()),
            Row("Before and after (choose above how long ago)", _migration()),
        ],
    )


def _answers() -> list[Panel]:
    return [
        Lines(
            title="Answers, by status",
            asks="What do providers answer?",
            queries=[
                Query(rate("paceline_reports_total", 'outcome="response", status!="", verdict!=""', "status"), "{{status}}")
            ],
            width=8,
            unit="reqps",
            is_stacked=True,
            colours=STATUSES,
            empty="No provider has answered.",
        ),
        Lines(
            title="Refused",
            asks="Which part of the calls that ended came back with 'later'?",
            act="Above the line (5 %) while enforcing: runbook `rejected-while-enforcing`.",
            queries=[Query(refused_share(), "{{provider}}")],
            width=8,
            unit="percentunit",
            decimals=1,
            thresholds=steps((0.05, RED)),
            empty="No call has ended.",
        ),
        Lines(
            title="What workers were told",
            asks="How did calls end: done, sent again, sent elsewhere, given up?",
            act="`give_up` is a call that the fleet lost.",
            queries=[Query(rate("paceline_reports_total", ENDED, "verdict"), "{{verdict}}")],
            width=8,
            unit="reqps",
            is_stacked=True,
            colours=VERDICTS,
            empty="No call has ended.",
        ),
    ]


def _literacy() -> list[Panel]:
    unread = "sum by (provider, header) (increase(paceline_unread_headers_total[$__range])) > 0"
    return [
        Lines(
            title="Refusals, by where the wait was read",
            asks="With what signal do providers push back?",
            queries=[Query(rate("paceline_signals_total", "", "source") + " > 0", "{{source}}")],
            width=8,
            unit="reqps",
            is_stacked=True,
            colours=SOURCES,
            empty="No provider refused a call.",
        ),
        Lines(
            title="Pushed back without a usable wait",
            asks="Which part of the refusals said nothing that Paceline could use, so that it had to guess?",
            act="A rise is the alarm: the provider changed its headers, or a gateway strips them. Take an answer with `curl -si` "
            "and give it to `paceline explain`. Runbook `signals-unread`.",
            queries=[
                Query(
                    share(
                        rate("paceline_signals_total", 'source="none"', "provider"),
                        rate("paceline_signals_total", "", "provider"),
                    ),
                    "{{provider}}",
                )
            ],
            width=8,
            unit="percentunit",
            decimals=0,
            most=1,
            thresholds=steps((0.1, ORANGE)),
            empty="No provider refused a call.",
        ),
        Table(
            title="Headers that nobody reads",
            asks="Which response headers look like limits and are read by nothing, in the time that is shown?",
            act="Give an answer to `paceline explain`; a few lines in a provider's file read them. Runbook `unread-headers`.",
            queries=[Query(unread, "times")],
            width=8,
            keys=["provider", "header"],
            columns=[Column("times", "short", 0, [(None, ORANGE)])],
            sort_by="times",
            empty="None: everything that looks like a limit is read.",
        ),
    ]


def _part_of_ended(matchers: str) -> str:
    return share(rate("paceline_reports_total", matchers, "provider"), rate("paceline_reports_total", ENDED, "provider"))


def _outages() -> list[Panel]:
    return [
        Lines(
            title="Calls without an answer",
            asks="Which part of the calls timed out or never reached the provider?",
            act="All providers at once: the network on our side. One: its status page, then `paceline events`.",
            queries=[
                Query(
                    _part_of_ended('outcome=~"timeout|connection_failed"'),
                    "{{provider}}",
                )
            ],
            width=6,
            unit="percentunit",
            decimals=1,
            thresholds=steps((0.05, RED)),
            empty="No call has ended.",
        ),
        Lines(
            title="Provider's own errors",
            asks="Which part of the calls ended with a 5xx?",
            act="503 and 529 are paced like refusals; from five in a row one probe at a time goes. Runbook `breaker-open`.",
            queries=[
                Query(
                    _part_of_ended('status=~"5..", verdict!=""'),
                    "{{provider}}",
                )
            ],
            width=6,
            unit="percentunit",
            decimals=1,
            thresholds=steps((0.05, RED)),
            empty="No call has ended.",
        ),
        Lines(
            title="Closed after failures",
            asks="Which models get one probe at a time, because call after call failed?",
            act="It opens by itself with the first success. Runbook `breaker-open`.",
            queries=[
                Query("max by (provider, account, model) (paceline_breaker_open) > 0", "{{provider}} {{account}} {{model}}")
            ],
            width=6,
            is_stepped=True,
            thresholds=steps((1, RED)),
            empty="None.",
        ),
        Table(
            title="Accounts that stand for several quotas",
            asks="Does one account name stand for keys of different organisations?",
            act="Give each key an account of its own. Runbook `account-mixed`.",
            queries=[Query("max by (provider, account) (paceline_account_mixed) > 1", "organisations")],
            width=6,
            keys=["provider", "account"],
            columns=[Column("organisations", "short", 0, [(None, ORANGE)])],
            empty="None: each account names one organisation, or none.",
        ),
    ]


def _migration() -> list[Panel]:
    def both(expr: str, what: str = "{{provider}}") -> list[Query]:
        return [Query(expr, f"now {what}"), Query(expr.replace(RATE, f"{RATE} offset $before"), f"before {what}")]

    return [
        Lines(
            title="Refused, now and before",
            asks="Do providers refuse more or less than before the change?",
            queries=both(refused_share()),
            dashed="before",
            width=8,
            unit="percentunit",
            decimals=1,
            empty="No call has ended.",
        ),
        Lines(
            title="Wait of 99 in 100, now and before",
            asks="Do interactive callers wait longer than before the change?",
            queries=both(waited(0.99, "provider", 'outcome="granted", priority="interactive"')),
            dashed="before",
            width=8,
            unit="s",
            empty="No interactive call was granted.",
        ),
        Lines(
            title="Denied, now and before",
            asks="Are more calls told no than before the change?",
            queries=both(denied_share("provider")),
            dashed="before",
            width=8,
            unit="percentunit",
            decimals=1,
            empty="No call was asked for.",
        ),
    ]
