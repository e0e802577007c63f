"""What a worker does when nobody makes it wait: the service is off or only watches, or is not there.

Then it waits between attempts as SDKs do by themselves, so that switching us off never means hammering the provider.
"""

from __future__ import annotations

import math

from paceline._proto import rate_limiter_pb2
from paceline._proto.rate_limiter_pb2 import ReportRequest
from paceline.outcomes import Reported, Signal
from paceline.words import AnswerKind, Reason, Source, Verdict

ATTEMPTS = 3
"""How often a call is sent at most by a worker that does not ask."""
BACKOFF = (0.5, 8.0)
"""The first backoff, and the longest, in seconds."""
LONGEST = 60.0
"""The longest wait named by the provider that is waited for; a longer one ends the call."""


def judge(report: ReportRequest, attempt: int) -> Reported:
    """What becomes of a call that nobody was told of."""
    wait, source = retry_after(report)
    refused = is_refusal(report)
    is_answer = report.outcome == rate_limiter_pb2.OUTCOME_RESPONSE
    was_not_run = refused or report.outcome == rate_limiter_pb2.OUTCOME_CONNECTION_FAILED
    is_again = was_not_run and attempt < ATTEMPTS and (wait is None or wait <= LONGEST)
    reason = Reason.UNSPECIFIED
    if not report.final:
        verdict = Verdict.UNSPECIFIED
    elif is_again:
        verdict = Verdict.RETRY
    elif is_answer and report.status < 400 and not report.grpc_status:
        verdict = Verdict.DONE
    else:
        verdict = Verdict.GIVE_UP
        reason = Reason.ATTEMPTS_EXHAUSTED if was_not_run and attempt >= ATTEMPTS else Reason.NOT_RETRYABLE
    signal = None
    if wait is not None or refused:
        kind = AnswerKind.THROTTLED if report.status == 429 else AnswerKind.OVERLOADED
        signal = Signal(source, wait, None, refused, kind if refused else AnswerKind.UNSPECIFIED)
    return Reported(verdict, reason, signal=signal, detail="judged without the service, as an SDK would")


def is_refusal(report: ReportRequest) -> bool:
    """Whether the provider pushed back."""
    if report.outcome != rate_limiter_pb2.OUTCOME_RESPONSE:
        return False
    return report.status in (429, 503, 529) or (report.HasField("grpc_status") and report.grpc_status in (8, 14))


def wait(signal: Signal | None, attempt: int, chance: float) -> float | None:
    """How long to wait before the next attempt: what the provider said, else more each time.

    `chance` in 0..1 spreads it. ``None``: the provider said longer than anybody waits.
    """
    said = signal.retry_after if signal is not None else None
    first, longest = BACKOFF
    if said:
        # Never before, and not all at once.
        return None if said > LONGEST else said + min(said / 4, 1.0) * chance
    return min(first * 2.0 ** min(max(attempt - 1, 0), 8), longest) * chance


def retry_after(report: ReportRequest) -> tuple[float | None, Source]:
    """`retry-after-ms`, else `retry-after` in seconds; dates are left to those who know the time."""
    milliseconds = _number(report, "retry-after-ms")
    if milliseconds is not None:
        return milliseconds / 1e3, Source.RETRY_AFTER_MS
    number = _number(report, "retry-after")
    return number, Source.NONE if number is None else Source.RETRY_AFTER_SECONDS


def _number(report: ReportRequest, name: str) -> float | None:
    for header in report.headers:
        if header.name.lower() == name:
            try:
                number = float(header.value.strip())
            except ValueError:
                return None
            return number if math.isfinite(number) and number > 0 else None
    return None
