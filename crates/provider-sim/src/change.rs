//! Limits that become others while calls come: a plan is raised, a provider cuts everyone back.

use std::str::FromStr;

use paceline_core::units::Span;

use crate::error::SimError;
use crate::limit::{Limit, LimitGroup, MOST_UNITS};
use crate::parse::{parse_limits, parse_percent, parse_span};

/// New limits from an instant on. What meters hold stays, as far as it still fits; they refill at the new rate from then on,
/// and headers tell the new limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitChange {
    /// When, counted from the provider's start.
    pub at: Span,
    /// What they become.
    pub to: NewLimits,
}

/// What limits become.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NewLimits {
    /// All of them so many millionths of what they were at the start: 500,000 halves them.
    Scaled {
        /// Millionths.
        ppm: u64,
    },
    /// These, in place of those of the same models, meter and window; models of `*` stand for those of every group.
    Stated(LimitGroup),
}

impl LimitChange {
    /// Refuses new limits that replace nothing.
    pub fn validate(&self, groups: &[LimitGroup]) -> Result<(), SimError> {
        let NewLimits::Stated(new) = &self.to else { return Ok(()) };
        for limit in &new.limits {
            limit.validate()?;
            let replaced = groups.iter().any(|group| is_meant(new, group) && group.limits.iter().any(|old| same(old, limit)));
            if !replaced {
                let text = format!("{}={}/{}", limit.meter, limit.units, limit.per);
                return Err(SimError::ChangesNothing { text, models: new.models.as_str().to_owned() });
            }
        }
        Ok(())
    }

    /// What a limit of this group, which was `first` at the start, becomes; `None`: it stays as it is.
    pub(crate) fn of(&self, group: &LimitGroup, first: &Limit) -> Option<Limit> {
        match &self.to {
            NewLimits::Scaled { ppm } => {
                let scaled = |units: u64| scaled(units, *ppm);
                Some(Limit { units: scaled(first.units), burst: first.burst.map(scaled), ..first.clone() })
            }
            NewLimits::Stated(new) if is_meant(new, group) => {
                let limit = new.limits.iter().find(|limit| same(limit, first))?;
                Some(Limit { units: limit.units, burst: limit.burst.or(first.burst), ..first.clone() })
            }
            NewLimits::Stated(_) => None,
        }
    }
}

fn is_meant(new: &LimitGroup, group: &LimitGroup) -> bool {
    new.models.as_str() == "*" || new.models == group.models
}

fn same(a: &Limit, b: &Limit) -> bool {
    a.meter == b.meter && a.per == b.per
}

/// To the nearest unit, at least one: a limit of none is none.
fn scaled(units: u64, ppm: u64) -> u64 {
    let scaled = (u128::from(units) * u128::from(ppm) + 500_000) / 1_000_000;
    u64::try_from(scaled).unwrap_or(MOST_UNITS).clamp(1, MOST_UNITS)
}

impl FromStr for LimitChange {
    type Err = SimError;
    /// Reads `AT=LIMIT[,LIMIT]...` or `AT=PERCENT%`, such as `60s=requests=600/min` or `60s=50%`.
    fn from_str(text: &str) -> Result<Self, SimError> {
        let (at, to) = text.split_once('=').ok_or_else(|| SimError::BadChange { text: text.to_owned() })?;
        let to = if to.trim().ends_with('%') {
            NewLimits::Scaled { ppm: parse_percent(to)? }
        } else {
            NewLimits::Stated(parse_limits(to)?)
        };
        Ok(Self { at: parse_span(at)?, to })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const MINUTE: Span = Span::from_secs(60);

    #[test]
    fn changes_as_written() {
        let halves: LimitChange = "60s=50%".parse().unwrap();
        let group = LimitGroup::shared(vec![Limit { burst: Some(5), ..Limit::new("requests", 1_201, MINUTE) }]);
        let was = group.limits.first().unwrap();
        let is = halves.of(&group, was).unwrap();
        assert_eq!((is.units, is.burst), (601, Some(3)));
        let stated: LimitChange = "1min=requests=600/min,tokens=1M/min".parse().unwrap();
        assert_eq!(stated.at, MINUTE);
        let is = stated.of(&group, was).unwrap();
        assert_eq!((is.units, is.burst), (600, Some(5)), "a burst that is not stated stays");
        let error = stated.validate(std::slice::from_ref(&group)).unwrap_err().to_string();
        assert!(error.contains("tokens=1000000/1 min") && error.contains("no such limit"), "{error}");
        let other: LimitChange = "1s=gpt*:5/min".parse().unwrap();
        assert_eq!(other.of(&group, was), None);
        for (text, problem) in [
            ("60s", "write AT=LIMIT"),
            ("60=50%", "the unit is missing"),
            ("60s=0%", "must be above 0"),
            ("60s=lots", "window is missing"),
            ("60s=x%", "not a percentage"),
        ] {
            let error = text.parse::<LimitChange>().unwrap_err().to_string();
            assert!(error.contains(problem), "{text}: {error}");
        }
    }
}
