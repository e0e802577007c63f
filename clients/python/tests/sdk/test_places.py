"""Which provider, model and repeat a request is, by host, path and body."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from paceline.sdk.hosts import hosts_from
from paceline.sdk.places import _ENDPOINTS, PROVIDERS, PROVIDERS_OF_HOSTS, may_concern, place_of
from paceline.sdk.seen import Seen

CATALOGUE = Path(__file__).parents[4] / "crates" / "signals" / "catalogue"


def seen(method: str, url: str, body: object = None, **headers: str) -> Seen:
    data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    return Seen(method, url, {name.replace("_", "-"): value for name, value in headers.items()}, data)


@pytest.mark.parametrize(
    ("url", "body", "provider", "model", "api"),
    [
        ("https://api.openai.com/v1/chat/completions", {"model": "gpt-4o"}, "openai", "gpt-4o", "chat"),
        ("https://eu.api.openai.com/v1/responses", {"model": "o4"}, "openai", "o4", "responses"),
        ("https://api.openai.com/v1/embeddings", {"model": "e"}, "openai", "e", "embeddings"),
        ("https://api.openai.com/v1/images/generations", {"model": "i"}, "openai", "i", "media"),
        ("https://api.anthropic.com/v1/messages", {"model": "claude"}, "anthropic", "claude", "messages"),
        ("https://api.anthropic.com/v1/messages/count_tokens", {"model": "c"}, "anthropic", "c", "count"),
        (
            "https://generativelanguage.googleapis.com/v1beta/models/gemini-3:generateContent",
            {"contents": []},
            "gemini",
            "gemini-3",
            "generate",
        ),
        (
            "https://us-east1-aiplatform.googleapis.com/v1/projects/p/locations/l/publishers/google/models/g:streamGenerateContent",
            {"contents": []},
            "vertex",
            "g",
            "generate",
        ),
        (
            "https://mine.openai.azure.com/openai/deployments/prod-4o/chat/completions?api-version=1",
            {"messages": []},
            "azure",
            "prod-4o",
            "chat",
        ),
        (
            "https://bedrock-runtime.us-east-1.amazonaws.com/model/anthropic.claude%3A0/invoke",
            {},
            "bedrock",
            "anthropic.claude:0",
            "bedrock",
        ),
        ("https://api.groq.com/openai/v1/chat/completions", {"model": "l"}, "groq", "l", "chat"),
        ("https://openrouter.ai/api/v1/chat/completions", {"model": "a/b"}, "openrouter", "a/b", "chat"),
        # Hosts that nobody knows: the API tells.
        ("http://10.0.0.7:8000/v1/chat/completions", {"model": "m"}, "openai-compatible", "m", "chat"),
        ("http://10.0.0.7/v1beta/models/g:generateContent", {"contents": []}, "gemini", "g", "generate"),
    ],
)
def test_a_call_of_a_model_has_a_place(url: str, body: object, provider: str, model: str, api: str) -> None:
    place = place_of(seen("POST", url, body))
    assert place is not None
    assert (place.provider, place.model, place.api, place.repeat) == (provider, model, api, "safe")
    assert may_concern("POST", Seen("POST", url, {}).path)


@pytest.mark.parametrize(
    ("method", "url", "body"),
    [
        ("GET", "https://api.openai.com/v1/models", None),
        ("POST", "https://api.openai.com/v1/files", b"--x"),
        ("POST", "https://api.openai.com/v1/batches", {"model": "m"}),
        ("POST", "https://api.anthropic.com/v1/messages/batches", {"requests": []}),
        ("GET", "https://api.openai.com/v1/responses/resp_1", None),
        ("POST", "https://example.com/survey/responses", {"answers": 3}),
        ("POST", "https://example.com/v1/messages", {"model": "x"}),
        ("POST", "https://example.com/login", {"model": "x"}),
    ],
)
def test_everything_else_goes_straight_through(method: str, url: str, body: object) -> None:
    assert place_of(seen(method, url, body)) is None


def test_a_named_provider_governs_all_that_is_sent() -> None:
    place = place_of(seen("POST", "https://api.example.com/orders", {"n": 1}), provider="shopify")
    assert place is not None
    assert (place.provider, place.repeat) == ("shopify", None)
    keyed = place_of(seen("POST", "https://api.example.com/orders", {}, idempotency_key="k"), provider="stripe")
    assert keyed is not None
    assert keyed.repeat == "keyed"
    listed = place_of(seen("GET", "https://api.example.com/orders"), provider="stripe")
    assert listed is not None
    assert listed.repeat == "safe"


def test_own_hosts_go_before_known_ones() -> None:
    hosts = hosts_from({"PACELINE_HOSTS": "llm.internal=openai, 127.0.0.1:8080=anthropic"})
    for url, provider in [
        ("http://llm.internal:9000/v1/chat/completions", "openai"),
        ("http://127.0.0.1:8080/v1/messages", "anthropic"),
    ]:
        place = place_of(seen("POST", url, {"model": "m"}), hosts=hosts)
        assert place is not None
        assert place.provider == provider
    with pytest.raises(ValueError, match="is not HOST=PROVIDER"):
        hosts_from({"PACELINE_HOSTS": "llm.internal"})


def test_a_form_names_its_model() -> None:
    form = b'--b\r\ncontent-disposition: form-data; name="model"\r\n\r\nwhisper-1\r\n--b--\r\n'
    place = place_of(seen("POST", "https://api.openai.com/v1/audio/transcriptions", form))
    assert place is not None
    assert place.model == "whisper-1"


def test_streams_are_known_by_body_or_path() -> None:
    streamed = place_of(seen("POST", "https://api.openai.com/v1/chat/completions", {"model": "m", "stream": True}))
    assert streamed is not None
    assert streamed.stream
    by_path = place_of(
        seen(
            "POST",
            "https://generativelanguage.googleapis.com/v1beta/models/g:streamGenerateContent",
            {"contents": []},
        )
    )
    assert by_path is not None
    assert by_path.stream


def test_all_names_are_in_the_catalogue() -> None:
    names = {
        *PROVIDERS_OF_HOSTS.values(),
        *(endpoint.elsewhere for endpoint in _ENDPOINTS if endpoint.elsewhere),
    }
    known = {file.stem for file in CATALOGUE.glob("*.yaml")}
    assert known, CATALOGUE
    assert names <= known, names - known


def test_what_the_catalogue_calls_safe_or_never_is_that_here() -> None:
    """The endpoints of the catalogue's big three, as far as this client asks for them."""
    hosts = {
        "openai": "api.openai.com",
        "anthropic": "api.anthropic.com",
        "gemini": "generativelanguage.googleapis.com",
    }
    read = 0
    for name, host in hosts.items():
        text = (CATALOGUE / f"{name}.yaml").read_text() + (
            (CATALOGUE / "openai-compatible.yaml").read_text() if name == "openai" else ""
        )
        for path, repeat in re.findall(r'- \{path: "?([^",]+)"?, repeat: (\w+)', text):
            if "*" in path.replace("/*:", "/m:"):
                continue
            concrete = path.replace("/*:", "/v1beta/models/m:")
            place = place_of(seen("POST", f"https://{host}{concrete}", {"model": "m", "contents": []}))
            if place is not None:
                assert place.repeat == repeat, (name, path)
                read += 1
    assert read >= 9


def test_the_names_of_the_catalogue_are_known() -> None:
    page = (CATALOGUE.parents[2] / "docs" / "reference" / "providers.md").read_text()
    assert set(re.findall(r"^## (\S+)$", page, re.M)) == PROVIDERS
