"""An application that is loaded, and calls, before gunicorn forks its workers (`--preload`)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

import paceline

limiter = paceline.Limiter(os.environ["PACELINE_ADDR"])
with limiter.slot("mine", model="m") as at_import:
    assert at_import.path == "served"


def app(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
    """Answers with who served the slot, and the process."""
    with limiter.slot("mine", model="m") as slot:
        start("200 OK", [("content-type", "text/plain")])
        return [f"{slot.path} {os.getpid()}".encode()]
