"""What users write, for mypy --strict alone: it says what type everything has, and is never run."""

from __future__ import annotations

import aiohttp
import anthropic
import httpx
import httpx2
import openai
import requests
from google import genai
from typing_extensions import assert_type

import paceline

assert_type(paceline.httpx(provider="openai"), httpx2.Client)
assert_type(paceline.aio.httpx(limiter=paceline.Limiter()), httpx2.AsyncClient)
assert_type(paceline.requests(), requests.Session)

openai.OpenAI(http_client=paceline.httpx())
openai.AsyncOpenAI(http_client=paceline.aio.httpx())
anthropic.Anthropic(http_client=paceline.httpx())
older: httpx.Client = paceline.httpx(module=httpx)

assert_type(paceline.wrap(openai.OpenAI()), openai.OpenAI)
assert_type(paceline.wrap(genai.Client()), genai.Client)


async def awaiting() -> None:
    assert_type(paceline.aio.aiohttp(), aiohttp.ClientSession)
    async with paceline.aio.Limiter().slot("openai", model="gpt-4o") as slot:
        assert_type(slot, paceline.aio.Slot)
