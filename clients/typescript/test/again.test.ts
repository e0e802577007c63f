// Which request sends again one that failed.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Failures, type Sending, retriesOf } from "../src/again.js";

const first: Sending = { method: "POST", url: "http://provider/v1/x", body: "one", retries: 0, source: undefined };

test("a request is known again by its number, address and body, once", () => {
  const cases: [Sending, Partial<Sending>, boolean][] = [
    [first, { retries: 1 }, true],
    [first, { retries: 2 }, false],
    [first, { retries: 0 }, false],
    [first, { retries: undefined }, false],
    [first, { retries: 1, body: "two" }, false],
    [first, { retries: 1, url: "http://other/v1/x" }, false],
    [first, { retries: 1, method: "PUT" }, false],
    [{ ...first, body: undefined }, { retries: 1 }, true],
  ];
  for (const [failed, change, isKnown] of cases) {
    const failures = new Failures<string>();
    failures.remember(failed, "call");
    const again = { ...failed, ...change };
    assert.equal(failures.take(again), isKnown ? "call" : undefined, JSON.stringify(change));
    assert.equal(failures.take(again), undefined, "once");
    assert.equal(failures.size, isKnown ? 0 : 1);
  }
});

test("without a number it is known by the object that the caller gave, as long as that says the same", () => {
  const failures = new Failures<string>();
  const sending = { ...first, retries: undefined, source: {} };
  failures.remember(sending, "call");
  assert.equal(failures.take({ ...sending, source: {} }), undefined);
  assert.equal(failures.take(sending), "call");
  assert.equal(failures.take(sending), undefined, "once");
  failures.remember(sending, "call");
  assert.equal(failures.take({ ...sending, body: "two" }), undefined);
});

test("calls that are alike are taken one by one; after two minutes none is left", (t) => {
  const failures = new Failures<number>();
  for (let nth = 0; nth < 1000; nth++) failures.remember(first, nth);
  const again = { ...first, retries: 1 };
  assert.deepEqual([failures.take(again), failures.take(again), failures.size], [0, 1, 998]);
  const real = performance.now.bind(performance);
  t.mock.method(performance, "now", () => real() + 121_000);
  assert.equal(failures.take(again), undefined);
  failures.remember({ ...first, body: "two" }, 0);
  assert.equal(failures.size, 1);
});

test("a number of retries is a small whole number", () => {
  const read = (count: string) => retriesOf(new Headers({ "x-stainless-retry-count": count }));
  assert.deepEqual([read("0"), read("12"), read("-1"), read("x"), read("12345"), retriesOf(new Headers())], [0, 12, undefined, undefined, undefined, undefined]);
});
