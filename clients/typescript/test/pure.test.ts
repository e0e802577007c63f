import assert from "node:assert/strict";
import { test } from "node:test";
import * as grpc from "@grpc/grpc-js";
import { retryAfterMs, waitMs } from "../src/alone.js";
import { weight } from "../src/replicas.js";
import { failed, responded, toRequest } from "../src/report.js";
import { now, sleepUntil } from "../src/time.js";
import { fromMs, retryDelayMs, toMs } from "../src/wire.js";

test("replicas are weighed as every other client weighs them", () => {
  assert.equal(weight({ provider: "openai", account: "prod" }, "10.0.0.1:7070"), 0x13028db1955ea6b4n);
});

test("a retry-after is read in all its forms", () => {
  const date = (ms: number) => new Date(ms).toUTCString();
  const wall = Date.UTC(2026, 0, 1);
  for (const [headers, expected] of [
    [[["Retry-After", "2"]], 2000],
    [[["retry-after-ms", "1500"], ["retry-after", "2"]], 1500],
    [[["Retry-After", date(wall + 12_000)]], 12_000],
    [[["Retry-After", date(wall + 12_000)], ["Date", date(wall + 7000)]], 5000],
    [[["retry-after", date(wall - 1000)]], undefined],
    [[["retry-after", "soon"]], undefined],
    [[["retry-after", "-3"]], undefined],
    [[], undefined],
  ] as [[string, string][], number | undefined][]) {
    assert.equal(retryAfterMs(headers, wall), expected, JSON.stringify(headers));
  }
});

test("alone, a call is sent three times at most, and never before the provider says so", () => {
  const refused = responded({ status: 429, headers: [["retry-after", "2"]] });
  assert.equal(waitMs(refused, 1, 0), 2000);
  assert.equal(waitMs(refused, 2, 1), 2500);
  assert.equal(waitMs(refused, 3, 0), undefined);
  assert.equal(waitMs(responded({ status: 429, headers: [["retry-after", "3600"]] }), 1), undefined);
  assert.equal(waitMs(responded({ status: 500 }), 1), undefined, "it may have run");
});

test("an error of fetch says whether the call was sent", () => {
  const refused = new TypeError("fetch failed", { cause: Object.assign(new Error(), { code: "ECONNREFUSED" }) });
  assert.equal(failed(refused).outcome, "connection_failed");
  assert.equal(failed(new DOMException("late", "TimeoutError")).outcome, "timeout");
});

test("a report ages, and tells no secret", async () => {
  const report = responded({ status: 200, headers: [["Set-Cookie", "secret"], ["x-a", "1"], ["x-a", "2"]] });
  await sleepUntil(now() + 20);
  const request = toRequest(report, "lease", 1, now(), true);
  assert.deepEqual(request.headers, [{ name: "x-a", value: "1" }, { name: "x-a", value: "2" }]);
  const refused = responded({ status: 401 }, { body: "Incorrect API key provided: sk-abcd***wxyz. A task-list is fine." });
  const told = new TextDecoder().decode(toRequest(refused, "lease", 1, now(), false).body);
  assert.equal(told, "Incorrect API key provided: [hidden]. A task-list is fine.");
  assert.ok(toMs(request.age) >= 20 && request.retry?.wanted && request.final);
});

test("lengths of time survive the way there and back", () => {
  for (const ms of [0, 1, 999.5, 1500, 86_400_000]) assert.ok(Math.abs(toMs(fromMs(ms)) - ms) < 0.001, `${ms}`);
  assert.equal(toMs({ seconds: -1, nanos: 0 }), 0);
});

test("how long to stay away is read out of an error's details", () => {
  // google.rpc.Status{code: 8, details: [Any{RetryInfo{retry_delay: 1.5 s}}]}
  const delay = Buffer.from([0x08, 1, 0x10, 0x80, 0xca, 0xb5, 0xee, 0x01]);
  const info = Buffer.concat([Buffer.from([0x0a, delay.length]), delay]);
  const url = Buffer.from("type.googleapis.com/google.rpc.RetryInfo");
  const any = Buffer.concat([Buffer.from([0x0a, url.length]), url, Buffer.from([0x12, info.length]), info]);
  const status = Buffer.concat([Buffer.from([0x08, 8, 0x1a, any.length]), any]);
  const metadata = new grpc.Metadata();
  metadata.set("grpc-status-details-bin", status);
  assert.equal(retryDelayMs(metadata), 1500);
  assert.equal(retryDelayMs(new grpc.Metadata()), undefined);
});

test("a sleep is never too short, and ends with its signal", async () => {
  for (let nth = 0; nth < 20; nth++) {
    const until = now() + 3;
    await sleepUntil(until);
    assert.ok(now() >= until);
  }
  await assert.rejects(sleepUntil(now() + 60_000, AbortSignal.timeout(10)), { name: "TimeoutError" });
});
