"""A call that has been begun: what was asked for, with everything filled in, as it is said to the service."""

from __future__ import annotations

import random
import time
from typing import TypeVar

from paceline._proto.common_pb2 import Target as TargetMessage
from paceline._proto.rate_limiter_pb2 import AcquireRequest
from paceline.ask import Ask, Target
from paceline.inherited import Context, earlier
from paceline.settings import Settings
from paceline.timing import to_proto
from paceline.words import Priority, Repeat

T = TypeVar("T")

_NO_DEFAULTS = Ask("")


class Asked:
    """One attempt of a call; `next_attempt` makes the one after it of it."""

    __slots__ = ("deadline_at", "request", "scope")

    def __init__(self, request: AcquireRequest, deadline_at: float | None) -> None:
        self.request = request
        self.deadline_at = deadline_at
        """When the caller stops caring, by the monotonic clock."""
        self.scope = (request.target.provider, request.target.account)
        """What belongs to one replica: provider and account."""

    def message(self, now: float) -> AcquireRequest:
        """The request as it is to be sent at `now`: the time left counts from then; over is zero, which is not absent."""
        request = self.request
        if self.deadline_at is not None:
            request.deadline.CopyFrom(to_proto(self.deadline_at - now))
        return request

    def keep_place(self, ticket: bytes) -> None:
        """Keeps the place that a Queued answer gave."""
        self.request.ticket = ticket

    def next_attempt(self, lease_id: str) -> Asked:
        """The attempt after this one, which was sent under `lease_id`: the same call without its place."""
        request = AcquireRequest()
        request.CopyFrom(self.request)
        request.attempt += 1
        request.ClearField("ticket")
        request.previous_lease_id = lease_id
        return Asked(request, self.deadline_at)

    @property
    def target(self) -> Target:
        """Where it was meant to go."""
        return target_of(self.request.target)


def begin(ask: Ask, context: Context, settings: Settings, defaults: Ask = _NO_DEFAULTS) -> Asked:
    """From now on: everything filled in, the deadline an instant."""
    account = _first(ask.account, context.account, settings.account)
    priority = _first(ask.priority, context.priority, defaults.priority)
    repeat = _first(ask.repeat, context.repeat, defaults.repeat)
    max_wait = _first(ask.max_wait, context.max_wait, defaults.max_wait)
    request = AcquireRequest(
        request_id=ask.request_id or random_id(),
        attempt=1,
        target=TargetMessage(provider=ask.provider, account=account or "", model=ask.model),
        cost=ask.cost,
        cost_estimated=ask.cost_estimated,
        tenant=_first(ask.tenant, context.tenant, settings.tenant) or "",
        parent=_first(ask.parent, context.parent) or "",
    )
    if ask.fallbacks:
        request.fallbacks.extend(TargetMessage(provider=t.provider, account=t.account, model=t.model) for t in ask.fallbacks)
    for labels in (defaults.labels, context.labels, ask.labels):
        if labels:
            request.labels.update(labels)
    if priority is not None:
        request.priority = int(Priority.read(priority))  # type: ignore[assignment, arg-type]
    if repeat is not None:
        request.repeat = int(Repeat.read(repeat))  # type: ignore[assignment, arg-type]
    if max_wait is not None:
        request.max_wait.CopyFrom(to_proto(max_wait))
    if ask.run_time is not None:
        request.run_time.CopyFrom(to_proto(ask.run_time))
    deadline = _first(ask.deadline, defaults.deadline)
    ends = None if deadline is None else time.monotonic() + deadline
    return Asked(request, earlier(ends, context.deadline_at))


def target_of(message: TargetMessage) -> Target:
    """A target of the contract as a value."""
    return Target(message.provider, message.account, message.model)


def random_id() -> str:
    """A random identifier in the form of a UUID, version 4 (RFC 9562, section 5.4)."""
    bits = random.getrandbits(128) & ~(0xF << 76) & ~(0x3 << 62) | (0x4 << 76) | (0x2 << 62)
    text = f"{bits:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def _first(*values: T | None) -> T | None:
    """The first that is said."""
    for value in values:
        if value is not None:
            return value
    return None
