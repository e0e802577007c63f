"""A worker for `paceline conformance`: fetches jobs, and sends each through a transport as an SDK would."""

from __future__ import annotations

import json
import os
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import paceline

KIT = os.environ["KIT_URL"]


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


def main() -> None:
    send = (
        by_httpx(paceline.httpx(provider="openai"))
        if sys.argv[1] == "httpx"
        else by_requests(paceline.requests(provider="openai"))
    )
    with ThreadPoolExecutor(16) as pool:
        running = []
        while (job := of_the_kit("/job")) is not None:
            running.append(pool.submit(lambda job=job: of_the_kit(f"/done/{job['id']}", done(job, send))))
        for one in running:
            one.result()


if __name__ == "__main__":
    main()
