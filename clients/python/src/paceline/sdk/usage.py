"""What an answer says that the call used, in the words of each API.

Shapes, not hosts, decide: gateways answer in the words of the API they imitate.

Source: the reference pages of the OpenAI, Anthropic and Gemini APIs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

__all__ = ["error_in", "usage_in", "usage_of_body"]


def usage_of_body(body: bytes) -> dict[str, int]:
    """Meter -> units from the body of a whole answer; empty where it says nothing."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    if isinstance(value, list):
        # A Gemini stream without SSE is one list; each item counts anew, the last one all.
        value = next((item for item in reversed(value) if usage_in(item)), None)
    return usage_in(value)


def usage_in(value: object) -> dict[str, int]:
    """Meter -> units from a parsed answer, or from one event of a stream."""
    if not isinstance(value, dict):
        return {}
    for holder in (value, value.get("response"), value.get("message")):
        if not isinstance(holder, dict):
            continue
        usage = holder.get("usage")
        if isinstance(usage, dict):
            return _from_usage(usage)
        metadata = holder.get("usageMetadata") or holder.get("usage_metadata")
        if isinstance(metadata, dict):
            return _from_gemini(metadata)
    return {}


def error_in(value: object) -> bool:
    """Whether an event of a stream, or the body of a 200, is an error."""
    if not isinstance(value, dict):
        return False
    kind = value.get("type")
    response = value.get("response")
    failed = isinstance(response, dict) and kind == "response.failed"
    return bool(value.get("error")) or kind == "error" or failed


def _from_usage(usage: Mapping[str, Any]) -> dict[str, int]:
    if "inputTokens" in usage:
        # Amazon Bedrock's Converse.
        return _kept(
            input_tokens=usage.get("inputTokens"),
            output_tokens=usage.get("outputTokens"),
            tokens=usage.get("totalTokens"),
            cached_input_tokens=usage.get("cacheReadInputTokens"),
        )
    if isinstance(usage.get("tokens"), dict):
        usage = usage["tokens"]  # Cohere's
    if "prompt_tokens" in usage or ("total_tokens" in usage and "input_tokens" not in usage):
        return _kept(
            input_tokens=usage.get("prompt_tokens"),
            output_tokens=usage.get("completion_tokens", 0),
            tokens=usage.get("total_tokens"),
            cached_input_tokens=_within(usage, "prompt_tokens_details", "cached_tokens"),
        )
    read = usage.get("cache_read_input_tokens")
    written = usage.get("cache_creation_input_tokens")
    if read is not None or written is not None or "total_tokens" not in usage:
        # Anthropic leaves the cache out of `input_tokens`; what is written to it counts towards the limit,
        # what is read does not.
        fresh = usage.get("input_tokens")
        known = fresh if isinstance(fresh, int) else None
        return _kept(
            input_tokens=None if known is None else known + (written if isinstance(written, int) else 0),
            output_tokens=usage.get("output_tokens"),
            cached_input_tokens=read,
        )
    return _kept(
        input_tokens=usage.get("input_tokens"),
        output_tokens=usage.get("output_tokens"),
        tokens=usage.get("total_tokens"),
        cached_input_tokens=_within(usage, "input_tokens_details", "cached_tokens"),
    )


def _from_gemini(metadata: Mapping[str, Any]) -> dict[str, int]:
    written = [metadata.get("candidatesTokenCount"), metadata.get("thoughtsTokenCount")]
    told = [count for count in written if isinstance(count, int)]
    return _kept(
        input_tokens=metadata.get("promptTokenCount"),
        output_tokens=sum(told) if told else None,
        tokens=metadata.get("totalTokenCount"),
        cached_input_tokens=metadata.get("cachedContentTokenCount"),
    )


def _within(usage: Mapping[str, Any], part: str, name: str) -> object:
    details = usage.get(part)
    return details.get(name) if isinstance(details, dict) else None


def _kept(**counts: object) -> dict[str, int]:
    return {
        meter: count for meter, count in counts.items() if isinstance(count, int) and not isinstance(count, bool) and count >= 0
    }
