"""One engine for each set of addresses in a process."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paceline.engine.engine import Engine

PATIENCE = 2.0
"""How long nobody may answer before calls go on without the service, in seconds."""

_lock = threading.Lock()
_engines: dict[tuple[tuple[str, ...], float], Engine] = {}


def engine_for(addrs: tuple[str, ...], patience: float = PATIENCE) -> Engine:
    """The engine of this process for these addresses; nothing is opened before the first ask."""
    from paceline.engine.engine import Engine

    with _lock:
        engine = _engines.get((addrs, patience))
        if engine is None:
            engine = _engines[(addrs, patience)] = Engine(addrs, patience)
    return engine
