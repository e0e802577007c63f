"""What a call does next, in virtual time: nobody is asked, nothing is slept."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeVar

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from paceline import Abandoned, Ask, Denied, Mode, Reason, Reported, Response, Target, Unreachable, Verdict
from paceline._proto import common_pb2, rate_limiter_pb2
from paceline._proto.rate_limiter_pb2 import AcquireRequest, AcquireResponse, ReportResponse
from paceline.asked import begin
from paceline.engine.solo import Solo
from paceline.exchange import Exchange, Kind, Lease, Sleep
from paceline.inherited import NOTHING
from paceline.reports import Report
from paceline.settings import ClientMode, Settings
from paceline.steps import CallState, Given, Step, World, acquire, report
from paceline.timing import Moment, to_proto

T = TypeVar("T")
Answer = Callable[[Exchange], None]


class Play:
    """A world whose clock goes as far as is slept, and a service that answers by a list."""

    def __init__(self, ask: Ask | None = None, mode: ClientMode = "enforce", **world: Any) -> None:
        self.steady, self.wall = 1_000.0, 1_700_000_000.0
        self.away: float | None = None
        self.slept: list[float] = []
        self.said: list[Exchange] = []
        self.asked: list[AcquireRequest] = []
        self.oversleeps: list[tuple[float, float]] = []
        self.solo = Solo()
        self.world = World(self.solo, lambda now: self.away, "here", self._beside, now=self.now, chance=lambda: 0.0, **world)
        settings = Settings(("here",), "prod", "", mode)
        ask = ask or Ask("openai", model="gpt-4o", cost={"tokens": 100}, request_id="r")
        self.asks_beside: list[Any] = []
        self.before: list[Any] = []
        self.call = CallState(begin(ask, NOTHING, settings), mode, self.world)

    def now(self) -> Moment:
        return Moment(self.steady, self.wall)

    def _beside(self, asked: Any, before: Any) -> Any:
        self.asks_beside.append(asked)
        self.before.append(before)
        return type("Beside", (), {"tell": lambda _, said: self.asks_beside.append(said)})()

    def run(self, plan: Generator[Step, None, T], *answers: Answer) -> T:
        """Carries the steps out; each answer is for one exchange."""
        waiting = list(answers)
        try:
            step = next(plan)
            while True:
                if isinstance(step, Sleep):
                    self.slept.append(round(step.until - self.steady, 6))
                    steady, wall = self.oversleeps.pop(0) if self.oversleeps else (0.0, 0.0)
                    passed = max(step.until - self.steady, 0.0)
                    self.steady += passed + steady
                    self.wall += passed + wall
                elif not step.done:
                    self.said.append(step)
                    if step.kind is Kind.ASK and step.asked is not None:
                        self.asked.append(AcquireRequest.FromString(step.asked.encoded(self.steady)))
                    waiting.pop(0)(step)
                    step.received = step.received or self.now()
                step = next(plan)
        except StopIteration as end:
            assert not waiting, "not all was asked"
            return end.value  # type: ignore[no-any-return]


def grants(wait: float = 0.0, within: float = 2.0, mode: Mode = Mode.ENFORCE, lease: str = "l") -> Answer:
    def answer(exchange: Exchange) -> None:
        response = AcquireResponse(mode=int(mode))  # type: ignore[arg-type]
        response.grant.lease_id = lease
        response.grant.wait.CopyFrom(to_proto(wait))
        response.grant.use_within.CopyFrom(to_proto(within))
        response.grant.reserved["tokens"] = 100
        exchange.response = response
        exchange.lease = Lease(lease, Target("openai", "prod", "gpt-4o"), None)

    return answer


def queues(ticket: bytes, come_back_in: float) -> Answer:
    def answer(exchange: Exchange) -> None:
        exchange.response = AcquireResponse()
        exchange.response.queued.ticket = ticket
        exchange.response.queued.come_back_in.CopyFrom(to_proto(come_back_in))

    return answer


def denies(exchange: Exchange) -> None:
    exchange.response = AcquireResponse()
    exchange.response.denial.reason = rate_limiter_pb2.REASON_QUEUE_FULL
    exchange.response.denial.detail = "too many wait"


def nobody(exchange: Exchange) -> None:
    exchange.nobody = True


def turn_comes(play: Play) -> Answer:
    def answer(exchange: Exchange) -> None:
        assert exchange.kind is Kind.TURN
        play.steady = exchange.until
        exchange.nobody = True

    return answer


def tells(verdict: Verdict, following: Answer | None = None, **fields: Any) -> Answer:
    def answer(exchange: Exchange) -> None:
        exchange.response = ReportResponse(applied=True, verdict=int(verdict), **fields)  # type: ignore[arg-type]
        if following is not None:
            exchange.following = Exchange(Kind.ASK, asked=exchange.next_asked)
            following(exchange.following)
            exchange.following.done = True

    return answer


def test_a_grant_is_slept_until_its_time_and_never_less() -> None:
    play = Play()
    given = play.run(acquire(play.call), grants(wait=1.5))
    assert (play.slept, given.path, given.waited, given.target.model) == ([1.5], "served", 1.5, "gpt-4o")
    request = play.asked[0]
    assert (request.request_id, request.attempt, request.target.account, dict(request.cost)) == ("r", 1, "prod", {"tokens": 100})


@given(st.integers(1, 100_000), st.integers(0, 5_000), st.integers(0, 8_000))
def test_a_call_is_sent_neither_early_nor_late(wait: int, within: int, oversleep: int) -> None:
    assume(abs(oversleep - within) > 1)
    play = Play()
    play.oversleeps = [(oversleep / 1e3, oversleep / 1e3)]
    start, is_late = play.steady, oversleep > within
    play.run(acquire(play.call), grants(wait / 1e3, within / 1e3), *([grants()] if is_late else []))
    assert play.steady >= start + wait / 1e3 - 1e-9
    assert [(one.request_id, one.attempt) for one in play.asked] == [("r", 1)] * (2 if is_late else 1)


def test_late_by_the_wall_clock_is_late_as_well() -> None:
    play = Play()
    play.oversleeps = [(0.0, 3_600.0)]
    play.run(acquire(play.call), grants(wait=1.0), grants())
    assert len(play.asked) == 2


def test_a_place_in_line_is_kept_by_its_ticket() -> None:
    play = Play(Ask("openai", request_id="r", deadline=60.0))
    # The deadline counts on the real clock here; only its sequence matters.
    play.call.asked.deadline_at = play.steady + 60.0
    play.run(acquire(play.call), queues(b"t", 3.0), grants())
    assert [one.ticket for one in play.asked] == [b"", b"t"]
    assert [one.deadline.seconds for one in play.asked] == [60, 57], "the time left, whenever it is asked"


def test_a_denial_is_the_callers() -> None:
    play = Play()
    with pytest.raises(Denied, match=r"denied \(queue_full\): too many wait") as raised:
        play.run(acquire(play.call), denies)
    assert (raised.value.reason, raised.value.retry_after) == (Reason.QUEUE_FULL, None)
    assert play.call.waiting is None


def test_the_next_slot_comes_with_the_report() -> None:
    play = Play()
    given = play.run(acquire(play.call), grants())
    reported = play.run(report(play.call, given, Report(Response(429)), True), tells(Verdict.RETRY, grants(2.0, lease="m")))
    assert (reported.again, reported.verdict) == (True, Verdict.RETRY)
    again = play.run(acquire(play.call))
    assert (again.asked.attempt, again.lease and again.lease.id, play.slept) == (2, "m", [2.0])


def test_without_a_next_slot_it_is_asked_for() -> None:
    play = Play()
    given = play.run(acquire(play.call), grants())
    assert play.run(report(play.call, given, Report(Response(429)), True), tells(Verdict.FAIL_OVER)).again
    play.run(acquire(play.call), grants(lease="m"))
    assert [(one.attempt, one.previous_lease_id) for one in play.asked] == [(1, ""), (2, "l")]


@pytest.mark.parametrize(
    ("verdict", "applied", "kind", "retryable", "again"),
    [
        (Verdict.RETRY, True, common_pb2.ANSWER_KIND_FAILED, True, True),
        (Verdict.FAIL_OVER, True, common_pb2.ANSWER_KIND_THROTTLED, True, True),
        (Verdict.GIVE_UP, True, common_pb2.ANSWER_KIND_THROTTLED, True, False),
        (Verdict.DONE, True, common_pb2.ANSWER_KIND_OK, False, False),
        (Verdict.UNSPECIFIED, False, common_pb2.ANSWER_KIND_THROTTLED, True, True),
        (Verdict.UNSPECIFIED, False, common_pb2.ANSWER_KIND_OVERLOADED, True, True),
        (Verdict.UNSPECIFIED, False, common_pb2.ANSWER_KIND_FAILED, True, False),
        (Verdict.UNSPECIFIED, False, common_pb2.ANSWER_KIND_THROTTLED, False, False),
    ],
)
def test_what_is_sent_again(verdict: Verdict, applied: bool, kind: Any, retryable: bool, again: bool) -> None:
    play = Play()
    given = play.run(acquire(play.call), grants())

    def answer(exchange: Exchange) -> None:
        tells(verdict)(exchange)
        exchange.told().applied = applied
        exchange.told().signal.kind, exchange.told().signal.retryable = kind, retryable

    assert play.run(report(play.call, given, Report(Response(503)), True), answer).again == again


def test_who_does_not_want_another_attempt_is_not_given_one() -> None:
    play = Play()
    given = play.run(acquire(play.call), grants())
    reported = play.run(report(play.call, given, Report(Response(429)), False), tells(Verdict.RETRY))
    assert (reported.verdict, reported.again) == (Verdict.RETRY, False)
    assert play.said[-1].next_asked is None
    with pytest.raises(RuntimeError, match="made already"):
        play.run(report(play.call, given, Report(Abandoned()), False))


@pytest.mark.parametrize("mode", [Mode.OFF, Mode.SHADOW])
def test_where_nobody_makes_calls_wait_they_wait_by_themselves(mode: Mode) -> None:
    play = Play()
    given = play.run(acquire(play.call), grants(mode=mode))
    said = Report(Response(429, {"Retry-After": "2"}))

    def answer(exchange: Exchange) -> None:
        tells(Verdict.RETRY)(exchange)
        exchange.told().signal.retry_after.CopyFrom(to_proto(2.0))

    assert play.run(report(play.call, given, said, True), answer).again
    assert play.said[-1].next_asked is None, "the next slot would be there at once"
    play.run(acquire(play.call), grants(mode=mode))
    assert play.slept == [2.0]


def test_off_asks_nobody_and_retries_as_an_sdk() -> None:
    play = Play(mode="off")
    for attempt in (1, 2, 3):
        given = play.run(acquire(play.call))
        assert (given.path, given.asked.attempt, given.lease) == ("bypass", attempt, None)
        reported = play.run(report(play.call, given, Report(Response(429, {"retry-after": "1"})), True))
        assert reported.again == (attempt < 3)
    assert play.slept == [1.0, 1.0]


def test_shadow_asks_beside_the_call_and_waits_for_nothing() -> None:
    play = Play(mode="shadow")
    given = play.run(acquire(play.call))
    assert (given.path, len(play.asks_beside), play.slept) == ("bypass", 1, [])
    reported = play.run(report(play.call, given, Report(Response(200)), False))
    assert (reported.verdict, len(play.asks_beside)) == (Verdict.DONE, 2)


def test_an_ask_beside_a_further_attempt_knows_the_one_before() -> None:
    play = Play(mode="shadow")
    first = play.run(acquire(play.call))
    assert play.run(report(play.call, first, Report(Response(429)), True)).again
    second = play.run(acquire(play.call))
    assert second.asked.attempt == 2
    assert play.before == [None, first.beside]


def test_when_nobody_answers_the_recent_share_paces_and_then_the_service_is_asked_again() -> None:
    play = Play()
    for _ in range(10):
        play.run(acquire(play.call), grants())
        play.steady += 1.0
    play.away = play.steady
    first = play.run(acquire(play.call), nobody)
    second = play.run(acquire(play.call), nobody, turn_comes(play))
    assert (first.path, second.path) == ("local", "local")
    assert 0.5 <= second.waited <= 2.1, "one a second was granted"

    def comes_back(exchange: Exchange) -> None:
        assert exchange.kind is Kind.TURN

    given = play.run(acquire(play.call), nobody, comes_back, grants())
    assert given.path == "served"


def test_a_turn_that_comes_too_late_is_denied() -> None:
    play = Play(Ask("openai", model="gpt-4o", request_id="r", max_wait=5.0))
    play.run(acquire(play.call), grants())
    play.away = play.steady
    play.run(acquire(play.call), nobody)
    with pytest.raises(Denied, match="after the 5 s that it may wait") as raised:
        play.run(acquire(play.call), nobody)
    assert raised.value.reason is Reason.DEADLINE


def test_a_call_that_is_denied_takes_nobodys_turn(caplog: pytest.LogCaptureFixture) -> None:
    play = Play(Ask("openai", model="gpt-4o", cost={"tokens": 100}, max_wait=5.0))
    play.run(acquire(play.call), grants())
    play.away = play.steady
    play.run(acquire(play.call), nobody)
    waits = []
    for _ in range(5):
        with pytest.raises(Denied, match="by this process's recent share") as raised:
            play.run(acquire(play.call), nobody)
        waits.append(raised.value.retry_after)
    assert len(set(waits)) == 1, "the next turn is where it was"
    assert "with this process's recent share" in caplog.text
    play.steady += waits[0] or 0.0
    assert play.run(acquire(play.call), nobody).path == "local"


def test_where_the_service_only_watched_its_absence_holds_nobody_up() -> None:
    play = Play()
    play.run(acquire(play.call), grants(mode=Mode.SHADOW))
    play.away = play.steady
    for _ in range(5):
        assert play.run(acquire(play.call), nobody).path == "bypass"


def test_who_wants_no_call_without_the_service_gets_an_error() -> None:
    play = Play(goes_on=False)
    with pytest.raises(Unreachable, match="no Paceline service answered at here"):
        play.run(acquire(play.call), nobody)


def test_a_report_that_nobody_takes_is_judged_as_an_sdk_would() -> None:
    play = Play()
    given: Given = play.run(acquire(play.call), grants())
    reported: Reported = play.run(report(play.call, given, Report(Response(429, {"retry-after": "3"})), True), nobody)
    assert reported.again
    play.run(acquire(play.call), grants(lease="m"))
    assert play.slept == [3.0]
    assert (play.asked[-1].attempt, play.asked[-1].previous_lease_id) == (2, "l")
