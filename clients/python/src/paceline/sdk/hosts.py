"""Hosts of providers that whoever runs a worker names: `llm.internal=openai`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from paceline.checks import shown
from paceline.errors import WrongSetting
from paceline.sdk.places import PROVIDERS, PROVIDERS_OF_HOSTS
from paceline.typos import meant, told_once

__all__ = ["HOSTS_VARIABLE", "hosts_from", "hosts_given", "provider_named"]

HOSTS_VARIABLE = "PACELINE_HOSTS"
"""Environment variable with more hosts of providers: `llm.internal=openai,127.0.0.1:8080=anthropic`."""

_HOST = re.compile(r"[\w.*\-]+(:[\d*]+)?|\[[0-9a-f:.]+\](:[\d*]+)?", re.IGNORECASE)
_PROVIDER = re.compile(r"[A-Za-z0-9][\w.\-]*")


def hosts_from(environment: Mapping[str, str]) -> dict[str, str]:
    """Hosts named in the environment. Raises `WrongSetting` where one is not `HOST=PROVIDER`."""
    hosts: dict[str, str] = {}
    for item in filter(None, (item.strip() for item in environment.get(HOSTS_VARIABLE, "").split(","))):
        host, _, provider = item.partition("=")
        if not host.strip() or not provider.strip():
            raise WrongSetting(f"{HOSTS_VARIABLE}: {item!r} is not HOST=PROVIDER, for example llm.internal=openai")
        hosts[_host(HOSTS_VARIABLE, host.strip(), provider.strip())] = provider_named(HOSTS_VARIABLE, provider.strip())
    return hosts


def hosts_given(hosts: Any) -> dict[str, str]:
    """Hosts that were given as an argument. Raises `WrongSetting` where they cannot be read."""
    if hosts is None:
        return {}
    if not isinstance(hosts, Mapping):
        raise WrongSetting(f'hosts: {shown(hosts)} is not a mapping of hosts to providers; write {{"llm.internal": "openai"}}')
    return {_host("hosts", host, provider): provider_named("hosts", provider) for host, provider in hosts.items()}


def provider_named(where: str, provider: Any) -> str:
    """A provider's name; one that is nearly one of the catalogue is told in the log, since a service may have its own."""
    if not isinstance(provider, str) or not _PROVIDER.fullmatch(provider):
        raise WrongSetting(f"{where}: {shown(provider)} is no name of a provider; write one of the catalogue, such as openai")
    if provider not in PROVIDERS:
        known = meant(provider.lower(), PROVIDERS)
        if known is not None:
            told_once(f"{where}: the catalogue has no provider {provider!r}; did you mean {known!r}?")
    return provider


def _host(where: str, host: Any, provider: Any) -> str:
    if isinstance(host, str) and _HOST.fullmatch(host):
        if host in PROVIDERS and host not in PROVIDERS_OF_HOSTS and provider not in PROVIDERS:
            raise WrongSetting(f"{where}: {host} is a provider and no host: it is the host first, as in {provider}={host}")
        return host.lower()
    bare = re.sub(r"^\w+://", "", host).partition("/")[0] if isinstance(host, str) else ""
    instead = repr(bare) if _HOST.fullmatch(bare) else "a name, with a port if there is one"
    raise WrongSetting(f"{where}: {shown(host)} is not a host; write {instead} (a star stands for anything: *.internal)")
