"""A process that ends while it holds a slot, waits for one, or is interrupted."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time

import paceline
from paceline.engine import engine_for

addr, how = sys.argv[1:]
limiter = paceline.Limiter(addr)
ask = paceline.Ask("mine", model="m")
held = limiter.begin(ask).acquire()
keep = [held]


def interrupt() -> None:
    """As Ctrl-C does."""
    os.kill(os.getpid(), signal.SIGINT)


def until_one_waits() -> None:
    """Returns when a call of this process has its place in line."""
    while not any(session.held for session in engine_for(limiter.addrs).routes.values()):
        time.sleep(0.01)


if how == "sent":
    held.sent()
elif how == "waiting":
    waiting = threading.Thread(target=lambda: limiter.begin(ask).acquire(), daemon=True)
    waiting.start()
    until_one_waits()
elif how == "interrupted":
    held.settle(paceline.Response(200))
    with limiter.slot(ask):
        interrupt()
        time.sleep(30)
elif how == "interrupted-waiting":
    threading.Thread(target=lambda: (until_one_waits(), interrupt()), daemon=True).start()
    limiter.begin(ask).acquire()
    raise SystemExit("the line was to be interrupted")
elif how == "loop":
    held.settle(paceline.Response(200))

    async def main() -> None:
        async with paceline.aio.Limiter(addr).slot(ask):
            interrupt()
            await asyncio.sleep(30)

    asyncio.run(main())
elif how == "raised":
    raise SystemExit(3)
