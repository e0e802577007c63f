"""Everything to know about a request before it is sent, put together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from paceline.sdk.account import account_of, credentials_in
from paceline.sdk.cost import cost_of
from paceline.sdk.idempotency import key_headers
from paceline.sdk.places import Place, place_of
from paceline.sdk.seen import Seen

__all__ = ["Plan", "Policy", "plan_of"]


@dataclass(frozen=True)
class Policy:
    """What whoever made a transport said about everything it sends."""

    provider: str | None = None
    account: str | None = None
    hosts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Plan:
    """A call to ask for. `fingerprint` is the account where nobody names one; empty without a credential."""

    place: Place
    cost: Mapping[str, int]
    fingerprint: str
    secrets: tuple[str, ...]
    headers: Mapping[str, str] = field(default_factory=dict)
    """To be added to the request, the same on all attempts."""


def plan_of(seen: Seen, policy: Policy, environment: Mapping[str, str]) -> Plan | None:
    """The plan of a request; `None` where it goes straight through."""
    place = place_of(seen, policy.provider, policy.hosts)
    if place is None:
        return None
    headers = key_headers(seen, place.provider)
    if headers:
        place = replace(place, repeat="keyed")
    return Plan(place, cost_of(seen, place), account_of(seen, place, environment), credentials_in(seen), headers)
