"""What all limiters of a process that name the same addresses share: the way to the service, and back."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from paceline.engine import refusals
from paceline.engine.beside import Beside
from paceline.engine.blind import Blind
from paceline.engine.keeper import Keeper
from paceline.engine.session import Session, Wakes, finish, wake
from paceline.engine.solo import Solo
from paceline.exchange import ASK, RELEASE, TELL, TURN, Exchange, Lease
from paceline.outcomes import Abandoned
from paceline.reports import Report
from paceline.timing import Moment

if TYPE_CHECKING:
    from paceline._proto.rate_limiter_pb2 import AcquireResponse
    from paceline.asked import Asked

log = logging.getLogger("paceline")


class Engine:
    """The way to the service. Everything here may be called from any thread, and none of it waits."""

    def __init__(self, addrs: tuple[str, ...], patience: float) -> None:
        self.addrs = addrs
        self.patience = patience
        """In seconds: nobody answers for so long, and calls go on without the service."""
        self.is_over = False
        """It is the parent's, or the process ends: nothing is said any more."""
        self.solo = Solo(patience)
        self.blind = Blind()
        self.routes: dict[tuple[str, str], Session] = {}
        """Where a scope's calls go without asking the keeper."""
        self.keeper = Keeper(self)
        self.inbox: queue.SimpleQueue[tuple[Callable[..., None], tuple[Any, ...]]] = queue.SimpleQueue()
        """What the keeper is told."""
        # Reentrant: a finaliser may report while its thread is in here.
        self._order = threading.RLock()
        self._starting = threading.RLock()
        self._is_started = False

    def begin(self, exchange: Exchange) -> None:
        """Says something to the service. `exchange` ends when it is answered, or when nobody answers in time."""
        if self.is_over:
            exchange.nobody = exchange.done = True
            return
        if not self._is_started:
            self._start()
        if exchange.began == 0.0:
            exchange.began = time.monotonic()
        if exchange.kind is TELL and not self._is_its_turn(exchange):
            return
        if exchange.kind is TURN:
            self.tell_keeper(self.keeper.wait_for_turn, exchange)
            return
        self.send(exchange)

    def send(self, exchange: Exchange) -> None:
        """On its way: to the stream of its scope, or by the keeper to the one that is to be used."""
        lease, asked = exchange.lease, exchange.asked
        scope = asked.scope if asked is not None else lease.scope if lease is not None else ("", "")
        session = self.routes.get(scope)
        if session is None or (lease is not None and lease.where is not None):
            self.place(exchange)
        else:
            session.say(exchange)

    def place(self, exchange: Exchange) -> None:
        """Has the keeper decide where it goes."""
        self.tell_keeper(self.keeper.place, exchange)

    def tell_keeper(self, what: Callable[..., None], *about: Any) -> None:
        """The keeper does this next, in its own thread."""
        self.inbox.put((what, about))

    def cancel(self, exchange: Exchange) -> None:
        """Nobody waits for it any more: it leaves the line, and a grant that comes all the same is given back."""
        exchange.abandoned = True
        if exchange.done:
            self._undo(exchange)
            return
        session = exchange.session
        if session is not None:
            session.say(exchange)
        if exchange.following is not None:
            self.cancel(exchange.following)

    def give_back(self, lease: Lease) -> None:
        """The slot was not used."""
        if lease.is_settled:
            return
        lease.is_settled = True
        exchange = Exchange(RELEASE, lease=lease)
        exchange.is_kept = True
        self.begin(exchange)

    def give_back_place(self, asked: Asked, ticket: bytes) -> None:
        """The place in line is not wanted any more."""
        exchange = Exchange(RELEASE, asked)
        exchange.ticket = ticket
        exchange.is_kept = True
        self.begin(exchange)

    def tell(self, lease: Lease, report: Report) -> None:
        """Reports without waiting for what is made of it: it is said until it is answered."""
        if lease.is_settled:
            return
        lease.is_sent = True
        lease.is_settled = report.is_final
        exchange = Exchange(TELL, lease=lease, report=report)
        exchange.is_kept = report.is_final
        self.begin(exchange)

    def abandon(self, lease: Lease) -> None:
        """The caller has gone: what was not sent is given back, what was is reported as abandoned."""
        if lease.is_sent:
            self.tell(lease, Report(Abandoned()))
        else:
            self.give_back(lease)

    def beside(self, asked: Asked, before: Beside | None) -> Beside:
        """Asks beside a call that does not wait for it; `before` asked for the attempt before."""
        return Beside(self, asked, before)

    def away_since(self, now: float) -> float | None:
        """Since when nobody has answered for as long as the process is patient."""
        return self.keeper.away_since(now)

    # What readers tell.

    def heard(self, exchange: Exchange, answer: AcquireResponse, received: Moment) -> None:
        """A place in line."""
        self.heard_of(exchange, answer.degraded)
        if exchange.asked is not None:
            self.solo.heard(exchange.asked, answer, received.steady)

    def heard_of(self, exchange: Exchange, is_degraded: bool) -> None:
        """Whether the scope's replica has lost the store."""
        if exchange.asked is None or not (is_degraded or self.blind):
            return
        if self.blind.heard(exchange.asked.scope, is_degraded, time.monotonic()):
            self.routes.pop(exchange.asked.scope, None)

    def settled(self, lease: Lease) -> None:
        """A lease is over: nothing renews it any more."""
        for replica in self.keeper.replicas.known:
            session = replica.session
            if session is not None:
                session.leases.pop(lease.id, None)

    def failed(self, exchange: Exchange, error: Any, by: str) -> bool:
        """One call was answered by an error. Whether that ends it; if not it is said again, here or elsewhere."""
        if exchange.abandoned:
            return True
        again_in = refusals.again_in(error)
        if again_in is None:
            exchange.problem = refusals.refusal(error)
            return True
        self.tell_keeper(self.keeper.say_again, exchange, again_in, by)
        return False

    def finished(self, exchange: Exchange) -> None:
        """An exchange has ended: what comes after it is done."""
        if exchange.abandoned:
            self._undo(exchange)
        if exchange.problem is not None and exchange.lock is None and exchange.loop is None:
            log.warning("the Paceline service did not take what it was told: %s", exchange.problem)
        if exchange.kind is TELL and exchange.lease is not None:
            self._next_turn(exchange.lease)

    def finish(self, exchange: Exchange) -> None:
        """Ends an exchange that no reader ends."""
        wakes: Wakes = {}
        finish(exchange, wakes)
        wake(wakes)
        self.finished(exchange)

    def _undo(self, exchange: Exchange) -> None:
        """What an exchange brought that nobody wants."""
        if exchange.kind is not ASK or exchange.response is None:
            if exchange.following is not None:
                self.cancel(exchange.following)
            return
        if exchange.lease is not None:
            self.give_back(exchange.lease)
        elif exchange.response.HasField("queued") and exchange.asked is not None:
            self.give_back_place(exchange.asked, exchange.response.queued.ticket)

    def let_all_go(self) -> None:
        """The process ends: nobody waits any more, and what is held is given back or reported as abandoned."""
        for replica in self.keeper.replicas.known:
            session = replica.session
            if session is not None:
                for exchange in session.waiting():
                    if not exchange.is_kept and not exchange.done:
                        self.cancel(exchange)
                for lease in list(session.leases.copy().values()):
                    self.abandon(lease)

    def flush(self, ends: float) -> bool:
        """Waits until all that was said is answered, or there is nobody to answer, or the time is over. Whether it is."""
        while self._is_started and not self._is_all_said(ends):
            if self.away_since(time.monotonic()) is not None or time.monotonic() >= ends:
                return False
            time.sleep(0.002)
        return True

    def _is_all_said(self, ends: float) -> bool:
        """Whether nothing is open, also of what the keeper has just taken in hand, which is nowhere to be seen."""
        keeper = self.keeper
        return not keeper.is_anything_open() and self._keeper_is_through(ends) and not keeper.is_anything_open()

    def _keeper_is_through(self, ends: float) -> bool:
        """Waits until the keeper has done all that it was told."""
        is_through = threading.Event()
        self.tell_keeper(is_through.set)
        return is_through.wait(max(ends - time.monotonic(), 0.0))

    def end(self) -> None:
        """Nothing is said any more."""
        self.is_over = True
        for replica in self.keeper.replicas.known:
            if replica.session is not None:
                replica.session.end()
        self.tell_keeper(log.debug, "the way to the Paceline service at %s is closed", self.addrs)

    def disown(self) -> None:
        """In a child: what the parent holds is the parent's, and its connections are not kept open here."""
        self.is_over = True
        for replica in self.keeper.replicas.known:
            if replica.session is not None:
                replica.session.let_go()

    # The reports of a lease go one after the other: the service takes none after one with a higher number.

    def _is_its_turn(self, exchange: Exchange) -> bool:
        lease = exchange.lease
        assert lease is not None
        with self._order:
            if lease.under_way is not None and lease.under_way is not exchange:
                lease.waiting.append(exchange)
                return False
            lease.under_way = exchange
            if exchange.seq == 0:
                lease.last_seq += 1
                exchange.seq = lease.last_seq
        return True

    def _next_turn(self, lease: Lease) -> None:
        with self._order:
            lease.under_way = None
            following = lease.waiting.popleft() if lease.waiting else None
        if following is not None:
            self.begin(following)

    def _start(self) -> None:
        with self._starting:
            if self._is_started:
                return
            self.keeper.start()
            self._is_started = True
