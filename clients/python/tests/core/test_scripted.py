"""Services that answer by a script: those that know no bundles, protect themselves, have lost their store, or are slow."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import suppress
from typing import Any

import grpc
import pytest
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc.error_details_pb2 import RetryInfo
from services import eventually

import paceline
from paceline import Ask, Response
from paceline._proto.rate_limiter_pb2 import SessionRequest, SessionResponse
from paceline.engine import engine_for
from paceline.engine.rendezvous import replica_for
from paceline.timing import to_proto

Script = Callable[[SessionRequest], list[SessionResponse]]


class Scripted(grpc.GenericRpcHandler):
    """A replica whose answers are made by a function; what it answers later is put into `later`."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.messages: list[SessionRequest] = []
        self.later: queue.Queue[SessionResponse] = queue.Queue()
        self.server = grpc.server(futures.ThreadPoolExecutor(8))
        self.server.add_generic_rpc_handlers([self])
        self.addr = f"127.0.0.1:{self.server.add_insecure_port('127.0.0.1:0')}"
        self.server.start()

    def service(self, details: Any) -> Any:
        if not details.method.endswith("/Session"):
            return None
        return grpc.stream_stream_rpc_method_handler(self._session, SessionRequest.FromString, SessionResponse.SerializeToString)

    def said(self, kind: str) -> list[SessionRequest]:
        """All that was said of this kind, bundles taken apart."""
        all_said = [one for message in self.messages for one in (message, *message.more)]
        return [one for one in all_said if one.WhichOneof("call") == kind]

    def _session(self, requests: Iterator[SessionRequest], context: Any) -> Iterator[SessionResponse]:
        answers: queue.Queue[SessionResponse | None] = queue.Queue()

        def read() -> None:
            with suppress(grpc.RpcError):
                for message in requests:
                    self.messages.append(message)
                    for one in (message, *message.more):
                        for answer in self.script(one):
                            answers.put(answer)
            answers.put(None)

        def pass_on() -> None:
            while context.is_active():
                with suppress(queue.Empty):
                    answers.put(self.later.get(timeout=0.1))

        for work in (read, pass_on):
            threading.Thread(target=work, daemon=True).start()
        context.send_initial_metadata([])
        while (answer := answers.get()) is not None:
            yield answer


@pytest.fixture
def play() -> Iterator[Callable[[Script], Scripted]]:
    running: list[Scripted] = []

    def start(script: Script) -> Scripted:
        running.append(Scripted(script))
        return running[-1]

    yield start
    for scripted in running:
        scripted.server.stop(0)


def granted(request: SessionRequest, **fields: Any) -> SessionResponse:
    answer = SessionResponse(correlation_id=request.correlation_id, **fields)
    answer.acquire.mode = 3  # type: ignore[assignment]
    answer.acquire.grant.lease_id = f"lease of {request.acquire.request_id}"
    answer.acquire.grant.use_within.CopyFrom(to_proto(30.0))
    return answer


def told(request: SessionRequest, **fields: Any) -> SessionResponse:
    answer = SessionResponse(correlation_id=request.correlation_id, **fields)
    answer.report.applied = True
    answer.report.verdict = 1  # type: ignore[assignment]
    return answer


def served(request: SessionRequest, **fields: Any) -> list[SessionResponse]:
    """Whatever is said, it is fine."""
    kind = request.WhichOneof("call")
    if kind == "acquire":
        return [granted(request, **fields)]
    if kind == "report":
        return [told(request, **fields)]
    if kind == "release":
        answer = SessionResponse(correlation_id=request.correlation_id, **fields)
        answer.release.released = True
        return [answer]
    return []


def many(limiter: paceline.Limiter, count: int) -> None:
    def one() -> None:
        for _ in range(3):
            with limiter.slot("mine", model="m") as slot:
                assert slot.path == "served"

    threads = [threading.Thread(target=one) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert paceline.flush(10.0)


def test_a_service_that_knows_no_bundles_gets_none(play: Callable[[Script], Scripted]) -> None:
    service = play(served)
    many(paceline.Limiter(service.addr), 20)
    assert not [message for message in service.messages if message.more]
    assert all(message.WhichOneof("call") for message in service.messages)
    assert len(service.said("acquire")) == len(service.said("report")) == 60
    assert {report.report.seq for report in service.said("report")} == {1}


async def test_one_that_does_gets_what_is_said_in_a_moment_in_few_messages(play: Callable[[Script], Scripted]) -> None:
    import asyncio

    service = play(lambda request: served(request, takes_more=True))
    limiter = paceline.aio.Limiter(service.addr)
    async with limiter.slot("mine"):
        pass

    async def one() -> None:
        async with limiter.slot("mine"):
            pass

    await asyncio.gather(*[one() for _ in range(100)])
    carriers = [message for message in service.messages if message.WhichOneof("call") == "acquire"]
    assert len(carriers) < 10, "101 asks"
    assert max(len(message.more) for message in carriers) >= 25


def test_a_service_that_protects_itself_is_left_alone_for_as_long_as_it_says(play: Callable[[Script], Scripted]) -> None:
    asked: list[float] = []

    def script(request: SessionRequest) -> list[SessionResponse]:
        if request.WhichOneof("call") != "acquire":
            return served(request)
        asked.append(time.monotonic())
        if len(asked) > 1:
            return served(request)
        answer = SessionResponse(correlation_id=request.correlation_id)
        answer.error.code = grpc.StatusCode.RESOURCE_EXHAUSTED.value[0]
        detail = AnyMessage()
        detail.Pack(RetryInfo(retry_delay=to_proto(0.6)))
        answer.error.details.append(detail)
        return [answer]

    limiter = paceline.Limiter(play(script).addr)
    with limiter.slot("mine") as slot:
        assert slot.path == "served", "it is there: nobody goes on without it"
    assert 0.6 <= asked[1] - asked[0] < 5.0


def test_one_call_that_is_told_unavailable_goes_elsewhere(play: Callable[[Script], Scripted]) -> None:
    def leaving(request: SessionRequest) -> list[SessionResponse]:
        answer = SessionResponse(correlation_id=request.correlation_id)
        answer.error.code = grpc.StatusCode.UNAVAILABLE.value[0]
        return [answer]

    replicas = [play(served), play(served)]
    own = replica_for("mine", "", [replica.addr for replica in replicas])
    for replica in replicas:
        if replica.addr == own:
            replica.script = leaving
    with paceline.Limiter([replica.addr for replica in replicas]).slot("mine") as slot:
        assert slot.path == "served"
        assert slot.request_id in {replica.said("acquire")[0].acquire.request_id for replica in replicas if replica.addr == own}


def test_scopes_without_a_store_are_spread_over_all_and_a_lease_stays_where_it_is_known(
    play: Callable[[Script], Scripted],
) -> None:
    def degraded(request: SessionRequest) -> list[SessionResponse]:
        answers = served(request)
        for answer in answers:
            if answer.HasField("acquire"):
                answer.acquire.degraded = True
        return answers

    replicas = [play(degraded) for _ in range(3)]
    limiter = paceline.Limiter([replica.addr for replica in replicas])
    for _ in range(60):
        with limiter.slot("mine"):
            pass
    assert paceline.flush(10.0)
    for replica in replicas:
        asks = {f"lease of {one.acquire.request_id}" for one in replica.said("acquire")}
        reports = {one.report.lease_id for one in replica.said("report")}
        assert len(asks) >= 5, "a third of sixty"
        assert asks == reports
    for replica in replicas:
        replica.script = served

    def is_at_one() -> bool:
        before = [len(replica.said("acquire")) for replica in replicas]
        for _ in range(6):
            with limiter.slot("mine"):
                pass
        return sorted(len(r.said("acquire")) - b for r, b in zip(replicas, before, strict=True)) == [0, 0, 6]

    eventually(is_at_one, within=15.0)


def test_a_slow_answer_is_asked_for_again_and_the_first_one_counts(play: Callable[[Script], Scripted]) -> None:
    asked: list[tuple[Scripted, SessionRequest]] = []

    def script_of(nth: int) -> Script:
        def slow(request: SessionRequest) -> list[SessionResponse]:
            if request.WhichOneof("call") != "acquire" or request.acquire.request_id != "slow":
                return served(request)
            asked.append((replicas[nth], request))
            if len(asked) == 1:
                return []
            # The first one answers after all, with the same slot, as the service has it.
            asked[0][0].later.put(granted(asked[0][1]))
            return [granted(request)]

        return slow

    replicas = [play(served), play(served)]
    for nth, replica in enumerate(replicas):
        replica.script = script_of(nth)
    limiter = paceline.Limiter([replica.addr for replica in replicas])
    stop = threading.Event()

    def others() -> None:
        while not stop.is_set():
            with limiter.slot("mine"):
                time.sleep(0.05)

    busy = threading.Thread(target=others)
    busy.start()
    try:
        call = limiter.begin(Ask("mine", request_id="slow"))
        slot = call.acquire()
        assert slot.path == "served"
        assert slot.lease_id == "lease of slow"
        slot.settle(Response(200))
    finally:
        stop.set()
        busy.join()
    assert paceline.flush(10.0)
    released = [one.release.lease_id for replica in replicas for one in replica.said("release")]
    assert "lease of slow" not in released


def test_a_place_that_is_not_held_any_more_is_asked_for_again(play: Callable[[Script], Scripted]) -> None:
    asked: list[SessionRequest] = []

    def script(request: SessionRequest) -> list[SessionResponse]:
        if request.WhichOneof("call") != "acquire":
            return served(request)
        asked.append(request)
        if len(asked) > 1:
            return served(request)
        answer = SessionResponse(correlation_id=request.correlation_id)
        answer.acquire.queued.ticket = b"place"
        answer.acquire.queued.come_back_in.CopyFrom(to_proto(0.01))
        return [answer, answer]

    with paceline.Limiter(play(script).addr).slot("mine") as slot:
        assert slot.path == "served"
    assert [one.acquire.ticket for one in asked] == [b"", b"place"]


def test_an_answer_without_an_outcome_says_what_to_do(play: Callable[[Script], Scripted]) -> None:
    def script(request: SessionRequest) -> list[SessionResponse]:
        answer = SessionResponse(correlation_id=request.correlation_id)
        answer.acquire.SetInParent()
        return [answer]

    with pytest.raises(paceline.PacelineError, match="has no outcome: client and service do not fit"):
        paceline.Limiter(play(script).addr).begin(Ask("mine")).acquire()


def test_much_at_once_passes_the_windows(play: Callable[[Script], Scripted]) -> None:
    """Reports with large bodies, more than the service's window takes and the socket holds."""
    service = play(served)
    limiter = paceline.Limiter(service.addr)
    body = b"x" * 8_000
    for _ in range(400):
        slot = limiter.begin(Ask("mine")).acquire()
        slot.settle(Response(500, {"x-note": "y" * 500}, body))
    assert paceline.flush(20.0)
    assert len(service.said("report")) == 400
    assert all(one.report.body == body for one in service.said("report"))
    assert engine_for(limiter.addrs).keeper.away_since(time.monotonic()) is None
