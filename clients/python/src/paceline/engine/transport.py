"""A stream to one replica over grpcio. Nothing else in this package touches grpc, and nothing imports it before the first ask."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import grpc

METHOD = "/paceline.v1.RateLimiter/Session"
OPTIONS: list[tuple[str, Any]] = [
    # A replica that vanishes without closing its connections is found out by pings.
    ("grpc.keepalive_time_ms", 2_000),
    ("grpc.keepalive_timeout_ms", 1_500),
    ("grpc.keepalive_permit_without_calls", 0),
    ("grpc.http2.max_pings_without_data", 0),
    # Each stream has a connection of its own, which goes with it.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_retries", 0),
    ("grpc.max_receive_message_length", 16 * 1024 * 1024),
    # Tries are ours to time: a channel is made for each.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 2_000),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    # A proxy between a worker and a service in its own network is never meant.
    ("grpc.enable_http_proxy", 0),
]


class Broken(Exception):
    """The stream is over: what is said about it, and whether the service said so itself."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


class Stream:
    """One stream. `messages` reads it, in a thread of the reader's; `close` may be called by any."""

    def __init__(self, addr: str, said: Iterator[bytes]) -> None:
        self._channel = grpc.insecure_channel(addr, options=OPTIONS)
        # Messages are bytes here: they are written and read where bundles are known.
        self._call: Any = self._channel.stream_stream(METHOD, None, None)(said)

    def wait_until_open(self) -> None:
        """Returns when the service has taken the stream; raises `Broken`."""
        self._guarded(self._call.initial_metadata)

    def messages(self) -> Iterator[bytes]:
        """What is said to us, until the stream ends; raises `Broken` then, however it ended."""
        while True:
            message: bytes | None = self._guarded(lambda: next(self._call, None))
            if message is None:
                raise Broken("OK", "the service ended the stream")
            yield message

    def close(self) -> None:
        """Ends it now, whatever is under way."""
        self._call.cancel()
        self._channel.close()

    def _guarded(self, read: Callable[[], Any]) -> Any:
        try:
            said = read()
        except grpc.RpcError as error:
            raise Broken(error.code().name, error.details() or "") from None
        return said
