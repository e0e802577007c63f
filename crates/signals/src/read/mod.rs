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
    read_in_full(provider, answer).signal
}

/// Reads an answer and says how: which fields, by which rules, and the figures as they were sent.
pub fn read_in_full(provider: &Provider, answer: &Answer<'_>) -> Reading {
    let mut hits = hits::Hits::collect(provider, answer.headers);
    let clock = clock::Clock::find(&hits, answer);
    let grpc = answer.grpc_status.or_else(|| hits.grpc_status());
    let buckets = buckets::read(provider, &mut hits, &clock);
    let header_wait = waits::from_headers(provider, &mut hits, &clock);

    let body = body::Body::parse(provider, answer, grpc);
    let (body_buckets, shortage) = shortage::read(provider, &body);
    let (told, told_wait) = told::read(provider, &body, &clock);
    let stated = header_wait.details.or(shortage).or(told_wait).or_else(|| body.wait(provider, &clock));
    let quotas = quotas::read(provider, &body, &clock, stated.as_ref());
    let buckets = buckets::with(buckets, body_buckets);
    let view = classify::View {
        status: u32::from(answer.status),
        grpc,
        headers: answer.headers,
        body: &body,
        has_wait: header_wait.wait.is_some() || stated.is_some() || quotas.wait.is_some(),
        has_empty: !quotas.buckets.is_empty() || buckets.iter().chain(&told).any(BucketReading::is_empty),
        has_zero: quotas.has_zero,
    };
    let verdict = classify::classify(provider, &view, &hits, header_wait.forbidden);

    // Where nothing is to be had, nothing comes back at midnight either.
    let quotas = if verdict.kind == AnswerKind::QuotaExhausted { quotas::Quotas::default() } else { quotas };
    let refused = if header_wait.wait.is_none() && verdict.kind != AnswerKind::Ok {
        refusal::read(provider, &hits, &clock)
    } else {
        Vec::new()
    };
    let buckets = buckets::with(buckets, refused);

    // The ladder. What a success says about its buckets paces them; only a wait that is addressed to the caller holds it up.
    let is_ok = verdict.kind == AnswerKind::Ok;
    let unaddressed = || waits::from_buckets(&buckets).or(quotas.wait).or(stated);
    let wait = if is_ok { header_wait.wait } else { header_wait.wait.or_else(unaddressed) };

    let buckets = buckets::with(buckets::with(buckets, told), quotas.buckets);
    let buckets = if is_ok { buckets.into_iter().map(BucketReading::without_past_window).collect() } else { buckets };
    let (retry_after, source, field, rule) = match wait {
        Some(wait) => (Some(wait.span.min(LONGEST_READ)), wait.source, wait.field, wait.rule),
        None => (None, Source::None, String::new(), Rule::Nothing),
    };
    Reading {
        signal: Signal {
            kind: verdict.kind,
            retry_after,
            source,
            field,
            buckets: buckets.iter().filter_map(BucketReading::observed).collect(),
            retryable: verdict.retryable,
            unread_headers: hits.unread,
            malformed_headers: hits.malformed,
        },
        buckets,
        rule,
        is_server_clock: clock.is_servers,
    }
}
