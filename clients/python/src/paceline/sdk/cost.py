"""What a request is estimated to cost, before it is sent.

No tokenizer: a token is taken for four bytes of text, which errs on the high side for most languages and by
little. What the answer may use is what the request allows at most. What cannot be seen (a conversation that
the provider keeps, an answer without a bound) is not stated, and the service charges what such calls cost
lately.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paceline.sdk.places import Place
from paceline.sdk.seen import Seen

__all__ = ["BYTES_PER_TOKEN", "cost_of", "text_tokens"]

BYTES_PER_TOKEN = 4
"""Bytes of UTF-8 text that count as one token."""

# What an attached image, sound or file counts as: about a page of text.
_ATTACHMENT_TOKENS = 1_000
# Roles and separators around each message.
_MESSAGE_TOKENS = 4
# Strings that are no text of the prompt, by the name of their field.
_NO_TEXT = frozenset(
    {
        "role",
        "type",
        "id",
        "tool_call_id",
        "tool_use_id",
        "call_id",
        "media_type",
        "mimeType",
        "mime_type",
        "format",
        "detail",
    }
)
_ATTACHED = frozenset(
    {
        "data",
        "b64_json",
        "file_data",
        "fileUri",
        "file_uri",
        "file_id",
        "signature",
        "thoughtSignature",
        "encrypted_content",
    }
)
_DEEPEST = 64

_INPUTS: Mapping[str, tuple[str, ...]] = {
    "chat": ("messages", "tools", "functions", "response_format"),
    "completions": ("prompt",),
    "responses": ("input", "instructions", "tools", "text"),
    "embeddings": ("input",),
    "messages": ("system", "messages", "tools"),
    "generate": ("contents", "systemInstruction", "system_instruction", "tools", "generationConfig"),
    "embed": ("content", "requests", "instances"),
}
_NO_OUTPUT = frozenset({"embeddings", "embed"})
_MOST_OUTPUT = (
    "max_completion_tokens",
    "max_output_tokens",
    "max_tokens",
    "max_tokens_to_sample",
    "maxOutputTokens",
    "max_new_tokens",
)


def text_tokens(text_bytes: int) -> int:
    """Tokens that so many bytes of text count as, rounded up."""
    return -(-text_bytes // BYTES_PER_TOKEN)


def cost_of(seen: Seen, place: Place) -> dict[str, int]:
    """Meter -> units, as far as the request tells; an estimate."""
    if place.api == "count":
        # Counting tokens uses none.
        return {"input_tokens": 0, "output_tokens": 0}
    if place.api == "media":
        images = _whole(seen.json.get("n")) or 1
        return {"images": images} if "/images/" in seen.path else {}
    fields = _INPUTS.get(place.api)
    if fields is None or not seen.json:
        return {}
    cost: dict[str, int] = {}
    hidden = bool(seen.json.get("previous_response_id") or seen.json.get("conversation") or seen.json.get("cachedContent"))
    if not hidden:
        cost["input_tokens"] = max(1, sum(_tokens_in(seen.json.get(name)) for name in fields))
    if place.api in _NO_OUTPUT:
        cost["output_tokens"] = 0
    else:
        most = _most_output(seen.json)
        if most is not None:
            cost["output_tokens"] = most
    return cost


def _most_output(body: Mapping[str, Any]) -> int | None:
    generation = body.get("generationConfig") or body.get("generation_config") or {}
    for source in (body, generation if isinstance(generation, dict) else {}):
        for name in _MOST_OUTPUT:
            most = _whole(source.get(name))
            if most is not None:
                answers = _whole(source.get("n")) or _whole(source.get("candidateCount")) or 1
                return most * answers
    return None


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _tokens_in(value: object) -> int:
    text, extra = _measure(value, "", 0)
    return text_tokens(text) + extra


def _measure(value: object, name: str, depth: int) -> tuple[int, int]:
    """Bytes of text and tokens of anything else, in a part of a request."""
    if isinstance(value, str):
        if name in _NO_TEXT:
            return 0, 0
        if name in _ATTACHED or value.startswith("data:"):
            return 0, _ATTACHMENT_TOKENS if value else 0
        if name in ("url", "image_url") and value.startswith(("http://", "https://")):
            return 0, _ATTACHMENT_TOKENS
        return len(value.encode("utf-8", "replace")), 0
    if depth > _DEEPEST:
        return 0, 0
    if isinstance(value, list):
        if value and all(isinstance(item, int) for item in value):
            return 0, len(value)  # tokens already, as embeddings take them
        parts = [_measure(item, name, depth + 1) for item in value]
        return sum(text for text, _ in parts), sum(extra for _, extra in parts)
    if isinstance(value, dict):
        parts = [_measure(item, key, depth + 1) for key, item in value.items()]
        message = _MESSAGE_TOKENS if "role" in value else 0
        return sum(text for text, _ in parts), sum(extra for _, extra in parts) + message
    return 0, 0
