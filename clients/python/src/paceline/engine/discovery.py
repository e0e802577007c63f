"""Where replicas are: a name may stand for several, such as that of a headless service."""

from __future__ import annotations

import random
import socket
import threading
import time
from collections.abc import Callable, Sequence
from ipaddress import ip_address
from typing import NamedTuple

REFRESH_EVERY = 30.0
"""Names are looked up again about this often, in seconds."""
REFRESH_AT_MOST = 1.0
"""However many replicas fail, not more often than this."""


class Found(NamedTuple):
    """What a look-up brought."""

    replicas: list[tuple[str, bool]]
    """Name (`ip:port`), and whether it is a spare."""
    problem: str = ""


def split(addrs: Sequence[str]) -> tuple[list[str], list[str]]:
    """Addresses that are numbers, and those that have to be looked up."""
    numbers = [addr for addr in addrs if is_number(addr)]
    return numbers, [addr for addr in addrs if not is_number(addr)]


def is_number(addr: str) -> bool:
    """Whether an address means the same for ever."""
    host = addr.rpartition(":")[0].strip("[]")
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def by_family(found: Sequence[tuple[str, bool]]) -> list[tuple[str, bool]]:
    """Of a name: its replicas, from `ip:port` and whether it is of IPv6.

    A replica with addresses of two families is one replica: those of IPv4 count, the others are spares (`localhost` where only
    `[::1]` listens).
    """
    has_four = any(not is_six for _, is_six in found)
    return [(name, is_six and has_four) for name, is_six in found]


def look_up(authority: str) -> list[tuple[str, bool]]:
    """All addresses of `host:port`; raises `OSError`."""
    host, _, port = authority.rpartition(":")
    found = []
    for family, _, _, _, address in socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM):
        is_six = family == socket.AF_INET6
        name = f"[{address[0]}]:{port}" if is_six else f"{address[0]}:{port}"
        found.append((name, is_six))
    return by_family(list(dict.fromkeys(found)))


class Finder:
    """Looks names up, in threads that nobody waits for."""

    def __init__(self, names: Sequence[str], numbers: Sequence[str]) -> None:
        self._names = tuple(names)
        self._numbers = [(number, False) for number in numbers]
        self._last: dict[str, list[tuple[str, bool]]] = {}
        """A resolver that fails does not make replicas vanish."""
        self._next_at = 0.0
        self._began_at = 0.0
        self._is_finding = False

    def is_due(self, now: float) -> bool:
        """Whether it is time for another look-up."""
        return bool(self._names) and not self._is_finding and now >= self._next_at

    def soon(self) -> None:
        """Something failed: where replicas are may have changed."""
        self._next_at = min(self._next_at, self._began_at + REFRESH_AT_MOST)

    def find(self, then: Callable[[Found], None]) -> None:
        """Looks up, and tells `then`."""
        self._is_finding = True
        self._began_at = time.monotonic()
        threading.Thread(target=self._find, args=(then,), name="paceline-finder", daemon=True).start()

    def _find(self, then: Callable[[Found], None]) -> None:
        replicas, problem = list(self._numbers), ""
        for name in self._names:
            try:
                self._last[name] = look_up(name) or self._last.get(name, [])
            except OSError as error:
                problem = f"{name} cannot be looked up: {error}"
            replicas += self._last.get(name, [])
        again_in = REFRESH_EVERY if replicas else REFRESH_AT_MOST
        self._next_at = self._began_at + again_in * random.uniform(0.75, 1.25)
        self._is_finding = False
        then(Found(replicas, problem))
