"""Names that are nearly right: what was meant is said once in the log, since nothing fails for it."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable

log = logging.getLogger("paceline")

METERS = frozenset(
    [
        "requests",
        "tokens",
        "input_tokens",
        "cached_input_tokens",
        "output_tokens",
        "images",
        "input_images",
        "audio_seconds",
        "characters",
        "usd",
    ]
)
"""Meters that people write; a service may have others of its own."""
VARIABLES = (
    "PACELINE_ADDR",
    "PACELINE_ACCOUNT",
    "PACELINE_TENANT",
    "PACELINE_MODE",
    "PACELINE_HOSTS",
    "PACELINE_FINGERPRINT_KEY",
)
"""What a worker reads of its environment."""
NOT_OURS = ("PACELINE_SERVE_", "PACELINE_PORT", "PACELINE_SERVICE_", "PACELINE_BIN", "PACELINE_PROVIDERS")
"""What the service reads, and what Kubernetes sets for a service of this name."""
NEARLY = 0.8
NEARLY_A_VARIABLE = 0.88
"""They have nine letters in common anyway."""

_told: set[str] = set()


def told_once(message: str) -> None:
    """Says it in the log, once in the life of the process."""
    if message not in _told:
        _told.add(message)
        log.warning("%s", message)


def meant(said: str, known: Iterable[str], nearly: float = NEARLY) -> str | None:
    """The known name that is nearly what was said."""
    import difflib

    found = difflib.get_close_matches(said, list(known), 1, nearly)
    return found[0] if found else None


def told_once_of_meter(where: str, meter: str) -> None:
    """Says which meter was probably meant."""
    known = meant(meter.lower(), METERS)
    if known is not None and not _is_a_window(meter):
        told_once(f"{where}: no provider that is known counts {meter!r}; did you mean {known!r}?")


def _is_a_window(meter: str) -> bool:
    """Whether a meter is one with its window, as `requests_day` is."""
    return meter.rpartition("_")[2] in ("second", "minute", "hour", "day", "week", "month")


def told_once_of_variables() -> None:
    """Says which variables of the environment are probably misspelt."""
    for name in os.environ:
        if name.startswith("PACELINE_") and name not in VARIABLES and not name.startswith(NOT_OURS):
            known = meant(name, VARIABLES, NEARLY_A_VARIABLE)
            if known is not None:
                told_once(f"the variable {name} means nothing to a worker; did you mean {known}?")
