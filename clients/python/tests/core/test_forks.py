"""Processes that fork, and processes that end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from services import Service, eventually

HERE = Path(__file__).parent / "forks"
MINE = """
providers:
  mine:
    dialect: generic
    models:
      "*": {limits: {requests: 600000/min}, concurrency: 100, start_level: full}
"""


@pytest.fixture
def service(serve: Callable[..., Service]) -> Service:
    return serve(MINE)


def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(HERE / program), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize("how", ["lazy", "called", "busy", "grpc-first"])
def test_os_fork(service: Service, how: str) -> None:
    done = run("by_os.py", service.addr, how)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("child served") == 3
    assert "parent served" in done.stdout
    eventually(lambda: service.scope("mine")["in_flight"] == 0)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_multiprocessing(service: Service, method: str) -> None:
    done = run("by_multiprocessing.py", service.addr, method)
    assert done.returncode == 0, done.stderr
    assert "parent served" in done.stdout
    eventually(lambda: service.scope("mine")["in_flight"] == 0)


def test_a_child_does_not_keep_its_parents_connection(service: Service) -> None:
    """When the parent is gone, its stream is gone as well: nothing renews its leases."""
    program = (
        "import os, sys, time, paceline\n"
        "held = paceline.Limiter(sys.argv[1]).begin(paceline.Ask('mine', model='m', run_time=1.0)).acquire()\n"
        "held.sent()\n"
        "if os.fork() == 0:\n"
        "    sys.stdout.close(); sys.stderr.close(); os.close(1); os.close(2); time.sleep(30); os._exit(0)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", program, service.addr], capture_output=True, timeout=60, check=False)
    # The child lives for longer than that.
    eventually(lambda: service.scope("mine")["in_flight"] == 0, within=20.0)


@pytest.fixture
def started() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    running: list[subprocess.Popen[str]] = []

    def start(command: list[str], **environment: str) -> subprocess.Popen[str]:
        place = {**os.environ, **environment, "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path])}
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, env=place, stdout=pipe, stderr=subprocess.STDOUT, text=True, cwd=HERE)
        running.append(process)
        return process

    yield start
    for process in running:
        process.terminate()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        assert process.stdout is not None
        process.stdout.close()


def test_gunicorn_preload(service: Service, started: Callable[..., subprocess.Popen[str]]) -> None:
    command = [sys.executable, "-m", "gunicorn", "--preload", "--workers", "3", "--bind", "127.0.0.1:0", "gunicorn_app:app"]
    process = started(command, PACELINE_ADDR=service.addr)
    assert process.stdout is not None
    url = ""
    for line in process.stdout:
        if "Listening at: " in line:
            url = line.partition("Listening at: ")[2].split()[0]
            break
    assert url, "gunicorn did not start"
    workers = set()
    ends = time.monotonic() + 30
    while len(workers) < 2:
        assert time.monotonic() < ends
        with urllib.request.urlopen(url, timeout=10) as answer:
            path, pid = answer.read().decode().split()
        assert path == "served"
        workers.add(pid)
    assert str(process.pid) not in workers


def test_celery_prefork(service: Service, started: Callable[..., subprocess.Popen[str]], tmp_path: Path) -> None:
    for name in ("in", "done", "results"):
        (tmp_path / name).mkdir()
    place = {"PACELINE_ADDR": service.addr, "CELERY_ROOT": str(tmp_path)}
    worker = [sys.executable, "-m", "celery", "-A", "celery_app", "worker", "--pool", "prefork", "--concurrency", "2"]
    started([*worker, "--without-gossip", "--without-mingle", "--without-heartbeat"], **place)
    ask = "from celery_app import work\nsent = [work.delay() for _ in range(8)]\nprint([one.get(timeout=40) for one in sent])"
    asked = started([sys.executable, "-c", ask], **place)
    out, _ = asked.communicate(timeout=60)
    assert asked.returncode == 0, out
    answers = eval(out.strip().splitlines()[-1])
    assert [path for path, _ in answers] == ["served"] * 8


@pytest.mark.parametrize(
    ("how", "code"),
    [
        ("held", 0),
        ("sent", 0),
        ("waiting", 0),
        ("raised", 3),
        ("interrupted", -signal.SIGINT),
        ("interrupted-waiting", -signal.SIGINT),
        ("loop", -signal.SIGINT),
    ],
)
def test_a_process_that_ends_leaves_nothing_held(serve: Callable[..., Service], how: str, code: int) -> None:
    service = serve(MINE.replace("concurrency: 100", "concurrency: 1"))
    done = run("at_exit.py", service.addr, how)
    assert done.returncode in (code, 130 if code < 0 else code), done.stderr
    # Nothing waits for a lease to run out: the service would give it a minute.
    eventually(lambda: service.scope("mine")["in_flight"] == 0 and service.scope("mine")["waiting"] == 0)


def test_a_process_that_ends_does_not_wait_for_a_dead_service(service: Service) -> None:
    program = (
        "import os, signal, sys, paceline\n"
        "held = paceline.Limiter(sys.argv[1]).begin(paceline.Ask('mine', model='m')).acquire()\n"
        "os.kill(int(sys.argv[2]), signal.SIGSTOP)\n"
    )
    arguments = [sys.executable, "-c", program, service.addr, str(service.process.pid)]
    # One that waits for an answer waits for ever.
    subprocess.run(arguments, capture_output=True, timeout=60, check=True)
