// The real binary: a service and a mock provider on free ports, ended by their process.
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

/** `PACELINE_BIN`, else the debug build of the repository. */
export const BINARY = process.env["PACELINE_BIN"] ?? fileURLToPath(new URL("../../../../target/debug/paceline", import.meta.url));

export class Process implements AsyncDisposable {
  private constructor(
    private readonly child: ChildProcess,
    /** By name, as the first line tells them: `grpc`, `http`. */
    readonly addresses: ReadonlyMap<string, string>,
  ) {}

  static async start(...args: string[]): Promise<Process> {
    if (!existsSync(BINARY)) throw new Error(`${BINARY} is not there: cargo build -p paceline, or set PACELINE_BIN`);
    const child = spawn(BINARY, args, { stdio: ["ignore", "pipe", "inherit"], env: {} });
    for await (const line of createInterface({ input: child.stdout })) {
      const found = [...line.matchAll(/(grpc|http)=(\S+)/g)].map(([, name, address]) => [name ?? "", address ?? ""] as const);
      return new Process(child, new Map(found));
    }
    throw new Error(`${BINARY} ${args.join(" ")} ended without saying where it listens`);
  }

  static serve(grpc = "127.0.0.1:0", ...more: string[]): Promise<Process> {
    return Process.start("serve", "--grpc", grpc, "--http", "127.0.0.1:0", "--log-filter", "warn", ...more);
  }

  get grpc(): string {
    return this.addresses.get("grpc") ?? "";
  }

  get http(): string {
    return `http://${this.addresses.get("http") ?? ""}`;
  }

  async kill(): Promise<void> {
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    const gone = new Promise((resolve) => this.child.once("exit", resolve));
    this.child.kill("SIGKILL");
    await gone;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.kill();
  }
}

/** What a mock provider counted. */
export async function sends(mock: Process): Promise<Record<string, number>> {
  return (await (await fetch(`${mock.http}/mock/stats`)).json()) as Record<string, number>;
}

/** Looks until the service's metrics say this. */
export async function metric(service: Process, line: RegExp): Promise<void> {
  for (const until = performance.now() + 30_000; ; await new Promise((resolve) => setTimeout(resolve, 50))) {
    const metrics = await (await fetch(`${service.http}/metrics`)).text();
    if (line.test(metrics)) return;
    if (performance.now() > until) throw new Error(`no ${line} in ${metrics}`);
  }
}

/** Looks until `paceline report` counts this of the calls in a mode. */
export async function counted(service: Process, mode: string, expected: Record<string, number>): Promise<void> {
  for (const until = performance.now() + 30_000; ; await new Promise((resolve) => setTimeout(resolve, 100))) {
    const said = await new Promise<string>((resolve) => {
      execFile(BINARY, ["report", "--shadow", "--addr", service.grpc, "--json"], { env: {} }, (_, out) => resolve(out));
    });
    const { scopes } = JSON.parse(said) as { scopes: { modes: Record<string, Record<string, number>> }[] };
    const found = scopes[0]?.modes[mode] ?? {};
    if (Object.entries(expected).every(([name, count]) => found[name] === count)) return;
    if (performance.now() > until) throw new Error(`${JSON.stringify(expected)} was never counted: ${JSON.stringify(found)}`);
  }
}
