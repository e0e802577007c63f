"""A stream of events read along as it passes: usage where it says it, a count of our own where it does not,
errors in a 200.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from paceline.sdk.cost import text_tokens
from paceline.sdk.usage import error_in, usage_in, usage_of_body

__all__ = ["StreamMeter"]

# An event larger than this is passed on but not read.
_LARGEST_EVENT = 4 * 1024 * 1024
# Fields of events that carry text which the provider counts as output.
_WRITTEN = frozenset(
    {
        "content",
        "text",
        "reasoning_content",
        "reasoning",
        "refusal",
        "thinking",
        "partial_json",
        "arguments",
        "transcript",
    }
)
_ENDS = frozenset({"message_stop", "response.completed", "response.incomplete", "response.failed", "message-end"})


class StreamMeter:
    """Is fed the bytes of a stream, decompressed; knows at any time what the stream has used so far.

    `whole` is for streams that are one JSON text (Gemini's without `alt=sse`): read when they end.
    """

    def __init__(self, *, whole: bool = False) -> None:
        self.error: bytes | None = None
        """The first error event, as received."""
        self.ended = False
        """Whether the stream said that it is complete."""
        self.is_read = False
        """Whether there was anything in it that could be read."""
        self._told: dict[str, int] = {}
        self._final = False
        self._written_bytes = 0
        self._deltas = 0
        self._line = b""
        self._event: list[bytes] = []
        self._whole = bytearray() if whole else None

    def feed(self, chunk: bytes) -> None:
        """Reads on."""
        if self._whole is not None:
            if len(self._whole) <= _LARGEST_EVENT:
                self._whole += chunk
            return
        lines = (self._line + chunk).split(b"\n")
        self._line = lines.pop()
        if len(self._line) > _LARGEST_EVENT:
            self._line = b""
        for line in lines:
            self._take(line.rstrip(b"\r"))

    def finish(self) -> None:
        """The stream is over, as it should be or not: what is left is read."""
        if self._whole is not None:
            self._told = usage_of_body(bytes(self._whole))
            self._final = self.ended = self.is_read = bool(self._told)
            return
        for line in (self._line, b""):
            self._take(line.rstrip(b"\r"))
        self._line = b""

    def used(self, input_tokens: int | None) -> tuple[dict[str, int], bool]:
        """Meter -> units, and whether they are our count: `input_tokens` is what the request was estimated
        at.
        """
        if self._final:
            return dict(self._told), False
        usage = dict(self._told)
        counted = max(text_tokens(self._written_bytes), self._deltas)
        usage["output_tokens"] = max(counted, usage.get("output_tokens", 0))
        if "input_tokens" not in usage and input_tokens is not None:
            usage["input_tokens"] = input_tokens
        usage.pop("tokens", None)
        return usage, True

    def _take(self, line: bytes) -> None:
        if line.startswith(b"data:"):
            self._event.append(line[5:].lstrip())
        elif not line and self._event:
            data, self._event = b"\n".join(self._event), []
            self._read(data)
        elif line.startswith(b"{"):
            self._read(line)  # one JSON text a line

    def _read(self, data: bytes) -> None:
        if data == b"[DONE]":
            self.ended = True
            return
        try:
            event = json.loads(data)
        except (ValueError, RecursionError):
            return
        if not isinstance(event, dict):
            return
        self.is_read = True
        kind = event.get("type")
        if error_in(event) and self.error is None:
            self.error = data
        self._count(event)
        usage = usage_in(event)
        if usage:
            self._told.update(usage)
            # Anthropic says input at the start and output in message_delta, Gemini counts on with each event:
            # the end makes them final.
            self._final = kind != "message_start" and not self._goes_on(event)
        if kind in _ENDS:
            self.ended = True
        if event.get("candidates") and not self._goes_on(event):
            self.ended = True

    @staticmethod
    def _goes_on(event: Mapping[str, Any]) -> bool:
        """Whether this is an event of Gemini's in mid-stream."""
        candidates = event.get("candidates")
        if not isinstance(candidates, list) or not candidates:
            return False
        return not any(isinstance(candidate, dict) and candidate.get("finishReason") for candidate in candidates)

    def _count(self, event: Mapping[str, Any]) -> None:
        written = 0
        delta = event.get("delta")
        if isinstance(delta, str):
            written += len(delta.encode())
        elif isinstance(delta, dict):
            written += _text_in(delta)
        for name in ("choices", "candidates"):
            for item in event.get(name) or ():
                if isinstance(item, dict):
                    written += _text_in(item.get("delta") or item.get("content") or item.get("text"), bare=True)
        if written:
            self._written_bytes += written
            self._deltas += 1


def _text_in(value: object, *, bare: bool = False) -> int:
    """Bytes of written text in a part of an event."""
    if isinstance(value, str):
        return len(value.encode("utf-8", "replace")) if bare else 0
    if isinstance(value, list):
        return sum(_text_in(item) for item in value)
    if isinstance(value, dict):
        return sum(_text_in(item, bare=name in _WRITTEN) for name, item in value.items())
    return 0
