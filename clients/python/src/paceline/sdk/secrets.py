"""What of an answer may be told: no credentials, no cookies, nothing that looks like a key."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

__all__ = ["HIDDEN", "MOST_BODY_BYTES", "clean_body", "clean_headers"]

MOST_BODY_BYTES = 8 * 1024
"""As much of an error's body as the service reads."""

HIDDEN = "[hidden]"

_SECRET_NAMES = re.compile(
    r"authori[sz]ation|cookie|secret|password|credential|signature|(^|-)token$|access-token|session|api-?key|(^|-)key$|x-amz-security",
    re.I,
)
# Addresses in headers (location, link) may carry keys in their query.
_QUERY = re.compile(r"\?[^\s>\"']*")
_KEY_LIKE = re.compile(
    r"\b(?:sk|pk|rk|gsk|xai|hf|r8|nvapi|pplx|csk|fw|ghp|gho|github_pat|sess)[-_][A-Za-z0-9*_\-]{6,}"
    r"|\bAIza[A-Za-z0-9_\-]{8,}|\bya29\.[A-Za-z0-9_\-.]+|\bAKIA[A-Z0-9]{8,}|\beyJ[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-.]+"
    r"|\b[Bb]earer\s+[A-Za-z0-9._\-*]{6,}|(?<=[?&])(?:key|api_key|apikey|token|access_token)=[^&\s\"']+"
)


def clean_headers(headers: Iterable[tuple[str, str]], secrets: Sequence[str] = ()) -> list[tuple[str, str]]:
    """Headers of an answer without those that may hold a secret, and without queries of addresses in them."""
    return [
        (name, _clean(_QUERY.sub("", value) if "://" in value or value.startswith("/") else value, secrets))
        for name, value in headers
        if not _SECRET_NAMES.search(name)
    ]


def clean_body(body: bytes, secrets: Sequence[str] = ()) -> bytes:
    """The start of an error's body, with what looks like a key taken out: some providers quote the key they
    refuse.
    """
    # Cleaned before it is cut: half a key is a key that no pattern knows.
    text = body[: 2 * MOST_BODY_BYTES].decode("utf-8", "replace")
    return _clean(text, secrets).encode()[:MOST_BODY_BYTES]


def _clean(text: str, secrets: Sequence[str]) -> str:
    for secret in secrets:
        if len(secret) >= 6:
            text = text.replace(secret, HIDDEN)
    return _KEY_LIKE.sub(HIDDEN, text)
