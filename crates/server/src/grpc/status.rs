//! What is told when a call cannot be answered: the one place where errors become gRPC statuses.

use std::time::Duration;

use paceline_coordinator::api::CallError;
use paceline_proto::convert::InvalidField;
use prost::Message as _;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use super::bounds::MOST_MESSAGE_BYTES;

/// Violations that are listed; a status travels in HTTP/2 trailers, and clients take no more than 8 or 16 KiB of those.
const MOST_LISTED: usize = 12;
/// The longest description of one of them, in characters.
const MOST_DESCRIPTION_CHARS: usize = 240;
/// The longest message of a status, in characters.
const MOST_MESSAGE_CHARS: usize = 600;

/// What is wrong with one message, all of it at once.
#[derive(Debug, Default)]
pub(crate) struct Problems {
    listed: Vec<(String, String)>,
    not_listed: usize,
}

impl Problems {
    pub(crate) fn add(&mut self, field: impl Into<String>, problem: impl Into<String>) {
        if self.listed.len() < MOST_LISTED {
            self.listed.push((field.into(), shortened(&problem.into(), MOST_DESCRIPTION_CHARS)));
        } else {
            self.not_listed += 1;
        }
    }

    /// The value of a field that could be read, or nothing and a problem.
    pub(crate) fn take<T>(&mut self, read: Result<T, InvalidField>) -> Option<T> {
        read.map_err(|invalid| self.add(invalid.field, invalid.problem.to_string())).ok()
    }

    /// `value` when nothing is wrong.
    pub(crate) fn into_result<T>(self, value: T) -> Result<T, Status> {
        if self.listed.is_empty() { Ok(value) } else { Err(self.into_status()) }
    }

    /// INVALID_ARGUMENT with a google.rpc.BadRequest that names each field.
    pub(crate) fn into_status(self) -> Status {
        let said: Vec<String> = self.listed.iter().map(|(field, problem)| format!("{field} {problem}")).collect();
        let count = self.listed.len() + self.not_listed;
        let message = match said.as_slice() {
            [one] => one.clone(),
            _ => shortened(&format!("{count} things are wrong: {}", said.join("; ")), MOST_MESSAGE_CHARS),
        };
        let mut details = ErrorDetails::new();
        for (field, problem) in self.listed {
            details.add_bad_request_violation(field, problem);
        }
        Status::with_error_details(Code::InvalidArgument, message, details)
    }
}

/// A status for what the coordinator cannot answer.
pub(crate) fn of_call(error: CallError) -> Status {
    match error {
        CallError::Invalid { field, problem } => {
            let mut problems = Problems::default();
            problems.add(field, problem);
            problems.into_status()
        }
        CallError::UnknownProvider(said) => Status::not_found(shortened(&said, MOST_MESSAGE_CHARS)),
        CallError::AlreadyExists(said) => Status::already_exists(shortened(&said, MOST_MESSAGE_CHARS)),
        CallError::Unavailable(why) => {
            let said = format!("{why}; try again, at another replica if there is one");
            Status::unavailable(shortened(&said, MOST_MESSAGE_CHARS))
        }
        moved @ CallError::Moved { .. } => Status::unavailable(format!("{moved}; try again")),
    }
}

/// What is wrong with one item of many, as a message.
pub(super) fn as_message(status: &Status) -> tonic_types::Status {
    let told = tonic_types::Status::decode(status.details()).ok().filter(|told| told.code != 0);
    told.unwrap_or_else(|| tonic_types::Status {
        code: status.code() as i32,
        message: status.message().to_owned(),
        details: Vec::new(),
    })
}

/// INVALID_ARGUMENT for one field.
pub(super) fn invalid(field: &'static str, said: impl Into<String>) -> Status {
    let mut problems = Problems::default();
    problems.add(field, said);
    problems.into_status()
}

/// Our own protection: too much at once, try again after a second.
pub(super) fn too_many(said: String) -> Status {
    let details = ErrorDetails::with_retry_info(Some(Duration::from_secs(1)));
    Status::with_error_details(Code::ResourceExhausted, said, details)
}

/// Replaces what the transport says about messages it cannot read by what a caller can act on.
pub(crate) fn clarify(mut response: axum::http::Response<tonic::body::Body>) -> axum::http::Response<tonic::body::Body> {
    let Some(status) = Status::from_header_map(response.headers()) else { return response };
    let clearer = match status.code() {
        // Nothing of ours is ever out of range: it is the transport's word for a message that is too large.
        Code::OutOfRange => Status::resource_exhausted(format!(
            "the message is too large: at most {MOST_MESSAGE_BYTES} bytes (4 MiB) are read; of a body the first 8 KiB are enough, \
             and a batch may be sent in parts"
        )),
        Code::Internal if status.message().starts_with("failed to decode Protobuf message") => Status::invalid_argument(
            format!("the message is not a valid one of paceline.v1: {}", shortened(status.message(), MOST_DESCRIPTION_CHARS)),
        ),
        _ => return response,
    };
    // Only the status is replaced: the rest of the response says what it always does.
    for name in ["grpc-status", "grpc-message", "grpc-status-details-bin"] {
        response.headers_mut().remove(name);
    }
    if clearer.add_header(response.headers_mut()).is_err() {
        return clearer.into_http();
    }
    response
}

fn shortened(text: &str, most_chars: usize) -> String {
    match text.char_indices().nth(most_chars) {
        Some((at, _)) => format!("{}...", text.get(..at).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_wrong_is_told_at_once_and_bounded() {
        let mut problems = Problems::default();
        for number in 0..1_000 {
            problems.add(format!("headers[{number}].name"), "x".repeat(100_000));
        }
        let status = problems.into_status();
        assert_eq!(status.code(), Code::InvalidArgument);
        assert!(status.message().starts_with("1000 things are wrong: headers[0].name x"), "{}", status.message());
        assert!(status.details().len() + 3 * status.message().len() < 6_000, "clients take 8 KiB of trailers");
        assert_eq!(status.get_details_bad_request().unwrap().field_violations.len(), MOST_LISTED);
    }

    #[test]
    fn each_error_has_its_code() {
        let invalid = of_call(CallError::Invalid { field: "ticket", problem: "is forged".into() });
        assert_eq!((invalid.code(), invalid.message()), (Code::InvalidArgument, "ticket is forged"));
        let violations = invalid.get_details_bad_request().unwrap().field_violations;
        assert_eq!(violations.first().map(|violation| violation.field.as_str()), Some("ticket"));
        for (error, code) in [
            (CallError::UnknownProvider("who".into()), Code::NotFound),
            (CallError::AlreadyExists("it is".into()), Code::AlreadyExists),
            (CallError::Unavailable("away".into()), Code::Unavailable),
        ] {
            assert_eq!(of_call(error).code(), code);
        }
    }

    #[test]
    fn texts_are_cut_between_characters() {
        assert_eq!(shortened("short", 5), "short");
        assert_eq!(shortened(&"é".repeat(500), 7), format!("{}...", "é".repeat(7)));
    }

    #[test]
    fn what_the_transport_says_becomes_clear() {
        let told = |status: Status| Status::from_header_map(clarify(status.into_http()).headers()).unwrap();
        let large = told(Status::out_of_range("Error, decoded message length too large: found 5 bytes"));
        assert_eq!(large.code(), Code::ResourceExhausted);
        assert!(large.message().contains("4 MiB"), "{}", large.message());
        let garbage = told(Status::internal("failed to decode Protobuf message: buffer underflow"));
        assert_eq!(garbage.code(), Code::InvalidArgument);
        let ours = told(of_call(CallError::UnknownProvider("who".into())));
        assert_eq!((ours.code(), ours.message()), (Code::NotFound, "who"));
    }
}
