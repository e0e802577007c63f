"""Arithmetic on lengths of time."""

from __future__ import annotations

import pytest
from google.protobuf.duration_pb2 import Duration
from hypothesis import given
from hypothesis import strategies as st

from paceline.engine.replicas import look_in
from paceline.timing import LONGEST, Moment, Window, pause, seconds, to_proto

NOW = Moment(1_000.0, 1_700_000_000.0)


def later(by: float) -> Moment:
    return Moment(NOW.steady + by, NOW.wall + by)


@pytest.mark.parametrize(
    ("wait", "within", "at", "is_over"),
    [(0.0, 2.0, 0.0, False), (0.0, 2.0, 1.9, False), (0.0, 2.0, 2.1, True), (0.5, 0.1, 0.59, False), (0.5, 0.1, 0.61, True)],
)
def test_a_window_opens_after_wait_and_is_over_after_use_within(wait: float, within: float, at: float, is_over: bool) -> None:
    window = Window(NOW, NOW.steady + wait, wait + within)
    assert window.is_over(later(at)) == is_over


def test_a_machine_that_slept_is_late_although_its_monotonic_clock_stood_still() -> None:
    window = Window(NOW, NOW.steady + 0.5, 2.5)
    assert window.is_over(Moment(NOW.steady + 0.5, NOW.wall + 3_600))
    assert not window.is_over(Moment(NOW.steady + 0.6, NOW.wall - 60)), "a wall clock that was set back hides nothing"


def test_odd_lengths_from_a_service_do_no_harm() -> None:
    assert seconds(Duration(seconds=-1)) == 0.0
    assert seconds(Duration(seconds=1, nanos=500_000_000)) == 1.5
    assert seconds(Duration(seconds=2**62)) == LONGEST
    assert seconds(to_proto(-3.0)) == 0.0


@given(st.floats(0, 1e6))
def test_lengths_round_trip(length: float) -> None:
    assert abs(seconds(to_proto(length)) - length) < 1e-6


@given(st.integers(1, 10_000), st.floats(0, 1))
def test_pauses_and_looks_grow_to_a_bound_and_are_spread(nth: int, chance: float) -> None:
    assert 0.025 <= pause(nth, 0.0) <= pause(nth, chance) <= pause(nth, 1.0) <= 2.0
    for others in (True, False):
        assert look_in(nth, others, 1.0) / 2 == look_in(nth, others, 0.0) <= look_in(nth, others, chance)


def test_they_double() -> None:
    assert [round(pause(nth, 1.0), 3) for nth in range(1, 9)] == [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0]
    assert [look_in(nth, True, 1.0) for nth in range(1, 8)] == [0.5, 1, 2, 4, 8, 15, 15]
    assert [look_in(nth, False, 1.0) for nth in range(1, 5)] == [0.5, 1, 2, 2]
