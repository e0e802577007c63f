"""Whole programs: run unmodified through Paceline, and interrupted in the midst of everything."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from oddities import CHAT, SLOW_DOWN, answers, chunk, provider, streams

SOURCES = Path(__file__).parents[2] / "src"

# Unmodified: nothing of Paceline in it. It needs only what SDKs read from the environment.
WORKER = """
import asyncio, json, sys
import aiohttp, anthropic, httpx, openai, requests
from google import genai

url = sys.argv[1]
ask = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}

def blocking():
    openai.OpenAI(base_url=url + "/v1", api_key="k-1234567").chat.completions.create(**ask)
    httpx.post(url + "/v1/chat/completions", json=ask).raise_for_status()
    requests.post(url + "/v1/chat/completions", json=ask).raise_for_status()
    requests.get(url + "/v1/models").raise_for_status()

async def awaiting():
    await openai.AsyncOpenAI(base_url=url + "/v1", api_key="k-1234567").chat.completions.create(**ask)
    async with aiohttp.ClientSession() as session:
        async with session.post(url + "/v1/chat/completions", json=ask) as answer:
            answer.raise_for_status()
            json.loads(await answer.text())

if __name__ == "__main__":
    blocking()
    asyncio.run(awaiting())
    print("done", sys.argv[1:], __name__)
"""


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(SOURCES), **more}


def run(*words: str, cwd: Path, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "paceline", "run", *words],
        cwd=cwd,
        env=environment(**more),
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.parametrize("how", [("worker.py",), ("-m", "worker")], ids=["script", "module"])
def test_unmodified_code_is_run_through(how: tuple[str, ...], start: Callable[..., Any], tmp_path: Path) -> None:
    service = start("serve")
    (tmp_path / "worker.py").write_text(WORKER)
    with provider(answers(429, SLOW_DOWN, retry_after_ms="50"), answers(200, CHAT)) as at:
        ended = run(
            *how,
            at.url,
            "--flag",
            cwd=tmp_path,
            PACELINE_ADDR=service.grpc,
            PACELINE_HOSTS=f"{at.host}=openai",
            PACELINE_ACCOUNT="prod",
        )
        assert ended.returncode == 0, ended.stderr
        assert ended.stdout == f"done ['{at.url}', '--flag'] __main__\n"
        said = [line for line in ended.stderr.splitlines() if line.startswith("paceline:")]
        assert said == [
            f"paceline: calls of httpx, httpx2, requests, aiohttp to known providers go through the service at {service.grpc}"
        ]
        # Five calls, one of them twice, and one that asks for nothing.
        assert len(at.requests) == 7
    assert service.metric("paceline_acquires_total", account="prod", outcome="granted") >= 5
    assert service.metric("paceline_reports_total", provider="openai", status="200", verdict="done") == 5
    assert service.metric("paceline_inflight", account="prod") == 0


@pytest.mark.parametrize(
    ("mode", "said", "asked"),
    [("off", "paceline: mode off: nothing goes through Paceline", 0), ("shadow", "wait for nothing of", 5)],
)
def test_the_switch_for_one_worker(mode: str, said: str, asked: int, start: Callable[..., Any], tmp_path: Path) -> None:
    service = start("serve")
    (tmp_path / "worker.py").write_text(WORKER)
    with provider(answers(200, CHAT)) as at:
        ended = run("worker.py", at.url, cwd=tmp_path, PACELINE_MODE=mode, PACELINE_ADDR=service.grpc, PACELINE_ACCOUNT="prod")
        assert ended.returncode == 0, ended.stderr
        assert said in ended.stderr
        assert len(at.requests) == 6
    until = time.monotonic() + 10
    while service.metric("paceline_acquires_total", account="prod") != asked and time.monotonic() < until:
        time.sleep(0.05)
    assert service.metric("paceline_acquires_total", account="prod") == asked


def test_wrong_words_are_told(tmp_path: Path) -> None:
    ended = run(cwd=tmp_path)
    assert ended.returncode == 2
    assert "say what to run" in ended.stderr


def test_the_account_of_a_key(tmp_path: Path) -> None:
    from paceline.sdk.account import fingerprint

    command = [sys.executable, "-m", "paceline", "fingerprint", "--key-env", "MY_KEY"]
    ended = subprocess.run(command, env=environment(MY_KEY="sk-1234567"), capture_output=True, text=True, timeout=60)
    assert ended.stdout.strip() == fingerprint("sk-1234567")
    missing = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=60)
    assert missing.returncode == 2
    assert "MY_KEY is not set" in missing.stderr


INTERRUPTED = """
import asyncio, sys, threading
import openai, paceline

url, kind = sys.argv[1:]
ask = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}

async def streaming(client):
    async for _ in await client.chat.completions.create(**ask, stream=True):
        print("streaming", flush=True)

async def main():
    client = openai.AsyncOpenAI(base_url=url + "/v1", api_key="k-1234567", http_client=paceline.aio.httpx(provider="openai"))
    await asyncio.gather(*(streaming(client) for _ in range(20)))

if kind == "asyncio":
    asyncio.run(main())
else:
    client = openai.OpenAI(base_url=url + "/v1", api_key="k-1234567", http_client=paceline.httpx(provider="openai"))
    for _ in client.chat.completions.create(**ask, stream=True):
        print("streaming", flush=True)
"""


@pytest.mark.parametrize("kind", ["asyncio", "blocking"])
def test_ctrl_c_leaves_nothing_held(kind: str, start: Callable[..., Any], tmp_path: Path) -> None:
    """Streams under way and calls in line: what is held is reported or given back before the process ends."""
    import threading

    limits = "{limits: {requests: {limit: 60, per: 1m, burst: 4}}}"
    service = start("serve", config=f"providers: {{openai: {{accounts: {{prod: {limits}}}}}}}\n")
    (tmp_path / "worker.py").write_text(textwrap.dedent(INTERRUPTED))
    over = threading.Event()
    with provider(streams(chunk("x" * 40), hold=over)) as at:
        worker = subprocess.Popen(
            [sys.executable, "worker.py", at.url, kind],
            cwd=tmp_path,
            env=environment(PACELINE_ADDR=service.grpc, PACELINE_ACCOUNT="prod"),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert worker.stdout is not None
        assert worker.stdout.readline() == "streaming\n"
        if kind == "asyncio":
            until = time.monotonic() + 10
            while service.metric("paceline_queue_depth", provider="openai") < 5 and time.monotonic() < until:
                time.sleep(0.02)
            assert service.metric("paceline_queue_depth", provider="openai") >= 5
        assert service.metric("paceline_inflight", account="prod") >= 1
        worker.send_signal(signal.SIGINT)
        worker.wait(timeout=20)
        worker.stdout.close()
        until = time.monotonic() + 5
        held = -1.0
        while held != 0 and time.monotonic() < until:
            held = service.metric("paceline_inflight", account="prod") + service.metric("paceline_queue_depth", provider="openai")
        over.set()
    assert held == 0
    # Told by the worker, not found out by the end of a lease.
    assert service.metric("paceline_leases_expired_total", account="prod") == 0


@pytest.mark.parametrize(
    ("words", "more", "says"),
    [
        (("nothing.py",), {}, "there is no script 'nothing.py' in "),
        (("-m", "nothing_here.worker"), {}, "there is no module 'nothing_here.worker'"),
        (("-m",), {}, "-m wants a module"),
        (("-X", "dev"), {}, "the option -X does not exist here"),
        (("worker.py",), {"PACELINE_MODE": "on"}, "PACELINE_MODE: 'on' does not exist; it is one of enforce, shadow, off"),
        (("worker.py",), {"PACELINE_ADDR": "nowhere"}, "the address 'nowhere' cannot be used"),
        (("worker.py",), {"PACELINE_HOSTS": "http://x=openai"}, "PACELINE_HOSTS: 'http://x' is not a host; write 'x'"),
    ],
)
def test_what_cannot_be_run_is_told_in_a_line(words: tuple[str, ...], more: dict[str, str], says: str, tmp_path: Path) -> None:
    (tmp_path / "worker.py").write_text("print('run')")
    ended = run(*words, cwd=tmp_path, **more)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("python -m paceline run: ")
    assert says in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_code_and_scripts_behind_a_dash_are_run(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text("import sys\nprint(sys.argv, __name__)")
    assert run("--", "x.py", "-a", cwd=tmp_path).stdout == "['x.py', '-a'] __main__\n"
    ended = run("-c", "import sys, x\nprint(sys.argv, __name__)", "b", cwd=tmp_path)
    assert ended.stdout == "['-c', 'b'] x\n['-c', 'b'] __main__\n"


def test_a_traceback_is_the_programs_own(tmp_path: Path) -> None:
    (tmp_path / "worker.py").write_text("def fails():\n    raise KeyError('mine')\n\nfails()")
    for words in (("worker.py",), ("-m", "worker")):
        ended = run(*words, cwd=tmp_path)
        assert ended.returncode == 1
        assert "KeyError: 'mine'" in ended.stderr
        assert ended.stderr.count('  File "') == 2
        assert "runpy" not in ended.stderr
