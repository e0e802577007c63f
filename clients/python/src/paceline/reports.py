"""What is reported, as messages of the contract, and answers of the contract as values."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from paceline._proto import common_pb2, rate_limiter_pb2
from paceline._proto.rate_limiter_pb2 import AcquireResponse, ReportRequest, ReportResponse
from paceline.engine import wire
from paceline.errors import Denied, PacelineError, Unreachable
from paceline.outcomes import (
    Abandoned,
    ConnectionFailed,
    Delay,
    Headers,
    Outcome,
    Reported,
    Response,
    Shadow,
    Signal,
    TimedOut,
)
from paceline.timing import seconds
from paceline.words import AnswerKind, NotApplied, Reason, Source, Verdict

_RESPONSE = int(rate_limiter_pb2.OUTCOME_RESPONSE)
_TIMEOUT = int(rate_limiter_pb2.OUTCOME_TIMEOUT)
_CONNECTION_FAILED = int(rate_limiter_pb2.OUTCOME_CONNECTION_FAILED)
_ABANDONED = int(rate_limiter_pb2.OUTCOME_ABANDONED)
SUCCESS = Response(200)
"""Of what says nothing and raises nothing."""
_ENCODED_SUCCESS = wire.outcome(_RESPONSE, 200)
LONGEST_BODY = 8 * 1024
"""The longest part of a body that the service reads."""
SECRETS = frozenset(["authorization", "proxy-authorization", "cookie", "set-cookie", "x-api-key", "api-key", "x-goog-api-key"])
"""Headers that never leave the process."""


class Report:
    """How an attempt went, as it will be sent: once, or again with the same `seq` until it is answered."""

    __slots__ = ("arrived", "encoded", "is_final")

    def __init__(self, outcome: Outcome) -> None:
        self.arrived = time.monotonic()
        self.is_final = True
        """Whether nothing more will come."""
        self.encoded: bytes
        """The request without what is known when it is written: lease, number, age."""
        if outcome is SUCCESS:
            self.encoded = _ENCODED_SUCCESS
        elif isinstance(outcome, Response):
            self.encoded = _response(outcome)
            self.is_final = outcome.final
            if outcome.arrived is not None:
                self.arrived = outcome.arrived
        elif isinstance(outcome, TimedOut):
            self.encoded = wire.outcome(_TIMEOUT, usage=outcome.usage, usage_estimated=bool(outcome.usage))
        elif isinstance(outcome, ConnectionFailed):
            self.encoded = wire.outcome(_CONNECTION_FAILED)
        elif isinstance(outcome, Abandoned):
            self.encoded = wire.outcome(_ABANDONED, usage=outcome.usage, usage_estimated=bool(outcome.usage))
        else:
            kinds = "Response, TimedOut, ConnectionFailed or Abandoned"
            raise TypeError(f"an outcome is a {kinds}, not {type(outcome).__name__}")

    @property
    def request(self) -> ReportRequest:
        """The same to be read, where nobody else reads it."""
        return ReportRequest.FromString(self.encoded)


def _response(outcome: Response) -> bytes:
    body = outcome.body.encode(errors="replace") if isinstance(outcome.body, str) else outcome.body
    headers = outcome.headers
    return wire.outcome(
        _RESPONSE,
        outcome.status,
        outcome.grpc_status,
        [pair for pair in pairs(headers) if pair[0].lower() not in SECRETS] if headers else (),
        bytes(body[:LONGEST_BODY]),
        outcome.usage,
        outcome.usage_estimated,
        outcome.final,
        outcome.served_by,
    )


def pairs(headers: Headers) -> Iterable[tuple[str, str]]:
    """Name and value as text; bytes that are not UTF-8 become Latin-1."""
    items = headers.items() if isinstance(headers, Mapping) else headers
    # Multi-maps of HTTP libraries give repeats one by one where they are asked to.
    multi = getattr(headers, "multi_items", None)
    if multi is not None:
        items = multi()
    for name, value in items:
        if type(name) is str and type(value) is str:
            yield name, value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        else:
            yield text(name), text(value)


def text(value: object) -> str:
    """Bytes and everything else as text."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        raw = bytes(value)
        try:
            return raw.decode()
        except UnicodeDecodeError:
            return raw.decode("latin-1")
    return str(value).encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def reported(response: ReportResponse) -> Reported:
    """The report's own part of the answer."""
    return Reported(
        verdict=Verdict(response.verdict),
        reason=Reason(response.reason),
        signal=signal_of(response.signal) if response.HasField("signal") else None,
        detail=response.detail,
        not_applied=None if response.applied else NotApplied(response.not_applied),
    )


def is_to_be_sent_again(reported: Reported) -> bool:
    """Whether the call is to be sent again.

    A service that has lost the lease (it restarted) cannot judge the call; then what the provider refused outright, and so did
    not run, is worth asking for again: the service decides on that ask.
    """
    if reported.verdict in (Verdict.RETRY, Verdict.FAIL_OVER):
        return True
    signal = reported.signal
    was_refused = signal is not None and signal.retryable and signal.kind in (AnswerKind.THROTTLED, AnswerKind.OVERLOADED)
    return reported.verdict == Verdict.UNSPECIFIED and reported.not_applied is not None and was_refused


def signal_of(message: common_pb2.Signal) -> Signal:
    """What was read out of an answer."""
    return Signal(
        source=Source(message.source),
        retry_after=seconds(message.retry_after) if message.HasField("retry_after") else None,
        honored=seconds(message.honored) if message.HasField("honored") else None,
        retryable=message.retryable,
        kind=AnswerKind(message.kind),
    )


def delays_of(messages: Iterable[common_pb2.Delay]) -> tuple[Delay, ...]:
    """Where the time went."""
    return tuple(Delay(Source(m.source), seconds(m.duration), m.bucket, m.binding) for m in messages)


def denied(response: AcquireResponse) -> Denied:
    """A refusal as the error it is for the caller."""
    denial = response.denial
    retry_after = seconds(denial.retry_after) if denial.HasField("retry_after") else None
    return Denied(Reason(denial.reason), denial.detail, retry_after, delays_of(response.delays))


def shadow_of(response: AcquireResponse) -> Shadow | None:
    """What would have been, where the service only watches."""
    if not response.HasField("shadow"):
        return None
    shadow = response.shadow
    is_denied = shadow.HasField("denial")
    return Shadow(
        wait=seconds(shadow.wait),
        denied=Reason(shadow.denial.reason) if is_denied else None,
        detail=shadow.denial.detail,
        delays=delays_of(shadow.delays),
    )


def malformed(missing: str) -> PacelineError:
    """The answer makes no sense to this version of the client."""
    return PacelineError(f"the service's answer has no {missing}: client and service do not fit; update the older of the two")


def unreachable(addrs: str, advice: str) -> Unreachable:
    """Nobody answered, and going on without the service was switched off."""
    return Unreachable(f"no Paceline service answered at {addrs}. {advice}")
