// The paced fetch with nobody to ask: what passes, what is looked into, what is handed on.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Limiter, pacedFetch } from "../src/index.js";
import { UsageReader, llmAsk } from "../src/llm.js";

test("a request that is not asked for passes untouched, whatever form it has", async () => {
  const limiter = new Limiter({ mode: "off" });
  const sent: [string, string | null][] = [];
  const send = async (input: string | URL | Request, init?: RequestInit) => {
    const request = new Request(input, init);
    sent.push([request.method, await request.text()]);
    return new Response("{}", { headers: { "content-type": "application/json" } });
  };
  const paced = pacedFetch(limiter, "openai", send);
  await paced("http://provider/v1/models");
  await paced(new Request("http://provider/v1/files", { method: "POST", body: "a file" }));
  const call = new Request("http://provider/v1/chat/completions", { method: "POST", body: '{"model": "m"}' });
  assert.equal(await (await paced(call)).text(), "{}");
  await paced("http://provider/v1/chat/completions", { method: "POST", body: '{"model": "n"}' });
  assert.deepEqual(sent, [["GET", ""], ["POST", "a file"], ["POST", '{"model": "m"}'], ["POST", '{"model": "n"}']]);
  limiter.close();
});

test("what a call costs is read out of its body", () => {
  const cost = (path: string, body: object, method = "POST") => llmAsk("openai", method, path, JSON.stringify(body))?.cost;
  const chat = { model: "m", messages: [{ role: "user", content: "x".repeat(400) }], max_tokens: 50 };
  assert.deepEqual(cost("/v1/chat/completions", chat), { input_tokens: 104, output_tokens: 50 });
  assert.deepEqual(cost("/v1/chat/completions", { ...chat, n: 3 }), { input_tokens: 104, output_tokens: 150 });
  assert.deepEqual(cost("/v1/embeddings", { model: "m", input: [1, 2, 3, 4] }), { input_tokens: 4, output_tokens: 0 });
  assert.deepEqual(cost("/v1/responses", { model: "m", input: "and?", previous_response_id: "r" }), {});
  const gemini = { contents: [{ parts: [{ text: "z".repeat(40) }] }], generationConfig: { maxOutputTokens: 7 } };
  assert.deepEqual(cost("/v1beta/models/gemini-2.5-pro:generateContent", gemini), { input_tokens: 10, output_tokens: 7 });
  for (const [method, path, body] of [["GET", "/v1/models", chat], ["POST", "/v1/messages/count_tokens", chat], ["POST", "/v1/files", {}]] as const) {
    assert.equal(cost(path, body, method), undefined, path);
  }
});

test("what a call used is read out of its answer", () => {
  const read = (isEvents: boolean, pieces: string[], isWhole = true) => {
    const reader = new UsageReader(isEvents);
    for (const piece of pieces) reader.read(new TextEncoder().encode(piece));
    return { ...reader.usage(isWhole), isOver: reader.isOver, error: reader.error };
  };
  const units = (usage: object, usageEstimated = false) => ({ usage, usageEstimated });
  const whole = { isOver: false, error: undefined };
  const messages = '{"usage":{"input_tokens":3,"cache_read_input_tokens":80,"cache_creation_input_tokens":6,"output_tokens":4}}';
  assert.deepEqual(read(false, [messages.slice(0, 20), messages.slice(20)]), {
    ...units({ input_tokens: 9, output_tokens: 4, cached_input_tokens: 80 }),
    ...whole,
  });
  const chat = ['data: {"choices":[{"delta":{"content":"a"}}]}\n\nda', 'ta: {"usage":{"prompt_tokens":9,"completion_tokens":2}}\n\ndata: [DONE]\n\n'];
  assert.deepEqual(read(true, chat), { ...units({ input_tokens: 9, output_tokens: 2 }), isOver: true, error: undefined });
  assert.deepEqual(read(true, chat.slice(0, 1), false), { ...units({ output_tokens: 1 }, true), ...whole });
  const error = '{"type":"error","error":{"type":"overloaded_error"}}';
  assert.equal(read(true, [`event: error\ndata: ${error}\n\n`]).error, error);
});
