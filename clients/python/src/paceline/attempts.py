"""Attempts, as far as blocking and awaiting code have them in common."""

from __future__ import annotations

import logging
from contextvars import Token

from paceline import inherited
from paceline.inherited import Context, Under
from paceline.outcomes import Abandoned, Outcome
from paceline.reading import UNKNOWN, is_success, outcome_of
from paceline.reports import SUCCESS
from paceline.slots import SlotView

log = logging.getLogger("paceline")


class AttemptView:
    """One attempt as a block: when the block ends, it is reported how it went."""

    def __init__(self) -> None:
        self.again = False
        """Whether another attempt follows."""
        self.error: Exception | None = None
        """What the block raised, where another attempt follows."""
        self._token: Token[Context | Under] | None = None

    def _enter(self, slot: SlotView) -> None:
        # From here on the call may have been sent, whatever happens in the block.
        slot.sent()
        self._token = inherited.enter(slot)

    def _leave(self) -> None:
        token, self._token = self._token, None
        if token is None:
            return
        try:
            inherited.current.reset(token)
        except ValueError:  # a generator that is closed by somebody else's context
            log.debug("an attempt ended in another context than it began in")

    def _outcome(self, slot: SlotView, error: BaseException | None) -> Outcome | None:
        """How the block ended; `None`: that was reported in it."""
        if slot.is_settled:
            self.again = slot.is_to_be_sent_again
            return None
        if error is not None and not isinstance(error, Exception):
            return Abandoned()  # cancelled, interrupted, closed: whoever does that does not want it again
        said = slot.said
        if said is not None:
            return said
        return SUCCESS if error is None else outcome_of(error)

    @staticmethod
    def _is_over(slot: SlotView, outcome: Outcome, error: BaseException | None) -> bool:
        """Whether nothing follows, whatever the service says: sending again mends no bug."""
        is_interrupted = error is not None and not isinstance(error, Exception)
        return is_success(outcome) or outcome is UNKNOWN or is_interrupted or slot.is_last
