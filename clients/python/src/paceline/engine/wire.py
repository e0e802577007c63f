"""What is said on a stream as bytes.

Making messages of the contract costs Python more than all the rest of a call: an object for each part, a copy for each message
inside of another. Written by hand, each is encoded once. The tests compare with protobuf. The fields are those of
proto/paceline/v1/rate_limiter.proto.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

_CORRELATION_ID = b"\x08"
_ACQUIRE = b"\x12"
_REPORT = b"\x1a"
_RELEASE = b"\x22"
_CANCEL = b"\x2a\x00"
_MORE = b"\x82\x01"
_TAKES_MORE = b"\x88\x01\x01"

MOST_IN_ONE = 1_000
"""The most further calls in one message."""


USUAL = 0x800
"""Numbers below this are kept written."""


def varint(number: int) -> bytes:
    """A number as protobuf writes it."""
    if number < USUAL:
        return _USUAL[number]
    return _varint(number)


def _varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


_USUAL = tuple(_varint(number) for number in range(USUAL))


def acquire(cid: int, request: bytes) -> bytes:
    """An ask under this number."""
    return b"".join((_CORRELATION_ID, varint(cid), _ACQUIRE, varint(len(request)), request))


def report(cid: int, request: bytes) -> bytes:
    """A report under this number."""
    return b"".join((_CORRELATION_ID, varint(cid), _REPORT, varint(len(request)), request))


def release(cid: int, request: bytes) -> bytes:
    """What is given back, under this number."""
    return b"".join((_CORRELATION_ID, varint(cid), _RELEASE, varint(len(request)), request))


def attempt(request_id: str, number: int, deadline: float | None, ticket: bytes, previous_lease_id: str) -> bytes:
    """The fields of an `AcquireRequest` that differ from attempt to attempt, to be put behind the others."""
    name = request_id.encode()
    said = b"".join((b"\x0a", varint(len(name)), name, b"\x10", varint(number)))
    if deadline is not None:
        said += b"\x5a" + _short(duration(deadline))
    if ticket:
        said += b"\xf2\x01" + varint(len(ticket)) + ticket
    if previous_lease_id:
        lease = previous_lease_id.encode()
        said += b"\xfa\x01" + varint(len(lease)) + lease
    return said


def of_lease(lease_id: str, seq: int, age: float, wants_next: bool) -> bytes:
    """The fields of a `ReportRequest` that are known when it is written, to be put behind the others."""
    lease = lease_id.encode()
    length = _AGES[int(age * 1e3)] if age < 1.0 else duration(age)
    number = b"\x10" + varint(seq) if seq else b""
    retry = b"\x6a\x02\x08\x01" if wants_next else b""
    return b"".join((b"\x0a", varint(len(lease)), lease, number, b"\x5a", _USUAL[len(length)], length, retry))


def duration(length: float) -> bytes:
    """A length of time, in seconds, as a `google.protobuf.Duration`."""
    nanos = int(length * 1e9)
    seconds, nanos = divmod(nanos, 1_000_000_000)
    said = b"\x08" + varint(seconds) if seconds else b""
    return said + b"\x10" + varint(nanos) if nanos else said


_AGES = tuple(duration(millis / 1e3) for millis in range(1_000))
"""Short ones, down to the millisecond: an answer that is said to be younger than it is makes nobody wait for less."""


def _short(inner: bytes) -> bytes:
    """A message of less than 128 bytes inside of another."""
    return bytes((len(inner),)) + inner


def begun(
    target: tuple[str, str, str],
    fallbacks: Iterable[tuple[str, str, str]],
    cost: Mapping[str, int],
    cost_estimated: bool,
    max_wait: float | None,
    run_time: float | None,
    priority: int,
    tenant: str,
    labels: Mapping[str, str],
    parent: str,
    repeat: int,
) -> bytes:
    """The fields of an `AcquireRequest` that all attempts of a call have in common."""
    pieces = [field(b"\x1a", _target(target))]
    pieces += [field(b"\x22", _target(fallback)) for fallback in fallbacks]
    pieces += [field(b"\x2a", _entry(meter, units)) for meter, units in cost.items()]
    if cost_estimated:
        pieces.append(b"\x30\x01")
    if max_wait is not None:
        pieces.append(field(b"\x52", duration(max_wait)))
    if run_time is not None:
        pieces.append(field(b"\x6a", duration(run_time)))
    if priority:
        pieces.append(b"\xa0\x01" + varint(priority))
    if tenant:
        pieces.append(field(b"\xaa\x01", tenant.encode()))
    pieces += [field(b"\xb2\x01", _text(b"\x0a", name) + _text(b"\x12", value)) for name, value in labels.items()]
    if parent:
        pieces.append(field(b"\xba\x01", parent.encode()))
    if repeat:
        pieces.append(b"\x80\x02" + varint(repeat))
    return b"".join(pieces)


def outcome(
    kind: int,
    status: int = 0,
    grpc_status: int | None = None,
    headers: Iterable[tuple[str, str]] = (),
    body: bytes = b"",
    usage: Mapping[str, int] | None = None,
    usage_estimated: bool = False,
    final: bool = True,
    served_by: str = "",
) -> bytes:
    """The fields of a `ReportRequest` that are known when an attempt has ended."""
    pieces = [b"\x18" + varint(kind)]
    if status:
        pieces.append(b"\x20" + varint(status))
    if grpc_status is not None:
        pieces.append(b"\x28" + varint(grpc_status))
    pieces += [field(b"\x32", _text(b"\x0a", name) + _text(b"\x12", value)) for name, value in headers]
    if body:
        pieces.append(field(b"\x3a", body))
    if usage:
        pieces += [field(b"\x42", _entry(meter, units)) for meter, units in usage.items()]
    if usage_estimated:
        pieces.append(b"\x48\x01")
    if final:
        pieces.append(b"\x50\x01")
    if served_by:
        pieces.append(field(b"\x62", served_by.encode()))
    return b"".join(pieces)


def field(tag: bytes, inner: bytes) -> bytes:
    """Text, bytes or a message inside of another."""
    return tag + varint(len(inner)) + inner


def _text(tag: bytes, text: str) -> bytes:
    return field(tag, text.encode())


def _entry(name: str, number: int) -> bytes:
    """An entry of a map from names to numbers."""
    if not 0 <= number < 1 << 64:
        raise ValueError(f"{name}: {number} units; they are a number of 64 bits, and none is negative")
    return _text(b"\x0a", name) + b"\x10" + varint(number)


@lru_cache(maxsize=1_024)
def _target(target: tuple[str, str, str]) -> bytes:
    return b"".join(_text(tag, text) for tag, text in zip((b"\x0a", b"\x12", b"\x1a"), target, strict=True) if text)


def cancel(cid: int) -> bytes:
    """The call under this number does not want to wait any longer."""
    return b"".join((_CORRELATION_ID, varint(cid), _CANCEL))


def bundles(said: Sequence[bytes], others_know: bool) -> list[bytes]:
    """The messages to write for what is said, in its order: one, if the service is known to read several calls in one.

    Until it has shown that it does, each goes alone and asks it to show it; a call is in each of them, since a service that knows
    no bundles ends a stream on which something else comes.
    """
    if not others_know:
        return [one + _TAKES_MORE for one in said]
    made = []
    for at in range(0, len(said), MOST_IN_ONE + 1):
        part = said[at : at + MOST_IN_ONE + 1]
        pieces = [part[0]]
        for one in part[1:]:
            pieces += (_MORE, varint(len(one)), one)
        made.append(b"".join(pieces))
    return made
