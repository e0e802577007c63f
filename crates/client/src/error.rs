//! What can go wrong between a worker and the service, and what to do about it.

use std::error::Error as _;
use std::time::Duration;

use paceline_proto::v1::{Delay, Denial, Reason};
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use crate::timing;

/// Why there is no slot, or why a report did not arrive.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The service decided that the call is not to be sent: an answer, not a failure.
    #[error(transparent)]
    Denied(#[from] Box<Denied>),
    /// No service answered for as long as the client is patient, or until the deadline.
    #[error(
        "no Paceline service answered at {addrs} within {after:?} ({last}): is it running (`paceline serve`), and is this its \
         address?"
    )]
    Unreachable {
        /// The addresses that were tried.
        addrs: String,
        /// How long.
        after: Duration,
        /// What the last try said.
        last: String,
    },
    /// The service refused the request as wrong: a bug or a setting of the worker. Sending it again does not help.
    #[error("the service refused the request: {message}{}", list(.fields))]
    Invalid {
        /// What the service said about all of it.
        message: String,
        /// Field and what is wrong with it.
        fields: Vec<(String, String)>,
    },
    /// The service does not do this for this worker: unknown provider, no right, a call that was settled before.
    #[error("the service refused ({code:?}): {message}")]
    Refused {
        /// The gRPC code.
        code: Code,
        /// What the service said.
        message: String,
    },
    /// The deadline passed while the call was at the provider; it was cancelled and reported as a time-out.
    #[error("the deadline of {after:?} passed while attempt {attempt} was at the provider; it may have run")]
    DeadlineOver {
        /// The deadline that was asked for.
        after: Duration,
        /// Which attempt ran.
        attempt: u32,
    },
    /// The answer makes no sense to this version of the client.
    #[error("the service's answer has no {missing}: client and service do not fit; update the older of the two")]
    Malformed {
        /// What was expected.
        missing: &'static str,
    },
    /// A limiter cannot be made like this.
    #[error("the address {addr:?} cannot be used: {problem}; it should look like http://127.0.0.1:7070")]
    Address {
        /// The address.
        addr: String,
        /// What is wrong with it.
        problem: String,
    },
    /// `PACELINE_MODE` is none that there is.
    #[error(
        "PACELINE_MODE: `{mode}` is no mode; write `enforce` (or nothing) to wait as the service says, `shadow` to ask beside the calls, \
         `off` to ask nobody"
    )]
    Mode {
        /// As it was given.
        mode: String,
    },
    /// A limiter was built outside of a tokio runtime.
    #[error("a limiter must be built inside a tokio runtime (its connections live there): build it in an async function")]
    NoRuntime,
}

impl Error {
    /// The denial, if this is one.
    pub fn denied(&self) -> Option<&Denied> {
        match self {
            Self::Denied(denied) => Some(denied),
            _ => None,
        }
    }
}

/// A decision that a call is not to be sent.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("denied ({}): {detail}{}", reason.as_str_name(), again(.retry_after))]
pub struct Denied {
    /// Why.
    pub reason: Reason,
    /// From the receipt of the answer until the same ask could work; `None`: never.
    pub retry_after: Option<Duration>,
    /// A sentence for a person: what binds, since when, when it could work.
    pub detail: String,
    /// Where the time waited so far went.
    pub delays: Vec<Delay>,
}

impl Denied {
    pub(crate) fn new(denial: Denial, delays: Vec<Delay>) -> Self {
        let retry_after = denial.retry_after.as_ref().map(timing::length);
        Self { reason: denial.reason(), retry_after, detail: denial.detail, delays }
    }
}

fn again(retry_after: &Option<Duration>) -> String {
    retry_after.map_or_else(String::new, |after| format!(" (could work in {after:?})"))
}

fn list(fields: &[(String, String)]) -> String {
    fields.iter().map(|(field, problem)| format!("; {field}: {problem}")).collect()
}

/// What a failed RPC means for the worker.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// This replica did not answer; another may, and it must be asked for the same.
    Elsewhere { what: String },
    /// The service is there and protects itself: not before this long, wherever.
    Again { not_before: Duration, what: String },
    /// It will not.
    Final(Error),
}

impl From<Status> for Trouble {
    fn from(status: Status) -> Self {
        let message = status.message().to_owned();
        match status.code() {
            Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled | Code::Aborted => elsewhere(&status),
            // The transport has no better code for a connection that broke; the service's own errors have no source.
            Code::Unknown | Code::Internal if status.source().is_some() => elsewhere(&status),
            Code::ResourceExhausted => {
                let told = status.get_details_retry_info().and_then(|info| info.retry_delay);
                Self::Again { not_before: told.unwrap_or(Duration::from_secs(1)), what: message }
            }
            Code::InvalidArgument => {
                let details = status.get_details_bad_request().map(|request| request.field_violations).unwrap_or_default();
                let fields = details.into_iter().map(|violation| (violation.field, violation.description)).collect();
                Self::Final(Error::Invalid { message, fields })
            }
            code => Self::Final(Error::Refused { code, message }),
        }
    }
}

fn elsewhere(status: &Status) -> Trouble {
    let mut what = format!("{:?}: {}", status.code(), status.message());
    let mut source = status.source();
    while let Some(cause) = source {
        what = format!("{what}: {cause}");
        source = cause.source();
    }
    Trouble::Elsewhere { what }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonic_types::{ErrorDetails, FieldViolation};

    #[test]
    fn codes_say_whether_to_try_again() {
        for code in [Code::Unavailable, Code::DeadlineExceeded, Code::Cancelled, Code::Aborted] {
            assert!(matches!(Status::new(code, "x").into(), Trouble::Elsewhere { .. }), "{code:?}");
        }
        assert!(matches!(Status::resource_exhausted("x").into(), Trouble::Again { .. }));
        let finals = [
            Code::InvalidArgument,
            Code::NotFound,
            Code::AlreadyExists,
            Code::PermissionDenied,
            Code::Unauthenticated,
            Code::FailedPrecondition,
            Code::Unimplemented,
            Code::Internal,
        ];
        for code in finals {
            assert!(matches!(Status::new(code, "x").into(), Trouble::Final(_)), "{code:?}");
        }
    }

    #[test]
    fn the_services_own_protection_says_when_to_come_back() {
        let details = ErrorDetails::with_retry_info(Some(Duration::from_secs(3)));
        let status = Status::with_error_details(Code::ResourceExhausted, "too many calls", details);
        let Trouble::Again { not_before, what } = status.into() else { panic!("worth another try") };
        assert_eq!((not_before, what.as_str()), (Duration::from_secs(3), "too many calls"));
    }

    #[test]
    fn a_bad_request_names_the_fields() {
        let details = ErrorDetails::with_bad_request(vec![FieldViolation::new("max_wait", "is negative")]);
        let status = Status::with_error_details(Code::InvalidArgument, "1 field is wrong", details);
        let Trouble::Final(error) = status.into() else { panic!("final") };
        assert_eq!(error.to_string(), "the service refused the request: 1 field is wrong; max_wait: is negative");
    }

    #[test]
    fn a_denial_reads_well() {
        let denial = Denial {
            reason: Reason::Deadline.into(),
            retry_after: Some(prost_types::Duration { seconds: 4, nanos: 0 }),
            detail: "tokens are free in 12 s, after max_wait (10 s)".into(),
        };
        let denied = Denied::new(denial, Vec::new());
        let text = "denied (REASON_DEADLINE): tokens are free in 12 s, after max_wait (10 s) (could work in 4s)";
        assert_eq!(denied.to_string(), text);
    }
}
