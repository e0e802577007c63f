"""How an attempt went, read from what it returned or raised: by the attributes that HTTP libraries and SDKs share."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator, Mapping

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
        "EndpointConnectionError",  # botocore
    ]
)
"""Errors of HTTP libraries that say that nothing was sent."""
NO_WAY = frozenset([errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN])
"""Errors of the system that say so."""
LIBRARIES = frozenset(["httpx", "httpx2", "httpcore", "httpcore2", "requests", "urllib3", "aiohttp", "http", "botocore"])
BROKE_OFF = frozenset(
    [
        "TransportError",  # httpx
        "NetworkError",  # httpcore
        "ProtocolError",  # httpcore, urllib3
        "ConnectionError",  # requests, botocore
        "ChunkedEncodingError",  # requests
        "MaxRetryError",  # urllib3
        "ClientConnectionError",  # aiohttp
        "ClientPayloadError",  # aiohttp
        "HTTPException",  # http.client
        "HTTPClientError",  # botocore
    ]
)
"""Errors of these libraries, and all that derive from them, that say that no answer, or not all of it, came."""
BUGS = (ArithmeticError, AssertionError, AttributeError, ImportError, LookupError, MemoryError, NameError, TypeError, ValueError)
"""Errors of the code itself: what they came up beside of says nothing of the call, unless they were raised from it."""
UNKNOWN = Abandoned()
"""What an exception means that says nothing of the call: it may have run, and nobody knows that it failed."""


def outcome_of(brought: object) -> Outcome:
    """The outcome of an attempt that returned or raised this.

    What has a status was answered; what says that no connection was made was never sent; what ran out of time, or lost its
    connection, timed out. An exception that says none of that (a `KeyError`) is no failure of the call: it is reported as
    abandoned, since it may have run, and never a reason to send again. Any other value is a success.
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
    if isinstance(answer, Mapping):
        answer = _Aws(answer)
    status = _status(answer) if answer is not None else None
    if status is not None:
        return _answer(status, answer)
    grpc_status = _grpc_status(error)
    if grpc_status:
        return Response(0, grpc_status=grpc_status)
    status = _status(error)
    if status is not None and status >= 400:
        return _answer(status, error)
    for cause in _causes(error):
        if isinstance(cause, (ConnectionRefusedError, socket.gaierror)) or type(cause).__name__ in NEVER_SENT:
            return ConnectionFailed()
        if isinstance(cause, OSError) and cause.errno in NO_WAY:
            return ConnectionFailed()
    for cause in _causes(error):
        if isinstance(cause, (TimeoutError, ConnectionError)) or "Timeout" in type(cause).__name__ or _broke_off(cause):
            return TimedOut()
    return UNKNOWN


def _broke_off(error: BaseException) -> bool:
    """Whether an HTTP library says that no answer came; a request that cannot be sent at all is a bug, and says so as well."""
    if isinstance(error, ValueError) or type(error).__name__ in ("UnsupportedProtocol", "LocalProtocolError"):
        return False
    kinds = type(error).__mro__
    return any(kind.__name__ in BROKE_OFF and kind.__module__.partition(".")[0] in LIBRARIES for kind in kinds)


class _Aws:
    """What botocore has as the response of an error, as other SDKs have it."""

    def __init__(self, said: Mapping[str, object]) -> None:
        about = said.get("ResponseMetadata")
        facts: Mapping[str, object] = about if isinstance(about, Mapping) else {}
        self.status_code = facts.get("HTTPStatusCode")
        self.headers = facts.get("HTTPHeaders") or {}
        self.body = said.get("Error") or {}


def _grpc_status(error: BaseException) -> int | None:
    """The status of an error of gRPC, whose `code()` is a number and a name."""
    code = getattr(error, "code", None)
    if not callable(code) or not any(kind.__name__ == "RpcError" for kind in type(error).__mro__):
        return None
    value = getattr(code(), "value", None)
    number = value[0] if isinstance(value, tuple) and value else None
    return number if type(number) is int else None


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
        beside = None if current.__suppress_context__ or isinstance(current, BUGS) else current.__context__
        current = current.__cause__ or beside
