"""What tests of SDKs and HTTP libraries have in common: clients that send through a service, and what that counts."""

from __future__ import annotations

from typing import Any

import openai
from oddities import CHAT, SLOW_DOWN, Provider, answers

import paceline
from under_test import eventually

ASK: Any = {"model": "m", "messages": [{"role": "user", "content": "x" * 40}]}
# Ten tokens of text and four for the message.
ESTIMATE = 14
REFUSED_ONCE = (answers(429, SLOW_DOWN, retry_after_ms="120"), answers(200, CHAT))
USAGE = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [], "usage": CHAT["usage"]}


def nothing_held(service: Any, account: str) -> None:
    eventually(lambda: service.metric("paceline_inflight", account=account) == 0, "a call is still held")


def used(service: Any, account: str, meter: str) -> float:
    return float(
        sum(service.metric("paceline_units_total", account=account, meter=meter, kind=kind) for kind in ("first", "retry"))
    )


def asked(service: Any, account: str) -> float:
    return float(service.metric("paceline_acquires_total", account=account, outcome="granted"))


def open_ai(at: Provider, **options: Any) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{at.url}/v1", api_key="sk-test-1234567", **options)


def through(at: Provider, **options: Any) -> openai.OpenAI:
    return open_ai(at, http_client=paceline.httpx(hosts={at.host: "openai"}), **options)
