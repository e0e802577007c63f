"""What the replicas of the made-up day told of callers, providers and buckets."""

from __future__ import annotations

from collections.abc import Callable

from day import DRAIN, ILL, NEW_CONFIG, NIGHT, RESTART, Lane, Noise, between, clock, daily, refusals, sources
from openmetrics import DAY, MINUTES, Labels, Text

LE = [0.001 * 2**power for power in range(24)] + [14400.0]
INSTANCES = ["10.0.1.17:7071", "10.0.2.8:7071", "10.0.3.21:7071"]


def callers(text: Text, every: list[Lane]) -> None:
    """What callers meet."""
    for lane in every:
        scope, at = lane.scope, {"instance": INSTANCES[0]}
        shown = {"provider": lane.provider, "account": lane.account, "priority": lane.priority}
        idle = {"interactive": 0.03, "normal": 0.12, "batch": 0.6}[lane.priority]

        def mean(minute: int, lane: Lane = lane, idle: float = idle) -> float:
            most = {"interactive": 3.3, "normal": 40.0, "batch": 1500.0}[lane.priority]
            return min(most, idle + lane.waiting[minute] / max(0.2, lane.goes[minute]) / 2.2)

        text.gauge("paceline_queue_depth", shown | at, lambda m, lane=lane: round(lane.waiting[m] + lane.goes[m] * 0.05))
        text.gauge(
            "paceline_oldest_wait_seconds",
            shown | at,
            lambda m, mean=mean, lane=lane: min(
                mean(m) * 2.4, {"interactive": 14.6, "normal": 118, "batch": 3590}[lane.priority]
            ),
        )
        text.gauge("paceline_inflight", shown | at, lambda m, lane=lane: round(lane.goes[m] * 2.5))
        by = {"provider": lane.provider, "priority": lane.priority}
        text.histogram("paceline_wait_seconds", by | {"outcome": "granted"} | at, LE, lambda m, lane=lane: lane.goes[m], mean)
        text.histogram(
            "paceline_wait_seconds", by | {"outcome": "denied"} | at, LE, lambda m, lane=lane: lane.denied[m], lambda m: 14
        )
        for outcome, reason, of in [
            ("granted", "", lane.goes),
            ("denied", "over_honor_cap" if lane.provider == "anthropic" else "deadline", lane.denied),
            ("queued", "", lane.waiting),
        ]:
            part = 0.02 if outcome == "queued" else 1
            text.counter(
                "paceline_acquires_total",
                scope | {"outcome": outcome, "reason": reason} | at,
                lambda m, of=of, part=part: of[m] * part,
            )
        tenant = {"provider": lane.provider, "tenant": lane.tenant, "priority": lane.priority}
        text.counter("paceline_tenant_wait_seconds_total", tenant | at, lambda m, mean=mean, lane=lane: lane.goes[m] * mean(m))
        text.counter("paceline_tenant_acquires_total", tenant | {"outcome": "granted"} | at, lambda m, lane=lane: lane.goes[m])
        text.counter("paceline_tenant_acquires_total", tenant | {"outcome": "denied"} | at, lambda m, lane=lane: lane.denied[m])
        _delays(text, lane)
        _units(text, lane)
    text.counter(
        "paceline_leases_expired_total",
        {"provider": "openai", "account": "prod", "model": "", "instance": INSTANCES[0]},
        lambda m: 0.05 if abs(m - RESTART - 40) < 12 else 0,
    )
    text.counter(
        "paceline_late_uses_total",
        {"provider": "openai", "account": "prod", "model": "gpt-4o", "instance": INSTANCES[0]},
        lambda m: 0.03 if NIGHT(m) and m % 38 == 0 else 0,
    )
    text.counter(
        "paceline_learned_limit_flaps_total",
        {"provider": "openai", "account": "prod", "model": "gpt-4o", "instance": INSTANCES[0]},
        lambda m: 0,
    )


def _delays(text: Text, lane: Lane) -> None:
    keys = {key for minute in range(MINUTES + 1) for key in sources(lane, minute)}
    for source, bucket in sorted(keys):
        labels = lane.scope | {"source": source, "bucket": bucket, "instance": INSTANCES[0]}
        idle = {"interactive": 0.03, "normal": 0.12, "batch": 0.6}[lane.priority]
        text.counter(
            "paceline_delay_seconds_total",
            labels,
            lambda m, key=(source, bucket), idle=idle: (lane.waiting[m] + lane.goes[m] * idle) * sources(lane, m).get(key, 0.0),
        )


def _units(text: Text, lane: Lane) -> None:
    def again(minute: int) -> float:
        return min(0.4, sum(refusals(lane.provider, minute).values()) * 0.8 + 0.004)

    price = {"openai": 6e-6, "anthropic": 9e-6, "gemini": 4e-6}[lane.provider]
    for meter, each in (("requests", 1.0), ("tokens", float(lane.tokens))):
        labels = lane.scope | {"meter": meter, "tenant": lane.tenant, "instance": INSTANCES[0]}
        parts: dict[str, Callable[[int], float]] = {
            "first": lambda m: 1 - again(m),
            "retry": again,
            "overrun": lambda m, each=each: 0.03 if each > 1 else 0.0,
        }
        for kind, part in parts.items():
            text.counter(
                "paceline_units_total", labels | {"kind": kind}, lambda m, part=part, each=each: lane.goes[m] * each * part(m)
            )
            if meter == "tokens":
                text.counter(
                    "paceline_cost_usd_total",
                    labels | {"kind": kind},
                    lambda m, part=part, each=each: lane.goes[m] * each * part(m) * price,
                )


def providers(text: Text, every: list[Lane]) -> None:
    """What providers answer."""
    at = {"instance": INSTANCES[0]}
    for provider in ("openai", "anthropic", "gemini"):
        mine = [lane for lane in every if lane.provider == provider]

        def sent(minute: int, mine: list[Lane] = mine) -> float:
            return sum(lane.goes[minute] for lane in mine)

        def refused(minute: int, provider: str = provider) -> float:
            return sum(refusals(provider, minute).values())

        status = {"openai": "429", "anthropic": "529", "gemini": "429"}[provider]
        lost = {"anthropic": lambda m: 0.04 if ILL(m) else 0.0005}.get(provider, lambda m: 0.0005)
        rows: list[tuple[Labels, Callable[[int], float]]] = [
            ({"outcome": "response", "status": "200", "verdict": "done"}, lambda m, r=refused, lost=lost: 1 - r(m) - lost(m)),
            ({"outcome": "response", "status": status, "verdict": "retry"}, lambda m, r=refused: r(m) * 0.9),
            ({"outcome": "response", "status": status, "verdict": "give_up"}, lambda m, r=refused: r(m) * 0.1),
            ({"outcome": "response", "status": "500", "verdict": "retry"}, lambda m, lost=lost: lost(m) * 0.5),
            ({"outcome": "timeout", "status": "", "verdict": "retry"}, lambda m, lost=lost: lost(m) * 0.5),
        ]
        for labels, part in rows:
            text.counter(
                "paceline_reports_total", {"provider": provider} | labels | at, lambda m, part=part, sent=sent: sent(m) * part(m)
            )
        for source in sorted({key for m in range(MINUTES + 1) for key in refusals(provider, m)}):
            text.counter(
                "paceline_signals_total",
                {"provider": provider, "source": source} | at,
                lambda m, s=source, p=provider, sent=sent: sent(m) * refusals(p, m).get(s, 0.0),
            )
    text.counter(
        "paceline_unread_headers_total",
        {"provider": "anthropic", "header": "anthropic-ratelimit-priority-tier"} | at,
        lambda m: 1.2 if m > clock(10, 40) else 0,
    )
    text.counter("paceline_unread_headers_total", {"provider": "gemini", "header": "x-gemini-quota-user"} | at, lambda m: 0.4)
    text.gauge(
        "paceline_breaker_open",
        {"provider": "anthropic", "account": "prod", "model": "claude-sonnet-4"} | at,
        lambda m: 1 if between(clock(10, 44), clock(11, 2))(m) else 0,
    )
    for provider in ("openai", "anthropic", "gemini"):
        text.gauge("paceline_account_mixed", {"provider": provider, "account": "prod"} | at, lambda m: 0)


def buckets(text: Text, every: list[Lane]) -> None:
    """The limits and how full they are."""
    at = {"instance": INSTANCES[1]}
    wave = Noise("level", 0.3)

    def used(provider: str, minute: int, most: float) -> float:
        return min(1.0, sum(lane.goes[minute] for lane in every if lane.provider == provider) / most)

    table = [
        ("openai", "gpt-4o", "requests", 1200.0, 20.0),
        ("openai", "gpt-4o", "tokens", 1.5e6, 21.5),
        ("anthropic", "claude-sonnet-4", "requests", 600.0, 10.0),
        ("gemini", "gemini-2.5-pro", "requests", 1000.0, 16.0),
    ]
    for provider, model, bucket, limit, rps in table:
        labels = {"provider": provider, "account": "prod", "model": model, "bucket": bucket} | at
        is_main = provider == "openai" and bucket == "requests"
        floor = (lambda m: 0.01) if not is_main else (lambda m: 0.0)

        def left(
            minute: int,
            provider: str = provider,
            rps: float = rps,
            is_main: bool = is_main,
            floor: Callable[[int], float] = floor,
        ) -> float:
            if (is_main and DRAIN(minute)) or (provider == "anthropic" and ILL(minute)):
                return 0.01 * wave(minute)
            return max(floor(minute), 1 - used(provider, minute, rps) * 0.97) * wave(minute) * 0.8

        text.gauge("paceline_bucket_level", labels, lambda m, left=left, limit=limit: min(1.0, left(m)) * limit)
        text.gauge(
            "paceline_bucket_observed_remaining",
            labels,
            lambda m, left=left, limit=limit: round(min(1.0, left(m) * 1.05) * limit),
        )
        for kind in ("configured", "learned", "effective"):
            learned = 500.0 if provider == "anthropic" and kind != "configured" else limit
            text.gauge(
                "paceline_bucket_limit",
                labels | {"kind": kind},
                lambda m, learned=learned, p=provider, limit=limit: (
                    learned if p != "anthropic" or m > NEW_CONFIG - 300 else limit
                ),
            )
        text.gauge(
            "paceline_bucket_foreign_drain", labels, lambda m, is_main=is_main: 540 * wave(m) if is_main and DRAIN(m) else 0
        )
        text.gauge("paceline_utilization", labels, lambda m, p=provider, rps=rps: used(p, m, rps))
    day = {"provider": "gemini", "account": "prod", "model": "gemini-2.5-pro", "bucket": "requests_day"} | at
    quota = 120_000.0

    def left_today(minute: int) -> float:
        return max(0.0, quota - 88 * ((minute + 14 * 60 - 9 * 60) % DAY))

    text.gauge("paceline_bucket_level", day, left_today)
    for kind in ("configured", "effective"):
        text.gauge("paceline_bucket_limit", day | {"kind": kind}, lambda m: quota)
    text.gauge("paceline_utilization", day, lambda m: 1 - left_today(m) / quota)
    text.gauge("paceline_quota_exhausted_in_seconds", day, lambda m: left_today(m) / 140 * 60)
    text.gauge("paceline_quota_resets_in_seconds", day, lambda m: 60.0 * (DAY - (m + 14 * 60 - 9 * 60) % DAY))


def shadow(text: Text) -> None:
    """A trial next to live traffic."""
    wave = Noise("shadow", 0.2)
    labels = {"provider": "groq", "account": "trial", "model": "llama-4-70b"}
    at = {"instance": INSTANCES[2]}

    def asks(minute: int) -> float:
        return 6 * daily(minute) * wave(minute)

    def over(minute: int) -> float:
        return max(0.0, asks(minute) - 5.2) / 12

    text.counter("paceline_shadow_asks_total", labels | at, asks)
    text.counter("paceline_shadow_would_wait_total", labels | at, lambda m: asks(m) * min(0.9, 0.04 + over(m) * 4))
    text.counter("paceline_shadow_wait_seconds_total", labels | at, lambda m: asks(m) * (0.02 + over(m) * 9))
    text.counter(
        "paceline_shadow_would_deny_total",
        labels | {"reason": "deadline"} | at,
        lambda m: asks(m) * max(0.0, over(m) - 0.08) * 0.2,
    )
    text.counter("paceline_shadow_would_deny_total", labels | {"reason": "over_honor_cap"} | at, lambda m: asks(m) * 0.0004)
    text.counter("paceline_shadow_prevented_total", labels | at, lambda m: asks(m) * over(m) * 0.8)
    text.counter(
        "paceline_signals_total", {"provider": "groq", "source": "retry_after_seconds"} | at, lambda m: asks(m) * over(m) * 0.9
    )
    text.counter(
        "paceline_reports_total",
        {"provider": "groq", "outcome": "response", "status": "200", "verdict": "done"} | at,
        lambda m: asks(m) * (1 - over(m) * 0.9),
    )
    text.counter(
        "paceline_reports_total",
        {"provider": "groq", "outcome": "response", "status": "429", "verdict": "retry"} | at,
        lambda m: asks(m) * over(m) * 0.9,
    )
    text.counter("paceline_acquires_total", labels | {"outcome": "granted", "reason": ""} | at, asks)
    bucket = labels | {"bucket": "requests"} | at
    for kind, limit in (("configured", 360.0), ("learned", 350.0), ("effective", 350.0)):
        text.gauge("paceline_bucket_limit", bucket | {"kind": kind}, lambda m, limit=limit: limit)
    text.gauge("paceline_bucket_level", bucket, lambda m: max(9.0, 330 - asks(m) * 55))
    for provider, account, mode in [
        ("groq", "trial", "shadow"),
        *((one, "prod", "enforce") for one in ("openai", "anthropic", "gemini")),
    ]:
        for name in ("enforce", "shadow", "off"):
            text.gauge(
                "paceline_mode", {"provider": provider, "account": account, "mode": name} | at, lambda m, v=float(name == mode): v
            )
