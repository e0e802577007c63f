"""How an attempt went, read from what it returned or raised: by the attributes that HTTP libraries and SDKs share."""

from __future__ import annotations

import socket
from collections.abc import Iterator

from paceline.outcomes import Abandoned, ConnectionFailed, Outcome, Response, TimedOut

NEVER_SENT = frozenset(
    [
        "ConnectError",  # httpx
        "ConnectTimeout",  # httpx, requests
        "PoolTimeout",  # httpx
        "ClientConnectorError",  # aiohttp
        "ConnectionTimeoutError",  # aiohttp
        "NewConnectionError",  # urllib3
        "ConnectTimeoutError",  # urllib3
        "NameResolutionError",  # urllib3
    ]
)
"""Errors of HTTP libraries that say that nothing was sent."""


def outcome_of(brought: object) -> Outcome:
    """The outcome of an attempt that returned or raised this.

    What has a status was answered; what says that no connection was made was never sent; what ran out of time timed out. An
    exception that says none of that may mean anything: the call is reported as abandoned, since it may have run. Any other
    value is a success.
    """
    if isinstance(brought, BaseException):
        return _of_error(brought)
    status = _status(brought)
    return Response(200) if status is None else _answer(status, brought)


def is_success(outcome: Outcome) -> bool:
    """Whether an outcome is nobody's reason to send again."""
    return isinstance(outcome, Response) and outcome.status < 400 and not outcome.grpc_status


def _of_error(error: BaseException) -> Outcome:
    answer = getattr(error, "response", None)
    status = _status(answer) if answer is not None else None
    if status is not None:
        return _answer(status, answer)
    status = _status(error)
    if status is not None and status >= 400:
        return _answer(status, error)
    for cause in _causes(error):
        if isinstance(cause, (ConnectionRefusedError, socket.gaierror)) or type(cause).__name__ in NEVER_SENT:
            return ConnectionFailed()
    for cause in _causes(error):
        if isinstance(cause, TimeoutError) or "Timeout" in type(cause).__name__:
            return TimedOut()
    return Abandoned()


def _status(holder: object) -> int | None:
    for name in ("status_code", "status", "code"):
        value = getattr(holder, name, None)
        if type(value) is int and 100 <= value < 600:
            return value
    return None


def _answer(status: int, holder: object) -> Response:
    headers = getattr(holder, "headers", None)
    body = b""
    if status >= 400:
        # Only what has been read already: an answer that streams is the caller's to read.
        body = getattr(holder, "_content", None) or getattr(holder, "body", None) or b""
        if not isinstance(body, (bytes, str)):
            body = str(body).encode() if isinstance(body, dict) else b""
    return Response(status, headers if headers is not None else (), body)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and what it came from, at most a few steps back."""
    current: BaseException | None = error
    for _ in range(8):
        if current is None:
            return
        yield current
        for argument in current.args:
            if isinstance(argument, BaseException):
                yield argument  # as requests wraps urllib3's
                reason = getattr(argument, "reason", None)
                if isinstance(reason, BaseException):
                    yield reason
        current = current.__cause__ or current.__context__
