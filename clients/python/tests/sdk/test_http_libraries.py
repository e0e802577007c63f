"""HTTP libraries without an SDK: httpx, httpx2, requests, aiohttp."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import httpx
import httpx2
import pytest
import requests
from oddities import SLOW_DOWN, answers, chunk, drops, provider, streams
from paced import ASK, REFUSED_ONCE, USAGE, nothing_held

import paceline


@pytest.mark.parametrize("module", [httpx, httpx2], ids=["httpx", "httpx2"])
def test_clients_of_both_modules(service: Any, account: str, module: Any) -> None:
    with provider(*REFUSED_ONCE) as at, paceline.httpx(module=module, provider="openai") as client:
        answer = client.post(f"{at.url}/v1/chat/completions", json=ASK)
        assert (answer.status_code, answer.json()["usage"]["total_tokens"]) == (200, 7)
        assert answer.elapsed.total_seconds() > 0.1
    assert len(at.requests) == 2
    nothing_held(service, account)


def test_requests(service: Any, account: str) -> None:
    with provider(*REFUSED_ONCE) as at:
        session = paceline.requests(provider="openai")
        url = f"{at.url}/v1/chat/completions"
        answer = session.post(url, json=ASK)
        assert (answer.status_code, answer.json()["usage"]["total_tokens"], answer.reason) == (200, 7, "OK")
        assert answer.headers["paceline-attempts"] == "2"
        assert (len(at.requests), at.connections) == (2, 1)
        at.script[:] = [streams(chunk("hello"), USAGE, "[DONE]")]
        with session.post(url, json={**ASK, "stream": True}, stream=True) as streamed:
            assert b"[DONE]" in b"".join(streamed.iter_content(7))
        at.script[:] = [drops]
        with paceline.context(repeat="never"), pytest.raises(requests.ConnectionError):
            session.post(url, json=ASK)
        at.script[:] = [answers(429, SLOW_DOWN, retry_after="86400")]
        session.post(url, json=ASK)
        denied = session.post(url, json=ASK)
        assert denied.status_code == 429
        assert denied.json()["error"]["code"].startswith("paceline_")
    nothing_held(service, account)


def test_a_session_of_requests_that_retries_by_itself_does_so_no_more(service: Any, account: str) -> None:
    from requests.adapters import HTTPAdapter
    from urllib3.util.retry import Retry

    with provider(answers(503, {})) as at:
        plain = requests.Session()
        plain.headers["x-mine"] = "kept"
        plain.mount("http://", HTTPAdapter(max_retries=Retry(9, status_forcelist=[503], allowed_methods=None)))
        with paceline.context(repeat="never", max_wait=0.1):
            answer = paceline.wrap(plain, provider="openai").post(f"{at.url}/v1/chat/completions", json=ASK)
        assert answer.status_code in (503, 429)
        assert len(at.requests) == 1
        assert at.requests[0][1]["x-mine"] == "kept"


async def test_aiohttp(service: Any, account: str) -> None:
    with provider(*REFUSED_ONCE) as at:
        url = f"{at.url}/v1/chat/completions"
        async with paceline.aio.aiohttp(provider="openai") as session:
            async with session.post(url, json=ASK) as answer:
                assert (answer.status, (await answer.json())["usage"]["total_tokens"]) == (200, 7)
                assert answer.headers["paceline-attempts"] == "2"
            assert (len(at.requests), at.connections) == (2, 1)
            at.script[:] = [streams(chunk("hello"), USAGE, "[DONE]")]
            async with session.post(url, json={**ASK, "stream": True}) as streamed:
                lines = [line async for line in streamed.content]
                assert b"data: [DONE]\n" in lines
            over = threading.Event()
            at.script[:] = [streams(chunk("x" * 40), hold=over)]
            async with session.post(url, json={**ASK, "stream": True}) as left:
                await left.content.readline()
            over.set()
            at.script[:] = [answers(429, SLOW_DOWN, retry_after="86400")]
            async with session.post(url, json=ASK) as refused:
                assert refused.status == 429
            async with session.post(url, json=ASK) as denied:
                assert denied.status == 429
                assert (await denied.json())["error"]["code"].startswith("paceline_")
                with pytest.raises(Exception, match="429"):
                    denied.raise_for_status()
    await asyncio.to_thread(nothing_held, service, account)


async def test_a_key_that_makes_it_safe_is_the_same_on_all_attempts(service: Any, account: str) -> None:
    """A call that may have run is sent again only under the provider's own key."""
    with provider(drops, answers(200, {"id": "ch_1"})) as at:
        url = f"{at.url}/v1/charges"
        with paceline.httpx(provider="stripe") as client:
            assert client.post(url, data={"amount": 5}).status_code == 200
        at.script[:] = [drops, answers(200, {})]
        assert paceline.requests(provider="stripe").post(url, json={"amount": 5}).status_code == 200
        at.script[:] = [drops, answers(200, {})]
        async with paceline.aio.aiohttp(provider="stripe") as session, session.post(url, json={"amount": 5}) as answer:
            assert answer.status == 200
        keys = [headers["idempotency-key"] for _, headers, _ in at.requests]
        assert [keys.count(key) for key in keys] == [2] * 6
        # One's own stays.
        at.script[:] = [answers(503, {}, retry_after_ms="20"), answers(200, {})]
        with paceline.httpx(provider="stripe") as client:
            client.post(url, data={"amount": 5}, headers={"Idempotency-Key": "mine"})
        assert [headers["idempotency-key"] for _, headers, _ in at.requests[6:]] == ["mine", "mine"]
