"""What is remembered of calls that failed, so that an SDK's own retry is known again: who finds it, and what it keeps alive."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from typing import Any

import httpx2
import pytest

from paceline.ask import Target
from paceline.sdk.seen import Seen
from paceline.transports import again


class Line:
    """A call as the memory sees it."""

    def __init__(self, model: str = "m") -> None:
        self.target = Target("openai", "prod", model)
        self.attempt = 1

    def sent_again(self, times: int = 1) -> None:
        self.attempt += times


def seen(body: str = "one", retries: str | None = None, url: str = "https://a.example/v1/x", method: str = "POST") -> Seen:
    headers = {} if retries is None else {"x-stainless-retry-count": retries}
    return Seen(method, url, headers, body.encode())


@pytest.mark.parametrize(
    ("first", "second", "is_known"),
    [
        (seen(retries="0"), seen(retries="1"), True),
        # A form has another boundary in each attempt.
        (seen("a form", retries="1"), seen("the same form", retries="2"), True),
        (seen(retries="0"), seen(retries="0"), False),
        (seen(retries="0"), seen(), False),
        (seen(), seen(), True),
        (seen(), seen("two"), False),
        (seen(""), seen(""), False),
        (seen(), seen(url="https://b.example/v1/x"), False),
        (seen(), seen(method="PUT"), False),
    ],
)
def test_what_is_known_again(first: Seen, second: Seen, is_known: bool) -> None:
    failed, other = Line(), Line()
    again.remember_line(first, failed)
    assert (again.continued(second, other) is failed) == is_known
    assert (failed.attempt == 2) == is_known
    # Once: what was found, or did not fit, is not found again.
    assert again.continued(second, last := Line()) is last


def test_another_target_is_another_call() -> None:
    again.remember_line(seen(), Line("m"))
    assert again.continued(seen(), other := Line("n")) is other


def test_the_same_request_much_later_is_another_call(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_000.0
    monkeypatch.setattr(again.time, "monotonic", lambda: now)
    again.remember_line(seen(), Line())
    now += again.SOON
    assert again.continued(seen(), other := Line()) is other


@pytest.mark.parametrize(("count", "attempt"), [("0", 1), ("2", 3), ("x", 1), ("-1", 1), ("²", 1), ("9" * 30, 1_001)])
def test_a_retry_of_nothing_known_is_a_later_attempt(count: str, attempt: int) -> None:
    line = Line()
    assert again.continued(seen(retries=count), line) is line
    assert line.attempt == attempt


def lost(number: int) -> httpx2.ReadError:
    """An error as a library raises it: with all that was under way on its traceback."""
    try:
        under_way = bytearray(10_000)
        raise httpx2.ReadError(f"lost {number}: {len(under_way)}")
    except httpx2.ReadError as error:
        return error


async def test_each_of_a_thousand_tasks_hears_its_own_end_again_and_leaves_nothing() -> None:
    errors: weakref.WeakSet[Exception] = weakref.WeakSet()
    remembered: weakref.WeakSet[Any] = weakref.WeakSet()

    async def task(number: int) -> None:
        url = "https://a.example/v1/x"
        again.fail_again(seen(retries="0"))
        error = lost(number)
        errors.add(error)
        again.remember_error(seen(retries="0"), error)
        for retry in ("1", "2"):
            await asyncio.sleep(0)
            with pytest.raises(httpx2.ReadError, match=f"^lost {number}:") as raised:
                again.fail_again(seen(retries=retry, url=url))
            remembered.add(raised.value)
        again.fail_again(seen(retries="0"))

    await asyncio.gather(*(task(number) for number in range(1_000)))
    gc.collect()
    assert not errors
    assert not remembered


def test_a_thread_that_lives_on_keeps_no_error_and_no_request() -> None:
    """What is remembered until its next call is a line of text, not what was under way."""
    asked, error = seen("x" * 1_000, retries="0"), lost(1)
    kept = [weakref.ref(error)]
    again.remember_error(asked, error)
    with pytest.raises(httpx2.ReadError) as raised:
        again.fail_again(seen(retries="1"))
    kept.append(weakref.ref(raised.value))
    del error, raised
    gc.collect()
    assert [one() for one in kept] == [None, None]


async def test_of_tasks_that_inherit_a_failure_one_goes_on_with_it() -> None:
    failed = Line()
    again.remember_line(seen(retries="0"), failed)

    async def retry() -> bool:
        return again.continued(seen(retries="1"), Line()) is failed

    assert sum(await asyncio.gather(*(retry() for _ in range(10)))) == 1


def test_threads_know_nothing_of_one_another() -> None:
    again.remember_line(seen(), Line())
    found: list[bool] = []
    line = Line()
    thread = threading.Thread(target=lambda: found.append(again.continued(seen(), line) is line))
    thread.start()
    thread.join()
    assert found == [True]
