"""When replicas go, come back, hang, or are not there at all."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from services import FAST, ONE_AT_A_TIME, Service, eventually

import paceline
from paceline import Ask, Response
from paceline.engine import discovery, engine_for
from paceline.engine.rendezvous import replica_for

# For what takes a moment on a quiet machine.
GENEROUS = 60.0


def ask(**fields: Any) -> Ask:
    return Ask("mine", model="m", **fields)


def free_addr() -> str:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{taken.getsockname()[1]}"


def one_in_line(limiter: paceline.Limiter, service: Service) -> tuple[threading.Thread, list[Any]]:
    """A thread whose call has its place in line, and where its slot will be."""
    got: list[Any] = []
    waiting = threading.Thread(target=lambda: got.append(limiter.begin(ask()).acquire()))
    waiting.start()
    eventually(lambda: service.scope("mine")["waiting"] == 1)
    return waiting, got


def test_held_calls_survive_a_restart(serve: Callable[..., Service]) -> None:
    service = serve(ONE_AT_A_TIME)
    limiter = paceline.Limiter(service.addr)
    call = limiter.begin(ask())
    slot = call.acquire()
    slot.sent()
    waiting, got = one_in_line(limiter, service)
    service.stop()
    serve(ONE_AT_A_TIME, service.addr)
    # The service that restarted does not know the lease; what is reported is read all the same.
    assert slot.report(Response(200)).not_applied is not None
    waiting.join(timeout=GENEROUS)
    assert [one.path for one in got] == ["served"]
    got[0].settle(Response(200))


def test_a_scope_goes_to_its_replica_and_to_the_next_when_that_goes(serve: Callable[..., Service]) -> None:
    services = {service.addr: service for service in (serve(FAST), serve(FAST))}
    limiter = paceline.Limiter(list(services))
    own = replica_for("mine", "", services)
    assert own is not None
    with limiter.slot(ask()) as slot:
        assert slot.path == "served"
        assert services[own].scope("mine")["in_flight"] == 1
        other = next(service for addr, service in services.items() if addr != own)
        services[own].stop()
        with limiter.slot(ask()) as second:
            assert second.path == "served", "before it would have gone on without any"
            assert other.scope("mine")["in_flight"] >= 1
    serve(FAST, own)

    def is_back() -> bool:
        with limiter.slot(ask()):
            replicas = engine_for(limiter.addrs).keeper.replicas
            replica = replicas.named(own)
            used = engine_for(limiter.addrs).routes.get(("mine", ""))
            return replica is not None and used is not None and used is replica.session

    eventually(is_back)


def test_one_that_hangs_is_left(serve: Callable[..., Service]) -> None:
    services = {service.addr: service for service in (serve(FAST), serve(FAST))}
    limiter = paceline.Limiter(list(services))
    with limiter.slot(ask()):
        pass
    own = replica_for("mine", "", services)
    assert own is not None
    services[own].freeze()
    try:
        with limiter.slot(ask()) as slot:
            assert slot.path == "served", "a ping finds out, before it would have gone on without any"
    finally:
        services[own].thaw()


def test_when_nobody_answers_calls_go_on_within_two_seconds_and_it_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    limiter = paceline.Limiter(free_addr())
    with caplog.at_level(logging.WARNING, "paceline"):
        began = time.monotonic()
        call = limiter.begin(ask(max_wait=300))
        slot = call.acquire()
        assert slot.path == "bypass", "it was never granted anything: it has no share to keep to"
        assert 2.0 <= time.monotonic() - began < GENEROUS
    assert caplog.text.count("no Paceline service has answered at 127.0.0.1") == 1
    assert "for 0 s" not in caplog.text
    assert "unpaced" in caplog.text
    assert slot.report(Response(429, {"retry-after": "1"})).verdict is paceline.Verdict.RETRY


def test_what_answers_and_is_no_paceline_is_told_as_that(serve: Callable[..., Service]) -> None:
    for addr in (serve().http, strangers_addr()):
        limiter = paceline.Limiter(addr, go_on_without_service=False)
        with pytest.raises(paceline.Unreachable, match=r"7070 is the one for workers, 7071 its page for people"):
            limiter.begin(ask()).acquire()


def strangers_addr() -> str:
    """Where something answers that knows no HTTP/2."""
    listening = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        while True:
            try:
                taken, _ = listening.accept()
            except OSError:
                return
            with taken:
                taken.recv(1_024)
                taken.sendall(b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n")

    threading.Thread(target=answer, daemon=True).start()
    return f"127.0.0.1:{listening.getsockname()[1]}"


async def test_the_recent_share_paces_until_the_service_is_back(serve: Callable[..., Service]) -> None:
    service = serve(FAST)
    limiter = paceline.aio.Limiter(service.addr)
    for _ in range(30):
        async with limiter.slot(ask()):
            pass
    service.stop()
    began, paths = time.monotonic(), []

    async def one() -> None:
        async with limiter.slot(ask()) as slot:
            paths.append(slot.path)

    await asyncio.gather(*[one() for _ in range(4)])
    assert set(paths) == {"local"}
    assert 1.5 <= time.monotonic() - began < GENEROUS, "patience, then 30 calls in ten seconds"
    waits = []
    for _ in range(5):
        async with limiter.slot(ask()) as slot:
            waits.append(slot.waited)
    assert min(waits) < engine_for(limiter.addrs).patience, "known to be away: nobody is patient again"
    serve(FAST, service.addr)

    async def is_served() -> bool:
        async with limiter.slot(ask()) as slot:
            return slot.path == "served"

    ends = time.monotonic() + GENEROUS
    while not await is_served():
        assert time.monotonic() < ends


def test_a_report_is_said_until_it_is_answered(serve: Callable[..., Service]) -> None:
    service = serve(ONE_AT_A_TIME)
    limiter = paceline.Limiter(service.addr)
    slot = limiter.begin(ask()).acquire()
    slot.sent()
    service.freeze()
    began = time.monotonic()
    reported = slot.report(Response(200))
    assert 1.0 <= time.monotonic() - began < GENEROUS
    assert reported.verdict is paceline.Verdict.DONE, "judged alone"
    service.thaw()
    eventually(lambda: service.scope("mine")["in_flight"] == 0)


def test_leases_are_renewed_through_a_failover(serve: Callable[..., Service]) -> None:
    service = serve(ONE_AT_A_TIME)
    limiter = paceline.Limiter(service.addr)
    slot = limiter.begin(ask(run_time=2.0)).acquire()
    slot.sent()
    # The stream breaks; the service lives, and is told on a new stream that the call still runs.
    session = engine_for(limiter.addrs).routes[("mine", "")]
    session._stream.close()
    time.sleep(3.5)
    assert service.scope("mine")["in_flight"] == 1
    assert slot.report(Response(200)).not_applied is None


def test_who_wants_no_call_without_the_service_gets_an_error() -> None:
    limiter = paceline.Limiter(free_addr(), go_on_without_service=False)
    with pytest.raises(paceline.Unreachable, match="Is `paceline serve` running"):
        limiter.begin(ask()).acquire()


def test_a_name_of_several_addresses(serve: Callable[..., Service]) -> None:
    port = serve(FAST).addr.rpartition(":")[2]
    limiter = paceline.Limiter(f"localhost:{port}")
    with limiter.slot(ask()) as slot:
        assert slot.path == "served"
    names = [replica.name for replica in engine_for(limiter.addrs).keeper.replicas.known if not replica.is_spare]
    assert names == [f"127.0.0.1:{port}"]


def test_a_service_that_leaves_hands_its_calls_on(serve: Callable[..., Service]) -> None:
    services = {service.addr: service for service in (serve(ONE_AT_A_TIME), serve(ONE_AT_A_TIME))}
    limiter = paceline.Limiter(list(services))
    own = replica_for("mine", "", services)
    assert own is not None
    first = limiter.begin(ask()).acquire()
    waiting, got = one_in_line(limiter, services[own])
    services[own].process.terminate()
    waiting.join(timeout=GENEROUS)
    assert [one.path for one in got] == ["served"], "the other one gives it, which knows nothing of the first"
    first.settle(Response(200))
    got[0].settle(Response(200))


def test_who_waits_in_line_at_one_that_hangs_goes_on_elsewhere(serve: Callable[..., Service]) -> None:
    services = {service.addr: service for service in (serve(ONE_AT_A_TIME), serve(ONE_AT_A_TIME))}
    limiter = paceline.Limiter(list(services))
    own = replica_for("mine", "", services)
    assert own is not None
    first = limiter.begin(ask()).acquire()
    waiting, got = one_in_line(limiter, services[own])
    services[own].freeze()
    try:
        # Nothing is said while it waits: only a ping finds out.
        waiting.join(timeout=GENEROUS)
        assert [one.path for one in got] == ["served"]
    finally:
        services[own].thaw()
    first.settle(Response(200))
    got[0].settle(Response(200))


def test_a_name_is_looked_up_again_when_its_replica_goes(serve: Callable[..., Service], monkeypatch: pytest.MonkeyPatch) -> None:
    services = [serve(FAST), serve(FAST)]
    here = {"addr": services[0].addr}
    monkeypatch.setattr(discovery, "look_up", lambda authority: [(here["addr"], False)])
    limiter = paceline.Limiter("paceline.test:7070")
    with limiter.slot(ask()) as slot:
        assert slot.path == "served"
    here["addr"] = services[1].addr
    services[0].stop()

    def is_served() -> bool:
        with limiter.slot(ask()) as slot:
            return slot.path == "served"

    eventually(is_served)
    assert [replica.name for replica in engine_for(limiter.addrs).keeper.replicas.known] == [services[1].addr]


def test_what_a_name_means() -> None:
    six, four = ("[fd00::1]:7070", True), ("10.0.0.1:7070", False)
    assert discovery.by_family([six, four]) == [("[fd00::1]:7070", True), ("10.0.0.1:7070", False)], "a spare"
    assert discovery.by_family([six]) == [("[fd00::1]:7070", False)]
    assert discovery.split(["10.0.0.1:7070", "[::1]:7070", "paceline:7070"]) == (
        ["10.0.0.1:7070", "[::1]:7070"],
        ["paceline:7070"],
    )
    assert ("127.0.0.1:7070", False) in discovery.look_up("localhost:7070")
    told: list[discovery.Found] = []
    finder = discovery.Finder(["paceline.invalid:7070"], ["10.0.0.1:7070"])
    finder._last["paceline.invalid:7070"] = [("10.0.0.9:7070", False)]
    finder._find(told.append)
    assert told[0].replicas == [("10.0.0.1:7070", False), ("10.0.0.9:7070", False)], "a resolver that fails makes nobody vanish"
    assert "paceline.invalid:7070 cannot be looked up" in told[0].problem
