"""When a stream is alive."""

from __future__ import annotations

import pytest

from paceline.engine.health import Health, health
from paceline.engine.rendezvous import replica_for, route
from paceline.engine.replicas import Replicas


@pytest.mark.parametrize(
    ("is_open", "is_used", "heard_at", "oldest", "pinged_at", "how"),
    [
        (False, False, 99.0, 100.0, 0.0, Health.FINE),  # it is being opened
        (False, True, 97.9, 98.0, 0.0, Health.DEAD),  # it does not open
        (True, False, 10.0, 100.0, 0.0, Health.FINE),  # nobody uses it
        (True, True, 99.0, 100.0, 0.0, Health.FINE),
        (True, True, 97.9, 100.0, 0.0, Health.QUIET),  # calls wait or run
        (True, True, 97.0, 100.0, 99.0, Health.FINE),  # it was asked
        (True, True, 97.0, 100.0, 98.4, Health.DEAD),  # and says nothing
        (True, True, 99.0, 100.0, 98.0, Health.FINE),  # it answered that
        (True, False, 98.0, 98.9, 0.0, Health.DEAD),  # asked a second ago, and not a word since
        (True, False, 99.5, 98.0, 0.0, Health.FINE),  # it says other things: that one call is slow
    ],
)
def test_how_a_stream_is(is_open: bool, is_used: bool, heard_at: float, oldest: float, pinged_at: float, how: Health) -> None:
    found = health(is_open=is_open, is_used=is_used, heard_at=heard_at, oldest=oldest, pinged_at=pinged_at, now=100.0)
    assert found is how


def test_who_is_chosen_and_since_when_nobody_answers() -> None:
    names = ["10.0.0.1:7070", "10.0.0.2:7070"]
    replicas = Replicas(names)
    own = replica_for("openai", "prod", names)
    of_scope = route("openai", "prod")
    first = replicas.choose(of_scope)
    assert first is not None
    assert first.name == own
    second = replicas.choose(of_scope, [first.name])
    assert second is not None
    assert second is not first
    assert replicas.choose(of_scope, names) is None
    replicas.failed(first, 10.0, 1.0)
    assert (replicas.choose(of_scope), replicas.silent_since, first.look_at) == (second, None, 10.5)
    replicas.failed(second, 20.0, 1.0)
    assert (replicas.choose(of_scope), replicas.silent_since) == (None, 20.0)
    replicas.failed(first, 30.0, 1.0)
    assert replicas.silent_since == 20.0, "since when, and not how often"
    replicas.answered(first)
    assert (replicas.choose(of_scope), replicas.silent_since) == (first, None)
    gone = replicas.found([("10.0.0.2:7070", False), ("[::1]:7070", True)])
    assert gone == [first]
    replicas.answered(second)
    assert replicas.choose(of_scope) is second, "a spare is asked last"
