"""Everything at once: loops, threads, cancellations, and streams that break. Nothing hangs, nothing stays held."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections import Counter
from collections.abc import Callable

import pytest
from services import Service, eventually

import paceline
from paceline import Ask, Denied, Response
from paceline.engine import engine_for

NARROW = """
providers:
  mine:
    dialect: generic
    models:
      "*": {limits: {requests: 60000/min}, concurrency: 8, start_level: full}
"""


@pytest.mark.parametrize("breaks", [False, True])
def test_nothing_hangs_and_nothing_stays_held(serve: Callable[..., Service], breaks: bool) -> None:
    service = serve(NARROW)
    # Where streams break, what the service reads of one only after it broke, and after all was given back on the next one, nobody
    # hears of: that ends by itself. Else nothing may be left to end so.
    work_of = Ask("mine", model="m", max_wait=5.0, run_time=4.0 if breaks else 300.0)
    ends = time.monotonic() + 4.0
    seen: Counter[str] = Counter()

    async def impatient(limiter: paceline.aio.Limiter) -> None:
        async def call() -> None:
            async with limiter.slot(work_of) as slot:
                seen[slot.path] += 1
                if random.random() < 0.3:
                    await asyncio.sleep(random.random() * 0.02)

        while time.monotonic() < ends:
            try:
                await asyncio.wait_for(call(), random.choice([0.001, 0.01, 0.05, 5.0]))
            except (asyncio.TimeoutError, Denied) as error:
                seen[type(error).__name__] += 1

    async def loop() -> None:
        limiter = paceline.aio.Limiter(service.addr)
        await asyncio.gather(*[impatient(limiter) for _ in range(20)])

    def blocking() -> None:
        limiter = paceline.Limiter(service.addr)
        while time.monotonic() < ends:
            try:
                for attempt in limiter.attempts(work_of):
                    with attempt as slot:
                        seen[slot.path] += 1
                        slot.result(Response(200))
            except Denied as error:
                seen[type(error).__name__] += 1

    def breaking() -> None:
        while breaks and time.monotonic() < ends:
            time.sleep(0.5)
            for session in set(engine_for((service.addr,)).routes.values()):
                session._stream.close()

    work = [lambda: asyncio.run(loop())] * 2 + [blocking] * 4 + [breaking]
    threads = [threading.Thread(target=one, daemon=True) for one in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30.0)
    assert not [thread for thread in threads if thread.is_alive()]
    assert seen["served"] > 20
    assert seen["TimeoutError"] > 0
    assert paceline.flush(10.0)
    eventually(lambda: service.scope("mine")["in_flight"] == 0 and service.scope("mine")["waiting"] == 0)
