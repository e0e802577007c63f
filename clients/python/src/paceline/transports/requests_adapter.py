"""A session of `requests` whose calls go through Paceline."""

from __future__ import annotations

import copy
import io
from collections.abc import Iterator
from typing import Any

import requests
from requests.adapters import BaseAdapter, HTTPAdapter
from urllib3 import HTTPHeaderDict
from urllib3.response import HTTPResponse
from urllib3.util.retry import Retry

from paceline.outcomes import ConnectionFailed, Outcome, TimedOut
from paceline.sdk.seen import Seen, header_map
from paceline.transports.attempts import Pairs, Sent, blocking, carry
from paceline.transports.governor import Governor
from paceline.transports.tail import Tail

__all__ = ["PacelineAdapter", "govern", "governed", "session"]

_BODY_HEADERS = frozenset({"content-encoding", "content-length", "transfer-encoding"})
# Marks a request that an adapter of ours has in hand.
_GOVERNED = "_paceline"
# Before a byte has left: names of requests' and urllib3's errors.
_NOT_SENT = (
    requests.exceptions.ConnectTimeout,
    requests.exceptions.InvalidURL,
    requests.exceptions.ProxyError,
    requests.exceptions.InvalidSchema,
)


class PacelineAdapter(BaseAdapter):
    """Sends each call in its turn through another adapter, whose own retries are off: what is sent again, the
    service decides.
    """

    def __init__(self, inner: BaseAdapter, governor: Governor) -> None:
        super().__init__()
        self._inner = inner
        self._governor = governor

    def send(self, request: requests.PreparedRequest, *args: Any, **options: Any) -> requests.Response:
        """Sends one request, as often as the service says."""
        return govern(self._governor, request, self._inner, HTTPAdapter.send, *args, **options)

    def close(self) -> None:
        """Closes the adapter inside."""
        self._inner.close()


def session(governor: Governor, **options: Any) -> requests.Session:
    """A session that sends through Paceline; `options` are those of `HTTPAdapter`."""
    made = requests.Session()
    for scheme in ("http://", "https://"):
        made.mount(scheme, PacelineAdapter(HTTPAdapter(**options), governor))
    return made


def governed(inner: requests.Session, governor: Governor) -> requests.Session:
    """A session beside another one, with its connections, cookies, headers and everything else."""
    made = copy.copy(inner)
    made.adapters = type(inner.adapters)()
    for prefix, adapter in inner.adapters.items():
        made.adapters[prefix] = PacelineAdapter(adapter, governor)
    return made


def govern(
    governor: Governor,
    request: requests.PreparedRequest,
    inner: Any,
    plain_send: Any,
    *args: Any,
    **options: Any,
) -> requests.Response:
    """Sends a request through an adapter, in its turn; one that is not ours as it is. `plain_send` is
    `HTTPAdapter.send` unpatched.
    """
    is_plain = isinstance(inner, HTTPAdapter) and type(inner).send in (HTTPAdapter.send, plain_send)

    def send(adapter: Any) -> requests.Response:
        answer: requests.Response = (
            plain_send(adapter, request, *args, **options) if is_plain else adapter.send(request, *args, **options)
        )
        return answer

    path = request.path_url.partition("?")[0]
    if getattr(request, _GOVERNED, False) or not governor.concerns(request.method or "GET", path):
        return send(inner)
    body = request.body
    held = body.encode() if isinstance(body, str) else body if isinstance(body, bytes) else None
    seen = Seen(request.method or "GET", request.url or "", header_map(request.headers.items()), held)
    plan = governor.plan(seen)
    if plan is None:
        return send(inner)
    setattr(request, _GOVERNED, True)
    request.headers.update(plan.headers)
    if governor.has_its_slot(plan):
        return send(inner)
    line = governor.blocking(plan)
    adapter = _once(inner) if line.mode == "enforce" else inner
    streams = plan.place.stream or bool(options.get("stream"))
    port = _Port(request, lambda: send(adapter), body is None or held is not None, streams)
    return blocking(carry(seen, plan, port, line))


def _once(adapter: Any) -> Any:
    """The adapter, with its connections, that sends once."""
    if not isinstance(adapter, HTTPAdapter) or not getattr(adapter.max_retries, "total", 0):
        return adapter
    quiet = copy.copy(adapter)
    quiet.max_retries = Retry(0, read=False)
    return quiet


class _Port:
    """Coroutines that never suspend."""

    def __init__(self, request: requests.PreparedRequest, send: Any, replayable: bool, stream: bool) -> None:
        self._request = request
        self._send = send
        self._stream = stream
        self.replayable = replayable

    async def send(self) -> requests.Response:
        """Sends it."""
        answer: requests.Response = self._send()
        return answer

    async def read(self, answer: requests.Response) -> bytes:
        """The whole body, decompressed; the connection is free again."""
        try:
            return answer.content
        finally:
            answer.close()

    def facts(self, answer: requests.Response) -> Sent:
        """Status, headers and whether it comes bit by bit."""
        kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
        return Sent(answer.status_code, _pairs(answer), self._stream or kind != "application/json")

    def rebuilt(self, answer: requests.Response, body: bytes, extra: Pairs) -> requests.Response:
        """The answer as if it had not been read."""
        kept = [(name, value) for name, value in _pairs(answer) if name.lower() not in _BODY_HEADERS]
        made = self.made(answer.status_code, [*kept, *extra], body)
        made.reason, made.elapsed, made.url = answer.reason, answer.elapsed, answer.url
        made.cookies, made.encoding = answer.cookies, answer.encoding
        return made

    def watched(self, answer: requests.Response, tail: Tail, extra: Pairs) -> requests.Response:
        """The answer with a body that is read along."""
        # What `stream()` gives is decompressed already.
        tail.begins(answer.headers.get("content-type", ""), "")
        answer.raw = _WatchedRaw(answer.raw, tail)
        answer.headers.update(dict(extra))
        return answer

    def made(self, status: int, headers: Pairs, body: bytes) -> requests.Response:
        """An answer of our own."""
        pairs = HTTPHeaderDict(headers)
        raw = HTTPResponse(io.BytesIO(body), headers=pairs, status=status, preload_content=False)
        adapter = HTTPAdapter()
        made = adapter.build_response(self._request, raw)
        made.headers["content-length"] = str(len(body))
        return made

    def outcome_of(self, error: Exception) -> Outcome | None:
        """Whether the call may have run is all that matters."""
        if isinstance(error, _NOT_SENT):
            return ConnectionFailed()
        if isinstance(error, requests.exceptions.ConnectionError):
            return ConnectionFailed() if _never_connected(error) else TimedOut()
        return TimedOut() if isinstance(error, requests.exceptions.RequestException) else None


def _pairs(answer: requests.Response) -> list[tuple[str, str]]:
    raw = getattr(answer.raw, "headers", None)
    return list(raw.items()) if raw is not None else list(answer.headers.items())


def _never_connected(error: BaseException) -> bool:
    """Whether urllib3 says that there was no connection to send on."""
    from urllib3.exceptions import NewConnectionError

    reason = getattr(error.args[0] if error.args else None, "reason", None)
    return isinstance(reason, NewConnectionError)


class _WatchedRaw:
    """A raw answer that is read along, and settles however its reader ends."""

    def __init__(self, raw: Any, tail: Tail) -> None:
        self._raw = raw
        self._tail = tail
        tail.watch(self)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._raw, name)

    def stream(self, *args: Any, **options: Any) -> Iterator[bytes]:
        """What `iter_content` and `content` read by."""
        return self._tail.along(self._raw.stream(*args, **options))

    def read(self, *args: Any, **options: Any) -> bytes:
        """What those read by who use `raw` themselves."""
        try:
            piece: bytes = self._raw.read(*args, **options)
        except Exception:
            self._tail.settle("cut")
            raise
        self._tail.feed(piece)
        if not piece or not args:
            self._tail.settle("end")
        return piece

    def close(self) -> None:
        """The reader is done with it."""
        try:
            self._raw.close()
        finally:
            self._tail.settle("left")

    def release_conn(self) -> None:
        """The same, and the connection may be used again."""
        try:
            self._raw.release_conn()
        finally:
            self._tail.settle("left")
