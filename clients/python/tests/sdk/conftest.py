"""A real service and a real mock provider for each test that wants them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from programs import Program


@pytest.fixture(scope="module")
def service() -> Iterator[Program]:
    """A service without a configuration, for all tests of a file."""
    program = Program("serve", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0")
    yield program
    program.stop()


@pytest.fixture
def account(service: Program, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """Each test has a quota of its own at it, and a process that asks there."""
    name = request.node.name[:60].replace("[", "-").replace("]", "")
    monkeypatch.setenv("PACELINE_ADDR", service.grpc)
    monkeypatch.setenv("PACELINE_ACCOUNT", name)
    return str(name)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Program]]:
    """Starts programs: `start("mock-provider", "--limit", ...)`, `start("serve", config="...")`."""
    running: list[Program] = []

    def begin(command: str, *arguments: str, config: str = "") -> Program:
        if command == "serve":
            arguments = ("--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", *arguments)
            if config:
                file = tmp_path / f"paceline-{len(running)}.yaml"
                file.write_text(config)
                arguments = (*arguments, "--config", str(file))
        running.append(Program(command, *arguments))
        return running[-1]

    yield begin
    for program in running:
        program.stop()


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the machine says is not what a test means."""
    for name in list(os.environ):
        if name.startswith("PACELINE_") and name != "PACELINE_BIN":
            monkeypatch.delenv(name)
        if name.lower() in ("http_proxy", "https_proxy", "all_proxy"):
            monkeypatch.delenv(name)
