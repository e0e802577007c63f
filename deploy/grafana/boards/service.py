"""The service itself and Redis: replicas, latency, errors, drift."""

from __future__ import annotations

from boards.model import GREEN, ORANGE, RED, YELLOW, Board, Column, Lines, Number, Panel, Query, Row, Table
from boards.parts import EVENTS, RATE, rate, steps

EACH = "{{instance}}"


def board() -> Board:
    """The dashboard *Service and store*."""
    return Board(
        uid="paceline-service",
        title="Paceline / Service and store",
        about="Is Paceline itself well: replicas, their answers, Redis, and whether all run the same configuration.",
        variables=[],
        events=EVENTS,
        rows=[
            Row("Replicas", _replicas()),
            Row("Do they answer?", _answers()),
            Row("Redis", _store()),
            Row("Processes", _processes()),
        ],
    )


def _replicas() -> list[Panel]:
    return [
        Number(
            title="Replicas scraped",
            asks="How many replicas does Prometheus reach?",
            act="Red: none. Runbook `no-replica`.",
            queries=[Query("count(paceline_build_info) or vector(0)")],
            width=3,
            height=6,
            thresholds=[(None, RED), (1, GREEN)],
        ),
        Number(
            title="Ready",
            asks="How many replicas take calls?",
            act="Red: none. Runbook `no-replica`.",
            queries=[Query("count(paceline_ready == 1) or vector(0)")],
            width=3,
            height=6,
            thresholds=[(None, RED), (1, GREEN)],
        ),
        Number(
            title="Least seen",
            asks="How many replicas does each see, itself included? The least of all answers.",
            act="Less than there are: replicas do not share a store, or one has lost it. Runbook `degraded`.",
            queries=[Query("min(paceline_replicas_live)")],
            width=3,
            height=6,
            thresholds=[(None, RED), (1, GREEN)],
            empty="No replica is scraped.",
        ),
        Lines(
            title="Scopes led, by replica",
            asks="Is the work spread? The leader of a scope decides for all.",
            queries=[Query("sum by (instance) (paceline_scopes_led)", EACH)],
            width=6,
            height=6,
            is_stacked=True,
            empty="No scope is used.",
        ),
        Table(
            title="Versions and configurations",
            asks="What runs where? A hash that differs is a configuration that differs.",
            act="*follows* is 1 while a replica keeps to a newer configuration that it has not read. Runbook `config-differs`.",
            queries=[
                Query(
                    "max by (instance, version) (paceline_build_info)"
                    " * on (instance) group_left (hash) max by (instance, hash) (paceline_config_hash_info)",
                    "runs",
                ),
                Query("max by (instance) (paceline_config_stale)", "follows"),
            ],
            width=9,
            height=6,
            keys=["instance", "version", "hash"],
            columns=[Column("instance", width=150), Column("follows", "short", 0, [(None, GREEN), (1, ORANGE)])],
            empty="No replica is scraped.",
        ),
        Lines(
            title="Configurations read",
            asks="Was a changed configuration applied or refused?",
            act="refused: the old one stays in force; `paceline check-config FILE` says what is wrong. Runbook `config-refused`.",
            queries=[Query(f"sum by (result) (increase(paceline_config_reloads_total{RATE}))", "{{result}}")],
            width=8,
            height=6,
            is_bars=True,
            colours={"applied": "#73bf69", "refused": "#e02f44"},
            empty="None was read again.",
        ),
        Lines(
            title="Calls sent on to the leader",
            asks="Do replicas answer each other?",
            act="unanswered or broken: that replica is frozen, overloaded or advertises a wrong address; the log names it.",
            queries=[Query(rate("paceline_forwarded_total", "", "outcome"), "{{outcome}}")],
            width=8,
            height=6,
            unit="reqps",
            colours={"answered": "#73bf69", "unanswered": "#ff9830", "broken": "#e02f44"},
            empty="None was sent on.",
        ),
        Lines(
            title="Overtaken",
            asks="Is anybody overtaken, because order could not be kept?",
            queries=[Query(rate("paceline_order_lost_total", "", "provider") + " > 0", "{{provider}}")],
            width=8,
            height=6,
            unit="cps",
            empty="Nobody.",
        ),
    ]


def _answers() -> list[Panel]:
    rpc = "rpc_server_call_duration_seconds"
    quick = f'{rpc}_bucket{{rpc_method!~".*/(Acquire.*|Session|Watch.*)"}}'
    failed = rate(f"{rpc}_count", 'rpc_response_status_code!="OK"', "rpc_response_status_code")
    return [
        Lines(
            title="Calls of the service",
            asks="How many RPCs does each method answer? A held Acquire counts when it ends.",
            queries=[Query(rate(f"{rpc}_count", "", "rpc_method"), "{{rpc_method}}")],
            width=8,
            unit="reqps",
            empty="No RPC was answered.",
        ),
        Lines(
            title="RPC errors",
            asks="How many RPCs end with an error? A denial is an answer and no error.",
            act="INVALID_ARGUMENT: a worker sends what nobody can read. RESOURCE_EXHAUSTED: the service protects itself.",
            queries=[
                Query(
                    failed + " > 0",
                    "{{rpc_response_status_code}}",
                )
            ],
            width=8,
            unit="reqps",
            empty="None.",
        ),
        Lines(
            title="RPCs that are not held, time of 99 in 100",
            asks="How fast is the service by itself? Asks and sessions are held, everything else is answered at once.",
            act="Slow with a fast Redis below: the service lacks CPU.",
            queries=[Query(f"histogram_quantile(0.99, sum by (le, instance) (rate({quick}{RATE})))", EACH)],
            width=8,
            unit="s",
            empty="No report came.",
        ),
    ]


def _store() -> list[Panel]:
    slow = f"histogram_quantile(0.99, sum by (le, op) (rate(paceline_store_seconds_bucket{RATE})))"
    return [
        Lines(
            title="Redis, time of 99 in 100",
            asks="Is Redis fast?",
            act="Above the line (50 ms): look at Redis' CPU, its slow log and the network. At 200 ms requests count as lost.",
            queries=[Query(slow, "{{op}}")],
            width=8,
            unit="s",
            thresholds=steps((0.05, YELLOW), (0.2, RED)),
            empty="State is in memory, or nothing was asked.",
        ),
        Lines(
            title="Redis, errors",
            asks="Is Redis well, and if not, what is it?",
            act="full: give it memory and `noeviction`. denied: its rights. timeout, connection: the network. See `degraded`.",
            queries=[Query(rate("paceline_store_errors_total", "", "kind") + " > 0", "{{kind}}")],
            width=8,
            unit="cps",
            is_stacked=True,
            empty="None.",
        ),
        Lines(
            title="Scopes decided without Redis",
            asks="Is the store there for every scope?",
            act="Runbook `degraded`.",
            queries=[Query("max by (provider, policy) (paceline_degraded)", "{{provider}} {{policy}}")],
            width=8,
            is_stepped=True,
            thresholds=steps((1, RED)),
            empty="No scope is used.",
        ),
        Lines(
            title="Commits that lost a race",
            asks="Do replicas fight over one scope? Each lost commit is decided again.",
            act="Many: workers are not sent to the leader; does each replica reach the others?",
            queries=[Query(rate("paceline_store_conflicts_total"), "lost")],
            width=8,
            unit="cps",
            empty="None.",
        ),
        Lines(
            title="State lost, rolled back, repaired",
            asks="Does the store keep what it was given?",
            act="lost: was it flushed, or did it evict? It must run with `noeviction`. rolled_back: an older primary took over.",
            queries=[
                Query(f"sum by (why) (increase(paceline_state_merged_total{RATE})) > 0", "{{why}}"),
                Query(f"sum (increase(paceline_state_repaired_total{RATE})) > 0", "repaired"),
            ],
            width=8,
            is_bars=True,
            empty="Nothing was lost.",
        ),
        Lines(
            title="Steps of Redis' clock",
            asks="Do the clocks of the Redis servers agree?",
            act="Steps come with a fail-over between servers whose clocks differ: run NTP on them.",
            queries=[Query(f"sum (increase(paceline_clock_steps_total{RATE})) > 0", "steps")],
            width=8,
            is_bars=True,
            empty="None.",
        ),
    ]


def _processes() -> list[Panel]:
    return [
        Lines(
            title="CPU",
            asks="How many cores does each replica use?",
            queries=[Query(f"sum by (instance) (rate(process_cpu_seconds_total{RATE}))", EACH)],
            width=6,
            axis="cores",
            empty="Not told by this build.",
        ),
        Lines(
            title="Threads, busy",
            asks="Is a replica at its limit? The part of the time in which its threads have something to do.",
            act="Above the line (80 %): more CPU for each replica, or more replicas.",
            queries=[
                Query(
                    f"sum by (instance) (rate(paceline_runtime_busy_seconds_total{RATE}))"
                    " / max by (instance) (paceline_runtime_workers)",
                    EACH,
                )
            ],
            width=6,
            unit="percentunit",
            most=1,
            thresholds=steps((0.8, RED)),
            empty="Not told by this build.",
        ),
        Lines(
            title="Memory",
            asks="How much memory does each replica hold?",
            act="A line that only climbs is a leak: report it with the graph.",
            queries=[Query("max by (instance) (process_resident_memory_bytes)", EACH)],
            width=6,
            unit="bytes",
            empty="Not told by this build.",
        ),
        Lines(
            title="File descriptors in use",
            asks="Is there room for connections?",
            act="Above the line (80 %): raise the limit (`LimitNOFILE`, `ulimit -n`).",
            queries=[Query("max by (instance) (process_open_fds) / max by (instance) (process_max_fds)", EACH)],
            width=6,
            unit="percentunit",
            most=1,
            thresholds=steps((0.8, RED)),
            empty="Not told by this build.",
        ),
        Lines(
            title="Tasks",
            asks="Do tasks pile up? One for each connection, each call under way, each scope in use.",
            queries=[Query("max by (instance) (paceline_runtime_tasks)", EACH)],
            width=6,
            empty="Not told by this build.",
        ),
        Lines(
            title="Running for",
            asks="Since when does each replica run? A line that falls to zero is a restart.",
            queries=[Query("time() - max by (instance) (process_start_time_seconds)", EACH)],
            width=6,
            unit="s",
            empty="Not told by this build.",
        ),
        Lines(
            title="Scrapes",
            asks="How long does a scrape of each replica take?",
            queries=[Query("max by (instance) (scrape_duration_seconds and on (instance, job) paceline_build_info)", EACH)],
            width=6,
            unit="s",
            empty="No replica is scraped.",
        ),
        Lines(
            title="Series",
            asks="How many series does each replica expose? Their number is bounded by `metrics.max_scopes`.",
            queries=[Query("max by (instance) (scrape_samples_scraped and on (instance, job) paceline_build_info)", EACH)],
            width=6,
            empty="No replica is scraped.",
        ),
    ]
