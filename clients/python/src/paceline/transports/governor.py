"""Who governs what a transport sends: a policy, and the process's limiter made when it is first needed."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from paceline.ask import Ask
from paceline.checks import shown, text
from paceline.errors import WrongSetting
from paceline.inherited import here
from paceline.sdk.hosts import hosts_from, hosts_given, provider_named
from paceline.sdk.places import may_concern
from paceline.sdk.plan import Plan, Policy
from paceline.sdk.seen import Seen
from paceline.settings import read
from paceline.transports.attempts import ask_of, planned
from paceline.transports.lines import AwaitingLine, BlockingLine
from paceline.typos import told_once

__all__ = ["MOST_BUFFERED_BYTES", "Governor", "governor"]

MOST_BUFFERED_BYTES = 32 * 1024 * 1024
"""A body larger than this is sent as it comes, and once."""


@dataclass
class Governor:
    """Says of each request whether it is asked for, and begins its call."""

    policy: Policy
    mode: str
    """The worker's mode."""
    limiter: Any = None
    bound: Callable[[], int | None] = lambda: None
    """How often whoever sends wants a call to be sent at most, where it says so."""
    _blocking: Any = None
    _awaiting: Any = None

    def concerns(self, method: str, path: str) -> bool:
        """Whether a request could be ours, before its body is looked at."""
        return may_concern(method, path, self.policy.provider) and self.mode != "off"

    def plan(self, seen: Seen) -> Plan | None:
        """The plan of a request, or `None` where it goes straight through."""
        return planned(seen, self.policy)

    def has_its_slot(self, plan: Plan) -> bool:
        """Whether a call is the one that the code around it has a slot for already, and reports: it is not asked for twice."""
        slot = here().slot
        if slot is None:
            return False
        account = self.policy.account or here().account
        if account is None and self.limiter is not None:
            account = self.limiter.account or None
        return slot.take(plan.place.provider, account, plan.place.model)

    def blocking(self, plan: Plan) -> BlockingLine:
        """Begins a call that blocks."""
        limiter = self._limiter()
        return BlockingLine(limiter, self._ask(plan, limiter))

    def awaiting(self, plan: Plan) -> AwaitingLine:
        """Begins a call that awaits."""
        limiter = self._limiter_aio()
        return AwaitingLine(limiter, self._ask(plan, limiter))

    def _ask(self, plan: Plan, limiter: Any) -> Ask:
        return ask_of(plan, self.policy, limiter, self.bound())

    def _limiter(self) -> Any:
        from paceline.limiter import Limiter

        if self._blocking is None:
            self._blocking = Limiter() if self.limiter is None else _as(Limiter, self.limiter)
        return self._blocking

    def _limiter_aio(self) -> Any:
        from paceline.aio.limiter import Limiter

        if self._awaiting is None:
            self._awaiting = Limiter() if self.limiter is None else _as(Limiter, self.limiter)
        return self._awaiting


def _as(kind: Any, limiter: Any) -> Any:
    """A limiter for the other kind of code, with the same settings: clients may have a blocking and an awaiting side."""
    if isinstance(limiter, kind):
        return limiter
    twin = copy.copy(limiter)
    twin.__class__ = kind
    return twin


def governor(
    provider: str | None = None,
    account: str | None = None,
    hosts: Mapping[str, str] | None = None,
    limiter: Any = None,
) -> Governor:
    """A governor; hosts given here go before those of the environment.

    Raises `WrongSetting` where something cannot be read: at once, and not at the first call. In mode `off` nothing is read,
    and in `shadow` what is wrong is only told in the log.
    """
    if limiter is not None:
        from paceline.slots import LimiterView

        if not isinstance(limiter, LimiterView):
            raise TypeError(f"limiter: {shown(limiter)} is no limiter; write paceline.Limiter(...), or leave it out")
    mode = read().mode if limiter is None else limiter.mode
    policy = Policy()
    if mode != "off":
        try:
            text("account", account, "write the alias of the account")
            if provider is not None:
                provider_named("provider", provider)
            policy = Policy(provider, account, {**hosts_from(os.environ), **hosts_given(hosts)})
        except WrongSetting as problem:
            if mode != "shadow":
                raise
            told_once(f"{problem} (PACELINE_MODE=shadow: calls go on, and the service is not told of them)")
            mode = "off"
    return Governor(policy, mode, limiter)
