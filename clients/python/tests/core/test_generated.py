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
    assert read.age.ToNanoseconds() == int(age * 1e9)


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
