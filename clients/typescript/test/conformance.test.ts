// Both ways to make a call, through every situation of `paceline conformance`.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { BINARY } from "./service.js";

const adapter = fileURLToPath(new URL("adapter.js", import.meta.url));
const manual = readFileSync(new URL("../../../../docs/conformance.md", import.meta.url), "utf8");

interface Found {
  pass: boolean;
  situations: { id: string; verdict: string; optional: boolean; findings: unknown[]; missing: unknown }[];
}

/** The names of all situations, as the manual has them in its tables of three columns. */
const named = [...manual.matchAll(/^\| `([a-z-]+)` \| [^|]+ \| [^|]+ \|$/gm)].map(([, name]) => name ?? "");

for (const how of ["fetch", "call"]) {
  test(`the conformance kit finds nothing wrong with ${how}`, async () => {
    const args = ["conformance", "--json", "--worker", process.execPath, adapter, how];
    const { PATH } = process.env;
    const [out, err] = await new Promise<[string, string]>((resolve) => {
      execFile(BINARY, args, { env: { PATH } }, (_, out, err) => resolve([out, err]));
    });
    assert.ok(out.startsWith("{"), `${BINARY} conformance told nothing: ${err}`);
    const { pass, situations } = JSON.parse(out) as Found;
    const known = new Set(situations.map(({ id }) => id));
    const unknown = named.filter((name) => !known.has(name));
    assert.ok(named.includes("plain") && named.includes("after"), "the manual's tables are written otherwise");
    assert.deepEqual(unknown, [], `${BINARY} does not know all that docs/conformance.md has: it is old, build it again`);
    assert.deepEqual(situations.filter(({ verdict, optional }) => verdict !== "ok" && !optional), []);
    assert.ok(pass);
  });
}
