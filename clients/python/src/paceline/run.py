"""`python -m paceline run worker.py`: unmodified code, whose calls to providers wait their turn."""

from __future__ import annotations

import importlib
import importlib.util
import os
import runpy
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from types import ModuleType, TracebackType
from typing import Any

__all__ = ["CannotRun", "patch", "prepared"]

_PATCHED = "_paceline_patched"
_OURS = (__file__, os.path.join(os.path.dirname(__file__), "__main__.py"))


class CannotRun(Exception):
    """What was to be run is not there; says so in a sentence."""


def prepared(words: Sequence[str]) -> Callable[[], object]:
    """Patches, and gives what runs a script (`worker.py ...`), a module (`-m worker ...`) or code (`-c CODE ...`).

    Raises `CannotRun` where there is no such thing, and `WrongSetting`.
    """
    begin = _found(words)
    print(f"paceline: {_patched()}", file=sys.stderr, flush=True)
    _leave_out_our_frames()
    return begin


def _patched() -> str:
    """Patches, and says what that means."""
    patched = patch()
    from paceline.settings import read

    settings = read()
    if settings.mode == "off":
        return "mode off: nothing goes through Paceline"
    if not patched:
        return "none of httpx, httpx2, requests and aiohttp is installed here: nothing goes through Paceline"
    does = "go through" if settings.mode == "enforce" else "are shown to (and wait for nothing of)"
    return f"calls of {', '.join(patched)} to known providers {does} the service at {', '.join(settings.addrs)}"


def _found(words: Sequence[str]) -> Callable[[], object]:
    """What is to be run, once it is known that it is there."""
    what, rest = words[0], list(words[1:])
    if what in ("-m", "-c"):
        if not rest:
            raise CannotRun(f"{what} wants {'a module' if what == '-m' else 'code'} behind it")
        sys.argv = rest if what == "-m" else [what, *rest[1:]]
        sys.path.insert(0, os.getcwd() if what == "-m" else "")
        if what == "-m" and not _is_module(rest[0]):
            raise CannotRun(
                f"there is no module {rest[0]!r}: it is looked for in {os.getcwd()} and where Python has its packages"
            )
        return (lambda: _run_module(rest[0])) if what == "-m" else (lambda: _run_code(rest[0]))
    if what.startswith("-"):
        raise CannotRun(f"the option {what} does not exist here; give it a script, -m and a module, or -c and code")
    if not os.path.exists(what):
        raise CannotRun(f"there is no script {what!r} in {os.getcwd()}")
    sys.argv = [what, *rest]
    sys.path.insert(0, os.path.dirname(os.path.abspath(what)))
    return lambda: runpy.run_path(what, run_name="__main__")


def _is_module(name: str) -> bool:
    # Only its package: looking for more would import it.
    return importlib.util.find_spec(name.partition(".")[0]) is not None


def _run_module(name: str) -> None:
    runpy.run_module(name, run_name="__main__", alter_sys=True)


def _run_code(code: str) -> None:
    main = ModuleType("__main__")
    sys.modules["__main__"] = main
    exec(compile(code, "<string>", "exec"), main.__dict__)


def _leave_out_our_frames() -> None:
    """A traceback begins in the program that is run."""
    before = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, where: TracebackType | None) -> None:
        inner = where
        while inner is not None and _is_ours(inner):
            inner = inner.tb_next
        shown = where if inner is None else inner
        before(kind, error.with_traceback(shown), shown)

    sys.excepthook = hook


def _is_ours(where: TracebackType) -> bool:
    frame = where.tb_frame
    return frame.f_globals.get("__name__") == "runpy" or frame.f_code.co_filename in _OURS


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
