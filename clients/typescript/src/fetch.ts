// A `fetch` that asks before it sends: for SDKs that take one (`new OpenAI({ fetch: pacedFetch(limiter, "openai") })`).
import { Failures, type Sending, isTriedAgain, retriesOf } from "./again.js";
import { Denied, type Ask, type Limiter } from "./limiter.js";
import { UsageReader, llmAsk } from "./llm.js";
import { abandoned, failed, responded } from "./report.js";
import type { Slot } from "./slot.js";

/** What a request costs, where that is not to be read out of its body; `undefined`: it is sent as if nothing were here. */
export type AskOf = (request: { method: string; url: URL; headers: Headers; body: string | undefined }) => Ask | undefined;

/**
 * A `fetch` that asks, waits, sends, reports, and sends again what the service says. `to` is a provider whose bodies are like OpenAI's,
 * Anthropic's or Gemini's, or a function that says what a request costs.
 *
 * A denial is an answer 429 with `x-should-retry: false`, so that an SDK makes its own error of it, with the code `paceline_<reason>`. The
 * same header is on refusals that the service gave up, so that no SDK sends them again; one that tries a lost connection again by itself
 * gets the same error at once. Where nobody makes calls wait (shadow, off, no service), retries are the SDK's, as without us, and each is
 * told as the next attempt of its call.
 */
export function pacedFetch(limiter: Limiter, to: string | AskOf, send: typeof fetch = fetch): typeof fetch {
  const askOf: AskOf = typeof to === "string" ? ({ method, url, body }) => llmAsk(to, method, url.pathname, body) : to;
  const failures = new Failures<Failed>();
  return async (input, init) => {
    const request = input instanceof Request ? new Request(input, init) : undefined;
    const headers = new Headers(request?.headers ?? init?.headers);
    const url = new URL(request?.url ?? String(input));
    const method = (request?.method ?? init?.method ?? "GET").toUpperCase();
    const { body, isRepeatable } = await bodyOf(request, init);
    const ask = askOf({ method, url, headers, body });
    if (!ask) return request ? send(request) : send(input, init);
    const signal = init?.signal ?? request?.signal;
    const retries = retriesOf(headers);
    const sending: Sending = { method, url: url.href, body, retries, source: init ?? (input instanceof Request ? input : undefined) };
    const before = failures.take(sending);
    if (before?.error !== undefined) {
      failures.remember(sending, before);
      throw before.error;
    }
    let slot: Slot;
    try {
      slot = await (before?.slot?.sentAgain(signal ?? undefined) ?? limiter.acquireRetry({ ...ask, ...(signal && { signal }) }, retries ?? 0));
    } catch (error) {
      if (error instanceof Denied) return denial(error);
      throw error;
    }
    for (;;) {
      // A Request has taken over what `init` says; its body can be read once.
      const once = () => (request ? send(request.clone(), { signal: slot.signal }) : send(input, { ...init, signal: slot.signal }));
      const next = await attempt(slot, isRepeatable, once, (failed) => failures.remember(sending, failed));
      if (next.response) return next.response;
      slot = next.slot;
    }
  };
}

/** What becomes of a call that failed when its SDK sends it again: it goes on, or ends as it did. */
type Failed = { slot: Slot; error?: undefined } | { error: unknown; slot?: undefined };

type After = { response: Response; slot?: undefined } | { slot: Slot; response?: undefined };

async function attempt(slot: Slot, isRepeatable: boolean, send: () => Promise<Response>, remember: (failed: Failed) => void): Promise<After> {
  slot.sent();
  let response: Response;
  try {
    response = await send();
  } catch (error) {
    const report = slot.signal.aborted && !isTimeout(slot.signal.reason) ? abandoned() : failed(error);
    const next = await again(slot, report, isRepeatable);
    if (next) return { slot: next };
    // A time-out of the SDK's own ends the call for us: what comes after it is another one.
    if (!slot.isPaced) remember({ slot });
    else if (!slot.signal.aborted) remember({ error });
    throw error;
  }
  if (response.ok || response.status < 400) return { response: watched(slot, response) };
  // The reason is in the body.
  const body = await response.arrayBuffer().catch(() => new ArrayBuffer(0));
  const next = await again(slot, responded(response, { body: new Uint8Array(body) }), isRepeatable);
  if (next) return { slot: next };
  if (!slot.isPaced && isTriedAgain(response.status)) remember({ slot });
  return { response: like(response, body, slot.isPaced ? { "x-should-retry": "false" } : {}) };
}

/** Reports an attempt that ended; the slot for another one, if there is to be one. What the attempt brought is the caller's otherwise. */
async function again(slot: Slot, report: Parameters<Slot["report"]>[0], isRepeatable: boolean): Promise<Slot | undefined> {
  try {
    if (isRepeatable && slot.isPaced) return (await slot.reportAndRetry(report)).slot;
    await slot.report(report);
  } catch {
    // Denied, or not told: the answer is there all the same.
  }
  return undefined;
}

/** A good answer: its end is told when the caller has read it, or left. */
function watched(slot: Slot, response: Response): Response {
  const kind = response.headers.get("content-type") ?? "";
  const isEvents = kind.includes("event-stream");
  const reader = isEvents || kind.includes("json") ? new UsageReader(isEvents) : undefined;
  const start = responded(response);
  const first = isEvents ? slot.report({ ...start, moreFollows: true }).catch(() => undefined) : Promise.resolve();
  let isTold = false;
  const end = (ending: "whole" | "broken" | "left") => {
    if (isTold) return;
    isTold = true;
    const isWhole = ending === "whole" || reader?.isOver === true || reader?.error !== undefined;
    const used = reader?.usage(isWhole) ?? { usage: {}, usageEstimated: false };
    // Of a stream that was cut off the input is taken to be what was asked for.
    const asked = slot.cost["input_tokens"];
    const usage = used.usageEstimated && asked !== undefined ? { input_tokens: asked, ...used.usage } : used.usage;
    const details = { usage, usageEstimated: used.usageEstimated, ...(reader?.error && { body: reader.error }) };
    const whole = isEvents ? responded({ status: response.status }, details) : { ...start, ...details };
    const report = isWhole || (ending === "left" && !isEvents) ? whole : ending === "left" ? abandoned(details) : { ...failed(undefined), ...details };
    // In order, and nobody waits for it; its lease ends by itself.
    void first.then(() => slot.report(report)).catch(() => undefined);
  };
  if (!response.body) {
    end("whole");
    return response;
  }
  const source = response.body.getReader();
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      try {
        const { done, value } = await source.read();
        if (done) {
          end("whole");
          controller.close();
        } else {
          reader?.read(value);
          controller.enqueue(value);
        }
      } catch (error) {
        end("broken");
        controller.error(error);
      }
    },
    async cancel(reason) {
      end("left");
      await source.cancel(reason);
    },
  });
  return like(response, body, {});
}

/** The same answer with another body, and where it came from. */
function like(response: Response, body: BodyInit | null, more: Record<string, string>): Response {
  const headers = new Headers(response.headers);
  // The body is unpacked.
  headers.delete("content-encoding");
  headers.delete("content-length");
  for (const [name, value] of Object.entries(more)) headers.set(name, value);
  const isEmpty = [204, 205, 304].includes(response.status);
  const again = new Response(isEmpty ? null : body, { status: response.status, statusText: response.statusText, headers });
  Object.defineProperty(again, "url", { value: response.url });
  return again;
}

/** A denial in the shape that SDKs know. */
function denial(denied: Denied): Response {
  const error = { message: denied.message, type: "rate_limit_error", param: null, code: `paceline_${denied.reason.toLowerCase()}` };
  const headers: Record<string, string> = { "content-type": "application/json", "x-should-retry": "false" };
  if (denied.retryAfterMs !== undefined) headers["retry-after-ms"] = String(Math.ceil(denied.retryAfterMs));
  return new Response(JSON.stringify({ type: "error", error }), { status: 429, headers });
}

async function bodyOf(request: Request | undefined, init: RequestInit | undefined): Promise<{ body: string | undefined; isRepeatable: boolean }> {
  const body = init?.body ?? undefined;
  if (body instanceof Uint8Array) return { body: new TextDecoder().decode(body), isRepeatable: true };
  if (typeof body === "string" || body === undefined) {
    return { body: body ?? (request?.body ? await request.clone().text() : undefined), isRepeatable: true };
  }
  const isInMemory = body instanceof URLSearchParams || body instanceof ArrayBuffer || body instanceof Blob || body instanceof FormData;
  return { body: undefined, isRepeatable: isInMemory };
}

function isTimeout(reason: unknown): boolean {
  return reason instanceof DOMException && reason.name === "TimeoutError";
}
