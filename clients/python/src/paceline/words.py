"""The words of the contract as Python has them: what proto/paceline/v1 calls enumerations."""

from __future__ import annotations

from enum import IntEnum
from typing import TypeVar

_Word = TypeVar("_Word", bound="Word")


class Word(IntEnum):
    """A word of the contract. Its ``word`` is what people write: ``batch``, ``retry_budget``."""

    @property
    def word(self) -> str:
        """The name in lower case."""
        return self.name.lower()

    @classmethod
    def read(cls: type[_Word], said: _Word | str | int) -> _Word:
        """The member of this name or number; a name in any casing."""
        if isinstance(said, cls):
            return said
        if isinstance(said, str):
            try:
                return cls[said.upper()]
            except KeyError:
                names = ", ".join(member.word for member in cls if member.value)
                raise ValueError(f"{cls.__name__.lower()} {said!r} does not exist; it is one of {names}") from None
        return cls(said)

    @classmethod
    def _missing_(cls, value: object) -> Word:
        """A newer value than this client knows reads as none."""
        return cls(0) if isinstance(value, int) else super()._missing_(value)


class Priority(Word):
    """How urgent a call is."""

    UNSPECIFIED = 0
    INTERACTIVE = 1
    """A person waits."""
    NORMAL = 2
    """The default."""
    BATCH = 3
    """Hours are fine."""


class Repeat(Word):
    """Whether sending a call twice does harm."""

    UNSPECIFIED = 0
    """As the catalogue says for the provider."""
    SAFE = 1
    """Twice costs only money."""
    KEYED = 2
    """Only with the provider's idempotency key, the same one on each attempt."""
    NEVER = 3
    """Never after it may have run."""


class Mode(Word):
    """What the service does with a call."""

    UNSPECIFIED = 0
    OFF = 1
    """As if it were not there."""
    SHADOW = 2
    """It only watches."""
    ENFORCE = 3
    """Its answer is the decision."""


class Verdict(Word):
    """What to do next with a call."""

    UNSPECIFIED = 0
    """Nothing to decide yet: the call goes on."""
    DONE = 1
    RETRY = 2
    FAIL_OVER = 3
    GIVE_UP = 4


class Reason(Word):
    """Why a call is denied or given up."""

    UNSPECIFIED = 0
    DEADLINE = 1
    OVER_HONOR_CAP = 2
    COST_EXCEEDS_CAPACITY = 3
    QUEUE_FULL = 4
    RETRY_BUDGET = 5
    ATTEMPTS_EXHAUSTED = 6
    NOT_RETRYABLE = 7
    CROSS_PROVIDER = 8
    QUOTA_EXHAUSTED = 9
    PAUSED = 10
    STORE_UNAVAILABLE = 11


class NotApplied(Word):
    """Why a report changed nothing."""

    UNSPECIFIED = 0
    """It was applied."""
    LEASE_UNKNOWN = 1
    LEASE_EXPIRED = 2
    LEASE_SETTLED = 3
    REPEATED = 4


class Source(Word):
    """Why a wait is as long as it is, and where a length of time came from."""

    UNSPECIFIED = 0
    PACING = 1
    BUCKET = 2
    RETRY_AFTER_SECONDS = 3
    RETRY_AFTER_DATE = 4
    RETRY_AFTER_MS = 5
    RESET_HEADER = 6
    ERROR_BODY = 7
    BACKOFF = 8
    RAMP = 9
    CONCURRENCY = 10
    FAIR_SHARE = 11
    JITTER = 12
    STORE = 13
    PAUSED = 14
    NONE = 15


class AnswerKind(Word):
    """What a provider's answer was about."""

    UNSPECIFIED = 0
    OK = 1
    THROTTLED = 2
    OVERLOADED = 3
    QUOTA_EXHAUSTED = 4
    IMPOSSIBLE = 5
    FAILED = 6
    REJECTED = 7
