"""One stream to one replica: what is said is put together as it comes, and answers go back to whoever waits for them.

Three threads meet here, and no lock is taken on the way: callers put exchanges into a queue, the writer takes all that are there
and makes one message of them, the reader hands answers out. Whoever takes an exchange out of `unanswered` or `held` may end it.
"""

from __future__ import annotations

import itertools
import logging
import queue
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from paceline._proto import rate_limiter_pb2
from paceline._proto.rate_limiter_pb2 import (
    AcquireResponse,
    ReleaseRequest,
    ReportRequest,
    SessionResponse,
)
from paceline.asked import target_of
from paceline.engine import wire
from paceline.engine.transport import Broken, Stream
from paceline.errors import PacelineError
from paceline.exchange import Exchange, Kind, Lease
from paceline.timing import Moment, to_proto

if TYPE_CHECKING:
    import asyncio

    from paceline.engine.engine import Engine

log = logging.getLogger("paceline")

MOST_AT_ONCE = 1_000
"""The most that is put into one message."""


class Session:
    """A stream and all that is said on it."""

    def __init__(self, engine: Engine, replica: str) -> None:
        self.engine = engine
        self.replica = replica
        self.outbox: queue.SimpleQueue[Exchange | None] = queue.SimpleQueue()
        self.unanswered: dict[int, Exchange] = {}
        """Said, and not a word heard of it."""
        self.held: dict[int, Exchange] = {}
        """They have a place in line, and their decision follows."""
        self.leases: dict[str, Lease] = {}
        """Renewed by the service as long as the stream lives."""
        self.is_open = False
        """The service has taken it."""
        self.is_over = False
        self.heard_at = time.monotonic()
        self._knows_bundles = False
        self._numbers = itertools.count(1)
        self._stream: Stream | None = None

    def start(self) -> None:
        """Opens the stream, in a thread of its own that reads it until it ends."""
        name = f"paceline-reader-{self.replica}"
        threading.Thread(target=self._live, name=name, daemon=True).start()

    def say(self, exchange: Exchange) -> None:
        """Says it with all that is said in the same moment. One that comes after the end is placed elsewhere."""
        exchange.session = self
        self.outbox.put(exchange)
        if self.is_over:
            self.leave_to_others()

    def end(self) -> None:
        """The stream is not used any more; what it carried is for the keeper to take."""
        self.is_over = True
        self.outbox.put(None)
        stream = self._stream
        if stream is not None:
            stream.close()

    def leave_to_others(self) -> None:
        """What was never written goes elsewhere."""
        while True:
            try:
                exchange = self.outbox.get_nowait()
            except queue.Empty:
                break
            if exchange is not None:
                self.engine.place(exchange)
        self.outbox.put(None)

    # The writer: grpc takes from this iterator in a thread of its own.

    def _said(self) -> Iterator[bytes]:
        outbox = self.outbox
        while True:
            first = outbox.get()
            if first is None:
                return
            batch = [first]
            while len(batch) < MOST_AT_ONCE:
                try:
                    more = outbox.get_nowait()
                except queue.Empty:
                    break
                if more is None:
                    outbox.put(None)
                    break
                batch.append(more)
            now = time.monotonic()
            said = [part for part in (self._encoded(exchange, now) for exchange in batch) if part]
            if self.is_over:
                for exchange in batch:
                    if self.unanswered.pop(exchange.cid, None) is not None:
                        self.engine.place(exchange)
                return
            yield from wire.bundles(said, self._knows_bundles)

    def _encoded(self, exchange: Exchange, now: float) -> bytes | None:
        """What is written for an exchange. From here on its answer may come."""
        if exchange.abandoned:
            # Its number still waits for an answer, unless it never was said.
            is_waiting = exchange.cid in self.unanswered or exchange.cid in self.held
            if exchange.session is self and is_waiting:
                return wire.cancel(exchange.cid)
            exchange.done = True
            return None
        cid = next(self._numbers)
        try:
            if exchange.kind is Kind.ASK:
                assert exchange.asked is not None
                said = wire.acquire(cid, exchange.asked.message(now).SerializeToString())
            elif exchange.kind is Kind.RELEASE:
                said = wire.release(cid, _release(exchange).SerializeToString())
            else:
                said = wire.report(cid, _report(exchange, now).SerializeToString())
        except Exception as error:  # whatever is wrong with one is no harm to the others
            exchange.problem = PacelineError(f"this cannot be said to the service: {error}")
            self._finish_one(exchange)
            return None
        exchange.cid, exchange.said_at = cid, now
        self.unanswered[cid] = exchange
        return said

    # The reader.

    def _live(self) -> None:
        problem: Exception
        try:
            self._stream = stream = Stream(self.replica, self._said())
            if self.is_over:
                stream.close()
            stream.wait_until_open()
            self.is_open = True
            self.heard_at = time.monotonic()
            self.engine.tell_keeper(self.engine.keeper.opened, self)
            for message in stream.messages():
                self._read(message)
        except Broken as broken:
            problem = broken
        except Exception as error:
            log.exception("the stream to a Paceline replica failed")
            problem = error
        self.engine.tell_keeper(self.engine.keeper.broken, self, problem)

    def _read(self, message: bytes) -> None:
        received = Moment.now()
        self.heard_at = received.steady
        response = SessionResponse.FromString(message)
        if response.takes_more:
            self._knows_bundles = True
        wakes: dict[asyncio.AbstractEventLoop, list[Exchange]] = {}
        self._take(response, received, wakes)
        for more in response.more:
            self._take(more, received, wakes)
        wake(wakes)

    def _take(
        self,
        said: SessionResponse,
        received: Moment,
        wakes: dict[asyncio.AbstractEventLoop, list[Exchange]],
    ) -> None:
        cid = said.correlation_id
        kind = said.WhichOneof("answer")
        if kind == "acquire":
            answer = said.acquire
            exchange = self.unanswered.pop(cid, None)
            if exchange is not None and answer.HasField("queued"):
                exchange.queued = answer
                if exchange.asked is not None:
                    exchange.asked.keep_place(answer.queued.ticket)
                self.held[cid] = exchange
                self.engine.heard(exchange, answer, received)
                return
            exchange = exchange or self.held.pop(cid, None)
            if exchange is None:
                self._unwanted(answer)
                return
            self._decided(exchange, answer)
            exchange.response = answer
        else:
            exchange = self.unanswered.pop(cid, None) or self.held.pop(cid, None)
            if exchange is None:
                return
            if kind == "report":
                exchange.response = said.report
                self._reported(exchange, cid)
            elif kind == "release":
                exchange.response = said.release
                if exchange.lease is not None:
                    self.engine.settled(exchange.lease)
            elif not self.engine.failed(exchange, said.error):
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
        following = Exchange(Kind.ASK, asked=exchange.next_asked)
        following.session, following.cid = self, cid
        following.began = following.said_at = time.monotonic()
        following.queued = response.next
        if response.next.HasField("queued"):
            exchange.next_asked.keep_place(response.next.queued.ticket)
            self.held[cid] = following
        else:
            self._decided(following, response.next)
            following.response, following.received = response.next, Moment.now()
            following.replica = self.replica
            following.done = True
        exchange.following = following

    def _unwanted(self, answer: AcquireResponse) -> None:
        """A grant that nobody waits for goes back."""
        if answer.HasField("grant"):
            target = answer.grant.target
            lease = Lease(answer.grant.lease_id, (target.provider, target.account), self.replica)
            self.engine.give_back(lease)

    def _finish_one(self, exchange: Exchange) -> None:
        wakes: dict[Any, list[Exchange]] = {}
        finish(exchange, wakes)
        wake(wakes)
        self.engine.finished(exchange)


def finish(exchange: Exchange, wakes: dict[asyncio.AbstractEventLoop, list[Exchange]]) -> None:
    """Ends an exchange: whoever waits blocking is woken here, whoever awaits with all others of the same loop."""
    exchange.done = True
    if exchange.loop is not None:
        wakes.setdefault(exchange.loop, []).append(exchange)
    elif exchange.lock is not None:
        exchange.lock.release()
    if exchange.then is not None:
        exchange.then(exchange)


def wake(wakes: dict[asyncio.AbstractEventLoop, list[Exchange]]) -> None:
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
    grant = answer.grant
    target = target_of(grant.target) if grant.HasField("target") else exchange.asked.target
    where = replica if answer.degraded else None
    return Lease(grant.lease_id, (target.provider, target.account), where)


def _report(exchange: Exchange, now: float) -> ReportRequest:
    """The report as it is to be sent at `now`: the response has aged until then."""
    assert exchange.lease is not None
    if exchange.report is None:
        outcome = rate_limiter_pb2.OUTCOME_RUNNING
        return ReportRequest(lease_id=exchange.lease.id, outcome=outcome)
    request = exchange.report.request
    request.lease_id = exchange.lease.id
    request.seq = exchange.seq
    request.age.CopyFrom(to_proto(now - exchange.report.arrived))
    if exchange.next_asked is not None:
        request.retry.wanted = True
    return request


def _release(exchange: Exchange) -> ReleaseRequest:
    if exchange.lease is not None:
        return ReleaseRequest(lease_id=exchange.lease.id)
    return ReleaseRequest(ticket=exchange.ticket)
