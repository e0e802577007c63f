"""Who sends again by itself, as SDKs do: known again, so that it is another attempt of the same call, or not sent at all.

What failed is remembered in the context of the task or thread that sent it. SDKs made by Stainless (openai, anthropic) say in a
header which of their retries a request is; others send the same bytes once more. One failure is remembered at a time, without
body and traceback; the next request takes it out, also where tasks have inherited it.
"""

from __future__ import annotations

import hashlib
import time
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol

from paceline.ask import Target
from paceline.sdk.seen import Seen

__all__ = ["Continued", "continued", "fail_again", "is_tried_again", "remember_error", "remember_line"]

# SDKs made by Stainless say which of their own retries this is.
_RETRY_COUNT = "x-stainless-retry-count"
# A header is a number of anybody's choice.
_MOST_RETRIES = 1_000
# SDKs wait a minute or two at most. Later the same request is rather a new call.
SOON = 120.0


class Continued(Protocol):
    """A call that may go on."""

    @property
    def target(self) -> Target:
        """Where it goes."""

    def sent_again(self, times: int = 1) -> None:
        """The next slot is for a later attempt."""


@dataclass(frozen=True)
class _Failed:
    """A request that failed, and what is to become of it when it comes again."""

    method: str
    url: str
    digest: bytes
    """Of its body; empty where that was not read."""
    retries: int | None
    """Which retry of its SDK it was."""
    at: float
    line: Continued | None = None
    """Where we only watch: its call."""
    error: Exception | None = None
    """Where we decide what is sent again: its end."""


# A list, so that only one of the tasks that inherit it finds what is in it.
_memory: ContextVar[list[_Failed] | None] = ContextVar("paceline_failed", default=None)


def is_tried_again(status: int) -> bool:
    """Whether SDKs send again what was answered so."""
    return status >= 500 or status in (408, 409, 425, 429)


def remember_line(seen: Seen, line: Continued) -> None:
    """A watched call failed: when whoever sent it sends it again, it goes on."""
    _remember(_Failed(seen.method, seen.url, _digest(seen), _retries(seen), time.monotonic(), line=line))


def remember_error(seen: Seen, error: Exception) -> None:
    """A call has failed for good without an answer: an SDK that tries again by itself is to hear the same."""
    retries = _retries(seen)
    if retries is not None:
        _remember(_Failed(seen.method, seen.url, b"", retries, time.monotonic(), error=_twin(error)))


def continued(seen: Seen, line: Any) -> Any:
    """The call that a watched request belongs to: one that failed just now and is sent again, else `line`, its own."""
    failed = _taken()
    if failed is not None and _is_again(failed, seen):
        before = failed.line
        if before is not None and type(before) is type(line) and before.target == line.target:
            before.sent_again()
            return before
    retries = _retries(seen)
    if retries:
        line.sent_again(min(retries, _MOST_RETRIES))
    return line


def fail_again(seen: Seen) -> None:
    """Raises for an SDK that tries again by itself, after we have tried as often as is allowed, what ended the call."""
    failed = _taken()
    if failed is not None and failed.error is not None and _is_again(failed, seen):
        remember_error(seen, failed.error)
        raise _twin(failed.error)


def _remember(failed: _Failed) -> None:
    _memory.set([failed])


def _taken() -> _Failed | None:
    """What was remembered; from here on it is not."""
    memory = _memory.get()
    if memory is None:
        return None
    _memory.set(None)
    try:
        return memory.pop()
    except IndexError:
        return None


def _is_again(failed: _Failed, seen: Seen) -> bool:
    if (failed.method, failed.url) != (seen.method, seen.url):
        return False
    retries = _retries(seen)
    if failed.retries is not None or retries is not None:
        return failed.retries is not None and retries == failed.retries + 1
    return failed.digest != b"" and failed.digest == _digest(seen) and time.monotonic() - failed.at < SOON


def _retries(seen: Seen) -> int | None:
    count = seen.headers.get(_RETRY_COUNT, "")
    return int(count) if count.isascii() and count.isdigit() else None


def _digest(seen: Seen) -> bytes:
    return hashlib.blake2b(seen.body, digest_size=16).digest() if seen.body else b""


def _twin(error: Exception) -> Exception:
    """The same error without its traceback, which holds all that was under way."""
    try:
        twin = type(error)(*error.args)
    except Exception:
        return error
    return twin if isinstance(twin, type(error)) else error
