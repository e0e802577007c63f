"""An ask that goes beside its call, which does not wait for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paceline.exchange import ASK, Exchange
from paceline.reports import Report

if TYPE_CHECKING:
    from paceline.asked import Asked
    from paceline.engine.engine import Engine


class Beside:
    """Tells the service of a call once both are there: the lease, and how the call went.

    The call was sent whatever becomes of the ask: an ask that still waits when it is over goes on waiting for its lease, since
    what was sent is to be charged; denied or unanswered, nothing is told.
    """

    __slots__ = ("_engine", "_exchange", "_said")

    def __init__(self, engine: Engine, asked: Asked) -> None:
        self._engine = engine
        self._said: list[Report] = []
        self._exchange = Exchange(ASK, asked=asked)
        self._exchange.then = self._answered
        engine.begin(self._exchange)

    def tell(self, said: Report) -> None:
        """How the call goes, or went."""
        # Whichever of the two comes second finds the other: each first says its part, and then looks.
        self._said.append(said)
        if self._exchange.done:
            self._pass_on()

    def _answered(self, exchange: Exchange) -> None:
        if exchange.lease is not None:
            exchange.lease.is_sent = True
        self._pass_on()

    def _pass_on(self) -> None:
        lease = self._exchange.lease
        while lease is not None and self._said:
            try:
                said = self._said.pop(0)
            except IndexError:
                return
            self._engine.tell(lease, said)
