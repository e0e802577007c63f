"""An ask that goes beside its call, which does not wait for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from paceline.exchange import ASK, Exchange
from paceline.reports import Report

if TYPE_CHECKING:
    from paceline.asked import Asked
    from paceline.engine.engine import Engine

T = TypeVar("T")


class Beside:
    """Tells the service of a call once both are there: the lease, and how the call went.

    The call was sent whatever becomes of the ask: an ask that still waits when it is over goes on waiting for its lease, since
    what was sent is to be charged; denied or unanswered, nothing is told. The next attempt of the call is asked for when that of
    this one is answered: it names the lease.
    """

    __slots__ = ("_asked", "_engine", "_exchange", "_next", "_said")

    def __init__(self, engine: Engine, asked: Asked, before: Beside | None = None) -> None:
        self._engine = engine
        self._asked = asked
        self._said: list[Report] = []
        self._next: list[Beside] = []
        self._exchange = Exchange(ASK, asked=asked)
        self._exchange.then = self._answered
        if before is None:
            engine.begin(self._exchange)
        else:
            before._go_on_with(self)

    def tell(self, said: Report) -> None:
        """How the call goes, or went."""
        # Whichever of the two comes second finds the other: each first says its part, and then looks.
        self._said.append(said)
        if self._exchange.done:
            self._pass_on()

    def _go_on_with(self, following: Beside) -> None:
        self._next.append(following)
        if self._exchange.done:
            self._pass_on()

    def _answered(self, exchange: Exchange) -> None:
        if exchange.lease is not None:
            exchange.lease.is_sent = True
        self._pass_on()

    def _pass_on(self) -> None:
        lease = self._exchange.lease
        while lease is not None and (said := _taken(self._said)) is not None:
            self._engine.tell(lease, said)
        following = _taken(self._next)
        if following is not None:
            following._asked.previous_lease_id = lease.id if lease is not None else ""
            self._engine.begin(following._exchange)


def _taken(some: list[T]) -> T | None:
    """The first one, for only one of those who come at the same moment."""
    try:
        return some.pop(0)
    except IndexError:
        return None
