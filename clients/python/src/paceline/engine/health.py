"""Whether a stream is alive, from what was heard on it: a replica may hang or vanish while its connection looks as ever."""

from __future__ import annotations

from enum import Enum

HANGS_AFTER = 1.0
"""A replica that says nothing at all for this long, although it was asked, is left. In seconds, as all of these."""
PING_AFTER = 2.0
"""A replica that has not said anything for this long, while calls wait or run, is asked for a sign of life."""
PONG_WITHIN = 1.5
"""It has this long for it: one that vanished without closing its connections is left within four seconds."""
OPENS_WITHIN = 2.0
"""A stream that is not there after this long is not coming."""


class Health(Enum):
    """What is to be done about a stream."""

    FINE = "fine"
    QUIET = "quiet"
    """It is to be asked for a sign of life."""
    DEAD = "dead"
    """It is to be left."""


def health(*, is_open: bool, is_used: bool, heard_at: float, oldest: float, pinged_at: float, now: float) -> Health:
    """How a stream is at `now`.

    `heard_at`: when anything was last read, or when it was made. `oldest`: when the oldest thing was said that is not answered
    (`now`: nothing). `pinged_at`: when it was last asked for a sign of life. `is_used`: calls wait or run.
    """
    if not is_open:
        return Health.DEAD if now - heard_at > OPENS_WITHIN else Health.FINE
    if now - oldest > HANGS_AFTER and heard_at <= oldest:
        return Health.DEAD
    if pinged_at > heard_at:
        return Health.DEAD if now - pinged_at > PONG_WITHIN else Health.FINE
    return Health.QUIET if is_used and now - heard_at > PING_AFTER else Health.FINE
