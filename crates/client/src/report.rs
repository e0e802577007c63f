//! What the provider said, on its way to the service, and what the service made of it.

use std::time::Duration;

use paceline_proto::v1::{
    AcquireResponse, AnswerKind, Header, NotApplied, Outcome, Reason, ReportRequest, ReportResponse, RetryAsk, Signal, Target,
    Verdict,
};
use tokio::time::Instant;

use crate::timing;

/// The longest part of a body that the service reads.
const LONGEST_BODY: usize = 8 * 1024;

/// How an attempt went. Unless [`more_follows`](Report::more_follows), nothing comes after it.
#[derive(Clone, Debug)]
pub struct Report {
    request: ReportRequest,
    arrived: Instant,
}

impl Report {
    /// The provider answered with this HTTP status just now.
    pub fn response(status: u16) -> Self {
        Self::new(ReportRequest { status: u32::from(status), ..of(Outcome::Response) })
    }

    /// The provider answered with this gRPC status just now.
    pub fn grpc_response(grpc_status: u32) -> Self {
        Self::new(ReportRequest { grpc_status: Some(grpc_status), ..of(Outcome::Response) })
    }

    /// No answer came in time; the call may have run.
    pub fn timeout() -> Self {
        Self::new(of(Outcome::Timeout))
    }

    /// The connection failed before the call was sent.
    pub fn connection_failed() -> Self {
        Self::new(of(Outcome::ConnectionFailed))
    }

    /// The caller lost interest after sending; the call may have run.
    pub fn abandoned() -> Self {
        Self::new(of(Outcome::Abandoned))
    }

    /// The call still runs. A [`Slot`](crate::Slot) says so by itself; this is for those who want the answer.
    pub fn running() -> Self {
        Self::new(ReportRequest { r#final: false, ..of(Outcome::Running) })
    }

    fn new(request: ReportRequest) -> Self {
        Self { request, arrived: Instant::now() }
    }

    /// One header or trailer, in any casing. Headers that say nothing about limits may be left out; secrets must be.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.request.headers.push(Header { name: name.into(), value: value.into() });
        self
    }

    /// Many headers: name and value as bytes, so that any HTTP client's map fits; bytes that are not UTF-8 become Latin-1.
    pub fn headers<N: AsRef<str>, V: AsRef<[u8]>>(mut self, headers: impl IntoIterator<Item = (N, V)>) -> Self {
        let read = |(name, value): (N, V)| Header { name: name.as_ref().to_owned(), value: text(value.as_ref()) };
        self.request.headers.extend(headers.into_iter().map(read));
        self
    }

    /// The body of an error; only its first 8 KiB are sent.
    pub fn body(mut self, body: impl AsRef<[u8]>) -> Self {
        let body = body.as_ref();
        self.request.body = body.get(..LONGEST_BODY).unwrap_or(body).to_vec();
        self
    }

    /// Units really used of one meter: settles what was reserved, in both directions.
    pub fn usage(mut self, meter: impl Into<String>, units: u64) -> Self {
        self.request.usage.insert(meter.into(), units);
        self
    }

    /// The usage is a guess (a stream that was cut off).
    pub fn usage_is_estimated(mut self) -> Self {
        self.request.usage_estimated = true;
        self
    }

    /// Who really answered, when a gateway sent the call elsewhere.
    pub fn served_by(mut self, name: impl Into<String>) -> Self {
        self.request.served_by = name.into();
        self
    }

    /// When the response arrived, if that was before this report was made.
    pub fn arrived(mut self, arrived: Instant) -> Self {
        self.arrived = arrived;
        self
    }

    /// Another report of this response follows: this one is from its first byte, the last one brings the usage.
    pub fn more_follows(mut self) -> Self {
        self.request.r#final = false;
        self
    }

    /// The end of an answer whose headers were told before.
    #[cfg(feature = "http")]
    pub(crate) fn without_headers(mut self) -> Self {
        self.request.headers.clear();
        self
    }

    pub(crate) fn is_final(&self) -> bool {
        self.request.r#final
    }

    /// The request as it is to be sent at `now`: the response has aged until then.
    pub(crate) fn request_at(&self, now: Instant, lease_id: &str, seq: u32, retry: Option<&Retry>) -> ReportRequest {
        let mut request = self.request.clone();
        request.lease_id = lease_id.to_owned();
        request.seq = seq;
        request.age = Some(timing::to_proto(now.saturating_duration_since(self.arrived)));
        request.retry = retry.map(|retry| RetryAsk { wanted: true, ..retry.0.clone() });
        request
    }
}

fn of(outcome: Outcome) -> ReportRequest {
    ReportRequest { outcome: outcome.into(), r#final: true, ..ReportRequest::default() }
}

fn text(bytes: &[u8]) -> String {
    let latin_1 = || bytes.iter().map(|byte| char::from(*byte)).collect();
    std::str::from_utf8(bytes).map_or_else(|_| latin_1(), str::to_owned)
}

/// How the next attempt differs from the one before; by default not at all.
#[derive(Clone, Debug, Default)]
pub struct Retry(pub(crate) RetryAsk);

impl Retry {
    /// Another bound for the time spent waiting for slots, over all attempts.
    pub fn max_wait(mut self, max_wait: Duration) -> Self {
        self.0.max_wait = Some(timing::to_proto(max_wait));
        self
    }

    /// Another cost: the first one set replaces the whole cost of the attempt before.
    pub fn cost(mut self, meter: impl Into<String>, units: u64) -> Self {
        self.0.cost.insert(meter.into(), units);
        self
    }

    /// Another place the call may be sent to.
    pub fn fallback(mut self, target: Target) -> Self {
        self.0.fallbacks.push(target);
        self
    }
}

/// What the service made of a report.
#[derive(Clone, Debug, PartialEq)]
pub struct Reported {
    /// Why the report changed nothing; `None`: it was applied. The signal was read in any case.
    pub not_applied: Option<NotApplied>,
    /// What to do with the call.
    pub verdict: Verdict,
    /// Why, when the verdict is to give up.
    pub reason: Reason,
    /// A sentence for a person.
    pub detail: String,
    /// What was read out of the answer.
    pub signal: Option<Signal>,
}

impl Reported {
    /// The report's own part of the answer, and the answer to the ask in it.
    pub(crate) fn new(response: ReportResponse) -> (Self, Option<AcquireResponse>) {
        let not_applied = (!response.applied).then(|| response.not_applied());
        let (verdict, reason) = (response.verdict(), response.reason());
        (Self { not_applied, verdict, reason, detail: response.detail, signal: response.signal }, response.next)
    }

    /// Whether the call is to be sent again. A service that has lost the lease (it restarted) cannot judge the call; then
    /// what the provider refused outright, and so did not run, is worth asking for again: the service decides on that ask.
    pub(crate) fn is_to_be_sent_again(&self) -> bool {
        let was_refused = self
            .signal
            .as_ref()
            .is_some_and(|signal| signal.retryable && matches!(signal.kind(), AnswerKind::Throttled | AnswerKind::Overloaded));
        match self.verdict {
            Verdict::Retry | Verdict::FailOver => true,
            Verdict::Unspecified => self.not_applied.is_some() && was_refused,
            Verdict::Done | Verdict::GiveUp => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_any_bytes_and_bodies_of_any_length_fit() {
        let headers: [(&str, &[u8]); 3] = [("Retry-After", b"2"), ("retry-after", b"3"), ("x-odd", b"caf\xe9")];
        let report = Report::response(429).headers(headers).body(vec![b'x'; 100_000]);
        let values: Vec<&str> = report.request.headers.iter().map(|header| header.value.as_str()).collect();
        assert_eq!(values, ["2", "3", "caf\u{e9}"], "repeats are kept");
        assert_eq!(report.request.body.len(), LONGEST_BODY);
    }

    #[tokio::test(start_paused = true)]
    async fn a_response_ages_until_it_is_sent() {
        let report = Report::response(429);
        tokio::time::advance(Duration::from_millis(1_500)).await;
        let request = report.request_at(Instant::now(), "lease", 3, None);
        assert_eq!(timing::length(&request.age.unwrap()), Duration::from_millis(1_500));
        assert_eq!((request.lease_id.as_str(), request.seq, request.r#final), ("lease", 3, true));
        assert!(request.retry.is_none());
        let request = report.request_at(Instant::now(), "lease", 3, Some(&Retry::default()));
        assert!(request.retry.unwrap().wanted);
    }

    #[test]
    fn a_lost_lease_is_asked_for_again_only_when_the_provider_refused_the_call() {
        let said = |verdict: Verdict, applied: bool, kind: AnswerKind, retryable: bool| {
            let signal = Signal { kind: kind.into(), retryable, ..Signal::default() };
            let not_applied = if applied { NotApplied::Unspecified } else { NotApplied::LeaseUnknown };
            let response = ReportResponse {
                applied,
                not_applied: not_applied.into(),
                verdict: verdict.into(),
                signal: Some(signal),
                ..ReportResponse::default()
            };
            Reported::new(response).0.is_to_be_sent_again()
        };
        for (verdict, applied, kind, retryable, expected) in [
            (Verdict::Retry, true, AnswerKind::Failed, true, true),
            (Verdict::FailOver, true, AnswerKind::Throttled, true, true),
            (Verdict::GiveUp, true, AnswerKind::Throttled, true, false),
            (Verdict::Done, true, AnswerKind::Ok, false, false),
            (Verdict::Unspecified, true, AnswerKind::Throttled, true, false),
            (Verdict::Unspecified, false, AnswerKind::Throttled, true, true),
            (Verdict::Unspecified, false, AnswerKind::Overloaded, true, true),
            (Verdict::Unspecified, false, AnswerKind::Failed, true, false),
            (Verdict::Unspecified, false, AnswerKind::Throttled, false, false),
        ] {
            assert_eq!(said(verdict, applied, kind, retryable), expected, "{verdict:?} {applied} {kind:?} {retryable}");
        }
    }
}
