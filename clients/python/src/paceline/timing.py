"""How long to wait, as arithmetic: nothing here sleeps or reads a clock, except `Moment.now`."""

from __future__ import annotations

import time
from typing import NamedTuple

from google.protobuf.duration_pb2 import Duration

USE_WITHIN = 2.0
"""How late a granted call may be sent when the service does not say, in seconds."""
LONGEST = float(1 << 31)
"""The longest length of time that is calculated with."""
FIRST_PAUSE = 0.05
"""The first pause after every replica failed."""
LONGEST_PAUSE = 2.0
"""The longest pause between two rounds of tries."""


class Moment(NamedTuple):
    """A moment on both clocks of the machine."""

    steady: float
    """The monotonic clock: what waits are counted on."""
    wall: float
    """The wall clock: the monotonic one may stand still while a machine sleeps, this one does not."""

    @classmethod
    def now(cls) -> Moment:
        """This moment."""
        return cls(time.monotonic(), time.time())

    def longest_since(self, earlier: Moment) -> float:
        """The time since `earlier` by the clock that says more.

        Only used to tell that it is too late, where a clock that was set forward costs no more than asking again.
        """
        return max(self.steady - earlier.steady, self.wall - earlier.wall)


class Window(NamedTuple):
    """When a granted call may be sent."""

    received: Moment
    opens: float
    """Never before this, by the monotonic clock."""
    closes_in: float
    """From the receipt, not later than this."""

    def is_over(self, now: Moment) -> bool:
        """Whether a call sent at `now` would be later than the service allows."""
        return now.longest_since(self.received) > self.closes_in


def seconds(duration: Duration) -> float:
    """A length of time from the service; a negative one (there is none) is zero."""
    length = duration.seconds + duration.nanos / 1e9
    return 0.0 if length < 0.0 else LONGEST if length > LONGEST else length


def to_proto(length: float) -> Duration:
    """A length of time for the service."""
    nanos = int(min(max(length, 0.0), LONGEST) * 1e9)
    return Duration(seconds=nanos // 1_000_000_000, nanos=nanos % 1_000_000_000)


def spread(shortest: float, longest: float, chance: float) -> float:
    """A length of time between two others: the shorter at chance 0, the longer at chance 1."""
    return shortest + max(longest - shortest, 0.0) * min(max(chance, 0.0), 1.0)


def pause(rounds: int, chance: float) -> float:
    """How long to pause after every replica failed so many times, from once: it doubles with each round.

    `chance` in 0..1 spreads it over the upper half, so that workers do not come back together.
    """
    longest = min(FIRST_PAUSE * 2.0 ** min(max(rounds - 1, 0), 16), LONGEST_PAUSE)
    return spread(longest / 2, longest, chance)
