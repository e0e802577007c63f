// What calls of language models cost and used, by a look at their bodies: as OpenAI, Anthropic and Gemini write them.
import type { Ask } from "./limiter.js";

const BYTES_PER_TOKEN = 4;
const TOKENS_PER_MESSAGE = 4;
/** An image, a sound or a file: about what a page of text costs. */
const TOKENS_PER_FILE = 1000;
/** Fields whose text is no part of the prompt, and fields that hold or name a file. */
const NO_TEXT = new Set(["model", "role", "type", "id", "tool_call_id", "tool_use_id", "call_id", "media_type", "mimeType", "format", "user"]);
const FILES = new Set(["data", "b64_json", "file_data", "fileUri", "file_id", "signature", "encrypted_content"]);
const MOST_OUTPUT = ["max_completion_tokens", "max_output_tokens", "max_tokens", "maxOutputTokens"];

type Json = Record<string, unknown>;

function isObject(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function parse(text: string): Json | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/**
 * The ask of a request: a POST of JSON that names a `model`, or whose path does. The input is estimated from its text, four bytes a token; the
 * output is the most it may be. What cannot be seen is left to the service, which learns it. `undefined`: not to be asked for.
 */
export function llmAsk(provider: string, method: string, path: string, body: string | undefined): Ask | undefined {
  if (method !== "POST" || /(\/count_tokens|:countTokens)$/.test(path)) return undefined;
  const json = body === undefined ? undefined : parse(body);
  const model = json?.["model"] ?? /\/models\/([^/:]+):/.exec(path)?.[1];
  if (!json || typeof model !== "string") return undefined;
  const cost: Record<string, number> = {};
  const isKeptThere = ["previous_response_id", "conversation", "cachedContent"].some((name) => json[name]);
  if (!isKeptThere) cost["input_tokens"] = Math.max(1, tokensIn("", json));
  const most = [json, json["generationConfig"]].filter(isObject).flatMap((part) => MOST_OUTPUT.map((name) => part[name]));
  const output = most.find((tokens) => typeof tokens === "number");
  if (/(\/embeddings|:embedContent)$/.test(path)) cost["output_tokens"] = 0;
  else if (output !== undefined) cost["output_tokens"] = output * (typeof json["n"] === "number" ? Math.max(1, json["n"]) : 1);
  return { provider, model, cost, costEstimated: true };
}

function tokensIn(name: string, value: unknown): number {
  let bytes = 0;
  let tokens = 0;
  const add = (name: string, value: unknown): void => {
    if (typeof value === "string") {
      const isAddress = (name === "url" || name === "image_url") && value.startsWith("http");
      if (FILES.has(name) || value.startsWith("data:") || isAddress) tokens += TOKENS_PER_FILE;
      else if (!NO_TEXT.has(name)) bytes += Buffer.byteLength(value);
    } else if (Array.isArray(value)) {
      // Tokens already, as embeddings take them.
      if (value.every((item) => typeof item === "number")) tokens += value.length;
      else for (const item of value) add(name, item);
    } else if (isObject(value)) {
      if ("role" in value) tokens += TOKENS_PER_MESSAGE;
      for (const [name, item] of Object.entries(value)) add(name, item);
    }
  };
  add(name, value);
  return Math.ceil(bytes / BYTES_PER_TOKEN) + tokens;
}

/** Reads what an answer used out of its body as it passes. */
export class UsageReader {
  /** The answer itself said that it is over. */
  isOver = false;
  /** An error that the answer holds although its status is a good one. */
  error: string | undefined;
  private readonly decoder = new TextDecoder();
  private text = "";
  private contents = 0;
  private readonly units = new Map<string, number>();

  constructor(private readonly isEvents: boolean) {}

  read(piece: Uint8Array): void {
    this.text += this.decoder.decode(piece, { stream: true });
    if (!this.isEvents) return;
    const lines = this.text.split("\n");
    this.text = lines.pop() ?? "";
    for (const line of lines) if (line.startsWith("data:")) this.event(line.slice(5).trim());
  }

  /** What it used, and whether that is counted by us: of a stream that was cut off, a token for each event. */
  usage(isWhole: boolean): { usage: Record<string, number>; usageEstimated: boolean } {
    if (!this.isEvents && isWhole) this.take(parse(this.text) ?? {});
    const told = this.units.get("output_tokens");
    const usageEstimated = this.isEvents && this.contents > 0 && (told === undefined || (!isWhole && !this.isOver && told < this.contents));
    if (usageEstimated) this.units.set("output_tokens", this.contents);
    return { usage: Object.fromEntries(this.units), usageEstimated };
  }

  private event(data: string): void {
    if (data === "[DONE]") this.isOver = true;
    const event = parse(data);
    if (!event) return;
    const type = event["type"];
    if (type === "message_stop" || type === "response.completed" || type === "response.incomplete") this.isOver = true;
    if (event["error"] || type === "error" || type === "response.failed") this.error ??= data;
    if (!this.take(event) && !isObject(event["message"]) && !isObject(event["response"])) this.contents++;
  }

  /** What was said later counts. */
  private take(answer: Json): boolean {
    let isTold = false;
    for (const holder of [answer["message"], answer["response"], answer]) {
      const usage = isObject(holder) ? (holder["usage"] ?? holder["usageMetadata"]) : undefined;
      if (!isObject(usage)) continue;
      isTold = true;
      const number = (...names: string[]) => names.map((name) => usage[name]).find((value) => typeof value === "number");
      const within = ["prompt_tokens_details", "input_tokens_details"].map((name) => usage[name]).find(isObject)?.["cached_tokens"];
      const input = number("input_tokens", "prompt_tokens", "promptTokenCount");
      const output = number("output_tokens", "completion_tokens", "candidatesTokenCount");
      const cached = number("cache_read_input_tokens", "cachedContentTokenCount") ?? within;
      // Anthropic leaves the cache out of the input; what is written to it counts.
      if (input !== undefined) this.units.set("input_tokens", input + (number("cache_creation_input_tokens") ?? 0));
      if (output !== undefined) this.units.set("output_tokens", output + (number("thoughtsTokenCount") ?? 0));
      if (typeof cached === "number" && cached > 0) this.units.set("cached_input_tokens", cached);
    }
    return isTold;
  }
}
