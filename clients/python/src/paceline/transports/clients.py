"""Clients of httpx and httpx2 that send through Paceline: made new, or beside one that is there."""

from __future__ import annotations

import copy
import importlib
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from paceline.transports.governor import Governor, governor
from paceline.transports.httpx_like import AsyncTransport, Transport, module_of

__all__ = ["beside", "made"]

# As many connections as today's SDKs allow.
_MOST_CONNECTIONS = 1_000
_MOST_KEPT = 100


def made(
    kind: str,
    provider: str | None,
    account: str | None,
    hosts: Mapping[str, str] | None,
    limiter: Any,
    module: ModuleType | None,
    options: dict[str, Any],
) -> Any:
    """A new `Client` or `AsyncClient`."""
    library = module or _library()
    options.setdefault("follow_redirects", True)
    options.setdefault("limits", library.Limits(max_connections=_MOST_CONNECTIONS, max_keepalive_connections=_MOST_KEPT))
    client = getattr(library, kind)(**options)
    # Wrapped once it is made: a client that is given a transport forgets the proxies of the environment.
    _wrap_transports(client, governor(provider, account, hosts, limiter), owns=True, keeps=None)
    return client


def beside(client: Any, governor: Governor) -> Any:
    """A client with the connections and everything else of `client`, which stays as it is. Closing it leaves
    them open.
    """
    twin = copy.copy(client)
    # What a client of its own event loop makes inside (google-genai) is made anew, and wrapped as it is made.
    if getattr(client, "_per_loop", False):
        inner = client._inner_client_cls

        def made_inside(**options: Any) -> Any:
            fresh = inner(**options)
            _wrap_transports(fresh, governor, owns=True, keeps=None)
            return fresh

        twin._loop_clients = {}
        twin._inner_client_cls = made_inside
        return twin
    _wrap_transports(twin, governor, owns=False, keeps=client)
    return twin


def _wrap_transports(client: Any, governor: Governor, *, owns: bool, keeps: Any) -> None:
    module = module_of(client)
    kind: Any = AsyncTransport if isinstance(client, module.AsyncClient) else Transport

    def wrapped(inner: Any) -> Any:
        return inner if inner is None or isinstance(inner, kind) else kind(inner, governor, module, owns=owns, keeps=keeps)

    client._transport = wrapped(client._transport)
    client._mounts = {pattern: wrapped(inner) for pattern, inner in client._mounts.items()}


def _library() -> ModuleType:
    for name in ("httpx2", "httpx"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    raise ImportError("paceline.httpx() needs httpx2 or httpx; SDKs such as openai bring one of them along")
