"""One call through an HTTP library, from the ask to the last report, whichever library it is.

Written once, as a coroutine over two narrow interfaces. Where a library blocks, its `Port` never suspends,
and `blocking` runs the coroutine to its end in one go; so both worlds have the same protocol, and no event
loop is needed for one of them.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from paceline.ask import Ask, Target
from paceline.errors import Denied
from paceline.inherited import here
from paceline.outcomes import Outcome, Reported, Response
from paceline.sdk.denial import DENIED_STATUS, Last, denial_answer
from paceline.sdk.plan import Plan, Policy, plan_of
from paceline.sdk.secrets import clean_body, clean_headers
from paceline.sdk.seen import Seen
from paceline.sdk.usage import error_in, usage_of_body
from paceline.transports import again
from paceline.transports.tail import Tail

if TYPE_CHECKING:
    from paceline.slots import LimiterView

__all__ = ["Line", "Port", "Sent", "blocking", "carry", "planned"]

log = logging.getLogger("paceline")

A = TypeVar("A")
T = TypeVar("T")
Pairs = Sequence[tuple[str, str]]


class Port(Protocol[A]):
    """What an HTTP library does for one request; `A` is its answer."""

    replayable: bool
    """Whether the request can be sent a second time: its body is not used up by the first."""

    async def send(self) -> A:
        """Sends it; raises the library's errors."""

    async def read(self, answer: A) -> bytes:
        """The whole body, decompressed; the connection is free again."""

    def facts(self, answer: A) -> Sent:
        """Status, headers and whether it comes bit by bit."""

    def rebuilt(self, answer: A, body: bytes, extra: Pairs) -> A:
        """The answer as if it had not been read, with more headers."""

    def watched(self, answer: A, tail: Tail, extra: Pairs) -> A:
        """The answer with a body that tells `tail` all that passes."""

    def made(self, status: int, headers: Pairs, body: bytes) -> A:
        """An answer of our own."""

    def outcome_of(self, error: Exception) -> Outcome | None:
        """What an error of `send` or `read` means; `None` for one that is no failure of the call."""


@dataclass(frozen=True)
class Sent:
    """What is known of an answer before its body."""

    status: int
    headers: Pairs
    streams: bool


class Line(Protocol):
    """A limiter's call as a coroutine, whether it blocks or awaits underneath."""

    mode: str
    request_id: str

    @property
    def target(self) -> Target:
        """Where the call goes."""

    async def acquire(self) -> Any:
        """The next slot."""

    async def report(self, slot: Any, outcome: Outcome, retry: bool) -> Reported:
        """How it went."""

    def sent_again(self, times: int = 1) -> None:
        """Whoever sends does so again by itself: the next slot is for a later attempt."""

    def close(self) -> None:
        """Gives back what is held."""


def planned(seen: Seen, policy: Policy) -> Plan | None:
    """The plan of a request; one that cannot be read goes straight through, since it is not ours to fail."""
    try:
        return plan_of(seen, policy, os.environ)
    except Exception:
        log.exception("paceline cannot read this request and lets it go; please report it")
        return None


def ask_of(plan: Plan, policy: Policy, limiter: LimiterView, bound: int | None) -> Ask:
    """The ask for a request. Account: what the transport was given, the context, the limiter, else the
    credential's fingerprint. `bound` is what the client wants; of several bounds on attempts the lowest counts.
    """
    account = policy.account
    if account is None and not here().account and not limiter.account:
        account = plan.fingerprint
    place = plan.place
    repeat = here().repeat or place.repeat
    bounds = [most for most in (bound, here().attempts, limiter.most_attempts) if most is not None]
    return Ask(
        place.provider,
        account=account,
        model=place.model,
        cost=dict(plan.cost),
        cost_estimated=True,
        repeat=repeat,
        attempts=min(bounds, default=None),
    )


async def carry(seen: Seen, plan: Plan, port: Port[A], line: Line) -> A:
    """Sends a request as often as the service says, and brings what the caller gets."""
    enforced = line.mode == "enforce"
    try:
        if enforced:
            again.fail_again(seen)
        else:
            line = again.continued(seen, line)
        return await _attempts(seen, plan, port, line, enforced)
    except BaseException:
        line.close()
        raise


async def _attempts(seen: Seen, plan: Plan, port: Port[A], line: Line, enforced: bool) -> A:
    last: Last | None = None
    error: Exception | None = None
    attempt = 0
    while True:
        attempt += 1
        try:
            slot = await line.acquire()
        except Denied as denied:
            line.close()
            if error is not None:
                again.remember_error(seen, error)
                raise error from denied
            return _denied(plan, port, line, denied, last)
        slot.sent()
        # Who wants no further attempt needs nobody's verdict.
        retry = enforced and port.replayable and not slot.is_last
        extra = (("paceline-request-id", line.request_id), ("paceline-attempts", str(attempt))) if enforced else ()
        try:
            answer = await port.send()
            facts = port.facts(answer)
            if facts.streams and facts.status < 400:
                slot.settle(Response(facts.status, clean_headers(facts.headers, plan.secrets), final=False))
                whole = plan.place.family == "gemini" and seen.query.get("alt") != "sse"
                return port.watched(answer, Tail(line, slot, plan, facts.status, whole=whole), extra)
            body = await port.read(answer)
        except Exception as problem:
            outcome = port.outcome_of(problem)
            if outcome is None:
                raise
            if retry and (await line.report(slot, outcome, retry)).again:
                last, error = None, problem
                continue
            slot.settle(outcome)
            line.close()
            if enforced:
                again.remember_error(seen, problem)
            else:
                again.remember_line(seen, line)
            raise
        said = _response(facts, body, plan)
        if retry and _worth_asking(facts, body) and (await line.report(slot, said, retry)).again:
            last, error = Last(facts.status, body), None
            continue
        slot.settle(said)
        line.close()
        if enforced and facts.status >= 400:
            extra = (*extra, ("x-should-retry", "false"))
        elif not enforced and again.is_tried_again(facts.status):
            again.remember_line(seen, line)
        return port.rebuilt(answer, body, extra)


def _response(facts: Sent, body: bytes, plan: Plan) -> Response:
    headers = clean_headers(facts.headers, plan.secrets)
    if facts.status >= 400:
        return Response(facts.status, headers, body=clean_body(body, plan.secrets))
    told = clean_body(body, plan.secrets) if _is_error(body) else b""
    return Response(facts.status, headers, body=told, usage=usage_of_body(body))


def _worth_asking(facts: Sent, body: bytes) -> bool:
    return facts.status >= 400 or _is_error(body)


def _is_error(body: bytes) -> bool:
    """Whether a 200 is an error all the same, as gateways send them."""
    if b'"error"' not in body[:4096]:
        return False
    try:
        return error_in(json.loads(body))
    except (ValueError, RecursionError):
        return False


def _denied(plan: Plan, port: Port[A], line: Line, denied: Denied, last: Last | None) -> A:
    headers, body = denial_answer(plan.place.family, denied.reason.word, denied.detail, denied.retry_after, line.request_id, last)
    return port.made(DENIED_STATUS, headers, body)


def blocking(work: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine that never suspends."""
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    work.close()
    raise RuntimeError("a blocking port suspended")
