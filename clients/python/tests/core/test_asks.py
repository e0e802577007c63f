"""What is filled into an ask, what is kept of an answer, and what settings can be read."""

from __future__ import annotations

import ast
import errno
import http.client
import inspect
import json
import pickle
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import aiohttp
import httpx
import pytest
import requests

import paceline
from paceline import Abandoned, Ask, ConnectionFailed, Denied, Priority, Reason, Response, Target, TimedOut, outcome_of
from paceline._proto.rate_limiter_pb2 import AcquireRequest
from paceline.asked import begin, random_id
from paceline.inherited import here
from paceline.reports import Report
from paceline.settings import Settings, authority, read

SETTINGS = Settings(("here",), "prod", "ads", "enforce")


def said(ask: Ask, now: float = 0.0) -> AcquireRequest:
    return AcquireRequest.FromString(begin(ask, here(), SETTINGS).encoded(now))


def test_an_ask_wins_over_the_context_and_that_over_the_limiter() -> None:
    request = said(Ask("openai"))
    assert (request.target.account, request.tenant, request.priority, request.attempt) == ("prod", "ads", 0, 1)
    with paceline.context(tenant="web", priority="batch", labels={"a": "1", "b": "1"}, repeat="safe", max_wait=3.0, parent="p"):
        request = said(Ask("openai", account="", labels={"b": "2"}))
        assert (request.target.account, request.tenant, request.priority) == ("", "web", Priority.BATCH)
        assert (dict(request.labels), request.max_wait.seconds, request.parent) == ({"a": "1", "b": "2"}, 3, "p")
        with paceline.context(tenant="other"):
            assert said(Ask("openai", priority="interactive", tenant="mine")).tenant == "mine"
            assert said(Ask("openai")).tenant == "other"
    assert said(Ask("openai")).tenant == "ads"


def test_of_deadlines_the_earliest_counts() -> None:
    with paceline.context(deadline=50.0), paceline.context(deadline=500.0):
        asked = begin(Ask("openai", deadline=100.0), here(), SETTINGS)
        ends = here().deadline_at
        assert asked.deadline_at == ends is not None
        assert AcquireRequest.FromString(asked.encoded(ends - 7.0)).deadline.seconds == 7
        late = AcquireRequest.FromString(asked.encoded(ends + 7.0))
        assert late.HasField("deadline"), "over is zero, which is not absent"
        assert late.deadline.ToNanoseconds() == 0


def test_an_ask_may_be_used_again_and_kept_elsewhere() -> None:
    cost = {"tokens": 1}
    ask = Ask("openai", cost=cost)
    first = said(ask)
    cost["tokens"] = 9
    again = said(ask)
    assert again.cost["tokens"] == 1
    assert again.request_id != first.request_id
    assert pickle.loads(pickle.dumps(ask)) == ask
    with paceline.context(tenant="web"):
        assert said(ask).tenant == "web"


def test_identifiers_are_uuids_and_differ() -> None:
    ids = {random_id() for _ in range(1_000)}
    assert len(ids) == 1_000
    for one in ids:
        assert [len(part) for part in one.split("-")] == [8, 4, 4, 4, 12]
        assert one[14] == "4"
        assert one[19] in "89ab"


def test_headers_of_any_kind_are_read_and_secrets_left_out() -> None:
    class Multi(dict[str, str]):
        def multi_items(self) -> list[tuple[str, str]]:
            return [("a", "1"), ("a", "2")]

    for headers, expected in (
        ({"Retry-After": "2", "Authorization": "Bearer x", b"x-api-key": b"x"}, [("Retry-After", "2")]),
        ([(b"x-odd", b"caf\xe9"), ("x-odd", "2")], [("x-odd", "caf\u00e9"), ("x-odd", "2")]),
        (Multi(a="1, 2"), [("a", "1"), ("a", "2")]),
        ({"n": 3}, [("n", "3")]),
    ):
        request = Report(Response(429, headers)).request  # type: ignore[arg-type]
        assert [(header.name, header.value) for header in request.headers] == expected
    assert len(Report(Response(500, body="x" * 100_000)).request.body) == 8_192
    with pytest.raises(TypeError, match="an outcome is a Response"):
        Report("200")  # type: ignore[arg-type]


class Answer:
    def __init__(self, status: int) -> None:
        self.status_code, self.headers = status, {"retry-after": "1"}


class ApiError(Exception):
    def __init__(self, response: Any = None, status: int | None = None) -> None:
        self.response, self.status_code = response, status


class ReadTimeout(Exception):
    pass


class ConnectTimeout(Exception):
    pass


class AwsError(Exception):
    def __init__(self, status: int) -> None:
        about = {"HTTPStatusCode": status, "HTTPHeaders": {"retry-after": "1"}}
        self.response = {"Error": {"Code": "ThrottlingException"}, "ResponseMetadata": about}


class RpcError(Exception):
    def __init__(self, status: int) -> None:
        self.code = lambda: SimpleNamespace(value=(status, "resource exhausted"))


def beside(context: Exception) -> Exception:
    error = KeyError("mine")
    error.__context__ = context
    return error


def wrapped(cause: Exception) -> Exception:
    error = ApiError()
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("brought", "outcome"),
    [
        ("text", Response(200)),
        (None, Response(200)),
        (Answer(200), Response(200, {"retry-after": "1"})),
        (Answer(503), Response(503, {"retry-after": "1"})),
        (ApiError(Answer(429)), Response(429, {"retry-after": "1"})),
        (ApiError(status=529), Response(529)),
        (TimeoutError(), TimedOut()),
        (ReadTimeout(), TimedOut()),
        (wrapped(ReadTimeout()), TimedOut()),
        (ConnectTimeout(), ConnectionFailed()),
        (wrapped(ConnectionRefusedError()), ConnectionFailed()),
        (ConnectionResetError(), TimedOut()),
        (wrapped(httpx.ReadError("")), TimedOut()),
        (httpx.RemoteProtocolError(""), TimedOut()),
        (httpx.UnsupportedProtocol(""), Abandoned()),
        (requests.exceptions.ConnectionError(), TimedOut()),
        (requests.exceptions.JSONDecodeError("", "", 0), Abandoned()),
        (aiohttp.ServerDisconnectedError(), TimedOut()),
        (http.client.IncompleteRead(b""), TimedOut()),
        (OSError(errno.EHOSTUNREACH, ""), ConnectionFailed()),
        (AwsError(429), Response(429, {"retry-after": "1"}, b"{'Code': 'ThrottlingException'}")),
        (RpcError(8), Response(0, grpc_status=8)),
        (KeyError("mine"), Abandoned()),
        (beside(TimeoutError()), Abandoned()),
        (FileNotFoundError(), Abandoned()),
        (json.JSONDecodeError("", "", 0), Abandoned()),
        (MemoryError(), Abandoned()),
    ],
)
def test_what_an_attempt_brought_says_how_it_went(brought: object, outcome: object) -> None:
    assert outcome_of(brought) == outcome


def test_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ADDR", "ACCOUNT", "TENANT", "MODE"):
        monkeypatch.delenv(f"PACELINE_{name}", raising=False)
    assert read() == Settings(("127.0.0.1:7070",), "", "", "enforce")
    monkeypatch.setenv("PACELINE_ADDR", " http://a:1, b:2 ,")
    monkeypatch.setenv("PACELINE_MODE", "Shadow")
    assert read() == Settings(("a:1", "b:2"), "", "", "shadow")
    assert read(["c:3"], mode="off").addrs == ("c:3",)
    assert authority("http://[::1]:7070/") == "[::1]:7070"
    for addr, says in (
        ("https://a:1", "plain HTTP/2"),
        ("a", "no port"),
        ("[::1]", "no port"),
        ("a:x", "not a port"),
        ("a b:1", "cannot be read"),
        ("::1:7070", "cannot be read"),
    ):
        with pytest.raises(paceline.WrongSetting, match=says):
            authority(addr)
    with pytest.raises(paceline.WrongSetting, match="PACELINE_MODE: 'on' does not exist; it is one of enforce, shadow, off"):
        read(mode="on")


def test_errors_can_be_passed_between_processes() -> None:
    denied = Denied(Reason.PAUSED, "by ada", retry_after=3.0)
    assert str(pickle.loads(pickle.dumps(denied))) == str(denied) == "denied (paused): by ada (could work in 3 s)"
    refused = paceline.Refused("INVALID_ARGUMENT", "1 field is wrong", [("cost", "is negative")])
    assert pickle.loads(pickle.dumps(refused)).fields == (("cost", "is negative"),)


def test_targets_are_values() -> None:
    assert Target("openai", model="m") == ("openai", "", "m")


def test_importing_costs_nothing() -> None:
    program = (
        "import sys, paceline; print([m for m in ('grpc', 'google.protobuf', 'hpack', 'asyncio', 'httpx') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_slot_and_attempts_know_every_field_of_an_ask() -> None:
    """What they take is written down a second time, for type checkers alone."""
    tree = ast.parse(inspect.getsource(sys.modules["paceline.ask"]))
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    fields = {node.name: {ast.unparse(line.target) for line in node.body if isinstance(line, ast.AnnAssign)} for node in classes}
    assert fields["AskFields"] == fields["Ask"] - {"provider"}
