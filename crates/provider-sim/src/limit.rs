//! What is limited: a number of units of a meter per window, for some models.

use std::str::FromStr;
use std::sync::Arc;

use paceline_core::units::{Milli, Span};

use crate::error::SimError;
use crate::parse::choose;

/// The meter that counts calls; a call that states no cost for it costs one.
pub const REQUESTS: &str = "requests";
/// The largest limit, in units.
pub const MOST_UNITS: u64 = 1_000_000_000_000_000;
/// The shortest and the longest window.
pub const WINDOWS: (Span, Span) = (Span::from_millis(1), Span::from_secs(31 * 86_400));

/// How units come back, and over what interval the limit is enforced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Metering {
    /// Refills evenly, up to its capacity; `reset` is the time until full (what most LLM providers do).
    #[default]
    TokenBucket,
    /// The whole limit returns at the end of each window; windows start at `phase` after the Unix epoch and follow each other.
    FixedWindow {
        /// Start of any one window.
        phase: Span,
    },
    /// As a token bucket in what it tells, but in truth no more than an interval's share passes at once: 1,200 a minute may be
    /// enforced as 20 a second. The headers of a refused call then show room.
    EnforcedEvery {
        /// The enforced interval, usually a second.
        interval: Span,
    },
}

impl Metering {
    /// Enforced every second.
    pub const PER_SECOND: Self = Self::EnforcedEvery { interval: Span::from_secs(1) };

    /// Every way of counting with its name on the command line; windows start with the epoch.
    pub const ALL: [(&'static str, Self); 3] = [
        ("token-bucket", Self::TokenBucket),
        ("fixed-window", Self::FixedWindow { phase: Span::ZERO }),
        ("per-second", Self::PER_SECOND),
    ];
}

impl FromStr for Metering {
    type Err = SimError;
    fn from_str(text: &str) -> Result<Self, SimError> {
        choose(text, "way of metering", &Self::ALL)
    }
}

/// So many units of a meter per window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// What it counts: `requests`, `tokens`, `input_tokens`, ...; the key into a call's cost.
    pub meter: Arc<str>,
    /// Units per window.
    pub units: u64,
    /// The window.
    pub per: Span,
    /// What a token bucket can hold, in units; `None`: the limit. A fixed window has no such thing.
    pub burst: Option<u64>,
    /// How it is counted.
    pub metering: Metering,
}

impl Limit {
    /// A token bucket of `units` per `per`.
    pub fn new(meter: &str, units: u64, per: Span) -> Self {
        Self { meter: meter.into(), units, per, burst: None, metering: Metering::TokenBucket }
    }

    /// The same limit, counted another way.
    pub fn metered(self, metering: Metering) -> Self {
        Self { metering, ..self }
    }

    /// What fits at once, as an amount.
    pub fn capacity(&self) -> Milli {
        Milli::from_units(self.burst.unwrap_or(self.units))
    }

    /// Refuses what cannot be metered: no units, no window, a burst where there is none.
    pub fn validate(&self) -> Result<(), SimError> {
        let problem = if self.meter.is_empty() {
            "the meter has no name"
        } else if self.units == 0 {
            "a limit of 0 lets nothing through"
        } else if self.units > MOST_UNITS {
            "more than 10^15 units"
        } else if self.per < WINDOWS.0 || self.per > WINDOWS.1 {
            "the window must be between 1 ms and 31 days"
        } else if self.burst == Some(0) {
            "a burst of 0 lets nothing through"
        } else if self.burst.is_some_and(|burst| burst > MOST_UNITS) {
            "a burst of more than 10^15 units"
        } else {
            return self.validate_metering();
        };
        Err(self.bad(problem))
    }

    fn validate_metering(&self) -> Result<(), SimError> {
        match self.metering {
            Metering::FixedWindow { .. } if self.burst.is_some() => {
                Err(self.bad("a fixed window has no burst: all of its limit may go at once"))
            }
            Metering::EnforcedEvery { interval } if interval < WINDOWS.0 || interval > self.per => {
                Err(self.bad("the enforced interval must be between 1 ms and the limit's own window"))
            }
            _ => Ok(()),
        }
    }

    fn bad(&self, problem: &str) -> SimError {
        SimError::BadLimit { text: format!("{}={}/{}", self.meter, self.units, self.per), problem: problem.to_owned() }
    }
}

/// A model name in which each `*` stands for any text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelPattern(Arc<str>);

impl ModelPattern {
    /// Matches every model.
    pub fn any() -> Self {
        Self("*".into())
    }

    /// A pattern as written.
    pub fn new(pattern: &str) -> Self {
        Self(pattern.into())
    }

    /// As written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the whole of `model` fits.
    pub fn matches(&self, model: &str) -> bool {
        let mut parts = self.0.split('*');
        let Some(mut rest) = parts.next().and_then(|first| model.strip_prefix(first)) else { return false };
        let mut parts: Vec<&str> = parts.collect();
        let Some(last) = parts.pop() else { return rest.is_empty() };
        for part in parts {
            let Some(at) = rest.find(part) else { return false };
            rest = rest.get(at + part.len()..).unwrap_or_default();
        }
        rest.len() >= last.len() && rest.ends_with(last)
    }
}

/// Limits that some models have: together, or each its own. A call is charged in every group its model matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitGroup {
    /// Which models.
    pub models: ModelPattern,
    /// Whether each matching model has its own meters; otherwise they share them.
    pub each: bool,
    /// The limits.
    pub limits: Vec<Limit>,
}

impl LimitGroup {
    /// Limits shared by all models.
    pub fn shared(limits: Vec<Limit>) -> Self {
        Self { models: ModelPattern::any(), each: false, limits }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn patterns_match_whole_names() {
        for (pattern, model, fits) in [
            ("*", "", true),
            ("*", "gpt-4o", true),
            ("gpt-4o", "gpt-4o", true),
            ("gpt-4o", "gpt-4o-mini", false),
            ("gpt-4o*", "gpt-4o-mini", true),
            ("gpt-4o*", "gpt-3.5", false),
            ("*mini", "gpt-4o-mini", true),
            ("*mini", "gpt-4o-mini-2", false),
            ("g*4*i", "gpt-4o-mini", true),
            ("ab*ba", "aba", false),
            ("a*b*c", "a-c-b", false),
        ] {
            assert_eq!(ModelPattern::new(pattern).matches(model), fits, "{pattern} {model}");
        }
    }

    #[test]
    fn limits_that_cannot_be_metered_are_refused() {
        let minute = Span::from_secs(60);
        let good = Limit::new("requests", 60, minute);
        good.validate().unwrap();
        for bad in [
            Limit::new("", 1, minute),
            Limit::new("requests", 0, minute),
            Limit::new("requests", u64::MAX, minute),
            Limit::new("requests", 1, Span::ZERO),
            Limit::new("requests", 1, Span::MAX),
            Limit { burst: Some(0), ..good.clone() },
            Limit { burst: Some(5), ..good.clone() }.metered(Metering::FixedWindow { phase: Span::ZERO }),
            good.clone().metered(Metering::EnforcedEvery { interval: Span::ZERO }),
            good.metered(Metering::EnforcedEvery { interval: Span::from_secs(61) }),
        ] {
            assert!(matches!(bad.validate(), Err(SimError::BadLimit { .. })), "{bad:?}");
        }
    }
}
