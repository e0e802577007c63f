"""Transports for httpx and httpx2, which are one library under two names: the module is an argument.

A transport wraps another one, so connections, proxies and TLS stay what they were. Its classes derive from
nothing of either module, since both ask of a transport only its methods.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from functools import lru_cache
from types import ModuleType
from typing import Any

from paceline.outcomes import ConnectionFailed, Outcome, TimedOut
from paceline.sdk.seen import Seen, header_map
from paceline.transports.attempts import Pairs, Sent, blocking, carry
from paceline.transports.governor import MOST_BUFFERED_BYTES, Governor
from paceline.transports.tail import Tail

__all__ = ["AsyncTransport", "Transport", "module_of"]

# Marks a request that a transport of ours has in hand: inside of it no other one asks again.
_GOVERNED = "paceline"
_BODY_HEADERS = frozenset({"content-encoding", "content-length", "transfer-encoding"})


def module_of(thing: object) -> ModuleType:
    """httpx or httpx2, whichever a client, request or transport belongs to."""
    import importlib

    for cls in type(thing).__mro__:
        name = cls.__module__.partition(".")[0]
        if name in ("httpx", "httpx2"):
            return importlib.import_module(name)
    raise TypeError(f"{type(thing).__name__} is of neither httpx nor httpx2")


class Transport:
    """Sends what another transport sends, each call in its turn."""

    def __init__(self, inner: Any, governor: Governor, module: ModuleType, *, owns: bool = True, keeps: object = None) -> None:
        """`owns`: whether closing this closes `inner`; `keeps` is held so that `inner` lives."""
        self._inner = inner
        self._governor = governor
        self._module = module
        self._owns = owns
        self._keeps = keeps

    def handle_request(self, request: Any) -> Any:
        """Sends one request, as often as the service says."""
        return govern(self._governor, self._module, request, self._inner.handle_request)

    def close(self) -> None:
        """Closes the transport inside."""
        if self._owns:
            self._inner.close()

    def __enter__(self) -> Transport:
        if self._owns:
            self._inner.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        if self._owns:
            self._inner.__exit__(*error)


class AsyncTransport:
    """The same for asyncio."""

    def __init__(self, inner: Any, governor: Governor, module: ModuleType, *, owns: bool = True, keeps: object = None) -> None:
        """`owns`: whether closing this closes `inner`; `keeps` is held so that `inner` lives."""
        self._inner = inner
        self._governor = governor
        self._module = module
        self._owns = owns
        self._keeps = keeps

    async def handle_async_request(self, request: Any) -> Any:
        """Sends one request, as often as the service says."""
        return await govern_async(self._governor, self._module, request, self._inner.handle_async_request)

    async def aclose(self) -> None:
        """Closes the transport inside."""
        if self._owns:
            await self._inner.aclose()

    async def __aenter__(self) -> AsyncTransport:
        if self._owns:
            await self._inner.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        if self._owns:
            await self._inner.__aexit__(*error)


def govern(governor: Governor, module: ModuleType, request: Any, send: Any) -> Any:
    """Sends a request through `send`, in its turn; one that is not ours as it is."""
    if _GOVERNED in request.extensions or not governor.concerns(request.method, request.url.path):
        return send(request)
    replayable = _loaded(request) or (_is_small(request) and _reads(request))
    seen = _seen(request)
    plan = governor.plan(seen)
    if plan is None:
        return send(request)
    request.extensions = {**request.extensions, _GOVERNED: True}
    request.headers.update(plan.headers)
    if governor.has_its_slot(plan):
        return send(request)
    port = _BlockingPort(module, request, send, replayable, plan.place.stream)
    return blocking(carry(seen, plan, port, governor.blocking(plan)))


async def govern_async(governor: Governor, module: ModuleType, request: Any, send: Any) -> Any:
    """The same for asyncio."""
    if _GOVERNED in request.extensions or not governor.concerns(request.method, request.url.path):
        return await send(request)
    replayable = _loaded(request)
    if not replayable and _is_small(request):
        await request.aread()
        replayable = True
    seen = _seen(request)
    plan = governor.plan(seen)
    if plan is None:
        return await send(request)
    request.extensions = {**request.extensions, _GOVERNED: True}
    request.headers.update(plan.headers)
    if governor.has_its_slot(plan):
        return await send(request)
    port = _AwaitingPort(module, request, send, replayable, plan.place.stream)
    return await carry(seen, plan, port, governor.awaiting(plan))


def _loaded(request: Any) -> bool:
    return hasattr(request, "_content")


def _reads(request: Any) -> bool:
    request.read()
    return True


def _is_small(request: Any) -> bool:
    """Whether a body that is made while it is sent (a form, say) may be held in memory; of unknown length:
    no.
    """
    length = request.headers.get("content-length", "")
    return length.isdigit() and int(length) <= MOST_BUFFERED_BYTES


def _seen(request: Any) -> Seen:
    body = request.content if _loaded(request) else None
    return Seen(request.method, str(request.url), header_map(request.headers.multi_items()), body)


class _Watched:
    """A stream that is read along; the tail settles when it is collected, too."""

    def __init__(self, inner: Any, tail: Tail) -> None:
        self._inner = inner
        self._tail = tail
        tail.watch(self)


@lru_cache(maxsize=2)
def _watched_stream(module: Any) -> Any:
    """The class of a stream that is read along; clients insist that it derives from their own."""

    class Watched(_Watched, module.SyncByteStream):  # type: ignore[misc]
        def __iter__(self) -> Iterator[bytes]:
            return self._tail.along(self._inner)

        def close(self) -> None:
            try:
                self._inner.close()
            finally:
                self._tail.settle("left")

    return Watched


@lru_cache(maxsize=2)
def _watched_async_stream(module: Any) -> Any:
    """The same for asyncio."""

    class Watched(_Watched, module.AsyncByteStream):  # type: ignore[misc]
        async def __aiter__(self) -> AsyncIterator[bytes]:
            try:
                async for piece in self._inner:
                    self._tail.feed(piece)
                    yield piece
            except Exception:
                self._tail.settle("cut")
                raise
            self._tail.settle("end")

        async def aclose(self) -> None:
            try:
                await self._inner.aclose()
            finally:
                self._tail.settle("left")

    return Watched


class _PortBase:
    """What both ports do alike."""

    _watching: Callable[[Any], Any]
    """The class of a stream that is read along."""

    def __init__(self, module: ModuleType, request: Any, send: Any, replayable: bool, stream: bool) -> None:
        self._module = module
        self._stream = stream
        self._request = request
        self._send = send
        self.replayable = replayable

    def facts(self, answer: Any) -> Sent:
        """Status, headers and whether it comes bit by bit."""
        kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
        streams = self._stream or kind != "application/json"
        return Sent(answer.status_code, tuple(answer.headers.multi_items()), streams)

    def rebuilt(self, answer: Any, body: bytes, extra: Pairs) -> Any:
        """The answer as if it had not been read."""
        headers = [pair for pair in answer.headers.multi_items() if pair[0].lower() not in _BODY_HEADERS]
        return self._module.Response(
            answer.status_code,
            headers=[*headers, ("content-length", str(len(body))), *extra],
            stream=self._module.ByteStream(body),
            extensions=answer.extensions,
        )

    def watched(self, answer: Any, tail: Tail, extra: Pairs) -> Any:
        """The answer with a stream that is read along."""
        tail.begins(answer.headers.get("content-type", ""), answer.headers.get("content-encoding", ""))
        answer.stream = self._watching(self._module)(answer.stream, tail)
        answer.headers.update(dict(extra))
        return answer

    def made(self, status: int, headers: Pairs, body: bytes) -> Any:
        """An answer of our own."""
        return self._module.Response(
            status,
            headers=[*headers, ("content-length", str(len(body)))],
            stream=self._module.ByteStream(body),
            extensions={"http_version": b"HTTP/1.1"},
        )

    def outcome_of(self, error: Exception) -> Outcome | None:
        """Whether the call may have run is all that matters."""
        m = self._module
        if isinstance(
            error,
            (
                m.ConnectError,
                m.ConnectTimeout,
                m.PoolTimeout,
                m.UnsupportedProtocol,
                m.ProxyError,
                m.LocalProtocolError,
            ),
        ):
            return ConnectionFailed()
        return TimedOut() if isinstance(error, (m.TransportError, OSError)) else None


class _BlockingPort(_PortBase):
    """Coroutines that never suspend."""

    _watching = staticmethod(_watched_stream)

    async def send(self) -> Any:
        """Sends it."""
        return self._send(self._request)

    async def read(self, answer: Any) -> bytes:
        """The whole body, decompressed."""
        try:
            body: bytes = answer.read()
        except BaseException:
            answer.close()
            raise
        return body


class _AwaitingPort(_PortBase):
    """Coroutines that await."""

    _watching = staticmethod(_watched_async_stream)

    async def send(self) -> Any:
        """Sends it."""
        return await self._send(self._request)

    async def read(self, answer: Any) -> bytes:
        """The whole body, decompressed."""
        try:
            body: bytes = await answer.aread()
        except BaseException:
            await answer.aclose()
            raise
        return body
