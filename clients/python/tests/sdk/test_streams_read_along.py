"""Streams are read along in whatever pieces they come, and what was used is known however they end."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Sequence

import pytest

from paceline.outcomes import Abandoned, Response, TimedOut
from paceline.sdk.events import StreamMeter
from paceline.sdk.places import place_of
from paceline.sdk.plan import Plan
from paceline.sdk.seen import Seen
from paceline.transports.decoding import decoder_for
from paceline.transports.tail import Ending, Tail


def sse(*events: object) -> bytes:
    return b"".join(
        b"data: " + (event.encode() if isinstance(event, str) else json.dumps(event).encode()) + b"\n\n" for event in events
    )


def delta(text: str) -> dict[str, object]:
    return {"choices": [{"delta": {"content": text}}]}


CHAT = sse(
    delta("hello "),
    delta("world"),
    {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}},
    "[DONE]",
)
RESPONSES = sse(
    {"type": "response.output_text.delta", "delta": "hi"},
    {
        "type": "response.completed",
        "response": {"usage": {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7}},
    },
)
ANTHROPIC = sse(
    {
        "type": "message_start",
        "message": {"usage": {"input_tokens": 5, "output_tokens": 1, "cache_read_input_tokens": 3}},
    },
    {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "hello"}},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
    {"type": "message_stop"},
)
GEMINI = sse(
    {
        "candidates": [{"content": {"parts": [{"text": "he"}]}}],
        "usageMetadata": {"promptTokenCount": 5, "totalTokenCount": 5},
    },
    {
        "candidates": [{"content": {"parts": [{"text": "llo"}]}, "finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": 5, "candidatesTokenCount": 2, "totalTokenCount": 7},
    },
)


def metered(data: bytes, size: int, *, finish: bool = True) -> StreamMeter:
    meter = StreamMeter()
    for at in range(0, len(data), size):
        meter.feed(data[at : at + size])
    if finish:
        meter.finish()
    return meter


@pytest.mark.parametrize("size", [1, 7, 100_000])
@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (CHAT, {"input_tokens": 5, "output_tokens": 2, "tokens": 7}),
        (RESPONSES, {"input_tokens": 5, "output_tokens": 2, "tokens": 7}),
        (ANTHROPIC, {"input_tokens": 5, "output_tokens": 2, "cached_input_tokens": 3}),
        (GEMINI, {"input_tokens": 5, "output_tokens": 2, "tokens": 7}),
        (CHAT.replace(b"\n", b"\r\n"), {"input_tokens": 5, "output_tokens": 2, "tokens": 7}),
    ],
)
def test_a_whole_stream_says_what_it_used(data: bytes, expected: dict[str, int], size: int) -> None:
    meter = metered(data, size)
    assert meter.used(99) == (expected, False)
    assert meter.ended


@pytest.mark.parametrize("data", [CHAT, RESPONSES, ANTHROPIC, GEMINI])
def test_cut_anywhere_it_never_counts_less_than_it_passed_on(data: bytes) -> None:
    """At every byte: known input or the estimate, and output that only grows."""
    before = 0
    for cut in range(0, len(data), 11):
        used, _ = metered(data[:cut], 64).used(99)
        assert used["input_tokens"] in (5, 99)
        assert used["output_tokens"] >= before or used["output_tokens"] == 2
        before = min(used["output_tokens"], 2)


def test_a_text_a_line_is_read_too() -> None:
    lines = b"".join(
        json.dumps(event).encode() + b"\n" for event in (delta("hello"), {"usage": {"prompt_tokens": 5, "completion_tokens": 2}})
    )
    assert metered(lines, 9).used(None) == ({"input_tokens": 5, "output_tokens": 2}, False)


def test_without_a_word_of_usage_we_count() -> None:
    meter = metered(sse(delta("x" * 400), delta("y" * 400), "[DONE]"), 50)
    assert meter.used(30) == ({"input_tokens": 30, "output_tokens": 200}, True)
    # A token is at least one event, however short.
    assert metered(sse(*[delta("a")] * 50), 50).used(None) == ({"output_tokens": 50}, True)


@pytest.mark.parametrize(
    "event",
    [
        {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
        {"error": {"message": "The server had an error", "code": "server_error"}},
        {"type": "response.failed", "response": {"error": {"code": "rate_limit_exceeded"}}},
    ],
)
def test_an_error_inside_a_200_is_seen(event: dict[str, object]) -> None:
    meter = metered(sse(delta("x")) + b"event: error\n" + sse(event), 13)
    assert meter.error is not None
    assert json.loads(meter.error) == event


def test_a_stream_of_nonsense_harms_nobody() -> None:
    for data in (
        b"\xff\xfe\x00" * 99,
        b"data: {\n\n",
        b"data: [1]\n\ndata: 3\n\n",
        b"",
        b"data:" + b"[" * 10_000 + b"\n\n",
    ):
        meter = metered(data, 5)
        assert meter.used(None) == ({"output_tokens": 0}, True)


def tail() -> Tail:
    seen = Seen(
        "POST",
        "https://api.openai.com/v1/chat/completions",
        {"authorization": "Bearer sk-secret-1234567"},
        b"{}",
    )
    place = place_of(seen, provider="openai")
    assert place is not None
    return Tail(None, None, Plan(place, {"input_tokens": 30}, "", ("sk-secret-1234567",)), 200, whole=False)


@pytest.mark.parametrize(
    ("data", "ending", "expected"),
    [
        (CHAT, "end", Response(200, usage={"input_tokens": 5, "output_tokens": 2, "tokens": 7})),
        # The reader may leave as soon as it has what it came for.
        (CHAT, "left", Response(200, usage={"input_tokens": 5, "output_tokens": 2, "tokens": 7})),
        (sse(delta("x" * 40)), "left", Abandoned({"input_tokens": 30, "output_tokens": 10})),
        (sse(delta("x" * 40)), "cut", TimedOut({"input_tokens": 30, "output_tokens": 10})),
        # It ended without saying so.
        (
            sse(delta("x" * 40)),
            "end",
            Response(200, usage={"input_tokens": 30, "output_tokens": 10}, usage_estimated=True),
        ),
    ],
)
def test_what_is_told_of_a_stream(data: bytes, ending: Ending, expected: object) -> None:
    one = tail()
    one.begins("text/event-stream; charset=utf-8", "")
    one.feed(data)
    assert one.over(ending) == expected
    assert one.over("end") is None


def test_an_error_event_is_told_without_the_key_in_it() -> None:
    one = tail()
    one.begins("text/event-stream", "")
    one.feed(sse({"error": {"code": "x", "message": "bad key sk-secret-1234567"}}))
    outcome = one.over("end")
    assert isinstance(outcome, Response)
    assert b"secret" not in bytes(outcome.body)  # type: ignore[arg-type]
    assert b'"code": "x"' in bytes(outcome.body)  # type: ignore[arg-type]


def test_what_is_no_text_is_not_counted() -> None:
    for kind, encoding in [("audio/mpeg", ""), ("text/event-stream", "snappy"), ("text/event-stream", "")]:
        one = tail()
        one.begins(kind, encoding)
        one.feed(b"\x00\x01")
        assert one.over("end") == Response(200)


def compressed(name: str, data: bytes) -> bytes:
    if name == "gzip":
        return gzip.compress(data)
    if name == "deflate":
        return zlib.compress(data)
    bare = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return bare.compress(data) + bare.flush()


@pytest.mark.parametrize("name", ["gzip", "deflate", "bare deflate"])
def test_compressed_streams_are_read_along(name: str) -> None:
    decode = decoder_for(name.rpartition(" ")[2])
    assert decode is not None
    data = compressed(name, CHAT)
    pieces: Sequence[bytes] = [data[at : at + 20] for at in range(0, len(data), 20)]
    assert b"".join(decode(piece) for piece in pieces) == CHAT
    assert decoder_for("gzip, br") is None
