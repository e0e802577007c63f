"""`python -m paceline run worker.py`: unmodified code, whose calls to providers wait their turn."""

from __future__ import annotations

import importlib
import importlib.util
import os
import runpy
import sys
from collections.abc import Sequence
from functools import wraps
from types import ModuleType
from typing import Any

__all__ = ["patch", "run"]

_PATCHED = "_paceline_patched"


def run(words: Sequence[str]) -> None:
    """Runs a script (`worker.py ...`) or a module (`-m worker ...`) as Python itself would, after `patch`."""
    patched = patch()
    from paceline.settings import read

    settings = read()
    if settings.mode == "off":
        said = "PACELINE_MODE=off: nothing goes through Paceline"
    elif patched:
        does = "go through" if settings.mode == "enforce" else "are shown to (and wait for nothing of)"
        libraries, addrs = ", ".join(patched), ", ".join(settings.addrs)
        said = f"calls of {libraries} to known providers {does} the service at {addrs}"
    else:
        said = "none of httpx, httpx2, requests and aiohttp is installed here: nothing goes through Paceline"
    print(f"paceline: {said}", file=sys.stderr, flush=True)
    if words[0] == "-m":
        sys.argv = list(words[1:])
        sys.path.insert(0, os.getcwd())
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        return
    sys.argv = list(words)
    sys.path.insert(0, os.path.dirname(os.path.abspath(words[0])))
    runpy.run_path(words[0], run_name="__main__")


def patch() -> list[str]:
    """Lets everything that the HTTP libraries of this process send to known providers go through Paceline;
    which libraries.

    Nothing in mode `off`. Once only. Clients that send through Paceline already ask once, as before.
    """
    from paceline.settings import read_mode

    if read_mode(os.environ.get("PACELINE_MODE", "")) == "off":
        return []
    from paceline.transports.governor import governor

    governs = governor()
    done = []
    for name, change in (
        ("httpx", _httpx),
        ("httpx2", _httpx),
        ("requests", _requests),
        ("aiohttp", _aiohttp),
    ):
        if importlib.util.find_spec(name) is None:
            continue
        module = importlib.import_module(name)
        if not getattr(module, _PATCHED, False):
            change(module, governs)
            setattr(module, _PATCHED, True)
        done.append(name)
    return done


def _httpx(module: ModuleType, governs: Any) -> None:
    from paceline.transports.httpx_like import govern, govern_async

    plain = module.HTTPTransport.handle_request
    plain_async = module.AsyncHTTPTransport.handle_async_request

    @wraps(plain)
    def handle_request(self: Any, request: Any) -> Any:
        return govern(governs, module, request, lambda sent: plain(self, sent))

    @wraps(plain_async)
    async def handle_async_request(self: Any, request: Any) -> Any:
        return await govern_async(governs, module, request, lambda sent: plain_async(self, sent))

    module.HTTPTransport.handle_request = handle_request
    module.AsyncHTTPTransport.handle_async_request = handle_async_request


def _requests(module: ModuleType, governs: Any) -> None:
    from paceline.transports.requests_adapter import govern

    adapter: Any = module.adapters.HTTPAdapter
    plain = adapter.send

    @wraps(plain)
    def send(self: Any, request: Any, *args: Any, **options: Any) -> Any:
        return govern(governs, request, self, plain, *args, **options)

    adapter.send = send


def _aiohttp(module: ModuleType, governs: Any) -> None:
    from paceline.transports.aiohttp_session import middleware

    session: Any = module.ClientSession
    plain = session.__init__
    ours = middleware(governs)

    @wraps(plain)
    def __init__(self: Any, *args: Any, **options: Any) -> None:
        given = tuple(options.pop("middlewares", ()) or ())
        if not any(getattr(one, "paceline", False) for one in given):
            given = (*given, ours)
        plain(self, *args, middlewares=given, **options)

    session.__init__ = __init__
