"""What becomes of the key that a call goes with: an account, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import openai
import pytest
from oddities import CHAT, answers, provider
from paced import ASK, through

import paceline
from under_test import eventually


def test_a_key_never_leaves(service: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not to the service, in any form it shows: status page, metrics, configuration."""
    monkeypatch.setenv("PACELINE_ADDR", service.grpc)
    key = "sk-proj-verysecretindeed0123"
    with provider(
        answers(401, {"error": {"message": f"Incorrect API key provided: {key}", "code": "invalid_api_key"}}, x_request_key=key)
    ) as at:
        client = openai.OpenAI(base_url=f"{at.url}/v1", api_key=key, http_client=paceline.httpx(provider="openai"))
        with pytest.raises(openai.AuthenticationError):
            client.chat.completions.create(**ASK)
    from paceline.sdk.account import fingerprint

    name = fingerprint(key)
    eventually(lambda: service.metric("paceline_acquires_total", account=name) == 1, "its account is not its fingerprint")
    shown = service.get("/metrics") + service.get("/") + service.get("/debug/config")
    assert key.encode() not in shown
    assert b"verysecret" not in shown


def test_a_fingerprint_may_be_an_alias(start: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    from paceline.sdk.account import fingerprint

    aliases = fingerprint("sk-test-1234567")
    program = start(
        "serve",
        config=f"providers: {{openai: {{accounts: {{prod: {{aliases: [{aliases}], limits: {{requests: 600/min}}}}}}}}}}\n",
    )
    monkeypatch.setenv("PACELINE_ADDR", program.grpc)
    with provider(answers(200, CHAT)) as at:
        through(at).chat.completions.create(**ASK)
    eventually(lambda: program.metric("paceline_acquires_total", account="prod") == 1, "the alias is not the account")
