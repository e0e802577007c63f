"""What a worker wants to send, in its own terms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

from paceline import checks
from paceline.words import Priority, Repeat


class Target(NamedTuple):
    """Where a call is sent."""

    provider: str
    """A name of the catalogue or of the service's configuration."""
    account: str = ""
    """Whose quota is used: an alias, never the key itself."""
    model: str = ""
    """What the provider meters apart: a model, a deployment, a resource."""


@dataclass(frozen=True)
class Ask:
    """One logical call: where it goes and what it will cost there.

    What is ``None`` comes from :func:`paceline.context`, then from the limiter, then from the service. Times are in seconds.
    """

    provider: str
    """A name of the catalogue or of the service's configuration."""
    account: str | None = None
    """Whose quota is used: an alias, never the key itself."""
    model: str = ""
    """What the provider meters apart: a model, a deployment, a resource."""
    cost: Mapping[str, int] = field(default_factory=dict)
    """Meter -> units: ``tokens``, ``input_tokens``, ``output_tokens``, ``images``, ... (``requests`` is 1 by itself)."""
    cost_estimated: bool = False
    """The cost is a guess: too large a one is clamped to what fits instead of refused."""
    max_wait: float | None = None
    """The longest time spent waiting for slots, over all attempts; time at the provider does not count."""
    deadline: float | None = None
    """From the beginning of the call until the caller stops caring, time at the provider included."""
    run_time: float | None = None
    """How long the call may run; only of use when it is much longer than usual, since leases are renewed."""
    priority: Priority | str | None = None
    """How urgent it is."""
    tenant: str | None = None
    """Among whom capacity is shared fairly."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Free attribution: ``feature``, ``run_id``, ...; added to those of the context."""
    parent: str | None = None
    """The ``request_id`` of the call that this one is made for."""
    repeat: Repeat | str | None = None
    """Whether sending it twice does harm."""
    attempts: int | None = None
    """How often it is sent at most, if its class allows as many; 1: once, whatever comes."""
    request_id: str | None = None
    """An identifier of one's own, unique in the tenant, 1 to 128 characters; a random one otherwise."""
    fallbacks: Sequence[Target] = ()
    """Other places the call may be sent to, in the order of preference; ``Slot.target`` says which."""

    def __post_init__(self) -> None:
        # An ask may be used again and again: what is done with the caller's mappings meanwhile is none of its business.
        object.__setattr__(self, "cost", checks.units("cost", self.cost))
        object.__setattr__(self, "labels", checks.labels("labels", self.labels))
        checks.text("provider", self.provider, 'write its name in the catalogue, such as "openai"')
        checks.text("account", self.account, "write the alias of the account")
        checks.text("model", self.model, "write its name")
        checks.text("tenant", self.tenant)
        checks.text("parent", self.parent, "write the request_id of the call that this one is made for: slot.request_id")
        checks.text("request_id", self.request_id)
        checks.seconds("max_wait", self.max_wait)
        checks.seconds("deadline", self.deadline, may_be_over=True)
        checks.seconds("run_time", self.run_time)
        checks.count("attempts", self.attempts)
        if self.priority is not None:
            Priority.read(self.priority)
        if self.repeat is not None:
            Repeat.read(self.repeat)
        if isinstance(self.fallbacks, str) or not all(_is_target(one) for one in self.fallbacks):
            raise TypeError(
                f"fallbacks: {checks.shown(self.fallbacks)} are not targets; "
                'write [paceline.Target("azure", account="prod", model="gpt-4o")]'
            )

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_begun"}

    @classmethod
    def of(cls, what: Ask | str, fields: Mapping[str, Any]) -> Ask:
        """An ask as it is, or a provider's name with the other fields beside it."""
        if isinstance(what, Ask):
            if fields:
                named = ", ".join(fields)
                raise TypeError(f"{named}: give them in the Ask, or a provider's name in its place")
            return what
        return cls(what, **fields)


def _is_target(thing: object) -> bool:
    return isinstance(thing, tuple) and len(thing) == 3 and all(isinstance(part, str) for part in thing)


if TYPE_CHECKING:

    class AskFields(TypedDict, total=False):
        """The fields of an `Ask` beside its provider, for who writes them without one."""

        account: str | None
        model: str
        cost: Mapping[str, int]
        cost_estimated: bool
        max_wait: float | None
        deadline: float | None
        run_time: float | None
        priority: Priority | str | None
        tenant: str | None
        labels: Mapping[str, str]
        parent: str | None
        repeat: Repeat | str | None
        attempts: int | None
        request_id: str | None
        fallbacks: Sequence[Target]
