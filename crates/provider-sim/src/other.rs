//! Another consumer of the same account, who knows nothing of us: a second stack, a colleague, a notebook left running.

use std::ops::Range;
use std::str::FromStr;

use paceline_core::units::{FleetTime, Milli, Span};

use crate::error::SimError;
use crate::latency::mixed;
use crate::limit::Limit;
use crate::parse::{parse_percent, parse_span};

/// How often a steady consumer takes some.
pub const STEADY: Span = Span::from_millis(200);
/// The shortest and the longest time between two of its visits.
const EVERY: (Span, Span) = (Span::from_millis(1), Span::from_secs(86_400));
/// Later visits take what this one took.
const MOST_VISITS: u64 = 1_000_000_000;
const WHOLE_PPM: u64 = 1_000_000;
/// Keeps its instants apart from the latencies, which come from the same seed.
const SEED_MARK: u64 = 0x0074_686F_7468_6572;

/// Takes a share of every limit: once in every interval, at an instant in it that the seed decides, an interval's worth of the
/// share; of that only what is there. What it misses it has lost, as many small calls of which some are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherConsumer {
    /// Its share of each limit, in millionths.
    pub share_ppm: u64,
    /// The interval: [`STEADY`], or longer for one that comes in bursts.
    pub every: Span,
}

impl OtherConsumer {
    /// Takes so many percent, steadily.
    pub fn steady(percent: u32) -> Self {
        Self { share_ppm: u64::from(percent) * 10_000, every: STEADY }
    }

    /// Refuses a share that leaves nothing, or none.
    pub fn validate(&self) -> Result<(), SimError> {
        let problem = if self.share_ppm == 0 || self.share_ppm >= WHOLE_PPM {
            "its share must be above 0 and below 100 %, or nobody else could call"
        } else if self.every < EVERY.0 || self.every > EVERY.1 {
            "the time between its visits must be between 1 ms and a day"
        } else {
            return Ok(());
        };
        Err(SimError::BadConsumer { text: format!("{} %/{}", self.share_ppm as f64 / 10_000.0, self.every), problem })
    }

    /// When it comes for the `nth` time, from 0.
    pub(crate) fn visit(&self, start: FleetTime, seed: u64, nth: u64) -> FleetTime {
        let every = self.every.as_micros().max(1);
        let offset = i64::try_from(mixed(seed ^ SEED_MARK, nth) % every.unsigned_abs()).unwrap_or(0);
        let nth = i64::try_from(nth).unwrap_or(i64::MAX);
        start + Span::from_micros(every.saturating_mul(nth)) + Span::from_micros(offset)
    }

    /// How often it comes before `until`.
    pub(crate) fn visits_before(&self, start: FleetTime, seed: u64, until: FleetTime) -> u64 {
        let whole = until.since(start).as_micros() / self.every.as_micros().max(1);
        let whole = u64::try_from(whole).unwrap_or(0);
        whole + u64::from(self.visit(start, seed, whole) < until)
    }

    /// What it wants of a limit at its visits in this range. Differences of a sum, so that no rounding adds up.
    pub(crate) fn wants(&self, limit: &Limit, visits: Range<u64>) -> Milli {
        let milli = i128::from(Milli::from_units(limit.units).as_milli());
        // 10^18 x 10^6 x 10^11 / 10^6 x 10^9 visits (six years of steady ones) just fits.
        let per_visit = milli * i128::from(self.share_ppm) / 1_000 * i128::from(self.every.as_micros()) / 1_000;
        let by = |visits: u64| per_visit * i128::from(visits) / i128::from(limit.per.as_micros().max(1));
        let first = visits.start.min(MOST_VISITS - 1);
        let wanted = by(visits.end.clamp(first, MOST_VISITS)) - by(first);
        Milli::from_milli(i64::try_from(wanted).unwrap_or(i64::MAX))
    }
}

impl FromStr for OtherConsumer {
    type Err = SimError;
    /// Reads `30%`, or `30%/5s` for one that comes every five seconds.
    fn from_str(text: &str) -> Result<Self, SimError> {
        let (share, every) = match text.split_once('/') {
            Some((share, every)) => (share, parse_span(every)?),
            None => (text, STEADY),
        };
        let consumer = Self { share_ppm: parse_percent(share)?, every };
        consumer.validate().map(|()| consumer)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn visits_come_once_an_interval_and_take_the_share() {
        let consumer = OtherConsumer::steady(30);
        let limit = Limit::new("requests", 1_200, Span::from_secs(60));
        let start = FleetTime::from_secs(1_000);
        let mut sum = Milli::ZERO;
        for nth in 0..300 {
            let begin = start + Span::from_millis(200 * i64::try_from(nth).unwrap());
            let visit = consumer.visit(start, 7, nth);
            assert!(visit >= begin && visit < begin + STEADY);
            assert_eq!(visit, consumer.visit(start, 7, nth));
            sum += consumer.wants(&limit, nth..nth + 1);
        }
        assert_eq!(sum, Milli::from_units(360), "30 % of a minute");
        assert_eq!(consumer.wants(&limit, 0..300), sum);
        assert_eq!(consumer.visits_before(start, 7, consumer.visit(start, 7, 5)), 5);
        assert_eq!(consumer.visits_before(start, 7, consumer.visit(start, 7, 5) + Span::from_micros(1)), 6);
        assert_ne!(consumer.visit(start, 7, 3), consumer.visit(start, 8, 3));
        let slow = Limit::new("requests", 1, Span::from_secs(3_600));
        let hours = (0..18_000).fold(Milli::ZERO, |sum, nth| sum + consumer.wants(&slow, nth..nth + 1));
        assert_eq!(hours, Milli::from_milli(300), "less than a thousandth a visit still adds up");
    }

    #[test]
    fn consumers_as_written() {
        assert_eq!("30%".parse(), Ok(OtherConsumer::steady(30)));
        assert_eq!("12.5%/5s".parse(), Ok(OtherConsumer { share_ppm: 125_000, every: Span::from_secs(5) }));
        for (text, problem) in [
            ("30", "not a percentage"),
            ("0%", "must be above 0"),
            ("100%", "below 100 %"),
            ("30%/soon", "not a length of time"),
            ("30%/0s", "between 1 ms and a day"),
        ] {
            let error = text.parse::<OtherConsumer>().unwrap_err().to_string();
            assert!(error.contains(problem), "{text}: {error}");
        }
    }
}
