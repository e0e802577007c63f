"""One gRPC stream on one HTTP/2 connection, without I/O: bytes in, messages out (RFC 9113; gRPC over HTTP/2).

Only what a single client stream needs: no pushes, no priorities, no second stream. Headers are read with `hpack`.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterator
from urllib.parse import unquote

import hpack

if logging.getLogger("hpack").level == logging.NOTSET:
    # It writes a line for each header while a program looks at its own lines of DEBUG; who wants them sets the level.
    logging.getLogger("hpack").setLevel(logging.INFO)

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
STREAM = 1
"""The number of the only stream."""
OUR_WINDOW = 16 * 1024 * 1024
"""How many bytes the service may send before we say that we took some."""
TAKEN_AT = OUR_WINDOW // 4
"""We say so after this many."""
DEFAULT_WINDOW = 65_535
LARGEST_WINDOW = (1 << 31) - 1
LARGEST_FRAME = 16_384
LARGEST_MESSAGE = 64 * 1024 * 1024

DATA, HEADERS, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 5, 6, 7, 8, 9
END_STREAM = ACK = 0x1
END_HEADERS = 0x4
PADDED = 0x8
PRIORITY = 0x20
HEADER_TABLE_SIZE, ENABLE_PUSH, INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE = 1, 2, 4, 5


class Broken(Exception):
    """The stream is over; its code is that of gRPC, `UNAVAILABLE` where the transport failed."""

    def __init__(self, code: str, message: str, is_stranger: bool = False) -> None:
        super().__init__(f"{code}: {message}" if message else code)
        self.code = code
        self.is_stranger = is_stranger
        """Who is there is no Paceline service, or not at its port for workers."""


class Wire:
    """Both directions of the connection: `data` makes what is written, `take` is given what was read.

    One thread reads and one at a time writes. What both know of windows is kept in sums that only one of them changes.
    """

    def __init__(self, authority: str, path: str) -> None:
        self.is_open = False
        """The service has answered with its headers."""
        self._granted = DEFAULT_WINDOW
        self._granted_to_stream = DEFAULT_WINDOW
        self._initial_window = DEFAULT_WINDOW
        self._used = 0
        self._largest_frame = LARGEST_FRAME
        self._taken = 0
        self._read = bytearray()
        self._message = bytearray()
        self._block: bytearray | None = None
        """Headers that are not complete."""
        self._is_last_block = False
        self._decoder = hpack.Decoder(max_header_list_size=64 * 1024)
        self._status: tuple[int, str] | None = None
        self._is_stranger = False
        settings = struct.pack(">HIHI", ENABLE_PUSH, 0, INITIAL_WINDOW_SIZE, OUR_WINDOW)
        headers = hpack.Encoder().encode(
            [
                (":method", "POST"),
                (":scheme", "http"),
                (":path", path),
                (":authority", authority),
                ("te", "trailers"),
                ("content-type", "application/grpc"),
                ("user-agent", "paceline-python"),
            ]
        )
        self.opening = b"".join(
            (
                PREFACE,
                frame(SETTINGS, 0, 0, settings),
                frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", OUR_WINDOW - DEFAULT_WINDOW)),
                frame(HEADERS, END_HEADERS, STREAM, headers),
            )
        )
        """What is written first."""

    @property
    def room(self) -> int:
        """How many bytes may be written now."""
        return min(self._granted, self._granted_to_stream) - self._used

    def data(self, payload: bytes | memoryview) -> list[bytes | memoryview]:
        """A part of the stream, at most `room` bytes, as what is to be written."""
        self._used += len(payload)
        pieces: list[bytes | memoryview] = []
        view = memoryview(payload)
        for at in range(0, len(view), self._largest_frame):
            part = view[at : at + self._largest_frame]
            pieces += (_head(len(part), DATA, 0, STREAM), part)
        return pieces

    def take(self, data: bytes) -> tuple[list[bytes], bytes]:
        """What was read: the messages in it, and what is to be written for it. Raises `Broken` when the stream is over.

        Messages that came before the end are given out first: the end is raised by the next call.
        """
        if self._status is not None:
            raise self._ended()
        self._read += data
        messages: list[bytes] = []
        replies = bytearray()
        read = self._read
        while len(read) >= 9:
            length = read[0] << 16 | read[1] << 8 | read[2]
            if len(read) < 9 + length:
                if length > LARGEST_FRAME:
                    raise Broken("UNAVAILABLE", f"a frame of {length} bytes: this is not HTTP/2, or not for us", is_stranger=True)
                break
            kind, flags, stream = read[3], read[4], int.from_bytes(read[5:9], "big") & 0x7FFF_FFFF
            payload = bytes(read[9 : 9 + length])
            del read[: 9 + length]
            self._frame(kind, flags, stream, payload, messages, replies)
            if self._status is not None:
                if not messages:
                    raise self._ended()
                break
        return messages, bytes(replies)

    def is_ended(self) -> bool:
        """Whether the service has said its last word."""
        return self._status is not None

    def _frame(self, kind: int, flags: int, stream: int, payload: bytes, messages: list[bytes], replies: bytearray) -> None:
        if self._block is not None and kind != CONTINUATION:
            raise Broken("UNAVAILABLE", "headers were interrupted by another frame")
        if kind == DATA:
            self._taken += len(payload)
            if self._taken >= TAKEN_AT:
                update = struct.pack(">I", self._taken)
                replies += frame(WINDOW_UPDATE, 0, 0, update) + frame(WINDOW_UPDATE, 0, STREAM, update)
                self._taken = 0
            self._message += _unpadded(payload, flags)
            messages.extend(self._complete())
            if flags & END_STREAM:
                self._status = (2, "the stream ended without a status")
        elif kind == HEADERS:
            block = _unpadded(payload, flags)
            self._block = bytearray(block[5:] if flags & PRIORITY else block)
            self._is_last_block = flags & END_STREAM != 0
            self._headers(flags)
        elif kind == CONTINUATION and self._block is not None:
            self._block += payload
            self._headers(flags)
        elif kind == SETTINGS and not flags & ACK:
            self._settings(payload)
            replies += frame(SETTINGS, ACK, 0, b"")
        elif kind == PING and not flags & ACK:
            replies += frame(PING, ACK, 0, payload)
        elif kind == WINDOW_UPDATE and len(payload) == 4:
            more = int.from_bytes(payload, "big") & 0x7FFF_FFFF
            if stream == 0:
                self._granted += more
            else:
                self._granted_to_stream += more
            if max(self._granted, self._granted_to_stream) - self._used > LARGEST_WINDOW:
                raise Broken("UNAVAILABLE", "the window was opened too far")
        elif kind == RST_STREAM and stream == STREAM:
            self._status = (14, f"the stream was reset (error {int.from_bytes(payload, 'big')})")
        elif kind == GOAWAY and len(payload) >= 8 and int.from_bytes(payload[:4], "big") & 0x7FFF_FFFF < STREAM:
            self._status = (14, f"the connection is not taken (error {int.from_bytes(payload[4:8], 'big')})")
        # What else comes (a GOAWAY that lets us finish, acknowledgements, unknown kinds) asks for nothing.

    def _headers(self, flags: int) -> None:
        if not flags & END_HEADERS or self._block is None:
            return
        block, self._block = bytes(self._block), None
        try:
            headers = {str(name): str(value) for name, value in self._decoder.decode(block)}
        except hpack.HPACKError as error:
            raise Broken("UNAVAILABLE", f"headers that cannot be read: {error}") from None
        status = headers.get("grpc-status")
        if status is not None:
            number = int(status) if status.isdigit() else 2
            self._status = (number, unquote(headers.get("grpc-message", "")))
        elif headers.get(":status", "200") != "200":
            # A proxy whose service is away answers with 502 to 504.
            self._is_stranger = not headers[":status"].startswith("5")
            self._status = (14, f"HTTP status {headers[':status']}: no Paceline service is there")
        elif self._is_last_block:
            self._status = (2, "the stream ended without a status")
        else:
            self.is_open = True

    def _settings(self, payload: bytes) -> None:
        for at in range(0, len(payload) - 5, 6):
            name, value = struct.unpack_from(">HI", payload, at)
            if name == INITIAL_WINDOW_SIZE:
                self._granted_to_stream += value - self._initial_window
                self._initial_window = value
            elif name == MAX_FRAME_SIZE:
                self._largest_frame = max(value, LARGEST_FRAME)

    def _complete(self) -> Iterator[bytes]:
        """The messages that are complete, without the five bytes before each."""
        message = self._message
        while len(message) >= 5:
            length = int.from_bytes(message[1:5], "big")
            if message[0] or length > LARGEST_MESSAGE:
                raise Broken("UNAVAILABLE", "a message that is compressed or too long")
            if len(message) < 5 + length:
                return
            yield bytes(message[5 : 5 + length])
            del message[: 5 + length]

    def _ended(self) -> Broken:
        from paceline.engine.refusals import name_of

        code, message = self._status or (2, "")
        # A gRPC server that does not know our method is not ours.
        return Broken(name_of(code), message, self._is_stranger or name_of(code) == "UNIMPLEMENTED")


def message(payload: bytes) -> bytes:
    """A gRPC message: not compressed, its length, itself."""
    return b"\x00" + len(payload).to_bytes(4, "big") + payload


def ping(nth: int) -> bytes:
    """Asks for a sign of life."""
    return frame(PING, 0, 0, nth.to_bytes(8, "big"))


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """A frame of HTTP/2."""
    return _head(len(payload), kind, flags, stream) + payload


def _head(length: int, kind: int, flags: int, stream: int) -> bytes:
    return length.to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big")


def _unpadded(payload: bytes, flags: int) -> bytes:
    if not flags & PADDED:
        return payload
    if not payload or payload[0] >= len(payload):
        raise Broken("UNAVAILABLE", "a frame with more padding than it holds")
    return payload[1 : len(payload) - payload[0]]
