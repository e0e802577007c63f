// Real SDKs, unmodified, through a real service.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { Limiter, type Mode, pacedFetch } from "../src/index.js";
import { Process, counted, metric, sends } from "./service.js";

const CHAT = { model: "gpt-4o", max_tokens: 9, messages: [{ role: "user" as const, content: "Hello" }] };

function openai(t: { after(fn: () => void): void }, service: Process | undefined, url: string, mode: Mode = "enforce"): OpenAI {
  const limiter = new Limiter({ addresses: [service?.grpc ?? "127.0.0.1:9"], mode });
  t.after(() => limiter.close());
  return new OpenAI({ apiKey: "sk-secret", baseURL: `${url}/v1`, fetch: pacedFetch(limiter, "openai") });
}

test("openai: a refused call is sent again by the service's word, and by nobody else", async (t) => {
  await using service = await Process.serve();
  await using mock = await Process.start("mock-provider", "--first", "2", "--status", "429", "--retry-after", "1");
  const answer = await openai(t, service, mock.http).chat.completions.create(CHAT);
  assert.equal(answer.object, "chat.completion");
  assert.equal((await sends(mock))["sends"], 3);
  await metric(service, /paceline_units_total\{[^}]*kind="retry",meter="tokens"[^}]*\} 11\b/);
});

test("openai: a denial is its own error, with our code, and is not sent again", async (t) => {
  await using service = await Process.serve("127.0.0.1:0", "--config", new URL("../../test/one-a-minute.yaml", import.meta.url).pathname);
  await using mock = await Process.start("mock-provider");
  const limiter = new Limiter({ addresses: [service.grpc] });
  t.after(() => limiter.close());
  const paced = pacedFetch(limiter, ({ body }) => (body ? { provider: "openai", model: "gpt-4o", maxWaitMs: 10 } : undefined));
  const client = new OpenAI({ apiKey: "sk-secret", baseURL: `${mock.http}/v1`, fetch: paced });
  await client.chat.completions.create(CHAT);
  const error = await client.chat.completions.create(CHAT).then(() => undefined, (error: unknown) => error);
  assert.ok(error instanceof OpenAI.RateLimitError && error.code === "paceline_deadline", String(error));
  assert.equal((await sends(mock))["sends"], 1);
});

test("openai: a refusal that the service gives up is the provider's, and no SDK sends it again", async (t) => {
  await using service = await Process.serve();
  await using mock = await Process.start("mock-provider", "--first", "9", "--status", "400");
  await assert.rejects(openai(t, service, mock.http).chat.completions.create(CHAT), { status: 400 });
  assert.equal((await sends(mock))["sends"], 1);
});

test("anthropic and openai: a stream is settled with what it says at its end", async (t) => {
  await using service = await Process.serve();
  await using mock = await Process.start("mock-provider");
  let text = "";
  const stream = await openai(t, service, mock.http).chat.completions.create({ ...CHAT, stream: true, stream_options: { include_usage: true } });
  for await (const event of stream) text += event.choices[0]?.delta.content ?? "";
  assert.match(text, /mock answer/);
  await metric(service, /paceline_units_total\{[^}]*kind="first",meter="tokens",model="gpt-4o"[^}]*\} 11\b/);

  const limiter = new Limiter({ addresses: [service.grpc] });
  t.after(() => limiter.close());
  const client = new Anthropic({ apiKey: "sk-secret", baseURL: mock.http, fetch: pacedFetch(limiter, "anthropic") });
  const message = await client.messages.stream({ ...CHAT, model: "claude-opus-5" }).finalMessage();
  assert.equal(message.usage.output_tokens, 9);
  await metric(service, /paceline_units_total\{[^}]*kind="first",meter="output_tokens",model="claude-opus-5"[^}]*\} 9\b/);
});

test("openai: a stream that its caller leaves is abandoned, with what was seen of it", async (t) => {
  await using service = await Process.serve();
  const provider = createServer((_, answer) => {
    answer.writeHead(200, { "content-type": "text/event-stream" });
    for (let nth = 0; nth < 3; nth++) answer.write(`data: {"choices": [{"index": 0, "delta": {"content": "a"}}]}\n\n`);
  }).listen(0, "127.0.0.1");
  t.after(() => provider.closeAllConnections());
  t.after(() => provider.close());
  await new Promise((resolve) => provider.once("listening", resolve));
  const url = `http://127.0.0.1:${(provider.address() as AddressInfo).port}`;
  const stream = await openai(t, service, url).chat.completions.create({ ...CHAT, stream: true });
  let seen = 0;
  for await (const _ of stream) if (++seen === 3) break;
  await metric(service, /paceline_reports_total\{outcome="abandoned",[^}]*\} 1\b/);
});

test("fifty tasks, beside the same SDK alone: nearly nothing is refused, nothing fails", async (t) => {
  const run = async (paced: boolean) => {
    await using service = await Process.serve();
    await using mock = await Process.start("mock-provider", "--limit", "requests=20/s,burst=20", "--latency", "200ms");
    const alone = new OpenAI({ apiKey: "sk-secret", baseURL: `${mock.http}/v1` });
    const client = paced ? openai(t, service, mock.http) : alone;
    let [left, failed] = [200, 0];
    const task = async () => {
      while (left-- > 0) await client.chat.completions.create(CHAT).catch(() => failed++);
    };
    await Promise.all(Array.from({ length: 50 }, task));
    const { sends: sent, rejected } = await sends(mock);
    return { sent, rejected, failed };
  };
  const [paced, alone] = await Promise.all([run(true), run(false)]);
  t.diagnostic(`paced ${JSON.stringify(paced)}, alone ${JSON.stringify(alone)}`);
  assert.ok((paced.rejected ?? 200) <= 1 && paced.failed === 0, `${paced.rejected} refused, ${paced.failed} failed`);
  assert.ok((alone.rejected ?? 0) > 20 && alone.failed > 0, "which is why");
});

test("openai: in shadow, off, and without a service the SDK's own retries are back", async (t) => {
  for (const mode of ["shadow", "off"] as const) {
    await using mock = await Process.start("mock-provider", "--first", "1", "--status", "429", "--retry-after", "1");
    const began = performance.now();
    await openai(t, undefined, mock.http, mode).chat.completions.create(CHAT);
    assert.equal((await sends(mock))["sends"], 2, mode);
    assert.ok(performance.now() - began >= 1000, "as the provider said");
  }
});

test("where calls are only watched, an SDK's own retries are attempts of its calls: the report tells both", async (t) => {
  const ways = [["shadow", "shadow"], ["enforce", "shadow"], ["shadow", "enforce"]] as const;
  for (const [mode, ofService] of ways) {
    await using service = await Process.serve("127.0.0.1:0", "--mode", ofService);
    await using mock = await Process.start("mock-provider", "--first", "3", "--status", "503");
    const limiter = new Limiter({ addresses: [service.grpc], mode });
    t.after(() => limiter.close());
    const fetch = pacedFetch(limiter, "openai");
    const client = new OpenAI({ apiKey: "sk-secret", baseURL: `${mock.http}/v1`, fetch, maxRetries: 4 });
    // Alike to the last byte, and at the same time.
    await Promise.all([1, 2, 3].map(() => client.chat.completions.create(CHAT)));
    assert.equal((await sends(mock))["sends"], 6);
    await counted(service, ofService, { calls: 6, retries: 3, answers: 6 });
  }
});

test("anthropic: a connection that is lost in shadow is an attempt, and its retry the next one", async (t) => {
  await using service = await Process.serve();
  const limiter = new Limiter({ addresses: [service.grpc], mode: "shadow" });
  t.after(() => limiter.close());
  let sent = 0;
  const answer = { id: "x", type: "message", role: "assistant", model: "m", content: [], stop_reason: "end_turn", usage: { input_tokens: 1, output_tokens: 1 } };
  const send = async () => {
    if (++sent === 1) throw new TypeError("fetch failed");
    return Response.json(answer);
  };
  const client = new Anthropic({ apiKey: "sk-secret", baseURL: "http://127.0.0.1:9", fetch: pacedFetch(limiter, "anthropic", send) });
  await client.messages.create({ ...CHAT, model: "claude-opus-5" });
  assert.equal(sent, 2);
  await counted(service, "enforce", { calls: 2, retries: 1, answers: 1, unanswered: 1 });
});

test("openai: a lost connection that the service gives up is not sent again by the SDK either", async (t) => {
  await using service = await Process.serve();
  const limiter = new Limiter({ addresses: [service.grpc] });
  t.after(() => limiter.close());
  let sent = 0;
  const lose = async () => {
    sent++;
    throw new TypeError("fetch failed");
  };
  const paced = pacedFetch(limiter, () => ({ provider: "openai", model: "gpt-4o", repeat: "never" }), lose);
  const client = new OpenAI({ apiKey: "sk-secret", baseURL: "http://127.0.0.1:9/v1", fetch: paced });
  await assert.rejects(client.chat.completions.create(CHAT), OpenAI.APIConnectionError);
  assert.equal(sent, 1);
  // The next call is one of its own.
  await assert.rejects(client.chat.completions.create(CHAT), OpenAI.APIConnectionError);
  assert.equal(sent, 2);
});
