//! The meters and all that happens to them besides the calls we make, in the order of time and worked out when asked: limits
//! that change, another consumer's visits, the ends of calls whose output is settled; and when the provider is down.

use std::collections::BTreeMap;

use paceline_core::units::{FleetTime, Milli, Span};

use crate::change::LimitChange;
use crate::charging::Charging;
use crate::gate::{Gate, Shortage, Verdict};
use crate::limit::Limit;
use crate::other::OtherConsumer;
use crate::outage::Outage;
use crate::provider::{Call, ProviderConfig};

/// The most that may happen while one call waits before it is given up as one that never passes.
const MOST_EVENTS: u32 = 2_000_000;

/// A provider's meters in their time.
#[derive(Clone, Debug)]
pub(crate) struct World {
    start: FleetTime,
    seed: u64,
    gate: Gate,
    /// Those still to come, the next one last.
    changes: Vec<LimitChange>,
    outages: Vec<Outage>,
    other: Option<OtherConsumer>,
    visits: u64,
    /// Whether the other consumer gets its whole share, come what may.
    other_first: bool,
    charging: Charging,
    /// Calls to be settled, by their end and number, with when they were sent.
    ends: BTreeMap<(FleetTime, u64), (FleetTime, Call)>,
    sent: u64,
}

/// Something that happens to the meters by itself; of several at one instant the first named here comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Change,
    End,
    Visit,
}

impl World {
    /// Full meters at `start`; the configuration must be valid.
    pub(crate) fn new(config: &ProviderConfig, start: FleetTime) -> Self {
        let mut changes = config.changes.clone();
        // Stable, then reversed: of two at one instant the one that was written last holds in the end.
        changes.sort_by_key(|change| change.at);
        changes.reverse();
        Self {
            start,
            seed: config.seed,
            gate: Gate::new(&config.groups).charging(config.charging),
            changes,
            outages: config.outages.clone(),
            other: config.other,
            visits: 0,
            other_first: false,
            charging: config.charging,
            ends: BTreeMap::new(),
            sent: 0,
        }
    }

    /// The same world with an other consumer who always gets its whole share: who is not to take from it must make do with the
    /// rest. A token bucket goes into debt for it; of a window its share is left alone.
    pub(crate) fn giving_way(self) -> Self {
        Self { other_first: true, ..self }
    }

    /// The meters as they are at `now`.
    pub(crate) fn gate_at(&mut self, now: FleetTime) -> &mut Gate {
        self.advance(now);
        &mut self.gate
    }

    /// Charges the call in every meter it touches, or in none.
    pub(crate) fn admit(&mut self, now: FleetTime, call: &Call) -> Verdict {
        self.gate_at(now).admit(now, call)
    }

    /// Notes that a call which passed at `sent` will end at `end`.
    pub(crate) fn will_end(&mut self, sent: FleetTime, end: FleetTime, call: &Call) {
        if self.charging != Charging::OnArrival {
            self.ends.insert((end, self.sent), (sent, call.clone()));
            self.sent += 1;
        }
    }

    /// The outage a call meets, and for how long it still lasts.
    pub(crate) fn outage(&self, now: FleetTime) -> Option<(&Outage, Span)> {
        self.outages.iter().find_map(|outage| {
            let (from, until) = outage.bounds(self.start);
            (from <= now && now < until).then(|| (outage, until.since(now)))
        })
    }

    /// Which of these calls, each with its number and from when it is there, can pass first if nobody but the other consumer
    /// takes any, and when, from `now` on; of several at one instant the one with the lowest number. An error has the number of
    /// one that never passes.
    pub(crate) fn first_to_pass<'a>(
        &mut self,
        now: FleetTime,
        calls: impl Iterator<Item = (usize, FleetTime, &'a Call)> + Clone,
    ) -> Result<Option<(FleetTime, usize)>, (usize, Shortage)> {
        let mut now = now;
        for _ in 0..MOST_EVENTS {
            self.advance(now);
            let coming = calls.clone().map(|(_, from, _)| from).filter(|from| *from > now);
            let upcoming = self.upcoming(now).into_iter().chain(coming).min();
            let is_up = self.outage(now).is_none();
            let (mut first, mut never): (Option<(FleetTime, usize)>, _) = (None, None);
            for (number, _, call) in calls.clone().filter(|(_, from, _)| *from <= now) {
                match self.earliest(now, call) {
                    Ok(at) => first = Some(first.map_or((at, number), |known| known.min((at, number)))),
                    Err(shortage) => never = Some((number, shortage)),
                }
            }
            if let Some(never) = never.filter(|_| self.changes.is_empty()) {
                return Err(never);
            }
            match (first, upcoming) {
                (Some((at, _)), upcoming) if is_up && upcoming.is_none_or(|upcoming| at < upcoming) => return Ok(first),
                (_, Some(upcoming)) => now = upcoming,
                // Nothing will ever happen again, and nothing passes: there are no calls.
                (_, None) => return Ok(None),
            }
        }
        // Starved: whatever comes back, the other consumer takes first.
        match calls.clone().next().map(|(number, _, call)| (number, self.gate.admit(now, call))) {
            Some((number, Verdict::Short(shortage) | Verdict::TooLarge(shortage))) => Err((number, shortage)),
            _ => Ok(None),
        }
    }

    fn earliest(&mut self, now: FleetTime, call: &Call) -> Result<FleetTime, Shortage> {
        let Self { gate, other, other_first, outages, start, seed, visits, .. } = self;
        let Some(other) = other.filter(|_| *other_first) else { return gate.earliest(now, call, |_| Milli::ZERO) };
        gate.earliest(now, call, |meter| {
            let Some(end) = meter.window_end(now) else { return Milli::ZERO };
            let before = |at: FleetTime| other.visits_before(*start, *seed, at.min(end)).max(*visits);
            let missed = outages.iter().filter(|outage| !outage.charged).map(|outage| {
                let (from, until) = outage.bounds(*start);
                other.wants(meter.limit(), before(from)..before(until))
            });
            let missed = missed.fold(Milli::ZERO, |sum, one| sum + one);
            (other.wants(meter.limit(), *visits..before(end)) - missed).at_least_zero()
        })
    }

    /// Lets everything happen that happens until `now`, itself included.
    fn advance(&mut self, now: FleetTime) {
        while let Some((at, event)) = self.next_event().filter(|(at, _)| *at <= now) {
            match event {
                Event::Change => {
                    if let Some(change) = self.changes.pop() {
                        self.gate.change(at, &change);
                    }
                }
                Event::End => {
                    if let Some((_, (sent, call))) = self.ends.pop_first() {
                        self.gate.settle(sent, at, &call);
                    }
                }
                Event::Visit => self.visit(at),
            }
        }
    }

    fn next_event(&self) -> Option<(FleetTime, Event)> {
        let change = self.changes.last().map(|change| (self.start + change.at, Event::Change));
        let end = self.ends.first_key_value().map(|((at, _), _)| (*at, Event::End));
        let visit = self.other.map(|other| (other.visit(self.start, self.seed, self.visits), Event::Visit));
        change.into_iter().chain(end).chain(visit).min()
    }

    /// The next instant after `now` at which anything but a refill changes what a call meets.
    fn upcoming(&self, now: FleetTime) -> Option<FleetTime> {
        let bounds = self.outages.iter().map(|outage| outage.bounds(self.start));
        let turns = bounds.flat_map(|(from, until)| [from, until]).filter(|at| *at > now);
        turns.chain(self.next_event().map(|(at, _)| at)).min()
    }

    /// In an outage its calls fail like everybody's.
    fn visit(&mut self, now: FleetTime) {
        let nth = self.visits;
        self.visits += 1;
        let Some(other) = self.other else { return };
        if self.outage(now).is_none_or(|(outage, _)| outage.charged) {
            let wants = |limit: &Limit| other.wants(limit, nth..nth + 1);
            if self.other_first { self.gate.drain_in_full(now, wants) } else { self.gate.drain(now, wants) }
        }
    }
}

#[cfg(test)]
#[path = "world_laws.rs"]
mod laws;
