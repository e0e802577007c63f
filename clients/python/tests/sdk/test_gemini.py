"""The SDK of google-genai, unmodified, through a real service, by whichever HTTP library it uses."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest
from google import genai
from google.genai import errors as genai_errors
from google.genai import types as genai_types
from oddities import GEMINI, answers, drops, provider, streams
from paced import nothing_held, used

import paceline


@pytest.mark.parametrize("wrapped", [True, False], ids=["wrap", "httpx_client"])
def test_gemini(service: Any, account: str, wrapped: bool) -> None:
    refusal = {
        "error": {
            "code": 429,
            "message": "quota",
            "status": "RESOURCE_EXHAUSTED",
            "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "0.2s"}],
        }
    }
    with provider(answers(429, refusal), answers(200, GEMINI)) as at:
        options = genai_types.HttpOptions(base_url=at.url)
        if not wrapped:
            options.httpx_client = paceline.httpx(provider="gemini")
        client = genai.Client(api_key="AIza-1234567890", http_options=options)
        if wrapped:
            client = paceline.wrap(client, hosts={at.host: "gemini"})
        answer = client.models.generate_content(model="g", contents="x" * 40)
        assert answer.text == "hello"
        assert len(at.requests) == 2
        at.script[:] = [streams(GEMINI)]
        assert [part.text for part in client.models.generate_content_stream(model="g", contents="hi")] == ["hello"]
        at.script[:] = [
            answers(
                429,
                {
                    "error": {
                        "code": 429,
                        "message": "x",
                        "status": "RESOURCE_EXHAUSTED",
                        "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "90000s"}],
                    }
                },
            )
        ]
        for _ in range(2):
            with pytest.raises(genai_errors.ClientError) as denied:
                client.models.generate_content(model="g", contents="hi")
        assert denied.value.status == "RESOURCE_EXHAUSTED"
        assert "Paceline" in str(denied.value)
        assert len(at.requests) == 4
    nothing_held(service, account)


async def test_gemini_for_asyncio_by_whatever_it_uses(service: Any, account: str) -> None:
    with provider(answers(503, {"error": {"code": 503, "message": "x", "status": "UNAVAILABLE"}}), answers(200, GEMINI)) as at:
        options = genai_types.HttpOptions(base_url=at.url)
        client = paceline.wrap(genai.Client(api_key="AIza-1234567890", http_options=options), hosts={at.host: "gemini"})
        answer = await client.aio.models.generate_content(model="g", contents="hi")
        assert answer.text == "hello"
        assert len(at.requests) == 2
        at.script[:] = [streams(GEMINI)]
        stream = await client.aio.models.generate_content_stream(model="g", contents="hi")
        assert [part.text async for part in stream] == ["hello"]
        await client.aio.aclose()
    await asyncio.to_thread(nothing_held, service, account)
    assert used(service, account, "requests") >= 2


@pytest.mark.parametrize("where", ["client", "request"])
async def test_gemini_does_not_retry_on_top(service: Any, account: str, where: str) -> None:
    again = genai_types.HttpRetryOptions(attempts=4, initial_delay=0.01)
    with provider(drops) as at, paceline.context(repeat="never"):
        options = genai_types.HttpOptions(base_url=at.url, retry_options=again if where == "client" else None)
        client = paceline.wrap(genai.Client(api_key="AIza-1234567890", http_options=options), provider="gemini")
        config: Any = {"http_options": {"retry_options": again}} if where == "request" else None
        with pytest.raises(Exception, match="disconnect"):
            client.models.generate_content(model="g", contents="hi", config=config)
        assert len(at.requests) == 1
        with pytest.raises(Exception, match=r"(?i)disconnect|reset"):
            await client.aio.models.generate_content(model="g", contents="hi", config=config)
        assert len(at.requests) == 2
        await client.aio.aclose()
    await asyncio.to_thread(nothing_held, service, account)


async def test_gemini_beside_gemini(service: Any, account: str) -> None:
    """The given client and the wrapped one live and end each for itself."""
    with provider(answers(200, GEMINI)) as at:
        plain = genai.Client(api_key="AIza-1234567890", http_options=genai_types.HttpOptions(base_url=at.url))
        await plain.aio.models.generate_content(model="g", contents="hi")
        plain.models.generate_content(model="g", contents="hi")
        wrapped = paceline.wrap(plain, provider="gemini")
        await wrapped.aio.models.generate_content(model="g", contents="hi")
        await wrapped.aio.aclose()
        wrapped.close()
        del wrapped
        gc.collect()
        await asyncio.sleep(0)
        plain.models.generate_content(model="g", contents="hi")
        await plain.aio.models.generate_content(model="g", contents="hi")
        assert at.connections == 2
        assert service.metric("paceline_acquires_total", account=account) == 1
        alone = paceline.wrap(plain, provider="gemini")
        del plain
        gc.collect()
        await asyncio.sleep(0)
        alone.models.generate_content(model="g", contents="hi")
        await alone.aio.models.generate_content(model="g", contents="hi")
        await alone.aio.aclose()
        assert service.metric("paceline_acquires_total", account=account) == 3
