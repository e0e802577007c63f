"""A made-up day of a fleet, minute by minute, the story: who calls, what waits for what, who refuses.

It runs from 14:00 to 14:00, after a quiet day to compare with, and has in it: a Redis that is away, a rolling restart, a
night of batch work, a provider that is ill, a trial in shadow mode, a day's quota that will not last, and at its end somebody
else on the main account, which chats suffer from until batch is paused.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from openmetrics import DAY, MINUTES, Labels


def clock(hour: int, minute: int = 0) -> int:
    """The minute of the second day at which a clock shows that time."""
    return DAY + ((hour - 14) % 24) * 60 + minute


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
