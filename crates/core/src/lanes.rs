//! Whose turn is next in one pass: classes by urgency within their guarantees and shares, groups and tenants by what they have
//! had, and first come first served inside a lane.
//!
//! The lanes of one class in one group make a *crew*. They touch the same buckets, so when the first of them is held up, all of
//! them are; a crew is looked at once and not lane by lane, which keeps a pass cheap with hundreds of lanes.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use crate::decide::bind;
use crate::fair::{MOST_LANE_TURNS, Service, Turn, lane_hash};
use crate::lease::Serial;
use crate::opening::Opening;
use crate::outlook::charge_for;
use crate::plan::{Class, ClassPolicy, Owner};
use crate::queue::{Ask, LaneKey, Queue, Waiting};
use crate::signal::Source;
use crate::units::{FleetTime, Milli};
use crate::value::{Binding, ScopeValue};

/// The lanes of one class in one group that have somebody present.
struct Crew {
    class: Class,
    binding: Binding,
    policies: [ClassPolicy; 3],
    /// Lanes whose first call is to be looked at: the one with the least service first, then the one whose call is older.
    lanes: BTreeSet<(Turn, Serial, LaneKey)>,
    /// The sum of their weights.
    weight: u64,
    /// Whether it is one lane, those with absent callers counted.
    is_one_lane: bool,
    /// Its place among the crews; `None`: to be worked out anew.
    place: Option<Place>,
}

/// The order among crews.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    standing: Standing,
    class: Class,
    turn: Turn,
    stamp: Serial,
}

/// Classes whose guarantee covers their next call come first, those that have had their share come last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    Owed,
    InOrder,
    HadItsShare,
}

/// Everybody whose turn it may be in this pass.
pub(crate) struct Line {
    crews: Vec<Crew>,
    /// Units that stay in a bucket for a class whose guarantee does not cover its next call yet.
    kept: HashMap<usize, [Milli; 3]>,
    /// Buckets that somebody has been waiting for already.
    pub(crate) contended: HashSet<usize>,
}

/// A call whose turn it is.
pub(crate) struct Next {
    crew: usize,
    pub(crate) key: LaneKey,
}

impl Line {
    /// Lines up the first calls of all lanes.
    pub(crate) fn new(value: &mut ScopeValue, queue: &Queue, now: FleetTime) -> Self {
        let mut line = Self { crews: Vec::new(), kept: HashMap::new(), contended: HashSet::new() };
        let mut last: Option<(&LaneKey, Option<usize>)> = None;
        // Lanes are sorted by class, then by group.
        for (key, lane) in queue.lanes() {
            if let Some(bucket) = lane.waits_on.and_then(|index| value.buckets.get_mut(index)) {
                // Also while all its callers are away for a moment, with a ticket.
                bucket.classes.wait(key.class, now);
            }
            let same_crew = last.filter(|(other, _)| other.class == key.class && other.group == key.group);
            let mut crew = same_crew.and_then(|(_, crew)| crew);
            if let Some(head) = lane.head() {
                let index = *crew.get_or_insert_with(|| line.open_crew(value, &head.ask, now));
                line.join(index, value, key, head);
            }
            if let Some(crew) = crew.and_then(|crew| line.crews.get_mut(crew)) {
                crew.is_one_lane = same_crew.is_none();
            }
            last = Some((key, crew));
        }
        line.settle(value, queue, now);
        line
    }

    fn open_crew(&mut self, value: &mut ScopeValue, ask: &Ask, now: FleetTime) -> usize {
        self.crews.push(Crew {
            class: ask.class,
            binding: bind(value, ask, now),
            policies: ask.plan.classes,
            lanes: BTreeSet::new(),
            weight: 0,
            is_one_lane: true,
            place: None,
        });
        self.crews.len() - 1
    }

    fn join(&mut self, index: usize, value: &ScopeValue, key: &LaneKey, head: &Waiting) {
        let Some(crew) = self.crews.get_mut(index) else { return };
        if !head.fresh {
            self.contended.extend(&crew.binding.buckets);
        }
        crew.weight = crew.weight.saturating_add(u64::from(head.ask.weight.get()));
        let start = start_of(value, crew, key);
        crew.lanes.insert((start, head.ask.stamp, key.clone()));
    }

    /// No class is owed more than its next call costs: what a call that left had coming is nobody's. What is owed and does not
    /// cover that call yet is kept for it.
    fn settle(&mut self, value: &mut ScopeValue, queue: &Queue, now: FleetTime) {
        let mut needs: HashMap<usize, [Option<Milli>; 3]> = HashMap::new();
        for crew in &self.crews {
            let Some((ask, _)) = crew.first(queue) else { continue };
            for index in &crew.binding.buckets {
                let (cost, _) = charge_for(value, ask, *index);
                if let Some(need) = needs.entry(*index).or_default().get_mut(crew.class.index()) {
                    *need = (*need).max(Some(cost));
                }
            }
        }
        for (index, needs) in needs {
            let Some(bucket) = value.buckets.get_mut(index) else { continue };
            for (class, need) in Class::ALL.into_iter().zip(needs) {
                let Some(need) = need else { continue };
                bucket.settle_owed(class, need, now);
                let units = bucket.kept_for(class, need, now);
                if units > Milli::ZERO
                    && let Some(kept) = self.kept.entry(index).or_default().get_mut(class.index())
                {
                    *kept = units;
                }
            }
        }
    }

    /// Whose turn is next; each lane once until its call has left and it is put back.
    pub(crate) fn next(&mut self, value: &ScopeValue, queue: &Queue, now: FleetTime) -> Option<Next> {
        let mut best: Option<(Place, usize)> = None;
        for (index, crew) in self.crews.iter_mut().enumerate() {
            let place = match crew.place {
                Some(place) => place,
                None => {
                    let Some(place) = crew.find_place(value, queue, now) else { continue };
                    crew.place = Some(place);
                    place
                }
            };
            if best.is_none_or(|(least, _)| place < least) {
                best = Some((place, index));
            }
        }
        let (_, index) = best?;
        let crew = self.crews.get_mut(index)?;
        let (_, _, key) = crew.lanes.pop_first()?;
        crew.place = None;
        Some(Next { crew: index, key })
    }

    /// Units of a bucket that are kept for other classes than this one.
    pub(crate) fn kept_from(&self, class: Class, bucket: usize) -> Milli {
        let Some(kept) = self.kept.get(&bucket) else { return Milli::ZERO };
        let others = kept.iter().zip(Class::ALL).filter(|(_, other)| *other != class);
        others.fold(Milli::ZERO, |sum, (kept, _)| sum + *kept)
    }

    /// The call of this turn has left: the lane's next one is in line.
    pub(crate) fn put_back(&mut self, next: &Next, value: &ScopeValue, queue: &Queue) {
        for crew in &mut self.crews {
            crew.place = None;
        }
        let Some(crew) = self.crews.get_mut(next.crew) else { return };
        if let Some(head) = queue.lane(&next.key).and_then(|lane| lane.head()) {
            let start = start_of(value, crew, &next.key);
            crew.lanes.insert((start, head.ask.stamp, next.key.clone()));
        }
    }

    /// The call of this turn waits, for `source` and, where it holds a place in line for one, a bucket (its position and label):
    /// so does everybody in its crew.
    #[expect(clippy::too_many_arguments, reason = "the state of a pass, and why it waits; a struct would only rename it")]
    pub(crate) fn hold(
        &mut self,
        next: &Next,
        value: &mut ScopeValue,
        queue: &mut Queue,
        source: Source,
        bucket: Option<usize>,
        label: &Arc<str>,
        now: FleetTime,
    ) {
        let Some(crew) = self.crews.get_mut(next.crew) else { return };
        if let Some(state) = bucket.and_then(|index| value.buckets.get_mut(index)) {
            state.classes.wait(crew.class, now);
        }
        // The others wait for this one's turn, where it has one; a floor or an unknown limit holds all of them.
        let behind = if bucket.is_some() && source != Source::Ramp { Source::FairShare } else { source };
        queue.hold_up(&next.key, source, label, bucket);
        for (_, _, key) in std::mem::take(&mut crew.lanes) {
            queue.hold_up(&key, behind, label, bucket);
        }
        crew.place = None;
    }

    /// Notes for all that share its buckets what a granted call takes.
    pub(crate) fn served(&mut self, next: &Next, value: &mut ScopeValue, ask: &Ask, now: FleetTime) {
        let Some(crew) = self.crews.get(next.crew) else { return };
        let mut service = Service::default();
        let mut shared = Service::default();
        let mut start = value.groups.get(crew.binding.group).map_or(Turn::default(), |group| group.crews.of(ask.class).turn);
        for (plan, index) in crew.binding.plan.buckets.iter().zip(&crew.binding.buckets) {
            let (cost, _) = charge_for(value, ask, *index);
            let Some(bucket) = value.buckets.get_mut(*index) else { continue };
            bucket.note_served(ask.class, cost, &crew.policies, now);
            let of_bucket = Service::of(bucket, cost);
            service = service.max(of_bucket);
            if is_competed_for(&plan.id.owner, bucket.classes.of(ask.class).waits(now)) {
                shared = shared.max(of_bucket);
                start = start.max(bucket.classes.of(ask.class).clock);
            }
        }
        for (plan, index) in crew.binding.plan.buckets.iter().zip(&crew.binding.buckets) {
            let Some(bucket) = value.buckets.get_mut(*index) else { continue };
            let turn = bucket.classes.of_mut(ask.class);
            if is_competed_for(&plan.id.owner, turn.waits(now)) {
                turn.clock = turn.clock.max(start);
            }
        }
        if service == Service::default() {
            service = Service::ONE_CALL;
        }
        let remembered: usize = value.groups.iter().map(|group| group.crews.remembered()).sum();
        let Some(group) = value.groups.get_mut(crew.binding.group) else { return };
        let turns = group.crews.of_mut(ask.class);
        if shared > Service::default() {
            turns.turn = start.after(shared, crew.weight);
        }
        if !crew.is_one_lane || turns.has_lanes() {
            let room = MOST_LANE_TURNS.saturating_sub(remembered);
            turns.served(lane_hash(&next.key.tenant), service, u64::from(ask.weight.get()), crew.is_one_lane, room, now);
        }
    }
}

impl Crew {
    /// The call that is first, and its stamp.
    fn first<'q>(&self, queue: &'q Queue) -> Option<(&'q Ask, Serial)> {
        let (_, stamp, key) = self.lanes.first()?;
        let ask = &queue.lane(key)?.waiting.get(stamp)?.ask;
        Some((ask, *stamp))
    }

    fn find_place(&self, value: &ScopeValue, queue: &Queue, now: FleetTime) -> Option<Place> {
        let (ask, stamp) = self.first(queue)?;
        let mut place = Place { standing: Standing::InOrder, class: self.class, turn: Turn::default(), stamp };
        place.turn = value.groups.get(self.binding.group)?.crews.of(self.class).turn;
        for (plan, index) in self.binding.plan.buckets.iter().zip(&self.binding.buckets) {
            let Some(bucket) = value.buckets.get(*index) else { continue };
            let turns = &bucket.classes;
            let (cost, _) = charge_for(value, ask, *index);
            if turns.is_owed(self.class, cost, now) {
                place.standing = Standing::Owed;
            } else if turns.is_over(self.class, now) && place.standing == Standing::InOrder {
                place.standing = Standing::HadItsShare;
            }
            if is_competed_for(&plan.id.owner, turns.of(self.class).waits(now)) {
                place.turn = place.turn.max(turns.of(self.class).clock);
            }
        }
        Some(place)
    }
}

/// A call is granted that waits, if only within its horizon: a class that is always served so would not be seen competing for the
/// bucket, however much of it it takes.
pub(crate) fn waits_briefly(value: &mut ScopeValue, bucket: Option<usize>, class: Class, opening: &Opening, now: FleetTime) {
    if let Some(state) = bucket.filter(|_| opening.at > now).and_then(|index| value.buckets.get_mut(index)) {
        state.classes.wait(class, now);
    }
}

/// Groups have turns only on buckets that they share, while somebody waits for them.
fn is_competed_for(owner: &Owner, somebody_waits: bool) -> bool {
    somebody_waits && !matches!(owner, Owner::Group(_))
}

fn start_of(value: &ScopeValue, crew: &Crew, key: &LaneKey) -> Turn {
    let turns = value.groups.get(crew.binding.group).map(|group| group.crews.of(crew.class));
    turns.map_or(Turn::default(), |turns| turns.start_of(lane_hash(&key.tenant)))
}
