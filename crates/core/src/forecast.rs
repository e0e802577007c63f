//! How much of a limit is drawn, and when a quota that lasts for a day or longer will be gone. Pure; only gauges ask.

use std::collections::VecDeque;

use crate::bucket::BucketState;
use crate::plan::Refill;
use crate::units::{FleetTime, Milli, Span};

/// A quota that comes back so seldom is worth a forecast.
const LONG: Span = Span::from_secs(86_400);
/// The part of its reach that lies between two samples.
const STEPS: i64 = 12;
/// A use that has been watched for less than this part of the reach says nothing about the next hours.
const LEAST_PART: i64 = 12;

/// What had been granted of a bucket at some instants of the recent past.
#[derive(Clone, Debug)]
pub struct Grants {
    reach: Span,
    samples: VecDeque<(FleetTime, i64)>,
    newest: Option<(FleetTime, i64)>,
}

impl Grants {
    /// Remembers as far back as `reach`.
    pub fn over(reach: Span) -> Self {
        Self { reach, samples: VecDeque::new(), newest: None }
    }

    /// `fired` thousandths had been granted at `at`; call it after every grant, it keeps a few of them.
    pub fn note(&mut self, at: FleetTime, fired: i64) {
        self.newest = Some((at, fired));
        let step = Span::from_micros(self.reach.as_micros() / STEPS);
        if self.samples.back().is_some_and(|(last, _)| at.since(*last) < step) {
            return;
        }
        self.samples.push_back((at, fired));
        // The last one from before the reach says what had been granted at its beginning.
        while self.samples.get(1).is_some_and(|(second, _)| at.since(*second) >= self.reach) {
            self.samples.pop_front();
        }
    }

    /// What was granted of late, `fired` being what has been granted by `now`, and over how long that is known: the reach, or
    /// less where nobody watched so long.
    pub fn lately(&self, fired: i64, now: FleetTime) -> (Milli, Span) {
        let mut backwards = self.newest.iter().chain(self.samples.iter().rev());
        let begin = backwards.find(|(at, _)| now.since(*at) >= self.reach);
        let Some((at, before)) = begin.or(self.samples.front()) else { return (Milli::ZERO, Span::ZERO) };
        (Milli::from_milli(fired.saturating_sub(*before)).at_least_zero(), now.since(*at).at_least_zero().min(self.reach))
    }
}

/// How units of a bucket come back, as far as its use is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Returns {
    /// When calls end; so many are in use.
    Held(Milli),
    /// All at once at the end of this window, of which so many were granted.
    Window(FleetTime, Milli),
    /// Little by little.
    Evenly,
}

/// What is drawn from a bucket, as it was at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drawn {
    /// Thousandths granted since the beginning.
    pub fired: i64,
    limit: Option<u64>,
    per: Span,
    returns: Returns,
    others_per_minute: Milli,
}

impl Drawn {
    /// Of a bucket at `now`.
    pub fn of(bucket: &BucketState, now: FleetTime) -> Self {
        let effective = bucket.effective();
        let returns = match effective.refill {
            Refill::Held => Returns::Held(bucket.holds.in_use(now)),
            Refill::Window if bucket.window_end != FleetTime::ZERO => {
                let granted = bucket.fired.saturating_sub(bucket.fired_at_turn);
                Returns::Window(bucket.window_end, Milli::from_milli(granted).at_least_zero())
            }
            Refill::Window | Refill::Continuous => Returns::Evenly,
        };
        Self {
            fired: bucket.fired,
            limit: bucket.our_limit().filter(|limit| *limit > 0),
            per: effective.per,
            returns,
            others_per_minute: bucket.foreign_drain().unwrap_or(Milli::ZERO),
        }
    }

    /// Whether a forecast is worth its memory.
    pub fn is_long(&self) -> bool {
        self.per >= LONG && matches!(self.returns, Returns::Window(..))
    }

    /// The part of our limit that is drawn: of a window longer than a minute what was granted in it, of held units those in use,
    /// else what was granted in the last minute of what a minute brings. Above 1 where a burst or a debt was granted; `None`: there
    /// is no limit.
    pub fn utilization(&self, last_minute: &Grants, now: FleetTime) -> Option<f64> {
        let limit = Milli::from_units(self.limit?).as_units_f64();
        let minute = Span::from_secs(60);
        Some(match self.returns {
            Returns::Held(in_use) => in_use.as_units_f64() / limit,
            Returns::Window(end, _) if self.per > minute && now >= end => 0.0,
            Returns::Window(_, granted) if self.per > minute => granted.as_units_f64() / limit,
            Returns::Window(..) | Returns::Evenly => {
                let (granted, known) = last_minute.lately(self.fired, now);
                // A few seconds after somebody began to watch, one call is not a rate.
                let over = known.max(Span::from_micros(minute.as_micros() / 6)).as_secs_f64();
                granted.as_units_f64() / over * self.per.as_secs_f64() / limit
            }
        })
    }

    /// How long a long quota of which `left` units are left will last if all goes on as in the last hour, what others take
    /// included. `None`: it lasts, it is none, or nobody has watched for five minutes yet.
    pub fn empty_in(&self, left: Milli, last_hour: &Grants, now: FleetTime) -> Option<Span> {
        self.resets_in(now)?;
        if left <= Milli::ZERO {
            return Some(Span::ZERO);
        }
        let (granted, known) = last_hour.lately(self.fired, now);
        if known < Span::from_micros(last_hour.reach.as_micros() / LEAST_PART) {
            return None;
        }
        let per_second = granted.as_units_f64() / known.as_secs_f64() + self.others_per_minute.as_units_f64() / 60.0;
        let seconds = left.as_units_f64() / per_second;
        // A use of nothing lasts for ever.
        (per_second > 0.0 && seconds < 1e9).then(|| Span::from_micros((seconds * 1e6) as i64))
    }

    /// When a long quota comes back.
    pub fn resets_in(&self, now: FleetTime) -> Option<Span> {
        match self.returns {
            Returns::Window(end, _) if self.per >= LONG && now < end => Some(end.since(now)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Span = Span::from_secs(60);
    const HOUR: Span = Span::from_secs(3_600);

    fn at(secs: i64) -> FleetTime {
        FleetTime::from_secs(1_800_000_000 + secs)
    }

    fn drawn(fired_units: u64, per: Span, returns: Returns) -> Drawn {
        let fired = Milli::from_units(fired_units).as_milli();
        Drawn { fired, limit: Some(600), per, returns, others_per_minute: Milli::ZERO }
    }

    #[test]
    fn the_last_minute_counts_and_what_came_before_does_not() {
        let mut grants = Grants::over(MINUTE);
        // Ten calls a second for two minutes, then nothing.
        for second in 0..=120 {
            grants.note(at(second), second * 10_000);
        }
        let use_of =
            |grants: &Grants, fired, now| drawn(fired, MINUTE, Returns::Evenly).utilization(grants, now).unwrap_or(-1.0);
        let use_at = |fired, now| use_of(&grants, fired, now);
        assert!((use_at(1_200, at(120)) - 1.0).abs() < 0.1, "{}", use_at(1_200, at(120)));
        assert!((use_at(1_200, at(150)) - 0.5).abs() < 0.1, "{}", use_at(1_200, at(150)));
        grants.note(at(121), 1_203_000);
        assert_eq!(use_of(&grants, 1_203, at(181)), 0.0, "what came last is remembered, too");
        assert!(grants.samples.len() <= 14, "{}", grants.samples.len());
        let second = Span::from_secs(1);
        let per_second = drawn(1_200, second, Returns::Evenly).utilization(&grants, at(120)).unwrap_or(-1.0);
        assert!((per_second - 1.0 / 60.0).abs() < 0.002, "ten of 600 a second: {per_second}");
    }

    #[test]
    fn who_has_just_begun_to_watch_divides_by_what_it_has_seen() {
        let mut grants = Grants::over(MINUTE);
        grants.note(at(0), 5_000_000);
        assert_eq!(grants.lately(5_300_000, at(30)), (Milli::from_units(300), Span::from_secs(30)));
        assert_eq!(drawn(5_300, MINUTE, Returns::Evenly).utilization(&grants, at(30)), Some(1.0));
        assert_eq!(Grants::over(MINUTE).lately(7, at(0)), (Milli::ZERO, Span::ZERO));
        assert_eq!(grants.lately(0, at(30)).0, Milli::ZERO, "a state that was lost is no refund");
    }

    #[test]
    fn a_long_window_and_held_units_tell_what_is_out() {
        let nobody = Grants::over(MINUTE);
        let day = drawn(0, LONG, Returns::Window(at(100), Milli::from_units(150)));
        assert_eq!(day.utilization(&nobody, at(0)), Some(0.25));
        assert_eq!(day.utilization(&nobody, at(100)), Some(0.0), "another one has begun");
        assert_eq!(drawn(0, MINUTE, Returns::Held(Milli::from_units(60))).utilization(&nobody, at(0)), Some(0.1));
        assert_eq!(Drawn { limit: None, ..day }.utilization(&nobody, at(0)), None);
    }

    #[test]
    fn a_day_quota_is_empty_when_use_goes_on_as_in_the_last_hour() {
        let mut grants = Grants::over(HOUR);
        for minute in 0..=90 {
            grants.note(at(minute * 60), minute * 10_000);
        }
        let day = drawn(900, LONG, Returns::Window(at(86_400), Milli::from_units(900)));
        let left = Milli::from_units(1_200);
        let empty = |drawn: &Drawn, left, now| drawn.empty_in(left, &grants, now).map(Span::as_secs_f64);
        let seconds = empty(&day, left, at(90 * 60)).unwrap_or(-1.0);
        assert!((seconds - 7_200.0).abs() < 400.0, "1,200 at ten a minute: {seconds}");
        let others = Drawn { others_per_minute: Milli::from_units(10), ..day };
        let seconds = empty(&others, left, at(90 * 60)).unwrap_or(-1.0);
        assert!((seconds - 3_600.0).abs() < 200.0, "{seconds}");
        assert_eq!(empty(&day, left, at(3 * 3_600)), None, "nothing was used for an hour");
        assert_eq!(empty(&day, Milli::ZERO - left, at(90 * 60)), Some(0.0));
        assert_eq!(day.empty_in(left, &Grants::over(HOUR), at(0)), None, "nobody has watched");
        assert_eq!(day.resets_in(at(0)), Some(LONG));
        assert_eq!((empty(&day, left, at(86_400)), day.resets_in(at(86_400))), (None, None), "it is over");
        for other in [drawn(900, HOUR, day.returns), drawn(900, LONG, Returns::Evenly)] {
            assert_eq!((other.is_long(), empty(&other, left, at(90 * 60)), other.resets_in(at(0))), (false, None, None));
        }
    }
}
