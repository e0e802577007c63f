"""How often a call is sent: the service decides, and what somebody wrote into an SDK's client bounds it, whenever that was."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import anthropic
import openai
import pytest
from google import genai
from google.genai import errors as genai_errors
from google.genai import types as genai_types
from oddities import CHAT, SLOW_DOWN, Provider, answers, drops, provider
from programs import Program

import paceline
from paceline.transports.stainless import most_sends

ASK: Any = {"model": "m", "messages": [{"role": "user", "content": "x"}], "max_tokens": 9}
REFUSED = answers(429, SLOW_DOWN, retry_after_ms="5")
# As often as the class of a call allows; part of it is taken by earlier calls' retries.
ITS_CLASS = 5


@pytest.fixture
def at(start: Callable[..., Program], monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    """A provider that refuses everything, and a service that lets calls be sent again as often as their class has it."""
    # Nothing is taken from what one call may do by the retries of others.
    config = "retries: {share: 100%}\n"
    monkeypatch.setenv("PACELINE_ADDR", start("serve", config=config).grpc)
    with provider(REFUSED) as made:
        yield made


def sends(at: Provider, client: Any) -> int:
    before = len(at.requests)
    calls = client.chat.completions if hasattr(client, "chat") else client.messages
    # A quota of its own: what the one before learned makes nobody wait.
    fresh = paceline.context(account=f"prod-{len(at.requests)}")
    with fresh, pytest.raises((openai.RateLimitError, anthropic.RateLimitError)):
        calls.create(**ASK)
    return len(at.requests) - before


def clients(at: Provider, **options: Any) -> list[Any]:
    return [
        openai.OpenAI(base_url=f"{at.url}/v1", api_key="k-1234567", **options),
        anthropic.Anthropic(base_url=at.url, api_key="k-1234567", **options),
    ]


def wrapped(at: Provider, **options: Any) -> list[Any]:
    first, second = clients(at, **options)
    return [paceline.wrap(first, provider="openai"), paceline.wrap(second, provider="anthropic")]


def test_before_wrapping(at: Provider) -> None:
    assert [sends(at, client) for client in wrapped(at)] == [ITS_CLASS] * 2
    for retries, times in ((0, 1), (1, 2), (3, 4), (9, ITS_CLASS)):
        assert [sends(at, client) for client in wrapped(at, max_retries=retries)] == [times] * 2, retries


def test_with_options_after_wrapping(at: Provider) -> None:
    for client in wrapped(at):
        assert sends(at, client.with_options(max_retries=0)) == 1
        assert sends(at, client.copy(max_retries=1)) == 2
        # Of each copy by itself, and of copies of copies.
        assert sends(at, client) == ITS_CLASS
        once = client.with_options(max_retries=0).with_options(timeout=5)
        assert (type(once), once.timeout, once.max_retries) == (type(client), 5, 0)
        assert sends(at, once) == 1
        assert sends(at, once.with_options(max_retries=5)) == ITS_CLASS
        assert sends(at, once.with_options(max_retries=2)) == ITS_CLASS, "the SDK's own number says nothing"
    assert at.connections <= 2 * 2


def test_set_after_wrapping(at: Provider) -> None:
    for client in wrapped(at):
        client.max_retries = 0
        assert sends(at, client) == 1
        assert sends(at, client.with_options(timeout=5)) == 1
        client.max_retries = 1
        assert sends(at, client) == 2


async def test_of_an_asyncio_client(at: Provider) -> None:
    client = paceline.wrap(openai.AsyncOpenAI(base_url=f"{at.url}/v1", api_key="k-1234567"), provider="openai")
    with pytest.raises(openai.RateLimitError):
        await client.with_options(max_retries=0).chat.completions.create(**ASK)
    assert len(at.requests) == 1
    await client.close()


def test_the_lowest_bound_counts(at: Provider) -> None:
    client = wrapped(at, max_retries=3)[0]
    with paceline.context(attempts=2):
        assert sends(at, client) == 2
    with paceline.context(attempts=5):
        assert sends(at, client) == 4
    plain = clients(at, max_retries=7)[0]
    assert sends(at, paceline.wrap(plain, provider="openai", limiter=paceline.Limiter(attempts=3))) == 3


@pytest.mark.parametrize("first", [REFUSED, answers(500, {}), drops], ids=["429", "500", "drops"])
def test_once_is_once_whatever_comes(at: Provider, first: Any) -> None:
    at.script[:] = [first, answers(200, CHAT)]
    with pytest.raises((openai.APIStatusError, openai.APIConnectionError)):
        wrapped(at, max_retries=0)[0].chat.completions.create(**ASK)
    assert len(at.requests) == 1


def test_another_http_client_goes_past_us(at: Provider) -> None:
    """A client that is given another HTTP client sends through that one alone."""
    import httpx2

    client = wrapped(at)[0].with_options(http_client=httpx2.Client(), max_retries=0)
    assert sends(at, client) == 1
    assert "paceline-attempts" not in at.requests[-1][1]


def test_a_wrapped_client_ends_with_those_who_hold_it(at: Provider) -> None:
    once = paceline.wrap(paceline.wrap(clients(at, max_retries=0)[0], provider="openai"), provider="openai")
    assert sends(at, once) == 1


def test_what_is_no_number_says_nothing() -> None:
    class Client:
        max_retries: Any = None

    assert most_sends(object()) is None
    for said, most in ((None, None), (2, None), (0, 1), (1, 2), (-1, None)):
        Client.max_retries = said
        assert most_sends(Client()) == most, said


@pytest.mark.parametrize("kind", ["blocking", "asyncio"])
@pytest.mark.parametrize("where", ["client", "request"])
async def test_gemini_says_it_in_its_retry_options(at: Provider, kind: str, where: str) -> None:
    for attempts, times in ((1, 1), (3, 3), (None, ITS_CLASS)):
        retries = genai_types.HttpRetryOptions(attempts=attempts)
        options = genai_types.HttpOptions(base_url=at.url, retry_options=retries if where == "client" else None)
        client = paceline.wrap(genai.Client(api_key="AIza-1234567890", http_options=options), provider="gemini")
        config: Any = {"http_options": {"retry_options": retries}} if where == "request" else None
        before = len(at.requests)
        models = client.models if kind == "blocking" else client.aio.models
        with paceline.context(account=f"prod-{before}"), pytest.raises(genai_errors.ClientError):
            await _awaited(models.generate_content(model="g", contents="hi", config=config))
        assert len(at.requests) - before == times
        await client.aio.aclose()


async def _awaited(answer: Any) -> Any:
    return await answer if inspect.isawaitable(answer) else answer
