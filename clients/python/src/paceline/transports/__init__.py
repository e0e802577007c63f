"""Paceline below the HTTP libraries that SDKs use. None of them is imported before somebody asks for a
transport.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any, overload

if TYPE_CHECKING:
    import aiohttp as of_aiohttp
    import httpx2 as of_httpx2
    import requests as of_requests

    from paceline.slots import LimiterView

__all__ = ["aiohttp", "async_httpx", "httpx", "requests"]


@overload
def httpx(
    *,
    provider: str | None = None,
    account: str | None = None,
    hosts: Mapping[str, str] | None = None,
    limiter: LimiterView | None = None,
    module: None = None,
    **options: Any,
) -> of_httpx2.Client: ...
@overload
def httpx(
    *,
    provider: str | None = None,
    account: str | None = None,
    hosts: Mapping[str, str] | None = None,
    limiter: LimiterView | None = None,
    module: ModuleType,
    **options: Any,
) -> Any: ...
def httpx(
    *,
    provider: str | None = None,
    account: str | None = None,
    hosts: Mapping[str, str] | None = None,
    limiter: LimiterView | None = None,
    module: ModuleType | None = None,
    **options: Any,
) -> Any:
    """A blocking HTTP client for SDKs: `OpenAI(http_client=paceline.httpx())`.

    It is of httpx2, on which today's SDKs stand, or of httpx where that is all there is; `module` decides, and then a type
    checker takes it for whatever it is given to. `provider` and `account` hold for everything it sends; without them the address
    of a request and its credential tell. `hosts` names further providers' hosts. `options` are those of `httpx.Client`;
    connections are as many as SDKs allow, and redirects are followed.
    """
    from paceline.transports.clients import made

    return made("Client", provider, account, hosts, limiter, module, options)


@overload
def async_httpx(
    *,
    provider: str | None = None,
    account: str | None = None,
    hosts: Mapping[str, str] | None = None,
    limiter: LimiterView | None = None,
    module: None = None,
    **options: Any,
) -> of_httpx2.AsyncClient: ...
@overload
def async_httpx(
    *,
    provider: str | None = None,
    account: str | None = None,
    hosts: Mapping[str, str] | None = None,
    limiter: LimiterView | None = None,
    module: ModuleType,
    **options: Any,
) -> Any: ...
def async_httpx(
    *,
    provider: str | None = None,
    account: str | None = None,
    hosts: Mapping[str, str] | None = None,
    limiter: LimiterView | None = None,
    module: ModuleType | None = None,
    **options: Any,
) -> Any:
    """The same for asyncio: `AsyncOpenAI(http_client=paceline.aio.httpx())`."""
    from paceline.transports.clients import made

    return made("AsyncClient", provider, account, hosts, limiter, module, options)


def requests(
    *,
    provider: str | None = None,
    account: str | None = None,
    hosts: Mapping[str, str] | None = None,
    limiter: LimiterView | None = None,
    **options: Any,
) -> of_requests.Session:
    """A `requests.Session` whose calls go through Paceline; `options` are those of
    `requests.adapters.HTTPAdapter`.
    """
    from paceline.transports.governor import governor
    from paceline.transports.requests_adapter import session

    return session(governor(provider, account, hosts, limiter), **options)


def aiohttp(
    *,
    provider: str | None = None,
    account: str | None = None,
    hosts: Mapping[str, str] | None = None,
    limiter: LimiterView | None = None,
    **options: Any,
) -> of_aiohttp.ClientSession:
    """An `aiohttp.ClientSession` whose calls go through Paceline; `options` are its own.

    Unless `timeout` says otherwise there is no limit on the whole of a call, since aiohttp counts the wait
    for the slot as part of it: connecting may take 30 s, silence 10 min.
    """
    from paceline.transports.aiohttp_session import session
    from paceline.transports.governor import governor

    return session(governor(provider, account, hosts, limiter), **options)
