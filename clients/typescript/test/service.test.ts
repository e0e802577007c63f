// Against a real service and a real provider.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Denied, Limiter, Slot, responded } from "../src/index.js";
import { now } from "../src/time.js";
import { Process, metric, sends } from "./service.js";

const ASK = { provider: "openai", model: "gpt-4o", cost: { tokens: 20 } };

/** One attempt at the mock provider. */
function send(mock: Process) {
  return async (slot: Slot) => {
    const body = JSON.stringify({ model: slot.target.model, max_tokens: 9, messages: [{ role: "user", content: "Hello" }] });
    const response = await fetch(`${mock.http}/v1/chat/completions`, { method: "POST", body, signal: slot.signal });
    const text = await response.text();
    const usage = response.ok ? { tokens: (JSON.parse(text) as { usage: { total_tokens: number } }).usage.total_tokens } : {};
    return { value: response.status, report: responded(response, { usage, ...(!response.ok && { body: text }) }) };
  };
}

async function limiter(test: { after(fn: () => void): void }, ...services: Process[]): Promise<Limiter> {
  const limiter = new Limiter({ addresses: services.map((service) => service.grpc) });
  test.after(() => limiter.close());
  return limiter;
}

test("a refused call is sent again when the service says so", async (t) => {
  await using service = await Process.serve();
  await using mock = await Process.start("mock-provider", "--first", "2", "--status", "429", "--retry-after", "1");
  const worker = await limiter(t, service);
  const began = now();
  const called = await worker.call(ASK, send(mock));
  assert.deepEqual([called.value, called.attempts, called.end], [200, 3, "DONE"]);
  assert.ok(now() - began >= 2000, "twice told to wait for a second");
  assert.equal((await sends(mock))["sends"], 3);
  await metric(service, /paceline_units_total\{[^}]*kind="retry",meter="tokens"[^}]*\} 11\b/); // settled with what it used
});

test("forty at once stay below the provider's limit, and those who wait keep their places", async (t) => {
  await using service = await Process.serve();
  await using mock = await Process.start("mock-provider", "--limit", "requests=10/s,burst=10");
  const worker = await limiter(t, service);
  const called = await Promise.all(Array.from({ length: 40 }, () => worker.call(ASK, send(mock))));
  assert.ok(called.every(({ value }) => value === 200));
  const { rejected, sends: all } = await sends(mock);
  assert.ok((rejected ?? 40) <= 4, `${rejected} of ${all} were rejected`);
});

test("a denial is an error with its reason", async (t) => {
  await using service = await Process.serve();
  const worker = await limiter(t, service);
  await assert.rejects(worker.acquire({ ...ASK, provider: "opnai" }), /NOT_FOUND.*openai/);
  const config = new URL("../../test/one-a-minute.yaml", import.meta.url).pathname;
  await using strict = await Process.serve("127.0.0.1:0", "--config", config);
  const other = await limiter(t, strict);
  const first = await other.acquire(ASK);
  const denied = await other.acquire({ ...ASK, maxWaitMs: 10 }).then(() => undefined, (error: unknown) => error);
  assert.ok(denied instanceof Denied && denied.reason === "DEADLINE" && (denied.retryAfterMs ?? 0) > 0, String(denied));
  // What is given back is there for the next.
  first.close();
  (await other.acquire({ ...ASK, maxWaitMs: 600_000, signal: AbortSignal.timeout(10_000) })).close();
});

test("a wait that is cut short gives its place back", async (t) => {
  const config = new URL("../../test/one-a-minute.yaml", import.meta.url).pathname;
  await using service = await Process.serve("127.0.0.1:0", "--config", config);
  const worker = await limiter(t, service);
  const first = await worker.acquire(ASK);
  await assert.rejects(worker.acquire({ ...ASK, signal: AbortSignal.timeout(1500) }), { name: "TimeoutError" });
  // Given back in the background, so the next ask may be faster; nobody stands before it in line.
  first.close();
  (await worker.acquire({ ...ASK, maxWaitMs: 600_000, signal: AbortSignal.timeout(10_000) })).close();
});

test("a deadline ends an attempt and is handed down", async (t) => {
  await using service = await Process.serve();
  await using mock = await Process.start("mock-provider", "--latency", "30s");
  const worker = await limiter(t, service);
  const began = now();
  await assert.rejects(worker.call({ ...ASK, deadlineMs: 700 }, send(mock)), { name: "TimeoutError" });
  assert.ok(now() - began < 10_000);
});

test("a long call keeps its lease, and a stream is reported twice", async (t) => {
  await using service = await Process.serve();
  const worker = await limiter(t, service);
  const slot = await worker.acquire({ ...ASK, runTimeMs: 1000 });
  slot.sent();
  const first = await slot.report(responded({ status: 200, headers: [["x-ratelimit-remaining-tokens", "9"]] }, { moreFollows: true }));
  assert.deepEqual([first.verdict, first.applied], ["UNSPECIFIED", true]);
  await new Promise((resolve) => setTimeout(resolve, 3000)); // three times the lease
  const last = await slot.report(responded({ status: 200 }, { usage: { tokens: 12 } }));
  assert.deepEqual([last.verdict, last.applied], ["DONE", true]);
  // Who leaves after sending says so.
  const left = await worker.acquire(ASK);
  left.sent();
  left.close();
  await metric(service, /paceline_reports_total\{outcome="abandoned",[^}]*\} 1\b/);
});

test("the next replica answers when one is gone, and what it lost is asked for again", async (t) => {
  await using one = await Process.serve();
  await using two = await Process.serve();
  await using mock = await Process.start("mock-provider");
  const worker = await limiter(t, one, two);
  assert.equal((await worker.call(ASK, send(mock))).end, "DONE");
  await one.kill();
  for (let nth = 0; nth < 3; nth++) {
    const began = now();
    assert.equal((await worker.call(ASK, send(mock))).end, "DONE");
    assert.ok(now() - began < 2000);
  }
});

test("with nobody there calls go on after two seconds, then at once, and with the service as soon as it is back", async (t) => {
  const service = await Process.serve();
  await using mock = await Process.start("mock-provider", "--first", "1", "--status", "429", "--retry-after", "1");
  const worker = await limiter(t, service);
  const { grpc } = service;
  await service.kill();
  const began = now();
  const called = await worker.call(ASK, send(mock));
  assert.deepEqual([called.value, called.attempts, called.end], [200, 2, "DONE"], "sent again as an SDK would");
  assert.ok(now() - began >= 3000, "two seconds for the service, one for the provider");
  const again = now();
  const slot = await worker.acquire(ASK);
  assert.ok(!slot.isServed && now() - again < 500);
  slot.close();
  await using _back = await Process.serve(grpc);
  for (let served = false; !served; ) {
    assert.ok(now() - again < 30_000, "it is back");
    const slot = await worker.acquire(ASK);
    served = slot.isServed;
    slot.close();
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
});

test("a worker that watches goes at once, and is told of all the same", async (t) => {
  await using service = await Process.serve("127.0.0.1:0", "--mode", "shadow");
  await using mock = await Process.start("mock-provider", "--first", "1", "--status", "429", "--retry-after", "1");
  const worker = new Limiter({ addresses: [service.grpc], mode: "shadow" });
  t.after(() => worker.close());
  const called = await worker.call(ASK, send(mock));
  assert.deepEqual([called.value, called.attempts, called.end], [200, 2, "DONE"]);
  await metric(service, /paceline_shadow_asks_total\{[^}]*\} 2\b/);
  await metric(service, /paceline_units_total\{[^}]*kind="retry",meter="tokens"[^}]*\} 11\b/);
  (await worker.acquire(ASK)).close(); // given back
  await service.kill();
  for (let nth = 0; nth < 3; nth++) {
    const began = now();
    const called = await worker.call(ASK, async () => ({ value: now() - began, report: responded({ status: 200 }) }));
    assert.ok(called.value < 500, "nobody notices that it is gone");
  }
});

test("a worker that watches leaves the line of a service that enforces", async (t) => {
  const config = new URL("../../test/one-a-minute.yaml", import.meta.url).pathname;
  await using service = await Process.serve("127.0.0.1:0", "--config", config);
  const enforced = await limiter(t, service);
  const first = await enforced.acquire(ASK);
  const watching = new Limiter({ addresses: [service.grpc], mode: "shadow" });
  t.after(() => watching.close());
  const slot = await watching.acquire({ ...ASK, maxWaitMs: 600_000 });
  assert.ok(!slot.isServed);
  slot.sent();
  await metric(service, /paceline_queue_depth\{[^}]*priority="normal"[^}]*\} 1\b/);
  await slot.report(responded({ status: 200 }));
  await metric(service, /paceline_queue_depth\{[^}]*priority="normal"[^}]*\} 0\b/);
  first.close();
});

test("switched off nobody is asked", async () => {
  const worker = new Limiter({ addresses: ["127.0.0.1:9"], mode: "off" });
  const called = await worker.call(ASK, async (slot) => ({ value: slot.isServed, report: responded({ status: 200 }) }));
  assert.deepEqual([called.value, called.end], [false, "DONE"]);
  worker.close();
});
