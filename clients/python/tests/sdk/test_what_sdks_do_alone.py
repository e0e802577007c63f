"""What today's SDKs do on a refusal when nobody helps them: the reason why they need Paceline, pinned.

When a new version of an SDK changes a line of this table, this fails: look whether what we tell SDKs
(`x-should-retry: false`), and what docs/python.md says of them, still holds.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import anthropic
import anyio
import httpx2
import openai
import pytest
from google import genai
from google.genai import errors as genai_errors
from google.genai import types as genai_types

ASK: Any = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 9}
PAST = "Wed, 21 Oct 2015 07:28:00 GMT"
LIMITS = {
    "x-ratelimit-remaining-requests": "0",
    "x-ratelimit-reset-requests": "40s",
    "anthropic-ratelimit-requests-reset": "2099-01-01T00:00:00Z",
}


def backoff(slept: float) -> bool:
    """Half a second to eight, and a quarter less at most."""
    return 0.3 <= slept <= 8.0


def exactly(seconds: float) -> Callable[[float], bool]:
    return lambda slept: slept == seconds


GIVES_UP = "gives up"


class Refusing:
    """A transport that always refuses, and counts."""

    def __init__(self, headers: dict[str, str]) -> None:
        self.sent: list[Any] = []
        self.headers = headers

    def __call__(self, request: Any) -> Any:
        self.sent.append(request)
        return httpx2.Response(429, headers=self.headers, json={"error": {"message": "x"}})


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What was slept, without the time it takes."""
    times: list[float] = []
    monkeypatch.setattr("time.sleep", times.append)

    async def sleep(seconds: float) -> None:
        times.append(seconds)

    monkeypatch.setattr(anyio, "sleep", sleep)
    return times


@pytest.mark.parametrize(
    ("headers", "with_openai", "with_anthropic"),
    [
        # To the very second, without jitter: a fleet comes back as one.
        ({"retry-after": "2"}, exactly(2.0), exactly(2.0)),
        ({"retry-after-ms": "1500", "retry-after": "9"}, exactly(1.5), exactly(1.5)),
        # One gives up after two minutes, the other sleeps for a day.
        ({"retry-after": "120"}, exactly(120.0), exactly(120.0)),
        ({"retry-after": "130"}, GIVES_UP, exactly(130.0)),
        ({"retry-after": "86400"}, GIVES_UP, exactly(86_400.0)),
        # What cannot be a time is no time.
        ({"retry-after": "0"}, backoff, backoff),
        ({"retry-after": PAST}, backoff, backoff),
        ({"retry-after": "soon"}, backoff, backoff),
        # Headers that say when it works are not read.
        (LIMITS, backoff, backoff),
        ({}, backoff, backoff),
        # By this we keep them from it.
        ({"retry-after": "2", "x-should-retry": "false"}, GIVES_UP, GIVES_UP),
    ],
    ids=lambda value: ",".join(value.values()) or "nothing" if isinstance(value, dict) else "",
)
@pytest.mark.parametrize("kind", ["blocking", "asyncio"])
async def test_on_a_429(headers: dict[str, str], with_openai: Any, with_anthropic: Any, kind: str, slept: list[float]) -> None:
    for sdk, expected in ((openai, with_openai), (anthropic, with_anthropic)):
        slept.clear()
        refusing = Refusing(headers)
        with pytest.raises(sdk.RateLimitError):
            await _call(sdk, refusing, kind)
        if expected == GIVES_UP:
            assert (len(refusing.sent), slept) == (1, []), sdk.__name__
            continue
        assert len(refusing.sent) == 3, sdk.__name__
        assert len(slept) == 2
        assert all(map(expected, slept)), (sdk.__name__, slept)


async def _call(sdk: Any, refusing: Refusing, kind: str) -> None:
    transport = httpx2.MockTransport(refusing)
    name = "OpenAI" if sdk is openai else "Anthropic"
    if kind == "asyncio":
        client = getattr(sdk, f"Async{name}")(api_key="k", http_client=httpx2.AsyncClient(transport=transport))
        await (client.chat.completions if sdk is openai else client.messages).create(**ASK)
    else:
        client = getattr(sdk, name)(api_key="k", http_client=httpx2.Client(transport=transport))
        (client.chat.completions if sdk is openai else client.messages).create(**ASK)


@pytest.mark.parametrize("sdk", [openai, anthropic], ids=lambda sdk: sdk.__name__)
async def test_what_attempts_say_of_themselves(sdk: Any, slept: list[float]) -> None:
    """The number of the retry, by which we know them; no idempotency key, which neither API takes."""
    refusing = Refusing({})
    with pytest.raises(sdk.RateLimitError):
        await _call(sdk, refusing, "blocking")
    assert [request.headers["x-stainless-retry-count"] for request in refusing.sent] == ["0", "1", "2"]
    assert not any("idempotency-key" in request.headers for request in refusing.sent)


def test_a_lost_connection_is_tried_again_too(slept: list[float]) -> None:
    sent = []

    def lose(request: Any) -> Any:
        sent.append(request)
        raise httpx2.ReadError("lost", request=request)

    client = openai.OpenAI(api_key="k", http_client=httpx2.Client(transport=httpx2.MockTransport(lose)))
    with pytest.raises(openai.APIConnectionError):
        client.chat.completions.create(**ASK)
    assert len(sent) == 3


def test_google_genai_does_not_retry(slept: list[float]) -> None:
    refusing = Refusing({"retry-after": "2"})
    options = genai_types.HttpOptions(httpx_client=httpx2.Client(transport=httpx2.MockTransport(refusing)))
    client = genai.Client(api_key="k", http_options=options)
    with pytest.raises(genai_errors.ClientError) as error:
        client.models.generate_content(model="g", contents="hi")
    assert error.value.code == 429
    assert (len(refusing.sent), slept) == (1, [])


def test_the_versions_are_those_of_the_table() -> None:
    pinned = (Path(__file__).parents[2] / "requirements-sdk.txt").read_text()
    is_old = sys.version_info < (3, 11)
    for name, wanted, of_old in re.findall(r'^([\w-]+)==([^\s;]+)(?:; python_version (<|>=) "3.11")?$', pinned, re.M):
        if not name.startswith("types-") and (of_old == "" or (of_old == "<") == is_old):
            assert version(name) == wanted, f"{name}: install clients/python/requirements-sdk.txt"
