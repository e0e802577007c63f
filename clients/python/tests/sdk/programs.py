"""The binary under test, run as a service or as a mock provider."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import urllib.request
from typing import Any

from under_test import ROOT, binary

__all__ = ["ROOT", "Program", "binary"]


class Program:
    """A command of `paceline` in a process of its own."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen([str(binary()), *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self.process.stdout is not None
        self.grpc = self.http = ""
        for line in self.process.stdout:
            found = re.search(r"listening (?:grpc=(\S+) )?http=(\S+)", line)
            if found:
                self.grpc, self.http = found.group(1) or "", found.group(2)
                break
        assert self.http, f"paceline {arguments[0]} did not start"

    def get(self, path: str) -> bytes:
        """What its HTTP side says."""
        with urllib.request.urlopen(f"http://{self.http}{path}", timeout=10) as answer:
            body: bytes = answer.read()
            return body

    def stats(self) -> dict[str, Any]:
        """Of a mock provider: what it saw."""
        found: dict[str, Any] = json.loads(self.get("/mock/stats"))
        return found

    def metric(self, name: str, **labels: str) -> float:
        """Of a service: the sum of all series of a metric that have these labels."""
        total = 0.0
        for line in self.get("/metrics").decode().splitlines():
            if re.match(rf"{name}(\{{| )", line) and all(f'{key}="{value}"' in line for key, value in labels.items()):
                total += float(line.rpartition(" ")[2])
        return total

    def stop(self) -> None:
        """Ends it at once."""
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()

    def interrupt(self) -> None:
        """As Ctrl-C does."""
        self.process.send_signal(signal.SIGINT)
