"""What is told of a stream after its first byte: what it used, and how it ended."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Iterable, Iterator
from typing import Any, Literal

from paceline.outcomes import Abandoned, Outcome, Response, TimedOut
from paceline.sdk.events import StreamMeter
from paceline.sdk.plan import Plan
from paceline.sdk.secrets import clean_body
from paceline.transports.decoding import Decoder, decoder_for

__all__ = ["Ending", "Tail"]

log = logging.getLogger("paceline")

Ending = Literal["end", "cut", "left"]
"""The stream came to its end, broke off, or its reader left."""


class Tail:
    """Reads along a stream and knows what is to be reported when it is over. Once only, however many ways it
    ends at.
    """

    def __init__(self, line: Any, slot: Any, plan: Plan, status: int, *, whole: bool) -> None:
        self._line = line
        self._slot = slot
        self._plan = plan
        self._status = status
        self._meter: StreamMeter | None = StreamMeter(whole=whole)
        self._decode: Decoder | None = None
        self._passed = False
        self.is_over = False
        """Whether its end was told."""

    def begins(self, content_type: str, content_encoding: str) -> None:
        """What kind of stream it is; one that is not text is passed on unread."""
        kind = content_type.partition(";")[0].strip().lower()
        self._decode = decoder_for(content_encoding)
        if self._decode is None or kind not in (
            "text/event-stream",
            "application/json",
            "application/x-ndjson",
        ):
            self._meter = None

    def watch(self, stream: object) -> None:
        """Settles when a stream that nobody closed is collected; until then this, and its call, live on."""
        weakref.finalize(stream, self.settle, "left").atexit = False

    def feed(self, piece: bytes) -> None:
        """A piece passes. Never fails: what cannot be read is not counted."""
        if self._meter is None or self._decode is None:
            return
        try:
            self._passed = self._passed or bool(piece)
            self._meter.feed(self._decode(piece))
        except Exception:
            log.debug("a stream cannot be read along", exc_info=True)
            self._meter = None

    def along(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """Passes on what its reader reads, and settles however that ends."""
        ending: Ending = "left"
        try:
            for piece in pieces:
                self.feed(piece)
                yield piece
            ending = "end"
        except Exception:
            ending = "cut"
            raise
        finally:
            self.settle(ending)

    def settle(self, ending: Ending) -> None:
        """Reports how it ended, without waiting for anything; the second time nothing happens."""
        outcome = self.over(ending)
        if outcome is not None:
            self._slot.settle(outcome)
            self._line.close()

    def over(self, ending: Ending) -> Outcome | None:
        """What to report now; `None` when that was done."""
        if self.is_over:
            return None
        self.is_over = True
        meter = self._meter
        if meter is not None:
            meter.finish()
        if meter is None or (self._passed and not meter.is_read):
            if ending == "end":
                return Response(self._status)
            return TimedOut() if ending == "cut" else Abandoned()
        usage, estimated = meter.used(self._plan.cost.get("input_tokens"))
        if meter.error is not None:
            body = clean_body(meter.error, self._plan.secrets)
            return Response(self._status, body=body, usage=usage, usage_estimated=estimated)
        if ending == "end" or meter.ended or not estimated:
            return Response(self._status, usage=usage, usage_estimated=estimated)
        return TimedOut(usage) if ending == "cut" else Abandoned(usage)
