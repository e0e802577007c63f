// Both ways to make a call, through every situation of `paceline conformance`.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { BINARY } from "./service.js";

const adapter = fileURLToPath(new URL("adapter.js", import.meta.url));

for (const how of ["fetch", "call"]) {
  test(`the conformance kit finds nothing wrong with ${how}`, async () => {
    const args = ["conformance", "--worker", process.execPath, adapter, how];
    const { PATH } = process.env;
    const said = await new Promise<string>((resolve) => {
      execFile(BINARY, args, { env: { PATH } }, (error, out, err) => resolve(error ? `${out}${err}` : ""));
    });
    assert.equal(said, "");
  });
}
