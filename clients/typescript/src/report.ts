// How an attempt went, as a worker says it.
import { now } from "./time.js";
import { type ReportRequest, fromMs } from "./wire.js";

/** The longest part of a body that the service reads. */
const LONGEST_BODY = 8 * 1024;
/** Headers that are never told, and what looks like a key: some providers quote the one they refuse. */
const SECRET_NAME = /authori[sz]|authenticate|cookie|secret|password|credential|api-?key|session/i;
const KEY = /\b(?:sk|pk|rk|gsk|xai|hf|r8|nvapi|pplx)[-_][\w*-]{6,}|\b(?:AIza|ya29\.|AKIA|eyJ)[\w.-]{8,}|\b[Bb]earer\s+[\w.*-]{6,}/g;

export interface Report {
  /** `timeout`: no answer in time, it may have run. `connection_failed`: never sent. `abandoned`: the caller left after sending. */
  readonly outcome: "response" | "timeout" | "connection_failed" | "abandoned";
  /** HTTP status. */
  readonly status?: number;
  /** As received, repeats kept. */
  readonly headers?: Iterable<readonly [string, string]>;
  /** The start of an error's body. */
  readonly body?: string | Uint8Array;
  /** Meter -> units really used. */
  readonly usage?: Readonly<Record<string, number>>;
  /** The usage is a guess. */
  readonly usageEstimated?: boolean;
  /** When the response arrived, on the clock of `performance.now()`; the making of the report if absent. */
  readonly arrived?: number;
  /** Another report of this response follows: this one is from its first byte. */
  readonly moreFollows?: boolean;
}

type Details = Omit<Report, "outcome" | "status" | "headers">;

/** The provider answered: the Response of fetch, or anything with a status and headers. */
export function responded(answer: { status: number; headers?: Iterable<readonly [string, string]> }, details: Details = {}): Report {
  return { outcome: "response", status: answer.status, headers: [...(answer.headers ?? [])], arrived: now(), ...details };
}

/** There was no answer: by the error of fetch, whether the call may have run. */
export function failed(error: unknown): Report {
  const codes = ["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "UND_ERR_CONNECT_TIMEOUT"];
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    // fetch refuses some ports by itself.
    const isNeverSent = codes.includes((cause as NodeJS.ErrnoException).code ?? "") || cause.message === "bad port";
    if (isNeverSent) return { outcome: "connection_failed", arrived: now() };
  }
  return { outcome: "timeout", arrived: now() };
}

/** The caller left after sending, with what it is known to have used. */
export function abandoned(details: Details = {}): Report {
  return { outcome: "abandoned", arrived: now(), ...details };
}

/** As it is to be sent now: a response ages. */
export function toRequest(report: Report, leaseId: string, seq: number, made: number, wantsRetry: boolean): ReportRequest {
  const open = [...(report.headers ?? [])].filter(([name]) => !SECRET_NAME.test(name));
  const text = typeof report.body === "string" ? report.body : new TextDecoder().decode(report.body?.subarray(0, 2 * LONGEST_BODY));
  // Cleaned before it is cut: half a key is a key that no pattern knows.
  const body = new TextEncoder().encode(text.slice(0, 2 * LONGEST_BODY).replace(KEY, "[hidden]"));
  return {
    leaseId,
    seq,
    outcome: `OUTCOME_${report.outcome.toUpperCase()}`,
    status: report.status ?? 0,
    headers: open.map(([name, value]) => ({ name, value })),
    body: body.subarray(0, LONGEST_BODY),
    usage: { ...report.usage },
    usageEstimated: report.usageEstimated ?? false,
    final: !report.moreFollows,
    age: fromMs(now() - (report.arrived ?? made)),
    ...(wantsRetry && { retry: { wanted: true } }),
  };
}
