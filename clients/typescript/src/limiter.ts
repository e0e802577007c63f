// The limiter: one per process, shared by all its calls.
import { randomUUID } from "node:crypto";
import { PATIENCE_MS, Replicas, Unreachable } from "./replicas.js";
import { type Report, abandoned, failed } from "./report.js";
import { type Beside, Slot } from "./slot.js";
import { longestSince, moment, now, sleepUntil } from "./time.js";
import { type AcquireRequest, type AcquireResponse, type Target, bare, fromMs, toMs } from "./wire.js";

/** How long the service holds an ask that has a place in line, and one that has none. */
const HOLD_MS = 10_000;
const FIRST_HOLD_MS = 1000;

/** One logical call: where it goes and what it will cost there. */
export interface Ask {
  /** A name of the catalogue or of the service's configuration. */
  provider: string;
  model?: string;
  /** Whose quota is used: an alias, never the key itself. */
  account?: string;
  /** Meter -> units: `tokens`, or `input_tokens` and `output_tokens`, ... (`requests` is 1 by itself). */
  cost?: Record<string, number>;
  /** The cost is a guess: one that is too large is clamped instead of refused. */
  costEstimated?: boolean;
  /** The longest time spent waiting for slots, over all attempts. */
  maxWaitMs?: number;
  /** From now until the caller stops caring, time at the provider included. */
  deadlineMs?: number;
  /** How long the call may run, where that is much longer than usual: a slot is renewed while it is open. */
  runTimeMs?: number;
  priority?: "interactive" | "normal" | "batch";
  tenant?: string;
  labels?: Record<string, string>;
  /** The `requestId` of the call that this one is made for. */
  parent?: string;
  /** Whether sending it twice does harm. */
  repeat?: "safe" | "keyed" | "never";
  /** One of your own, unique in the tenant; a random UUID otherwise. */
  requestId?: string;
  /** Ends the wait: the place is given back. */
  signal?: AbortSignal;
}

/** The service decided that the call is not to be sent. */
export class Denied extends Error {
  override readonly name = "PacelineDenied";
  constructor(
    /** Why: `DEADLINE`, `QUEUE_FULL`, ... */
    readonly reason: string,
    /** A sentence for a person. */
    readonly detail: string,
    /** From now until the same ask could work; `undefined`: never. */
    readonly retryAfterMs: number | undefined,
  ) {
    super(`denied (${reason}): ${detail}`);
  }
}

export interface Options {
  /** `host:port` of each replica; `PACELINE_ADDR` (with commas), else 127.0.0.1:7070. */
  addresses?: readonly string[];
  /** Of asks that name none; `PACELINE_ACCOUNT` and `PACELINE_TENANT`. */
  account?: string;
  tenant?: string;
  /** `PACELINE_MODE`. `shadow`: every call goes at once and the ask goes beside it; `off`: nobody is asked. */
  mode?: Mode;
}

export type Mode = "enforce" | "shadow" | "off";

/** What came of a call that was sent at least once. */
export interface Called<T> {
  /** What the last attempt brought; when the call was given up, the provider's last word. */
  value: T;
  attempts: number;
  /** `DONE`, or why it was not sent again: a verdict (`GIVE_UP`), `DENIED`, `UNREPORTED`. */
  end: string;
  /** A sentence for a person. */
  detail: string;
}

/** One attempt of a call that has been begun. */
export interface Begun {
  request: AcquireRequest;
  /** On the monotonic clock. */
  deadline: number | undefined;
  signal: AbortSignal | undefined;
  /** The call does not wait for it: it is on its way already, and `signal` fires when it is over. */
  isBeside?: boolean;
  /** What was asked beside the attempt before: its lease is to be named. */
  after?: Beside | undefined;
}

export class Limiter {
  /** @internal */ readonly replicas: Replicas;
  private readonly account: string;
  private readonly tenant: string;
  private readonly mode: Mode;
  private saidAt = -Infinity;

  constructor(options: Options = {}) {
    const { PACELINE_ADDR, PACELINE_ACCOUNT, PACELINE_TENANT, PACELINE_MODE } = process.env;
    const named = (PACELINE_ADDR ?? "").split(",").map((address) => address.trim());
    const addresses = options.addresses ?? named.filter((address) => address !== "");
    this.replicas = new Replicas(addresses.length > 0 ? addresses : ["127.0.0.1:7070"]);
    this.account = options.account ?? PACELINE_ACCOUNT ?? "";
    this.tenant = options.tenant ?? PACELINE_TENANT ?? "";
    const mode = options.mode ?? (PACELINE_MODE || "enforce");
    if (mode !== "enforce" && mode !== "shadow" && mode !== "off") {
      throw new Error(`PACELINE_MODE: \`${mode}\` is no mode; write \`enforce\`, \`shadow\` or \`off\``);
    }
    this.mode = mode;
  }

  /** Waits for a slot and returns when the call may be sent: never before. */
  async acquire(ask: Ask): Promise<Slot> {
    return this.slot(this.begin(ask));
  }

  /** @internal The same for a call that is sent again by whoever sends it, as its `retries`th retry, and of whose first attempt nothing is known. */
  async acquireRetry(ask: Ask, retries: number): Promise<Slot> {
    const begun = this.begin(ask);
    if (this.mode === "shadow") begun.request.attempt += retries;
    return this.slot(begun);
  }

  /**
   * Sends a call as often as the service says. `send` makes one attempt, with the SDK's own retries turned off, and says how it went;
   * what it throws is reported as no answer. `slot.signal` ends an attempt when the deadline passes.
   */
  async call<T>(ask: Ask, send: (slot: Slot) => Promise<{ value: T; report: Report }>): Promise<Called<T>> {
    let slot = await this.acquire(ask);
    for (;;) {
      slot.sent();
      const attempts = slot.attempt;
      const came = await send(slot).then(
        ({ value, report }) => ({ report, end: () => value }),
        (error: unknown) => ({ report: ask.signal?.aborted ? abandoned() : failed(error), end: (): T => { throw error; } }),
      );
      try {
        const next = await slot.reportAndRetry(came.report);
        if (!next.slot) return { value: came.end(), attempts, end: next.verdict, detail: next.detail };
        slot = next.slot;
      } catch (error) {
        const value = came.end();
        if (error instanceof Denied) return { value, attempts, end: "DENIED", detail: error.message };
        return { value, attempts, end: "UNREPORTED", detail: String(error) };
      }
    }
  }

  /** Closes its connections. */
  close(): void {
    this.replicas.close();
  }

  private begin(ask: Ask): Begun {
    const request: AcquireRequest = {
      requestId: ask.requestId ?? randomUUID(),
      attempt: 1,
      target: { provider: ask.provider, account: ask.account ?? this.account, model: ask.model ?? "" },
      cost: ask.cost ?? {},
      costEstimated: ask.costEstimated ?? false,
      ...(ask.maxWaitMs !== undefined && { maxWait: fromMs(ask.maxWaitMs) }),
      ...(ask.runTimeMs !== undefined && { runTime: fromMs(ask.runTimeMs) }),
      priority: `PRIORITY_${(ask.priority ?? "unspecified").toUpperCase()}`,
      tenant: ask.tenant ?? this.tenant,
      labels: ask.labels ?? {},
      parent: ask.parent ?? "",
      ticket: new Uint8Array(),
      previousLeaseId: "",
      repeat: `REPEAT_${(ask.repeat ?? "unspecified").toUpperCase()}`,
    };
    return { request, deadline: ask.deadlineMs === undefined ? undefined : now() + ask.deadlineMs, signal: ask.signal };
  }

  /** @internal A slot for the next attempt. `answer` came with a report. */
  async slot(begun: Begun, answer?: AcquireResponse): Promise<Slot> {
    if (this.mode === "off") return this.alone(begun);
    if (this.mode === "shadow") return this.watched(begun);
    try {
      return (await this.served(begun, answer)) ?? this.alone(begun);
    } catch (error) {
      if (!(error instanceof Unreachable)) throw error;
      this.say(error);
      return this.alone(begun);
    }
  }

  /** Asks, keeps its place, sleeps until the call may be sent. `undefined`: nobody answered last time. */
  private async served(begun: Begun, answer?: AcquireResponse): Promise<Slot | undefined> {
    const target = begun.request.target;
    let held: { ticket: Uint8Array } | { leaseId: string } | undefined;
    try {
      for (;;) {
        let received = moment();
        if (!answer) {
          if (this.replicas.isAway) return undefined;
          const hasPlace = begun.request.ticket.length > 0;
          const heldMs = hasPlace ? HOLD_MS : FIRST_HOLD_MS;
          // What became of a call is told although it is over; only a place in line is left then.
          const signal = begun.isBeside && !hasPlace ? undefined : begun.signal;
          const make = () => ({ ...begun.request, ...(begun.deadline !== undefined && { deadline: fromMs(begun.deadline - now()) }) });
          answer = await this.replicas.send<AcquireResponse>(target, "acquire", heldMs, make, signal);
          received = moment();
        }
        const { grant, queued, denial, mode } = answer;
        answer = undefined;
        if (grant) {
          if (begun.isBeside) return new Slot(this, begun, grant, mode, received);
          held = { leaseId: grant.leaseId };
          const waitMs = toMs(grant.wait);
          await sleepUntil(received.steady + waitMs, begun.signal);
          // Woke too late: what was granted for then is not for now.
          if (longestSince(received) > waitMs + toMs(grant.useWithin)) continue;
          held = undefined;
          return new Slot(this, begun, grant, mode, received);
        }
        if (queued) {
          held = { ticket: queued.ticket };
          begun = { ...begun, request: { ...begun.request, ticket: queued.ticket } };
          await sleepUntil(received.steady + toMs(queued.comeBackIn), begun.signal);
          continue;
        }
        held = undefined;
        const reason = bare(denial?.reason ?? "REASON_UNSPECIFIED");
        throw new Denied(reason, denial?.detail ?? "", denial?.retryAfter ? toMs(denial.retryAfter) : undefined);
      }
    } finally {
      if (held) this.giveBack(target, held);
    }
  }

  /** @internal Gives a place or a lease back, in the background: nobody waits for it. */
  giveBack(target: Target, what: { ticket: Uint8Array } | { leaseId: string }): void {
    this.replicas.send(target, "release", 0, () => what).catch(() => undefined); // it ends by itself
  }

  /** A slot that no service gave. */
  private alone(begun: Begun): Slot {
    return new Slot(this, begun, undefined, "MODE_OFF", moment());
  }

  /** A slot for a call that goes at once, with the ask beside it. Whatever becomes of the ask, the call knows nothing of it. */
  private watched(begun: Begun): Slot {
    const over = new AbortController();
    const slot = this.beside(begun, over.signal).catch(() => undefined);
    const beside: Beside = { slot, over };
    void slot.then((slot) => (beside.leaseId = slot?.leaseId ?? ""));
    return new Slot(this, begun, undefined, "MODE_SHADOW", moment(), beside);
  }

  /** Asks beside a call, once the attempt before was asked for and reported. */
  private async beside({ after, ...begun }: Begun, signal: AbortSignal): Promise<Slot | undefined> {
    await after?.slot.catch(() => undefined);
    const request = after ? { ...begun.request, previousLeaseId: after.leaseId ?? "" } : begun.request;
    return this.served({ ...begun, request, isBeside: true, signal });
  }

  /** Says once a minute that calls go on without the service. */
  private say(error: Unreachable): void {
    if (now() - this.saidAt < 60_000) return;
    this.saidAt = now();
    process.emitWarning(`${error.message} within ${PATIENCE_MS / 1000} s; calls go on unpaced. Is \`paceline serve\` running there?`, "PacelineWarning");
  }
}
