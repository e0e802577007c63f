// Waiting, by the monotonic clock: never too short, and noticed when it was too long.

/** Milliseconds on the monotonic clock. */
export function now(): number {
  return performance.now();
}

/** The longest time a timer takes. */
const LONGEST = 2 ** 31 - 1;

/** Sleeps until the clock has reached `until`, whatever a timer thinks of it; rejects with the signal's reason when it fires before. */
export async function sleepUntil(until: number, signal?: AbortSignal): Promise<void> {
  for (let left = until - now(); left > 0; left = until - now()) {
    signal?.throwIfAborted();
    await new Promise<void>((resolve) => {
      const done = () => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", done);
        resolve();
      };
      const timer = setTimeout(done, Math.min(Math.ceil(left), LONGEST));
      signal?.addEventListener("abort", done, { once: true });
    });
  }
  signal?.throwIfAborted();
}

/** A moment on both clocks: the monotonic one may stand still while a machine sleeps, the wall clock does not. */
export interface Moment {
  readonly steady: number;
  readonly wall: number;
}

export function moment(): Moment {
  return { steady: now(), wall: Date.now() };
}

/** The time since, by the clock that says more: only to tell that something is too late. */
export function longestSince(then: Moment): number {
  return Math.max(now() - then.steady, Date.now() - then.wall);
}
