"""The replicas that are known, which of them answers, and since when none does. Only the keeper changes anything here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from paceline.engine import rendezvous
from paceline.timing import spread

if TYPE_CHECKING:
    from paceline.engine.session import Session

FIRST_LOOK = 0.5
"""From a failure to the first look at a replica, in seconds."""
LONGEST_BESIDE_OTHERS = 15.0
"""The longest time between two looks while another replica answers."""
LONGEST_ALONE = 2.0
"""The longest while none does: the first one back is used at once."""


class Replica:
    """One replica."""

    __slots__ = ("failures", "is_down", "is_spare", "look_at", "name", "session")

    def __init__(self, name: str, is_spare: bool) -> None:
        self.name = name
        self.is_spare = is_spare
        """Asked only when none of the others answers."""
        self.is_down = False
        """It did not answer last time."""
        self.failures = 0
        """Since it last answered."""
        self.look_at = 0.0
        """When it is looked at again, by the monotonic clock."""
        self.session: Session | None = None
        """The stream that is used, or that is being opened to look."""


class Replicas:
    """All of them."""

    def __init__(self, names: Iterable[str]) -> None:
        self.known: tuple[Replica, ...] = tuple(Replica(name, False) for name in names)
        self.silent_since: float | None = None
        """Since when nobody answers; `None`: somebody does, or nobody was asked."""

    def choose(self, route: int, tried: Iterable[str] = ()) -> Replica | None:
        """The replica that a scope's call is sent to, after it was tried at others.

        Of those that answer the one that weighs most; one that is down is not asked.
        """
        best, best_rank = None, None
        for replica in self.known:
            if replica.is_down or replica.name in tried:
                continue
            rank = (not replica.is_spare, rendezvous.weight(route, replica.name))
            if best_rank is None or rank > best_rank:
                best, best_rank = replica, rank
        return best

    def named(self, name: str) -> Replica | None:
        """The replica of this name, if it is known."""
        return next((replica for replica in self.known if replica.name == name), None)

    def failed(self, replica: Replica, now: float, chance: float) -> None:
        """It did not answer: it is left alone, and looked at now and then."""
        replica.is_down = True
        replica.failures += 1
        others_answer = any(not other.is_down for other in self.known)
        replica.look_at = now + look_in(replica.failures, others_answer, chance)
        if not others_answer and self.silent_since is None:
            self.silent_since = now

    def answered(self, replica: Replica) -> None:
        """It answers."""
        replica.is_down = False
        replica.failures = 0
        self.silent_since = None

    def found(self, names: list[tuple[str, bool]]) -> list[Replica]:
        """Takes over what was looked up: name, and whether it is a spare. Returns those that are gone."""
        before = {replica.name: replica for replica in self.known}
        now: dict[str, Replica] = {}
        for name, is_spare in names:
            replica = now.setdefault(name, before.get(name) or Replica(name, is_spare))
            replica.is_spare = is_spare and replica.is_spare
        self.known = tuple(now.values())
        return [replica for name, replica in before.items() if name not in now]


def look_in(nth: int, others_answer: bool, chance: float) -> float:
    """How long to wait before the `nth` look, from 1, at a replica that is down.

    Doubling, and spread by `chance` in 0..1 so that a fleet's clients neither look nor come back together.
    """
    longest = LONGEST_BESIDE_OTHERS if others_answer else LONGEST_ALONE
    this = min(FIRST_LOOK * 2.0 ** min(max(nth - 1, 0), 16), longest)
    return spread(this / 2, this, chance)
