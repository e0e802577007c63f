"""Clients of openai, anthropic and SDKs built like them: an HTTP client inside, `copy`, and a number of retries."""

from __future__ import annotations

import sys
import weakref
from dataclasses import replace
from typing import Any

from paceline.transports.clients import beside
from paceline.transports.governor import Governor

__all__ = ["governed", "most_sends"]

# Of an SDK that does not say its own.
_DEFAULT_RETRIES = 2


def governed(client: Any, governor: Governor) -> Any:
    """A client beside another one, with its connections and everything else, whose calls `governor` governs."""
    return _made(client.copy, client._client, governor, {})


def _made(copy: Any, connections: Any, governor: Governor, changes: dict[str, Any]) -> Any:
    own = replace(governor)
    made = copy(**changes, http_client=beside(connections, own))
    alive, at_first = weakref.ref(made), most_sends(made)

    def bound() -> int | None:
        """Read at each call: the number may be set later."""
        there = alive()
        return at_first if there is None else most_sends(there)

    own.bound = bound
    of_its_kind = type(made).copy

    def copy_of_it(**changed: Any) -> Any:
        """As the SDK's own; the copy has a number of its own."""
        if changed.get("http_client") is not None:
            return of_its_kind(made, **changed)
        changed.pop("http_client", None)
        return _made(of_its_kind.__get__(made), connections, governor, changed)

    made.copy = made.with_options = copy_of_it
    return made


def most_sends(client: Any) -> int | None:
    """How often a client sends a call at most, if somebody said so: a number that is not the SDK's own."""
    retries = getattr(client, "max_retries", None)
    if not isinstance(retries, int) or retries < 0 or retries == _default_of(client):
        return None
    return retries + 1


def _default_of(client: Any) -> int:
    for cls in type(client).__mro__:
        package = sys.modules.get(cls.__module__.partition(".")[0])
        default = getattr(package, "DEFAULT_MAX_RETRIES", None)
        if isinstance(default, int):
            return default
    return _DEFAULT_RETRIES
