"""One account at one provider, or one model of it, from the callers to the buckets."""

from __future__ import annotations

from boards.model import CLASSES, GREEN, KINDS, ORANGE, SOURCES, YELLOW, Board, Column, Lines, Panel, Query, Row, Table
from boards.parts import EVENTS, RATE, SCOPE, rate, whole

BUCKET = "{{model}} {{bucket}}"


def board() -> Board:
    """The dashboard *Scope in depth*."""
    return Board(
        uid="paceline-scope",
        title="Paceline / Scope in depth",
        about="One account at one provider: choose it above. Who waits, for which bucket, and what the provider says of it.",
        variables=SCOPE,
        events=EVENTS,
        rows=[
            Row("Who waits here?", _callers()),
            Row("What for?", _waiting()),
            Row("The buckets", _buckets()),
            Row("The workers", _workers()),
        ],
    )


def _callers() -> list[Panel]:
    return [
        Lines(
            title="Waiting, by class",
            asks="How many callers wait, by class? The class is of an account: a choice of a model does not narrow this.",
            queries=[Query("sum by (priority) (paceline_queue_depth)", "{{priority}}")],
            width=8,
            is_stacked=True,
            colours=CLASSES,
            empty="Nobody waits.",
        ),
        Lines(
            title="Oldest wait, by class",
            asks="How long has the longest waiting caller waited? The defaults allow 15 s, 2 min, 1 h.",
            act="A line that climbs at one second a second means that nobody of this class is served. `paceline why REQUEST_ID` "
            "tells what that call waits for.",
            queries=[Query("max by (priority) (paceline_oldest_wait_seconds)", "{{priority}}")],
            width=8,
            unit="s",
            is_log=True,
            least=0.01,
            colours=CLASSES,
            empty="Nobody waits.",
        ),
        Lines(
            title="At the provider, by class",
            asks="How many calls are granted and not yet reported as ended?",
            act="A line that only climbs: workers do not report. Runbook `leases-expire`.",
            queries=[Query("sum by (priority) (max by (provider, account, priority) (paceline_inflight))", "{{priority}}")],
            width=8,
            is_stacked=True,
            colours=CLASSES,
            empty="No call is at the provider.",
        ),
    ]


def _waiting() -> list[Panel]:
    return [
        Lines(
            title="Callers waiting, by what for",
            asks="Where did the waiting go? Average number of callers that waited for each thing. A wait shows when it ends.",
            queries=[Query(rate("paceline_delay_seconds_total", "", "source") + " > 0", "{{source}}")],
            width=12,
            is_stacked=True,
            axis="callers",
            colours=SOURCES,
            legend="right",
            empty="Nobody waited.",
        ),
        Lines(
            title="Callers waiting, by bucket",
            asks="Which limit binds? Average number of callers that waited for each bucket.",
            act="The bucket that stands out is the one to raise, or to use less of.",
            queries=[Query(rate("paceline_delay_seconds_total", 'bucket!=""', "model, bucket") + " > 0", BUCKET)],
            width=12,
            is_stacked=True,
            axis="callers",
            legend="right",
            empty="Nobody waited for a bucket.",
        ),
        Lines(
            title="Asks, by answer",
            asks="How many asks are answered, and how?",
            queries=[Query(rate("paceline_acquires_total", "", "outcome"), "{{outcome}}")],
            width=12,
            unit="reqps",
            colours={"granted": "#73bf69", "queued": "#5794f2", "denied": "#e02f44", "cancelled": "#8e8e8e"},
            empty="No call was asked for.",
        ),
        Lines(
            title="Denied, by reason",
            asks="Why were calls told no?",
            act="deadline: the line is longer than the call's patience. over_honor_cap: the provider named a longer wait than "
            "the "
            "class honours. quota_exhausted: billing, or a day's quota. retry_budget: too many retries for what gets through. "
            "store_unavailable: Redis is away and `on_store_down` is `closed`. paused: by hand.",
            queries=[Query(rate("paceline_acquires_total", 'outcome="denied"', "reason") + " > 0", "{{reason}}")],
            width=12,
            unit="reqps",
            is_stacked=True,
            empty="Nobody was denied.",
        ),
    ]


def _buckets() -> list[Panel]:
    level, limit = whole("paceline_bucket_level"), whole("paceline_bucket_limit", 'kind="effective"')
    return [
        Lines(
            title="What is left of each limit",
            asks="How full is each bucket, as a part of its limit? Zero under load is a limit that is used; below zero is debt.",
            queries=[Query(f"{level} / ({limit} > 0)", BUCKET)],
            width=12,
            unit="percentunit",
            decimals=0,
            least=None,
            most=1,
            empty="No limit is known yet.",
        ),
        Lines(
            title="What the provider says, less what we believe",
            asks="Do we and the provider agree on what is left? As a part of the limit; at zero we agree.",
            act="Far below zero for long: somebody else drinks from it. Far above: our limit is set too low.",
            queries=[
                Query(f"({whole('paceline_bucket_observed_remaining')} - {level}) / ({limit} > 0)", BUCKET),
            ],
            width=12,
            unit="percentunit",
            decimals=0,
            least=-1,
            most=1,
            empty="No limit is known yet, or no answer has told what is left.",
        ),
        Table(
            title="Limits, and who says so",
            asks="How big is each limit by configuration, by the provider's headers, and in force (our part of it)?",
            act="*learned* below *configured*: the provider grants less than the file says. Runbook `learned-below-configured`.",
            queries=[
                Query(whole("paceline_bucket_limit", 'kind="configured"'), "configured"),
                Query(whole("paceline_bucket_limit", 'kind="learned"'), "learned"),
                Query(limit, "in force"),
                Query(whole("paceline_utilization"), "used"),
                Query(whole("paceline_bucket_foreign_drain"), "others take"),
                Query(whole("paceline_quota_exhausted_in_seconds"), "empty in"),
                Query(whole("paceline_quota_resets_in_seconds"), "comes back in"),
            ],
            width=24,
            height=7,
            keys=["provider", "account", "model", "bucket"],
            columns=[
                Column("used", "percentunit", 0, [(None, GREEN), (0.8, YELLOW), (0.95, ORANGE)], is_gauge=True),
                Column("others take", "short", 1, [(None, GREEN), (1, ORANGE)]),
                Column("empty in", "s"),
                Column("comes back in", "s"),
            ],
            empty="No limit is known yet.",
        ),
        Lines(
            title="Limits over time",
            asks="When did a limit change, and who said so?",
            queries=[Query(whole("paceline_bucket_limit", "", "model, bucket, kind"), BUCKET + " {{kind}}")],
            width=12,
            is_stepped=True,
            is_log=True,
            least=None,
            legend="right",
            empty="No limit is known yet.",
        ),
        Lines(
            title="Taken by others",
            asks="Who else drinks from these buckets? Units a minute.",
            act="Runbook `foreign-drain`.",
            queries=[Query(whole("paceline_bucket_foreign_drain") + " > 0", BUCKET)],
            width=12,
            axis="units a minute",
            empty="Nobody, as far as answers tell.",
        ),
    ]


def _workers() -> list[Panel]:
    return [
        Lines(
            title="Used, by meter",
            asks="What do calls use, by first try and retry? Overrun is the part beyond what was reserved.",
            queries=[Query(rate("paceline_units_total", "", "meter, kind") + " > 0", "{{meter}} {{kind}}")],
            width=12,
            unit="short",
            axis="units a second",
            is_log=True,
            least=None,
            legend="right",
            colours={f"requests {kind}": colour for kind, colour in KINDS.items()},
            empty="No call has ended.",
        ),
        Lines(
            title="Leases without a report, slots used late",
            asks="Do workers crash, forget to report, or oversleep?",
            act="Expired leases hold capacity until they end: runbook `leases-expire`. Late uses: workers are starved of CPU.",
            queries=[
                Query(f"sum (increase(paceline_leases_expired_total{RATE})) > 0", "expired"),
                Query(f"sum (increase(paceline_late_uses_total{RATE})) > 0", "late"),
            ],
            width=6,
            is_bars=True,
            empty="None.",
        ),
        Lines(
            title="Learned limits that swing",
            asks="Does a limit go up and down, as when one account name stands for two keys?",
            act="Runbook `account-mixed`.",
            queries=[
                Query(f"sum by (model) (increase(paceline_learned_limit_flaps_total{RATE})) > 0", "{{model}}"),
            ],
            width=6,
            is_bars=True,
            empty="None.",
        ),
    ]
