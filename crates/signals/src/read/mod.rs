//! Reading an answer: headers are matched to rules, the clock is found, then buckets, waits and the kind of answer.
//!
//! The order of the ladder, and why, is in `docs/internals/reading-headers.md`.

mod body;
mod buckets;
mod classify;
mod clock;
mod draft;
mod figures;
mod hits;
mod identity;
mod quotas;
mod rate_limit;
mod reading;
mod refusal;
mod sentence;
mod shortage;
mod told;
mod waits;

use paceline_core::signal::{AnswerKind, Signal, Source};
use paceline_core::units::Span;

pub use identity::identity;
pub use reading::{BucketReading, Reading, Rule};

use crate::answer::Answer;
use crate::catalogue::Provider;

/// The longest wait or reset that is kept, 2^31 seconds: what RFC 9111 (section 1.2.2) makes of a number that is too large.
pub const LONGEST_READ: Span = Span::from_secs(1 << 31);

/// Reads an answer. Pure: no clock, no I/O, never a panic.
///
/// `retry_after` and every `reset_in` count from the moment the answer arrived at the worker; the caller subtracts the time
/// since then ([`Answer::age`]).
pub fn read(provider: &Provider, answer: &Answer<'_>) -> Signal {
    let Reading { signal, buckets, .. } = assemble(provider, answer, false);
    let observed = buckets.into_iter().filter(BucketReading::says_something).map(BucketReading::into_observed);
    Signal { buckets: observed.collect(), ..signal }
}

/// Reads an answer and says how: which fields, by which rules, and the figures as they were sent.
pub fn read_in_full(provider: &Provider, answer: &Answer<'_>) -> Reading {
    let mut reading = assemble(provider, answer, true);
    reading.signal.buckets = reading.buckets.iter().filter_map(BucketReading::observed).collect();
    reading
}

/// A reading whose signal has no buckets yet.
fn assemble(provider: &Provider, answer: &Answer<'_>, in_full: bool) -> Reading {
    let mut hits = hits::Hits::collect(provider, answer.headers);
    let clock = clock::Clock::find(&hits, answer);
    let grpc = answer.grpc_status.or_else(|| hits.grpc_status());
    let keeps_fields = in_full || !(200..400).contains(&answer.status);
    let buckets = buckets::read(provider, &mut hits, &clock, keeps_fields);
    let header_wait = waits::from_headers(provider, &mut hits, &clock);
    let body = body::Body::parse(provider, answer, grpc);
    let mut said = Said::read(provider, &body, &clock, header_wait.details);
    let buckets = buckets::with(buckets, std::mem::take(&mut said.buckets));

    let view = classify::View {
        status: u32::from(answer.status),
        grpc,
        headers: answer.headers,
        body: &body,
        has_wait: header_wait.wait.is_some() || said.stated.is_some() || said.quotas.wait.is_some(),
        has_empty: !said.quotas.buckets.is_empty() || buckets.iter().chain(&said.told).any(BucketReading::is_empty),
        has_zero: said.quotas.has_zero,
    };
    let verdict = classify::classify(provider, &view, &hits, header_wait.forbidden);
    let is_ok = verdict.kind == AnswerKind::Ok;
    if !(is_ok || keeps_fields) {
        // A refusal under the status of a success, whose wait names its header.
        return assemble(provider, answer, true);
    }
    if verdict.kind == AnswerKind::QuotaExhausted {
        // Where nothing is to be had, nothing comes back at midnight either.
        said.quotas = quotas::Quotas::default();
    }
    let names_refused = header_wait.wait.is_none() && !is_ok;
    let refused = if names_refused { refusal::read(provider, &hits, &clock) } else { Vec::new() };
    let buckets = buckets::with(buckets, refused);

    // The ladder. What a success says about its buckets paces them; only a wait that is addressed to the caller holds it up.
    let unaddressed = || waits::from_buckets(&buckets).or(said.quotas.wait).or(said.stated);
    let wait = if is_ok { header_wait.wait } else { header_wait.wait.or_else(unaddressed) };

    let mut buckets = buckets::with(buckets::with(buckets, said.told), said.quotas.buckets);
    if is_ok {
        buckets.iter_mut().for_each(BucketReading::forget_past_window);
    }
    let (retry_after, source, field, rule) = match wait {
        Some(wait) => (Some(wait.span.min(LONGEST_READ)), wait.source, wait.field, wait.rule),
        None => (None, Source::None, String::new(), Rule::Nothing),
    };
    let (kind, retryable) = (verdict.kind, verdict.retryable);
    let (unread_headers, malformed_headers) = (hits.unread, hits.malformed);
    let signal = Signal { kind, retry_after, source, field, retryable, unread_headers, malformed_headers, ..Signal::default() };
    Reading { signal, buckets, rule, is_server_clock: clock.is_servers }
}

/// What the body says.
struct Said {
    /// Buckets with figures that count like those of headers.
    buckets: Vec<BucketReading>,
    /// Buckets of headers that it repeats, and of lists.
    told: Vec<BucketReading>,
    /// The wait it states, or the details of a gRPC error, which are as good as a body.
    stated: Option<waits::Wait>,
    quotas: quotas::Quotas,
}

impl Said {
    fn read(provider: &Provider, body: &body::Body<'_>, clock: &clock::Clock, details: Option<waits::Wait>) -> Self {
        let (buckets, shortage) = shortage::read(provider, body);
        let (told, told_wait) = told::read(provider, body, clock);
        let stated = details.or(shortage).or(told_wait).or_else(|| body.wait(provider, clock));
        let quotas = quotas::read(provider, body, clock, stated.as_ref());
        Self { buckets, told, stated, quotas }
    }
}
