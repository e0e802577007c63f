"""Streams of the SDK of openai: told at the first byte, settled at their end, however that comes."""

from __future__ import annotations

import asyncio
import gc
import threading
from typing import Any

import httpx2
import openai
import pytest
from oddities import chunk, provider, streams
from paced import ASK, ESTIMATE, USAGE, nothing_held, through, used

import paceline
from under_test import eventually


def test_a_stream_is_settled_by_what_it_says(service: Any, account: str) -> None:
    with provider(streams(chunk("hello"), USAGE, "[DONE]")) as at:
        client = through(at)
        events = list(client.chat.completions.create(**ASK, stream=True, stream_options={"include_usage": True}))
        assert [event.choices[0].delta.content for event in events if event.choices] == ["hello"]
        eventually(lambda: used(service, account, "tokens") == 7, "its usage was not told")
        client.chat.completions.create(**ASK, stream=True).close()
    assert at.connections <= 2
    nothing_held(service, account)


@pytest.mark.parametrize("how", ["cut by the provider", "left by its reader", "forgotten by its reader"])
def test_a_stream_cut_midway_is_settled_by_our_count(service: Any, account: str, how: str) -> None:
    over = threading.Event()
    with provider(streams(*[chunk("x" * 40)] * 10, cut=True, hold=None if how.startswith("cut") else over)) as at:
        stream = through(at).chat.completions.create(**ASK, max_tokens=5_000, stream=True)
        if how.startswith("cut"):
            with pytest.raises((openai.APIConnectionError, httpx2.TransportError)):
                list(stream)
        else:
            for _ in range(10):
                next(iter(stream))
            assert service.metric("paceline_inflight", account=account) == 1
            if how.startswith("left"):
                stream.close()
            del stream
            # An answer and its stream hold each other.
            gc.collect()
        nothing_held(service, account)
        over.set()
    assert len(at.requests) == 1, "a stream past its first byte was sent again"
    # Ten pieces of ten tokens, and the prompt; not the 5,000 that were reserved.
    assert used(service, account, "tokens") == ESTIMATE + 100


async def test_a_cancelled_stream_is_settled_too(service: Any, account: str) -> None:
    over = threading.Event()
    with provider(streams(*[chunk("x" * 40)] * 10, hold=over)) as at:
        client = openai.AsyncOpenAI(
            base_url=f"{at.url}/v1", api_key="k-1234567", http_client=paceline.aio.httpx(provider="openai")
        )
        seen = asyncio.Event()

        async def read() -> None:
            async with await client.chat.completions.create(**ASK, max_tokens=5_000, stream=True) as stream:
                count = 0
                async for _ in stream:
                    count += 1
                    if count == 10:
                        seen.set()

        task = asyncio.create_task(read())
        await asyncio.wait_for(seen.wait(), 20)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        over.set()
    await asyncio.to_thread(nothing_held, service, account)
    assert used(service, account, "tokens") == ESTIMATE + 100


async def test_streams_beside_the_service(service: Any, account: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In shadow a stream is what it is without us, and is told all the same."""
    monkeypatch.setenv("PACELINE_MODE", "shadow")
    with provider(streams(chunk("hello"), USAGE, "[DONE]")) as at:
        async with openai.AsyncOpenAI(
            base_url=f"{at.url}/v1", api_key="k-1234567", http_client=paceline.aio.httpx(provider="openai")
        ) as client:
            raw = await client.chat.completions.with_raw_response.create(**ASK, stream=True)
            assert "paceline-attempts" not in raw.headers
            assert [event.choices[0].delta.content async for event in raw.parse() if event.choices] == ["hello"]
    await asyncio.to_thread(eventually, lambda: used(service, account, "tokens") == 7, "its usage was not told")
    await asyncio.to_thread(nothing_held, service, account)
