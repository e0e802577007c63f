//! The values of labels that come from closed sets.

/// How an ask was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AcquireOutcome {
    /// A slot.
    Granted,
    /// A ticket: ask again.
    Queued,
    /// No, with a reason.
    Denied,
    /// The caller went away before there was an answer.
    Cancelled,
}

impl AcquireOutcome {
    /// Every outcome, in order.
    pub const ALL: [Self; 4] = [Self::Granted, Self::Queued, Self::Denied, Self::Cancelled];

    /// The label's value.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Granted => "granted",
            Self::Queued => "queued",
            Self::Denied => "denied",
            Self::Cancelled => "cancelled",
        }
    }
}

/// Which units are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnitsKind {
    /// Used by first attempts.
    First,
    /// Used by later attempts.
    Retry,
    /// Used beyond the reservation, by either.
    Overrun,
}

impl UnitsKind {
    /// Every kind, in order.
    pub const ALL: [Self; 3] = [Self::First, Self::Retry, Self::Overrun];

    /// The label's value.
    pub const fn name(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Retry => "retry",
            Self::Overrun => "overrun",
        }
    }
}

/// What a call used of one meter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Units<'a> {
    /// Whose call it was.
    pub tenant: &'a str,
    /// What is counted.
    pub meter: &'a str,
    /// Whether it was not the first attempt.
    pub is_retry: bool,
    /// In all.
    pub used: u64,
    /// Of that, what its reservation did not cover.
    pub overrun: u64,
}

/// What a worker reported about its call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReportOutcome {
    /// The provider answered.
    Response,
    /// The call still runs.
    Running,
    /// No answer in time; it may have run.
    Timeout,
    /// It was never sent.
    ConnectionFailed,
    /// The worker gave it up; it may have run.
    Abandoned,
}

impl ReportOutcome {
    /// Every outcome, in order.
    pub const ALL: [Self; 5] = [Self::Response, Self::Running, Self::Timeout, Self::ConnectionFailed, Self::Abandoned];

    /// The label's value.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Response => "response",
            Self::Running => "running",
            Self::Timeout => "timeout",
            Self::ConnectionFailed => "connection_failed",
            Self::Abandoned => "abandoned",
        }
    }
}

/// What became of a call that was sent on to another replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Forwarded {
    /// It was answered there.
    Answered,
    /// There was no answer in time.
    Unanswered,
    /// The replica could not be reached, or the connection ended.
    Broken,
}

impl Forwarded {
    /// Every outcome, in order.
    pub const ALL: [Self; 3] = [Self::Answered, Self::Unanswered, Self::Broken];

    /// The label's value.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Unanswered => "unanswered",
            Self::Broken => "broken",
        }
    }
}

/// What became of a changed configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReloadResult {
    /// It is in force.
    Applied,
    /// It is invalid: the old one stays in force.
    Refused,
}

impl ReloadResult {
    /// The label's value.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::Refused => "refused",
        }
    }
}

/// How a stored value was less than what a replica remembers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StateLoss {
    /// It was gone, or could not be read.
    Lost,
    /// It did not include a commit that is remembered: an older value came back.
    RolledBack,
    /// Another replica had found the loss before; this one added what it remembers.
    Joined,
}

impl StateLoss {
    /// Every kind, in order.
    pub const ALL: [Self; 3] = [Self::Lost, Self::RolledBack, Self::Joined];

    /// The label's value.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::RolledBack => "rolled_back",
            Self::Joined => "joined",
        }
    }
}

/// The status a provider answered with, as the worker reported it: any number may come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// None was reported (time-outs, failed connections).
    None,
    /// An HTTP status (RFC 9110, section 15).
    Http(u32),
    /// A gRPC status code.
    Grpc(u32),
}

/// HTTP statuses that get a label of their own: those in use, with Cloudflare's 520..=527 and Anthropic's 529.
const HTTP_STATUSES: [(u32, &str); 47] = [
    (200, "200"),
    (201, "201"),
    (202, "202"),
    (204, "204"),
    (206, "206"),
    (301, "301"),
    (302, "302"),
    (303, "303"),
    (304, "304"),
    (307, "307"),
    (308, "308"),
    (400, "400"),
    (401, "401"),
    (402, "402"),
    (403, "403"),
    (404, "404"),
    (405, "405"),
    (406, "406"),
    (408, "408"),
    (409, "409"),
    (410, "410"),
    (412, "412"),
    (413, "413"),
    (415, "415"),
    (422, "422"),
    (423, "423"),
    (424, "424"),
    (425, "425"),
    (429, "429"),
    (451, "451"),
    (498, "498"),
    (499, "499"),
    (500, "500"),
    (501, "501"),
    (502, "502"),
    (503, "503"),
    (504, "504"),
    (508, "508"),
    (520, "520"),
    (521, "521"),
    (522, "522"),
    (523, "523"),
    (524, "524"),
    (525, "525"),
    (526, "526"),
    (527, "527"),
    (529, "529"),
];

/// gRPC's status codes by number.
const GRPC_STATUSES: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

impl Status {
    /// The label's value: the number where it is one in use, else its class (`4xx`), else `other`; empty for none.
    pub fn label(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Grpc(code) => usize::try_from(code).ok().and_then(|code| GRPC_STATUSES.get(code)).copied().unwrap_or("other"),
            Self::Http(status) => {
                let known = HTTP_STATUSES.iter().find(|(number, _)| *number == status);
                known.map_or_else(|| http_class(status), |(_, name)| name)
            }
        }
    }
}

fn http_class(status: u32) -> &'static str {
    match status {
        100..=199 => "1xx",
        200..=299 => "2xx",
        300..=399 => "3xx",
        400..=499 => "4xx",
        500..=599 => "5xx",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_in_use_keep_their_number_and_all_others_are_folded() {
        for (status, label) in [
            (Status::None, ""),
            (Status::Http(200), "200"),
            (Status::Http(429), "429"),
            (Status::Http(529), "529"),
            (Status::Http(418), "4xx"),
            (Status::Http(599), "5xx"),
            (Status::Http(0), "other"),
            (Status::Http(u32::MAX), "other"),
            (Status::Grpc(8), "RESOURCE_EXHAUSTED"),
            (Status::Grpc(17), "other"),
        ] {
            assert_eq!(status.label(), label, "{status:?}");
        }
        for (number, label) in HTTP_STATUSES {
            assert_eq!(number.to_string(), label);
        }
    }
}
