"""One thing that is said to the service, and what came of it."""

from __future__ import annotations

import _thread
from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any

from paceline._proto.rate_limiter_pb2 import AcquireResponse, ReportResponse
from paceline.timing import Moment

if TYPE_CHECKING:
    import asyncio

    from paceline.ask import Target
    from paceline.asked import Asked
    from paceline.engine.session import Session
    from paceline.errors import PacelineError
    from paceline.reports import Report


class Kind(Enum):
    """What is said."""

    ASK = "ask"
    TELL = "tell"
    RELEASE = "release"
    """Gives back a lease or a place."""
    RENEW = "renew"
    """The call still runs."""
    TURN = "turn"
    """Nothing is said: waits until somebody answers again, or a time has come."""


# Looking a member up in its class is slow before Python 3.12, and this is done for each thing that is said.
ASK, TELL, RELEASE, RENEW, TURN = Kind.ASK, Kind.TELL, Kind.RELEASE, Kind.RENEW, Kind.TURN


class Lease:
    """A reservation as its slot and the engine share it."""

    __slots__ = ("id", "is_sent", "is_settled", "last_seq", "scope", "target", "under_way", "waiting", "where")

    def __init__(self, lease_id: str, target: Target, where: str | None) -> None:
        self.id = lease_id
        self.target = target
        self.scope = (target.provider, target.account)
        self.where = where
        """The only replica that knows it, where that has lost the store; ``None``: all do."""
        self.last_seq = 0
        self.is_sent = False
        """From here on the call may have run."""
        self.is_settled = False
        """Its end has been said, or is being said."""
        self.under_way: Exchange | None = None
        """The report that has not been answered: no other may overtake it."""
        self.waiting: deque[Exchange] = deque()


class Exchange:
    """What is said and what came of it. Made by a caller, carried by the engine, ended exactly once."""

    # How whoever waits is woken: a future on its loop, a lock, a function.
    loop: asyncio.AbstractEventLoop | None = None
    future: asyncio.Future[None] | None = None
    lock: _thread.LockType | None = None
    then: Callable[[Exchange], None] | None = None

    # What is said.
    asked: Asked | None = None
    lease: Lease | None = None
    """What is reported of or given back; of an ask: what was granted."""
    report: Report | None = None
    next_asked: Asked | None = None
    """The attempt that a report asks for."""
    ticket = b""
    until = 0.0
    """Of a turn: when it comes, by the monotonic clock."""
    seq = 0
    is_kept = False
    """It is said until it is answered, also when nobody waits for that any more."""
    abandoned = False
    """Nobody wants it any more: a grant that comes all the same is given back."""

    @property
    def is_asked_to_undo(self) -> bool:
        """An ask that is said although nobody wants it, so that what it got on a stream that broke can be given back."""
        return self.abandoned and self.is_kept and self.cid == 0

    # Where it is.
    session: Session | None = None
    cid = 0
    tried: tuple[str, ...] = ()
    rounds = 0
    """How often all replicas have said that they are not there."""
    began = 0.0
    """When it was first given to the engine."""
    said_at = 0.0
    """When it was last written to a stream."""
    is_logged = False

    # What came of it.
    queued: AcquireResponse | None = None
    """The place in line, while it waits."""
    response: Any = None
    """The answer."""
    received: Moment | None = None
    replica: str | None = None
    """Who answered."""
    problem: PacelineError | None = None
    """The service refused it."""
    nobody = False
    """No replica answered in time."""
    following: Exchange | None = None
    """Of a report: the ask that goes on under its number, since the next slot has to be waited for."""
    done = False

    def __init__(
        self,
        kind: Kind,
        asked: Asked | None = None,
        lease: Lease | None = None,
        report: Report | None = None,
    ) -> None:
        self.kind = kind
        if asked is not None:
            self.asked = asked
        if lease is not None:
            self.lease = lease
        if report is not None:
            self.report = report

    def acquired(self) -> AcquireResponse:
        """The answer to an ask."""
        response: AcquireResponse = self.response
        return response

    def told(self) -> ReportResponse:
        """The answer to a report."""
        response: ReportResponse = self.response
        return response


class Sleep:
    """Nothing is to be done before this, by the monotonic clock."""

    __slots__ = ("until",)

    def __init__(self, until: float) -> None:
        self.until = until
