// A slot: the right to send one call now, and the duty to report what came of it.
import { isRefused, waitMs } from "./alone.js";
import type { Begun, Limiter } from "./limiter.js";
import { type Report, abandoned, toRequest } from "./report.js";
import { Unreachable } from "./replicas.js";
import { type Moment, longestSince, now, sleepUntil } from "./time.js";
import { type Grant, type ReportResponse, type Target, bare, toMs } from "./wire.js";

/** What the service made of a report. */
export interface Reported {
  /** `DONE`, `RETRY`, `FAIL_OVER`, `GIVE_UP`; `UNSPECIFIED`: the call goes on. */
  verdict: string;
  /** Why, when it is given up. */
  reason: string;
  /** A sentence for a person. */
  detail: string;
  /** Whether the service still had the lease. */
  applied: boolean;
}

/** The ask of a call that did not wait for it. */
export interface Beside {
  slot: Promise<Slot | undefined>;
  /** Fires when the call is over. */
  over: AbortController;
  /** As soon as there is one. */
  leaseId?: string;
}

export class Slot {
  /** Fires when the deadline has passed: hand it to `fetch`. */
  readonly signal: AbortSignal;
  private readonly renewal: NodeJS.Timeout | undefined;
  private readonly overdue: NodeJS.Timeout | undefined;
  private seq = 0;
  private isSent = false;
  private isSettled = false;

  /** @internal */
  constructor(
    private readonly limiter: Limiter,
    private readonly begun: Begun,
    private readonly grant: Grant | undefined,
    private readonly mode: string,
    private readonly received: Moment,
    private readonly beside?: Beside,
  ) {
    const passed = new AbortController();
    this.signal = begun.signal ? AbortSignal.any([passed.signal, begun.signal]) : passed.signal;
    if (begun.deadline !== undefined) {
      const error = new DOMException("the deadline passed while the call was at the provider", "TimeoutError");
      this.overdue = setTimeout(() => passed.abort(error), Math.min(begun.deadline - now(), 2 ** 31 - 1)).unref();
    }
    const ttl = toMs(grant?.ttl);
    if (ttl > 0) this.renewal = setInterval(() => this.renew(), ttl * (0.35 + Math.random() / 10)).unref();
  }

  /** Opaque; empty where the service did not give the slot. */
  get leaseId(): string {
    return this.grant?.leaseId ?? this.beside?.leaseId ?? "";
  }

  /** Where to send. */
  get target(): Target {
    return this.grant?.target ?? this.begun.request.target;
  }

  /** What was asked for: meter -> units. */
  get cost(): Readonly<Record<string, number>> {
    return this.begun.request.cost;
  }

  /** The name of the logical call. */
  get requestId(): string {
    return this.begun.request.requestId;
  }

  /** Which attempt of the call this is, from 1. */
  get attempt(): number {
    return this.begun.request.attempt;
  }

  /** Whether the service gave it; false when it is off or does not answer. */
  get isServed(): boolean {
    return this.grant !== undefined;
  }

  /** Whether calls wait for it, and the service says who is sent again; else that is left to the worker. */
  get isPaced(): boolean {
    return this.isServed && this.mode === "MODE_ENFORCE";
  }

  /** Whether it was kept too long to be used: close it and ask again, with the same `requestId`. */
  get isLate(): boolean {
    return this.grant !== undefined && !this.isSent && longestSince(this.received) > toMs(this.grant.wait) + toMs(this.grant.useWithin);
  }

  /** Marks the call as sent: from here on it may have run. */
  sent(): void {
    if (!this.isSent) this.besides((slot) => slot.sent());
    this.isSent = true;
  }

  /** Tells how the attempt went. A stream: its first byte with `moreFollows`, then its end. */
  async report(report: Report): Promise<Reported> {
    const { verdict, reason, detail, applied } = await this.tell(report, false);
    return { verdict: bare(verdict), reason: bare(reason), detail, applied };
  }

  /** Tells how the attempt went, and waits for the next slot if the call is to be sent again. Throws Denied if there is none for it. */
  async reportAndRetry(report: Report): Promise<Reported & { slot?: Slot }> {
    // Where nobody makes calls wait, the next slot would be there too early.
    let isPaced = this.isPaced;
    const told = await this.tell(report, isPaced).catch((error: unknown) => {
      if (!(error instanceof Unreachable)) throw error;
      isPaced = false; // nobody judges it but us
      return judgeAlone(report, this.attempt);
    });
    const reported = { verdict: bare(told.verdict), reason: bare(told.reason), detail: told.detail, applied: told.applied };
    const isUnjudged = reported.verdict === "UNSPECIFIED" && !told.applied;
    const wasRefused = told.signal?.retryable === true && /THROTTLED|OVERLOADED/.test(String(told.signal.kind));
    if (!["RETRY", "FAIL_OVER"].includes(reported.verdict) && !(isUnjudged && wasRefused)) return reported;
    if (!isPaced) {
      const wait = waitMs(report, this.attempt);
      const until = now() + (wait ?? 0);
      if (wait === undefined || until >= (this.begun.deadline ?? Infinity)) return reported;
      await sleepUntil(until, this.begun.signal);
    }
    return { ...reported, slot: await this.limiter.slot(this.next(), told.next ?? undefined) };
  }

  /** @internal Whoever sends tries again by itself, after a wait of its own: the slot for that attempt. */
  sentAgain(signal: AbortSignal | undefined): Promise<Slot> {
    return this.limiter.slot({ ...this.next(), signal });
  }

  private next(): Begun {
    const request = { ...this.begun.request, attempt: this.attempt + 1, ticket: new Uint8Array(), previousLeaseId: this.leaseId };
    return { ...this.begun, request, after: this.beside };
  }

  /** Ends the slot without a report: given back if it was not sent, else abandoned. */
  close(): void {
    if (this.isSettled) return;
    if (!this.grant) this.besides((slot) => slot.close());
    else if (this.isSent || this.isLate) this.report(abandoned()).catch(() => undefined); // its lease ends by itself
    else this.limiter.giveBack(this.target, { leaseId: this.grant.leaseId });
    this.settle();
  }

  private async tell(report: Report, wantsRetry: boolean): Promise<ReportResponse> {
    this.sent();
    const isFinal = !report.moreFollows;
    const { grant, attempt } = this;
    if (!grant) this.besides((slot) => slot.report(report));
    if (isFinal) this.settle();
    if (!grant) return judgeAlone(report, attempt);
    const made = now();
    const seq = ++this.seq;
    const make = () => toRequest(report, grant.leaseId, seq, made, wantsRetry);
    return this.limiter.replicas.send<ReportResponse>(this.target, "report", wantsRetry ? 1000 : 0, make);
  }

  /** Tells the service beside the call, in order; nobody waits for it. */
  private besides(tell: (slot: Slot) => unknown): void {
    if (!this.beside) return;
    this.beside.slot = this.beside.slot.then(async (slot) => {
      if (slot) await tell(slot);
      return slot;
    });
    this.beside.slot.catch(() => undefined); // its lease ends by itself
  }

  private renew(): void {
    const request = { leaseId: this.grant?.leaseId ?? "", seq: 0, outcome: "OUTCOME_RUNNING", final: false };
    this.limiter.replicas.send(this.target, "report", 0, () => request).catch(() => undefined); // the next one may arrive
  }

  private settle(): void {
    this.isSettled = true;
    this.beside?.over.abort();
    clearInterval(this.renewal);
    clearTimeout(this.overdue);
  }
}

/** What an SDK would make of an answer. */
function judgeAlone(report: Report, attempt: number): ReportResponse {
  const isOk = report.outcome === "response" && (report.status ?? 0) < 400;
  const verdict = report.moreFollows ? "UNSPECIFIED" : isOk ? "DONE" : isRefused(report) && waitMs(report, attempt) !== undefined ? "RETRY" : "GIVE_UP";
  const detail = verdict === "GIVE_UP" ? "no service judged it; sent as often as an SDK would" : "";
  return { applied: true, verdict, reason: "", detail, signal: null, next: null };
}
