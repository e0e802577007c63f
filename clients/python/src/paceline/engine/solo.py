"""Going on when nobody answers: what a process remembers for it, and when a call goes then."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from paceline.ask import Target
from paceline.engine import PATIENCE
from paceline.engine.recent import MOST_PLACES, Recent, Turn
from paceline.errors import Denied
from paceline.outcomes import Signal
from paceline.timing import seconds
from paceline.words import Mode, Priority, Reason, Source

if TYPE_CHECKING:
    from paceline._proto.rate_limiter_pb2 import AcquireResponse, Grant
    from paceline.asked import Asked

log = logging.getLogger("paceline")

SAY_EVERY = 60.0
"""It is said so often that calls go on without the service, in seconds."""
UNTIL_FURTHER_NOTICE = 3_600.0
"""A place that was closed without an end is looked at again after this long."""
OF_THE_PROVIDER = frozenset(
    [
        Source.RETRY_AFTER_SECONDS,
        Source.RETRY_AFTER_DATE,
        Source.RETRY_AFTER_MS,
        Source.RESET_HEADER,
        Source.ERROR_BODY,
    ]
)
"""What the provider itself said, and none of us reckoned."""
WATCHED = frozenset([int(Mode.OFF), int(Mode.SHADOW)])
"""Modes in which nobody is made to wait."""
CLOSED = frozenset([Reason.OVER_HONOR_CAP, Reason.QUOTA_EXHAUSTED, Reason.PAUSED])
"""Denials that hold for those who come after as well."""
LONGEST_WAITS = {Priority.INTERACTIVE: 15.0, Priority.BATCH: 3_600.0}
"""How long a call of a class waits when it does not say, as the service has it by default."""
LONGEST_WAIT = 120.0
"""The same for all other calls."""


class Solo:
    """What a process knows that it needs when it is alone. Used by all threads."""

    def __init__(self, patience: float = PATIENCE) -> None:
        self.is_stranger_there = False
        """Something answers at the address, and it is no Paceline service."""
        self._patience = patience
        # Reentrant: a finaliser may report while its thread is in here.
        self._lock = threading.RLock()
        self._recent = Recent()
        self._said_at: float | None = None
        self._told_of_waits: dict[Target, float] = {}

    def granted(self, place: Target, grant: Grant, mode: int, opens: float, now: float) -> None:
        """Remembers what the service granted, for the time after it. The slot opens at `opens`."""
        is_watched = mode in WATCHED
        with self._lock:
            share = self._recent.granted(place, grant.reserved, now)
            share.is_watched_only = is_watched
            if share.floor is not None and not is_watched:
                share.lift(opens)

    def heard(self, asked: Asked, answer: AcquireResponse, now: float) -> None:
        """Remembers what an answer without a slot means for the time after it."""
        outcome = answer.WhichOneof("outcome")
        if outcome == "queued":
            if any(delay.binding and Source(delay.source) in OF_THE_PROVIDER for delay in answer.delays):
                self._not_before(asked, now + seconds(answer.queued.estimated_wait))
        elif outcome == "denial":
            denial = answer.denial
            if Reason(denial.reason) in CLOSED:
                is_dated = denial.HasField("retry_after")
                self._not_before(asked, now + (seconds(denial.retry_after) if is_dated else UNTIL_FURTHER_NOTICE))

    def told(self, place: Target, signal: Signal | None, now: float) -> None:
        """Remembers what the provider said to a call, as the service or the client itself read it."""
        if signal is None:
            return
        wait = signal.honored if signal.honored is not None else signal.retry_after
        if wait:
            with self._lock:
                self._recent.floor(place, now + wait)

    def refused(self, place: Target) -> None:
        """The provider refused a call that nobody but us let go."""
        with self._lock:
            self._recent.refused(place)

    def is_enforced(self, asked: Asked) -> bool:
        """Whether the service made calls like this wait when it last answered.

        Where it only watched, its absence holds nobody up.
        """
        with self._lock:
            return self._recent.is_enforced(asked.target)

    def book(self, asked: Asked, away_since: float, started: float, now: float, chance: float, addrs: str) -> Turn:
        """The turn of a call while nobody answers. Raises `Denied` where it would come too late: then it takes none."""
        target, cost = asked.target, asked.begun.cost
        with self._lock:
            turn = self._recent.turn(target, cost, away_since, now, chance)
            late = too_late(asked, started, turn.at, now, self._recent.is_held(target, turn.at))
            if late is None:
                self._recent.take(target, cost, away_since, turn)
            is_paced = self._recent.paces(away_since, now)
        self._say(is_paced, away_since, now, addrs)
        if late is not None:
            raise late
        return turn

    def advice(self) -> str:
        """What whoever finds no service may look at."""
        if self.is_stranger_there:
            return (
                "Something answers there that is no Paceline gRPC port: by default 7070 is the one for workers, 7071 its page "
                "for people"
            )
        return "Is `paceline serve` running, and is this its address?"

    def may_tell_of_wait(self, target: Target, now: float) -> bool:
        """Whether a long wait for this target has not been told of for a minute."""
        with self._lock:
            told_at = self._told_of_waits.get(target)
            if told_at is not None and now - told_at < SAY_EVERY:
                return False
            if len(self._told_of_waits) >= MOST_PLACES:
                self._told_of_waits.clear()
            self._told_of_waits[target] = now
            return True

    def _not_before(self, asked: Asked, until: float) -> None:
        with self._lock:
            self._recent.floor(asked.target, until)

    def _say(self, is_paced: bool, away_since: float, now: float, addrs: str) -> None:
        """Says once a minute how calls go on."""
        with self._lock:
            if self._said_at is not None and now - self._said_at < SAY_EVERY:
                return
            self._said_at = now
        how = "with this process's recent share, halved each minute" if is_paced else "unpaced, as they would without Paceline"
        log.warning(
            "no Paceline service has answered at %s for %.0f s; calls go on %s. %s",
            addrs,
            max(now - away_since, 0.0) + self._patience,
            how,
            self.advice(),
        )


def too_late(asked: Asked, started: float, at: float, now: float, is_held: bool) -> Denied | None:
    """The denial of a turn that comes after the caller has lost interest."""
    longest = asked.begun.max_wait
    if longest is None:
        longest = LONGEST_WAITS.get(asked.begun.priority, LONGEST_WAIT)
    if asked.deadline_at is not None and at >= asked.deadline_at:
        which = "its deadline"
    elif at > started + longest:
        which = f"the {longest:.3g} s that it may wait"
    else:
        return None
    wait = max(at - now, 0.0)
    by = "by what the provider said" if is_held else "by this process's recent share"
    return Denied(
        Reason.DEADLINE,
        f"no Paceline service answers, and {by} the call could go in {wait:.1f} s, after {which}",
        retry_after=wait,
    )
