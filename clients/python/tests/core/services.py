"""A real service in a process of its own."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

from under_test import binary, eventually

__all__ = ["FAST", "ONE_AT_A_TIME", "Service", "eventually"]

ONE_AT_A_TIME = """
providers:
  mine:
    dialect: generic
    models:
      "*": {limits: {requests: 6000/min}, concurrency: 1, start_level: full}
"""
FAST = """
providers:
  mine:
    dialect: generic
    models:
      "*": {limits: {requests: 600000/min}, start_level: full}
"""


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
