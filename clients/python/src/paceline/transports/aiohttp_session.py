"""aiohttp: a middleware for its client sessions (aiohttp 3.12 and later)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any

import aiohttp
from aiohttp.base_protocol import BaseProtocol
from multidict import CIMultiDict, CIMultiDictProxy

from paceline.outcomes import ConnectionFailed, Outcome, TimedOut
from paceline.sdk.seen import Seen, header_map
from paceline.transports.attempts import Pairs, Sent, carry
from paceline.transports.governor import Governor

__all__ = ["governed", "middleware", "session"]

_BUFFER_BYTES = 2**16
# aiohttp counts the time a call waits for its slot into `total`: five minutes by default, too short for a
# queue.
_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=30, sock_read=600)


def session(governor: Governor, **options: Any) -> aiohttp.ClientSession:
    """A session that sends through Paceline; `options` are those of `aiohttp.ClientSession`."""
    others = tuple(options.pop("middlewares", ()))
    options.setdefault("timeout", _TIMEOUT)
    return aiohttp.ClientSession(middlewares=(*others, middleware(governor)), **options)


def governed(inner: aiohttp.ClientSession, governor: Governor) -> aiohttp.ClientSession:
    """A session beside another one, with its connections, cookies, headers and timeouts."""
    ours = middleware(governor)
    # A session that nobody holds closes its connections.
    ours.__dict__["keeps"] = inner
    return aiohttp.ClientSession(
        connector=inner.connector,
        connector_owner=False,
        cookie_jar=inner.cookie_jar,
        headers=inner.headers,
        auth=inner.auth,
        timeout=inner.timeout,
        trust_env=inner.trust_env,
        json_serialize=inner.json_serialize,
        raise_for_status=inner.raise_for_status,
        read_bufsize=getattr(inner, "_read_bufsize", _BUFFER_BYTES),
        middlewares=(*(getattr(inner, "_middlewares", None) or ()), ours),
    )


def middleware(governor: Governor) -> Any:
    """What makes a session's calls wait their turn, be reported and be sent again."""

    async def govern(request: Any, handler: Any) -> Any:
        if not governor.concerns(request.method, request.url.path):
            return await handler(request)
        body = await _body_of(request)
        seen = Seen(request.method, str(request.url), header_map(request.headers.items()), body)
        plan = governor.plan(seen)
        if plan is None:
            return await handler(request)
        request.headers.update(plan.headers)
        if governor.has_its_slot(plan):
            return await handler(request)
        port = _Port(request, handler, body is not None, plan.place.stream)
        return await carry(seen, plan, port, governor.awaiting(plan))

    govern.__dict__["paceline"] = True
    return govern


async def _body_of(request: Any) -> bytes | None:
    """The body, where it is held in memory; `None` for one that is used up by sending."""
    body = request.body
    if not body:
        return b""
    if isinstance(body, (bytes, bytearray)):
        return bytes(body)
    if isinstance(body, aiohttp.payload.BytesPayload):
        return bytes(await body.as_bytes())
    return None


class _Port:
    """What aiohttp does for one request."""

    def __init__(self, request: Any, handler: Any, replayable: bool, stream: bool) -> None:
        self._request = request
        self._handler = handler
        self._stream = stream
        self.replayable = replayable

    async def send(self) -> Any:
        """Sends it."""
        return await self._handler(self._request)

    async def read(self, answer: Any) -> bytes:
        """The whole body, decompressed; the connection is free again."""
        body: bytes = await answer.read()
        return body

    def facts(self, answer: Any) -> Sent:
        """Status, headers and whether it comes bit by bit."""
        kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
        return Sent(answer.status, tuple(answer.headers.items()), self._stream or kind != "application/json")

    def rebuilt(self, answer: Any, body: bytes, extra: Pairs) -> Any:
        """The answer, which keeps its body, readable as a stream once more."""
        answer.content = _reader(body)
        _add_headers(answer, extra)
        return answer

    def watched(self, answer: Any, tail: Any, extra: Pairs) -> Any:
        """The answer with a body that is read along."""
        # What aiohttp hands out is decompressed already.
        tail.begins(answer.headers.get("content-type", ""), "")
        answer.content = _WatchedContent(answer.content, tail)
        for name in ("release", "close"):
            setattr(answer, name, _then_settled(getattr(answer, name), tail))
        _add_headers(answer, extra)
        return answer

    def made(self, status: int, headers: Pairs, body: bytes) -> Any:
        """An answer of our own."""
        request = self._request
        response: Any = aiohttp.ClientResponse
        made = response(
            request.method,
            request.url,
            writer=None,
            continue100=None,
            timer=None,
            request_info=request.request_info,
            traces=[],
            loop=asyncio.get_running_loop(),
            session=getattr(request, "_session", None),
            stream_writer=SimpleNamespace(output_size=0),
        )
        made.status, made.reason = status, "Too Many Requests"
        made._headers = CIMultiDictProxy(CIMultiDict(headers))
        made._raw_headers = tuple((name.encode(), value.encode()) for name, value in headers)
        made._body = body
        made.content = _reader(body)
        return made

    def outcome_of(self, error: Exception) -> Outcome | None:
        """Whether the call may have run is all that matters."""
        if isinstance(error, (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.InvalidURL)):
            return ConnectionFailed()
        return TimedOut() if isinstance(error, (aiohttp.ClientError, asyncio.TimeoutError, OSError)) else None


def _add_headers(answer: Any, extra: Pairs) -> None:
    answer._headers = CIMultiDictProxy(CIMultiDict([*answer.headers.items(), *extra]))
    # Remembered at the first look.
    answer._cache.pop("headers", None)


def _reader(body: bytes) -> aiohttp.StreamReader:
    loop = asyncio.get_running_loop()
    reader = aiohttp.StreamReader(BaseProtocol(loop), _BUFFER_BYTES, loop=loop)
    reader.feed_data(body)
    reader.feed_eof()
    return reader


def _then_settled(act: Callable[[], Any], tail: Any) -> Callable[[], Any]:
    """What ends an answer, and then tells of it."""

    def acted() -> Any:
        try:
            return act()
        finally:
            tail.settle("left")

    return acted


class _WatchedContent:
    """A stream of an answer that is read along, whichever way it is read."""

    def __init__(self, inner: aiohttp.StreamReader, tail: Any) -> None:
        self._inner = inner
        self._tail = tail
        tail.watch(self)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def _passed(self, reading: Any) -> Any:
        try:
            got = await reading
        except Exception as problem:
            # aiohttp says by this error only that less came than was asked for.
            self._tail.settle("end" if isinstance(problem, asyncio.IncompleteReadError) else "cut")
            raise
        self._tail.feed(got[0] if isinstance(got, tuple) else got)
        if self._inner.at_eof():
            self._tail.settle("end")
        return got

    async def read(self, n: int = -1) -> bytes:
        """As `aiohttp.StreamReader.read`."""
        got: bytes = await self._passed(self._inner.read(n))
        return got

    async def readany(self) -> bytes:
        """As `aiohttp.StreamReader.readany`."""
        got: bytes = await self._passed(self._inner.readany())
        return got

    async def readline(self, **options: Any) -> bytes:
        """As `aiohttp.StreamReader.readline`."""
        got: bytes = await self._passed(self._inner.readline(**options))
        return got

    async def readuntil(self, separator: bytes = b"\n", **options: Any) -> bytes:
        """As `aiohttp.StreamReader.readuntil`."""
        got: bytes = await self._passed(self._inner.readuntil(separator, **options))
        return got

    async def readexactly(self, n: int) -> bytes:
        """As `aiohttp.StreamReader.readexactly`."""
        got: bytes = await self._passed(self._inner.readexactly(n))
        return got

    async def readchunk(self) -> tuple[bytes, bool]:
        """As `aiohttp.StreamReader.readchunk`."""
        got: tuple[bytes, bool] = await self._passed(self._inner.readchunk())
        return got

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while line := await self.readline():
            yield line

    async def iter_chunked(self, n: int) -> AsyncIterator[bytes]:
        """As `aiohttp.StreamReader.iter_chunked`."""
        while piece := await self.read(n):
            yield piece

    async def iter_any(self) -> AsyncIterator[bytes]:
        """As `aiohttp.StreamReader.iter_any`."""
        while piece := await self.readany():
            yield piece

    async def iter_chunks(self) -> AsyncIterator[tuple[bytes, bool]]:
        """As `aiohttp.StreamReader.iter_chunks`."""
        while (chunk := await self.readchunk()) != (b"", False):
            yield chunk
