"""What is written wrongly is told where it is written: the argument, what is wrong with it, and what to write."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import Any

import httpx
import pytest

import paceline
from paceline import Ask, Limiter, Response, Target, typos


@pytest.fixture(autouse=True)
def nothing_was_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(typos, "_told", set())


def in_context(**fields: Any) -> None:
    with paceline.context(**fields):
        pass


@pytest.mark.parametrize(
    ("write", "says"),
    [
        (lambda: Ask("openai", model=5), "model: 5 is not text"),  # type: ignore[arg-type]
        (lambda: Ask("openai", account=5), "account: 5 is not text; write the alias"),  # type: ignore[arg-type]
        (lambda: Ask("openai", parent=object()), "parent: .*write the request_id"),  # type: ignore[arg-type]
        (lambda: Ask("openai", labels={"a": 1}), "labels: 'a' is 1; .*write 'a': '1'"),  # type: ignore[dict-item]
        (lambda: Ask("openai", cost={"tokens": -5}), "cost: tokens is -5; units are 0 or more"),
        (lambda: Ask("openai", cost={"tokens": 2.5}), "cost: tokens is 2.5; units are whole"),  # type: ignore[dict-item]
        (lambda: Ask("openai", cost=["tokens"]), "cost: .* is not a mapping"),  # type: ignore[arg-type]
        (lambda: Ask("openai", max_wait=math.nan), "max_wait: nan is no length of time"),
        (lambda: Ask("openai", max_wait=-1), "max_wait: -1 s is less than nothing"),
        (lambda: Ask("openai", deadline=math.inf), "deadline: inf is no length of time; .*leave it out"),
        (lambda: Ask("openai", run_time=-1), "run_time: -1 s"),
        (lambda: Ask("openai", attempts=0), "attempts: 0 is too few"),
        (lambda: Ask("openai", priority="urgent"), "priority 'urgent' does not exist"),
        (lambda: Ask("openai", fallbacks=["azure"]), r"fallbacks: .*write \[paceline.Target"),  # type: ignore[list-item]
        (lambda: in_context(max_wait="3"), "max_wait: '3' is not a number of seconds"),
        (lambda: in_context(labels={"a": None}), "labels: 'a' is None"),
        (lambda: in_context(tenant=7), "tenant: 7 is not text"),
        (lambda: Limiter(max_wait=-1), "max_wait: -1 s"),
        (lambda: Limiter(account=5), "account: 5"),  # type: ignore[arg-type]
        (lambda: Limiter("x"), "the address 'x' cannot be used: it has no port"),
        (lambda: Response("200"), "status: '200' is not a number"),  # type: ignore[arg-type]
        (lambda: Response(200, usage={"tokens": -1}), "usage: tokens is -1"),
        (lambda: paceline.wrap(httpx.Client(), limiter="x"), "limiter: 'x' is no limiter"),
        (lambda: paceline.wrap(httpx.Client(), hosts=["a"]), "hosts: .* is not a mapping"),  # type: ignore[arg-type]
        (lambda: paceline.wrap(httpx.Client(), account=5), "account: 5"),  # type: ignore[arg-type]
        (
            lambda: paceline.wrap(httpx.Client(), hosts={"http://llm.internal/v1": "openai"}),
            "not a host; write 'llm.internal'",
        ),
        (lambda: paceline.wrap(httpx.Client(), hosts={"llm.internal": "my openai"}), "'my openai' is no name of a provider"),
        (lambda: paceline.wrap(httpx.Client(), hosts={"openai": "llm.internal"}), "as in llm.internal=openai"),
    ],
)
def test_an_error_names_the_argument(write: Callable[[], Any], says: str) -> None:
    with pytest.raises((TypeError, ValueError), match=says):
        write()


def test_what_is_right_stays_right() -> None:
    ask = Ask("openai", fallbacks=[Target("azure")], deadline=-1.0, max_wait=0, cost={"tokens": True, "pages": 3}, run_time=9)
    assert ask.cost == {"tokens": 1, "pages": 3}
    paceline.wrap(httpx.Client(), hosts={"*.internal:8000": "openai", "[::1]:80": "mine"})


async def test_calls_are_made_with_the_limiter_for_their_kind() -> None:
    async def send() -> None:
        raise AssertionError

    with pytest.raises(TypeError, match=r"paceline\.aio\.Limiter"):
        paceline.Limiter().call(send, ask=Ask("openai"))
    with pytest.raises(TypeError, match=r"paceline\.Limiter"):
        await paceline.aio.Limiter(mode="off").call(lambda: 5, ask=Ask("openai"))  # type: ignore[arg-type, return-value]


def test_a_call_that_was_closed_gives_no_slot() -> None:
    call = paceline.Limiter(mode="off").begin(Ask("openai"))
    call.close()
    with pytest.raises(RuntimeError, match="this call is closed: begin another one"):
        call.acquire()


def test_names_that_are_nearly_right_are_told_once(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv("PACELINE_ADRR", "127.0.0.1:1")
    monkeypatch.setenv("PACELINE_SERVE_MODE", "off")
    monkeypatch.setenv("PACELINE_PORT_7070_TCP_ADDR", "10.0.0.1")
    for _ in range(3):
        paceline.Limiter()
        Ask("openai", cost={"token": 5, "requests_day": 1, "neurons": 1})
        Response(200, usage={"output_token": 1})
        paceline.wrap(httpx.Client(), provider="opneai")
    said = [record.getMessage() for record in caplog.records if record.name == "paceline"]
    assert said == [
        "the variable PACELINE_ADRR means nothing to a worker; did you mean PACELINE_ADDR?",
        "cost: no provider that is known counts 'token'; did you mean 'tokens'?",
        "usage: no provider that is known counts 'output_token'; did you mean 'output_tokens'?",
        "provider: the catalogue has no provider 'opneai'; did you mean 'openai'?",
    ]


WRONG = [("PACELINE_ADDR", "nonsense"), ("PACELINE_HOSTS", "http://x/=")]


def send_through_all() -> httpx.Response:
    """A call by each way, to a provider that answers."""
    answering = httpx.MockTransport(lambda _: httpx.Response(200, json={"choices": []}))
    client = paceline.wrap(httpx.Client(transport=answering))
    with paceline.Limiter().slot("openai") as slot:
        assert slot.path == "bypass"
    return client.post("https://api.openai.com/v1/chat/completions", json={"model": "m", "messages": []})


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_off_takes_anything(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, name: str, value: str) -> None:
    monkeypatch.setenv("PACELINE_MODE", "off")
    monkeypatch.setenv(name, value)
    with caplog.at_level(logging.INFO, "paceline"):
        assert send_through_all().status_code == 200
    assert not [record for record in caplog.records if record.name == "paceline"]


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_shadow_says_once_what_is_wrong(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, name: str, value: str
) -> None:
    monkeypatch.setenv("PACELINE_MODE", "shadow")
    monkeypatch.setenv("PACELINE_ADDR", "127.0.0.1:1")
    monkeypatch.setenv(name, value)
    for _ in range(3):
        assert send_through_all().status_code == 200
    said = [record.getMessage() for record in caplog.records if record.name == "paceline"]
    assert len(said) == 1
    assert value.partition("=")[0] in said[0]


@pytest.mark.parametrize(("name", "value"), [*WRONG, ("PACELINE_MODE", "on")])
def test_enforce_says_it_before_the_first_call(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(paceline.WrongSetting, match=value.partition("=")[0]):
        paceline.wrap(httpx.Client())
    with pytest.raises(paceline.WrongSetting):
        paceline.httpx()
