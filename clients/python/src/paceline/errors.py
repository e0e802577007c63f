"""What can go wrong between a worker and the service, and what to do about it."""

from __future__ import annotations

from collections.abc import Sequence

from paceline.outcomes import Delay
from paceline.words import Reason


class PacelineError(Exception):
    """All errors of this package."""


class Denied(PacelineError):
    """The service decided that the call is not to be sent: an answer, not a failure."""

    def __init__(
        self,
        reason: Reason,
        detail: str,
        retry_after: float | None = None,
        delays: Sequence[Delay] = (),
        last: object = None,
    ) -> None:
        """Says why, and since when."""
        again = "" if retry_after is None else f" (could work in {retry_after:.3g} s)"
        super().__init__(f"denied ({reason.word}): {detail}{again}")
        self.reason = reason
        """Why."""
        self.detail = detail
        """A sentence for a person: what binds, since when, when it could work."""
        self.retry_after = retry_after
        """From the receipt of the answer until the same ask could work, in seconds; ``None``: never."""
        self.delays = tuple(delays)
        """Where the time waited so far went."""
        self.last = last
        """The provider's last answer, where an attempt was sent before."""

    def __reduce__(self) -> tuple[type[Denied], tuple[object, ...]]:
        return type(self), (self.reason, self.detail, self.retry_after, self.delays, None)


class Unreachable(PacelineError):
    """No replica answered. Only raised where going on without the service was switched off."""


class Refused(PacelineError):
    """The service does not do this for this worker: a wrong field, an unknown provider, no right."""

    def __init__(self, code: str, message: str, fields: Sequence[tuple[str, str]] = ()) -> None:
        """Lists what is wrong with each field."""
        listed = "".join(f"; {field}: {problem}" for field, problem in fields)
        super().__init__(f"the service refused the request ({code}): {message}{listed}")
        self.code = code
        """The gRPC code, as ``INVALID_ARGUMENT``."""
        self.message = message
        """What the service said."""
        self.fields = tuple(fields)
        """Field and what is wrong with it."""

    def __reduce__(self) -> tuple[type[Refused], tuple[object, ...]]:
        return type(self), (self.code, self.message, self.fields)


class DeadlineOver(PacelineError, TimeoutError):
    """The deadline passed while the call was at the provider; it was cancelled and reported as a time-out."""


class WrongSetting(PacelineError, ValueError):
    """A setting cannot be used; the message names it and says what would do."""
