"""What a call does next, without I/O: generators that yield what is to be done and read from it what came of it.

A shell (blocking, or awaiting) carries each step out: an `Exchange` is given to the engine and waited for, a `Sleep` is slept.
Time and chance are arguments, so all of this runs in virtual time as well.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from paceline import alone, reports
from paceline.ask import Target
from paceline.asked import Asked
from paceline.exchange import ASK, TELL, TURN, Exchange, Lease, Sleep
from paceline.outcomes import Reported
from paceline.reports import Report
from paceline.timing import USE_WITHIN, Moment, Window, seconds
from paceline.words import Mode, Source, Verdict

if TYPE_CHECKING:
    from paceline._proto.rate_limiter_pb2 import AcquireResponse
    from paceline.engine.beside import Beside
    from paceline.engine.solo import Solo
    from paceline.settings import ClientMode

log = logging.getLogger("paceline")

Step: TypeAlias = "Exchange | Sleep"
SERVED = "served"
"""The service gave the slot."""
LOCAL = "local"
"""Nobody answers: the client's recent share gave it."""
BYPASS = "bypass"
"""Nobody gave it: the client is off or only watches, or has been alone for too long."""
MODES = {int(mode): mode for mode in Mode}
LONG_WAIT = 5.0
"""A wait that passes this is told in the log, in seconds."""


@dataclass
class World:
    """What the steps need to know of the world."""

    solo: Solo
    """What the process knows for when nobody answers."""
    away_since: Callable[[float], float | None]
    """Since when nobody has answered for as long as the client is patient, at this time."""
    addrs: str
    beside: Callable[[Asked, Beside | None], Beside]
    """Asks beside a call that does not wait for it; what was asked for the attempt before, if there was one."""
    goes_on: bool = True
    """Whether calls go on when nobody answers."""
    now: Callable[[], Moment] = Moment.now
    chance: Callable[[], float] = random.random


class Given:
    """A slot as it was given."""

    __slots__ = ("asked", "beside", "is_sent", "is_settled", "lease", "mode", "path", "response", "target", "waited", "window")

    def __init__(
        self,
        asked: Asked,
        target: Target,
        lease: Lease | None,
        response: AcquireResponse | None,
        window: Window | None,
        waited: float,
        path: str,
        mode: Mode,
    ) -> None:
        self.asked = asked
        self.target = target
        self.lease = lease
        """``None``: the service did not give it, and is not told."""
        self.response = response
        self.window = window
        self.waited = waited
        self.path = path
        self.mode = mode
        self.beside: Beside | None = None
        self.is_sent = False
        self.is_settled = False


class CallState:
    """One logical call: what its shells share."""

    __slots__ = ("asked", "beside", "coming", "given", "mode", "not_before", "waiting", "world")

    def __init__(self, asked: Asked, mode: ClientMode, world: World) -> None:
        self.asked = asked
        self.mode = mode
        self.world = world
        self.given: Given | None = None
        """The slot that is held."""
        self.beside: Beside | None = None
        """What was asked beside its last attempt."""
        self.coming: Exchange | None = None
        """The next slot, when it came with a report or is on its way."""
        self.waiting: Exchange | Lease | bytes | None = None
        """What is to be given back if the ask ends here."""
        self.not_before: float | None = None
        """Where nobody makes calls wait, they wait by themselves before the next attempt."""


def acquire(call: CallState) -> Generator[Step, None, Given]:
    """Asks, keeps its place, and sleeps until the call may be sent: never less.

    An answer that was slept past its use is asked for again, with the same request_id and attempt. When nobody answers, the call
    goes on without the service, and back to it when it is there again.
    """
    world = call.world
    started = world.now().steady
    if call.not_before is not None:
        yield Sleep(call.not_before)
        call.not_before = None
    if call.mode == "off":
        return _unserved(call, BYPASS, started)
    if call.mode == "shadow":
        given = _unserved(call, BYPASS, started)
        given.beside = call.beside = world.beside(call.asked, call.beside)
        return given
    while True:
        asked = call.asked
        exchange, call.coming = call.coming or Exchange(ASK, asked=asked), None
        call.waiting = exchange
        yield exchange
        call.waiting = None
        if exchange.problem is not None:
            raise exchange.problem
        if exchange.nobody:
            path = yield from _without_service(call, started)
            if path is not None:
                return _unserved(call, path, started)
            continue
        response, received = exchange.acquired(), exchange.received or world.now()
        lease = exchange.lease
        if lease is not None:
            call.waiting = lease
            grant = response.grant
            wait = seconds(grant.wait)
            world.solo.granted(lease.target, grant, response.mode, received.steady + wait, received.steady)
            within = seconds(grant.use_within) if grant.HasField("use_within") else USE_WITHIN
            window = Window(received, received.steady + wait, wait + within)
            if wait > 0.0:
                if window.opens - started > LONG_WAIT and not exchange.is_logged:
                    tell_of_wait(world.solo, asked, response, window.opens - started, received.steady)
                yield Sleep(window.opens)
            now = world.now()
            if window.is_over(now):
                # The process was frozen or starved. What was granted for then is not for now; asking again gives it back.
                log.debug("woke too late for the slot of %s; asking again", asked.request_id)
                call.waiting = None
                continue
            call.waiting = None
            mode = MODES.get(response.mode, Mode.UNSPECIFIED)
            given = call.given = Given(asked, lease.target, lease, response, window, now.steady - started, SERVED, mode)
            return given
        world.solo.heard(asked, response, received.steady)
        outcome = response.WhichOneof("outcome")
        if outcome == "queued":
            # Not held any more: the place is kept by the ticket.
            asked.ticket = response.queued.ticket
            call.waiting = response.queued.ticket
            back_at = received.steady + seconds(response.queued.come_back_in)
            if back_at > world.now().steady:
                yield Sleep(back_at)
            continue
        if outcome == "denial":
            raise reports.denied(response)
        raise reports.malformed("outcome")


def _without_service(call: CallState, started: float) -> Generator[Step, None, str | None]:
    """What becomes of an ask that nobody answered: it goes, by the client's own pace, or (`None`) somebody is there again."""
    world, asked = call.world, call.asked
    if not world.goes_on:
        raise reports.unreachable(world.addrs, world.solo.advice())
    now = world.now().steady
    if not world.solo.is_enforced(asked):
        return BYPASS
    # When others were answered meanwhile, this call is what nobody answers.
    away_since = world.away_since(now)
    since = now if away_since is None else away_since
    turn = world.solo.book(asked, since, started, now, world.chance(), world.addrs)
    if turn.at > now and away_since is None:
        yield Sleep(turn.at)
    elif turn.at > now:
        back = Exchange(TURN)
        back.until = turn.at
        yield back
        if not back.nobody:
            return None
    return LOCAL if turn.is_paced else BYPASS


def _unserved(call: CallState, path: str, started: float) -> Given:
    """A slot that no service gave."""
    waited = call.world.now().steady - started
    call.given = Given(call.asked, call.asked.target, None, None, None, waited, path, Mode.OFF)
    return call.given


def report(call: CallState, given: Given, said: Report, retry: bool) -> Generator[Step, None, Reported]:
    """Tells how an attempt went, and with `retry` asks for the next slot if the call is to be sent again."""
    world = call.world
    if given.is_settled:
        raise RuntimeError("this slot's last report was made already")
    given.is_sent = True
    retry = retry and not given.asked.is_last
    if said.is_final:
        given.is_settled = True
        call.given = None
    lease = given.lease
    if lease is None:
        if given.beside is not None:
            given.beside.tell(said)
        return judged_alone(call, given, said, retry)
    # From here on the engine holds nothing of it: neither renewals nor the end of the process speak of it again.
    lease.is_sent, lease.is_settled = True, said.is_final
    is_watched = given.mode in (Mode.OFF, Mode.SHADOW)
    wants = retry and said.is_final
    # Where nobody makes calls wait the next slot is there at once, so the wait comes before it is asked for.
    after = given.asked.next_attempt(lease.id) if wants else None
    exchange = Exchange(TELL, lease=lease, report=said)
    exchange.next_asked = None if is_watched else after
    exchange.is_kept = said.is_final
    yield exchange
    if exchange.problem is not None:
        raise exchange.problem
    if exchange.nobody:
        # The report goes on being said; what follows is judged as if there were no service.
        return judged_alone(call, given, said, retry)
    response = exchange.told()
    reported = reports.reported(response)
    world.solo.told(given.target, reported.signal, world.now().steady)
    if not wants or after is None or not reports.is_to_be_sent_again(reported):
        return reported
    if is_watched:
        # As often as an SDK would, and not as often as the service allows those whom it paces: a trial adds no calls.
        return _again_by_itself(call, given, reported) if given.asked.attempt < alone.ATTEMPTS else reported
    call.asked = after
    # The next slot, or the place in line for it; absent where it has to be asked for.
    call.coming = exchange.following
    return _again(reported)


def judged_alone(call: CallState, given: Given, said: Report, retry: bool) -> Reported:
    """What an SDK would make of an answer. The client remembers what the provider said in it."""
    world = call.world
    judged = alone.judge(said.request, given.asked.attempt)
    if alone.is_refusal(said.request):
        world.solo.refused(given.target)
    world.solo.told(given.target, judged.signal, world.now().steady)
    if retry and judged.verdict == Verdict.RETRY:
        return _again_by_itself(call, given, judged)
    return judged


def _again_by_itself(call: CallState, given: Given, reported: Reported) -> Reported:
    """Sends again after a wait as SDKs have it, if the deadline allows it."""
    world = call.world
    wait = alone.wait(reported.signal, given.asked.attempt, world.chance())
    until = None if wait is None else world.now().steady + wait
    ends = given.asked.deadline_at
    if until is None or (ends is not None and until >= ends):
        return reported
    call.not_before = until
    call.asked = given.asked.next_attempt(given.lease.id if given.lease is not None else "")
    return _again(reported)


def _again(reported: Reported) -> Reported:
    return Reported(reported.verdict, reported.reason, True, reported.signal, reported.detail, reported.not_applied)


def tell_of_wait(solo: Solo, asked: Asked, response: AcquireResponse, waits: float, now: float) -> None:
    """One line for whoever asks why a call takes so long: a warning for the first in a minute of a target, else for debugging."""
    target = asked.target
    name = "/".join(part for part in target if part)
    binding = next((delay for delay in response.delays if delay.binding), None)
    why = "what binds is not known"
    if binding is not None:
        source = Source(binding.source).word.replace("_", " ")
        why = f"{source} ({binding.bucket}) binds" if binding.bucket else f"{source} binds"
    if response.HasField("queued"):
        queued = response.queued
        place = f"; {queued.ahead} before it in line, expected in {seconds(queued.estimated_wait):.1f} s"
    else:
        place = "; its slot is granted"
    log.log(
        logging.WARNING if solo.may_tell_of_wait(target, now) else logging.DEBUG,
        "%s: a call waits %.1f s for its slot: %s%s (request_id %s)",
        name,
        waits,
        why,
        place,
        asked.request_id,
    )
