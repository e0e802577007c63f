// The contract as the network carries it: messages with the names of the proto files in camelCase, unary calls as promises,
// and what a failed call means for a worker.
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import * as grpc from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";

export interface Target {
  provider: string;
  account: string;
  model: string;
}

/** A length of time, as protobuf writes it. */
export interface Duration {
  seconds: number;
  nanos: number;
}

export interface AcquireRequest {
  requestId: string;
  attempt: number;
  target: Target;
  cost: Record<string, number>;
  costEstimated: boolean;
  maxWait?: Duration;
  deadline?: Duration;
  runTime?: Duration;
  priority: string;
  tenant: string;
  labels: Record<string, string>;
  parent: string;
  ticket: Uint8Array;
  previousLeaseId: string;
  repeat: string;
}

export interface Grant {
  leaseId: string;
  target: Target;
  wait: Duration | null;
  useWithin: Duration | null;
  ttl: Duration | null;
}

export interface AcquireResponse {
  grant?: Grant;
  queued?: { ticket: Uint8Array; comeBackIn: Duration | null };
  denial?: { reason: string | number; retryAfter: Duration | null; detail: string };
  mode: string;
}

export interface ReportRequest {
  leaseId: string;
  seq: number;
  outcome: string;
  status?: number;
  headers?: { name: string; value: string }[];
  body?: Uint8Array;
  usage?: Record<string, number>;
  usageEstimated?: boolean;
  final?: boolean;
  age?: Duration;
  retry?: { wanted: boolean };
}

export interface ReportResponse {
  applied: boolean;
  verdict: string | number;
  reason: string | number;
  detail: string;
  signal: { retryAfter: Duration | null; retryable: boolean; kind: string | number } | null;
  next: AcquireResponse | null;
}

type Unary = (request: object, options: object, answered: (error: grpc.ServiceError | null, answer: unknown) => void) => grpc.ClientUnaryCall;
export type Method = "acquire" | "report" | "release";
export type Client = grpc.Client & Record<Method, Unary>;

/** A connection to one replica. Pings find out within four seconds that it vanished without a word. */
export function connect(address: string): Client {
  const options = { "grpc.keepalive_time_ms": 2000, "grpc.keepalive_timeout_ms": 1500, "grpc.max_reconnect_backoff_ms": 2000 };
  const Replica = service();
  return new Replica(address.replace(/^http:\/\//, ""), grpc.credentials.createInsecure(), options) as unknown as Client;
}

let loaded: grpc.ServiceClientConstructor | undefined;

function service(): grpc.ServiceClientConstructor {
  loaded ??= (() => {
    const folder = protoFolder();
    const options = { longs: Number, enums: String, defaults: true, oneofs: true, includeDirs: [folder] };
    const contract = grpc.loadPackageDefinition(loadSync("paceline/v1/rate_limiter.proto", options));
    return (contract as unknown as { paceline: { v1: { RateLimiter: grpc.ServiceClientConstructor } } }).paceline.v1.RateLimiter;
  })();
  return loaded;
}

/** The proto files: beside us in the package, at the top of the repository before that. */
function protoFolder(): string {
  let folder = dirname(fileURLToPath(import.meta.url));
  for (let up = 0; up < 6; up++, folder = dirname(folder)) {
    const found = join(folder, "proto");
    if (existsSync(join(found, "paceline/v1/rate_limiter.proto"))) return found;
  }
  throw new Error("paceline: the proto files are not there; `clients/typescript/check` puts them beside the built files");
}

/** Why a call failed, in what matters: may another replica be asked for the same? */
export class RpcError extends Error {
  constructor(
    message: string,
    readonly isElsewhere: boolean,
    /** The service protects itself: not before this many milliseconds. */
    readonly notBeforeMs: number | undefined,
  ) {
    super(message);
    this.name = "PacelineRpcError";
  }
}

/** One unary call, given up after `withinMs`. */
export function call<A>(client: Client, method: Method, request: object, withinMs: number, signal?: AbortSignal): Promise<A> {
  return new Promise((resolve, reject) => {
    const rpc = client[method](request, { deadline: Date.now() + withinMs }, (error, answer) => {
      signal?.removeEventListener("abort", cancel);
      if (error) reject(meaning(error));
      else resolve(answer as A);
    });
    const cancel = () => rpc.cancel();
    signal?.addEventListener("abort", cancel, { once: true });
  });
}

function meaning(error: grpc.ServiceError): RpcError {
  const { UNAVAILABLE, ABORTED, CANCELLED, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, INTERNAL, UNKNOWN } = grpc.status;
  const isOfTransport = /^Received RST_STREAM|^Connection|^Stream|ECONN/.test(error.details);
  const isElsewhere =
    [UNAVAILABLE, ABORTED, CANCELLED, DEADLINE_EXCEEDED].includes(error.code) || ([INTERNAL, UNKNOWN].includes(error.code) && isOfTransport);
  const notBeforeMs = error.code === RESOURCE_EXHAUSTED ? (retryDelayMs(error.metadata) ?? 1000) : undefined;
  return new RpcError(`${grpc.status[error.code]}: ${error.details}`, isElsewhere, notBeforeMs);
}

/** google.rpc.RetryInfo out of the details of an error: status.details[].value.retry_delay. */
export function retryDelayMs(metadata: grpc.Metadata): number | undefined {
  const details = metadata.get("grpc-status-details-bin")[0];
  if (!(details instanceof Uint8Array)) return undefined;
  for (const any of fields(details, 3)) {
    const [type] = fields(any, 1);
    const [value] = fields(any, 2);
    if (!type || !value || !new TextDecoder().decode(type).endsWith("/google.rpc.RetryInfo")) continue;
    const [delay] = fields(value, 1);
    if (delay) return number(delay, 1) * 1000 + number(delay, 2) / 1e6;
  }
  return undefined;
}

/** Fields of a protobuf message: number, and bytes or an integer. */
function* all(message: Uint8Array): Generator<[number, Uint8Array | number]> {
  let at = 0;
  const varint = () => {
    let value = 0;
    for (let scale = 1; at < message.length; scale *= 128) {
      const byte = message[at++] ?? 0;
      value += (byte & 127) * scale;
      if (byte < 128) break;
    }
    return value;
  };
  while (at < message.length) {
    const key = varint();
    if ((key & 7) === 0) yield [key >> 3, varint()];
    else if ((key & 7) === 2) {
      const length = varint();
      yield [key >> 3, message.subarray(at, (at += length))];
    } else return; // none of the messages read here has other kinds
  }
}

function* fields(message: Uint8Array, wanted: number): Generator<Uint8Array> {
  for (const [field, value] of all(message)) if (field === wanted && value instanceof Uint8Array) yield value;
}

function number(message: Uint8Array, wanted: number): number {
  for (const [field, value] of all(message)) if (field === wanted && typeof value === "number") return value;
  return 0;
}

export function toMs(duration: Duration | null | undefined): number {
  return duration ? Math.max(0, duration.seconds * 1000 + duration.nanos / 1e6) : 0;
}

export function fromMs(ms: number): Duration {
  const whole = Math.min(Math.max(0, ms), 2 ** 31 * 1000);
  const seconds = Math.floor(whole / 1000);
  return { seconds, nanos: Math.floor((whole - seconds * 1000) * 1e6) };
}

/** A word of the contract without the name of what it is one of; one that only a newer service has (a number here) says nothing. */
export function bare(word: string | number): string {
  return typeof word === "string" ? word.replace(/^(VERDICT|REASON)_/, "") : "UNSPECIFIED";
}
