"""Clients of google-genai."""

from __future__ import annotations

import asyncio
import copy
from contextlib import AbstractContextManager
from typing import Any

from paceline.inherited import context, here
from paceline.transports.clients import beside
from paceline.transports.governor import Governor

__all__ = ["governed"]

# Parts of a client of google-genai within parts of it.
_DEEPEST = 3


def governed(client: Any, governor: Governor) -> Any:
    """A client beside another one. google-genai keeps one API client that all its parts share: a twin of each part, with a
    twin of that client inside.
    """
    old = client._api_client
    new = copy.copy(old)
    new._httpx_client = beside(old._httpx_client, governor)
    if old._async_httpx_client is not None:
        new._async_httpx_client = beside(old._async_httpx_client, governor)
    _with_sessions(new, old, governor)
    if governor.mode == "enforce":
        _without_retries(new)
    twin = _with(client, old, new, depth=0)
    # One that nobody holds closes its connections.
    twin._paceline_keeps = client
    return twin


def _with_sessions(new: Any, old: Any, governor: Governor) -> None:
    """Its aiohttp side, by event loop as there; closed with this client, while the connections stay the other's."""
    sessions: dict[Any, Any] = {}
    new._aiohttp_sessions = sessions

    async def session() -> Any:
        import aiohttp

        from paceline.transports.aiohttp_session import governed as session_beside

        inner = await old._get_aiohttp_session()
        if not isinstance(inner, aiohttp.ClientSession):
            return inner  # google-auth's, for client certificates
        loop = asyncio.get_running_loop()
        made = sessions.get(loop)
        if made is None or made.closed or made.connector is not inner.connector:
            made = sessions[loop] = session_beside(inner, governor)
        return made

    new._get_aiohttp_session = session


def _without_retries(new: Any) -> None:
    """What is sent again, the service decides: none of its own retries, of the client, of a request, or of its aiohttp side.

    The number of attempts that somebody set for them bounds ours.
    """

    def request(http_request: Any, http_options: Any = None, stream: bool = False) -> Any:
        with _bounded(new, http_options):
            return new._request_once(http_request, stream)

    async def async_request(http_request: Any, http_options: Any = None, stream: bool = False) -> Any:
        with _bounded(new, http_options):
            return await new._async_request_once(http_request, stream, implicit_retry=False)

    new._request, new._async_request = request, async_request


def _bounded(api_client: Any, http_options: Any) -> AbstractContextManager[None]:
    options = _part(http_options, "retry_options") or _part(api_client._http_options, "retry_options")
    attempts = _part(options, "attempts")
    if not isinstance(attempts, int):
        return context()
    outer = here().attempts
    # None and one are the same there.
    most = max(attempts, 1)
    return context(attempts=most if outer is None else min(most, outer))


def _part(options: Any, name: str) -> Any:
    """Options are objects or dictionaries."""
    return options.get(name) if isinstance(options, dict) else getattr(options, name, None)


def _with(part: Any, old: Any, new: Any, depth: int) -> Any:
    twin = copy.copy(part)
    for name, value in vars(part).items():
        if value is old:
            setattr(twin, name, new)
        elif depth < _DEEPEST and any(inner is old for inner in getattr(value, "__dict__", {}).values()):
            setattr(twin, name, _with(value, old, new, depth + 1))
    return twin
