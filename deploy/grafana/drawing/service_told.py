"""What the replicas of the made-up day told of themselves, of Redis, and of what was switched by hand."""

from __future__ import annotations

from collections.abc import Callable

from day import NEW_CONFIG, NIGHT, PAUSED, REDIS_AWAY, RESTART, Lane, Noise, between, clock
from fleet_told import INSTANCES
from openmetrics import BEGIN, MINUTES, Text

STORE_LE = [0.00025, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 1.0]


def service(text: Text, every: list[Lane]) -> None:
    """Replicas and Redis."""
    for number, instance in enumerate(INSTANCES):
        at = {"instance": instance}
        gone = between(RESTART + 8 * number, RESTART + 8 * number + 3)
        wave = Noise(instance, 0.15)
        part = (0.46, 0.31, 0.23)[number]

        def load(minute: int, part: float = part, wave: Noise = wave) -> float:
            return part * sum(lane.goes[minute] for lane in every) * wave(minute)

        def there(minute: int, value: float, gone: Callable[[int], bool] = gone) -> float | None:
            return None if gone(minute) else value

        text.gauge("up", at, lambda m, gone=gone: 0 if gone(m) else 1)
        text.gauge(
            "paceline_build_info",
            {"version": "0.9.2"} | at,
            lambda m, there=there, n=number: there(m, 1) if m < RESTART + 8 * n else None,
        )
        text.gauge(
            "paceline_build_info",
            {"version": "0.10.0"} | at,
            lambda m, there=there, n=number: there(m, 1) if m >= RESTART + 8 * n else None,
        )
        text.gauge("paceline_ready", at, lambda m, there=there: there(m, 1))
        text.gauge("paceline_replicas_live", at, lambda m, there=there, away=REDIS_AWAY: there(m, 1 if away(m) else 3))
        text.gauge("paceline_scopes_led", at, lambda m, there=there, n=number: there(m, (4, 3, 2)[n]))
        text.gauge(
            "paceline_config_stale", at, lambda m, there=there, n=number: there(m, float(n > 0 and 0 <= m - NEW_CONFIG < 2 * n))
        )
        for hash_, when in (
            ("a3f1", lambda m, n=number: m < NEW_CONFIG + 2 * n),
            ("9c07", lambda m, n=number: m >= NEW_CONFIG + 2 * n),
        ):
            text.gauge(
                "paceline_config_hash_info",
                {"hash": hash_} | at,
                lambda m, there=there, when=when: there(m, 1) if when(m) else None,
            )
        text.counter(
            "paceline_config_reloads_total",
            {"result": "applied"} | at,
            lambda m, n=number: 1 / 120 if m == NEW_CONFIG + 2 * n else 0,
        )
        text.counter(
            "paceline_config_reloads_total", {"result": "refused"} | at, lambda m: 1 / 120 if m == NEW_CONFIG - 12 else 0
        )
        for outcome, each in (("answered", 0.5), ("unanswered", 0.0006), ("broken", 0.0)):
            text.counter(
                "paceline_forwarded_total",
                {"outcome": outcome} | at,
                lambda m, load=load, each=each, o=outcome, n=number: (
                    load(m) * each + (0.5 if o == "broken" and 0 <= m - RESTART - 8 * n < 3 else 0)
                ),
            )
        for op, typical in (("load", 0.0006), ("commit", 0.0009), ("records", 0.0011), ("meta", 0.0007)):
            text.histogram(
                "paceline_store_seconds",
                {"op": op} | at,
                STORE_LE,
                lambda m, load=load: load(m) * 0.4 + 0.2,
                lambda m, t=typical: t * (70 if REDIS_AWAY(m) else 1 + 2.5 * NIGHT(m)),
            )
        for kind in ("timeout", "connection", "read_only"):
            text.counter(
                "paceline_store_errors_total",
                {"kind": kind} | at,
                lambda m, k=kind: {"timeout": 4.0, "connection": 1.5, "read_only": 0.4}[k] if REDIS_AWAY(m) else 0,
            )
        text.counter("paceline_store_conflicts_total", at, lambda m, load=load: load(m) * 0.004)
        for why in ("lost", "rolled_back", "joined"):
            text.counter(
                "paceline_state_merged_total",
                {"why": why} | at,
                lambda m, w=why: 0.1 if w == "rolled_back" and m == clock(16, 38) else 0,
            )
        text.counter("paceline_state_repaired_total", at, lambda m: 0)
        text.counter("paceline_clock_steps_total", at, lambda m: 0)
        for provider in ("openai", "anthropic", "gemini", "groq"):
            text.gauge(
                "paceline_degraded",
                {"provider": provider, "policy": "local"} | at,
                lambda m, there=there, p=provider: there(m, (2.0 if p == "openai" else 1.0) if REDIS_AWAY(m) else 0.0),
            )
            text.counter(
                "paceline_order_lost_total",
                {"provider": provider} | at,
                lambda m, p=provider: 0.8 if REDIS_AWAY(m) and p == "openai" else 0,
            )
        for method, each in (("Acquire", 0.2), ("Report", 0.2), ("Session", 0.01), ("AcquireBatch", 0.02)):
            rpc = {"rpc_method": f"paceline.v1.RateLimiter/{method}", "rpc_response_status_code": "OK"} | at
            text.histogram(
                "rpc_server_call_duration_seconds",
                rpc,
                STORE_LE,
                lambda m, load=load, each=each: load(m) * each,
                lambda m: 0.0012 * (20 if REDIS_AWAY(m) else 1),
            )
        text.counter("process_cpu_seconds_total", at, lambda m, load=load: 0.01 + load(m) * 0.004)
        text.gauge(
            "process_resident_memory_bytes",
            at,
            lambda m, load=load, there=there, n=number: there(m, 4.2e7 + 3e5 * load(m) + 4e6 * n),
        )
        text.gauge("process_open_fds", at, lambda m, load=load, there=there: there(m, 60 + 9 * load(m)))
        text.gauge("paceline_runtime_workers", at, lambda m, there=there: there(m, 2))
        text.counter("paceline_runtime_busy_seconds_total", at, lambda m, load=load: 0.02 + load(m) * 0.005)
        text.gauge("paceline_runtime_tasks", at, lambda m, load=load, there=there: there(m, 80 + 12 * load(m)))
        began = 60.0 * (RESTART + 8 * number + 3)
        text.gauge(
            "process_start_time_seconds",
            at,
            lambda m, there=there, began=began: there(m, BEGIN + began if 60 * m >= began else BEGIN - 4e5),
        )
        text.gauge("process_max_fds", at, lambda m, there=there: there(m, 1024))
        text.gauge("scrape_duration_seconds", at, lambda m, wave=wave: 0.006 * wave(m))
        text.gauge("scrape_samples_scraped", at, lambda m, n=number: 1900 + 160 * n + m // 20)


def switched(text: Text) -> None:
    """What was done by hand, and which alerts fired."""
    pause = {"provider": "openai", "account": "prod", "kind": "pause", "instance": INSTANCES[0]}
    text.gauge("paceline_override_active", pause, lambda m: 1 if PAUSED(m) else 0)
    text.gauge("paceline_override_ends_in_seconds", pause, lambda m: 60.0 * (clock(13, 41) + 30 - m) if PAUSED(m) else None)
    fired = [
        ("PacelineInteractiveDenied", "page", {"provider": "openai"}, between(clock(13, 15), clock(13, 49))),
        (
            "PacelineForeignDrain",
            "inform",
            {"provider": "openai", "account": "prod", "bucket": "requests"},
            between(clock(13, 20), MINUTES + 1),
        ),
        ("PacelineRejectedWhileEnforcing", "page", {"provider": "anthropic"}, between(clock(10, 51), clock(11, 28))),
        (
            "PacelineLearnedBelowConfigured",
            "inform",
            {"provider": "anthropic", "account": "prod", "bucket": "requests"},
            between(clock(4, 45), clock(9, 31)),
        ),
    ]
    for name, severity, labels, when in fired:
        alert = {"alertname": name, "alertstate": "firing", "severity": severity} | labels
        text.gauge("ALERTS", alert, lambda m, when=when: 1 if when(m) else None)
