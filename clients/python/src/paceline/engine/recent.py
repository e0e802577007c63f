"""A process's recent share: what it was granted lately, and the pace it keeps to when nobody answers.

Nothing here reads a clock: moments (seconds on the monotonic clock) and chances are arguments.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from paceline.ask import Target

WINDOW = 120.0
"""The share is what was granted in this long before the service went away."""
BIN = 5.0
"""It is counted in bins of this length."""
SHORTEST_SPAN = 10.0
"""Whoever was granted something for the first time less than this long ago is taken to have had this long for it."""
HALVED_EVERY = 60.0
"""The share is halved each minute."""
GOES_ON_FOR = 300.0
"""So long a process paces itself; afterwards it goes on as its SDK would without the service."""
LEAST_PER_SECOND = 1 / 60
"""What a process takes where it was granted nothing lately: a call a minute."""
LEAST_SCALE = 1 / 64
"""A refusal halves the pace, to this part of it at least."""
MOST_PLACES = 256
"""Of more places than these the share is kept in common."""
REQUESTS = "requests"
"""Calls, as a meter."""
THE_REST = Target("")


class Turn(NamedTuple):
    """When a call may go that nobody decides on."""

    at: float
    is_paced: bool
    """Whether the recent share paces it: false when the process has gone on alone for too long."""


@dataclass
class Share:
    """What one place got, and what it gets while nobody answers."""

    first: float | None = None
    bins: deque[tuple[float, dict[str, int]]] = field(default_factory=deque)
    """Units granted by meter, oldest bin first."""
    floor: float | None = None
    """The provider said: not before this."""
    is_watched_only: bool = False
    """The service last let calls go at once, whatever it thought of them."""
    scale: float | None = None
    """How much of the share is left after refusals."""
    next: tuple[float, float] | None = None
    """The turn after the last one, and for which absence of the service it was given."""

    def lift(self, at: float) -> None:
        """A call may go at `at`: the floor has ended by then."""
        if self.floor is not None and self.floor > at:
            self.floor = None

    def length_of(self, cost: Mapping[str, int], away_since: float, scale: float) -> float:
        """How long a call of this cost takes at the recent pace, times `scale`."""
        sums: dict[str, int] = {}
        for began, units_of in self.bins:
            if away_since - WINDOW <= began <= away_since:
                for meter, units in units_of.items():
                    sums[meter] = sums.get(meter, 0) + units
        span = WINDOW if self.first is None else min(max(away_since - self.first, SHORTEST_SPAN), WINDOW)
        scarcest = 0.0
        for meter, total in sums.items():
            asked = cost.get(meter, 1 if meter == REQUESTS else None)
            if asked is not None and total > 0:
                scarcest = max(scarcest, asked * span / total)
        length = scarcest / scale if scarcest > 0.0 and scale > 0.0 else math.inf
        # One call a minute is the least, unless it alone is larger than all that was granted.
        return min(length, max(1.0 / LEAST_PER_SECOND, scarcest))

    def per_call(self, cost: Mapping[str, int], away_since: float, at: float) -> float:
        """How long a call takes that goes at `at`."""
        halvings = int(max(at - away_since, 0.0) // HALVED_EVERY)
        scale = (1.0 if self.scale is None else self.scale) * 0.5 ** min(halvings, 1_000)
        return self.length_of(cost, away_since, scale)


class Recent:
    """The shares of a process, by what is metered together as far as a client can tell: provider, account and model."""

    def __init__(self) -> None:
        self.places: dict[Target, Share] = {}

    def granted(self, place: Target, reserved: Mapping[str, int], now: float) -> Share:
        """The service granted a call with these units. Returns the place's share."""
        share = self._share(place)
        if share.first is None:
            share.first = now
        # Whoever is granted something is not alone any more.
        share.next = share.scale = None
        if not share.bins or now - share.bins[-1][0] >= BIN:
            share.bins.append((now, {}))
            while now - share.bins[0][0] > WINDOW + BIN:
                share.bins.popleft()
        bin_ = share.bins[-1][1]
        if REQUESTS not in reserved:
            bin_[REQUESTS] = bin_.get(REQUESTS, 0) + 1
        for meter in reserved:
            bin_[meter] = bin_.get(meter, 0) + reserved[meter]
        return share

    def floor(self, place: Target, until: float) -> None:
        """The provider said that nothing is to be sent before `until`."""
        share = self._share(place)
        share.floor = until if share.floor is None else max(share.floor, until)

    def lift(self, place: Target, at: float) -> None:
        """The service lets a call go at `at` all the same: it knows of an end of the floor that the client did not see."""
        self._share(place).lift(at)

    def is_enforced(self, place: Target) -> bool:
        """Whether the service made calls wait when it last answered."""
        share = self.places.get(place)
        return share is None or not share.is_watched_only

    def enforces(self, place: Target, enforces: bool) -> None:
        """The service makes calls wait, or it only watches them."""
        self._share(place).is_watched_only = not enforces

    def refused(self, place: Target) -> None:
        """The provider refused a call that nobody but us let go: half the pace."""
        share = self._share(place)
        share.scale = max((1.0 if share.scale is None else share.scale) / 2, LEAST_SCALE)

    def paces(self, away_since: float, now: float) -> bool:
        """Whether calls keep to a recent share now, nobody having answered since `away_since`.

        Who was never granted anything has no share to keep to: whoever forgot to start the service is not held up by it.
        """
        return now < away_since + GOES_ON_FOR and any(share.first is not None for share in self.places.values())

    def is_held(self, place: Target, at: float) -> bool:
        """Whether `at` is what the provider said, and not only the pace."""
        floor = self._share(place).floor
        return floor is not None and floor >= at

    def book(self, place: Target, cost: Mapping[str, int], away_since: float, now: float, chance: float) -> Turn:
        """Gives the next turn at a place to a call of this cost, nobody having answered since `away_since`."""
        turn = self.turn(place, cost, away_since, now, chance)
        self.take(place, cost, away_since, turn)
        return turn

    def turn(self, place: Target, cost: Mapping[str, int], away_since: float, now: float, chance: float) -> Turn:
        """The next turn at a place. It is nobody's until it is taken.

        `chance` in 0..1 spreads first turns, so that a fleet that loses its service does not send together.
        """
        share = self._share(place)
        alone_from = away_since + GOES_ON_FOR
        floor = now if share.floor is None else max(share.floor, now)
        if not self.paces(away_since, now):
            return Turn(floor, is_paced=False)
        if share.next is None or share.next[1] != away_since:
            # The first turn lies somewhere within the time that a call takes.
            share.next = (away_since + share.per_call(cost, away_since, now) * chance, away_since)
        at = max(share.next[0], now, floor)
        if at >= alone_from:
            # Nobody would pace it any more by then. Those who wait until then do not go all at once.
            return Turn(max(alone_from, floor) + SHORTEST_SPAN * chance, is_paced=False)
        return Turn(at, is_paced=True)

    def take(self, place: Target, cost: Mapping[str, int], away_since: float, turn: Turn) -> None:
        """A call of this cost goes at that turn: the next one comes after it."""
        if turn.is_paced:
            share = self._share(place)
            share.next = (turn.at + share.per_call(cost, away_since, turn.at), away_since)

    def _share(self, place: Target) -> Share:
        share = self.places.get(place)
        if share is None:
            key = place if len(self.places) < MOST_PLACES else THE_REST
            share = self.places.setdefault(key, Share())
        return share
