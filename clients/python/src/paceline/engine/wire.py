"""What is said on a stream as bytes.

A message of the contract inside of another would be copied once by its setter and once more by the bundle's; written by hand, it
is encoded once. The fields are those of `SessionRequest` in proto/paceline/v1/rate_limiter.proto.
"""

from __future__ import annotations

from collections.abc import Sequence

_CORRELATION_ID = b"\x08"
_ACQUIRE = b"\x12"
_REPORT = b"\x1a"
_RELEASE = b"\x22"
_CANCEL = b"\x2a\x00"
_MORE = b"\x82\x01"
_TAKES_MORE = b"\x88\x01\x01"

MOST_IN_ONE = 1_000
"""The most further calls in one message."""


def varint(number: int) -> bytes:
    """A number as protobuf writes it."""
    if number < 0x80:
        return bytes((number,))
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


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
    said = b"\x0a" + varint(len(name)) + name + b"\x10" + varint(number)
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
    said = b"\x0a" + varint(len(lease)) + lease
    if seq:
        said += b"\x10" + varint(seq)
    said += b"\x5a" + _short(duration(age))
    return said + b"\x6a\x02\x08\x01" if wants_next else said


def duration(length: float) -> bytes:
    """A length of time, in seconds, as a `google.protobuf.Duration`."""
    nanos = int(length * 1e9)
    seconds, nanos = divmod(nanos, 1_000_000_000)
    said = b"\x08" + varint(seconds) if seconds else b""
    return said + b"\x10" + varint(nanos) if nanos else said


def _short(inner: bytes) -> bytes:
    """A message of less than 128 bytes inside of another."""
    return bytes((len(inner),)) + inner


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
