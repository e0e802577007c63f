"""Scopes whose replica has lost the store: it grants from its part of the limit only.

Their calls are spread over all replicas meanwhile, each of which has a part, so that the fleet gets what it may have.
"""

from __future__ import annotations

REMEMBERED_FOR = 10.0
"""Without an answer that says how it is by now, a scope goes to its own replica again after this long, in seconds."""
MOST = 1_024
"""More scopes than these are not spread."""

Scope = tuple[str, str]


class Blind:
    """Which scopes those are."""

    def __init__(self) -> None:
        self._until: dict[Scope, float] = {}

    def __bool__(self) -> bool:
        return bool(self._until)

    def is_blind(self, scope: Scope, now: float) -> bool:
        """Whether its calls are spread."""
        until = self._until.get(scope)
        if until is None:
            return False
        if now < until:
            return True
        self._until.pop(scope, None)
        return False

    def heard(self, scope: Scope, is_degraded: bool, now: float) -> bool:
        """An answer for a scope came. Whether that changes where its calls go."""
        was_blind = self.is_blind(scope, now)
        if not is_degraded:
            self._until.pop(scope, None)
        elif len(self._until) < MOST or scope in self._until:
            self._until[scope] = now + REMEMBERED_FOR
        return was_blind != is_degraded
