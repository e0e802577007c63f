"""The code of docs/recipes.md, run as written against a mock provider that refuses the first call.

Needs recipes/requirements.txt and this package installed: `python -m pytest clients/python/recipes`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "sdk"))

from programs import ROOT, Program

PAGE = ROOT / "docs" / "recipes.md"
SOURCES = Path(__file__).parents[1] / "src"


def recipe(title: str) -> str:
    """The first code under a heading."""
    found = re.search(rf"^## {title}\n.*?^```python\n(.*?)^```", PAGE.read_text(), re.M | re.S)
    assert found, title
    return found.group(1)


@pytest.fixture
def service() -> Iterator[Program]:
    program = Program("serve", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0")
    yield program
    program.stop()


@pytest.fixture
def mock() -> Iterator[Program]:
    program = Program("mock-provider", "--first", "1", "--status", "429", "--retry-after", "1")
    yield program
    program.stop()


def environment(mock: Program, service: Program) -> dict[str, str]:
    return {
        **os.environ,
        "PYTHONPATH": str(SOURCES),
        "OPENAI_API_KEY": "sk-test-1234567",
        "OPENAI_BASE_URL": f"http://{mock.http}/v1",
        "ANTHROPIC_API_KEY": "sk-ant-1234567",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "PACELINE_ADDR": service.grpc,
        "PACELINE_HOSTS": f"{mock.http}=openai",
    }


def run(code: str, mock: Program, service: Program) -> str:
    ended = subprocess.run(
        [sys.executable, "-c", code], env=environment(mock, service), capture_output=True, text=True, timeout=120
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_litellm(mock: Program, service: Program) -> None:
    more = f"""
import asyncio
ask = dict(messages=[{{"role": "user", "content": "hi"}}], max_tokens=5)
anthropic = dict(model="anthropic/claude-x", api_base="http://{mock.http}", **ask)
litellm.completion(**anthropic)

async def others():
    await litellm.acompletion(model="openai/gpt-4o", **ask)
    await litellm.acompletion(**anthropic)
    async for _ in await litellm.acompletion(model="openai/gpt-4o", stream=True, **ask):
        pass

asyncio.run(others())
print("usage", answer.usage.total_tokens)
"""
    assert "usage" in run(recipe("litellm") + more, mock, service)
    assert mock.stats()["sends"] == 6
    assert service.metric("paceline_reports_total", provider="openai", status="200", verdict="done") == 5


def test_langchain(mock: Program, service: Program) -> None:
    more = """
import asyncio
assert "mock answer" in "".join(part.content for part in model.stream("hi"))
asyncio.run(model.ainvoke("hi"))
print(answer.content)
"""
    assert "mock answer" in run(recipe("langchain") + more, mock, service)
    assert mock.stats()["sends"] == 4
    assert service.metric("paceline_reports_total", provider="openai", status="200", verdict="done") == 3


def test_langchain_with_anthropic(mock: Program, service: Program) -> None:
    code = f"""
import paceline
from langchain_anthropic import ChatAnthropic

paceline.patch()
print(ChatAnthropic(model="claude-x", base_url="http://{mock.http}", max_tokens=5).invoke("hi").content)
"""
    assert "mock answer" in run(code, mock, service)
    assert service.metric("paceline_reports_total", status="200", verdict="done") == 1


def test_celery(mock: Program, service: Program, tmp_path: Path) -> None:
    """Four processes that were forked after the client was made."""
    for name in ("queue", "results"):
        (tmp_path / name).mkdir()
    broker = f"""
app.conf.broker_url = "filesystem://"
app.conf.result_backend = "file://{tmp_path}/results"
app.conf.broker_transport_options = {{"data_folder_in": "{tmp_path}/queue", "data_folder_out": "{tmp_path}/queue"}}
"""
    (tmp_path / "summaries.py").write_text(recipe("Celery") + broker)
    said = {**environment(mock, service), "PYTHONPATH": f"{SOURCES}:{tmp_path}"}
    words = [sys.executable, "-m", "celery", "-A", "summaries", "worker", "--pool", "prefork", "-c", "4", "-l", "WARNING"]
    worker = subprocess.Popen(words, env=said, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    code = """
from summaries import summarise
results = [summarise.delay(f"text {number}") for number in range(20)]
assert all("mock answer" in result.get(timeout=90) for result in results)
"""
    try:
        ended = subprocess.run([sys.executable, "-c", code], env=said, cwd=tmp_path, capture_output=True, text=True, timeout=120)
        assert ended.returncode == 0, ended.stderr
    finally:
        worker.terminate()
        worker.wait(timeout=30)
    assert mock.stats()["sends"] == 21
    until = time.monotonic() + 10
    while service.metric("paceline_inflight", provider="openai") > 0 and time.monotonic() < until:
        time.sleep(0.05)
    assert service.metric("paceline_inflight", provider="openai") == 0
