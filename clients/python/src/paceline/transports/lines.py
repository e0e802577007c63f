"""A limiter's calls as the carrying of a call wants them: one that blocks, one that awaits."""

from __future__ import annotations

from typing import Any

from paceline.ask import Ask, Target
from paceline.outcomes import Outcome, Reported

__all__ = ["AwaitingLine", "BlockingLine"]


class _LineBase:
    """What both have alike."""

    def __init__(self, limiter: Any, ask: Ask) -> None:
        self._call = limiter.begin(ask)
        self.mode: str = limiter.mode
        self.request_id: str = self._call.request_id
        self.target: Target = self._call.target

    def sent_again(self, times: int = 1) -> None:
        """Whoever sends does so again by itself: the next slot is for a later attempt."""
        self._call.sent_again(times)

    def close(self) -> None:
        """Gives back what is held; waits for nothing."""
        self._call.close()


class BlockingLine(_LineBase):
    """A call of `paceline.Limiter`; its coroutines never suspend."""

    async def acquire(self) -> Any:
        """The next slot."""
        return self._call.acquire()

    async def report(self, slot: Any, outcome: Outcome, retry: bool) -> Reported:
        """How it went."""
        reported: Reported = slot.report(outcome, retry=retry)
        return reported


class AwaitingLine(_LineBase):
    """A call of `paceline.aio.Limiter`."""

    async def acquire(self) -> Any:
        """The next slot."""
        return await self._call.acquire()

    async def report(self, slot: Any, outcome: Outcome, retry: bool) -> Reported:
        """How it went."""
        reported: Reported = await slot.report(outcome, retry=retry)
        return reported
