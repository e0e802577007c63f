//! From messages to core types and back. Only what needs no configuration and no state is here.
//!
//! A number of an enum that this build does not know is an error in a request (it would be acted on as something else) and
//! reads as `Unspecified` in an answer (which a newer service may have sent).

use paceline_core::mode::{Draw, Mode, Modes};
use paceline_core::plan::{Class, Refill};
use paceline_core::signal::{AnswerKind, ObservedBucket, ObservedOwner, ResetMeans, Signal, Source};
use paceline_core::units::{LONGEST_FLOOR, Span};

use crate::v1;

/// A field of a message that means nothing, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct InvalidField {
    /// Path of the field, as in the proto: `max_wait`, `retry.max_wait`.
    pub field: &'static str,
    /// What is wrong with it.
    pub problem: Problem,
}

/// What can be wrong with one field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// A length of time below zero.
    #[error("is negative; a length of time from now is zero or more")]
    Negative,
    /// A length of time over 31 days.
    #[error("is longer than 31 days, which nothing here waits for; leave it out or shorten it")]
    TooLong,
    /// Nanoseconds outside 0..=999,999,999, or of the other sign than the seconds.
    #[error("is not a valid google.protobuf.Duration: nanos must be within a second and have the sign of seconds")]
    NotNormalised,
    /// A number that the enum does not have.
    #[error("has no value {0}; it may come from a newer version of the contract than this service's")]
    UnknownNumber(i32),
}

/// Reads a length of time that a peer sent: 0 to 31 days, cut to whole microseconds.
pub fn span(field: &'static str, duration: &prost_types::Duration) -> Result<Span, InvalidField> {
    const NANOS_PER_SECOND: i32 = 1_000_000_000;
    let invalid = |problem| Err(InvalidField { field, problem });
    let (secs, nanos) = (duration.seconds, duration.nanos);
    if nanos <= -NANOS_PER_SECOND || nanos >= NANOS_PER_SECOND || (secs > 0 && nanos < 0) || (secs < 0 && nanos > 0) {
        return invalid(Problem::NotNormalised);
    }
    if secs < 0 || nanos < 0 {
        return invalid(Problem::Negative);
    }
    let span = Span::from_secs(secs).saturating_add(Span::from_micros(i64::from(nanos) / 1_000));
    if span > LONGEST_FLOOR { invalid(Problem::TooLong) } else { Ok(span) }
}

/// Reads a length of time that may be absent.
pub fn optional_span(field: &'static str, duration: Option<&prost_types::Duration>) -> Result<Option<Span>, InvalidField> {
    duration.map(|duration| span(field, duration)).transpose()
}

/// Writes a length of time; a negative one (there should be none) is written as zero.
pub fn duration(span: Span) -> prost_types::Duration {
    let micros = span.at_least_zero().as_micros();
    // The remainder is below a million, so the nanoseconds fit.
    let nanos = i32::try_from(micros % 1_000_000).unwrap_or(0).saturating_mul(1_000);
    prost_types::Duration { seconds: micros / 1_000_000, nanos }
}

/// Reads an enum's number in a request; unknown ones are an error.
pub fn known<E: TryFrom<i32>>(field: &'static str, number: i32) -> Result<E, InvalidField> {
    E::try_from(number).map_err(|_| InvalidField { field, problem: Problem::UnknownNumber(number) })
}

/// Reads a priority in a request; zero is [`Class::Normal`].
pub fn class(field: &'static str, number: i32) -> Result<Class, InvalidField> {
    known::<v1::Priority>(field, number).map(Class::from)
}

/// Reads a source in an answer; unspecified and unknown ones are [`Source::None`].
pub fn source(number: i32) -> Source {
    v1::Source::try_from(number).map_or(Source::None, Source::from)
}

/// Writes what was read out of an answer; `honored` is the floor that was really set for it, if any.
pub fn signal(signal: &Signal, honored: Option<Span>) -> v1::Signal {
    // The longest length of time that is told as read: 2^31 s, some 68 years.
    const LONGEST_AS_READ: Span = Span::from_secs(1 << 31);
    v1::Signal {
        source: v1::Source::from(signal.source).into(),
        retry_after: signal.retry_after.map(|wait| duration(wait.min(LONGEST_AS_READ))),
        honored: honored.map(|wait| duration(wait.min(LONGEST_FLOOR))),
        buckets: signal.buckets.iter().map(observed_bucket).collect(),
        retryable: signal.retryable,
        unread_headers: signal.unread_headers.clone(),
        malformed_headers: signal.malformed_headers.clone(),
        kind: v1::AnswerKind::from(signal.kind).into(),
        field: signal.field.clone(),
    }
}

/// Writes which part of all calls is in which mode; modes that none is in are left out.
pub fn mode_shares(modes: Modes) -> Vec<v1::ModeShare> {
    let some = Mode::ALL.into_iter().rev().filter(|mode| modes.part(*mode) > 0);
    some.map(|mode| v1::ModeShare {
        mode: v1::Mode::from(mode).into(),
        share: f64::from(modes.part(mode)) / f64::from(Draw::WHOLE),
    })
    .collect()
}

/// The mode that most calls are in; of equal parts the one that interferes more.
pub fn main_mode(modes: Modes) -> v1::Mode {
    Mode::ALL.into_iter().max_by_key(|mode| modes.part(*mode)).map_or(v1::Mode::Unspecified, v1::Mode::from)
}

fn observed_bucket(bucket: &ObservedBucket) -> v1::ObservedBucket {
    v1::ObservedBucket {
        name: bucket.name.clone(),
        limit: bucket.limit,
        remaining: bucket.remaining,
        reset_in: bucket.reset_in.map(duration),
        reset_means: v1::ResetMeans::from(bucket.reset_means).into(),
        meter: bucket.meter.clone(),
        window: bucket.window.map(duration),
        owner: v1::ObservedOwner::from(bucket.owner).into(),
    }
}

/// The values of a core enum and of a message's enum that are the same, both ways; what only the message has is listed after.
macro_rules! same_values {
    ($core:ty, $message:ty, { $($core_value:ident = $message_value:ident),+ $(,)? }, $($only:ident => $reads_as:ident),* $(,)?) => {
        impl From<$core> for $message {
            fn from(value: $core) -> Self {
                match value { $(<$core>::$core_value => <$message>::$message_value),+ }
            }
        }
        impl From<$message> for $core {
            fn from(value: $message) -> Self {
                match value {
                    $(<$message>::$message_value => <$core>::$core_value,)+
                    $(<$message>::$only => <$core>::$reads_as,)*
                }
            }
        }
    };
}

same_values!(Class, v1::Priority, { Interactive = Interactive, Normal = Normal, Batch = Batch }, Unspecified => Normal);
same_values!(Source, v1::Source, {
    None = None, Pacing = Pacing, Bucket = Bucket, RetryAfterSeconds = RetryAfterSeconds, RetryAfterDate = RetryAfterDate,
    RetryAfterMs = RetryAfterMs, ResetHeader = ResetHeader, ErrorBody = ErrorBody, Backoff = Backoff, Ramp = Ramp,
    Concurrency = Concurrency, FairShare = FairShare, Jitter = Jitter, Store = Store, Paused = Paused,
}, Unspecified => None);
same_values!(ResetMeans, v1::ResetMeans, { Unspecified = Unspecified, Full = Full, Window = Window },);
same_values!(ObservedOwner, v1::ObservedOwner, { Group = Group, Account = Account }, Unspecified => Group);
same_values!(AnswerKind, v1::AnswerKind, {
    Ok = Ok, Throttled = Throttled, Overloaded = Overloaded, QuotaExhausted = QuotaExhausted, Impossible = Impossible,
    Failed = Failed, Rejected = Rejected,
}, Unspecified => Failed);
same_values!(Mode, v1::Mode, { Off = Off, Shadow = Shadow, Enforce = Enforce }, Unspecified => Enforce);
same_values!(Refill, v1::Refill, { Continuous = Continuous, Window = Window, Held = Held }, Unspecified => Continuous);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use prost_types::Duration;

    #[test]
    fn lengths_of_time_are_checked() {
        let cases: [(i64, i32, Result<i64, Problem>); 15] = [
            (0, 0, Ok(0)),
            (2, 500_000_000, Ok(2_500_000)),
            (0, 999, Ok(0)),
            (0, 1_999, Ok(1)),
            (31 * 86_400, 0, Ok(31 * 86_400_000_000)),
            (31 * 86_400, 1_000, Err(Problem::TooLong)),
            (i64::MAX, 999_999_999, Err(Problem::TooLong)),
            (-1, 0, Err(Problem::Negative)),
            (0, -1, Err(Problem::Negative)),
            (i64::MIN, -999_999_999, Err(Problem::Negative)),
            (1, -1, Err(Problem::NotNormalised)),
            (-1, 1, Err(Problem::NotNormalised)),
            (0, 1_000_000_000, Err(Problem::NotNormalised)),
            (0, i32::MAX, Err(Problem::NotNormalised)),
            (0, i32::MIN, Err(Problem::NotNormalised)),
        ];
        for (seconds, nanos, expected) in cases {
            let got = span("max_wait", &Duration { seconds, nanos });
            let expected = expected.map(Span::from_micros).map_err(|problem| InvalidField { field: "max_wait", problem });
            assert_eq!(got, expected, "{seconds} s {nanos} ns");
        }
        assert_eq!(optional_span("hold", None), Ok(None));
    }

    #[test]
    fn an_error_names_the_field_and_what_to_do() {
        let error = span("retry.max_wait", &Duration { seconds: -5, nanos: 0 }).unwrap_err();
        assert_eq!(error.to_string(), "retry.max_wait: is negative; a length of time from now is zero or more");
        let error = class("priority", 77).unwrap_err();
        assert!(error.to_string().starts_with("priority: has no value 77"), "{error}");
    }

    #[test]
    fn lengths_of_time_round_trip() {
        for micros in [0, 1, 999_999, 1_000_000, 1_500_000, LONGEST_FLOOR.as_micros()] {
            let there = Span::from_micros(micros);
            assert_eq!(span("wait", &duration(there)), Ok(there));
        }
        assert_eq!(duration(Span::from_micros(-7)), Duration { seconds: 0, nanos: 0 });
        assert_eq!(duration(Span::MAX).seconds, i64::MAX / 1_000_000);
    }

    /// Every value of a message's enum goes to the core and back; unspecified ones may come back as what they read as.
    fn round_trips<M, C>(unspecified_reads_as: i32)
    where
        M: TryFrom<i32> + Into<i32> + Into<C> + From<C>,
    {
        let mut count = 0;
        for number in 0..200 {
            let Ok(message) = M::try_from(number) else { continue };
            let core: C = message.into();
            let back: i32 = M::from(core).into();
            assert_eq!(back, if number == 0 { unspecified_reads_as } else { number });
            count += 1;
        }
        assert!(count > 2, "the enum has values");
        assert!(M::try_from(-1).is_err() && M::try_from(i32::MAX).is_err());
    }

    #[test]
    fn every_enum_value_round_trips() {
        round_trips::<v1::Priority, Class>(v1::Priority::Normal.into());
        round_trips::<v1::Source, Source>(v1::Source::None.into());
        round_trips::<v1::ResetMeans, ResetMeans>(v1::ResetMeans::Unspecified.into());
        round_trips::<v1::ObservedOwner, ObservedOwner>(v1::ObservedOwner::Group.into());
        round_trips::<v1::AnswerKind, AnswerKind>(v1::AnswerKind::Failed.into());
        round_trips::<v1::Mode, Mode>(v1::Mode::Enforce.into());
        round_trips::<v1::Refill, Refill>(v1::Refill::Continuous.into());
    }

    #[test]
    fn core_values_keep_their_names_on_the_wire() {
        for core in Source::ALL {
            let name = v1::Source::from(core).as_str_name().to_lowercase();
            assert_eq!(name, format!("source_{}", core.name()));
            assert_eq!(source(v1::Source::from(core).into()), core);
        }
        for core in Class::ALL {
            assert_eq!(v1::Priority::from(core).as_str_name().to_lowercase(), format!("priority_{}", core.name()));
        }
    }

    #[test]
    fn numbers_of_a_newer_contract_are_refused_in_requests_and_read_in_answers() {
        assert_eq!(class("priority", 0), Ok(Class::Normal));
        assert!(class("priority", 99).is_err() && class("priority", -1).is_err());
        assert!(known::<v1::Outcome>("outcome", 99).is_err());
        assert_eq!(source(99), Source::None);
        assert_eq!(source(0), Source::None);
    }

    #[test]
    fn signals_tell_what_was_read_and_what_is_honored() {
        let read = Signal {
            kind: AnswerKind::Throttled,
            retry_after: Some(Span::MAX),
            source: Source::RetryAfterSeconds,
            field: "retry-after".into(),
            buckets: vec![ObservedBucket { name: "requests".into(), remaining: Some(0), ..ObservedBucket::default() }],
            retryable: true,
            ..Signal::default()
        };
        let told = signal(&read, Some(Span::MAX));
        assert_eq!(told.retry_after.unwrap().seconds, 1 << 31);
        assert_eq!(told.honored.unwrap().seconds, 31 * 86_400);
        assert_eq!(told.source(), v1::Source::RetryAfterSeconds);
        let [bucket] = told.buckets.as_slice() else { unreachable!("one bucket") };
        assert_eq!((bucket.limit, bucket.remaining), (None, Some(0)), "not said is not zero");
        assert_eq!(signal(&Signal::default(), None).source(), v1::Source::None);
    }
}
