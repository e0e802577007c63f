//! How much of everything a message may hold. Beyond it the answer is INVALID_ARGUMENT and names the field and the bound.

/// The largest message that is read, in bytes; larger ones are refused with RESOURCE_EXHAUSTED.
pub const MOST_MESSAGE_BYTES: usize = 4 * 1024 * 1024;
/// The most items of a batch.
pub const MOST_ITEMS: usize = 1_000;
/// The most calls of one Session that wait for their last answer; more are refused with RESOURCE_EXHAUSTED.
pub const MOST_SESSION_CALLS: usize = 10_000;
/// The longest `request_id` and `parent`, in characters.
pub const MOST_ID_CHARS: usize = 128;
/// The longest name (provider, account, model, tenant, meter, label and its value, header), in bytes.
pub const MOST_NAME_BYTES: usize = 256;
/// The most meters of a `cost` or `usage`.
pub const MOST_METERS: usize = 32;
/// The most `labels`.
pub const MOST_LABELS: usize = 32;
/// The most `headers` of a report; answers of providers have some twenty.
pub const MOST_HEADERS: usize = 512;
/// The longest value of a header, in bytes.
pub const MOST_HEADER_VALUE_BYTES: usize = 64 * 1024;
/// The most units of a meter in a `usage`: more were never used. (A `cost` may be any number: it is refused as more than a bucket
/// holds, with a reason.)
pub const MOST_UNITS_USED: u64 = 1_000_000_000_000_000;
/// The highest HTTP status of a report.
pub const HIGHEST_STATUS: u32 = 999;
