"""Writes the made-up day as OpenMetrics text, to standard output."""

from __future__ import annotations

import day
import fleet_told
import service_told
from openmetrics import Text


def main() -> None:
    """Plays the day and writes what was told of it."""
    text, every = Text(), day.lanes()
    day.played(every)
    fleet_told.callers(text, every)
    fleet_told.providers(text, every)
    fleet_told.buckets(text, every)
    fleet_told.shadow(text)
    service_told.service(text, every)
    service_told.switched(text)
    text.write()


if __name__ == "__main__":
    main()
