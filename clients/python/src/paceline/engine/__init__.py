"""One engine for each set of addresses in a process, and none that a process has from its parent."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paceline.engine.engine import Engine

PATIENCE = 2.0
"""How long nobody may answer before calls go on without the service, in seconds."""
LAST_WORDS_WITHIN = 1.5
"""How long a process that ends waits until the service has heard its last words, in seconds."""

_lock = threading.Lock()
_engines: dict[tuple[tuple[str, ...], float], Engine] = {}
_inherited: list[Engine] = []
"""The parent's: their calls may end here as well, and say nothing."""


def engine_for(addrs: tuple[str, ...], patience: float = PATIENCE) -> Engine:
    """The engine of this process for these addresses; nothing is opened before the first ask."""
    from paceline.engine.engine import Engine

    engine = _engines.get((addrs, patience))
    if engine is None:
        with _lock:
            engine = _engines.get((addrs, patience))
            if engine is None:
                engine = _engines[(addrs, patience)] = Engine(addrs, patience)
                _leave_pools_too()
    return engine


def _leave_pools_too() -> None:
    """Processes of multiprocessing, and Celery's, end without `atexit`: they have hooks of their own."""
    for name in ("multiprocessing.util", "billiard.util"):
        util = sys.modules.get(name)
        if util is not None:
            util.Finalize(None, take_leave, exitpriority=0)


def _begin_anew() -> None:
    """In a child: what the parent holds is the parent's."""
    global _lock
    _lock = threading.Lock()
    for engine in _engines.values():
        engine.disown()
        _inherited.append(engine)
    _engines.clear()


def flush(within: float = LAST_WORDS_WITHIN) -> bool:
    """Waits until all that was said is answered, at most so long. Whether it is."""
    ends = time.monotonic() + within
    return all(engine.flush(ends) for engine in list(_engines.values()))


def take_leave() -> None:
    """At the end of the process: what is held is given back, or reported as abandoned. Whoever asks again begins anew."""
    ends = time.monotonic() + LAST_WORDS_WITHIN
    engines = list(_engines.values())
    for engine in engines:
        engine.let_all_go()
    for engine in engines:
        engine.flush(ends)
        engine.end()
    _engines.clear()


atexit.register(take_leave)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)
