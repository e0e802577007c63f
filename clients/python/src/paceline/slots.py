"""A slot, a call and a limiter as far as blocking and awaiting code have them in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from paceline import inherited, reports, steps
from paceline.ask import Ask, Target
from paceline.asked import Asked, begin
from paceline.engine import engine_for
from paceline.engine.engine import Engine
from paceline.exchange import Exchange, Lease
from paceline.outcomes import Abandoned, ConnectionFailed, Delay, Headers, Outcome, Response, Shadow, TimedOut
from paceline.reading import outcome_of
from paceline.reports import Report
from paceline.settings import ClientMode, read
from paceline.steps import CallState, Given, World
from paceline.timing import Moment
from paceline.words import Mode, Priority

T = TypeVar("T")


class SlotView:
    """The right to send one call now, and the duty to report what came of it."""

    def __init__(self, state: CallState, given: Given, engine: Engine | None) -> None:
        self._state = state
        self._given = given
        self._engine = engine
        self.said: Outcome | None = None
        """How the attempt went, where it is reported at the end of a block."""
        self.is_to_be_sent_again = False
        """What the last report's answer said."""
        self._is_taken = False

    @property
    def target(self) -> Target:
        """Where to send: one of the places that were asked for."""
        return self._given.target

    @property
    def request_id(self) -> str:
        """The name of the logical call."""
        return self._given.asked.request_id

    @property
    def attempt(self) -> int:
        """Which attempt of the call this is, from 1."""
        return self._given.asked.attempt

    @property
    def is_last(self) -> bool:
        """Whether the caller wants no attempt after this one, whatever comes."""
        return self._given.asked.is_last

    @property
    def lease_id(self) -> str:
        """The lease; opaque, and empty where the service did not give the slot."""
        return self._given.lease.id if self._given.lease is not None else ""

    @property
    def waited(self) -> float:
        """How long this attempt waited, in seconds."""
        return self._given.waited

    @property
    def path(self) -> str:
        """Who gave it: the service (``served``), the recent share (``local``), nobody (``bypass``)."""
        return self._given.path

    @property
    def mode(self) -> Mode:
        """The mode the service is in for this call; off where it did not give the slot."""
        return self._given.mode

    @property
    def delays(self) -> tuple[Delay, ...]:
        """Where the waiting went, by the service's account."""
        response = self._given.response
        return reports.delays_of(response.delays) if response is not None else ()

    @property
    def shadow(self) -> Shadow | None:
        """Where the service only watches: what would have been."""
        response = self._given.response
        return reports.shadow_of(response) if response is not None else None

    @property
    def deadline_at(self) -> float | None:
        """When the caller stops caring, by ``time.monotonic()``."""
        return self._given.asked.deadline_at

    @property
    def is_late(self) -> bool:
        """Whether it can no longer be used: it was kept too long before sending. Close the call and begin another."""
        window, given = self._given.window, self._given
        return window is not None and not given.is_sent and window.is_over(Moment.now())

    @property
    def is_sent(self) -> bool:
        """Whether the call was sent, or may have been."""
        return self._given.is_sent

    @property
    def is_settled(self) -> bool:
        """Whether its last report was made."""
        return self._given.is_settled

    def take(self, provider: str, account: str | None, model: str) -> bool:
        """Whether this slot is for a call to there that is made inside of its block: for the first one.

        An account or model that nobody named is the slot's.
        """
        target = self.target
        is_its_own = provider == target.provider and account in (None, target.account) and target.model in ("", model)
        if self._is_taken or self.is_settled or not is_its_own:
            return False
        self._is_taken = True
        return True

    def sent(self) -> None:
        """Right before sending: from here on the call may have run, whatever happens here."""
        self._given.is_sent = True
        if self._given.lease is not None:
            self._given.lease.is_sent = True

    def result(self, brought: T) -> T:
        """Says how the attempt went, by what it brought: an answer of an HTTP library or SDK, or an `Outcome`.

        It is reported at the end of the block that holds the slot. Returns what it was given.
        """
        is_outcome = isinstance(brought, (Response, TimedOut, ConnectionFailed, Abandoned))
        self.said = brought if is_outcome else outcome_of(brought)  # type: ignore[assignment]
        return brought

    def release(self) -> None:
        """Gives the slot back: nothing was sent under it."""
        given = self._given
        if given.is_settled:
            return
        given.is_settled = True
        if self._state.given is given:
            self._state.given = None
        if given.lease is not None and self._engine is not None:
            self._engine.give_back(given.lease)

    def settle(self, outcome: Outcome) -> None:
        """Reports without waiting for what the service makes of it: for answers that are not to be sent again.

        Never raises for want of a service: it is said until it is answered, also while the process ends. After the last report
        it does nothing.
        """
        given = self._given
        if given.is_settled:
            return
        said = Report(outcome)
        self.sent()
        if said.is_final:
            given.is_settled = True
            if self._state.given is given:
                self._state.given = None
        if given.lease is not None and self._engine is not None:
            self._engine.tell(given.lease, said)
        elif given.beside is not None:
            given.beside.tell(said)
        if given.lease is None:
            steps.judged_alone(self._state, given, said, retry=False)

    def _first_byte(self, status: int, headers: Headers) -> None:
        self.settle(Response(status, headers, final=False))


class CallView:
    """One logical call."""

    def __init__(self, state: CallState, engine: Engine | None) -> None:
        self._state = state
        self._engine = engine
        self._is_closed = False

    def _may_acquire(self) -> None:
        """Raises `RuntimeError` where the call has ended, or holds a slot."""
        if self._is_closed:
            raise RuntimeError("this call is closed: begin another one")
        if self._state.given is not None:
            raise RuntimeError("the slot before was not reported: report it, or close the call")

    @property
    def request_id(self) -> str:
        """The name of the call, the same on all its attempts; the ``parent`` of calls made for it."""
        return self._state.asked.request_id

    @property
    def target(self) -> Target:
        """Where it was meant to go."""
        return self._state.asked.target

    @property
    def attempt(self) -> int:
        """Which attempt comes next, or runs, from 1."""
        return self._state.asked.attempt

    @property
    def is_last(self) -> bool:
        """Whether the caller wants no attempt after this one."""
        return self._state.asked.is_last

    @property
    def deadline_at(self) -> float | None:
        """When the caller stops caring, by ``time.monotonic()``."""
        return self._state.asked.deadline_at

    def sent_again(self, times: int = 1) -> None:
        """Whoever sends tries again by itself, after a wait of its own: the next slot is for a later attempt.

        A call that was closed is open again. For limiters in mode ``shadow``: in ``enforce`` the service says what is sent again.
        """
        asked = self._state.asked
        self._is_closed = False
        self._state.asked = Asked(asked.begun, asked.request_id, asked.deadline_at, asked.attempt + times)

    def close(self) -> None:
        """Gives back, or reports as abandoned, whatever is still held. May be called twice, never raises, waits for nothing."""
        self._is_closed = True
        self._stop_waiting()
        coming, self._state.coming = self._state.coming, None
        if coming is not None and self._engine is not None:
            self._engine.cancel(coming)
        # A slot holds its call and not the other way round, so that both end as soon as nobody has them.
        given = self._state.given
        if given is not None:
            slot = SlotView(self._state, given, self._engine)
            if slot.is_sent or slot.is_late:
                slot.settle(Abandoned())
            else:
                slot.release()

    def _stop_waiting(self) -> None:
        """Nobody waits for the slot any more."""
        waiting, self._state.waiting = self._state.waiting, None
        if waiting is None or self._engine is None:
            return
        if isinstance(waiting, Exchange):
            self._engine.cancel(waiting)
        elif isinstance(waiting, Lease):
            self._engine.give_back(waiting)
        else:
            self._engine.give_back_place(self._state.asked, waiting)

    def __del__(self) -> None:
        # Whoever forgets a call does not keep its lease alive for ever: the stream would renew it.
        if self._state.given is not None or self._state.waiting is not None or self._state.coming is not None:
            self.close()


class LimiterView:
    """Asks the service for slots. Connects at the first ask, once in a process for all limiters of the same addresses."""

    def __init__(
        self,
        addrs: str | Sequence[str] | None = None,
        *,
        account: str | None = None,
        tenant: str | None = None,
        mode: str | None = None,
        priority: Priority | str | None = None,
        max_wait: float | None = None,
        attempts: int | None = None,
        go_on_without_service: bool = True,
    ) -> None:
        """What is not given comes from the environment.

        ``addrs``: ``PACELINE_ADDR``, addresses of the service (``host:port``; a name may stand for several replicas).
        ``account`` and ``tenant``: ``PACELINE_ACCOUNT``, ``PACELINE_TENANT``. ``mode``: ``PACELINE_MODE``, one of ``enforce``,
        ``shadow`` (ask beside the calls, wait for nothing) and ``off`` (do not ask). ``priority``, ``max_wait`` and
        ``attempts`` are for asks that name none. ``go_on_without_service``: with false, calls end in `Unreachable` when no
        replica answers.
        """
        self._settings = read(addrs, account, tenant, mode)
        read_priority = None if priority is None else Priority.read(priority)
        self._defaults = Ask("", priority=read_priority, max_wait=max_wait, attempts=attempts)
        self._goes_on = go_on_without_service
        self._world: World | None = None
        self._engine: Engine | None = None

    @property
    def mode(self) -> ClientMode:
        """``enforce``, ``shadow`` or ``off``: in the latter two, whoever sends also retries by itself, as without us."""
        return self._settings.mode

    @property
    def account(self) -> str:
        """The account of asks that name none; may be empty."""
        return self._settings.account

    @property
    def most_attempts(self) -> int | None:
        """How often calls are sent at most whose ask says nothing of it."""
        return self._defaults.attempts

    @property
    def addrs(self) -> tuple[str, ...]:
        """Where the service is looked for."""
        return self._settings.addrs

    def _begun(self, ask: Ask) -> tuple[CallState, Engine]:
        engine, world = self._engine, self._world
        if engine is None or world is None or engine.is_over:
            engine = engine_for(self._settings.addrs)
            addrs = ", ".join(self._settings.addrs)
            world = World(engine.solo, engine.away_since, addrs, engine.beside, self._goes_on)
            self._world, self._engine = world, engine
        asked = begin(ask, inherited.here(), self._settings, self._defaults)
        return CallState(asked, self._settings.mode, world), engine

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self._settings.addrs)}, mode={self._settings.mode})"
