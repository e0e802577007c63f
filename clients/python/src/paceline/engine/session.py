"""One stream to one replica: what is said is put together as it comes, and answers go back to whoever waits for them.

Callers put exchanges into an outbox. On an event loop it is emptied once per turn of the loop, into one message; elsewhere at
once, by whoever comes first, and those who come while that one writes are taken along. One thread reads and hands answers out.
No lock is waited for on the way: whoever takes an exchange out of `unanswered` or `held` may end it.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from asyncio import _get_running_loop
from collections import deque
from typing import TYPE_CHECKING, TypeAlias

from paceline._proto import rate_limiter_pb2
from paceline._proto.rate_limiter_pb2 import (
    AcquireResponse,
    ReleaseRequest,
    ReportRequest,
    SessionResponse,
)
from paceline.asked import target_of
from paceline.engine import wire
from paceline.engine.frames import Broken
from paceline.engine.transport import Stream
from paceline.errors import PacelineError
from paceline.exchange import ASK, RELEASE, Exchange, Lease
from paceline.timing import Moment

if TYPE_CHECKING:
    import asyncio

    from paceline.engine.engine import Engine

log = logging.getLogger("paceline")

Wakes: TypeAlias = "dict[asyncio.AbstractEventLoop, list[Exchange]]"
"""Who is to be woken, by loop."""

_RUNNING = ReportRequest(outcome=rate_limiter_pb2.OUTCOME_RUNNING).SerializeToString()
MOST_AT_ONCE = 1_000
"""The most that is put into one message."""
ENOUGH = 32
"""On an event loop so many do not wait for the end of its turn: the service works on them while the loop goes on."""


class Session:
    """A stream and all that is said on it."""

    def __init__(self, engine: Engine, replica: str) -> None:
        self.engine = engine
        self.replica = replica
        self.outbox: deque[Exchange] = deque()
        self.unanswered: dict[int, Exchange] = {}
        """Said, and not a word heard of it."""
        self.held: dict[int, Exchange] = {}
        """They have a place in line, and their decision follows."""
        self.leases: dict[str, Lease] = {}
        """Renewed by the service as long as the stream lives."""
        self.is_over = False
        self.heard_at = time.monotonic()
        self.pinged_at = 0.0
        """When it was last asked for a sign of life."""
        self.knows_bundles = False
        self._pings = itertools.count(1)
        self._numbers = itertools.count(1)
        self._stream = Stream(replica, self.outbox, self._messages)
        self._planned_on: object = None
        """The loop that will empty the outbox."""

    @property
    def is_open(self) -> bool:
        """The service has taken the stream."""
        return self._stream.is_open

    def start(self) -> None:
        """Opens the stream, in a thread of its own that reads it until it ends."""
        name = f"paceline-reader-{self.replica}"
        threading.Thread(target=self._live, name=name, daemon=True).start()

    def say(self, exchange: Exchange) -> None:
        """Says it with all that is said in the same moment. What comes after the end is placed elsewhere."""
        exchange.session = self
        outbox = self.outbox
        outbox.append(exchange)
        if self.is_over:
            self.leave_to_others()
            return
        loop = _get_running_loop()
        if loop is None or len(outbox) >= ENOUGH:
            self._stream.flush()
        elif self._planned_on is not loop:
            self._planned_on = loop
            loop.call_soon(self.flush)

    def flush(self) -> None:
        """Writes what there is to be said."""
        self._planned_on = None
        self._stream.flush()

    def waiting(self) -> list[Exchange]:
        """All that is not answered, at one moment, while others put in and take out."""
        said = [*list(self.outbox.copy()), *list(self.unanswered.copy().values()), *list(self.held.copy().values())]
        return [exchange for exchange in said if not exchange.done]

    def ping(self, now: float) -> None:
        """Asks for a sign of life."""
        self.pinged_at = now
        self._stream.ping(next(self._pings))

    def end(self) -> None:
        """The stream is not used any more; what it carried is for the keeper to take."""
        self.is_over = True
        self._stream.close()

    def let_go(self) -> None:
        """In a child: the parent's connection is not kept open here."""
        self.is_over = True
        self._stream.let_go()

    def leave_to_others(self) -> None:
        """What was never written goes elsewhere."""
        while True:
            try:
                exchange = self.outbox.popleft()
            except IndexError:
                return
            self.engine.place(exchange)

    def _messages(self) -> list[bytes]:
        """Makes messages of all that is in the outbox; one thread at a time does."""
        outbox, now = self.outbox, time.monotonic()
        batch: list[Exchange] = []
        said: list[bytes] = []
        while len(batch) < MOST_AT_ONCE:
            try:
                exchange = outbox.popleft()
            except IndexError:
                break
            batch.append(exchange)
            part = self._encoded(exchange, now)
            if part is not None:
                said.append(part)
        if self.is_over:
            # The keeper may have looked before all of them were there.
            for exchange in batch:
                if self.unanswered.pop(exchange.cid, None) is not None:
                    self.engine.place(exchange)
            return []
        return wire.bundles(said, self.knows_bundles)

    def _encoded(self, exchange: Exchange, now: float) -> bytes | None:
        """What is written for an exchange. From here on its answer may come."""
        if exchange.abandoned and not exchange.is_asked_to_undo:
            if self.held.get(exchange.cid) is exchange:
                return wire.cancel(exchange.cid)
            # Who leaves before he has a place would leave it behind: he leaves when he has it.
            if self.unanswered.get(exchange.cid) is not exchange:
                self.engine.place(exchange)  # it never was said here: the keeper knows what is to be done about it
            return None
        cid = next(self._numbers)
        try:
            said = _said(exchange, cid, now)
        except Exception as error:  # whatever is wrong with one is no harm to the others
            exchange.problem = PacelineError(f"this cannot be said to the service: {error}")
            self.engine.finish(exchange)
            return None
        exchange.cid, exchange.said_at = cid, now
        self.unanswered[cid] = exchange
        return said

    # The reader.

    def _live(self) -> None:
        problem: Exception
        try:
            self._stream.connect()
            was_open = False
            for messages in self._stream.messages():
                self._read(messages)
                if not was_open and self._stream.is_open:
                    was_open = True
                    self.engine.tell_keeper(self.engine.keeper.opened, self)
        except Broken as broken:
            problem = broken
        except Exception as error:
            log.exception("the stream to a Paceline replica failed")
            problem = error
        self._stream.let_go()
        self.engine.tell_keeper(self.engine.keeper.broken, self, problem)

    def _read(self, messages: list[bytes]) -> None:
        received = Moment.now()
        self.heard_at = received.steady
        wakes: Wakes = {}
        for message in messages:
            response = SessionResponse.FromString(message)
            if response.takes_more:
                self.knows_bundles = True
            self._take(response, received, wakes)
            for more in response.more:
                self._take(more, received, wakes)
        if wakes:
            wake(wakes)

    def _take(
        self,
        said: SessionResponse,
        received: Moment,
        wakes: Wakes,
    ) -> None:
        cid = said.correlation_id
        kind = said.WhichOneof("answer")
        if kind == "acquire":
            answer = said.acquire
            exchange = self.unanswered.pop(cid, None)
            if exchange is not None and not exchange.done and answer.HasField("queued"):
                exchange.queued = answer
                if exchange.asked is not None:
                    exchange.asked.ticket = answer.queued.ticket
                self.held[cid] = exchange
                if exchange.abandoned:
                    self.say(exchange)  # that it leaves
                self.engine.heard(exchange, answer, received)
                return
            exchange = exchange or self.held.pop(cid, None)
            if exchange is None or exchange.done:
                self._came_second(exchange, answer)
                return
            self._decided(exchange, answer)
            exchange.response = answer
        else:
            exchange = self.unanswered.pop(cid, None) or self.held.pop(cid, None)
            if exchange is None or exchange.done:
                return
            if kind == "report":
                exchange.response = said.report
                self._reported(exchange, cid)
            elif kind == "release":
                exchange.response = said.release
                if exchange.lease is not None:
                    self.engine.settled(exchange.lease)
            elif not self.engine.failed(exchange, said.error, self.replica):
                return
        exchange.received, exchange.replica = received, self.replica
        finish(exchange, wakes)
        self.engine.finished(exchange)

    def _decided(self, exchange: Exchange, answer: AcquireResponse) -> None:
        """A grant is a lease from here on."""
        self.engine.heard_of(exchange, answer.degraded)
        if answer.HasField("grant") and exchange.asked is not None:
            exchange.lease = lease_of(exchange, answer, self.replica)
            self.leases[exchange.lease.id] = exchange.lease

    def _reported(self, exchange: Exchange, cid: int) -> None:
        """The report's own answer; the slot it asked for may be in it, or follow under its number."""
        response, lease = exchange.told(), exchange.lease
        assert lease is not None
        if lease.is_settled:
            self.engine.settled(lease)
        else:
            self.leases[lease.id] = lease
        if exchange.next_asked is None or not response.HasField("next"):
            return
        following = Exchange(ASK, asked=exchange.next_asked)
        following.session, following.cid = self, cid
        following.began = following.said_at = time.monotonic()
        following.queued = response.next
        if response.next.HasField("queued"):
            exchange.next_asked.ticket = response.next.queued.ticket
            self.held[cid] = following
        else:
            self._decided(following, response.next)
            following.response, following.received = response.next, Moment.now()
            following.replica = self.replica
            following.done = True
        exchange.following = following

    def _came_second(self, exchange: Exchange | None, answer: AcquireResponse) -> None:
        """An ask that was said twice has its answer already: a slot that is not the same one goes back."""
        if answer.HasField("grant"):
            lease_id = answer.grant.lease_id
            if exchange is None or exchange.lease is None or exchange.lease.id != lease_id:
                self.engine.give_back(Lease(lease_id, target_of(answer.grant.target), self.replica))
        elif answer.HasField("queued") and exchange is not None and exchange.asked is not None:
            self.engine.give_back_place(exchange.asked, answer.queued.ticket)


def finish(exchange: Exchange, wakes: Wakes) -> None:
    """Ends an exchange: whoever waits blocking is woken here, whoever awaits with all others of the same loop."""
    exchange.done = True
    if exchange.loop is not None:
        wakes.setdefault(exchange.loop, []).append(exchange)
    elif exchange.lock is not None:
        try:
            exchange.lock.release()
        except RuntimeError:  # an ask that was said twice was answered twice at the same moment
            log.debug("an exchange ended twice")
    if exchange.then is not None:
        exchange.then(exchange)


def wake(wakes: Wakes) -> None:
    """Wakes each loop once."""
    for loop, exchanges in wakes.items():
        try:
            loop.call_soon_threadsafe(_resolve, exchanges)
        except RuntimeError:  # the loop is closed, and so are those who awaited there
            log.debug("answers came for a loop that is closed")


def _resolve(exchanges: list[Exchange]) -> None:
    for exchange in exchanges:
        future = exchange.future
        if future is not None and not future.done():
            future.set_result(None)


def lease_of(exchange: Exchange, answer: AcquireResponse, replica: str) -> Lease:
    """The lease of a grant. A replica that has lost the store is the only one that knows what it granted."""
    assert exchange.asked is not None
    asked, grant = exchange.asked, answer.grant
    # Only who names others is sent to another.
    target = target_of(grant.target) if asked.begun.fallbacks and grant.HasField("target") else asked.target
    return Lease(grant.lease_id, target, replica if answer.degraded else None)


def _said(exchange: Exchange, cid: int, now: float) -> bytes:
    """An exchange as it is written at `now`."""
    asked = exchange.asked
    if exchange.kind is ASK and asked is not None:
        return wire.acquire(cid, asked.encoded(now))
    if exchange.kind is RELEASE:
        return wire.release(cid, _release(exchange).SerializeToString())
    return wire.report(cid, _report(exchange, now))


def _report(exchange: Exchange, now: float) -> bytes:
    """The report as it is to be sent at `now`: the response has aged until then."""
    lease, report = exchange.lease, exchange.report
    assert lease is not None
    if report is None:
        return _RUNNING + wire.of_lease(lease.id, 0, 0.0, wants_next=False)
    age = max(now - report.arrived, 0.0)
    return report.encoded + wire.of_lease(lease.id, exchange.seq, age, exchange.next_asked is not None)


def _release(exchange: Exchange) -> ReleaseRequest:
    if exchange.lease is not None:
        return ReleaseRequest(lease_id=exchange.lease.id)
    return ReleaseRequest(ticket=exchange.ticket)
