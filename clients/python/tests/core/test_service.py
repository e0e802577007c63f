"""Against a real service: calls, attempts, reports, modes, and what is given back."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from services import FAST, ONE_AT_A_TIME, Service, eventually

import paceline
from paceline import Abandoned, Ask, ConnectionFailed, Denied, Reason, Response, Verdict


def in_flight(service: Service) -> int:
    """How many calls the service thinks are held or run."""
    count: int = service.scope("mine")["in_flight"]
    return count


def ask(**fields: Any) -> Ask:
    return Ask("mine", model="m", **fields)


def test_a_call_from_begin_to_close(serve: Callable[..., Service]) -> None:
    limiter = paceline.Limiter(serve(FAST).addr)
    call = limiter.begin(ask(cost={"tokens": 10}))
    slot = call.acquire()
    assert (slot.path, slot.target.provider, slot.attempt, slot.mode) == ("served", "mine", 1, paceline.Mode.ENFORCE)
    assert slot.request_id == call.request_id
    slot.sent()
    slot.responded(200, {"x-ratelimit-remaining-requests": "9"})
    reported = slot.report(Response(200, usage={"tokens": 7}))
    assert (reported.verdict, reported.again, reported.not_applied) == (Verdict.DONE, False, None)
    call.close()
    call.close()


async def test_the_same_awaiting(serve: Callable[..., Service]) -> None:
    limiter = paceline.aio.Limiter(serve(FAST).addr)
    call = limiter.begin(ask())
    slot = await call.acquire()
    slot.sent()
    await slot.responded(200, [(b"X-Odd", b"caf\xe9")])
    assert (await slot.report(Response(200))).verdict is Verdict.DONE
    call.close()


def test_a_refused_call_is_sent_again_when_the_provider_says(serve: Callable[..., Service]) -> None:
    limiter = paceline.Limiter(serve(FAST).addr)
    sent: list[float] = []

    def send() -> Response:
        sent.append(time.monotonic())
        return Response(429, {"retry-after": "0.3"}) if len(sent) == 1 else Response(200)

    # A response that is an outcome itself says how it went.
    assert limiter.call(send, ask=ask(), outcome=lambda brought: brought).status == 200
    assert len(sent) == 2
    assert sent[1] - sent[0] >= 0.3


def test_errors_are_read_and_the_last_one_is_the_callers(serve: Callable[..., Service]) -> None:
    limiter = paceline.Limiter(serve(FAST).addr)
    attempts: list[int] = []

    class ApiError(Exception):
        status_code = 429
        headers = (("retry-after-ms", "20"),)

    def send() -> None:
        slot = paceline.current_slot()
        assert slot is not None
        attempts.append(slot.attempt)
        raise ApiError

    with pytest.raises(ApiError):
        limiter.call(send, ask=ask())
    assert attempts == [1, 2, 3, 4, 5], "as often as the class allows"
    attempts.clear()
    with pytest.raises(ApiError):
        limiter.call(send, ask=ask(attempts=2))
    with paceline.context(attempts=1), pytest.raises(ApiError):
        limiter.call(send, ask=ask())
    assert attempts == [1, 2, 1], "or as the caller does"


@pytest.mark.parametrize("bug", [KeyError("mine"), ValueError(), AssertionError(), MemoryError(), FileNotFoundError()])
async def test_a_bug_is_raised_and_nothing_is_sent_again(serve: Callable[..., Service], bug: Exception) -> None:
    service = serve(FAST)
    limiter, aio = paceline.Limiter(service.addr), paceline.aio.Limiter(service.addr)
    sent = []

    def fails() -> None:
        sent.append(0)
        raise bug

    async def fails_later() -> None:
        fails()

    def in_attempts() -> None:
        for attempt in limiter.attempts(ask()):
            with attempt:
                fails()

    async def in_attempts_later() -> None:
        async for attempt in aio.attempts(ask()):
            async with attempt:
                fails()

    with pytest.raises(type(bug)):
        limiter.call(fails, ask=ask())
    with pytest.raises(type(bug)):
        in_attempts()
    with pytest.raises(type(bug)):
        await aio.call(fails_later, ask=ask())
    with pytest.raises(type(bug)):
        await in_attempts_later()
    assert len(sent) == 4
    await asyncio.to_thread(eventually, lambda: in_flight(service) == 0)


def test_what_is_said_of_a_call_decides_and_not_what_is_raised_then(serve: Callable[..., Service]) -> None:
    limiter = paceline.Limiter(serve(FAST).addr)
    sent = []

    def in_attempts() -> None:
        for attempt in limiter.attempts(ask()):
            with attempt as slot:
                sent.append(slot.attempt)
                slot.result(Response(503 if len(sent) < 3 else 200, {"retry-after-ms": "1"}))
                raise KeyError("mine")

    with pytest.raises(KeyError):
        in_attempts()
    assert sent == [1, 2, 3], "503, 503, and then a bug after a success"


async def test_attempts_and_slots_awaiting(serve: Callable[..., Service]) -> None:
    service = serve(ONE_AT_A_TIME)
    limiter = paceline.aio.Limiter(service.addr)
    seen = []
    async for attempt in limiter.attempts("mine", model="m", priority="interactive"):
        async with attempt as slot:
            seen.append(slot.attempt)
            slot.result(Response(503 if len(seen) < 3 else 200, {"retry-after-ms": "10"}))
    assert seen == [1, 2, 3]
    async with limiter.slot("mine", model="m") as slot:
        assert in_flight(service) == 1
        slot.result(Response(200))
    await asyncio.to_thread(eventually, lambda: in_flight(service) == 0)
    with pytest.raises(ValueError, match="boom"):
        async with limiter.slot(ask()):
            raise ValueError("boom")
    await asyncio.to_thread(eventually, lambda: in_flight(service) == 0)


def test_calls_within_calls_share_one_bound(serve: Callable[..., Service]) -> None:
    """Three layers that would each try five times send five times in all."""
    limiter = paceline.Limiter(serve(FAST).addr)
    sent = []

    def innermost() -> None:
        sent.append(1)
        error = ConnectionResetError("the provider answers 429")
        error.status_code, error.headers = 429, {"retry-after-ms": "1"}  # type: ignore[attr-defined]
        raise error

    def middle() -> None:
        for _ in range(5):
            try:
                return limiter.call(innermost, ask=ask())
            except ConnectionResetError:
                pass
        raise ConnectionResetError("given up")

    def outermost() -> None:
        for _ in range(5):
            try:
                return middle()
            except ConnectionResetError:
                pass
        return None

    with paceline.context(parent="job-1"), pytest.raises(Denied) as raised:
        outermost()
    assert raised.value.reason is Reason.ATTEMPTS_EXHAUSTED
    assert len(sent) == 5


def test_a_call_inside_of_an_attempt_is_its_child(serve: Callable[..., Service]) -> None:
    limiter = paceline.Limiter(serve(FAST).addr)
    with paceline.context(deadline=30.0, labels={"run": "7"}), limiter.slot(ask(labels={"feature": "x"})) as outer:
        inner = limiter.begin(ask())
        assert inner.deadline_at == outer.deadline_at is not None
        request = inner._state.asked.begun.encoded
        assert outer.request_id.encode() in request
        assert b"run" in request
        assert paceline.current_slot() is outer
    assert paceline.current_slot() is None


def test_deadlines_are_handed_down_and_end_a_wait(serve: Callable[..., Service]) -> None:
    service = serve(ONE_AT_A_TIME)
    limiter = paceline.Limiter(service.addr)
    with limiter.slot(ask()), paceline.context(deadline=0.4):
        began = time.monotonic()
        with pytest.raises(Denied) as raised:
            limiter.begin(ask()).acquire()
        assert raised.value.reason is Reason.DEADLINE
        assert time.monotonic() - began < 60.0, "it would wait for two minutes"


async def test_an_attempt_that_runs_past_the_deadline_is_cancelled(serve: Callable[..., Service]) -> None:
    limiter = paceline.aio.Limiter(serve(FAST).addr)
    ended = []

    async def send() -> None:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    with pytest.raises(paceline.DeadlineOver):
        await limiter.call(send, ask=ask(deadline=0.2))
    assert ended == ["cancelled"]


async def test_who_stops_waiting_leaves_the_line(serve: Callable[..., Service]) -> None:
    service = serve(ONE_AT_A_TIME)
    limiter = paceline.aio.Limiter(service.addr)
    async with limiter.slot(ask()):
        waiting = asyncio.create_task(limiter.begin(ask()).acquire())
        await asyncio.to_thread(eventually, lambda: service.scope("mine")["waiting"] == 1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await asyncio.to_thread(eventually, lambda: service.scope("mine")["waiting"] == 0)
    await asyncio.to_thread(eventually, lambda: in_flight(service) == 0)


async def test_a_cancelled_call_is_reported(serve: Callable[..., Service]) -> None:
    service = serve(ONE_AT_A_TIME)
    limiter = paceline.aio.Limiter(service.addr)
    sending = asyncio.Event()

    async def send() -> None:
        sending.set()
        await asyncio.sleep(60)

    task = asyncio.create_task(limiter.call(send, ask=ask()))
    await sending.wait()
    assert in_flight(service) == 1
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.to_thread(eventually, lambda: in_flight(service) == 0)


def test_nothing_is_held_by_what_was_forgotten_closed_or_left(serve: Callable[..., Service]) -> None:
    service = serve(ONE_AT_A_TIME)
    limiter = paceline.Limiter(service.addr)
    call = limiter.begin(ask())
    call.acquire()
    assert in_flight(service) == 1
    call.close()
    eventually(lambda: in_flight(service) == 0)

    limiter.begin(ask()).acquire()  # nobody keeps it
    eventually(lambda: in_flight(service) == 0)

    attempts = limiter.attempts(ask())
    with next(attempts):
        pass
    attempts.close()  # type: ignore[attr-defined]
    eventually(lambda: in_flight(service) == 0)

    call = limiter.begin(ask())
    slot = call.acquire()
    slot.sent()
    with pytest.raises(RuntimeError, match="was not reported"):
        call.acquire()
    assert slot.report(ConnectionFailed(), retry=True).again
    call.close()  # the next slot came with the report
    eventually(lambda: in_flight(service) == 0)
    with pytest.raises(KeyboardInterrupt), limiter.slot(ask()):
        raise KeyboardInterrupt
    eventually(lambda: in_flight(service) == 0)
    slot = limiter.begin(ask()).acquire()
    slot.settle(Abandoned())


def test_wrong_asks_are_told_field_by_field(serve: Callable[..., Service]) -> None:
    limiter = paceline.Limiter(serve(FAST).addr)
    with pytest.raises(paceline.Refused, match="NOT_FOUND") as unknown:
        limiter.begin(Ask("no-such-provider")).acquire()
    assert unknown.value.code == "NOT_FOUND"
    with pytest.raises(paceline.Refused, match="cost") as wrong:
        limiter.begin(ask(cost={"requests": 0})).acquire()
    assert wrong.value.code == "INVALID_ARGUMENT"
    assert wrong.value.fields
    with pytest.raises(TypeError, match="give them in the Ask"), limiter.slot(ask(), model="n"):
        pass


def test_a_long_wait_is_told_once(serve: Callable[..., Service], caplog: pytest.LogCaptureFixture) -> None:
    service = serve(ONE_AT_A_TIME)
    limiter = paceline.Limiter(service.addr)
    with caplog.at_level("WARNING", "paceline"):
        with limiter.slot(ask()):
            waiting = threading.Thread(target=lambda: limiter.begin(ask(request_id="long")).acquire())
            waiting.start()
            eventually(lambda: "long" in caplog.text, within=12.0)
        waiting.join()
    lines = [record.getMessage() for record in caplog.records if "waits" in record.getMessage()]
    assert len(lines) == 1
    assert "mine/m: a call waits 5." in lines[0]
    assert "concurrency" in lines[0]
    assert "0 before it in line" in lines[0]


def test_the_service_only_watches(serve: Callable[..., Service]) -> None:
    limiter = paceline.Limiter(serve("mode: shadow\n" + ONE_AT_A_TIME.lstrip()).addr)
    with limiter.slot(ask()), limiter.slot(ask()) as second:
        assert second.mode is paceline.Mode.SHADOW
        assert second.shadow is not None


def test_shadow_mode_waits_for_nothing_and_tells_all_the_same(serve: Callable[..., Service]) -> None:
    service = serve(ONE_AT_A_TIME)
    limiter = paceline.Limiter(service.addr, mode="shadow")
    # Only one may be sent at a time: whoever waits here waits for the other.
    with limiter.slot(ask()) as first, limiter.slot(ask()) as second:
        assert (first.path, second.path) == ("bypass", "bypass")
    eventually(lambda: in_flight(service) == 0 and service.scope("mine")["waiting"] == 0)
    assert paceline.Limiter("127.0.0.1:9", mode="shadow").begin(ask()).acquire().path == "bypass", "a dead one is unnoticed"


def test_two_loops_in_two_threads_use_one_engine(serve: Callable[..., Service]) -> None:
    limiter = paceline.aio.Limiter(serve(FAST).addr)
    paths: list[str] = []

    async def work() -> None:
        async def one() -> None:
            async with limiter.slot(ask()) as slot:
                paths.append(slot.path)

        await asyncio.gather(*[one() for _ in range(50)])

    threads = [threading.Thread(target=lambda: asyncio.run(work())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert paths == ["served"] * 100
    names = [thread.name for thread in threading.enumerate() if limiter.addrs[0] in thread.name]
    assert len(names) == 1, "one stream for both"


def test_a_hundred_threads(serve: Callable[..., Service]) -> None:
    limiter = paceline.Limiter(serve(FAST).addr)
    done: list[int] = []

    def work() -> None:
        for _ in range(5):
            with limiter.slot(ask()):
                done.append(1)

    threads = [threading.Thread(target=work) for _ in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert len(done) == 500
