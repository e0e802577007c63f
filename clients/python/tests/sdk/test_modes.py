"""Where nobody makes calls wait: shadow, off, and without a service."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import openai
import pytest
from oddities import CHAT, SLOW_DOWN, answers, provider
from paced import ASK, asked, nothing_held, through

from under_test import eventually


@pytest.mark.parametrize("mode", ["shadow", "off"])
def test_without_enforcing_the_sdk_retries_as_ever(
    service: Any, account: str, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PACELINE_MODE", mode)
    waits: list[int] = []
    monkeypatch.setattr(openai.OpenAI, "_sleep_for_retry", lambda self, **said: waits.append(said["retries_taken"]))
    with provider(answers(429, SLOW_DOWN, retry_after="1"), answers(429, SLOW_DOWN), answers(200, CHAT)) as at:
        raw = through(at).chat.completions.with_raw_response.create(**ASK)
        assert raw.parse().usage is not None
        assert waits == [0, 1]
        assert "paceline-attempts" not in raw.headers
        assert [headers["x-stainless-retry-count"] for _, headers, _ in at.requests] == ["0", "1", "2"]
    if mode == "shadow":
        eventually(lambda: asked(service, account) == 3, "the asks beside did not come")
        nothing_held(service, account)
    else:
        assert service.metric("paceline_acquires_total", account=account) == 0


def test_in_shadow_a_dead_service_is_unnoticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PACELINE_ADDR", "127.0.0.1:9")
    monkeypatch.setenv("PACELINE_MODE", "shadow")
    with provider(answers(200, CHAT)) as at:
        client = through(at)
        client.chat.completions.create(**ASK)
        started = time.monotonic()
        for _ in range(20):
            client.chat.completions.create(**ASK)
        assert time.monotonic() - started < 1.5
        assert len(at.requests) == 21


def test_calls_go_on_when_the_service_dies(start: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    program = start("serve")
    monkeypatch.setenv("PACELINE_ADDR", program.grpc)
    with provider(answers(200, CHAT)) as at:
        client = through(at)
        for _ in range(40):
            client.chat.completions.create(**ASK)
        program.stop()
        started = time.monotonic()
        for _ in range(2):
            client.chat.completions.create(**ASK)
        assert len(at.requests) == 42
        # Two seconds until it is clear that nobody answers, and its recent share: forty calls in ten seconds.
        assert time.monotonic() - started < 20


@pytest.mark.parametrize("mode", ["shadow", "off"])
def test_where_the_service_only_watches_we_wait_as_sdks_do(
    mode: str, start: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    program = start("serve", config=f"mode: {mode}\n")
    monkeypatch.setenv("PACELINE_ADDR", program.grpc)
    with provider(answers(429, SLOW_DOWN, retry_after_ms="300"), answers(200, CHAT)) as at:
        started = time.monotonic()
        through(at).chat.completions.create(**ASK)
        assert time.monotonic() - started >= 0.3
        # The wait was ours: the SDK was told not to.
        assert [headers["x-stainless-retry-count"] for _, headers, _ in at.requests] == ["0", "0"]
        at.script[:] = [answers(429, SLOW_DOWN, retry_after_ms="10")]
        sent = len(at.requests)
        with pytest.raises(openai.RateLimitError):
            through(at).chat.completions.create(**ASK)
        # Not as often as we would and the SDK would, multiplied.
        assert 2 <= len(at.requests) - sent <= 8
