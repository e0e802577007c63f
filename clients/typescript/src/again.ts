// Who sends again by itself, as SDKs do: known again, so that it is another attempt of the same call.
import { createHash } from "node:crypto";
import { now } from "./time.js";

/** A request as far as it tells which one it is. */
export interface Sending {
  method: string;
  url: string;
  /** Where it can be read. */
  body: string | undefined;
  /** Which retry of its SDK it is, where that says so. */
  retries: number | undefined;
  /** What the caller gave: the same object again is the same call. */
  source: object | undefined;
}

interface Failed<T> {
  at: number;
  key: string;
  what: T;
}

// SDKs wait a minute or two at most. Later the same request is rather a new call.
const SOON_MS = 120_000;

/** SDKs made by Stainless (openai, anthropic) say which of their own retries a request is. */
export function retriesOf(headers: Headers): number | undefined {
  const count = headers.get("x-stainless-retry-count") ?? "";
  return /^\d{1,3}$/.test(count) ? Number(count) : undefined;
}

/** Whether SDKs send again what was answered so. */
export function isTriedAgain(status: number): boolean {
  return status >= 500 || [408, 409, 425, 429].includes(status);
}

/**
 * Calls that failed a moment ago, by their request; of each what becomes of it when it comes again. Calls that are alike in all of it are
 * interchangeable.
 */
export class Failures<T> {
  private readonly counted = new Map<string, Failed<T>[]>();
  private readonly bySource = new WeakMap<object, Failed<T>>();
  private sweptAt = now();

  /** Remembers one, for two minutes. */
  remember(sending: Sending, what: T): void {
    this.sweep();
    const key = keyOf(sending, (sending.retries ?? -1) + 1);
    const failed = { at: now(), key, what };
    if (sending.retries === undefined) {
      if (sending.source) this.bySource.set(sending.source, failed);
      return;
    }
    const alike = this.counted.get(key);
    if (alike) alike.push(failed);
    else this.counted.set(key, [failed]);
  }

  /** What this request sends again; from here on it is not remembered. */
  take(sending: Sending): T | undefined {
    const { retries, source } = sending;
    let found: Failed<T> | undefined;
    if (retries !== undefined && retries > 0) {
      const key = keyOf(sending, retries);
      const alike = this.counted.get(key);
      found = alike?.shift();
      if (alike?.length === 0) this.counted.delete(key);
    } else if (retries === undefined && source) {
      const last = this.bySource.get(source);
      this.bySource.delete(source);
      found = last?.key === keyOf(sending, 0) ? last : undefined;
    }
    return found && now() - found.at < SOON_MS ? found.what : undefined;
  }

  /** How many are remembered by their number. */
  get size(): number {
    return [...this.counted.values()].reduce((sum, alike) => sum + alike.length, 0);
  }

  /** Those that nobody sent again. */
  private sweep(): void {
    const ends = now() - SOON_MS;
    if (this.sweptAt > ends) return;
    this.sweptAt = now();
    for (const [key, alike] of this.counted) {
      const left = alike.filter(({ at }) => at > ends);
      if (left.length > 0) this.counted.set(key, left);
      else this.counted.delete(key);
    }
  }
}

/** By the number that the next attempt will have. A form has another boundary in each attempt, and is not read. */
function keyOf({ method, url, body }: Sending, retries: number): string {
  const digest = body === undefined ? "" : createHash("sha256").update(body).digest("base64");
  return `${retries} ${method} ${url} ${digest}`;
}
