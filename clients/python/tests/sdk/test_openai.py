"""The SDK of openai, unmodified, through a real service: waits, denials, connections, and who retries."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import openai
import pytest
import requests
from oddities import CHAT, SLOW_DOWN, answers, drops, hangs, provider
from paced import ASK, REFUSED_ONCE, asked, nothing_held, open_ai, through, used

import paceline
from under_test import eventually


def test_a_refused_call_is_sent_again_under_one_connection(service: Any, account: str) -> None:
    with provider(*REFUSED_ONCE) as at:
        client = through(at)
        raw = client.chat.completions.with_raw_response.create(**ASK)
        assert raw.headers["paceline-attempts"] == "2"
        assert raw.parse().choices[0].message.content == "hello"
        for _ in range(5):
            client.chat.completions.create(**ASK)
    assert len(at.requests) == 7
    assert at.connections == 1
    # The SDK did not retry: each attempt says that it is the first.
    assert {headers["x-stainless-retry-count"] for _, headers, _ in at.requests} == {"0"}
    nothing_held(service, account)
    # The refused attempt used nothing that anybody knows of; the six others said seven tokens each.
    eventually(lambda: service.metric("paceline_reports_total", provider="openai", status="429") >= 1, "no refusal was told")
    eventually(lambda: used(service, account, "requests") >= 6, "six calls were not told")


async def test_the_same_for_asyncio(service: Any, account: str) -> None:
    with provider(*REFUSED_ONCE) as at:
        made = paceline.aio.httpx(hosts={at.host: "openai"})
        client = openai.AsyncOpenAI(base_url=f"{at.url}/v1", api_key="k-1234567", http_client=made)
        for _ in range(5):
            answer = await client.chat.completions.create(**ASK)
        assert answer.usage is not None
        assert answer.usage.total_tokens == 7
        await client.close()
    assert len(at.requests) == 6
    assert at.connections == 1


async def test_a_call_under_a_slot_of_ones_own_is_asked_for_once(service: Any, account: str) -> None:
    """A wrapped client inside of `limiter.call`, `attempts` or `slot` of the same provider."""
    with provider(answers(429, SLOW_DOWN, retry_after_ms="10"), *[answers(200, CHAT)] * 20) as at:
        limiter, hosts = paceline.Limiter(), {at.host: "openai"}
        client = paceline.wrap(open_ai(at, max_retries=0), hosts=hosts)
        session = paceline.wrap(requests.Session(), hosts=hosts)

        def send() -> Any:
            return client.chat.completions.create(**ASK)

        assert limiter.call(send, ask=paceline.Ask("openai", model="m")).usage.total_tokens == 7
        assert (len(at.requests), asked(service, account)) == (2, 2), "refused once, and sent again by the outer call alone"
        with limiter.slot("openai", model="m") as slot:
            slot.result(session.post(f"{at.url}/v1/chat/completions", json=ASK))
        async with (
            paceline.aio.Limiter().slot("openai"),
            paceline.aio.aiohttp(hosts=hosts) as aio_session,
            aio_session.post(f"{at.url}/v1/chat/completions", json=ASK) as answer,
        ):
            assert answer.status == 200
        assert (len(at.requests), asked(service, account)) == (4, 4)
        with limiter.slot("openai", model="m"):
            send()
            send()
        assert (len(at.requests), asked(service, account)) == (6, 6), "the second one has no slot and asks"
        with limiter.slot("openai", model="other"):
            send()
        assert (len(at.requests), asked(service, account)) == (7, 8), "a slot of another model is for another call"
    await asyncio.to_thread(nothing_held, service, account)


def test_layers_of_attempts_share_one_bound(service: Any, account: str) -> None:
    """A job that retries, around calls that are sent again: as many as one call may have, not as many times as many."""
    with provider(answers(429, SLOW_DOWN, retry_after_ms="5")) as at:
        client = through(at)
        ask = paceline.Ask("openai", model="job", max_wait=60)
        with pytest.raises(openai.RateLimitError):
            paceline.Limiter().call(client.chat.completions.create, ask=ask, **ASK)
        print("sent", len(at.requests))
        assert 2 <= len(at.requests) <= 8
    nothing_held(service, account)


def test_a_denial_is_the_sdks_own_error_and_says_all(service: Any, account: str) -> None:
    with provider(answers(429, SLOW_DOWN, retry_after="30")) as at:
        client = through(at)
        started = time.monotonic()
        with paceline.context(max_wait=0.5), pytest.raises(openai.RateLimitError) as denied:
            client.chat.completions.create(**ASK)
        # One attempt, no sleep of the SDK.
        assert len(at.requests) == 1
        assert time.monotonic() - started < 5
        error = denied.value
        body: Any = error.body
        assert error.response.headers["x-should-retry"] == "false"
        if error.code != "rate_limit_exceeded":
            # Its next attempt was denied: the provider's answer is inside.
            assert str(error.code).startswith("paceline_")
            assert body["paceline"]["provider_answer"]["body"] == SLOW_DOWN
        with paceline.context(max_wait=0.5), pytest.raises(openai.RateLimitError) as second:
            client.chat.completions.create(**ASK)
        assert second.value.code == "paceline_deadline"
        assert 20 <= int(second.value.response.headers["retry-after"]) <= 60
        assert second.value.response.headers["paceline-denied"] == "deadline"
        assert len(at.requests) == 1
    nothing_held(service, account)


@pytest.mark.parametrize("status", [400, 401, 404, 422])
def test_what_is_not_worth_repeating_is_sent_once(service: Any, account: str, status: int) -> None:
    with provider(answers(status, {"error": {"message": "no", "code": "x"}})) as at:
        with pytest.raises(openai.APIStatusError) as error:
            through(at).chat.completions.create(**ASK)
        assert error.value.status_code == status
        assert len(at.requests) == 1
    nothing_held(service, account)


def test_attempts_are_not_multiplied_when_no_answer_comes(service: Any, account: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK tries a lost connection again by itself; it is told the same at once, and nothing more is sent."""
    sleeps: list[float] = []
    monkeypatch.setattr(openai.OpenAI, "_sleep_for_retry", lambda self, **_: sleeps.append(1.0))
    with provider(drops) as at, paceline.context(repeat="never"):
        with pytest.raises(openai.APIConnectionError):
            through(at, max_retries=5).chat.completions.create(**ASK)
        assert len(at.requests) == 1
        assert len(sleeps) == 5
        # The next call is one of its own.
        with pytest.raises(openai.APIConnectionError):
            through(at, max_retries=0).chat.completions.create(**ASK)
        assert len(at.requests) == 2
    nothing_held(service, account)


def test_a_time_out_is_told_as_one(service: Any, account: str) -> None:
    over = threading.Event()
    with provider(hangs(over)) as at, paceline.context(repeat="never"):
        with pytest.raises(openai.APITimeoutError):
            through(at, timeout=0.3, max_retries=0).chat.completions.create(**ASK)
        over.set()
    eventually(
        lambda: service.metric("paceline_reports_total", provider="openai", outcome="timeout") >= 1, "no time-out was told"
    )
    nothing_held(service, account)


def test_nobody_there_is_told_as_a_failed_connection(service: Any, account: str) -> None:
    with provider(drops) as at:
        pass
    with paceline.context(max_wait=0.2), pytest.raises(openai.APIConnectionError):
        through(at, max_retries=0).chat.completions.create(**ASK)
    eventually(
        lambda: service.metric("paceline_reports_total", provider="openai", outcome="connection_failed") >= 1,
        "no failed connection was told",
    )
    nothing_held(service, account)


async def test_whoever_is_cancelled_while_waiting_leaves_the_line(service: Any, account: str) -> None:
    with provider(answers(429, SLOW_DOWN, retry_after="20")) as at:
        client = openai.AsyncOpenAI(
            base_url=f"{at.url}/v1", api_key="k-1234567", http_client=paceline.aio.httpx(provider="openai")
        )
        tasks = [asyncio.create_task(client.chat.completions.create(**ASK)) for _ in range(8)]
        await asyncio.to_thread(eventually, lambda: len(at.requests) >= 1, "nothing was sent")
        await asyncio.sleep(0.3)
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(end, (asyncio.CancelledError, openai.RateLimitError)) for end in ended), ended
    await asyncio.to_thread(nothing_held, service, account)
    await asyncio.to_thread(
        eventually, lambda: service.metric("paceline_queue_depth", account=account) == 0, "somebody still waits"
    )


def test_wrap_leaves_the_client_as_it_is(service: Any, account: str) -> None:
    with provider(answers(200, CHAT)) as at:
        plain = open_ai(at, timeout=7.5, max_retries=4, default_headers={"x-mine": "kept"})
        plain.chat.completions.create(**ASK)
        before = service.metric("paceline_acquires_total", account=account)
        wrapped = paceline.wrap(plain, provider="openai")
        wrapped.chat.completions.create(**ASK)
        assert type(wrapped) is openai.OpenAI
        assert (wrapped.timeout, wrapped.base_url, wrapped.api_key) == (7.5, plain.base_url, plain.api_key)
        assert service.metric("paceline_acquires_total", account=account) == before + 1
        # The given one still asks nobody, by the same connection, also when the other is closed.
        wrapped.close()
        del wrapped
        plain.chat.completions.create(**ASK)
        assert service.metric("paceline_acquires_total", account=account) == before + 1
        assert at.connections == 1
        assert {headers["x-mine"] for _, headers, _ in at.requests} == {"kept"}
    with pytest.raises(TypeError, match="cannot wrap builtins"):
        paceline.wrap(3)


def test_other_calls_of_the_same_client_go_straight_through(service: Any, account: str) -> None:
    with provider(answers(200, {"object": "list", "data": []})) as at:
        client = through(at)
        client.models.list()
        assert len(at.requests) == 1
    assert service.metric("paceline_acquires_total", account=account) == 0


def test_bodies_that_are_files_are_sent_again_whole(service: Any, account: str) -> None:
    with provider(answers(429, SLOW_DOWN, retry_after_ms="50"), answers(200, {"text": "hi"})) as at:
        client = through(at)
        assert client.audio.transcriptions.create(model="whisper-1", file=("a.wav", b"RIFF" * 100)).text == "hi"
        assert len(at.requests) == 2
        first, second = at.requests
        assert first[2] == second[2]
        assert b"RIFFRIFF" in second[2]
    nothing_held(service, account)


def test_azure_names_its_deployment(service: Any, account: str) -> None:
    with provider(*REFUSED_ONCE) as at:
        plain = openai.AzureOpenAI(
            azure_endpoint=at.url, api_key="k-1234567", api_version="2026-01-01", azure_deployment="prod-4o"
        )
        paceline.wrap(plain).chat.completions.create(**ASK)
        assert len(at.requests) == 2
    eventually(lambda: service.metric("paceline_acquires_total", provider="azure", model="prod-4o") >= 2, "it is not Azure's")
