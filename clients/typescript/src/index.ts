export { type Ask, type Called, Denied, Limiter, type Mode, type Options } from "./limiter.js";
export { type Report, abandoned, failed, responded } from "./report.js";
export { type Reported, Slot } from "./slot.js";
export { Unreachable } from "./replicas.js";
export { type AskOf, pacedFetch } from "./fetch.js";
