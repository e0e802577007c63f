"""Where we only watch, an SDK's own retry is the next attempt of its call: the report tells calls and retries as they were."""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from collections.abc import Callable
from typing import Any

import anthropic
import openai
import pytest
from google import genai
from google.genai import types as genai_types
from oddities import CHAT, GEMINI, MESSAGE, SLOW_DOWN, Act, answers, drops, provider
from programs import Program, binary

import paceline

ASK: Any = {"model": "m", "messages": [{"role": "user", "content": "x" * 40}]}
MESSAGES: Any = {**ASK, "max_tokens": 9}
SOON_AGAIN: Any = {"retry_after_ms": "5"}
REFUSED = answers(429, SLOW_DOWN, **SOON_AGAIN)
GEMINI_REFUSED = answers(503, {"error": {"code": 503, "message": "x", "status": "UNAVAILABLE"}})


@pytest.fixture
def service(start: Callable[..., Program], monkeypatch: pytest.MonkeyPatch) -> Program:
    """A service that is asked beside the calls."""
    program = start("serve", config="mode: shadow\n")
    monkeypatch.setenv("PACELINE_ADDR", program.grpc)
    monkeypatch.setenv("PACELINE_ACCOUNT", "prod")
    monkeypatch.setenv("PACELINE_MODE", "shadow")
    return program


def report(service: Program) -> dict[str, int]:
    """What `paceline report --shadow` counts of all scopes."""
    words = [str(binary()), "report", "--shadow", "--addr", service.grpc, "--json"]
    said = json.loads(subprocess.run(words, capture_output=True, text=True, timeout=60, check=False).stdout)
    watched = [scope["modes"]["shadow"] for scope in said["scopes"]]
    return {name: sum(counts[name] for counts in watched) for name in ("calls", "retries", "answers", "unanswered")}


def counted(service: Program, **expected: int) -> None:
    """Waits until the report says so: asks go beside the calls, and sums come a little later."""
    until = time.monotonic() + 30
    while True:
        found = report(service)
        if expected.items() <= found.items():
            return
        assert time.monotonic() < until, (found, expected)
        time.sleep(0.1)


def send(sdk: str, at: Any) -> None:
    if sdk == "openai":
        http: Any = paceline.httpx(provider="openai")
        openai.OpenAI(base_url=f"{at.url}/v1", api_key="k-1234567", http_client=http).chat.completions.create(**ASK)
    else:
        plain = anthropic.Anthropic(base_url=at.url, api_key="k-1234567")
        paceline.wrap(plain, provider="anthropic").messages.create(**MESSAGES)


@pytest.mark.parametrize("first", [REFUSED, answers(500, {}, **SOON_AGAIN), drops], ids=["429", "500", "drops"])
@pytest.mark.parametrize(("sdk", "answer"), [("openai", CHAT), ("anthropic", MESSAGE)])
def test_a_retry_is_an_attempt_of_its_call(service: Program, sdk: str, answer: Any, first: Act) -> None:
    with provider(first, first, answers(200, answer), first, answers(200, answer), answers(200, answer)) as at:
        for _ in range(3):
            send(sdk, at)
        assert len(at.requests) == 6
        assert [headers["x-stainless-retry-count"] for _, headers, _ in at.requests] == ["0", "1", "2", "0", "1", "0"]
    counted(service, calls=6, retries=3)


async def test_retries_of_many_tasks_are_their_own(service: Program) -> None:
    refusals = [REFUSED] * 30
    with provider(*refusals, answers(200, CHAT)) as at:
        async with openai.AsyncOpenAI(
            base_url=f"{at.url}/v1", api_key="k-1234567", max_retries=40, http_client=paceline.aio.httpx(provider="openai")
        ) as client:
            await asyncio.gather(*(client.chat.completions.create(**ASK) for _ in range(20)))
    assert len(at.requests) == 50
    await asyncio.to_thread(counted, service, calls=50, retries=30)


@pytest.mark.parametrize("kind", ["blocking", "asyncio"])
async def test_gemini_says_nothing_of_its_retries(service: Program, kind: str) -> None:
    """The same bytes again, a moment later, from the same task: that is a retry."""
    with provider(GEMINI_REFUSED, GEMINI_REFUSED, answers(200, GEMINI)) as at:
        again = genai_types.HttpRetryOptions(attempts=5, initial_delay=0.01, http_status_codes=[503])
        options = genai_types.HttpOptions(base_url=at.url, retry_options=again)
        client = paceline.wrap(genai.Client(api_key="AIza-1234567890", http_options=options), hosts={at.host: "gemini"})
        for prompt in ("one", "two", "two"):
            if kind == "blocking":
                client.models.generate_content(model="g", contents=prompt)
            else:
                await client.aio.models.generate_content(model="g", contents=prompt)
        await client.aio.aclose()
        assert len(at.requests) == 5
    await asyncio.to_thread(counted, service, calls=5, retries=2)


def test_what_is_no_retry_is_a_call_of_its_own(service: Program) -> None:
    with provider(REFUSED) as at, paceline.httpx(provider="openai") as client:
        url = f"{at.url}/v1/chat/completions"
        for content in ("one", "two", "one"):
            client.post(url, json={"model": "m", "messages": [{"role": "user", "content": content}]})
        client.post(f"{at.url}/v1/responses", json=ASK)
        at.script[:] = [answers(200, CHAT)]
        for _ in range(3):
            client.post(url, json=ASK)
    counted(service, calls=7, retries=0)


def test_a_retry_whose_first_attempt_was_not_seen_counts_as_one(service: Program) -> None:
    with provider(answers(200, CHAT)) as at, paceline.httpx(provider="openai") as client:
        client.post(f"{at.url}/v1/chat/completions", json=ASK, headers={"x-stainless-retry-count": "2"})
    counted(service, calls=1, retries=1)


def test_where_the_service_watches_and_we_retry_the_same_is_counted(service: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PACELINE_MODE", "enforce")
    with provider(REFUSED, REFUSED, answers(200, CHAT)) as at:
        send("openai", at)
        send("openai", at)
        assert len(at.requests) == 4
    counted(service, calls=4, retries=2)


def test_own_code_names_the_attempt_before(service: Program) -> None:
    """`limiter.attempts` with PACELINE_MODE=shadow: the next attempt names the lease of the one before."""
    for attempt in paceline.Limiter().attempts("openai", model="m"):
        with attempt as slot:
            is_first = slot.attempt == 1
            headers = {"retry-after-ms": "5"} if is_first else {}
            slot.result(paceline.Response(429 if is_first else 200, headers))
    counted(service, calls=2, retries=1, answers=2)
