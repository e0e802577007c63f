"""A stream to one replica over a socket of its own.

gRPC's own library for Python is not used: across `os.fork` it crashes or hangs, in the parent as well, depending on its version
and on settings that have to be made before its first import. A socket and threads of ours are simply left behind by a child.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from paceline.engine import frames
from paceline.engine.frames import Broken

log = logging.getLogger("paceline")

METHOD = "/paceline.v1.RateLimiter/Session"
CONNECT_WITHIN = 2.0
"""A connection that takes longer is not coming, in seconds."""
READ_AT_ONCE = 256 * 1024
DO_NOT_WAIT = getattr(socket, "MSG_DONTWAIT", 0)


class Stream:
    """One stream. One thread reads it; any may write, and whoever finds another one writing leaves its part to that one."""

    def __init__(self, addr: str, outbox: deque[Any], take: Callable[[], list[bytes]]) -> None:
        self._addr = addr
        self._outbox = outbox
        """Not empty: there is something to be said."""
        self._take = take
        """Takes what is in there and makes messages of it."""
        self._wire = frames.Wire(addr, METHOD)
        self._socket: socket.socket | None = None
        self._writing = threading.Lock()
        self._control: deque[bytes] = deque()
        """Frames that go before all data."""
        self._unsent = bytearray()
        """Data that the service had no room for."""
        self._is_closed = False

    @property
    def is_open(self) -> bool:
        """The service has taken the stream."""
        return self._wire.is_open

    def connect(self) -> None:
        """Opens the connection and says what comes first. Raises `Broken`."""
        host, _, port = self._addr.rpartition(":")
        try:
            connected = socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_WITHIN)
            connected.settimeout(None)
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connected.sendall(self._wire.opening)
        except OSError as error:
            raise Broken("UNAVAILABLE", f"no connection: {error}") from None
        self._socket = connected
        if self._is_closed:
            self.close()
        self.flush()

    def flush(self) -> None:
        """Writes what there is to be said, as far as the service takes it. Never waits."""
        while self._has_more():
            if not self._writing.acquire(blocking=False):
                return  # whoever writes takes it along, and looks again after that
            is_handed_on = False
            try:
                is_handed_on = self._write()
            except OSError as error:
                log.debug("writing to the Paceline replica %s failed: %s", self._addr, error)
                self.close()
            except BaseException:  # an interrupt in mid-frame: what is written after it could not be read
                self.close()
                raise
            finally:
                if not is_handed_on:
                    self._writing.release()
            if is_handed_on:
                return

    def ping(self, nth: int) -> None:
        """Asks the service for a sign of life."""
        self._control.append(frames.ping(nth))
        self.flush()

    def messages(self) -> Iterator[list[bytes]]:
        """What is said to us, as it comes in, until the stream ends; raises `Broken` then, however it ended.

        An empty list is a sign of life.
        """
        wire, connected = self._wire, self._socket
        while connected is not None:
            try:
                data = connected.recv(READ_AT_ONCE)
            except OSError as error:
                raise Broken("UNAVAILABLE", f"the connection broke: {error}") from None
            if not data:
                raise Broken("UNAVAILABLE", "the connection was closed")
            messages, replies = wire.take(data)
            if replies:
                self._control.append(replies)
            yield messages
            if wire.is_ended():
                wire.take(b"")
            self.flush()  # replies, and data that there may be room for now
        raise Broken("UNAVAILABLE", "the connection was given up")

    def close(self) -> None:
        """Ends it now, whatever is under way; whoever reads is told."""
        self._is_closed = True
        connected = self._socket
        if connected is not None:
            try:
                connected.shutdown(socket.SHUT_RDWR)
            except OSError:
                log.debug("the connection to %s was gone already", self._addr)

    def let_go(self) -> None:
        """Gives the socket back to the system, without a word to the other side: the reader does, or a child that inherits it."""
        self._is_closed = True
        connected, self._socket = self._socket, None
        if connected is not None:
            connected.close()

    def _has_more(self) -> bool:
        if self._socket is None or self._is_closed:
            return False
        return bool(self._control) or ((bool(self._unsent) or bool(self._outbox)) and self._wire.room > 0)

    def _write(self) -> bool:
        """Writes what there is, under the lock. Whether another thread goes on with it, and with the lock."""
        pieces: list[bytes | memoryview] = []
        while self._control:
            pieces.append(self._control.popleft())
        unsent = self._unsent
        if not unsent:
            for message in self._take():
                unsent += frames.message(message)
        room = self._wire.room
        if unsent and room > 0:
            part = bytes(unsent[:room])
            del unsent[:room]
            pieces += self._wire.data(part)
        data = b"".join(pieces)
        connected = self._socket
        if not data or connected is None:
            return False
        try:
            sent = connected.send(data, DO_NOT_WAIT)
        except BlockingIOError:
            sent = 0
        if sent == len(data):
            return False
        # The system's buffer is full: the service does not read. Nobody's event loop waits for that.
        rest = data[sent:]
        threading.Thread(target=self._write_rest, args=(connected, rest), name="paceline-writer", daemon=True).start()
        return True

    def _write_rest(self, connected: socket.socket, rest: bytes) -> None:
        try:
            connected.sendall(rest)
        except OSError as error:
            log.debug("writing to the Paceline replica %s failed: %s", self._addr, error)
            self.close()
        finally:
            self._writing.release()
        self.flush()
