"""A real service for each test that wants one."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

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

    def stop(self) -> None:
        """Ends it at once."""
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Service]]:
    """Starts services, with a configuration and at an address if wanted."""
    running: list[Service] = []

    def start(config: str = "", grpc: str = "127.0.0.1:0") -> Service:
        running.append(Service(config, grpc, tmp_path))
        return running[-1]

    yield start
    for service in running:
        service.stop()


@pytest.fixture
def service(serve: Callable[..., Service]) -> Service:
    """A service without a configuration."""
    return serve()
