"""A call that has been begun: what was asked for, with everything filled in, as it is said to the service."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from typing import TypeVar

from paceline._proto.common_pb2 import Target as TargetMessage
from paceline.ask import Ask, Target
from paceline.engine import wire
from paceline.inherited import Context, earlier
from paceline.settings import Settings
from paceline.words import Priority, Repeat

T = TypeVar("T")

_NO_DEFAULTS = Ask("")
_VARIANT = {"0": "8", "1": "9", "2": "a", "3": "b"}
"""The two random bits beside the variant's."""


class Begun:
    """What all attempts of a call have in common, and all calls of the same ask in the same context."""

    __slots__ = ("attempts", "cost", "encoded", "fallbacks", "max_wait", "priority", "target")

    def __init__(self, ask: Ask, context: Context, settings: Settings, defaults: Ask) -> None:
        account = _first(ask.account, context.account, settings.account) or ""
        priority: Priority | str | None = _first(ask.priority, context.priority, defaults.priority)  # type: ignore[assignment]
        repeat: Repeat | str | None = _first(ask.repeat, context.repeat, defaults.repeat)  # type: ignore[assignment]
        self.target = Target(ask.provider, account, ask.model)
        self.cost: Mapping[str, int] = ask.cost
        self.fallbacks = bool(ask.fallbacks)
        self.priority = Priority.UNSPECIFIED if priority is None else Priority.read(priority)
        self.max_wait: float | None = _first(ask.max_wait, context.max_wait, defaults.max_wait)
        self.attempts: int | None = _first(ask.attempts, context.attempts, defaults.attempts)
        labels = ask.labels
        if defaults.labels or context.labels:
            labels = {**defaults.labels, **context.labels, **labels}
        self.encoded = wire.begun(
            self.target,
            ask.fallbacks,
            ask.cost,
            ask.cost_estimated,
            self.max_wait,
            ask.run_time,
            self.priority,
            _first(ask.tenant, context.tenant, settings.tenant) or "",
            labels,
            _first(ask.parent, context.parent) or "",
            0 if repeat is None else Repeat.read(repeat),
        )
        """The request without what differs from attempt to attempt."""


class Asked:
    """One attempt of a call; `next_attempt` makes the one after it of it."""

    __slots__ = ("attempt", "begun", "deadline_at", "previous_lease_id", "request_id", "scope", "target", "ticket")

    def __init__(
        self, begun: Begun, request_id: str, deadline_at: float | None, attempt: int = 1, previous_lease_id: str = ""
    ) -> None:
        self.begun = begun
        self.target = target = begun.target
        """Where it was meant to go."""
        self.scope = (target.provider, target.account)
        """What belongs to one replica: provider and account."""
        self.request_id = request_id
        self.attempt = attempt
        self.deadline_at = deadline_at
        """When the caller stops caring, by the monotonic clock."""
        self.ticket = b""
        """The place that a Queued answer gave."""
        self.previous_lease_id = previous_lease_id

    @property
    def is_last(self) -> bool:
        """Whether the caller wants no attempt after this one."""
        return self.begun.attempts is not None and self.attempt >= self.begun.attempts

    def encoded(self, now: float) -> bytes:
        """The request as it is to be sent at `now`: the time left counts from then; over is zero, which is not absent."""
        left = None if self.deadline_at is None else max(self.deadline_at - now, 0.0)
        return self.begun.encoded + wire.attempt(self.request_id, self.attempt, left, self.ticket, self.previous_lease_id)

    def next_attempt(self, lease_id: str) -> Asked:
        """The attempt after this one, which was sent under `lease_id`: the same call without its place."""
        return Asked(self.begun, self.request_id, self.deadline_at, self.attempt + 1, lease_id)


def begin(ask: Ask, context: Context, settings: Settings, defaults: Ask = _NO_DEFAULTS) -> Asked:
    """From now on: everything filled in, the deadline an instant."""
    # An ask that is used again in the same context says the same again.
    kept = ask.__dict__.get("_begun")
    if kept is not None and kept[0] is context and kept[1] is settings and kept[2] is defaults:
        begun = kept[3]
    else:
        begun = Begun(ask, context, settings, defaults)
        ask.__dict__["_begun"] = (context, settings, defaults, begun)
    deadline = ask.deadline if ask.deadline is not None else defaults.deadline
    ends = context.deadline_at
    if deadline is not None:
        ends = earlier(time.monotonic() + deadline, ends)
    return Asked(begun, ask.request_id or random_id(), ends)


def target_of(message: TargetMessage) -> Target:
    """A target of the contract as a value."""
    return Target(message.provider, message.account, message.model)


def random_id() -> str:
    """A random identifier in the form of a UUID, version 4 (RFC 9562, section 5.4)."""
    text = f"{random.getrandbits(122):031x}"
    return f"{text[1:9]}-{text[9:13]}-4{text[13:16]}-{_VARIANT[text[0]]}{text[16:19]}-{text[19:]}"


def _first(*values: T | None) -> T | None:
    """The first that is said."""
    for value in values:
        if value is not None:
            return value
    return None
