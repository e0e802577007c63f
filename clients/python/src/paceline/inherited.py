"""What calls inherit from the code around them: tenant, priority, deadline, labels, and the call that they are made for."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, NamedTuple

from paceline import checks
from paceline.words import Priority, Repeat

if TYPE_CHECKING:
    from paceline.slots import SlotView


_NO_LABELS: Mapping[str, str] = {}


class Context(NamedTuple):
    """What holds here and now."""

    account: str | None = None
    tenant: str | None = None
    priority: Priority | None = None
    max_wait: float | None = None
    repeat: Repeat | None = None
    parent: str | None = None
    deadline_at: float | None = None
    """By ``time.monotonic()``."""
    labels: Mapping[str, str] = _NO_LABELS
    attempts: int | None = None
    slot: SlotView | None = None
    """The slot under which the code here sends."""


class Under:
    """Inside of a call: what holds there is worked out when somebody asks, which most calls do not."""

    __slots__ = ("_inside", "_outer", "slot")

    def __init__(self, outer: Context | Under, slot: SlotView) -> None:
        self.slot: SlotView | None = slot
        self._outer = outer
        self._inside: Context | None = None

    def inside(self) -> Context:
        """Calls made here are made for the one that holds the slot."""
        inside, slot = self._inside, self.slot
        if inside is None:
            outer = _worked_out(self._outer)
            assert slot is not None
            ends = earlier(outer.deadline_at, slot.deadline_at)
            inside = self._inside = outer._replace(parent=slot.request_id, deadline_at=ends, slot=slot)
        return inside


NOTHING = Context()
current: ContextVar[Context | Under] = ContextVar("paceline", default=NOTHING)


def here() -> Context:
    """The context of the code that asks."""
    return _worked_out(current.get())


def _worked_out(holds: Context | Under) -> Context:
    return holds.inside() if isinstance(holds, Under) else holds


@contextmanager
def context(
    *,
    account: str | None = None,
    tenant: str | None = None,
    priority: Priority | str | None = None,
    deadline: float | None = None,
    max_wait: float | None = None,
    labels: Mapping[str, str] | None = None,
    parent: str | None = None,
    repeat: Repeat | str | None = None,
    attempts: int | None = None,
) -> Iterator[None]:
    """What is set here holds for all calls made inside, also by libraries that know nothing of Paceline.

    ``deadline`` is in seconds from now; of several around one another the earliest counts. Labels are added to those outside.
    ``attempts`` bounds how often each call is sent. Works in threads and tasks alike: a task inherits it when made, a thread
    does not.
    """
    checks.text("account", account, "write the alias of the account")
    checks.text("tenant", tenant)
    checks.text("parent", parent, "write the request_id of the call that those inside are made for")
    checks.seconds("max_wait", max_wait)
    checks.seconds("deadline", deadline, may_be_over=True)
    checks.count("attempts", attempts)
    labels = None if labels is None else checks.labels("labels", labels)
    outer = here()
    ends = None if deadline is None else time.monotonic() + deadline
    inner = Context(
        account=outer.account if account is None else account,
        tenant=outer.tenant if tenant is None else tenant,
        priority=outer.priority if priority is None else Priority.read(priority),
        max_wait=outer.max_wait if max_wait is None else max_wait,
        repeat=outer.repeat if repeat is None else Repeat.read(repeat),
        parent=outer.parent if parent is None else parent,
        deadline_at=earlier(outer.deadline_at, ends),
        labels={**outer.labels, **labels} if labels else outer.labels,
        attempts=outer.attempts if attempts is None else attempts,
        slot=outer.slot,
    )
    token = current.set(inner)
    try:
        yield
    finally:
        current.reset(token)


@contextmanager
def sending(slot: SlotView) -> Iterator[None]:
    """Calls made inside are made for this one: they share its bound on attempts, and its deadline."""
    token = enter(slot)
    try:
        yield
    finally:
        current.reset(token)


def enter(slot: SlotView) -> Token[Context | Under]:
    """The same until `current` is reset with what this returns."""
    return current.set(Under(current.get(), slot))


def current_slot() -> SlotView | None:
    """The slot under which this code sends: inside of ``limiter.call``, ``attempts`` and ``slot``; for its ``target``."""
    return current.get().slot


def earlier(one: float | None, other: float | None) -> float | None:
    """The earlier of two moments, of which either may be missing."""
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)
