"""Panels fill the grid without overlaps and holes."""

import random

from boards.layout import COLUMNS, Place, placed
from boards.model import Lines, Panel


def panel(width: int, height: int) -> Panel:
    return Lines(title="a", asks="b?", queries=[], width=width, height=height)


def test_a_short_panel_stands_below_the_one_before_it() -> None:
    places = [place for _, place in placed([panel(16, 10), panel(8, 5), panel(8, 5)], 3)[0]]
    assert places == [Place(0, 3, 16, 10), Place(16, 3, 8, 5), Place(16, 8, 8, 5)]


def test_a_shelf_that_is_not_full_is_stretched() -> None:
    places, end = placed([panel(8, 8), panel(8, 8)], 0)
    assert [(place.x, place.w) for _, place in places] == [(0, 12), (12, 12)]
    assert end == 8


def test_nothing_overlaps() -> None:
    chance = random.Random(7)
    for _ in range(200):
        panels = [panel(chance.choice([3, 4, 6, 8, 12, 24]), chance.choice([4, 5, 8])) for _ in range(chance.randrange(1, 9))]
        places, end = placed(panels, 1)
        cells = {(x, y) for _, at in places for x in range(at.x, at.x + at.w) for y in range(at.y, at.y + at.h)}
        assert len(cells) == sum(at.w * at.h for _, at in places)
        assert max(at.x + at.w for _, at in places) == COLUMNS
        assert max(at.y + at.h for _, at in places) == end
