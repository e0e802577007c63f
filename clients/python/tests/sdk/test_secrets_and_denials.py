"""No credential leaves the process, and a denial has the provider's own shape."""

from __future__ import annotations

import json

import pytest

from paceline.sdk.account import account_of, credentials_in, fingerprint
from paceline.sdk.denial import Last, denial_answer
from paceline.sdk.places import Family, place_of
from paceline.sdk.secrets import HIDDEN, clean_body, clean_headers
from paceline.sdk.seen import Seen

KEY = "sk-proj-abcdefghijklmnop"


def test_headers_with_secrets_are_left_out() -> None:
    kept = clean_headers(
        [
            ("x-ratelimit-remaining-tokens", "149984"),
            ("x-ratelimit-reset-tokens", "6ms"),
            ("anthropic-ratelimit-tokens-remaining", "1"),
            ("retry-after", "3"),
            ("Set-Cookie", "__cf_bm=abc"),
            ("Authorization", "Bearer x"),
            ("x-api-key", KEY),
            ("x-session-token", "y"),
            ("location", f"https://host/v1?key={KEY}&a=1"),
            ("x-echo", f"you sent {KEY}"),
        ],
        (KEY,),
    )
    assert kept == [
        ("x-ratelimit-remaining-tokens", "149984"),
        ("x-ratelimit-reset-tokens", "6ms"),
        ("anthropic-ratelimit-tokens-remaining", "1"),
        ("retry-after", "3"),
        ("location", "https://host/v1"),
        ("x-echo", f"you sent {HIDDEN}"),
    ]


@pytest.mark.parametrize(
    "key",
    [
        "sk-proj-0123456789abcdef",
        "sk-ant-api03-abc_def-ghi",
        "AIzaSyA-1234567890abcdef",
        "gsk_abcdef123456",
        "ya29.a0AfH6SMBx",
        "hf_abcdefgh1234",
    ],
)
def test_bodies_that_quote_a_key_are_cleaned(key: str) -> None:
    body = json.dumps({"error": {"message": f"Incorrect API key provided: {key}."}}).encode()
    assert key.encode() not in clean_body(body)
    assert b"Incorrect API key provided" in clean_body(body)
    # Also one of no known form, when the request carried it, and where the cut goes through it.
    odd = "0f9e8d7c6b5a4321"
    assert odd[:8].encode() not in clean_body(b"x" * (8 * 1024 - 8) + odd.encode(), (odd,))
    assert len(clean_body(b"x" * 100_000)) == 8 * 1024


def seen(url: str, **headers: str) -> Seen:
    return Seen(
        "POST",
        url,
        {name.replace("_", "-"): value for name, value in headers.items()},
        b'{"model": "m", "contents": []}',
    )


def account(request: Seen, environment: dict[str, str] | None = None) -> str:
    place = place_of(request)
    assert place is not None
    return account_of(request, place, environment or {})


CHAT = "https://api.openai.com/v1/chat/completions"


def test_an_account_is_a_fingerprint_that_tells_nothing() -> None:
    name = account(seen(CHAT, authorization=f"Bearer {KEY}"))
    assert name == fingerprint(KEY)
    assert name.startswith("key-")
    assert len(name) == 16
    assert KEY not in name
    # With a key of one's own nobody else can check a guess.
    assert account(seen(CHAT, authorization=f"Bearer {KEY}"), {"PACELINE_FINGERPRINT_KEY": "mine"}) != name
    assert account(seen(CHAT)) == ""


def test_what_has_limits_of_its_own_is_an_account_of_its_own() -> None:
    one = account(seen(CHAT, authorization=f"Bearer {KEY}"))
    project = account(seen(CHAT, authorization=f"Bearer {KEY}", openai_project="p"))
    local = account(seen("http://10.0.0.1:8000/v1/chat/completions", authorization=f"Bearer {KEY}"))
    other = account(seen("http://10.0.0.2:8000/v1/chat/completions", authorization=f"Bearer {KEY}"))
    assert len({one, project, local, other}) == 4


def test_every_way_to_carry_a_credential() -> None:
    gemini = "https://generativelanguage.googleapis.com/v1beta/models/m:generateContent"
    assert account(seen(f"{gemini}?key={KEY}")) == account(seen(gemini, x_goog_api_key=KEY)) == fingerprint(KEY)
    assert credentials_in(seen(f"{gemini}?key={KEY}&alt=sse")) == (KEY,)
    vertex = "https://aiplatform.googleapis.com/v1/projects/my-project/locations/l/publishers/google/models/m:generateContent"
    assert account(seen(vertex, authorization="Bearer ya29.changes")) == "my-project"
    aws = "AWS4-HMAC-SHA256 Credential=AKIAEXAMPLE1234/{day}/us-east-1/bedrock/aws4_request, Signature={day}"
    bedrock = "https://bedrock-runtime.us-east-1.amazonaws.com/model/m/invoke"
    assert account(seen(bedrock, authorization=aws.format(day="20260101"))) == account(
        seen(bedrock, authorization=aws.format(day="20260202"))
    )


@pytest.mark.parametrize("family", ["openai", "anthropic", "gemini", "other"])
def test_a_denial_has_the_providers_shape(family: Family) -> None:
    headers, body = denial_answer(
        family, "deadline", "the limit binds", 2.3, "id-1", Last(429, b'{"error": {"message": "slow"}}')
    )
    assert dict(headers) == {
        "content-type": "application/json",
        "x-should-retry": "false",
        "paceline-denied": "deadline",
        "paceline-request-id": "id-1",
        "retry-after": "3",
    }
    error = json.loads(body)["error"]
    assert "the limit binds" in error["message"]
    assert error["paceline"]["provider_answer"] == {"status": 429, "body": {"error": {"message": "slow"}}}
    if family in ("openai", "other"):
        assert error["code"] == "paceline_deadline"
    if family == "anthropic":
        assert json.loads(body)["type"] == "error"
        assert error["type"] == "rate_limit_error"
    if family == "gemini":
        assert (error["code"], error["status"]) == (429, "RESOURCE_EXHAUSTED")
        assert error["details"][0]["reason"] == "PACELINE_DEADLINE"


def test_a_denial_for_ever_names_no_time() -> None:
    headers, _ = denial_answer("openai", "cost_exceeds_capacity", "too large", None, "id-1")
    assert "retry-after" not in dict(headers)
