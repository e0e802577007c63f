"""A real service for each test that wants one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from services import Service

from paceline.engine import take_leave


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """Each test begins without a connection."""
    yield
    take_leave()


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Service]]:
    """Starts services, with a configuration and at an address if wanted."""
    running: list[Service] = []

    def start(config: str = "", grpc: str = "127.0.0.1:0") -> Service:
        running.append(Service(config, grpc, tmp_path))
        return running[-1]

    yield start
    take_leave()
    for service in running:
        service.stop()


@pytest.fixture
def service(serve: Callable[..., Service]) -> Service:
    """A service without a configuration."""
    return serve()
