"""For code that blocks: the limiter, its calls and their slots."""

from __future__ import annotations

import _thread
import time
from collections.abc import Generator
from typing import TypeVar

from paceline import steps
from paceline.ask import Ask
from paceline.exchange import Exchange, Sleep
from paceline.outcomes import Headers, Outcome, Reported
from paceline.reports import Report
from paceline.slots import CallView, LimiterView, SlotView
from paceline.steps import Step

T = TypeVar("T")


class Slot(SlotView):
    """The right to send one call now, and the duty to report what came of it.

    Say `sent` right before sending, and `report` or `settle` what came of it. Its lease is renewed by itself meanwhile.
    """

    _call: Call

    def responded(self, status: int, headers: Headers = ()) -> None:
        """The first byte of a stream is there. What it used is reported at its end."""
        self._first_byte(status, headers)

    def report(self, outcome: Outcome, *, retry: bool = False) -> Reported:
        """Tells the service how the attempt went, and waits for what it makes of it.

        With ``retry`` it is asked for the next slot if the call is to be sent again: when `Reported.again` says so,
        `Call.acquire` brings it.
        """
        return self._call._carry_out(steps.report(self._state, self._given, Report(outcome), retry))


class Call(CallView):
    """One logical call: as many attempts as the service allows, under one ``request_id``."""

    def acquire(self) -> Slot:
        """Waits for the next slot and returns when the call may be sent: never before. Raises `Denied`."""
        if self._slot is not None and not self._slot.is_settled:
            raise RuntimeError("the slot before was not reported: report it, or close the call")
        self._slot = None
        try:
            given = self._carry_out(steps.acquire(self._state))
        except BaseException:
            self._stop_waiting()
            raise
        slot = Slot(self._state, given, self._engine)
        slot._call = self
        self._slot = slot
        return slot

    def _carry_out(self, plan: Generator[Step, None, T]) -> T:
        """Does one step after the other, blocking."""
        try:
            step = next(plan)
            while True:
                if isinstance(step, Sleep):
                    sleep_past(step.until)
                else:
                    self._wait(step)
                step = next(plan)
        except StopIteration as end:
            result: T = end.value
            return result

    def _wait(self, exchange: Exchange) -> None:
        if exchange.done:
            return
        lock = exchange.lock = _thread.allocate_lock()
        lock.acquire()
        assert self._engine is not None
        if exchange.session is None:
            self._engine.begin(exchange)
        if not exchange.done:
            lock.acquire()


class Limiter(LimiterView):
    """Asks the service for slots, for code that blocks; `paceline.aio.Limiter` for code that awaits.

    Make one and keep it. Threads may share it. It opens connections at the first ask, and a forked process begins with none.
    """

    def begin(self, ask: Ask) -> Call:
        """One logical call. Nothing is asked before `Call.acquire`; close it at the end."""
        return Call(*self._begun(ask))


def sleep_past(until: float) -> None:
    """Sleeps until the monotonic clock has reached `until`, whatever a timer thinks of it."""
    while True:
        left = until - time.monotonic()
        if left <= 0.0:
            return
        time.sleep(left)
