"""Fifty tasks and one limit: the SDKs through Paceline, next to the same SDKs alone."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import anthropic
import openai
import pytest

import paceline

TASKS = 50
# Thirty calls a second, sixty at once; each task makes seven calls: ten seconds of work for a fleet that keeps to the limit.
LIMIT = "requests=1800/min,burst=60"
CALLS_EACH = 7


@dataclass
class Row:
    """What one fleet did."""

    name: str
    seconds: float
    sent: int
    rejected: int
    lost: int

    @property
    def share(self) -> float:
        return self.rejected / max(self.sent, 1)

    def __str__(self) -> str:
        return f"{self.name:<28}{self.sent:>7}{self.rejected:>10}{self.share:>10.1%}{self.lost:>12}{self.seconds:>10.1f}"


def openai_call(client: Any) -> Any:
    return client.chat.completions.create(model="gpt-4o", messages=[{"role": "user", "content": "hi"}], max_tokens=16)


def anthropic_call(client: Any) -> Any:
    return client.messages.create(model="claude", messages=[{"role": "user", "content": "hi"}], max_tokens=16)


async def fleet(name: str, mock: Any, client: Any, call: Callable[[Any], Any]) -> Row:
    """Every task makes its calls one after the other; a call that ends in an error of the limit is lost to it."""
    lost = 0

    async def task() -> None:
        nonlocal lost
        for _ in range(CALLS_EACH):
            try:
                await call(client)
            except (openai.RateLimitError, anthropic.RateLimitError):
                lost += 1

    started = time.monotonic()
    await asyncio.gather(*(task() for _ in range(TASKS)))
    seconds = time.monotonic() - started
    stats = await asyncio.to_thread(mock.stats)
    await client.close()
    return Row(name, seconds, stats["sends"], stats["rejected"], lost)


@pytest.mark.parametrize("sdk", ["openai", "anthropic"])
async def test_fifty_tasks_beside_the_same_sdk_alone(
    sdk: str, start: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # The rest of the burst that the provider bears is left for what a busy machine bunches: one that stands still for a second
    # sends a second's calls at once.
    config = f"""
providers:
  {sdk}:
    accounts:
      prod: {{limits: {{requests: {{limit: 1800, per: 1m, burst: 5}}}}}}
"""
    service = start("serve", config=config)
    monkeypatch.setenv("PACELINE_ADDR", service.grpc)
    rows = []
    for through in (False, True):
        # The mock's own headers are OpenAI's; anybody else says only when to come again.
        dialect = "openai" if sdk == "openai" else "retry-after"
        mock = start("mock-provider", "--limit", LIMIT, "--latency", "50ms", "--dialect", dialect)
        http = {"http_client": paceline.aio.httpx(provider=sdk, account="prod")} if through else {}
        name = f"{sdk} through Paceline" if through else f"{sdk} alone"
        if sdk == "openai":
            client: Any = openai.AsyncOpenAI(base_url=f"http://{mock.http}/v1", api_key="k-1234567", **http)
            rows.append(await fleet(name, mock, client, openai_call))
        else:
            client = anthropic.AsyncAnthropic(base_url=f"http://{mock.http}", api_key="k-1234567", **http)
            rows.append(await fleet(name, mock, client, anthropic_call))
    with capsys.disabled():
        print(f"\n\n{'fleet of 50 tasks':<28}{'sent':>7}{'rejected':>10}{'':>10}{'calls lost':>12}{'seconds':>10}")
        print("\n".join(map(str, rows)))
    alone, ours = rows
    assert alone.share > 0.2, "the limit is too loose: the SDK alone has no trouble"
    assert alone.lost > 0
    assert ours.share <= 0.005
    assert ours.lost == 0
    assert ours.sent == TASKS * CALLS_EACH + ours.rejected
