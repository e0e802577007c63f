"""For code that awaits: the same names as in `paceline`."""

from paceline.aio.limiter import Call, Limiter, Slot

__all__ = ["Call", "Limiter", "Slot"]
