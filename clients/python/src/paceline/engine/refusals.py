"""What an error that the service answers with means for the worker."""

from __future__ import annotations

from typing import Any

from paceline.errors import Refused
from paceline.timing import seconds

CODES = (
    "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
    "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED",
    "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
)  # fmt: skip
"""The names of google.rpc.Code, by number."""
ELSEWHERE = frozenset(["CANCELLED", "DEADLINE_EXCEEDED", "ABORTED", "UNAVAILABLE"])
"""This replica did not answer; another may."""
STAY_AWAY = 1.0
"""How long to stay away from a service that protects itself and does not say, in seconds."""


def again_in(error: Any) -> float | None:
    """After how many seconds to say it again; 0: at once, elsewhere; ``None``: never."""
    code = name_of(error.code)
    if code in ELSEWHERE:
        return 0.0
    if code != "RESOURCE_EXHAUSTED":
        return None
    from google.rpc.error_details_pb2 import RetryInfo

    info = RetryInfo()
    for detail in error.details:
        if detail.Unpack(info) and info.HasField("retry_delay"):
            return max(seconds(info.retry_delay), 0.05)
    return STAY_AWAY


def refusal(error: Any) -> Refused:
    """The error for the caller, with each field that is wrong."""
    from google.rpc.error_details_pb2 import BadRequest

    bad, fields = BadRequest(), []
    for detail in error.details:
        if detail.Unpack(bad):
            fields += [(violation.field, violation.description) for violation in bad.field_violations]
    return Refused(name_of(error.code), error.message, fields)


def name_of(code: int) -> str:
    """The name of a google.rpc.Code."""
    return CODES[code] if 0 <= code < len(CODES) else "UNKNOWN"
