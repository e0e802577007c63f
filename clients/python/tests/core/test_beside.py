"""Asks beside calls, in whatever order answers, reports and further attempts come."""

from __future__ import annotations

import itertools
from typing import Any

from paceline.ask import Ask, Target
from paceline.asked import Asked, begin
from paceline.engine.beside import Beside
from paceline.exchange import Exchange, Lease
from paceline.inherited import NOTHING
from paceline.outcomes import Response
from paceline.reports import Report
from paceline.settings import Settings


class Engine:
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.begun: list[Exchange] = []
        self.told: list[tuple[str, int]] = []

    def begin(self, exchange: Exchange) -> None:
        self.begun.append(exchange)

    def tell(self, lease: Lease, said: Report) -> None:
        self.told.append((lease.id, said.request.status))

    def answer(self, number: int, lease_id: str | None) -> None:
        exchange = self.begun[number]
        exchange.lease = None if lease_id is None else Lease(lease_id, Target("p"), None)
        exchange.done = True
        assert exchange.then is not None
        exchange.then(exchange)


def asked() -> Asked:
    return begin(Ask("p", request_id="r"), NOTHING, Settings(("here",), "", "", "shadow"))


def test_the_next_attempt_is_asked_for_once_and_names_the_lease_whatever_comes_first() -> None:
    for order in itertools.permutations(("answered", "told", "followed")):
        engine: Any = Engine()
        first_asked = asked()
        first = Beside(engine, first_asked)
        second_asked = first_asked.next_attempt("")
        for step in order:
            if step == "answered":
                engine.answer(0, "lease-1")
            elif step == "told":
                first.tell(Report(Response(429)))
            else:
                Beside(engine, second_asked, first)
        assert engine.told == [("lease-1", 429)]
        assert [exchange.asked for exchange in engine.begun] == [first_asked, second_asked]
        assert second_asked.previous_lease_id == "lease-1"


def test_an_attempt_after_one_that_nobody_answered_names_none() -> None:
    engine: Any = Engine()
    first_asked = asked()
    first = Beside(engine, first_asked)
    first.tell(Report(Response(429)))
    second_asked = first_asked.next_attempt("")
    Beside(engine, second_asked, first)
    assert len(engine.begun) == 1
    engine.answer(0, None)
    assert (len(engine.begun), second_asked.previous_lease_id, engine.told) == (2, "", [])
