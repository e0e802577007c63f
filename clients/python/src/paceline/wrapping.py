"""`paceline.wrap`: an SDK's client whose calls wait their turn, made from one that is set up already."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from paceline.slots import LimiterView

__all__ = ["wrap"]

C = TypeVar("C")


def wrap(
    client: C,
    *,
    provider: str | None = None,
    account: str | None = None,
    hosts: Mapping[str, str] | None = None,
    limiter: LimiterView | None = None,
) -> C:
    """A client like the given one, which stays as it is; what the new one sends goes through Paceline.

    It has the same keys, base URL, timeouts and connections. Clients: those of openai, anthropic and
    google-genai and of SDKs built like them (a client of httpx or httpx2 inside, and `copy`), clients of
    httpx and httpx2, sessions of requests and aiohttp. `provider` and `account` hold for everything that is
    sent; `hosts` names further providers' hosts (`{"llm.internal": "openai"}`). A `max_retries` that is not
    the SDK's own bounds how often a call is sent, also where it is set later, or by `with_options`: 0 is once.

    Raises `TypeError` for anything else.
    """
    from paceline.transports.governor import governor

    governs = governor(provider, account, hosts, limiter)
    made: Any = None
    if _is_genai(client):
        from paceline.transports import gemini

        made = gemini.governed(client, governs)
    elif _is_of(getattr(client, "_client", None), "httpx", "httpx2") and hasattr(client, "copy"):
        from paceline.transports import stainless

        made = stainless.governed(client, governs)
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
