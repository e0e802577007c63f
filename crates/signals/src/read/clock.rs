//! The server's clock: dates and epochs mean its time, not ours (RFC 9110, section 6.6.1).

use paceline_core::units::{FleetTime, Span};

use super::LONGEST_READ;
use super::hits::Hits;
use crate::answer::Answer;
use crate::catalogue::Target;
use crate::value::date;
use crate::value::number::Number;
use crate::value::time::When;

/// What time it was at the server when the answer arrived.
pub(super) struct Clock {
    /// `None` when neither the answer nor the caller knows.
    pub(super) now: Option<FleetTime>,
    /// Whether the server said so itself.
    pub(super) is_servers: bool,
}

impl Clock {
    /// `Date` plus `Age` (an answer from a cache is that old, RFC 9111, section 5.1), else the caller's clock.
    pub(super) fn find(hits: &Hits<'_, '_>, answer: &Answer<'_>) -> Self {
        let arrived_at = answer.arrived_at();
        let value = |target: &Target<'_>| hits.first(target).and_then(|hit| hit.value);
        let servers = value(&Target::Date).and_then(|text| date::http_date(text, arrived_at.unwrap_or_default()));
        let age = value(&Target::Age).and_then(Number::parse).filter(|age| !age.negative);
        let age = age.map_or(Span::ZERO, |age| age.as_span(1_000_000).min(LONGEST_READ));
        Self { now: servers.map(|date| date + age).or(arrived_at), is_servers: servers.is_some() }
    }

    /// For dates with a two-digit year.
    pub(super) fn near(&self) -> FleetTime {
        self.now.unwrap_or_default()
    }

    /// From now until then, rounded up to whole milliseconds; what is over is zero. `None` for an instant without a clock.
    pub(super) fn until(&self, when: When) -> Option<Span> {
        let span = match when {
            When::In(span) => span,
            When::At(at) => at - self.now?,
        };
        let millis = span.at_least_zero().min(LONGEST_READ).as_millis_ceil();
        Some(Span::from_millis(millis))
    }

    /// Whether an instant is over.
    pub(super) fn is_past(&self, at: FleetTime) -> bool {
        self.now.is_some_and(|now| at < now)
    }
}
