"""The share a process goes on with when nobody answers: the laws of crates/client/src/recent.rs."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline import Target
from paceline.engine.recent import MOST_PLACES, Recent, Turn

PLACE = Target("openai", "prod", "a")
START = 1_000.0


def tokens(units: int) -> dict[str, int]:
    return {"requests": 1, "tokens": units}


def granted(per_second: int, seconds: int) -> tuple[Recent, float]:
    """A process that was granted so many calls of 100 tokens a second, and the moment at which the service went."""
    recent = Recent()
    for nth in range(per_second * seconds):
        recent.granted(PLACE, tokens(100), START + nth / per_second)
    return recent, START + seconds


def turns_by_minute(recent: Recent, cost: dict[str, int], away: float, chance: float = 0.0) -> list[int]:
    """How many turns begin in each of the first minutes, all asked for as fast as they come."""
    counts, now = [0] * 5, away
    while True:
        turn = recent.book(PLACE, cost, away, now, chance)
        if not turn.is_paced:
            return counts
        now = max(now, turn.at)
        counts[int((turn.at - away) // 60)] += 1


@pytest.mark.parametrize("seconds", [60, 600])
def test_the_share_is_what_was_granted_lately_halved_each_minute_for_five(seconds: int) -> None:
    recent, away = granted(8, seconds)
    for count, expected in zip(turns_by_minute(recent, tokens(100), away, 0.5), [480, 240, 120, 60, 30], strict=True):
        # What was granted in a bin that began before the window is left out.
        assert expected * 0.94 <= count <= expected + 1


def test_larger_calls_take_longer_turns() -> None:
    recent, away = granted(8, 120)
    assert 115 <= turns_by_minute(recent, tokens(400), away)[0] <= 121
    recent, away = granted(8, 120)
    assert 460 <= turns_by_minute(recent, {}, away)[0] <= 481, "a call that states nothing counts as a call"


def test_what_lies_longer_back_is_not_recent() -> None:
    recent, last = granted(8, 60)
    assert turns_by_minute(recent, tokens(100), last + 600) == [1, 1, 1, 1, 1]
    assert recent.book(Target("never", "", ""), tokens(100), last, last, 0.0).is_paced, (
        "the same where only others were granted anything"
    )


def test_who_was_never_granted_anything_goes_on_as_without_us() -> None:
    assert Recent().book(PLACE, tokens(100), 50.0, 52.0, 0.5) == Turn(52.0, is_paced=False)


def test_a_turn_that_nobody_takes_holds_nobody_up() -> None:
    recent, away = granted(1, 120)
    first = recent.turn(PLACE, tokens(100), away, away, 0.5)
    assert recent.turn(PLACE, tokens(100), away, away, 0.9) == first, "chance is thrown once"
    recent.take(PLACE, tokens(100), away, first)
    assert recent.turn(PLACE, tokens(100), away, away, 0.0).at > first.at
    assert recent.paces(away, away + 299)
    assert not recent.paces(away, away + 300)


def test_a_floor_is_kept_and_so_is_what_a_refusal_says() -> None:
    recent, away = granted(8, 120)
    recent.floor(PLACE, away + 30)
    recent.floor(PLACE, away + 10)
    turn = recent.book(PLACE, tokens(100), away, away, 0.0)
    assert turn == Turn(away + 30, is_paced=True), "the later of two"
    assert recent.book(PLACE, tokens(100), away, away, 0.0).at > turn.at, "and one after the other from there"
    elsewhere = recent.book(Target("openai", "prod", "b"), tokens(100), away, away, 0.0)
    assert elsewhere.at < away + 1, "another model has a floor of its own"

    recent, away = granted(8, 120)
    recent.refused(PLACE)
    assert 230 <= turns_by_minute(recent, tokens(100), away)[0] <= 241

    recent, away = granted(8, 120)
    recent.floor(PLACE, away + 405)
    turn = recent.book(PLACE, tokens(100), away, away + 400, 0.0)
    assert turn == Turn(away + 405, is_paced=False), "also when the pace is not kept any more"
    recent.lift(PLACE, away + 404)
    assert recent.book(PLACE, tokens(100), away, away + 400, 0.0).at == away + 400, "the service knows of its end"


def test_after_the_service_was_back_the_share_is_whole_again() -> None:
    recent, away = granted(8, 120)
    recent.refused(PLACE)
    turns_by_minute(recent, tokens(100), away)
    back = away + 300
    for nth in range(8 * 120):
        recent.granted(PLACE, tokens(100), back + nth / 8)
    assert 460 <= turns_by_minute(recent, tokens(100), back + 120)[0] <= 481


def test_places_are_bounded_and_watching_is_remembered() -> None:
    recent = Recent()
    for nth in range(1_000):
        recent.granted(Target("openai", "prod", f"model-{nth}"), tokens(1), START)
    assert len(recent.places) == MOST_PLACES + 1
    recent.enforces(PLACE, False)
    assert recent.is_enforced(Target("anthropic"))


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 19), st.lists(st.integers(1, 999), min_size=2, max_size=80), st.floats(0, 1, exclude_max=True))
def test_never_more_than_the_recent_share(per_second: int, costs: list[int], chance: float) -> None:
    recent, away = granted(per_second, 120)
    turns = [(recent.book(PLACE, tokens(cost), away, away, chance), cost) for cost in costs]
    for start, (first, _) in enumerate(turns):
        units = 0
        for turn, cost in turns[start:]:
            if turn.is_paced:
                assert turn.at >= first.at
                assert units <= (turn.at - first.at) * per_second * 100 * 1.001 + 1.0
                units += cost


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 4), st.floats(0.001, 1, exclude_max=True))
def test_a_fleet_does_not_begin_together(per_second: int, chance: float) -> None:
    recent, away = granted(per_second, 120)
    waited = recent.book(PLACE, tokens(100), away, away, chance).at - away
    spread = chance / per_second  # a clock has not all digits of a chance
    assert spread * 0.99 - 1e-6 <= waited <= spread * 1.1 + 1e-6
