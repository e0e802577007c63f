"""A denial in the shape of the provider's own refusal, so that SDK code meets the error it knows."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

from paceline.sdk.places import Family

__all__ = ["DENIED_STATUS", "Last", "denial_answer"]

DENIED_STATUS = 429


@dataclass(frozen=True)
class Last:
    """What the provider said to the attempt before."""

    status: int
    body: bytes


def denial_answer(
    family: Family,
    reason: str,
    detail: str,
    retry_after: float | None,
    request_id: str,
    last: Last | None = None,
) -> tuple[list[tuple[str, str]], bytes]:
    """Headers and body of a 429 that says why Paceline did not let a call go.

    `reason` is the service's, in lower case (`deadline`); `retry_after` is in seconds, `None` for never.
    `x-should-retry: false` keeps SDKs from asking again by themselves.
    """
    code = f"paceline_{reason}"
    headers = [
        ("content-type", "application/json"),
        ("x-should-retry", "false"),
        ("paceline-denied", reason),
        ("paceline-request-id", request_id),
    ]
    if retry_after is not None:
        headers.append(("retry-after", str(max(0, math.ceil(retry_after)))))
    error = _error(family, code, f"Paceline did not let this call go ({reason}): {detail}")
    inside = error["error"]
    inside["paceline"] = {
        "reason": reason,
        "detail": detail,
        "retry_after_s": retry_after,
        "request_id": request_id,
    }
    if last is not None:
        inside["paceline"]["provider_answer"] = {"status": last.status, "body": _readable(last.body)}
    return headers, json.dumps(error).encode()


def _error(family: Family, code: str, message: str) -> dict[str, Any]:
    if family == "anthropic":
        return {"type": "error", "error": {"type": "rate_limit_error", "message": message, "code": code}}
    if family == "gemini":
        reason = {
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": code.upper(),
            "domain": "paceline",
        }
        return {
            "error": {
                "code": DENIED_STATUS,
                "message": message,
                "status": "RESOURCE_EXHAUSTED",
                "details": [reason],
            }
        }
    return {"error": {"message": message, "type": "rate_limit_error", "param": None, "code": code}}


def _readable(body: bytes) -> object:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return body.decode("utf-8", "replace")
