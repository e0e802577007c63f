// Does the jobs of `paceline conformance`: `node dist/test/adapter.js fetch` through the paced fetch, `... call` through Limiter.call.
import { type Slot, Denied, Limiter, abandoned, failed, pacedFetch, responded } from "../src/index.js";

interface Job {
  id: string;
  provider: string;
  account: string;
  model: string;
  tokens: number;
  deadline_ms: number;
  cancel_after_ms: number | null;
  url: string;
  headers: Record<string, string>;
  body: string;
  stream: boolean;
}

interface Ended {
  outcome: "answered" | "denied" | "failed" | "cancelled";
  status?: number;
}

const kit = process.env["KIT_URL"] ?? "";
const limiter = new Limiter();

function askOf(job: Job) {
  const { provider, account, model, tokens, deadline_ms: deadlineMs } = job;
  return { provider, account, model, cost: { tokens }, deadlineMs };
}

async function byFetch(job: Job, signal?: AbortSignal): Promise<Ended> {
  const paced = pacedFetch(limiter, () => askOf(job));
  const response = await paced(job.url, { method: "POST", headers: job.headers, body: job.body, ...(signal && { signal }) });
  const text = await response.text();
  return text.includes('"code":"paceline_') ? { outcome: "denied" } : { outcome: "answered", status: response.status };
}

async function byCall(job: Job, signal?: AbortSignal): Promise<Ended> {
  const called = await limiter.call({ ...askOf(job), ...(signal && { signal }) }, async (slot) => {
    const response = await fetch(job.url, { method: "POST", headers: job.headers, body: job.body, signal: slot.signal });
    return job.stream ? stream(slot, response) : whole(response);
  });
  return called.value === undefined ? { outcome: "failed" } : { outcome: "answered", status: called.value };
}

async function whole(response: Response) {
  const start = responded(response);
  const body = await response.text();
  const report = response.ok ? { ...start, usage: used(body) } : { ...start, body };
  return { value: response.status, report };
}

/** Its head is told while it runs, its end after that. */
async function stream(slot: Slot, response: Response) {
  const told = slot.report(responded(response, { moreFollows: true }));
  const rest = await response.text().catch(() => undefined);
  await told;
  if (rest === undefined) return { value: undefined, report: abandoned({ usage: { tokens: 8 }, usageEstimated: true }) };
  return { value: response.status, report: responded({ status: response.status }, { usage: used(rest) }) };
}

function used(text: string): Record<string, number> {
  const total = [...text.matchAll(/"total_tokens"\s*:\s*(\d+)/g)].at(-1)?.[1];
  return total ? { tokens: Number(total) } : {};
}

const send = process.argv[2] === "call" ? byCall : byFetch;
for (;;) {
  const answer = await fetch(`${kit}/job`);
  if (answer.status === 204) break;
  const job = (await answer.json()) as Job;
  const leaves = job.cancel_after_ms === null ? undefined : AbortSignal.timeout(job.cancel_after_ms);
  const ended = await send(job, leaves).catch((error: unknown): Ended => {
    if (leaves?.aborted) return { outcome: "cancelled" };
    if (!(error instanceof Denied)) console.error(job.id, failed(error).outcome, String(error));
    return { outcome: error instanceof Denied ? "denied" : "failed" };
  });
  await fetch(`${kit}/done/${job.id}`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(ended) });
}
limiter.close();
