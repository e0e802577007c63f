//! A client's recent share: what it was granted lately, and the pace it keeps to when nobody answers.
//!
//! Nothing here reads a clock: instants and chances are arguments.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use paceline_proto::v1::Target;
use tokio::time::Instant;

use crate::timing;

/// The share is what was granted in this long before the service went away.
const WINDOW: Duration = Duration::from_secs(120);
/// It is counted in bins of this length.
const BIN: Duration = Duration::from_secs(5);
/// A client that was granted something for the first time less than this long ago is taken to have had this long for it.
const SHORTEST_SPAN: Duration = Duration::from_secs(10);
/// The share is halved each minute.
const HALVED_EVERY: Duration = Duration::from_secs(60);
/// So long a client paces itself; afterwards it goes on as its SDK would without the service.
const GOES_ON_FOR: Duration = Duration::from_secs(5 * 60);
/// What a client takes where it was granted nothing lately: a call a minute.
const LEAST_PER_SECOND: f64 = 1.0 / 60.0;
/// A refusal halves the pace, to this part of it at least.
const LEAST_SCALE: f64 = 1.0 / 64.0;
/// Of more places than these the share is kept in common.
const MOST_PLACES: usize = 256;
/// Calls, as a meter.
const REQUESTS: &str = "requests";

/// What is metered together, as far as a client can tell: provider, account and model.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Place(String, String, String);

impl Place {
    pub(crate) fn of(target: &Target) -> Self {
        Self(target.provider.clone(), target.account.clone(), target.model.clone())
    }

    fn of_the_rest() -> Self {
        Self(String::new(), String::new(), String::new())
    }
}

/// When a call may go that nobody decides on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Turn {
    pub(crate) at: Instant,
    /// Whether the recent share paces it: false when the client has gone on alone for too long, or never was granted anything: then
    /// it has no share to keep to, and whoever forgot to start the service is not held up by it.
    pub(crate) is_paced: bool,
}

/// The shares of a client.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    places: HashMap<Place, Share>,
}

/// What one place got, and what it gets while nobody answers.
#[derive(Debug, Default)]
struct Share {
    first: Option<Instant>,
    /// Units granted by meter, oldest bin first.
    bins: VecDeque<(Instant, BTreeMap<String, u64>)>,
    /// The provider said: not before this.
    floor: Option<Instant>,
    /// The service last let calls go at once, whatever it thought of them.
    is_watched_only: bool,
    /// How much of the share is left after refusals.
    scale: Option<f64>,
    /// The turn after the last one, and for which absence of the service it was given.
    next: Option<(Instant, Instant)>,
}

impl Recent {
    /// The service granted a call with these units.
    pub(crate) fn granted(&mut self, place: &Place, reserved: &BTreeMap<String, u64>, now: Instant) {
        let share = self.share(place);
        share.first.get_or_insert(now);
        // Whoever is granted something is not alone any more.
        (share.next, share.scale) = (None, None);
        let is_new = share.bins.back().is_none_or(|(began, _)| now.saturating_duration_since(*began) >= BIN);
        if is_new {
            share.bins.push_back((now, BTreeMap::new()));
            while share.bins.front().is_some_and(|(began, _)| now.saturating_duration_since(*began) > WINDOW + BIN) {
                share.bins.pop_front();
            }
        }
        let Some((_, bin)) = share.bins.back_mut() else { return };
        let mut add = |meter: &str, units: u64| {
            let total = bin.entry(meter.to_owned()).or_default();
            *total = total.saturating_add(units);
        };
        if !reserved.contains_key(REQUESTS) {
            add(REQUESTS, 1);
        }
        for (meter, units) in reserved {
            add(meter, *units);
        }
    }

    /// The provider said that nothing is to be sent before `until`.
    pub(crate) fn floor(&mut self, place: &Place, until: Instant) {
        let floor = &mut self.share(place).floor;
        *floor = Some(floor.map_or(until, |before| before.max(until)));
    }

    /// The service lets a call go at `at` all the same: it knows of an end of the floor that the client did not see.
    pub(crate) fn lift(&mut self, place: &Place, at: Instant) {
        let floor = &mut self.share(place).floor;
        *floor = floor.filter(|floor| *floor <= at);
    }

    /// Whether the service made calls wait when it last answered.
    pub(crate) fn is_enforced(&self, place: &Place) -> bool {
        self.places.get(place).is_none_or(|share| !share.is_watched_only)
    }

    /// The service makes calls wait, or it only watches them.
    pub(crate) fn enforces(&mut self, place: &Place, enforces: bool) {
        self.share(place).is_watched_only = !enforces;
    }

    /// The provider refused a call that nobody but us let go: half the pace.
    pub(crate) fn refused(&mut self, place: &Place) {
        let scale = &mut self.share(place).scale;
        *scale = Some((scale.unwrap_or(1.0) / 2.0).max(LEAST_SCALE));
    }

    /// Gives the next turn at a place to a call of this cost, nobody having answered since `away_since`. `chance` in 0..1 spreads
    /// first turns, so that a fleet that loses its service does not send together.
    pub(crate) fn book(
        &mut self,
        place: &Place,
        cost: &BTreeMap<String, u64>,
        away_since: Instant,
        now: Instant,
        chance: f64,
    ) -> Turn {
        let has_share = self.places.values().any(|share| share.first.is_some());
        let share = self.share(place);
        let alone_from = timing::after(away_since, GOES_ON_FOR);
        let floor = share.floor.filter(|floor| *floor > now).unwrap_or(now);
        if now >= alone_from || !has_share {
            return Turn { at: floor, is_paced: false };
        }
        let per_call = |at: Instant, share: &Share| {
            let halvings = at.saturating_duration_since(away_since).as_secs() / HALVED_EVERY.as_secs();
            let scale = share.scale.unwrap_or(1.0) * 0.5_f64.powi(i32::try_from(halvings).unwrap_or(i32::MAX));
            share.length_of(cost, away_since, scale)
        };
        let next = match share.next {
            Some((next, of)) if of == away_since => next,
            // The first turn lies somewhere within the time that a call takes.
            _ => now.max(timing::after(away_since, timing::spread(Duration::ZERO, per_call(now, share), chance))),
        };
        let at = next.max(floor);
        if at >= alone_from {
            // Nobody would pace it any more by then. Those who wait until then do not go all at once.
            return Turn { at: alone_from.max(floor) + timing::spread(Duration::ZERO, SHORTEST_SPAN, chance), is_paced: false };
        }
        share.next = Some((timing::after(at, per_call(at, share)), away_since));
        Turn { at, is_paced: true }
    }

    fn share(&mut self, place: &Place) -> &mut Share {
        let is_kept = self.places.contains_key(place) || self.places.len() < MOST_PLACES;
        self.places.entry(if is_kept { place.clone() } else { Place::of_the_rest() }).or_default()
    }
}

impl Share {
    /// How long a call of this cost takes at the recent pace, times `scale`.
    fn length_of(&self, cost: &BTreeMap<String, u64>, away_since: Instant, scale: f64) -> Duration {
        let from = away_since.checked_sub(WINDOW).unwrap_or(away_since);
        let recent = self.bins.iter().filter(|(began, _)| *began >= from && *began <= away_since);
        let mut sums = BTreeMap::<&str, u64>::new();
        for (meter, units) in recent.flat_map(|(_, bin)| bin) {
            let sum = sums.entry(meter).or_default();
            *sum = sum.saturating_add(*units);
        }
        let span = self.first.map_or(WINDOW, |first| away_since.saturating_duration_since(first).clamp(SHORTEST_SPAN, WINDOW));
        let of_meter = |(meter, sum): (&&str, &u64)| {
            let asked = cost.get(*meter).copied().or((*meter == REQUESTS).then_some(1))?;
            Some(asked as f64 * span.as_secs_f64() / (*sum as f64).max(f64::MIN_POSITIVE))
        };
        let scarcest = sums.iter().filter_map(of_meter).fold(0.0, f64::max);
        let seconds = if scarcest > 0.0 { scarcest / scale } else { f64::INFINITY };
        // One call a minute is the least, unless it alone is larger than all that was granted.
        let least = (1.0 / LEAST_PER_SECOND).max(scarcest);
        Duration::try_from_secs_f64(seconds.min(least)).unwrap_or(GOES_ON_FOR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn place(model: &str) -> Place {
        Place("openai".into(), "prod".into(), model.into())
    }

    fn tokens(units: u64) -> BTreeMap<String, u64> {
        BTreeMap::from([("requests".into(), 1), ("tokens".into(), units)])
    }

    /// A client that was granted `per_second` calls of 100 tokens for `seconds`, and the instant at which the service went.
    fn granted(per_second: u64, seconds: u64) -> (Recent, Instant) {
        let (mut recent, start) = (Recent::default(), Instant::now());
        for nth in 0..per_second * seconds {
            let at = start + Duration::from_nanos(nth * 1_000_000_000 / per_second);
            recent.granted(&place("a"), &tokens(100), at);
        }
        (recent, start + SECOND * u32::try_from(seconds).unwrap())
    }

    /// How many turns begin in each of the first minutes, all asked for as fast as they come.
    fn turns_by_minute(recent: &mut Recent, cost: &BTreeMap<String, u64>, away: Instant, chance: f64) -> [usize; 5] {
        let (mut counts, mut now) = ([0; 5], away);
        loop {
            let turn = recent.book(&place("a"), cost, away, now, chance);
            if !turn.is_paced {
                return counts;
            }
            now = now.max(turn.at);
            counts[usize::try_from((turn.at - away).as_secs() / 60).unwrap()] += 1;
        }
    }

    #[test]
    fn the_share_is_what_was_granted_lately_halved_each_minute_for_five() {
        for seconds in [60, 600] {
            let (mut recent, away) = granted(8, seconds);
            let counts = turns_by_minute(&mut recent, &tokens(100), away, 0.5);
            for (count, expected) in counts.into_iter().zip([480, 240, 120, 60, 30]) {
                // What was granted in a bin that began before the window is left out.
                assert!(count <= expected + 1 && count * 100 >= expected * 94, "{counts:?} after {seconds} s");
            }
        }
    }

    #[test]
    fn larger_calls_take_longer_turns() {
        let (mut recent, away) = granted(8, 120);
        let counts = turns_by_minute(&mut recent, &tokens(400), away, 0.0);
        assert!((115..=121).contains(&counts[0]), "a fourth of 480: {counts:?}");
        let (mut recent, away) = granted(8, 120);
        let counts = turns_by_minute(&mut recent, &BTreeMap::new(), away, 0.0);
        assert!((460..=481).contains(&counts[0]), "a call that states nothing counts as a call: {counts:?}");
    }

    #[test]
    fn what_lies_longer_back_is_not_recent() {
        let (mut recent, last) = granted(8, 60);
        let away = last + SECOND * 600;
        let counts = turns_by_minute(&mut recent, &tokens(100), away, 0.0);
        assert_eq!(counts, [1, 1, 1, 1, 1], "a call a minute");
        let turn = recent.book(&place("never"), &tokens(100), away, away, 0.0);
        assert!(turn.is_paced, "the same where only others were granted anything");
        let turn = Recent::default().book(&place("a"), &tokens(100), away, away, 0.0);
        assert_eq!(turn, Turn { at: away, is_paced: false }, "nobody ever answered: it goes on as it would without us");
    }

    #[test]
    fn a_floor_is_kept_and_so_is_what_a_refusal_says() {
        let (mut recent, away) = granted(8, 120);
        recent.floor(&place("a"), away + SECOND * 30);
        recent.floor(&place("a"), away + SECOND * 10);
        let turn = recent.book(&place("a"), &tokens(100), away, away, 0.0);
        assert_eq!((turn.at, turn.is_paced), (away + SECOND * 30, true), "the later of two");
        assert!(recent.book(&place("a"), &tokens(100), away, away, 0.0).at > turn.at, "and one after the other from there");
        let elsewhere = recent.book(&place("b"), &tokens(100), away, away, 0.0);
        assert!(elsewhere.at < away + SECOND, "another model has a floor of its own");

        let (mut recent, away) = granted(8, 120);
        recent.refused(&place("a"));
        let counts = turns_by_minute(&mut recent, &tokens(100), away, 0.0);
        assert!((230..=241).contains(&counts[0]), "{counts:?}");

        let (mut recent, away) = granted(8, 120);
        let late = away + SECOND * 400;
        recent.floor(&place("a"), late + SECOND * 5);
        let turn = recent.book(&place("a"), &tokens(100), away, late, 0.0);
        assert_eq!(turn, Turn { at: late + SECOND * 5, is_paced: false }, "also when the pace is not kept any more");
    }

    #[test]
    fn after_the_service_was_back_the_share_is_whole_again() {
        let (mut recent, away) = granted(8, 120);
        recent.refused(&place("a"));
        turns_by_minute(&mut recent, &tokens(100), away, 0.0);
        let back = away + SECOND * 300;
        for nth in 0..8 * 120 {
            recent.granted(&place("a"), &tokens(100), back + SECOND * nth / 8);
        }
        let counts = turns_by_minute(&mut recent, &tokens(100), back + SECOND * 120, 0.0);
        assert!((460..=481).contains(&counts[0]), "{counts:?}");
    }

    #[test]
    fn places_are_bounded() {
        let mut recent = Recent::default();
        for nth in 0..10_000 {
            recent.granted(&place(&format!("model-{nth}")), &tokens(1), Instant::now());
        }
        assert_eq!(recent.places.len(), MOST_PLACES + 1);
    }

    proptest! {
        /// The law: in no stretch of time more than the share of its first minute, plus the call that opens it.
        #[test]
        fn never_more_than_the_recent_share(
            per_second in 1u64..20, costs in prop::collection::vec(1u64..1_000, 2..80), chance in 0.0f64..1.0,
        ) {
            let (mut recent, away) = granted(per_second, 120);
            let turns: Vec<_> = costs.iter().map(|cost| (recent.book(&place("a"), &tokens(*cost), away, away, chance), cost)).collect();
            for (from, (first, _)) in turns.iter().enumerate() {
                let mut units = 0;
                for (turn, cost) in turns[from..].iter().filter(|(turn, _)| turn.is_paced) {
                    prop_assert!(turn.at >= first.at);
                    let allowed = (turn.at - first.at).as_secs_f64() * per_second as f64 * 100.0 * 1.001;
                    prop_assert!(units as f64 <= allowed + 1.0, "{units} in {:?}", turn.at - first.at);
                    units += **cost;
                }
            }
        }

        #[test]
        fn a_fleet_does_not_begin_together(per_second in 1u64..5, chance in 0.0f64..1.0) {
            let (mut recent, away) = granted(per_second, 120);
            let turn = recent.book(&place("a"), &tokens(100), away, away, chance);
            let (spread, waited) = (chance / per_second as f64, (turn.at - away).as_secs_f64());
            prop_assert!(waited >= spread * 0.99 && waited <= spread * 1.1, "{waited} instead of {spread}");
        }
    }
}
