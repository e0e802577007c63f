"""Which provider, API and model a request is for, and whether it may be sent twice.

Names of providers are those of the service's catalogue. What is no call of a model (listing models, files,
batches) is nobody's turn to wait for and is left alone, unless whoever made the transport named the provider.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple
from urllib.parse import unquote

from paceline.sdk.seen import Seen

__all__ = ["PROVIDERS", "PROVIDERS_OF_HOSTS", "Family", "Place", "Repeat", "may_concern", "place_of"]

Repeat = Literal["safe", "keyed", "never"]
Family = Literal["openai", "anthropic", "gemini", "other"]

PROVIDERS_OF_HOSTS: Mapping[str, str] = {
    "api.openai.com": "openai",
    "*.api.openai.com": "openai",
    "api.anthropic.com": "anthropic",
    "generativelanguage.googleapis.com": "gemini",
    "aiplatform.googleapis.com": "vertex",
    "*-aiplatform.googleapis.com": "vertex",
    "*.openai.azure.com": "azure",
    "*.cognitiveservices.azure.com": "azure",
    "*.services.ai.azure.com": "azure",
    "bedrock-runtime.*.amazonaws.com": "bedrock",
    "api.mistral.ai": "mistral",
    "codestral.mistral.ai": "mistral",
    "api.groq.com": "groq",
    "api.together.xyz": "together",
    "api.together.ai": "together",
    "openrouter.ai": "openrouter",
    "api.deepseek.com": "deepseek",
    "api.x.ai": "xai",
    "*.api.x.ai": "xai",
    "api.perplexity.ai": "perplexity",
    "api.cerebras.ai": "cerebras",
    "api.fireworks.ai": "fireworks",
    "api.cohere.com": "cohere",
    "api.cohere.ai": "cohere",
    "integrate.api.nvidia.com": "nvidia",
    "models.github.ai": "github-models",
    "models.inference.ai.azure.com": "github-models",
    "api.sambanova.ai": "sambanova",
    "api.voyageai.com": "voyage",
    "api.jina.ai": "jina",
    "api.z.ai": "zai",
    "open.bigmodel.cn": "zai",
    "router.huggingface.co": "huggingface",
    "api-inference.huggingface.co": "huggingface",
    "localhost:11434": "ollama",
    "127.0.0.1:11434": "ollama",
}
"""Hosts of providers; a star stands for anything."""


OTHER_PROVIDERS = (
    "azure-apim",
    "azure-cosmos",
    "cloudflare",
    "discord",
    "elevenlabs",
    "envoy",
    "gemini-code-assist",
    "generic",
    "github",
    "gitlab",
    "google-grpc",
    "gravitee",
    "grpc",
    "hubspot",
    "jira",
    "kong",
    "lemlist",
    "linear",
    "litellm",
    "llm7",
    "mailerlite",
    "notion",
    "okta",
    "openai-compatible",
    "prisjakt",
    "pubg",
    "rapidapi",
    "reddit",
    "replicate",
    "resend",
    "salesforce",
    "sharepoint",
    "shopify",
    "slack",
    "spotify",
    "stripe",
    "tei",
    "telegram",
    "tgi",
    "twilio",
    "vllm",
    "whoop",
    "x-twitter",
    "zendesk",
)
"""The rest of the catalogue."""
PROVIDERS = frozenset([*PROVIDERS_OF_HOSTS.values(), *OTHER_PROVIDERS])
"""Names that the catalogue knows."""


class Endpoint(NamedTuple):
    """A kind of call, known by its path; the first group of the pattern, where there is one, is the model."""

    pattern: re.Pattern[str]
    api: str
    family: Family
    repeat: Repeat
    # Whose API it is at a host that nobody knows; empty: at such a host the path alone says nothing.
    elsewhere: str = ""


def _endpoint(pattern: str, api: str, family: Family, repeat: Repeat = "safe", elsewhere: str = "") -> Endpoint:
    return Endpoint(re.compile(pattern), api, family, repeat, elsewhere)


# The first that matches holds.
_ENDPOINTS = (
    _endpoint(r"/openai/deployments/([^/]+)/chat/completions$", "chat", "openai", elsewhere="azure"),
    _endpoint(r"/openai/deployments/([^/]+)/completions$", "completions", "openai", elsewhere="azure"),
    _endpoint(r"/openai/deployments/([^/]+)/embeddings$", "embeddings", "openai", elsewhere="azure"),
    _endpoint(r"/openai/deployments/([^/]+)/(?:images|audio)/\w+$", "media", "openai", elsewhere="azure"),
    _endpoint(r"/chat/completions$", "chat", "openai", elsewhere="openai-compatible"),
    _endpoint(r"/completions$", "completions", "openai", elsewhere="openai-compatible"),
    _endpoint(r"/responses$", "responses", "openai", elsewhere="openai-compatible"),
    _endpoint(r"/embeddings$", "embeddings", "openai", elsewhere="openai-compatible"),
    _endpoint(r"/moderations$", "embeddings", "openai"),
    _endpoint(r"/images/(?:generations|edits|variations)$", "media", "openai"),
    _endpoint(r"/audio/(?:speech|transcriptions|translations)$", "media", "openai"),
    _endpoint(r"/v1/messages/count_tokens$", "count", "anthropic", elsewhere="anthropic"),
    _endpoint(r"/v1/messages$", "messages", "anthropic", elsewhere="anthropic"),
    _endpoint(r"/v1/complete$", "completions", "anthropic"),
    _endpoint(r"/model/([^/]+)/(?:invoke|converse)$", "bedrock", "other", elsewhere="bedrock"),
    _endpoint(
        r"/model/([^/]+)/(?:invoke-with-response-stream|converse-stream)$",
        "bedrock",
        "other",
        elsewhere="bedrock",
    ),
    _endpoint(r"/([^/]+):(?:generateContent|streamGenerateContent)$", "generate", "gemini", elsewhere="gemini"),
    _endpoint(r"/([^/]+):(?:raw|streamRaw)Predict$", "messages", "anthropic"),
    _endpoint(r"/([^/]+):(?:embedContent|batchEmbedContents|predict)$", "embed", "gemini", elsewhere="gemini"),
    _endpoint(r"/([^/]+):countTokens$", "count", "gemini", elsewhere="gemini"),
    _endpoint(r"/v\d/(?:chat|embed|rerank)$", "other", "other"),
    _endpoint(r"/rerank$", "other", "other"),
)

# Servers of one's own: the same key at two hosts is two of them.
_OWN_SERVERS = frozenset({"openai-compatible", "litellm", "ollama", "tei", "tgi", "vllm"})
# Where an API that streams says so in the path.
_STREAMS = re.compile(r"(:streamGenerateContent|:streamRawPredict|-with-response-stream|/converse-stream)$")
_SENDS = frozenset({"POST", "PUT", "PATCH"})
_IDEMPOTENT = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE"})


@dataclass(frozen=True)
class Place:
    """Where a request goes and what kind of call it is; `api` is empty for what is no call of a model."""

    provider: str
    model: str
    api: str
    family: Family
    repeat: Repeat | None
    stream: bool
    known_host: bool


def place_of(seen: Seen, provider: str | None = None, hosts: Mapping[str, str] | None = None) -> Place | None:
    """The place of a request; `None` where it is none of our business.

    `provider` is what the maker of a transport said: everything that transport sends goes there. `hosts` adds
    to the known hosts (`{"llm.internal": "openai"}`) and goes before them.
    """
    named = _named_host(seen.host, hosts or {})
    known = named or _named_host(seen.host, PROVIDERS_OF_HOSTS)
    endpoint, model = _endpoint_of(seen)
    is_known = bool(known) or (provider is not None and provider not in _OWN_SERVERS)
    if endpoint is None:
        if provider is None:
            return None
        return Place(
            provider,
            _model_in(seen),
            "",
            "other",
            _keyed(seen, _by_method(seen)),
            _asks_stream(seen),
            is_known,
        )
    if provider is None:
        provider = known or (endpoint.elsewhere if _looks_like(seen, endpoint) else "")
    if not provider:
        return None
    return Place(
        provider=provider,
        model=model or _model_in(seen),
        api=endpoint.api,
        family=endpoint.family,
        repeat=_keyed(seen, endpoint.repeat),
        stream=_asks_stream(seen),
        known_host=is_known,
    )


def _endpoint_of(seen: Seen) -> tuple[Endpoint | None, str]:
    if seen.method not in _SENDS:
        return None, ""
    for endpoint in _ENDPOINTS:
        found = endpoint.pattern.search(seen.path)
        if found:
            return endpoint, unquote(found.group(1)) if found.re.groups else ""
    return None, ""


def _named_host(host: str, table: Mapping[str, str]) -> str:
    bare = host.rpartition(":")[0] or host
    for name in (host, bare):
        if name in table:
            return table[name]
    for pattern, provider in table.items():
        if "*" in pattern and _matches(pattern, bare):
            return provider
    return ""


@lru_cache(maxsize=1024)
def _matches(pattern: str, host: str) -> bool:
    return bool(re.fullmatch(re.escape(pattern).replace(r"\*", ".*"), host))


def _looks_like(seen: Seen, endpoint: Endpoint) -> bool:
    """Whether a call to a host nobody knows is of this API: any web page may end in `/responses`."""
    if endpoint.family == "gemini":
        return "contents" in seen.json or "content" in seen.json or "requests" in seen.json
    if endpoint.family == "anthropic":
        return "anthropic-version" in seen.headers
    return bool(endpoint.pattern.groups) or isinstance(seen.json.get("model"), str)


def _model_in(seen: Seen) -> str:
    model = seen.json.get("model")
    return model if isinstance(model, str) else seen.form_model


def _asks_stream(seen: Seen) -> bool:
    return seen.json.get("stream") is True or bool(_STREAMS.search(seen.path))


def _by_method(seen: Seen) -> Repeat | None:
    # `None` leaves it to the catalogue.
    return "safe" if seen.method in _IDEMPOTENT else None


def _keyed(seen: Seen, repeat: Repeat | None) -> Repeat | None:
    """With a key of the provider's, kept on all attempts, what may not be sent twice may be."""
    return "keyed" if repeat != "safe" and seen.headers.get("idempotency-key") else repeat


def may_concern(method: str, path: str, provider: str | None = None) -> bool:
    """Whether a request could have a place, by what is known before its body is read."""
    if provider is not None:
        return True
    return method.upper() in _SENDS and any(endpoint.pattern.search(path) for endpoint in _ENDPOINTS)
