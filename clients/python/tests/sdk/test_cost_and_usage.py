"""What requests cost and what answers used, in the words of each API."""

from __future__ import annotations

import json

import pytest

from paceline.sdk.cost import cost_of
from paceline.sdk.places import place_of
from paceline.sdk.seen import Seen
from paceline.sdk.usage import usage_in, usage_of_body

OPENAI = "https://api.openai.com/v1"
ANTHROPIC = "https://api.anthropic.com/v1/messages"
GEMINI = "https://generativelanguage.googleapis.com/v1beta/models/g:generateContent"


def cost(url: str, body: dict[str, object]) -> dict[str, int]:
    seen = Seen("POST", url, {}, json.dumps(body).encode())
    place = place_of(seen)
    assert place is not None
    return cost_of(seen, place)


FORTY = "x" * 40  # ten tokens


@pytest.mark.parametrize(
    ("url", "body", "expected"),
    [
        # Ten tokens of text and four for the message.
        (
            f"{OPENAI}/chat/completions",
            {"messages": [{"role": "user", "content": FORTY}]},
            {"input_tokens": 14},
        ),
        (
            f"{OPENAI}/chat/completions",
            {
                "messages": [{"role": "user", "content": FORTY}],
                "max_tokens": 99,
                "max_completion_tokens": 100,
                "n": 2,
            },
            {"input_tokens": 14, "output_tokens": 200},
        ),
        (
            f"{OPENAI}/responses",
            {"input": FORTY, "instructions": FORTY, "max_output_tokens": 7},
            {"input_tokens": 20, "output_tokens": 7},
        ),
        # What the provider remembers cannot be seen from here.
        (
            f"{OPENAI}/responses",
            {"input": FORTY, "previous_response_id": "r", "max_output_tokens": 7},
            {"output_tokens": 7},
        ),
        (f"{OPENAI}/embeddings", {"input": [FORTY, FORTY]}, {"input_tokens": 20, "output_tokens": 0}),
        (f"{OPENAI}/embeddings", {"input": [[1, 2, 3], [4, 5]]}, {"input_tokens": 5, "output_tokens": 0}),
        (f"{OPENAI}/images/generations", {"prompt": "x", "n": 3}, {"images": 3}),
        (
            ANTHROPIC,
            {
                "system": FORTY,
                "messages": [{"role": "user", "content": [{"type": "text", "text": FORTY}]}],
                "max_tokens": 50,
            },
            {"input_tokens": 24, "output_tokens": 50},
        ),
        (f"{ANTHROPIC}/count_tokens", {"messages": []}, {"input_tokens": 0, "output_tokens": 0}),
        (
            GEMINI,
            {"contents": [{"parts": [{"text": FORTY}]}], "generationConfig": {"maxOutputTokens": 64}},
            {"input_tokens": 10, "output_tokens": 64},
        ),
        # A picture is a picture, however many bytes it has.
        (
            f"{OPENAI}/chat/completions",
            {
                "messages": [
                    {
                        "role": "user",
                        "content": [
                            {
                                "type": "image_url",
                                "image_url": {"url": "data:image/png;base64," + "A" * 90_000},
                            }
                        ],
                    }
                ]
            },
            {"input_tokens": 1_004},
        ),
    ],
)
def test_a_request_is_estimated(url: str, body: dict[str, object], expected: dict[str, int]) -> None:
    assert cost(url, {"model": "m", **body}) == expected


def test_a_body_that_cannot_be_read_costs_what_such_calls_cost_lately() -> None:
    seen = Seen("POST", f"{OPENAI}/chat/completions", {}, b"{not json")
    place = place_of(seen)
    assert place is not None
    assert cost_of(seen, place) == {}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (
            {
                "usage": {
                    "prompt_tokens": 9,
                    "completion_tokens": 3,
                    "total_tokens": 12,
                    "prompt_tokens_details": {"cached_tokens": 4},
                }
            },
            {"input_tokens": 9, "output_tokens": 3, "tokens": 12, "cached_input_tokens": 4},
        ),
        (
            {"usage": {"prompt_tokens": 9, "total_tokens": 9}},
            {"input_tokens": 9, "output_tokens": 0, "tokens": 9},
        ),
        (
            {
                "usage": {
                    "input_tokens": 9,
                    "output_tokens": 3,
                    "total_tokens": 12,
                    "input_tokens_details": {"cached_tokens": 2},
                }
            },
            {"input_tokens": 9, "output_tokens": 3, "tokens": 12, "cached_input_tokens": 2},
        ),
        (
            {
                "usage": {
                    "input_tokens": 9,
                    "output_tokens": 3,
                    "cache_creation_input_tokens": 100,
                    "cache_read_input_tokens": 50,
                }
            },
            {"input_tokens": 109, "output_tokens": 3, "cached_input_tokens": 50},
        ),
        (
            {
                "usageMetadata": {
                    "promptTokenCount": 9,
                    "candidatesTokenCount": 3,
                    "thoughtsTokenCount": 5,
                    "totalTokenCount": 17,
                }
            },
            {"input_tokens": 9, "output_tokens": 8, "tokens": 17},
        ),
        (
            {"response": {"usage": {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}}},
            {"input_tokens": 1, "output_tokens": 2, "tokens": 3},
        ),
        (
            {"usage": {"inputTokens": 9, "outputTokens": 3, "totalTokens": 12}},
            {"input_tokens": 9, "output_tokens": 3, "tokens": 12},
        ),
        (
            {"usage": {"billed_units": {}, "tokens": {"input_tokens": 9, "output_tokens": 3}}},
            {"input_tokens": 9, "output_tokens": 3},
        ),
        ({"usage": None}, {}),
        ({"usage": {"prompt_tokens": -1}}, {"output_tokens": 0}),
        ([1, 2], {}),
    ],
)
def test_an_answer_says_what_it_used(answer: object, expected: dict[str, int]) -> None:
    assert usage_in(answer) == expected
    if isinstance(answer, dict):
        assert usage_of_body(json.dumps(answer).encode()) == expected


def test_a_list_of_answers_counts_on() -> None:
    body = json.dumps(
        [
            {"usageMetadata": {"promptTokenCount": 1}},
            {"usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 8}},
        ]
    )
    assert usage_of_body(body.encode()) == {"input_tokens": 1, "output_tokens": 8}
    assert usage_of_body(b"<html>") == {}
