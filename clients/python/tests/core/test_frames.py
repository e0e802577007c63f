"""One gRPC stream on HTTP/2, without I/O."""

from __future__ import annotations

import struct
import subprocess
import sys

import hpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.engine import frames
from paceline.engine.frames import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    PADDED,
    PING,
    PREFACE,
    PRIORITY,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    Broken,
    Wire,
    frame,
)


def wire() -> Wire:
    return Wire("127.0.0.1:7070", "/paceline.v1.RateLimiter/Session")


def headers(*pairs: tuple[str, str]) -> bytes:
    return hpack.Encoder().encode(list(pairs))


OPENED = frame(HEADERS, END_HEADERS, 1, headers((":status", "200"), ("content-type", "application/grpc")))


def test_what_is_said_first() -> None:
    opening = wire().opening
    assert opening.startswith(PREFACE)
    rest = opening[len(PREFACE) :]
    kinds = []
    while rest:
        length = int.from_bytes(rest[:3], "big")
        kinds.append(rest[3])
        if rest[3] == HEADERS:
            said = dict(hpack.Decoder().decode(rest[9 : 9 + length]))
            assert said[":path"] == "/paceline.v1.RateLimiter/Session"
            assert (said["te"], said["content-type"]) == ("trailers", "application/grpc")
        rest = rest[9 + length :]
    assert kinds == [SETTINGS, WINDOW_UPDATE, HEADERS]


@given(st.lists(st.binary(max_size=400), min_size=1, max_size=20), st.data())
def test_messages_arrive_however_they_are_cut(messages: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(map(frames.message, messages))
    said = OPENED
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        said += frame(DATA, 0, 1, stream[:size])
        stream = stream[size:]
    there, read = wire(), []
    while said:
        size = data.draw(st.integers(1, len(said)))
        read += there.take(said[:size])[0]
        said = said[size:]
    assert read == messages
    assert there.is_open


def test_settings_and_pings_are_answered_and_windows_kept() -> None:
    there = wire()
    settings = struct.pack(">HIHI", frames.INITIAL_WINDOW_SIZE, 100, frames.MAX_FRAME_SIZE, 32_768)
    _, replies = there.take(frame(SETTINGS, 0, 0, settings) + frame(PING, 0, 0, b"12345678"))
    assert replies == frame(SETTINGS, ACK, 0, b"") + frame(PING, ACK, 0, b"12345678")
    assert there.room == 100
    assert b"".join(there.data(b"x" * 60)) == frame(DATA, 0, 1, b"x" * 60)
    assert there.room == 40
    there.take(frame(WINDOW_UPDATE, 0, 1, struct.pack(">I", 100_000)))
    assert there.room == frames.DEFAULT_WINDOW - 60, "the connection's window is the smaller one now"
    there.take(frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1_000_000)))
    assert there.room == 100_040
    assert b"".join(there.data(b"y" * 40_000)) == frame(DATA, 0, 1, b"y" * 32_768) + frame(DATA, 0, 1, b"y" * 7_232)


def test_the_service_may_go_on_sending() -> None:
    there, replies = wire(), b""
    for _ in range(300):
        replies += there.take(frame(DATA, 0, 1, b"\0\0\0\x3f\xfb" + b"z" * 0x3FFB))[1]
    assert replies.count(bytes((WINDOW_UPDATE,)) + b"\0" + struct.pack(">I", 1)) == 1, "after a quarter of the window"


def test_padding_priorities_and_continuations_are_read() -> None:
    block = headers((":status", "200"))
    there = wire()
    padded = bytes((2,)) + b"\0\0\0\0\x10" + block[:1] + b"\0\0"
    there.take(frame(HEADERS, PADDED | PRIORITY, 1, padded))
    there.take(frame(CONTINUATION, END_HEADERS, 1, block[1:]))
    assert there.is_open
    assert there.take(frame(DATA, PADDED, 1, b"\x01" + frames.message(b"hi") + b"\0"))[0] == [b"hi"]


@pytest.mark.parametrize(
    ("said", "code", "message"),
    [
        (
            frame(HEADERS, END_HEADERS | END_STREAM, 1, headers(("grpc-status", "14"), ("grpc-message", "it%20leaves"))),
            "UNAVAILABLE",
            "it leaves",
        ),
        (frame(HEADERS, END_HEADERS | END_STREAM, 1, headers((":status", "503"))), "UNAVAILABLE", "HTTP status 503"),
        (frame(DATA, END_STREAM, 1, b""), "UNKNOWN", "without a status"),
        (frame(RST_STREAM, 0, 1, struct.pack(">I", 8)), "UNAVAILABLE", "reset"),
        (frame(GOAWAY, 0, 0, struct.pack(">II", 0, 1)), "UNAVAILABLE", "not taken"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "UNAVAILABLE", "not HTTP/2"),
        (frame(HEADERS, 0, 1, b"") + frame(PING, 0, 0, b"12345678"), "UNAVAILABLE", "interrupted"),
        (frame(HEADERS, END_HEADERS, 1, b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), "UNAVAILABLE", "cannot be read"),
        (frame(DATA, 0, 1, b"\x01\0\0\0\0"), "UNAVAILABLE", "compressed"),
        (frame(DATA, PADDED, 1, b"\x09a"), "UNAVAILABLE", "padding"),
    ],
)
def test_how_a_stream_ends(said: bytes, code: str, message: str) -> None:
    with pytest.raises(Broken, match=message) as raised:
        wire().take(said)
    assert raised.value.code == code


def test_what_came_before_the_end_is_not_lost() -> None:
    there = wire()
    last = frame(HEADERS, END_HEADERS | END_STREAM, 1, headers(("grpc-status", "0")))
    assert there.take(OPENED + frame(DATA, 0, 1, frames.message(b"hi")) + last)[0] == [b"hi"]
    assert there.is_ended()
    with pytest.raises(Broken) as raised:
        there.take(b"")
    assert raised.value.code == "OK"


def test_a_goaway_that_lets_us_finish_is_no_end() -> None:
    there = wire()
    there.take(OPENED + frame(GOAWAY, 0, 0, struct.pack(">II", 0x7FFFFFFF, 0)))
    assert not there.is_ended()


def test_the_decoder_writes_no_line_for_each_header() -> None:
    program = (
        "import logging, sys; logging.basicConfig(level=logging.DEBUG, stream=sys.stdout); import paceline.engine.frames; "
        "import hpack; hpack.Decoder().decode(hpack.Encoder().encode([('a', 'b')]))"
    )
    for first, is_told in (("", False), ("import logging; logging.getLogger('hpack').setLevel(logging.DEBUG); ", True)):
        done = subprocess.run([sys.executable, "-c", first + program], capture_output=True, text=True, check=True)
        assert bool(done.stdout) is is_told
