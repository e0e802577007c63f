// What a worker does when nobody makes it wait: the service is off, only watches, or does not answer. Then calls go at once, and
// between attempts the worker waits as SDKs do.
import type { Report } from "./report.js";

/** How often a call is sent at most. */
const ATTEMPTS = 3;
/** The longest wait named by the provider that is waited for. */
const LONGEST_MS = 60_000;

/** Whether the call did not run and is worth another attempt. */
export function isRefused(report: Report): boolean {
  const status = report.outcome === "response" ? (report.status ?? 0) : 0;
  return report.outcome === "connection_failed" || status === 429 || status === 503 || status === 529;
}

/** How long to wait before the next attempt, by what the provider said; `undefined`: there is none. */
export function waitMs(report: Report, attempt: number, random = Math.random(), wall = Date.now()): number | undefined {
  if (!isRefused(report) || attempt >= ATTEMPTS) return undefined;
  const said = retryAfterMs(report.headers ?? [], wall);
  if (said === undefined) return Math.min(500 * 2 ** (attempt - 1), 8000) * random;
  return said > LONGEST_MS ? undefined : said + Math.min(said / 4, 1000) * random;
}

/** `retry-after-ms`, else `retry-after` in seconds or as a date, which counts from the provider's own `date`. */
export function retryAfterMs(headers: Iterable<readonly [string, string]>, wall = Date.now()): number | undefined {
  const all = new Map([...headers].reverse().map(([name, value]) => [name.toLowerCase(), value.trim()]));
  const positive = (number: number) => (Number.isFinite(number) && number > 0 ? number : undefined);
  const number = (name: string) => (all.get(name) ? positive(Number(all.get(name))) : undefined);
  const date = (name: string) => (/[a-z]/i.test(all.get(name) ?? "") ? positive(Date.parse(all.get(name) ?? "")) : undefined);
  const seconds = number("retry-after");
  const until = date("retry-after");
  return number("retry-after-ms") ?? (seconds && seconds * 1000) ?? (until && positive(until - (date("date") ?? wall)));
}
