"""Everything about the streams that takes time: opening them, failing over, looking after replicas, patience.

One thread does all of it, so nothing here is locked. It is told what to do through the engine's inbox, and looks at the clock
a few times a second while anything is under way.
"""

from __future__ import annotations

import logging
import queue
import random
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from paceline.engine import discovery, rendezvous
from paceline.engine.frames import Broken
from paceline.engine.health import HANGS_AFTER, Health, health
from paceline.engine.replicas import Replica, Replicas
from paceline.engine.session import Session, Wakes, finish, wake
from paceline.exchange import ASK, RENEW, Exchange
from paceline.steps import LONG_WAIT, tell_of_wait
from paceline.timing import pause

if TYPE_CHECKING:
    from paceline.engine.engine import Engine

log = logging.getLogger("paceline")

TICK = 0.25
"""How often the clock is looked at while anything is under way, in seconds."""
IDLE_TICK = 1.0
"""The same while nothing is."""
SLOW_AFTER = 2.0
"""An exchange that is not answered for this long by a replica that answers others is sent elsewhere."""
KEPT_FOR = 60.0
"""What is to be said until it is answered is said for this long; by then leases have ended by themselves."""
BUSY_PATIENCE = 30.0
"""A service that protects itself is there: its calls wait for so long, and do not go on without it."""
MOST_KEPT = 10_000
"""The most that is kept for when somebody answers again."""


class Keeper:
    """Who goes where, and what happens when nobody answers."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        numbers, self.names = discovery.split(engine.addrs)
        self.replicas = Replicas(numbers)
        self._unplaced: list[Exchange] = []
        """They wait for a replica."""
        self._later: list[tuple[float, Exchange]] = []
        """They were told to come back, and when."""
        self._turns: list[Exchange] = []
        self._finder = discovery.Finder(self.names, numbers)
        self._ticked_at = 0.0
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """From now on."""
        self._thread = threading.Thread(target=self._run, name="paceline-keeper", daemon=True)
        self._thread.start()

    def away_since(self, now: float) -> float | None:
        """Since when nobody has answered for as long as the process is patient."""
        silent_since = self.replicas.silent_since
        since = None if silent_since is None else silent_since + self.engine.patience
        return since if since is not None and now >= since else None

    def is_anything_open(self) -> bool:
        """Whether something was said that is not answered. From any thread."""
        if self._unplaced or self._later or not self.engine.inbox.empty():
            return True
        sessions = [replica.session for replica in self.replicas.known]
        return any(session is not None and session.waiting() for session in sessions)

    def _run(self) -> None:
        inbox = self.engine.inbox
        next_tick = 0.0
        while not self.engine.is_over:
            try:
                what, about = inbox.get(timeout=max(min(next_tick, self._next_due()) - time.monotonic(), 0.0))
                self._do(what, *about)
            except queue.Empty:
                pass
            now = time.monotonic()
            if self._next_due() <= now:
                self._do(self._tick_turns, now)
                self._do(self._tick_later, now)
            if now >= next_tick:
                self._do(self._tick, now)
                next_tick = now + (TICK if self._is_busy() else IDLE_TICK)
            elif next_tick - now > TICK and self._is_busy():
                next_tick = now + TICK

    def _do(self, what: Callable[..., None], *about: object) -> None:
        try:
            what(*about)
        except Exception:
            log.exception("an error inside of the Paceline client; calls go on")

    # What the keeper is told.

    def place(self, exchange: Exchange) -> None:
        """Gives an exchange to the stream it belongs to, if there is one or can be."""
        now = time.monotonic()
        if exchange.done or self._is_dropped(exchange):
            return
        if exchange.kind is RENEW and exchange.lease is not None and exchange.lease.is_settled:
            exchange.done = True
            return
        if exchange.began == 0.0:
            exchange.began = now
        replica = self._choose(exchange)
        if replica is None:
            self._without_replica(exchange, now)
            return
        if replica.session is None:
            replica.session = Session(self.engine, replica.name)
            replica.session.start()
        scope = exchange.asked.scope if exchange.asked is not None else None
        if scope is not None and not exchange.tried and not self.engine.blind.is_blind(scope, now):
            self.engine.routes[scope] = replica.session
        replica.session.say(exchange)

    def wait_for_turn(self, exchange: Exchange) -> None:
        """Ends when somebody answers again, or as `nobody` when its time has come."""
        if self.away_since(time.monotonic()) is None and self.replicas.silent_since is None:
            self.engine.finish(exchange)
        else:
            self._turns.append(exchange)

    def opened(self, session: Session) -> None:
        """A replica took a stream: it is there."""
        replica = self.replicas.named(session.replica)
        if replica is None or replica.session is not session:
            session.end()
            return
        is_news = replica.is_down or self.replicas.silent_since is not None
        self.replicas.answered(replica)
        self.engine.solo.is_stranger_there = False
        if not is_news:
            return
        log.debug("the Paceline replica %s answers", replica.name)
        self.engine.routes.clear()  # its scopes come back to it
        turns, self._turns = self._turns, []
        for turn in turns:
            self.engine.finish(turn)
        unplaced, self._unplaced = self._unplaced, []
        for exchange in unplaced:
            exchange.tried = ()
            self.place(exchange)

    def broken(self, session: Session, problem: Exception) -> None:
        """A stream ended: what it carried goes on at the next replica, with the same request_id, attempt, ticket and seq."""
        was_over = session.is_over
        session.end()
        now = time.monotonic()
        replica = self.replicas.named(session.replica)
        if replica is not None and replica.session is session:
            self.engine.solo.is_stranger_there = isinstance(problem, Broken) and problem.is_stranger
            replica.session = None
            self.replicas.failed(replica, now, random.random())
            if session.is_open and replica.failures == 1:
                replica.look_at = now  # whatever cut it may let the next one be
            self._finder.soon()
        for scope, used in list(self.engine.routes.items()):
            if used is session:
                del self.engine.routes[scope]
        if not was_over:
            log.debug("the stream to the Paceline replica %s ended: %s", session.replica, problem)
        self._take_over(session, now)

    def say_again(self, exchange: Exchange, again_in: float, by: str) -> None:
        """One call was told to come back, or to go elsewhere at once."""
        now = time.monotonic()
        exchange.session = None
        if again_in > 0.0:
            if now - exchange.began > BUSY_PATIENCE:
                self._nobody(exchange)
            else:
                # Not all at once, and a little later than it says.
                self._later.append((now + again_in * random.uniform(1.0, 1.25), exchange))
            return
        if by not in exchange.tried:
            exchange.tried += (by,)
        if self._is_any_left(exchange):
            self.place(exchange)
        elif self._is_impatient(exchange, now):
            self._nobody(exchange)
        else:
            # All of them have said so: the next round is later, and the one after it later still.
            exchange.rounds += 1
            self._later.append((now + pause(exchange.rounds, random.random()), exchange))

    def _is_any_left(self, exchange: Exchange) -> bool:
        """Whether some replica that is there has not been tried in this round."""
        return any(not replica.is_down and replica.name not in exchange.tried for replica in self.replicas.known)

    # What the clock says.

    def _tick(self, now: float) -> None:
        was_asleep, self._ticked_at = now - self._ticked_at > HANGS_AFTER + IDLE_TICK, now
        # A process that was frozen itself has not read yet what it was told meanwhile.
        for replica in self.replicas.known if not was_asleep else ():
            self._tick_replica(replica, now)
        for exchange in [e for e in self._unplaced if self._is_impatient(e, now)]:
            self._unplaced.remove(exchange)
            self._nobody(exchange)
        self._tick_later(now)
        self._tick_turns(now)
        if self._is_busy() and self._finder.is_due(now):
            self._finder.find(lambda found: self.engine.tell_keeper(self._found, found))

    def _tick_later(self, now: float) -> None:
        due = [exchange for when, exchange in self._later if when <= now]
        self._later = [(when, exchange) for when, exchange in self._later if when > now]
        for exchange in due:
            self.place(exchange)

    def _tick_turns(self, now: float) -> None:
        for turn in [turn for turn in self._turns if turn.until <= now or turn.abandoned]:
            self._turns.remove(turn)
            turn.nobody = True
            self.engine.finish(turn)

    def _tick_replica(self, replica: Replica, now: float) -> None:
        session = replica.session
        if session is None:
            if replica.is_down and now >= replica.look_at:
                replica.session = Session(self.engine, replica.name)
                replica.session.start()
            return
        if session.outbox:
            session.flush()  # whoever was to do it is gone
        unanswered = _snapshot(session.unanswered)
        how = self._health(session, unanswered, now)
        if how is Health.DEAD:
            self.broken(session, TimeoutError("it says nothing"))
            return
        if how is Health.QUIET:
            session.ping(now)
        for cid, exchange in unanswered:
            if now - exchange.said_at > SLOW_AFTER and not exchange.done:
                self._is_slow(session, cid, exchange, now)
        for exchange in [e for _, e in _snapshot(session.held)]:
            waits = now - exchange.began
            if waits > LONG_WAIT and not exchange.is_logged and exchange.queued is not None:
                exchange.is_logged = True
                if exchange.asked is not None:
                    tell_of_wait(self.engine.solo, exchange.asked, exchange.queued, waits, now)

    def _is_slow(self, session: Session, cid: int, exchange: Exchange, now: float) -> None:
        """What a replica does not answer that answers others goes to the next, and after the last on without the service."""
        exchange.said_at = now
        if len(exchange.tried) + 1 < len(self.replicas.known) or not self._is_impatient(exchange, now):
            # It may be answered here all the same: the first answer is the one that counts.
            exchange.tried += (session.replica,)
            self.place(exchange)
        elif session.unanswered.pop(cid, None) is exchange:
            self._nobody(exchange)

    def _health(self, session: Session, unanswered: list[tuple[int, Exchange]], now: float) -> Health:
        return health(
            is_open=session.is_open,
            is_used=bool(session.held or session.leases),
            heard_at=session.heard_at,
            oldest=min((exchange.said_at for _, exchange in unanswered), default=now),
            pinged_at=session.pinged_at,
            now=now,
        )

    def _found(self, found: discovery.Found) -> None:
        """A look-up has ended."""
        if found.problem:
            log.debug("replicas of the Paceline service were not looked up: %s", found.problem)
        if not found.replicas:
            if not self.replicas.known and self.replicas.silent_since is None:
                self.replicas.silent_since = time.monotonic()
            return
        known = {replica.name for replica in self.replicas.known}
        gone = self.replicas.found(found.replicas)
        if not gone and known == {replica.name for replica in self.replicas.known}:
            return
        self.engine.routes.clear()
        for replica in gone:
            session, replica.session = replica.session, None
            if session is not None:
                session.end()
                self._take_over(session, time.monotonic())
        unplaced, self._unplaced = self._unplaced, []
        for exchange in unplaced:
            self.place(exchange)

    # How it is done.

    def _choose(self, exchange: Exchange) -> Replica | None:
        lease = exchange.lease
        if lease is not None and lease.where is not None and not exchange.tried:
            replica = self.replicas.named(lease.where)
            if replica is not None and not replica.is_down:
                return replica
        if exchange.asked is not None:
            scope, request_id = exchange.asked.scope, exchange.asked.request_id
        else:
            scope, request_id = (lease.scope if lease is not None else ("", "")), ""
        route = rendezvous.route(*scope)
        if request_id and self.engine.blind.is_blind(scope, time.monotonic()):
            route = rendezvous.of_call(route, request_id)
        replica = self.replicas.choose(route, exchange.tried)
        if replica is None and exchange.tried:
            exchange.tried = ()
            replica = self.replicas.choose(route)
        return replica

    def _without_replica(self, exchange: Exchange, now: float) -> None:
        if not self.replicas.known:
            self._finder.soon()
            if self.replicas.silent_since is None:
                self.replicas.silent_since = now
        if self._is_impatient(exchange, now):
            self._nobody(exchange)
        else:
            self._unplaced.append(exchange)

    def _is_impatient(self, exchange: Exchange, now: float) -> bool:
        """Whether it has waited for an answer for long enough: nobody waits where it is known that nobody answers."""
        if exchange.lock is None and exchange.loop is None and exchange.then is None:
            return now - exchange.began > (KEPT_FOR if exchange.is_kept else self.engine.patience)
        if exchange.abandoned or self.away_since(now) is not None:
            return True
        ends = exchange.asked.deadline_at if exchange.asked is not None else None
        return now - exchange.began >= self.engine.patience or (ends is not None and now > ends + 1.0)

    def _nobody(self, exchange: Exchange) -> None:
        """Whoever waits goes on; what is to be said until it is answered is kept."""
        if exchange.is_kept and (exchange.lock or exchange.loop or exchange.then):
            twin = Exchange(exchange.kind, asked=exchange.asked, lease=exchange.lease, report=exchange.report)
            twin.seq, twin.ticket, twin.began, twin.is_kept = exchange.seq, exchange.ticket, exchange.began, True
            if twin.lease is not None and twin.lease.under_way is exchange:
                twin.lease.under_way = twin
            if len(self._unplaced) < MOST_KEPT:
                self._unplaced.append(twin)
            exchange.nobody = True
            # Only wakes: what comes after the report is for its twin to do.
            wakes: Wakes = {}
            finish(exchange, wakes)
            wake(wakes)
            return
        exchange.nobody = True
        self.engine.finish(exchange)

    def _take_over(self, session: Session, now: float) -> None:
        session.leave_to_others()
        carried = [*_drained(session.unanswered), *_drained(session.held)]
        for lease in list(session.leases.values()):
            if not lease.is_settled:
                renewal = Exchange(RENEW, lease=lease)
                renewal.is_kept = True
                carried.append(renewal)
        session.leases.clear()
        for exchange in carried:
            exchange.session = None
            if exchange.queued is not None:
                # It was answered until now: patience begins here.
                exchange.began, exchange.queued = now, None
            if session.replica not in exchange.tried:
                exchange.tried += (session.replica,)
            self.place(exchange)

    def _is_dropped(self, exchange: Exchange) -> bool:
        if not exchange.abandoned or exchange.is_asked_to_undo:
            return False
        exchange.done = True
        if exchange.kind is ASK and exchange.cid and time.monotonic() - exchange.began < KEPT_FOR:
            # It was said, and its answer went down with the stream: whatever it got is found out, and goes back.
            twin = Exchange(ASK, exchange.asked)
            twin.began, twin.abandoned, twin.is_kept = exchange.began, True, True
            self.place(twin)
        return True

    def _next_due(self) -> float:
        dues = [turn.until for turn in self._turns] + [when for when, _ in self._later]
        return min(dues, default=float("inf"))

    def _is_busy(self) -> bool:
        if self._unplaced or self._later or self._turns or self.replicas.silent_since is not None:
            return True
        sessions = [replica.session for replica in self.replicas.known if replica.session is not None]
        return any(s.unanswered or s.held or s.leases or s.outbox or not s.is_open for s in sessions) or any(
            replica.is_down for replica in self.replicas.known
        )


def _snapshot(pending: dict[int, Exchange]) -> list[tuple[int, Exchange]]:
    """All of them at one moment, while others put in and take out."""
    return list(pending.copy().items())


def _drained(pending: dict[int, Exchange]) -> list[Exchange]:
    """All of them, taken out one by one: who takes one out ends it."""
    taken = []
    while True:
        try:
            taken.append(pending.popitem()[1])
        except KeyError:
            taken.reverse()
            return taken
