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

    __slots__ = (
        "abandoned",
        "asked",
        "began",
        "cid",
        "done",
        "following",
        "future",
        "is_kept",
        "is_logged",
        "kind",
        "lease",
        "lock",
        "loop",
        "next_asked",
        "nobody",
        "problem",
        "queued",
        "received",
        "replica",
        "report",
        "response",
        "said_at",
        "seq",
        "session",
        "then",
        "ticket",
        "tried",
        "until",
    )

    def __init__(
        self,
        kind: Kind,
        *,
        asked: Asked | None = None,
        lease: Lease | None = None,
        report: Report | None = None,
        next_asked: Asked | None = None,
        ticket: bytes = b"",
        until: float = 0.0,
    ) -> None:
        self.kind = kind
        self.asked = asked
        self.lease = lease
        self.report = report
        self.next_asked = next_asked
        """The attempt that a report asks for."""
        self.ticket = ticket
        self.until = until
        """Of a turn: when it comes, by the monotonic clock."""
        self.seq = 0
        # How whoever waits is woken: one of a future and its loop, a lock, a function.
        self.loop: asyncio.AbstractEventLoop | None = None
        self.future: asyncio.Future[None] | None = None
        self.lock: _thread.LockType | None = None
        self.then: Callable[[Exchange], None] | None = None
        # Where it is.
        self.session: Any = None
        self.cid = 0
        self.tried: list[str] = []
        self.began = 0.0
        """When it was first given to the engine."""
        self.said_at = 0.0
        """When it was last written to a stream."""
        self.is_kept = False
        """It is said until it is answered, also when nobody waits for that any more."""
        self.abandoned = False
        """Nobody wants it any more: a grant that comes all the same is given back."""
        self.is_logged = False
        # What came of it.
        self.queued: AcquireResponse | None = None
        """The place in line, while it waits."""
        self.response: Any = None
        """The answer."""
        self.received: Moment | None = None
        self.replica: str | None = None
        """Who answered."""
        self.problem: PacelineError | None = None
        """The service refused it."""
        self.nobody = False
        """No replica answered in time."""
        self.following: Exchange | None = None
        """Of a report: the ask that goes on under its number, since the next slot has to be waited for."""
        self.done = False

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
