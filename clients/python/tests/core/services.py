"""A real service in a process of its own, and how to wait for what it does."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def binary() -> Path:
    """The program under test: from PACELINE_BIN, else as `cargo build` leaves it."""
    root = Path(__file__).resolve().parents[4]
    path = Path(os.environ.get("PACELINE_BIN", root / "target" / "debug" / "paceline"))
    if not path.exists():
        pytest.fail(f"{path} does not exist: run `cargo build --package paceline`, or set PACELINE_BIN")
    return path


class Service:
    """`paceline serve` in a process of its own."""

    def __init__(self, config: str = "", grpc: str = "127.0.0.1:0", directory: Path | None = None) -> None:
        arguments = [str(binary()), "serve", "--grpc", grpc, "--http", "127.0.0.1:0"]
        if config:
            assert directory is not None
            file = directory / f"paceline-{id(self)}.yaml"
            file.write_text(config)
            arguments += ["--config", str(file)]
        self.process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self.process.stdout is not None
        self.addr = self.http = ""
        for line in self.process.stdout:
            found = re.search(r"listening grpc=(\S+) http=(\S+)", line)
            if found:
                self.addr, self.http = found.groups()
                break
        assert self.addr, "paceline serve did not start"

    def status(self) -> dict[str, Any]:
        """What `paceline status` says."""
        said = subprocess.run([str(binary()), "status", "--addr", self.addr, "--json"], capture_output=True, check=True)
        answer: dict[str, Any] = json.loads(said.stdout)
        return answer

    def scope(self, provider: str) -> dict[str, Any]:
        """What it says of a provider's scope, all zero where there is none."""
        for scope in self.status()["scopes"]:
            if scope["provider"] == provider:
                found: dict[str, Any] = scope
                return found
        return {"in_flight": 0, "waiting": 0}

    def freeze(self) -> None:
        """Stops it without a word: connections stay open, nothing is answered."""
        self.process.send_signal(signal.SIGSTOP)
        os.waitpid(self.process.pid, os.WUNTRACED)  # a signal takes its time

    def thaw(self) -> None:
        """Lets it go on."""
        self.process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """Ends it at once."""
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


def eventually(holds: Callable[[], bool], within: float = 10.0) -> None:
    """Waits until something holds; the bound is generous, since machines are busy."""
    ends = time.monotonic() + within
    while not holds():
        assert time.monotonic() < ends, "it never held"
        time.sleep(0.02)
