//! Formats: one header value in, a number or a time out. Nothing here knows a header's name.
//!
//! A value is read only when the *whole* trimmed text fits its form; anything else is unusable, which is never the same as zero.

pub(crate) mod date;
pub(crate) mod duration;
pub(crate) mod number;
pub(crate) mod protobuf;
pub(crate) mod structured;
pub(crate) mod time;
