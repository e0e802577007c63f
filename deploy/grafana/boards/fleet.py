"""The first screen: who waits, for what, since when, and whose fault it is."""

from __future__ import annotations

from boards.model import (
    BLUE,
    CLASSES,
    GREEN,
    KINDS,
    ORANGE,
    RED,
    SOURCES,
    YELLOW,
    Bars,
    Board,
    Column,
    Lines,
    Number,
    Panel,
    Query,
    Row,
    Table,
)
from boards.parts import (
    EVENTS,
    SCOPE,
    by_class,
    denied_share,
    firing,
    rate,
    refused_share,
    share,
    steps,
    waited,
    whole,
)

IN_DEPTH = "/d/paceline-scope/?${datasource:queryparam}&${provider:queryparam}&${account:queryparam}&${__url_time_range}"


def board() -> Board:
    """The dashboard *Fleet*."""
    return Board(
        uid="paceline-fleet",
        title="Paceline / Fleet",
        about="One screen for whoever is on call: is anything switched, are callers served, where does the waiting come from.",
        variables=SCOPE,
        events=EVENTS,
        rows=[
            Row("Is anything switched or broken?", _banner()),
            Row("Are callers served?", _served()),
            Row("Where did the waiting go?", _waiting()),
            Row("How full is each limit?", _limits()),
            Row("Who uses it?", _tenants()),
            Row("Who else is there?", _others()),
        ],
    )


def _banner() -> list[Panel]:
    paused = 'sum(max by (provider, account, kind) (paceline_override_active{kind="pause"})) or vector(0)'
    switched = 'sum(max by (provider, account, kind) (paceline_override_active{kind!="pause"})) or vector(0)'
    return [
        Number(
            title="Alerts that fire",
            asks="Which alerts of Paceline fire now? Red: page. Yellow: inform.",
            act="Open the runbook of the same name; `first-five-minutes` says where to start.",
            queries=[Query(firing(), "{{alertname}}")],
            width=6,
            shows="name",
            thresholds=[(None, YELLOW), (2, RED)],
            empty="none",
        ),
        Number(
            title="Mode",
            asks="Which part of the accounts is enforced, only watched (shadow), or let through (off)?",
            act="Red: `off` lets every call through unpaced. `paceline status` says who switched it, until when and why.",
            queries=[
                Query(f'avg(max by (provider, account) (paceline_mode{{mode="{mode}"}}))', mode)
                for mode in ("enforce", "shadow", "off")
            ],
            width=5,
            unit="percentunit",
            decimals=0,
            shows="both",
            size=28,
            thresholds=[(None, GREEN)],
            by_series={
                "enforce": [(None, BLUE), (0.999, GREEN)],
                "shadow": [(None, GREEN), (0.001, BLUE)],
                "off": [(None, GREEN), (0.001, RED)],
            },
            empty="No account has been used yet.",
        ),
        Number(
            title="Without Redis",
            asks="How many scopes does some replica decide without Redis, with its part of each limit or not at all?",
            act="Red: Redis does not answer a replica. Runbook `degraded`.",
            queries=[Query("sum(max by (provider, policy) (paceline_degraded)) or 0 * count(paceline_build_info)")],
            width=3,
            thresholds=steps((1, RED)),
            words={0: "none"},
            empty="No replica is scraped.",
        ),
        Number(
            title="Paused by hand",
            asks="Which calls has somebody stopped by hand?",
            act="Orange: `paceline status` shows who, why and until when; `paceline resume` lifts it.",
            queries=[Query(paused)],
            width=3,
            thresholds=steps((1, ORANGE)),
            words={0: "none"},
        ),
        Number(
            title="Other overrides",
            asks="Which modes and limits has somebody set by hand?",
            act="Orange: `paceline status` shows who, why and until when; each says how it is undone.",
            queries=[Query(switched)],
            width=3,
            thresholds=steps((1, ORANGE)),
            words={0: "none"},
        ),
        Number(
            title="Configs",
            asks="How many different configurations do replicas run?",
            act="Orange: replicas differ. A rollout ends within a minute; else runbook `config-differs`.",
            queries=[Query("count(count by (hash) (paceline_config_hash_info))")],
            width=2,
            thresholds=[(None, GREEN), (2, ORANGE)],
            words={1: "one"},
            empty="No replica is scraped.",
        ),
        Number(
            title="Replicas",
            asks="How many replicas answer Prometheus?",
            act="Red: none. Runbook `no-replica`.",
            queries=[Query("count(paceline_build_info) or vector(0)")],
            width=2,
            thresholds=[(None, RED), (1, GREEN)],
        ),
    ]


def _served() -> list[Panel]:
    retried = rate("paceline_units_total", 'kind="retry", meter="requests"')
    used = rate("paceline_units_total", 'kind=~"first|retry", meter="requests"')
    return [
        Lines(
            title="Denied, by class",
            asks="How many of the calls that got an answer were told no?",
            act="Above the line (1 %) for interactive calls somebody notices. `paceline events` and the panel *Denied, "
            "by reason* of *Scope in depth* say why. Runbook `interactive-denied`.",
            queries=[Query(denied_share(), "{{priority}}")],
            width=5,
            unit="percentunit",
            decimals=1,
            thresholds=steps((0.01, RED)),
            colours=CLASSES,
            empty="No call was asked for.",
        ),
        Lines(
            title="Wait of 99 in 100, by class",
            asks="How long do all but the slowest one in a hundred wait for their slot? Read from buckets: off by less than 2x.",
            act="Long for `batch` is what pacing does. Long for `interactive`: look below for what it waits for.",
            queries=[Query(waited(0.99), "{{priority}}")],
            is_log=True,
            least=0.01,
            width=5,
            unit="s",
            colours=CLASSES,
            empty="No call was granted.",
        ),
        Lines(
            title="Refused by the provider",
            asks="How many of the calls that were sent came back with 'later' (429, 503, 529)?",
            act="Above the line (5 %) while enforcing: limits are wrong, somebody else uses the account, or the provider is ill. "
            "Runbook `rejected-while-enforcing`.",
            queries=[Query(refused_share(), "{{provider}}")],
            width=5,
            unit="percentunit",
            decimals=1,
            thresholds=steps((0.05, RED)),
            empty="No call has ended.",
        ),
        Lines(
            title="Money on retries, an hour",
            asks="What do repeated calls cost, by provider? Where prices are configured.",
            act="A jump comes with refusals or an outage. Fewer attempts: `retries` in the configuration.",
            queries=[Query("3600 * " + rate("paceline_cost_usd_total", 'kind="retry"', "provider"), "{{provider}}")],
            width=5,
            unit="currencyUSD",
            empty="No prices are configured, or nothing was retried.",
        ),
        Lines(
            title="Retried calls",
            asks="Which part of the calls that providers worked on were second or later attempts?",
            act="Above the line (20 %) retries feed themselves. Runbook `retry-share`.",
            queries=[Query(share(retried, used), "retries")],
            width=4,
            unit="percentunit",
            decimals=1,
            thresholds=steps((0.2, RED)),
            colours={"retries": KINDS["retry"]},
            empty="No call has ended.",
        ),
    ]


def _waiting() -> list[Panel]:
    return [
        Lines(
            title="Callers waiting, by what for",
            asks="Where did the fleet's waiting go? Each colour is the average number of callers that waited for one thing. "
            "Blue: the provider said so. Purple: a limit, or pacing towards it. Green: somebody else's turn. Orange: we guessed, "
            "because the provider said nothing usable. Red: Redis. Yellow: paused by hand. A wait shows when it ends.",
            act="Much orange: panel *Pushed back without a usable wait* of *Providers*. Much purple: the limit is too small for "
            "the load. Much green: see the tenants below. Red: runbook `degraded`.",
            queries=[Query(rate("paceline_delay_seconds_total", "", "source") + " > 0", "{{source}}")],
            width=14,
            height=10,
            unit="short",
            axis="callers",
            is_stacked=True,
            colours=SOURCES,
            empty="Nobody waited.",
            legend="right",
        ),
        Bars(
            title="Waiting in this time, by what for",
            asks="How much waiting was there in the whole time that is shown?",
            queries=[
                Query("sort_desc(sum by (source) (increase(paceline_delay_seconds_total[$__range])) >= 1)", "{{source}}"),
            ],
            width=5,
            height=10,
            unit="s",
            colours=SOURCES,
            empty="Nobody waited.",
        ),
        Number(
            title="Waiting now",
            asks="How many callers wait at this moment, by class?",
            queries=[Query(by_class("sum by (priority) (paceline_queue_depth)"), "{{priority}}")],
            width=5,
            height=5,
            shows="both",
            size=20,
            colours=CLASSES,
        ),
        Number(
            title="Oldest wait now",
            asks="How long has the longest waiting caller waited, by class? The defaults allow 15 s, 2 min, 1 h.",
            act="Near its bound: such calls are about to be denied. Runbook `interactive-wait`.",
            queries=[Query(by_class("max by (priority) (paceline_oldest_wait_seconds)"), "{{priority}}")],
            width=5,
            height=5,
            shows="both",
            size=20,
            colours=CLASSES,
            unit="s",
            decimals=0,
        ),
    ]


def _limits() -> list[Panel]:
    limit = whole("paceline_bucket_limit", 'kind="effective"')
    return [
        Table(
            title="Limits",
            asks="How full is each bucket, who else drinks from it, and when will a day's quota be gone?",
            act="*Left* near zero is normal for a bucket that is used fully. *Empty in* before *comes back in*: the quota of the "
            "day ends early, runbook `quota-empty`. *Others take*: units a minute, runbook `foreign-drain`.",
            queries=[
                Query(limit, "limit"),
                Query(f"clamp(max by (provider, account, model, bucket) (paceline_bucket_level) / {limit}, 0, 1)", "left"),
                Query(whole("paceline_utilization"), "used"),
                Query(whole("paceline_bucket_foreign_drain"), "others take"),
                Query(whole("paceline_quota_exhausted_in_seconds"), "empty in"),
                Query(whole("paceline_quota_resets_in_seconds"), "comes back in"),
            ],
            width=24,
            height=9,
            keys=["provider", "account", "model", "bucket"],
            columns=[
                Column("limit", "short"),
                Column("left", "percentunit", 0, [(None, BLUE)], is_gauge=True),
                Column("used", "percentunit", 0, [(None, GREEN), (0.8, YELLOW), (0.95, ORANGE)], is_gauge=True),
                Column("others take", "short", 1, [(None, GREEN), (1, ORANGE)]),
                Column("empty in", "s"),
                Column("comes back in", "s"),
            ],
            sort_by="left",
            is_descending=False,
            empty="No limit is known yet: configure one, or wait for the first answers.",
            links=[("Scope in depth", IN_DEPTH)],
        )
    ]


def _tenants() -> list[Panel]:
    return [
        Lines(
            title="Requests by tenant",
            asks="Who uses it? The ten busiest tenants.",
            queries=[
                Query(
                    "topk(10, " + rate("paceline_units_total", 'meter="requests", kind=~"first|retry"', "tenant") + ")",
                    "{{tenant}}",
                )
            ],
            width=12,
            unit="reqps",
            is_stacked=True,
            empty="No call has ended.",
        ),
        Lines(
            title="Waited for another's turn, by account",
            asks="How many callers wait because it is another tenant's or class's turn?",
            act="Much of it: one tenant wants more than its share. Weights: `tenants` in the configuration.",
            queries=[
                Query(
                    rate("paceline_delay_seconds_total", 'source="fair_share"', "provider, account") + " > 0",
                    "{{provider}} {{account}}",
                ),
            ],
            width=12,
            axis="callers",
            empty="Nobody waited for another's turn.",
        ),
    ]


def _others() -> list[Panel]:
    return [
        Lines(
            title="Taken by others",
            asks="Who else uses our quota? Units a minute that somebody outside of Paceline takes, as answers show.",
            act="Somebody calls with the same key, past Paceline. Runbook `foreign-drain`.",
            queries=[Query(whole("paceline_bucket_foreign_drain") + " > 0", "{{provider}} {{account}} {{model}} {{bucket}}")],
            width=8,
            axis="units a minute",
            empty="Nobody else, as far as answers tell.",
        ),
        Lines(
            title="Leases that nobody reported",
            asks="Do workers crash, or forget to report?",
            act="Each holds its part of the limit until it expires. Runbook `leases-expire`.",
            queries=[Query(rate("paceline_leases_expired_total", "", "provider, account") + " > 0", "{{provider}} {{account}}")],
            width=8,
            unit="cps",
            empty="None.",
        ),
        Lines(
            title="Overtaken",
            asks="Is anybody overtaken? Calls whose order among all could not be kept.",
            act="Some while replicas change. Steadily: replicas do not reach each other, runbook `degraded`.",
            queries=[Query(rate("paceline_order_lost_total", "", "provider") + " > 0", "{{provider}}")],
            width=8,
            unit="cps",
            empty="Nobody.",
        ),
    ]
