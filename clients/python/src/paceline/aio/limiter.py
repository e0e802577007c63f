"""The limiter, its calls and their slots, awaiting."""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import closing
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from paceline import steps
from paceline.ask import Ask
from paceline.attempts import AttemptView
from paceline.errors import DeadlineOver, Denied, PacelineError
from paceline.exchange import Exchange, Sleep
from paceline.outcomes import Headers, Outcome, Reported
from paceline.reading import outcome_of
from paceline.reports import Report
from paceline.slots import CallView, LimiterView, SlotView
from paceline.steps import Step

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from paceline.ask import AskFields

T = TypeVar("T")

log = logging.getLogger("paceline")


class Slot(SlotView):
    """The right to send one call now, and the duty to report what came of it.

    Say `sent` right before sending, and `report` or `settle` what came of it. Its lease is renewed by itself meanwhile.
    """

    _call: Call

    async def responded(self, status: int, headers: Headers = ()) -> None:
        """The first byte of a stream is there. What it used is reported at its end."""
        self._first_byte(status, headers)

    async def report(self, outcome: Outcome, *, retry: bool = False) -> Reported:
        """Tells the service how the attempt went, and waits for what it makes of it.

        With ``retry`` it is asked for the next slot if the call is to be sent again: when `Reported.again` says so,
        `Call.acquire` brings it.
        """
        reported = await self._call._carry_out(steps.report(self._state, self._given, Report(outcome), retry))
        self.is_to_be_sent_again = reported.again
        return reported


class Call(CallView):
    """One logical call: as many attempts as the service allows, under one ``request_id``."""

    async def acquire(self) -> Slot:
        """Waits for the next slot and returns when the call may be sent: never before. Raises `Denied`."""
        self._may_acquire()
        try:
            given = await self._carry_out(steps.acquire(self._state))
        except BaseException:
            self._stop_waiting()
            raise
        slot = Slot(self._state, given, self._engine)
        slot._call = self
        return slot

    async def _carry_out(self, plan: Generator[Step, None, T]) -> T:
        """Does one step after the other, awaiting."""
        try:
            step = next(plan)
            while True:
                if isinstance(step, Sleep):
                    await sleep_past(step.until)
                elif not step.done:
                    answered = self._said(step)
                    if not step.done:
                        await answered
                step = next(plan)
        except StopIteration as end:
            result: T = end.value
            return result

    def _said(self, exchange: Exchange) -> asyncio.Future[None]:
        """Puts it on its way. What is returned is done when it is answered."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        exchange.future, exchange.loop = future, loop
        assert self._engine is not None
        if exchange.began == 0.0:
            self._engine.begin(exchange)
        return future


class Attempt(AttemptView):
    """One attempt as a block: ``async with attempt as slot: ...``. When it ends it is reported how it went.

    An error that the service lets try again does not leave the block: the next attempt follows.
    """

    def __init__(self, slot: Slot) -> None:
        super().__init__()
        self.slot = slot

    async def __aenter__(self) -> Slot:
        self._enter(self.slot)
        return self.slot

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None) -> bool:
        self._leave()
        slot = self.slot
        outcome = self._outcome(slot, error)
        if outcome is not None and self._is_over(slot, outcome, error):
            slot.settle(outcome)
        elif outcome is not None:
            try:
                self.again = (await slot.report(outcome, retry=True)).again
            except PacelineError as problem:  # no reason to hide how the attempt went
                log.warning("an attempt could not be reported: %s", problem)
        if self.again and isinstance(error, Exception):
            self.error = error
            return True
        return False


class SlotBlock(AttemptView):
    """A block under one slot: it is acquired at its beginning, and at its end it is reported how it went."""

    def __init__(self, call: Call) -> None:
        super().__init__()
        self._call = call
        self._slot: Slot | None = None

    async def __aenter__(self) -> Slot:
        slot = self._slot = await self._call.acquire()
        self._enter(slot)
        return slot

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None) -> None:
        self._leave()
        slot = self._slot
        if slot is not None:
            outcome = self._outcome(slot, error)
            if outcome is not None:
                slot.settle(outcome)
        self._call.close()


class Limiter(LimiterView):
    """Asks the service for slots, for code that awaits; `paceline.Limiter` for code that blocks.

    Make one and keep it. Event loops may share it. It opens connections at the first ask, and a forked process begins with none.
    """

    def begin(self, ask: Ask) -> Call:
        """One logical call. Nothing is asked before `Call.acquire`; close it at the end."""
        return Call(*self._begun(ask))

    async def call(
        self,
        fn: Callable[..., Awaitable[T]],
        /,
        *args: Any,
        ask: Ask,
        outcome: Callable[[Any], Outcome] = outcome_of,
        **kwargs: Any,
    ) -> T:
        """Calls ``await fn(*args, **kwargs)`` as often as the service says, each time when it says, and returns what it returned.

        The SDK's own retries are to be off. What an attempt returned or raised is read by ``outcome`` (by default as
        `paceline.outcome_of` does). When it is not sent again the last answer or error is the caller's, as without us; only
        when nothing was sent `Denied` is raised. `paceline.current_slot` has the target inside of ``fn``. An attempt
        that runs when the deadline passes is cancelled and reported as a time-out; the call ends in `DeadlineOver`.
        """
        value: T
        async for attempt in self.attempts(ask):
            async with attempt as slot:
                try:
                    coming = fn(*args, **kwargs)
                    if not inspect.isawaitable(coming):
                        raise TypeError(f"{fn!r} returned nothing to await: call it with paceline.Limiter, whose call blocks")
                    value = await within(slot, coming)
                except Exception as error:
                    slot.result(outcome(error))
                    raise
                slot.result(outcome(value))
        return value

    async def attempts(self, ask: Ask | str, /, **fields: Unpack[AskFields]) -> AsyncIterator[Attempt]:
        """The attempts of one call, each when it may be sent: ``async for attempt in limiter.attempts(...):
        async with attempt as slot: ...``.

        The block ends a call that succeeded, and one whose error is not to be tried again (which is raised). Say what came by
        `Slot.result`, unless an exception says it.
        """
        with closing(self.begin(Ask.of(ask, fields))) as call:
            last: Attempt | None = None
            while last is None or last.again:
                try:
                    slot = await call.acquire()
                except Denied as denied:
                    if last is None:
                        raise
                    if last.error is not None:
                        raise last.error from denied
                    return  # the last answer is the caller's
                last = Attempt(slot)
                yield last

    def slot(self, ask: Ask | str, /, **fields: Unpack[AskFields]) -> SlotBlock:
        """One attempt: ``async with limiter.slot("openai", model=..., cost=...) as slot: ...``.

        Say what came by `Slot.result`; a block that says nothing and raises nothing has succeeded. Nothing is sent again.
        """
        return SlotBlock(self.begin(Ask.of(ask, fields)))


async def sleep_past(until: float) -> None:
    """Sleeps until the monotonic clock has reached `until`, whatever a timer thinks of it."""
    while True:
        left = until - time.monotonic()
        if left <= 0.0:
            return
        await asyncio.sleep(left)


async def within(slot: Slot, sending: Awaitable[T]) -> T:
    """Awaits an attempt, as long as its caller cares for it."""
    ends = slot.deadline_at
    if ends is None:
        return await sending
    try:
        return await asyncio.wait_for(sending, max(ends - time.monotonic(), 0.0))
    except asyncio.TimeoutError as error:
        if time.monotonic() < ends:
            raise  # its own
        raise DeadlineOver(f"the deadline passed while attempt {slot.attempt} was at the provider; it may have run") from error
