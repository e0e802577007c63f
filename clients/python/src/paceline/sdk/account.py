"""Which account a request is charged to, told by its credential without telling the credential.

Where nobody named the account, it is `key-` and twelve hexadecimal digits of an HMAC-SHA256 over the
credential. Whoever has the key of the HMAC (`PACELINE_FINGERPRINT_KEY`) and a guess at the credential can
check the guess, and nothing else; without that variable the key is a public constant, which is enough for
credentials that nobody can guess.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping

from paceline.sdk.places import Place
from paceline.sdk.seen import Seen

__all__ = ["FINGERPRINT_KEY_VARIABLE", "account_of", "credentials_in", "fingerprint"]

FINGERPRINT_KEY_VARIABLE = "PACELINE_FINGERPRINT_KEY"
"""Environment variable with the key of the HMAC."""

_PUBLIC_KEY = "paceline.account.v1"
_DIGITS = 12
_HEADERS = ("x-api-key", "api-key", "x-goog-api-key", "ocp-apim-subscription-key", "authorization")
_QUERY = ("key", "api_key", "api-key")
# Organisations and projects of one key have limits of their own.
_PARTS = ("openai-organization", "openai-project", "anthropic-workspace-id", "x-goog-user-project")
_PROJECT = re.compile(r"/projects/([^/]+)/")
_AWS_KEY = re.compile(r"Credential=([^/,\s]+)/[^/]+/([^/]+)/")


def credentials_in(seen: Seen) -> tuple[str, ...]:
    """Every secret a request carries, for cleaning what is told of its answer."""
    found = [seen.headers[name] for name in _HEADERS if seen.headers.get(name)]
    found += [seen.query[name] for name in _QUERY if seen.query.get(name)]
    return tuple(value.partition(" ")[2] if value.lower().startswith(("bearer ", "basic ")) else value for value in found)


def account_of(seen: Seen, place: Place, environment: Mapping[str, str]) -> str:
    """The account of a request by its credential; empty where it has none."""
    project = _PROJECT.search(seen.path)
    if place.provider == "vertex" and project:
        # Tokens change every hour, the project does not, and it is no secret.
        return project.group(1)
    credential = next(iter(credentials_in(seen)), "")
    aws = _AWS_KEY.search(credential)
    if aws:
        credential = f"{aws.group(1)}/{aws.group(2)}"
    if not credential:
        return ""
    parts = [credential, *(seen.headers[name] for name in _PARTS if seen.headers.get(name))]
    if not place.known_host:
        # Servers of one's own share keys such as "EMPTY".
        parts.append(seen.host)
    return fingerprint("\0".join(parts), environment.get(FINGERPRINT_KEY_VARIABLE))


def fingerprint(credential: str, key: str | None = None) -> str:
    """`key-` and twelve hexadecimal digits, the same for the same credential and key; the credential cannot
    be got from it.
    """
    digest = hmac.new((key or _PUBLIC_KEY).encode(), credential.encode(), hashlib.sha256).hexdigest()
    return f"key-{digest[:_DIGITS]}"
