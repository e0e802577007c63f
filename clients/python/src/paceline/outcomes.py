"""How an attempt went, and what the service made of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from paceline import checks
from paceline.words import AnswerKind, NotApplied, Reason, Source, Verdict

Headers: TypeAlias = Mapping[Any, Any] | Iterable[tuple[Any, Any]]
"""Headers as any HTTP library has them: a mapping, or pairs of name and value (repeats kept), as text or bytes."""


@dataclass(frozen=True)
class Response:
    """The provider answered. Unless ``final`` is false nothing comes after it."""

    status: int
    """The HTTP status; 0 where there is none."""
    headers: Headers = ()
    """As received. Secrets in well-known headers are left out by the client."""
    body: bytes | str = b""
    """Of an error: its start (8 KiB at most are sent)."""
    usage: Mapping[str, int] = field(default_factory=dict)
    """Meter -> units really used: settles what was reserved, in both directions."""
    usage_estimated: bool = False
    """The usage is a guess, as of a stream that was cut off."""
    grpc_status: int | None = None
    """The gRPC status, of a provider that speaks gRPC."""
    served_by: str = ""
    """Who really answered, when a gateway sent the call elsewhere."""
    arrived: float | None = None
    """When it arrived, by ``time.monotonic()``; now, if it is not said."""
    final: bool = True
    """Whether nothing more will come."""

    def __post_init__(self) -> None:
        if isinstance(self.status, bool) or not isinstance(self.status, int):
            raise TypeError(f"status: {checks.shown(self.status)} is not a number; write the HTTP status as one: 200")
        if self.usage:
            checks.units("usage", self.usage)


@dataclass(frozen=True)
class TimedOut:
    """No answer came in time; the call may have run."""

    usage: Mapping[str, int] = field(default_factory=dict)
    """A guess at what it used, if there is one."""


@dataclass(frozen=True)
class ConnectionFailed:
    """The connection failed before the call was sent."""


@dataclass(frozen=True)
class Abandoned:
    """The caller lost interest after sending; the call may have run."""

    usage: Mapping[str, int] = field(default_factory=dict)
    """A guess at what it used, if there is one."""


Outcome: TypeAlias = Response | TimedOut | ConnectionFailed | Abandoned


@dataclass(frozen=True)
class Delay:
    """One part of a wait."""

    source: Source
    """Why."""
    duration: float
    """How long, in seconds."""
    bucket: str = ""
    """The bucket it is about; empty where none is concerned."""
    binding: bool = False
    """Whether this is the one that governed."""


@dataclass(frozen=True)
class Shadow:
    """What the service would have said, were it not only watching."""

    wait: float
    """How long the call would have waited, in seconds."""
    denied: Reason | None = None
    """Why it would have been denied; ``None``: it would not."""
    detail: str = ""
    """The sentence of that denial."""
    delays: tuple[Delay, ...] = ()
    """Where that time would have gone."""


@dataclass(frozen=True)
class Signal:
    """What was read out of an answer of the provider."""

    source: Source = Source.NONE
    """Where ``retry_after`` was read."""
    retry_after: float | None = None
    """How long the provider says to wait, in seconds from its answer."""
    honored: float | None = None
    """The wait that was really set for it."""
    retryable: bool = False
    """Whether the same request is worth sending again later, leaving ``repeat`` aside."""
    kind: AnswerKind = AnswerKind.UNSPECIFIED
    """What kind of answer it was."""


@dataclass(frozen=True)
class Reported:
    """What the service made of a report."""

    verdict: Verdict
    """What to do with the call."""
    reason: Reason = Reason.UNSPECIFIED
    """Why, when the verdict is to give up."""
    again: bool = False
    """Whether to send it again: ``call.acquire()`` brings the slot for that. Never true unless it was asked for."""
    signal: Signal | None = None
    """What was read out of the answer."""
    detail: str = ""
    """A sentence for a person."""
    not_applied: NotApplied | None = None
    """Why the report changed nothing; ``None``: it was applied. The signal was read in any case."""
