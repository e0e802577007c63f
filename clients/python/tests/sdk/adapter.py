"""A worker for `paceline conformance`: fetches jobs, and sends each through a transport as an SDK would."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import json
import os
import sys
import threading
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import paceline

KIT = os.environ["KIT_URL"]


class Left(Exception):
    """The caller of the job has gone, as the job says."""


def of_the_kit(path: str, body: object = None) -> Any:
    """What the kit answers; `None` when there are no more jobs."""
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(KIT + path, data=data), timeout=60) as answer:
        text = answer.read()
        return json.loads(text) if answer.status == 200 and text else None


def done(job: dict[str, Any], send: Any) -> dict[str, Any]:
    """How a job ended, as its caller sees it."""
    context = paceline.context(account=job["account"], deadline=job["deadline_ms"] / 1000)
    with context:
        try:
            status, denied = send(job)
        except Left:
            return {"outcome": "cancelled"}
        except Exception as problem:
            print(repr(problem), file=sys.stderr)
            return {"outcome": "failed"}
    return {"outcome": "denied"} if denied else {"outcome": "answered", "status": status}


def by_httpx(client: Any) -> Any:
    def send(job: dict[str, Any]) -> tuple[int, bool]:
        with client.stream("POST", job["url"], headers=job["headers"], content=job["body"]) as answer:
            for _ in answer.iter_bytes():
                pass
            return answer.status_code, "paceline-denied" in answer.headers

    return send


def by_requests(session: Any) -> Any:
    def send(job: dict[str, Any]) -> tuple[int, bool]:
        with session.post(job["url"], headers=job["headers"], data=job["body"], stream=job["stream"]) as answer:
            for _ in answer.iter_content(1024):
                pass
            return answer.status_code, "paceline-denied" in answer.headers

    return send


def by_asyncio(client: Any, loop: asyncio.AbstractEventLoop) -> Any:
    async def sent(job: dict[str, Any]) -> tuple[int, bool]:
        async with client.stream("POST", job["url"], headers=job["headers"], content=job["body"]) as answer:
            async for _ in answer.aiter_bytes():
                pass
            return answer.status_code, "paceline-denied" in answer.headers

    async def within(context: contextvars.Context, job: dict[str, Any]) -> tuple[int, bool]:
        return await context.run(loop.create_task, sent(job))

    def send(job: dict[str, Any]) -> tuple[int, bool]:
        running = asyncio.run_coroutine_threadsafe(within(contextvars.copy_context(), job), loop)
        leaves_after = job["cancel_after_ms"]
        try:
            return running.result(None if leaves_after is None else leaves_after / 1000)
        except concurrent.futures.TimeoutError:
            running.cancel()
            raise Left from None

    return send


def sender(library: str) -> Any:
    if library == "httpx":
        return by_httpx(paceline.httpx(provider="openai"))
    if library == "requests":
        return by_requests(paceline.requests(provider="openai"))
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    return by_asyncio(paceline.aio.httpx(provider="openai"), loop)


def main() -> None:
    send = sender(sys.argv[1])
    with ThreadPoolExecutor(16) as pool:
        running = []
        while (job := of_the_kit("/job")) is not None:
            running.append(pool.submit(lambda job=job: of_the_kit(f"/done/{job['id']}", done(job, send))))
        for one in running:
            one.result()


if __name__ == "__main__":
    main()
