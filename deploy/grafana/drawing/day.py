"""A made-up day of a fleet, minute by minute, as OpenMetrics text: what dashboards are drawn with.

It runs from 14:00 to 14:00, after a quiet day to compare with, and has in it: a Redis that is away, a rolling restart, a
night of batch work, a provider that is ill, a trial in shadow mode, a day's quota that will not last, and at its end somebody
else on the main account, which chats suffer from until batch is paused.
"""

from __future__ import annotations

import itertools
import math
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass, field

BEGIN = 1781618400  # 2026-06-16 14:00 UTC
DAY = 24 * 60
MINUTES = 2 * DAY
STEP = 2
STEPS = range(0, MINUTES + 1, STEP)
LE = [0.001 * 2**power for power in range(24)] + [14400.0]
STORE_LE = [0.00025, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 1.0]
INSTANCES = ["10.0.1.17:7071", "10.0.2.8:7071", "10.0.3.21:7071"]

Labels = dict[str, str]


def clock(hour: int, minute: int = 0) -> int:
    """The minute of the second day at which a clock shows that time."""
    return DAY + ((hour - 14) % 24) * 60 + minute


@dataclass
class Text:
    """Series, gathered by metric as the format wants them: a value for each step, none where there is none."""

    kinds: dict[str, str] = field(default_factory=dict)
    series: dict[str, dict[str, list[float | None]]] = field(default_factory=dict)

    def gauge(self, name: str, labels: Labels, value: Callable[[int], float | None]) -> None:
        """What is so at each step."""
        self.kinds[name] = "gauge"
        self.series.setdefault(name, {})[_selector(name, labels)] = [value(minute) for minute in STEPS]

    def counter(self, name: str, labels: Labels, rate: Callable[[int], float]) -> None:
        """What grows by so much a second; what is told twice is summed."""
        self.kinds[name] = "counter"
        total, grown = 0.0, []
        for minute in STEPS:
            total += 60 * STEP * max(0.0, rate(minute))
            grown.append(total)
        self._add(name, _selector(name, labels), grown)

    def histogram(
        self, name: str, labels: Labels, bounds: list[float], rate: Callable[[int], float], mean: Callable[[int], float]
    ) -> None:
        """So many a second, spread exponentially around a mean."""
        self.kinds[name] = "histogram"
        came = [60 * STEP * max(0.0, rate(minute)) for minute in STEPS]
        typical = [max(1e-5, mean(minute)) for minute in STEPS]
        for bound in [*bounds, math.inf]:
            le = "+Inf" if bound == math.inf else f"{bound:g}"
            each = [count * (1 - math.exp(-bound / wait)) for count, wait in zip(came, typical, strict=True)]
            self._add(name, _selector(f"{name}_bucket", {**labels, "le": le}), list(itertools.accumulate(each)))
        lengths = [count * wait for count, wait in zip(came, typical, strict=True)]
        self._add(name, _selector(f"{name}_sum", labels), list(itertools.accumulate(lengths)))
        self._add(name, _selector(f"{name}_count", labels), list(itertools.accumulate(came)))

    def _add(self, name: str, at: str, values: list[float]) -> None:
        before = self.series.setdefault(name, {}).get(at)
        if before is None:
            self.series[name][at] = list(values)
        else:
            self.series[name][at] = [(old or 0.0) + new for old, new in zip(before, values, strict=True)]

    def write(self) -> None:
        """Everything, to standard output."""
        for name, kind in self.kinds.items():
            family = name.removesuffix("_total") if kind == "counter" else name
            sys.stdout.write(f"# TYPE {family} {kind}\n")
            for at, values in self.series[name].items():
                rows = zip(STEPS, values, strict=True)
                sys.stdout.writelines(f"{at} {value:.9g} {BEGIN + 60 * minute}\n" for minute, value in rows if value is not None)
        sys.stdout.write("# EOF\n")


def _selector(name: str, labels: Labels) -> str:
    inside = ",".join(f'{key}="{value}"' for key, value in {"job": "paceline", **labels}.items())
    return f"{name}{{{inside}}}"


class Noise:
    """Small waves, the same in each run."""

    def __init__(self, seed: str, share: float = 0.08) -> None:
        chance = random.Random(seed)
        self._values = [1 + chance.uniform(-share, share) for _ in range(MINUTES + 1)]

    def __call__(self, minute: int) -> float:
        """A factor near 1."""
        return self._values[minute]


def between(start: int, end: int) -> Callable[[int], bool]:
    """Whether a minute lies in a part of the day."""
    return lambda minute: start <= minute < end


REDIS_AWAY = between(clock(16, 20), clock(16, 38))
NIGHT = between(clock(2), clock(5, 30))
ILL = between(clock(10, 40), clock(11, 25))
DRAIN = between(clock(13, 5), MINUTES + 1)
PAUSED = between(clock(13, 41), MINUTES + 1)
RESTART = clock(18)
NEW_CONFIG = clock(9, 30)


def daily(minute: int) -> float:
    """How busy people are: least at four in the morning, most in the afternoon."""
    hour = (minute / 60 + 14) % 24
    return 0.25 + 0.75 * max(0.0, math.sin((hour - 5) / 19 * math.pi)) ** 1.4


@dataclass
class Lane:
    """Calls of one tenant and class at one model: what comes, and what the limit lets through."""

    provider: str
    account: str
    model: str
    priority: str
    tenant: str
    comes: Callable[[int], float]
    tokens: int
    waiting: list[float] = field(default_factory=list)
    goes: list[float] = field(default_factory=list)
    denied: list[float] = field(default_factory=list)

    @property
    def scope(self) -> Labels:
        """Its labels."""
        return {"provider": self.provider, "account": self.account, "model": self.model}


def lanes() -> list[Lane]:
    """The fleet."""

    def people(most: float, seed: str) -> Callable[[int], float]:
        wave = Noise(seed)
        return lambda minute: most * daily(minute) * wave(minute)

    def steadily(rate: float, seed: str, at_night: float | None = None) -> Callable[[int], float]:
        wave = Noise(seed)
        return lambda minute: (at_night if at_night is not None and NIGHT(minute) else rate) * wave(minute)

    return [
        Lane("openai", "prod", "gpt-4o", "interactive", "web", people(7, "a"), 900),
        Lane("openai", "prod", "gpt-4o", "normal", "research", people(4, "b"), 1500),
        Lane("openai", "prod", "gpt-4o", "batch", "ads", steadily(5.5, "c", 26), 1200),
        Lane("anthropic", "prod", "claude-sonnet-4", "interactive", "web", people(3, "d"), 1100),
        Lane("anthropic", "prod", "claude-sonnet-4", "batch", "research", steadily(2.5, "e"), 2500),
        Lane("gemini", "prod", "gemini-2.5-pro", "normal", "research", people(2.2, "f"), 3000),
    ]


def played(every: list[Lane]) -> None:
    """Lets a limit be shared among lanes, the most urgent first: what waits, what goes, what is told no."""
    for minute in range(MINUTES + 1):
        left = {
            "openai": 20.0 * (0.5 if DRAIN(minute) else 1) * (0.6 if REDIS_AWAY(minute) else 1),
            "anthropic": 10.0 * (0.12 if ILL(minute) else 1),
            "gemini": 30.0,
        }
        for lane in every:
            before = lane.waiting[-1] if lane.waiting else 0.0
            wanted = before / 60 + lane.comes(minute)
            is_held = PAUSED(minute) and lane.priority == "batch" and lane.provider == "openai"
            part = {"interactive": 1.0, "normal": 0.7, "batch": 1.0}[lane.priority]
            goes = 0.0 if is_held else min(wanted, left[lane.provider] * part)
            if lane.priority == "interactive" and lane.provider == "openai" and DRAIN(minute) and not PAUSED(minute):
                goes = min(goes, 0.62 * left[lane.provider])  # batch takes the rest, until it is paused
            left[lane.provider] -= goes
            waits = max(0.0, (wanted - goes) * 60)
            # Chats come from people and are told no after 15 s; workers are so many, and ask again when they are done.
            most = {"interactive": lane.comes(minute) * 15, "normal": 60.0, "batch": 240.0}[lane.priority]
            denied = max(0.0, waits - most) / 60 if lane.priority == "interactive" else 0.0
            lane.waiting.append(min(waits, most))
            lane.goes.append(goes)
            lane.denied.append(denied)


def sources(lane: Lane, minute: int) -> dict[tuple[str, str], float]:
    """What the callers of a lane wait for, as parts of one."""
    if PAUSED(minute) and lane.priority == "batch" and lane.provider == "openai":
        return {("paused", ""): 1.0}
    if REDIS_AWAY(minute) and lane.provider == "openai":
        return {("store", ""): 0.35, ("bucket", "requests"): 0.6, ("pacing", "requests"): 0.05}
    if ILL(minute) and lane.provider == "anthropic":
        early = minute < clock(10, 52)
        return {("retry_after_seconds", ""): 0.1 if early else 0.75, ("backoff", ""): 0.75 if early else 0.15, ("ramp", ""): 0.1}
    if lane.priority == "batch" and NIGHT(minute):
        return {("bucket", "tokens"): 0.72, ("pacing", "tokens"): 0.08, ("fair_share", ""): 0.2}
    if DRAIN(minute) and lane.provider == "openai":
        return {("bucket", "requests"): 0.8, ("fair_share", ""): 0.12, ("pacing", "requests"): 0.08}
    return {("pacing", "requests"): 0.55, ("bucket", "tokens"): 0.25, ("jitter", ""): 0.2}


def refusals(provider: str, minute: int) -> dict[str, float]:
    """Which part of a provider's calls is refused, by where the wait was read."""
    if provider == "anthropic" and ILL(minute):
        return (
            {"none": 0.22, "retry_after_seconds": 0.06} if minute < clock(10, 52) else {"retry_after_seconds": 0.12, "none": 0.02}
        )
    if provider == "openai" and DRAIN(minute):
        return {"retry_after_ms": 0.035, "reset_header": 0.012}
    return {"openai": {"retry_after_ms": 0.001}, "anthropic": {"retry_after_seconds": 0.002}, "gemini": {"error_body": 0.0015}}[
        provider
    ]


def callers(text: Text, every: list[Lane]) -> None:
    """What callers meet."""
    for lane in every:
        scope, at = lane.scope, {"instance": INSTANCES[0]}
        shown = {"provider": lane.provider, "account": lane.account, "priority": lane.priority}
        idle = {"interactive": 0.03, "normal": 0.12, "batch": 0.6}[lane.priority]

        def mean(minute: int, lane: Lane = lane, idle: float = idle) -> float:
            return idle + lane.waiting[minute] / max(0.2, lane.goes[minute]) / 2.2

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
    text.counter(
        "paceline_calls_alone_total",
        {"provider": "openai", "instance": INSTANCES[0]},
        lambda m: 0.4 if 0 <= m - RESTART < 6 else 0,
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


def main() -> None:
    """Writes the day."""
    text, every = Text(), lanes()
    played(every)
    callers(text, every)
    providers(text, every)
    buckets(text, every)
    shadow(text)
    service(text, every)
    switched(text)
    text.write()


if __name__ == "__main__":
    main()
