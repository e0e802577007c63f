"""`paceline.wrap`: an SDK's client whose calls wait their turn, made from one that is set up already."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Mapping
from typing import Any, TypeVar

__all__ = ["wrap"]

C = TypeVar("C")

# Parts of a client of google-genai within parts of it.
_DEEPEST = 3


def wrap(
    client: C,
    *,
    provider: str | None = None,
    account: str | None = None,
    hosts: Mapping[str, str] | None = None,
    limiter: Any = None,
) -> C:
    """A client like the given one, which stays as it is; what the new one sends goes through Paceline.

    It has the same keys, base URL, timeouts and connections. Clients: those of openai, anthropic and
    google-genai and of SDKs built like them (a client of httpx or httpx2 inside, and `copy`), clients of
    httpx and httpx2, sessions of requests and aiohttp. `provider` and `account` hold for everything that is
    sent; `hosts` names further providers' hosts (`{"llm.internal": "openai"}`). A client of an SDK whose
    `max_retries` is 0 sends each call once.

    Raises `TypeError` for anything else.
    """
    from paceline.transports.governor import governor

    # A client that was told not to retry is to send once; it says so by a number that nobody has without having said it.
    once = 1 if getattr(client, "max_retries", None) == 0 and hasattr(client, "copy") else None
    governs = governor(provider, account, hosts, limiter, once)
    made: Any = None
    if _is_genai(client):
        made = _genai(client, governs)
    elif _is_of(getattr(client, "_client", None), "httpx", "httpx2") and hasattr(client, "copy"):
        from paceline.transports.clients import beside

        inner: Any = client
        made = inner.copy(http_client=beside(inner._client, governs))
    elif _is_of(client, "httpx", "httpx2"):
        from paceline.transports.clients import beside

        made = beside(client, governs)
    elif _is_of(client, "requests"):
        from paceline.transports import requests_adapter

        session: Any = client
        made = requests_adapter.governed(session, governs)
    elif _is_of(client, "aiohttp"):
        from paceline.transports import aiohttp_session

        aio_session: Any = client
        made = aiohttp_session.governed(aio_session, governs)
    if made is None:
        kind = f"{type(client).__module__}.{type(client).__qualname__}"
        raise TypeError(
            f"paceline.wrap: cannot wrap {kind}; give it a client of openai, anthropic or google-genai, of "
            "httpx or httpx2, or a session of requests or aiohttp; for anything else see limiter.call and limiter.attempts"
        )
    wrapped: C = made
    return wrapped


def _is_of(thing: object, *packages: str) -> bool:
    names = ("Client", "AsyncClient", "Session", "ClientSession")
    return any(cls.__module__.partition(".")[0] in packages and cls.__name__ in names for cls in type(thing).__mro__)


def _is_genai(client: object) -> bool:
    inner = getattr(client, "_api_client", None)
    return inner is not None and hasattr(inner, "_httpx_client")


def _genai(client: Any, governs: Any) -> Any:
    """google-genai keeps one API client that all its parts share: a twin of each part, with a twin of that
    client inside.
    """
    from paceline.transports.clients import beside

    old = client._api_client
    new = copy.copy(old)
    new._httpx_client = beside(old._httpx_client, governs)
    if old._async_httpx_client is not None:
        new._async_httpx_client = beside(old._async_httpx_client, governs)
    # By event loop, as there; closed with this client, while the connections stay the other's.
    sessions: dict[Any, Any] = {}
    new._aiohttp_sessions = sessions

    async def session() -> Any:
        from paceline.transports.aiohttp_session import governed

        inner = await old._get_aiohttp_session()
        if not _is_of(inner, "aiohttp"):
            return inner  # google-auth's, for client certificates
        loop = asyncio.get_running_loop()
        made = sessions.get(loop)
        if made is None or made.closed or made.connector is not inner.connector:
            made = sessions[loop] = governed(inner, governs)
        return made

    new._get_aiohttp_session = session
    if governs.mode == "enforce":
        # What is sent again, the service decides: none of its own retries, of the client, of a request, or of its aiohttp side.

        def request(http_request: Any, http_options: Any = None, stream: bool = False) -> Any:
            return new._request_once(http_request, stream)

        async def async_request(http_request: Any, http_options: Any = None, stream: bool = False) -> Any:
            return await new._async_request_once(http_request, stream, implicit_retry=False)

        new._request, new._async_request = request, async_request
    twin = _with(client, old, new, depth=0)
    # One that nobody holds closes its connections.
    twin._paceline_keeps = client
    return twin


def _with(part: Any, old: Any, new: Any, depth: int) -> Any:
    twin = copy.copy(part)
    for name, value in vars(part).items():
        if value is old:
            setattr(twin, name, new)
        elif depth < _DEEPEST and any(inner is old for inner in getattr(value, "__dict__", {}).values()):
            setattr(twin, name, _with(value, old, new, depth + 1))
    return twin
