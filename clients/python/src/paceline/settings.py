"""What the environment says: ``PACELINE_ADDR``, ``PACELINE_ACCOUNT``, ``PACELINE_TENANT``, ``PACELINE_MODE``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast

from paceline.checks import text
from paceline.errors import WrongSetting
from paceline.typos import told_once, told_once_of_variables

DEFAULT_ADDR = "127.0.0.1:7070"
"""Where a service is looked for when nobody says."""

ClientMode = Literal["enforce", "shadow", "off"]
"""Whether this worker waits for the service, only asks beside its calls, or does not ask."""


@dataclass(frozen=True)
class Settings:
    """What a limiter goes by."""

    addrs: tuple[str, ...]
    account: str
    tenant: str
    mode: ClientMode


def read(
    addrs: str | Sequence[str] | None = None,
    account: str | None = None,
    tenant: str | None = None,
    mode: str | None = None,
) -> Settings:
    """What is given, else what the environment says, else the defaults.

    Raises `WrongSetting`; but in mode `off` nothing else matters, and in `shadow` an address that cannot be used is told once in
    the log and the mode is `off`.
    """
    read_as = read_mode(os.environ.get("PACELINE_MODE", "") if mode is None else mode)
    named: tuple[str, ...] = ()
    try:
        named = _addrs(addrs)
    except WrongSetting as problem:
        if read_as == "enforce":
            raise
        if read_as == "shadow":
            told_once(f"{problem} (PACELINE_MODE=shadow: calls go on, and no service is told of them)")
            read_as = "off"
    if read_as != "off":
        told_once_of_variables()
        text("account", account, "write the alias of the account")
        text("tenant", tenant)
    return Settings(
        addrs=named or (DEFAULT_ADDR,),
        account=os.environ.get("PACELINE_ACCOUNT", "") if account is None else account,
        tenant=os.environ.get("PACELINE_TENANT", "") if tenant is None else tenant,
        mode=read_as,
    )


def _addrs(addrs: str | Sequence[str] | None) -> tuple[str, ...]:
    if addrs is None:
        addrs = os.environ.get("PACELINE_ADDR", "")
    if isinstance(addrs, str):
        addrs = [part.strip() for part in addrs.split(",")]
    return tuple(dict.fromkeys(authority(addr) for addr in addrs if addr.strip()))


def read_mode(said: str) -> ClientMode:
    """``enforce`` where nothing is said."""
    mode = said.strip().lower() or "enforce"
    if mode not in ("enforce", "shadow", "off"):
        raise WrongSetting(f"PACELINE_MODE: {said!r} does not exist; it is one of enforce, shadow, off")
    return cast(ClientMode, mode)


def authority(addr: str) -> str:
    """``host:port`` of an address with or without ``http://``."""
    rest = addr.strip().removeprefix("http://").rstrip("/")
    problem = ""
    if rest.startswith("https://"):
        problem = "this client speaks plain HTTP/2; let a sidecar or a mesh add TLS"
    host, colon, port = rest.rpartition(":")
    if not problem and (not colon or host.endswith(":") or ("]" in port)):
        problem = "it has no port"
    if not problem and not (port.isdigit() and 0 < int(port) < 65_536):
        problem = f"{port!r} is not a port"
    if not problem and (not host or any(c in host for c in " /?#@") or (":" in host and not host.startswith("["))):
        problem = "its host cannot be read"
    if problem:
        raise WrongSetting(f"the address {addr!r} cannot be used: {problem}; it should look like {DEFAULT_ADDR}")
    return rest
