"""The program under test, and how to wait for what it does."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


def binary() -> Path:
    """The program under test: from PACELINE_BIN, else as `cargo build` leaves it."""
    path = Path(os.environ.get("PACELINE_BIN", ROOT / "target" / "debug" / "paceline"))
    if not path.exists():
        pytest.fail(f"{path} does not exist: run `cargo build --package paceline`, or set PACELINE_BIN")
    return path


def eventually(holds: Callable[[], bool], otherwise: str = "it never held", within: float = 30.0) -> None:
    """Waits until something holds; the bound is generous, since machines are busy."""
    ends = time.monotonic() + within
    while not holds():
        assert time.monotonic() < ends, otherwise
        time.sleep(0.02)
