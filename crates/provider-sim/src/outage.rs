//! Times in which the provider is down: every call fails, whatever the meters hold.

use std::str::FromStr;

use paceline_core::units::{FleetTime, Span};

use crate::error::SimError;
use crate::parse::parse_span;

/// What a call meets in an outage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// An answer with this status, 400 to 599.
    Status(u16),
    /// No answer: the connection is reset.
    Reset,
}

/// What an outage's answers say about coming back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Comeback {
    /// Nothing.
    #[default]
    Untold,
    /// `Retry-After` with the time until the outage ends, rounded up.
    Remaining,
    /// `Retry-After` with always the same time.
    Fixed(Span),
}

impl FromStr for Comeback {
    type Err = SimError;
    /// Reads `none`, `remaining`, or a time such as `5s`.
    fn from_str(text: &str) -> Result<Self, SimError> {
        match text.trim() {
            "none" => Ok(Self::Untold),
            "remaining" => Ok(Self::Remaining),
            time => parse_span(time).map(Self::Fixed),
        }
    }
}

/// A time in which every call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    /// When it begins, counted from the provider's start.
    pub from: Span,
    /// How long it lasts.
    pub length: Span,
    /// What calls meet.
    pub failure: Failure,
    /// What they are told.
    pub comeback: Comeback,
    /// Whether they are charged their requests all the same.
    pub charged: bool,
}

impl Outage {
    /// 503 without a word; nothing is charged.
    pub fn new(from: Span, length: Span) -> Self {
        Self { from, length, failure: Failure::Status(503), comeback: Comeback::Untold, charged: false }
    }

    /// Refuses what is no outage.
    pub fn validate(&self) -> Result<(), SimError> {
        match self.failure {
            Failure::Status(status) if !(400..=599).contains(&status) => {
                Err(self.bad("its status must be an error, 400 to 599"))
            }
            _ if self.length <= Span::ZERO => Err(self.bad("it has no length")),
            _ if self.from < Span::ZERO => Err(self.bad("it begins before the start")),
            _ => Ok(()),
        }
    }

    /// From when to when, on a provider that started at `start`.
    pub(crate) fn bounds(&self, start: FleetTime) -> (FleetTime, FleetTime) {
        let from = start + self.from;
        (from, from + self.length)
    }

    /// What a call that arrives so long before the end is told to wait.
    pub(crate) fn told(&self, remaining: Span) -> Option<Span> {
        match self.comeback {
            Comeback::Untold => None,
            Comeback::Remaining => Some(remaining),
            Comeback::Fixed(wait) => Some(wait),
        }
    }

    fn bad(&self, problem: &'static str) -> SimError {
        SimError::BadOutage { text: format!("from {} for {}", self.from, self.length), problem }
    }
}

impl FromStr for Outage {
    type Err = SimError;
    /// Reads `FROM+LENGTH[=STATUS|=reset]`, such as `30s+30s=529`.
    fn from_str(text: &str) -> Result<Self, SimError> {
        let bad = |problem| SimError::BadOutage { text: text.to_owned(), problem };
        let (times, failure) = text.split_once('=').unwrap_or((text, "503"));
        let (from, length) = times.split_once('+').ok_or_else(|| bad("the + between its begin and its length is missing"))?;
        let failure = match failure.trim() {
            "reset" => Failure::Reset,
            status => Failure::Status(status.parse().map_err(|_| bad("after = stands a status or the word reset"))?),
        };
        let outage = Self { failure, ..Self::new(parse_span(from)?, parse_span(length)?) };
        outage.validate().map(|()| outage)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn outages_as_written() {
        let secs = Span::from_secs;
        assert_eq!("30s+1min".parse(), Ok(Outage::new(secs(30), secs(60))));
        let overloaded = Outage { failure: Failure::Status(529), ..Outage::new(Span::ZERO, secs(5)) };
        assert_eq!("0s+5s=529".parse(), Ok(overloaded));
        assert_eq!("1s+5s=reset".parse(), Ok(Outage { failure: Failure::Reset, ..Outage::new(secs(1), secs(5)) }));
        for (text, problem) in [
            ("30s", "the + between"),
            ("30+5s", "the unit is missing"),
            ("1s+0s", "it has no length"),
            ("1s+5s=200", "must be an error"),
            ("1s+5s=down", "the word reset"),
        ] {
            let error = text.parse::<Outage>().unwrap_err().to_string();
            assert!(error.contains(problem), "{text}: {error}");
        }
        assert_eq!("remaining".parse(), Ok(Comeback::Remaining));
        assert_eq!("none".parse(), Ok(Comeback::Untold));
        assert_eq!("1.5s".parse(), Ok(Comeback::Fixed(Span::from_millis(1_500))));
        assert!("soon".parse::<Comeback>().unwrap_err().to_string().contains("not a length of time"));
    }
}
