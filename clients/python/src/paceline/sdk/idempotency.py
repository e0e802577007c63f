"""Keys by which a provider knows that it has seen a call before, so that sending it again does no harm.

Of the providers of models none takes one: their calls are safe to repeat. A key that the caller set is always left as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import uuid4

from paceline.sdk.seen import Seen

__all__ = ["KEY_HEADER", "key_headers"]

KEY_HEADER = "idempotency-key"
"""The header that all of them use."""

# Stripe: API reference, idempotent requests (kept a day at least). Resend: API reference, idempotency keys (a day, for mails).
_TAKE_KEYS: Mapping[str, tuple[str, ...]] = {"stripe": ("/v1/", "/v2/"), "resend": ("/emails",)}


def key_headers(seen: Seen, provider: str) -> dict[str, str]:
    """What to add to a request, once for all its attempts; nothing where there is a key, or the provider takes none."""
    takes = seen.method == "POST" and seen.path.startswith(_TAKE_KEYS.get(provider, ()))
    return {KEY_HEADER: str(uuid4())} if takes and KEY_HEADER not in seen.headers else {}
