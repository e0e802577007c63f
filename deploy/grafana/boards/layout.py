"""Where panels stand: shelves of 24 columns, filled from left to right."""

from __future__ import annotations

from dataclasses import dataclass, replace

from boards.model import Panel

COLUMNS = 24


@dataclass(frozen=True)
class Place:
    """A panel's rectangle on the grid."""

    x: int
    y: int
    w: int
    h: int


def placed(panels: list[Panel], top: int) -> tuple[list[tuple[Panel, Place]], int]:
    """Each panel with its place, and where the next row begins.

    A panel that fits below the one before it stands there; a shelf that is not full is stretched, so that leaving out what
    nobody exports leaves no hole.
    """
    done: list[tuple[Panel, Place]] = []
    shelf: list[tuple[Panel, Place]] = []
    x = 0
    for panel in panels:
        height = max((place.y - top + place.h for _, place in shelf), default=0)
        if shelf:
            last = shelf[-1][1]
            below = last.y - top + last.h
            if last.w == panel.width and below + panel.height <= height:
                shelf.append((panel, replace(last, y=top + below, h=panel.height)))
                continue
        if x + panel.width > COLUMNS:
            done += _stretched(shelf)
            top, x, shelf = top + height, 0, []
        shelf.append((panel, Place(x, top, panel.width, panel.height)))
        x += panel.width
    height = max((place.y - top + place.h for _, place in shelf), default=0)
    return done + _stretched(shelf), top + height


def _stretched(shelf: list[tuple[Panel, Place]]) -> list[tuple[Panel, Place]]:
    """The shelf with its free columns given to the panels, the widest first."""
    widths = {place.x: place.w for _, place in shelf}
    free = COLUMNS - sum(widths.values())
    order = sorted(widths, key=lambda x: -widths[x])
    for turn in range(free):
        widths[order[turn % len(order)]] += 1
    starts, x = {}, 0
    for old in sorted(widths):
        starts[old] = x
        x += widths[old]
    return [(panel, replace(place, x=starts[place.x], w=widths[place.x])) for panel, place in shelf]
