"""The real SDKs, unmodified, through a real service: waits, denials, streams, connections, and who retries."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import anthropic
import httpx
import httpx2
import openai
import pytest
import requests
from google import genai
from google.genai import errors as genai_errors
from google.genai import types as genai_types
from oddities import CHAT, GEMINI, MESSAGE, SLOW_DOWN, Provider, answers, chunk, drops, hangs, provider, streams
from programs import Program

import paceline

ASK: Any = {"model": "m", "messages": [{"role": "user", "content": "x" * 40}]}
# Ten tokens of text and four for the message.
ESTIMATE = 14


@pytest.fixture(scope="module")
def service() -> Iterator[Any]:
    program = Program("serve", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0")
    yield program
    program.stop()


@pytest.fixture
def account(service: Any, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """Each test has a quota of its own."""
    name = request.node.name[:60].replace("[", "-").replace("]", "")
    monkeypatch.setenv("PACELINE_ADDR", service.grpc)
    monkeypatch.setenv("PACELINE_ACCOUNT", name)
    return str(name)


def eventually(true: Callable[[], bool], what: str) -> None:
    """Waits for what comes a moment later, ten seconds at most."""
    until = time.monotonic() + 10
    while not true():
        assert time.monotonic() < until, what
        time.sleep(0.02)


def nothing_held(service: Any, account: str) -> None:
    eventually(lambda: service.metric("paceline_inflight", account=account) == 0, "a call is still held")


def used(service: Any, account: str, meter: str) -> float:
    return float(
        sum(service.metric("paceline_units_total", account=account, meter=meter, kind=kind) for kind in ("first", "retry"))
    )


def open_ai(at: Provider, **options: Any) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{at.url}/v1", api_key="sk-test-1234567", **options)


def through(at: Provider, **options: Any) -> openai.OpenAI:
    return open_ai(at, http_client=paceline.httpx(hosts={at.host: "openai"}), **options)


REFUSED_ONCE = (answers(429, SLOW_DOWN, retry_after_ms="120"), answers(200, CHAT))


def test_a_refused_call_is_sent_again_under_one_connection(service: Any, account: str) -> None:
    with provider(*REFUSED_ONCE) as at:
        client = through(at)
        raw = client.chat.completions.with_raw_response.create(**ASK)
        assert raw.headers["paceline-attempts"] == "2"
        assert raw.parse().choices[0].message.content == "hello"
        for _ in range(5):
            client.chat.completions.create(**ASK)
    assert len(at.requests) == 7
    assert at.connections == 1
    # The SDK did not retry: each attempt says that it is the first.
    assert {headers["x-stainless-retry-count"] for _, headers, _ in at.requests} == {"0"}
    nothing_held(service, account)
    # The refused attempt used nothing that anybody knows of; the six others said seven tokens each.
    eventually(lambda: service.metric("paceline_reports_total", provider="openai", status="429") >= 1, "no refusal was told")
    eventually(lambda: used(service, account, "requests") >= 6, "six calls were not told")


@pytest.mark.parametrize("first", [answers(429, SLOW_DOWN), answers(500, {}), drops], ids=["429", "500", "drops"])
def test_a_client_without_retries_sends_once(service: Any, account: str, first: Any) -> None:
    with provider(first, answers(200, CHAT)) as at:
        client = paceline.wrap(open_ai(at, max_retries=0), hosts={at.host: "openai"})
        with pytest.raises((openai.APIStatusError, openai.APIConnectionError)):
            client.chat.completions.create(**ASK)
        assert len(at.requests) == 1
    nothing_held(service, account)


def asked(service: Any, account: str) -> float:
    return float(service.metric("paceline_acquires_total", account=account, outcome="granted"))


async def test_a_call_under_a_slot_of_ones_own_is_asked_for_once(service: Any, account: str) -> None:
    """A wrapped client inside of `limiter.call`, `attempts` or `slot` of the same provider."""
    with provider(answers(429, SLOW_DOWN, retry_after_ms="10"), *[answers(200, CHAT)] * 20) as at:
        limiter, hosts = paceline.Limiter(), {at.host: "openai"}
        client = paceline.wrap(open_ai(at, max_retries=0), hosts=hosts)
        session = paceline.wrap(requests.Session(), hosts=hosts)

        def send() -> Any:
            return client.chat.completions.create(**ASK)

        assert limiter.call(send, ask=paceline.Ask("openai", model="m")).usage.total_tokens == 7
        assert (len(at.requests), asked(service, account)) == (2, 2), "refused once, and sent again by the outer call alone"
        with limiter.slot("openai", model="m") as slot:
            slot.result(session.post(f"{at.url}/v1/chat/completions", json=ASK))
        async with (
            paceline.aio.Limiter().slot("openai"),
            paceline.aio.aiohttp(hosts=hosts) as aio_session,
            aio_session.post(f"{at.url}/v1/chat/completions", json=ASK) as answer,
        ):
            assert answer.status == 200
        assert (len(at.requests), asked(service, account)) == (4, 4)
        with limiter.slot("openai", model="m"):
            send()
            send()
        assert (len(at.requests), asked(service, account)) == (6, 6), "the second one has no slot and asks"
        with limiter.slot("openai", model="other"):
            send()
        assert (len(at.requests), asked(service, account)) == (7, 8), "a slot of another model is for another call"
    await asyncio.to_thread(nothing_held, service, account)


def test_attempts_are_bounded_by_who_asks(service: Any, account: str) -> None:
    with provider(*[answers(429, SLOW_DOWN, retry_after_ms="10")] * 9) as at:
        client = paceline.wrap(open_ai(at, max_retries=7), hosts={at.host: "openai"})
        with paceline.context(attempts=2), pytest.raises(openai.RateLimitError):
            client.chat.completions.create(**ASK)
        assert len(at.requests) == 2
        bounded = paceline.wrap(open_ai(at), hosts={at.host: "openai"}, limiter=paceline.Limiter(attempts=3))
        with pytest.raises(openai.RateLimitError):
            bounded.chat.completions.create(**ASK)
        assert len(at.requests) == 5
        with pytest.raises(openai.RateLimitError):
            client.chat.completions.create(**ASK)
        assert len(at.requests) > 7, "as often as its class allows; the SDK's own number says nothing"


async def test_the_same_for_asyncio(service: Any, account: str) -> None:
    with provider(*REFUSED_ONCE) as at:
        made = paceline.aio.httpx(hosts={at.host: "openai"})
        client = openai.AsyncOpenAI(base_url=f"{at.url}/v1", api_key="k-1234567", http_client=made)
        for _ in range(5):
            answer = await client.chat.completions.create(**ASK)
        assert answer.usage is not None
        assert answer.usage.total_tokens == 7
        await client.close()
    assert len(at.requests) == 6
    assert at.connections == 1


@pytest.mark.parametrize("module", [httpx, httpx2], ids=["httpx", "httpx2"])
def test_clients_of_both_modules(service: Any, account: str, module: Any) -> None:
    with provider(*REFUSED_ONCE) as at, paceline.httpx(module=module, provider="openai") as client:
        answer = client.post(f"{at.url}/v1/chat/completions", json=ASK)
        assert (answer.status_code, answer.json()["usage"]["total_tokens"]) == (200, 7)
        assert answer.elapsed.total_seconds() > 0.1
    assert len(at.requests) == 2
    nothing_held(service, account)


def test_anthropic_and_its_denial(service: Any, account: str) -> None:
    with provider(
        answers(429, {"type": "error", "error": {"type": "rate_limit_error", "message": "x"}}, retry_after="0.2"),
        answers(200, MESSAGE),
    ) as at:
        plain = anthropic.Anthropic(base_url=at.url, api_key="sk-ant-1234567")
        client = paceline.wrap(plain, hosts={at.host: "anthropic"})
        message = client.messages.create(model="m", max_tokens=9, messages=ASK["messages"])
        assert message.usage.output_tokens == 2
        at.script[:] = [
            answers(429, {"type": "error", "error": {"type": "rate_limit_error", "message": "a day"}}, retry_after="86400")
        ]
        with pytest.raises(anthropic.RateLimitError) as refused:
            client.messages.create(model="m", max_tokens=9, messages=ASK["messages"])
        # The provider's own answer; the next call is not even sent.
        assert "a day" in str(refused.value)
        sent = len(at.requests)
        with pytest.raises(anthropic.RateLimitError) as denied:
            client.messages.create(model="m", max_tokens=9, messages=ASK["messages"])
        assert isinstance(denied.value.body, dict)
        assert str(denied.value.body["error"]["code"]).startswith("paceline_")
        assert len(at.requests) == sent
    nothing_held(service, account)


def test_a_denial_is_the_sdks_own_error_and_says_all(service: Any, account: str) -> None:
    with provider(answers(429, SLOW_DOWN, retry_after="30")) as at:
        client = through(at)
        started = time.monotonic()
        with paceline.context(max_wait=0.5), pytest.raises(openai.RateLimitError) as denied:
            client.chat.completions.create(**ASK)
        # One attempt, no sleep of the SDK.
        assert len(at.requests) == 1
        assert time.monotonic() - started < 5
        error = denied.value
        body: Any = error.body
        assert error.response.headers["x-should-retry"] == "false"
        if error.code != "rate_limit_exceeded":
            # Its next attempt was denied: the provider's answer is inside.
            assert str(error.code).startswith("paceline_")
            assert body["paceline"]["provider_answer"]["body"] == SLOW_DOWN
        with paceline.context(max_wait=0.5), pytest.raises(openai.RateLimitError) as second:
            client.chat.completions.create(**ASK)
        assert second.value.code == "paceline_deadline"
        assert 20 <= int(second.value.response.headers["retry-after"]) <= 60
        assert second.value.response.headers["paceline-denied"] == "deadline"
        assert len(at.requests) == 1
    nothing_held(service, account)


@pytest.mark.parametrize("status", [400, 401, 404, 422])
def test_what_is_not_worth_repeating_is_sent_once(service: Any, account: str, status: int) -> None:
    with provider(answers(status, {"error": {"message": "no", "code": "x"}})) as at:
        with pytest.raises(openai.APIStatusError) as error:
            through(at).chat.completions.create(**ASK)
        assert error.value.status_code == status
        assert len(at.requests) == 1
    nothing_held(service, account)


def test_attempts_are_not_multiplied_when_no_answer_comes(service: Any, account: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK tries a lost connection again by itself; it is told the same at once, and nothing more is sent."""
    sleeps: list[float] = []
    monkeypatch.setattr(openai.OpenAI, "_sleep_for_retry", lambda self, **_: sleeps.append(1.0))
    with provider(drops) as at, paceline.context(repeat="never"):
        with pytest.raises(openai.APIConnectionError):
            through(at, max_retries=5).chat.completions.create(**ASK)
        assert len(at.requests) == 1
        assert len(sleeps) == 5
        # The next call is one of its own.
        with pytest.raises(openai.APIConnectionError):
            through(at, max_retries=0).chat.completions.create(**ASK)
        assert len(at.requests) == 2
    nothing_held(service, account)


def test_a_time_out_is_told_as_one(service: Any, account: str) -> None:
    over = threading.Event()
    with provider(hangs(over)) as at, paceline.context(repeat="never"):
        with pytest.raises(openai.APITimeoutError):
            through(at, timeout=0.3, max_retries=0).chat.completions.create(**ASK)
        over.set()
    eventually(
        lambda: service.metric("paceline_reports_total", provider="openai", outcome="timeout") >= 1, "no time-out was told"
    )
    nothing_held(service, account)


def test_nobody_there_is_told_as_a_failed_connection(service: Any, account: str) -> None:
    with provider(drops) as at:
        pass
    with paceline.context(max_wait=0.2), pytest.raises(openai.APIConnectionError):
        through(at, max_retries=0).chat.completions.create(**ASK)
    eventually(
        lambda: service.metric("paceline_reports_total", provider="openai", outcome="connection_failed") >= 1,
        "no failed connection was told",
    )
    nothing_held(service, account)


USAGE = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [], "usage": CHAT["usage"]}


def test_a_stream_is_settled_by_what_it_says(service: Any, account: str) -> None:
    with provider(streams(chunk("hello"), USAGE, "[DONE]")) as at:
        client = through(at)
        events = list(client.chat.completions.create(**ASK, stream=True, stream_options={"include_usage": True}))
        assert [event.choices[0].delta.content for event in events if event.choices] == ["hello"]
        eventually(lambda: used(service, account, "tokens") == 7, "its usage was not told")
        client.chat.completions.create(**ASK, stream=True).close()
    assert at.connections <= 2
    nothing_held(service, account)


@pytest.mark.parametrize("how", ["cut by the provider", "left by its reader", "forgotten by its reader"])
def test_a_stream_cut_midway_is_settled_by_our_count(service: Any, account: str, how: str) -> None:
    over = threading.Event()
    with provider(streams(*[chunk("x" * 40)] * 10, cut=True, hold=None if how.startswith("cut") else over)) as at:
        stream = through(at).chat.completions.create(**ASK, max_tokens=5_000, stream=True)
        if how.startswith("cut"):
            with pytest.raises((openai.APIConnectionError, httpx2.TransportError)):
                list(stream)
        else:
            for _ in range(10):
                next(iter(stream))
            assert service.metric("paceline_inflight", account=account) == 1
            if how.startswith("left"):
                stream.close()
            del stream
            # An answer and its stream hold each other.
            gc.collect()
        nothing_held(service, account)
        over.set()
    assert len(at.requests) == 1, "a stream past its first byte was sent again"
    # Ten pieces of ten tokens, and the prompt; not the 5,000 that were reserved.
    assert used(service, account, "tokens") == ESTIMATE + 100


async def test_a_cancelled_stream_is_settled_too(service: Any, account: str) -> None:
    over = threading.Event()
    with provider(streams(*[chunk("x" * 40)] * 10, hold=over)) as at:
        client = openai.AsyncOpenAI(
            base_url=f"{at.url}/v1", api_key="k-1234567", http_client=paceline.aio.httpx(provider="openai")
        )
        seen = asyncio.Event()

        async def read() -> None:
            async with await client.chat.completions.create(**ASK, max_tokens=5_000, stream=True) as stream:
                count = 0
                async for _ in stream:
                    count += 1
                    if count == 10:
                        seen.set()

        task = asyncio.create_task(read())
        await asyncio.wait_for(seen.wait(), 20)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        over.set()
    await asyncio.to_thread(nothing_held, service, account)
    assert used(service, account, "tokens") == ESTIMATE + 100


async def test_whoever_is_cancelled_while_waiting_leaves_the_line(service: Any, account: str) -> None:
    with provider(answers(429, SLOW_DOWN, retry_after="20")) as at:
        client = openai.AsyncOpenAI(
            base_url=f"{at.url}/v1", api_key="k-1234567", http_client=paceline.aio.httpx(provider="openai")
        )
        tasks = [asyncio.create_task(client.chat.completions.create(**ASK)) for _ in range(8)]
        await asyncio.to_thread(eventually, lambda: len(at.requests) >= 1, "nothing was sent")
        await asyncio.sleep(0.3)
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(end, (asyncio.CancelledError, openai.RateLimitError)) for end in ended), ended
    await asyncio.to_thread(nothing_held, service, account)
    await asyncio.to_thread(
        eventually, lambda: service.metric("paceline_queue_depth", account=account) == 0, "somebody still waits"
    )


def test_an_error_inside_a_200_is_read(service: Any, account: str) -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    start = {"type": "message_start", "message": {**MESSAGE, "content": [], "stop_reason": None}}
    before = service.metric("paceline_signals_total", provider="anthropic", source="backoff")
    with provider(streams(b"event: message_start\n", start, b"event: error\n", error)) as at:
        client = anthropic.Anthropic(base_url=at.url, api_key="k-1234567", http_client=paceline.httpx(provider="anthropic"))
        with (
            pytest.raises(anthropic.APIStatusError),
            client.messages.stream(model="m", max_tokens=9, messages=ASK["messages"]) as stream,
        ):
            list(stream.text_stream)
    assert len(at.requests) == 1
    nothing_held(service, account)
    # The service takes it for what it is: the model rests.
    eventually(lambda: _rests(service, account, before), "the overload was not read")


def _rests(service: Any, account: str, before: float) -> bool:
    return float(service.metric("paceline_signals_total", provider="anthropic")) > 0


@pytest.mark.parametrize("wrapped", [True, False], ids=["wrap", "httpx_client"])
def test_gemini(service: Any, account: str, wrapped: bool) -> None:
    refusal = {
        "error": {
            "code": 429,
            "message": "quota",
            "status": "RESOURCE_EXHAUSTED",
            "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "0.2s"}],
        }
    }
    with provider(answers(429, refusal), answers(200, GEMINI)) as at:
        options = genai_types.HttpOptions(base_url=at.url)
        if not wrapped:
            options.httpx_client = paceline.httpx(provider="gemini")
        client = genai.Client(api_key="AIza-1234567890", http_options=options)
        if wrapped:
            client = paceline.wrap(client, hosts={at.host: "gemini"})
        answer = client.models.generate_content(model="g", contents="x" * 40)
        assert answer.text == "hello"
        assert len(at.requests) == 2
        at.script[:] = [streams(GEMINI)]
        assert [part.text for part in client.models.generate_content_stream(model="g", contents="hi")] == ["hello"]
        at.script[:] = [
            answers(
                429,
                {
                    "error": {
                        "code": 429,
                        "message": "x",
                        "status": "RESOURCE_EXHAUSTED",
                        "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "90000s"}],
                    }
                },
            )
        ]
        for _ in range(2):
            with pytest.raises(genai_errors.ClientError) as denied:
                client.models.generate_content(model="g", contents="hi")
        assert denied.value.status == "RESOURCE_EXHAUSTED"
        assert "Paceline" in str(denied.value)
        assert len(at.requests) == 4
    nothing_held(service, account)


async def test_gemini_for_asyncio_by_whatever_it_uses(service: Any, account: str) -> None:
    with provider(answers(503, {"error": {"code": 503, "message": "x", "status": "UNAVAILABLE"}}), answers(200, GEMINI)) as at:
        options = genai_types.HttpOptions(base_url=at.url)
        client = paceline.wrap(genai.Client(api_key="AIza-1234567890", http_options=options), hosts={at.host: "gemini"})
        answer = await client.aio.models.generate_content(model="g", contents="hi")
        assert answer.text == "hello"
        assert len(at.requests) == 2
        at.script[:] = [streams(GEMINI)]
        stream = await client.aio.models.generate_content_stream(model="g", contents="hi")
        assert [part.text async for part in stream] == ["hello"]
        await client.aio.aclose()
    await asyncio.to_thread(nothing_held, service, account)
    assert used(service, account, "requests") >= 2


@pytest.mark.parametrize("where", ["client", "request"])
async def test_gemini_does_not_retry_on_top(service: Any, account: str, where: str) -> None:
    again = genai_types.HttpRetryOptions(attempts=4, initial_delay=0.01)
    with provider(drops) as at, paceline.context(repeat="never"):
        options = genai_types.HttpOptions(base_url=at.url, retry_options=again if where == "client" else None)
        client = paceline.wrap(genai.Client(api_key="AIza-1234567890", http_options=options), provider="gemini")
        config: Any = {"http_options": {"retry_options": again}} if where == "request" else None
        with pytest.raises(Exception, match="disconnect"):
            client.models.generate_content(model="g", contents="hi", config=config)
        assert len(at.requests) == 1
        with pytest.raises(Exception, match=r"(?i)disconnect|reset"):
            await client.aio.models.generate_content(model="g", contents="hi", config=config)
        assert len(at.requests) == 2
        await client.aio.aclose()
    await asyncio.to_thread(nothing_held, service, account)


async def test_gemini_beside_gemini(service: Any, account: str) -> None:
    """The given client and the wrapped one live and end each for itself."""
    with provider(answers(200, GEMINI)) as at:
        plain = genai.Client(api_key="AIza-1234567890", http_options=genai_types.HttpOptions(base_url=at.url))
        await plain.aio.models.generate_content(model="g", contents="hi")
        plain.models.generate_content(model="g", contents="hi")
        wrapped = paceline.wrap(plain, provider="gemini")
        await wrapped.aio.models.generate_content(model="g", contents="hi")
        await wrapped.aio.aclose()
        wrapped.close()
        del wrapped
        gc.collect()
        await asyncio.sleep(0)
        plain.models.generate_content(model="g", contents="hi")
        await plain.aio.models.generate_content(model="g", contents="hi")
        assert at.connections == 2
        assert service.metric("paceline_acquires_total", account=account) == 1
        alone = paceline.wrap(plain, provider="gemini")
        del plain
        gc.collect()
        await asyncio.sleep(0)
        alone.models.generate_content(model="g", contents="hi")
        await alone.aio.models.generate_content(model="g", contents="hi")
        await alone.aio.aclose()
        assert service.metric("paceline_acquires_total", account=account) == 3


def test_requests(service: Any, account: str) -> None:
    with provider(*REFUSED_ONCE) as at:
        session = paceline.requests(provider="openai")
        url = f"{at.url}/v1/chat/completions"
        answer = session.post(url, json=ASK)
        assert (answer.status_code, answer.json()["usage"]["total_tokens"], answer.reason) == (200, 7, "OK")
        assert answer.headers["paceline-attempts"] == "2"
        assert (len(at.requests), at.connections) == (2, 1)
        at.script[:] = [streams(chunk("hello"), USAGE, "[DONE]")]
        with session.post(url, json={**ASK, "stream": True}, stream=True) as streamed:
            assert b"[DONE]" in b"".join(streamed.iter_content(7))
        at.script[:] = [drops]
        with paceline.context(repeat="never"), pytest.raises(requests.ConnectionError):
            session.post(url, json=ASK)
        at.script[:] = [answers(429, SLOW_DOWN, retry_after="86400")]
        session.post(url, json=ASK)
        denied = session.post(url, json=ASK)
        assert denied.status_code == 429
        assert denied.json()["error"]["code"].startswith("paceline_")
    nothing_held(service, account)


def test_a_session_of_requests_that_retries_by_itself_does_so_no_more(service: Any, account: str) -> None:
    from requests.adapters import HTTPAdapter
    from urllib3.util.retry import Retry

    with provider(answers(503, {})) as at:
        plain = requests.Session()
        plain.headers["x-mine"] = "kept"
        plain.mount("http://", HTTPAdapter(max_retries=Retry(9, status_forcelist=[503], allowed_methods=None)))
        with paceline.context(repeat="never", max_wait=0.1):
            answer = paceline.wrap(plain, provider="openai").post(f"{at.url}/v1/chat/completions", json=ASK)
        assert answer.status_code in (503, 429)
        assert len(at.requests) == 1
        assert at.requests[0][1]["x-mine"] == "kept"


async def test_aiohttp(service: Any, account: str) -> None:
    with provider(*REFUSED_ONCE) as at:
        url = f"{at.url}/v1/chat/completions"
        async with paceline.aio.aiohttp(provider="openai") as session:
            async with session.post(url, json=ASK) as answer:
                assert (answer.status, (await answer.json())["usage"]["total_tokens"]) == (200, 7)
                assert answer.headers["paceline-attempts"] == "2"
            assert (len(at.requests), at.connections) == (2, 1)
            at.script[:] = [streams(chunk("hello"), USAGE, "[DONE]")]
            async with session.post(url, json={**ASK, "stream": True}) as streamed:
                lines = [line async for line in streamed.content]
                assert b"data: [DONE]\n" in lines
            over = threading.Event()
            at.script[:] = [streams(chunk("x" * 40), hold=over)]
            async with session.post(url, json={**ASK, "stream": True}) as left:
                await left.content.readline()
            over.set()
            at.script[:] = [answers(429, SLOW_DOWN, retry_after="86400")]
            async with session.post(url, json=ASK) as refused:
                assert refused.status == 429
            async with session.post(url, json=ASK) as denied:
                assert denied.status == 429
                assert (await denied.json())["error"]["code"].startswith("paceline_")
                with pytest.raises(Exception, match="429"):
                    denied.raise_for_status()
    await asyncio.to_thread(nothing_held, service, account)


def test_wrap_leaves_the_client_as_it_is(service: Any, account: str) -> None:
    with provider(answers(200, CHAT)) as at:
        plain = open_ai(at, timeout=7.5, max_retries=4, default_headers={"x-mine": "kept"})
        plain.chat.completions.create(**ASK)
        before = service.metric("paceline_acquires_total", account=account)
        wrapped = paceline.wrap(plain, provider="openai")
        wrapped.chat.completions.create(**ASK)
        assert type(wrapped) is openai.OpenAI
        assert (wrapped.timeout, wrapped.base_url, wrapped.api_key) == (7.5, plain.base_url, plain.api_key)
        assert service.metric("paceline_acquires_total", account=account) == before + 1
        # The given one still asks nobody, by the same connection, also when the other is closed.
        wrapped.close()
        del wrapped
        plain.chat.completions.create(**ASK)
        assert service.metric("paceline_acquires_total", account=account) == before + 1
        assert at.connections == 1
        assert {headers["x-mine"] for _, headers, _ in at.requests} == {"kept"}
    with pytest.raises(TypeError, match="cannot wrap builtins"):
        paceline.wrap(3)


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


def test_other_calls_of_the_same_client_go_straight_through(service: Any, account: str) -> None:
    with provider(answers(200, {"object": "list", "data": []})) as at:
        client = through(at)
        client.models.list()
        assert len(at.requests) == 1
    assert service.metric("paceline_acquires_total", account=account) == 0


@pytest.mark.parametrize("mode", ["shadow", "off"])
def test_without_enforcing_the_sdk_retries_as_ever(
    service: Any, account: str, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PACELINE_MODE", mode)
    waits: list[int] = []
    monkeypatch.setattr(openai.OpenAI, "_sleep_for_retry", lambda self, **said: waits.append(said["retries_taken"]))
    with provider(answers(429, SLOW_DOWN, retry_after="1"), answers(429, SLOW_DOWN), answers(200, CHAT)) as at:
        raw = through(at).chat.completions.with_raw_response.create(**ASK)
        assert raw.parse().usage is not None
        assert waits == [0, 1]
        assert "paceline-attempts" not in raw.headers
        assert [headers["x-stainless-retry-count"] for _, headers, _ in at.requests] == ["0", "1", "2"]
    if mode == "shadow":
        eventually(lambda: service.metric("paceline_acquires_total", account=account) == 3, "the asks beside did not come")
        nothing_held(service, account)
    else:
        assert service.metric("paceline_acquires_total", account=account) == 0


def test_in_shadow_a_dead_service_is_unnoticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PACELINE_ADDR", "127.0.0.1:9")
    monkeypatch.setenv("PACELINE_MODE", "shadow")
    with provider(answers(200, CHAT)) as at:
        client = through(at)
        client.chat.completions.create(**ASK)
        started = time.monotonic()
        for _ in range(20):
            client.chat.completions.create(**ASK)
        assert time.monotonic() - started < 1.5
        assert len(at.requests) == 21


def test_calls_go_on_when_the_service_dies(start: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    program = start("serve")
    monkeypatch.setenv("PACELINE_ADDR", program.grpc)
    with provider(answers(200, CHAT)) as at:
        client = through(at)
        for _ in range(40):
            client.chat.completions.create(**ASK)
        program.stop()
        started = time.monotonic()
        for _ in range(2):
            client.chat.completions.create(**ASK)
        assert len(at.requests) == 42
        # Two seconds until it is clear that nobody answers, and its recent share: forty calls in ten seconds.
        assert time.monotonic() - started < 20


def test_bodies_that_are_files_are_sent_again_whole(service: Any, account: str) -> None:
    with provider(answers(429, SLOW_DOWN, retry_after_ms="50"), answers(200, {"text": "hi"})) as at:
        client = through(at)
        assert client.audio.transcriptions.create(model="whisper-1", file=("a.wav", b"RIFF" * 100)).text == "hi"
        assert len(at.requests) == 2
        first, second = at.requests
        assert first[2] == second[2]
        assert b"RIFFRIFF" in second[2]
    nothing_held(service, account)


def test_azure_names_its_deployment(service: Any, account: str) -> None:
    with provider(*REFUSED_ONCE) as at:
        plain = openai.AzureOpenAI(
            azure_endpoint=at.url, api_key="k-1234567", api_version="2026-01-01", azure_deployment="prod-4o"
        )
        paceline.wrap(plain).chat.completions.create(**ASK)
        assert len(at.requests) == 2
    eventually(lambda: service.metric("paceline_acquires_total", provider="azure", model="prod-4o") >= 2, "it is not Azure's")


def test_layers_of_attempts_share_one_bound(service: Any, account: str) -> None:
    """A job that retries, around calls that are sent again: as many as one call may have, not as many times as many."""
    with provider(answers(429, SLOW_DOWN, retry_after_ms="5")) as at:
        client = through(at)
        ask = paceline.Ask("openai", model="job", max_wait=60)
        with pytest.raises(openai.RateLimitError):
            paceline.Limiter().call(client.chat.completions.create, ask=ask, **ASK)
        print("sent", len(at.requests))
        assert 2 <= len(at.requests) <= 8
    nothing_held(service, account)


async def test_a_key_that_makes_it_safe_is_the_same_on_all_attempts(service: Any, account: str) -> None:
    """A call that may have run is sent again only under the provider's own key."""
    with provider(drops, answers(200, {"id": "ch_1"})) as at:
        url = f"{at.url}/v1/charges"
        with paceline.httpx(provider="stripe") as client:
            assert client.post(url, data={"amount": 5}).status_code == 200
        at.script[:] = [drops, answers(200, {})]
        assert paceline.requests(provider="stripe").post(url, json={"amount": 5}).status_code == 200
        at.script[:] = [drops, answers(200, {})]
        async with paceline.aio.aiohttp(provider="stripe") as session, session.post(url, json={"amount": 5}) as answer:
            assert answer.status == 200
        keys = [headers["idempotency-key"] for _, headers, _ in at.requests]
        assert [keys.count(key) for key in keys] == [2] * 6
        # One's own stays.
        at.script[:] = [answers(503, {}, retry_after_ms="20"), answers(200, {})]
        with paceline.httpx(provider="stripe") as client:
            client.post(url, data={"amount": 5}, headers={"Idempotency-Key": "mine"})
        assert [headers["idempotency-key"] for _, headers, _ in at.requests[6:]] == ["mine", "mine"]


async def test_streams_beside_the_service(service: Any, account: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In shadow a stream is what it is without us, and is told all the same."""
    monkeypatch.setenv("PACELINE_MODE", "shadow")
    with provider(streams(chunk("hello"), USAGE, "[DONE]")) as at:
        async with openai.AsyncOpenAI(
            base_url=f"{at.url}/v1", api_key="k-1234567", http_client=paceline.aio.httpx(provider="openai")
        ) as client:
            raw = await client.chat.completions.with_raw_response.create(**ASK, stream=True)
            assert "paceline-attempts" not in raw.headers
            assert [event.choices[0].delta.content async for event in raw.parse() if event.choices] == ["hello"]
    await asyncio.to_thread(eventually, lambda: used(service, account, "tokens") == 7, "its usage was not told")
    await asyncio.to_thread(nothing_held, service, account)


@pytest.mark.parametrize("mode", ["shadow", "off"])
def test_where_the_service_only_watches_we_wait_as_sdks_do(
    mode: str, start: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    program = start("serve", config=f"mode: {mode}\n")
    monkeypatch.setenv("PACELINE_ADDR", program.grpc)
    with provider(answers(429, SLOW_DOWN, retry_after_ms="300"), answers(200, CHAT)) as at:
        started = time.monotonic()
        through(at).chat.completions.create(**ASK)
        assert time.monotonic() - started >= 0.3
        # The wait was ours: the SDK was told not to.
        assert [headers["x-stainless-retry-count"] for _, headers, _ in at.requests] == ["0", "0"]
        at.script[:] = [answers(429, SLOW_DOWN, retry_after_ms="10")]
        sent = len(at.requests)
        with pytest.raises(openai.RateLimitError):
            through(at).chat.completions.create(**ASK)
        # Not as often as we would and the SDK would, multiplied.
        assert 2 <= len(at.requests) - sent <= 8


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
