"""The SDK of anthropic, unmodified, through a real service."""

from __future__ import annotations

from typing import Any

import anthropic
import pytest
from oddities import MESSAGE, answers, provider, streams
from paced import ASK, nothing_held

import paceline
from under_test import eventually


def test_anthropic_and_its_denial(service: Any, account: str) -> None:
    with provider(
        answers(429, {"type": "error", "error": {"type": "rate_limit_error", "message": "x"}}, retry_after="0.2"),
        answers(200, MESSAGE),
    ) as at:
        plain = anthropic.Anthropic(base_url=at.url, api_key="sk-ant-1234567")
        client = paceline.wrap(plain, hosts={at.host: "anthropic"})
        message = client.messages.create(model="m", max_tokens=9, messages=ASK["messages"])
        assert message.usage.output_tokens == 2
        at.script[:] = [
            answers(429, {"type": "error", "error": {"type": "rate_limit_error", "message": "a day"}}, retry_after="86400")
        ]
        with pytest.raises(anthropic.RateLimitError) as refused:
            client.messages.create(model="m", max_tokens=9, messages=ASK["messages"])
        # The provider's own answer; the next call is not even sent.
        assert "a day" in str(refused.value)
        sent = len(at.requests)
        with pytest.raises(anthropic.RateLimitError) as denied:
            client.messages.create(model="m", max_tokens=9, messages=ASK["messages"])
        assert isinstance(denied.value.body, dict)
        assert str(denied.value.body["error"]["code"]).startswith("paceline_")
        assert len(at.requests) == sent
    nothing_held(service, account)


def test_an_error_inside_a_200_is_read(service: Any, account: str) -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    start = {"type": "message_start", "message": {**MESSAGE, "content": [], "stop_reason": None}}
    before = service.metric("paceline_signals_total", provider="anthropic")
    with provider(streams(b"event: message_start\n", start, b"event: error\n", error)) as at:
        client = anthropic.Anthropic(base_url=at.url, api_key="k-1234567", http_client=paceline.httpx(provider="anthropic"))
        with (
            pytest.raises(anthropic.APIStatusError),
            client.messages.stream(model="m", max_tokens=9, messages=ASK["messages"]) as stream,
        ):
            list(stream.text_stream)
    assert len(at.requests) == 1
    nothing_held(service, account)
    # The service takes it for what it is: the model rests.
    eventually(lambda: service.metric("paceline_signals_total", provider="anthropic") > before, "the overload was not read")
