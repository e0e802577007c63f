"""Calls to rate-limited providers, paced for a whole fleet of workers.

Importing this opens nothing and imports no SDK.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paceline.ask import Ask, Target
from paceline.engine import flush
from paceline.errors import DeadlineOver, Denied, PacelineError, Refused, Unreachable, WrongSetting
from paceline.inherited import context, current_slot
from paceline.outcomes import (
    Abandoned,
    ConnectionFailed,
    Delay,
    Outcome,
    Reported,
    Response,
    Shadow,
    Signal,
    TimedOut,
)
from paceline.reading import outcome_of
from paceline.words import AnswerKind, Mode, NotApplied, Priority, Reason, Repeat, Source, Verdict

if TYPE_CHECKING:
    from paceline import aio
    from paceline.limiter import Call, Limiter, Slot
    from paceline.run import patch
    from paceline.transports import aiohttp, httpx, requests
    from paceline.wrapping import wrap

__all__ = [
    "Abandoned",
    "AnswerKind",
    "Ask",
    "Call",
    "ConnectionFailed",
    "DeadlineOver",
    "Delay",
    "Denied",
    "Limiter",
    "Mode",
    "NotApplied",
    "Outcome",
    "PacelineError",
    "Priority",
    "Reason",
    "Refused",
    "Repeat",
    "Reported",
    "Response",
    "Shadow",
    "Signal",
    "Slot",
    "Source",
    "Target",
    "TimedOut",
    "Unreachable",
    "Verdict",
    "WrongSetting",
    "aio",
    "aiohttp",
    "context",
    "current_slot",
    "flush",
    "httpx",
    "outcome_of",
    "patch",
    "requests",
    "wrap",
]

_LATER = {
    "Limiter": "paceline.limiter",
    "Call": "paceline.limiter",
    "Slot": "paceline.limiter",
    "httpx": "paceline.transports",
    "requests": "paceline.transports",
    "aiohttp": "paceline.transports",
    "patch": "paceline.run",
    "wrap": "paceline.wrapping",
}
"""What needs protobuf or an HTTP library, and where it is: imported when it is first used."""


def __getattr__(name: str) -> Any:
    import importlib

    if name == "aio":
        return importlib.import_module("paceline.aio")
    if name in _LATER:
        return getattr(importlib.import_module(_LATER[name]), name)
    raise AttributeError(f"module 'paceline' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
