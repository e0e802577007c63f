"""A process that ends while it holds a slot, waits for one, or is interrupted."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time

import paceline

addr, how = sys.argv[1:]
limiter = paceline.Limiter(addr)
ask = paceline.Ask("mine", model="m")
held = limiter.begin(ask).acquire()
keep = [held]
if how == "sent":
    held.sent()
elif how == "waiting":
    waiting = threading.Thread(target=lambda: limiter.begin(ask).acquire(), daemon=True)
    waiting.start()
    time.sleep(0.5)
elif how == "interrupted":
    threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    held.settle(paceline.Response(200))
    with limiter.slot(ask):
        time.sleep(30)
elif how == "interrupted-waiting":
    threading.Timer(0.7, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    limiter.begin(ask).acquire()
    raise SystemExit("the line was to be interrupted")
elif how == "loop":
    held.settle(paceline.Response(200))

    async def main() -> None:
        async with paceline.aio.Limiter(addr).slot(ask):
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(30)

    asyncio.run(main())
elif how == "raised":
    raise SystemExit(3)
