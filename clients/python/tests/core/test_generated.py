"""The committed messages are those of the contract, and their bytes are written by hand as protobuf would."""

from __future__ import annotations

import subprocess
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from paceline._proto.rate_limiter_pb2 import AcquireRequest, ReportRequest, SessionRequest
from paceline.engine import wire

TEXT = st.text(max_size=200)
NUMBERS = st.integers(min_value=1, max_value=2**32 - 1)


def test_proto_is_up_to_date() -> None:
    generate = Path(__file__).resolve().parents[2] / "generate"
    done = subprocess.run([generate, "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@given(TEXT, NUMBERS, st.none() | st.floats(0, 1e6), st.binary(max_size=300), TEXT)
def test_an_attempt_is_what_protobuf_reads(name: str, number: int, left: float | None, ticket: bytes, lease: str) -> None:
    read = AcquireRequest.FromString(wire.attempt(name, number, left, ticket, lease))
    assert (read.request_id, read.attempt, read.ticket, read.previous_lease_id) == (name, number, ticket, lease)
    assert read.HasField("deadline") == (left is not None), "over is zero, which is not absent"
    assert read.deadline.ToNanoseconds() == int((left or 0.0) * 1e9)


@given(TEXT, st.integers(0, 2**32 - 1), st.floats(0, 1e6), st.booleans())
def test_a_report_is_what_protobuf_reads(lease: str, seq: int, age: float, wants_next: bool) -> None:
    read = ReportRequest.FromString(wire.of_lease(lease, seq, age, wants_next))
    assert (read.lease_id, read.seq, read.retry.wanted) == (lease, seq, wants_next)
    # Never older than it is, and to the millisecond.
    assert age - 0.001001 <= read.age.ToNanoseconds() / 1e9 <= age + 1e-6


@given(st.lists(st.integers(1, 2**40), min_size=1, max_size=2_500), st.booleans())
def test_a_bundle_holds_all_in_their_order(cids: list[int], others_know: bool) -> None:
    request = AcquireRequest(request_id="r").SerializeToString()
    messages = [SessionRequest.FromString(one) for one in wire.bundles([wire.acquire(c, request) for c in cids], others_know)]
    read = [one for message in messages for one in (message, *message.more)]
    assert [one.correlation_id for one in read] == cids
    assert all(one.acquire.request_id == "r" for one in read)
    assert all(len(message.more) <= wire.MOST_IN_ONE for message in messages)
    assert others_know or all(message.takes_more and not message.more for message in messages)


def test_the_other_things_that_are_said() -> None:
    report = ReportRequest(lease_id="l").SerializeToString()
    assert SessionRequest.FromString(wire.report(300, report)).report.lease_id == "l"
    assert SessionRequest.FromString(wire.release(7, b"\x0a\x01l")).release.lease_id == "l"
    cancel = SessionRequest.FromString(wire.cancel(7))
    assert (cancel.correlation_id, cancel.WhichOneof("call")) == (7, "cancel")


NAME = st.text(max_size=12)
UNITS = st.dictionaries(NAME, st.integers(0, 2**64 - 1), max_size=4)
LENGTH = st.none() | st.floats(0, 1e6)


@given(
    st.tuples(NAME, NAME, NAME),
    st.lists(st.tuples(NAME, NAME, NAME), max_size=3),
    UNITS,
    st.booleans(),
    LENGTH,
    LENGTH,
    st.integers(0, 3),
    NAME,
    st.dictionaries(NAME, NAME, max_size=4),
    NAME,
    st.integers(0, 3),
)
def test_what_attempts_have_in_common_is_what_protobuf_reads(
    target: tuple[str, str, str],
    fallbacks: list[tuple[str, str, str]],
    cost: dict[str, int],
    estimated: bool,
    max_wait: float | None,
    run_time: float | None,
    priority: int,
    tenant: str,
    labels: dict[str, str],
    parent: str,
    repeat: int,
) -> None:
    said = wire.begun(target, fallbacks, cost, estimated, max_wait, run_time, priority, tenant, labels, parent, repeat)
    read = AcquireRequest.FromString(said)
    places = [(one.provider, one.account, one.model) for one in (read.target, *read.fallbacks)]
    assert places == [target, *fallbacks]
    assert (dict(read.cost), read.cost_estimated, dict(read.labels)) == (cost, estimated, labels)
    assert (read.priority, read.tenant, read.parent, read.repeat) == (priority, tenant, parent, repeat)
    for field, length in (("max_wait", max_wait), ("run_time", run_time)):
        assert read.HasField(field) == (length is not None)
        assert getattr(read, field).ToNanoseconds() == int((length or 0.0) * 1e9)


@given(
    st.integers(1, 5),
    st.integers(0, 999),
    st.none() | st.integers(0, 16),
    st.lists(st.tuples(NAME, NAME), max_size=4),
    st.binary(max_size=300),
    UNITS,
    st.booleans(),
    st.booleans(),
    NAME,
)
def test_an_outcome_is_what_protobuf_reads(
    kind: int,
    status: int,
    grpc_status: int | None,
    headers: list[tuple[str, str]],
    body: bytes,
    usage: dict[str, int],
    estimated: bool,
    final: bool,
    served_by: str,
) -> None:
    read = ReportRequest.FromString(wire.outcome(kind, status, grpc_status, headers, body, usage, estimated, final, served_by))
    assert (read.outcome, read.status, read.body, read.final, read.served_by) == (kind, status, body, final, served_by)
    assert (read.grpc_status if read.HasField("grpc_status") else None) == grpc_status
    assert [(header.name, header.value) for header in read.headers] == headers
    assert (dict(read.usage), read.usage_estimated) == (usage, estimated)
