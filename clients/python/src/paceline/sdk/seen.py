"""A request as it is about to leave, whichever HTTP library made it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

__all__ = ["Seen", "header_map"]

# A form's field `model`, as uploads of audio and images carry it.
_FORM_MODEL = b'name="model"'


def header_map(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Headers by lower-case name; of repeated ones the last."""
    return {name.lower(): value for name, value in headers}


@dataclass(frozen=True)
class Seen:
    """Method, address, headers (names in lower case) and, where it could be read, the body of a request."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes | None = None
    host: str = field(init=False)
    path: str = field(init=False)
    query: Mapping[str, str] = field(init=False)
    json: Mapping[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        host = (parts.hostname or "").lower()
        port = parts.port
        usual = {"http": 80, "https": 443}.get(parts.scheme.lower())
        object.__setattr__(self, "method", self.method.upper())
        object.__setattr__(self, "host", host if port in (None, usual) else f"{host}:{port}")
        object.__setattr__(self, "path", parts.path)
        object.__setattr__(self, "query", dict(parse_qsl(parts.query)))
        object.__setattr__(self, "json", _parsed(self.body))

    @property
    def form_model(self) -> str:
        """The field `model` of a multipart form; empty where there is none."""
        _, found, after = (self.body or b"").partition(_FORM_MODEL)
        value = after.partition(b"\r\n\r\n")[2].partition(b"\r\n")[0] if found else b""
        return value.decode("utf-8", "replace").strip() if len(value) <= 256 else ""


def _parsed(body: bytes | None) -> Mapping[str, Any]:
    if not body or body.lstrip()[:1] != b"{":
        return {}
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
