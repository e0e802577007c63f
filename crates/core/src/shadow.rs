//! Calls that are only watched: what they take is charged, and what would have become of them is worked out.
//!
//! Two different things are kept apart. The *value* is charged with what was really sent, so those who are made to wait keep
//! clear of it. The *line* is what would be if every watched call had waited for its turn: beside each bucket that would be
//! short it keeps one level per class, charged with the calls that would have been let through and allowed to go below zero:
//! how far it is below zero is how long the line would be. `docs/internals/shadow.md` says why.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::bucket::BucketState;
use crate::decide::{self, Slot};
use crate::delays::{self, Cause};
use crate::denial::{Denial, Reason};
use crate::floor::Floor;
use crate::holds::Holds;
use crate::lease::Charge;
use crate::level::{Level, Rate};
use crate::outlook::{self, Outlook};
use crate::pacing::guard;
use crate::plan::{BucketId, Class};
use crate::queue::Ask;
use crate::signal::Source;
use crate::units::{FleetTime, Milli, Span};
use crate::value::{Binding, ScopeValue};
use crate::verdict;

/// How long a call would wait for one in flight to end, where nobody knows how long those run.
const UNTIL_ONE_ENDS: Span = Span::from_secs(1);

/// What would have become of a watched call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Would {
    /// How long it would have waited; zero when it would have been denied.
    pub wait: Span,
    /// For what.
    pub cause: Cause,
    /// How it would have been denied.
    pub denial: Option<Denial>,
}

impl Would {
    /// Whether it would not have been sent at once.
    pub fn is_held_back(&self) -> bool {
        self.wait > Span::ZERO || self.denial.is_some()
    }
}

/// The line that watched calls would stand in.
#[derive(Clone, Debug, Default)]
pub struct Line {
    views: HashMap<BucketId, View>,
    /// When floors were set by refusals that would not have happened.
    needless: BTreeSet<FleetTime>,
}

/// A bucket as it would be.
#[derive(Clone, Copy, Debug)]
struct View {
    /// By class: with calls of this class and of more urgent ones only, since those would have gone first.
    levels: [Level; 3],
    /// The end of the current window, for buckets with windows.
    window_end: FleetTime,
}

impl Line {
    /// What would become of `ask` at `now`, behind `ahead` calls that really wait; it takes its place in the line.
    pub fn join(&mut self, value: &mut ScopeValue, ask: &Ask, ahead: u64, now: FleetTime) -> Would {
        let binding = decide::bind(value, ask, now);
        self.end_views(value, &binding, ask, now);
        let has_line = self.is_short(value, &binding, ask);
        let is_calm = value.rated(&binding.buckets).any(|bucket| bucket.is_calm(now));
        let would = {
            let seen = self.as_it_would_be(value, &binding, ask.class);
            let outlook = outlook::outlook(&seen, &binding, ask, now, has_line || is_calm || ahead > 0);
            self.judge(&seen, &binding, ask, &outlook, ahead, now)
        };
        if would.denial.is_none() {
            self.take_place(value, &binding, ask, has_line || would.wait > Span::ZERO, now);
        }
        would
    }

    /// Charges the line with a call that was really let through.
    pub fn sent(&mut self, value: &ScopeValue, charges: &[Charge], class: Class, now: FleetTime) {
        for charge in charges {
            self.shift(value, &charge.bucket, class, Milli::ZERO - charge.amount, now);
        }
    }

    /// Gives back what a call took and did not use.
    pub fn give_back(&mut self, value: &ScopeValue, bucket: &BucketId, class: Class, amount: Milli, now: FleetTime) {
        self.shift(value, bucket, class, amount, now);
    }

    /// The floors set at `now` are due to a refusal that would not have happened: nobody in the line waits for them.
    pub fn disregard_floors_of(&mut self, value: &ScopeValue, now: FleetTime) {
        let standing: BTreeSet<FleetTime> = floors(value).map(|floor| floor.since).collect();
        self.needless.insert(now);
        self.needless.retain(|since| standing.contains(since));
    }

    fn shift(&mut self, value: &ScopeValue, id: &BucketId, class: Class, change: Milli, now: FleetTime) {
        let bucket = value.position(id).and_then(|index| value.buckets.get(index));
        let (Some(view), Some(bucket)) = (self.views.get_mut(id), bucket) else { return };
        let Some(rate) = bucket.rate() else { return };
        view.advance(bucket, &rate, now);
        for level in view.levels.iter_mut().skip(class.index()) {
            level.credit(change, &rate);
        }
    }

    /// Whether somebody like this would wait in line.
    fn is_short(&self, value: &ScopeValue, binding: &Binding, ask: &Ask) -> bool {
        binding.plan.buckets.iter().zip(&binding.buckets).any(|(plan, index)| {
            let rate = value.buckets.get(*index).and_then(BucketState::rate);
            let (cost, _) = outlook::charge_for(value, ask, *index);
            let short = |view: &View, rate: Rate| view.least() < cost.min(rate.capacity);
            self.views.get(&plan.id).zip(rate).is_some_and(|(view, rate)| short(view, rate))
        })
    }

    /// Where nobody would wait any more and as much would be left as there is, the bucket as it is counts again. Calls that were refused and
    /// not sent again would have taken something, so there may be more than would be left.
    fn end_views(&mut self, value: &ScopeValue, binding: &Binding, ask: &Ask, now: FleetTime) {
        for (plan, index) in binding.plan.buckets.iter().zip(&binding.buckets) {
            let Some(bucket) = value.buckets.get(*index) else { continue };
            let (cost, _) = outlook::charge_for(value, ask, *index);
            let is_over = match (self.views.get_mut(&plan.id), bucket.rate()) {
                (Some(view), Some(rate)) => {
                    view.advance(bucket, &rate, now);
                    let is_level = bucket.level_at(now).is_none_or(|level| view.least() >= level);
                    view.least() >= cost.min(rate.capacity) && is_level
                }
                (view, _) => view.is_some(),
            };
            if is_over {
                self.views.remove(&plan.id);
            }
        }
    }

    /// The value as `class` would find it. Debts are left out: they are what was sent beyond the buckets.
    fn as_it_would_be<'v>(&self, value: &'v ScopeValue, binding: &Binding, class: Class) -> Cow<'v, ScopeValue> {
        let is_in_debt = |index: &usize| value.buckets.get(*index).is_some_and(|bucket| bucket.level.amount < Milli::ZERO);
        let is_seen_otherwise = binding.plan.buckets.iter().any(|bucket| self.views.contains_key(&bucket.id))
            || binding.buckets.iter().any(is_in_debt)
            || (!self.needless.is_empty() && floors(value).any(|floor| self.needless.contains(&floor.since)));
        if !is_seen_otherwise {
            return Cow::Borrowed(value);
        }
        let mut seen = value.clone();
        let lift = |floor: &mut Option<Floor>| {
            if floor.is_some_and(|floor| self.needless.contains(&floor.since)) {
                *floor = None;
            }
        };
        lift(&mut seen.floor);
        seen.groups.iter_mut().for_each(|group| lift(&mut group.floor));
        for bucket in &mut seen.buckets {
            lift(&mut bucket.floor);
            bucket.burst.amount = bucket.burst.amount.at_least_zero();
            match self.views.get(&bucket.plan.id) {
                Some(view) => {
                    if let Some(level) = view.levels.get(class.index()) {
                        bucket.level = *level;
                    }
                    bucket.window_end = view.window_end;
                }
                None => bucket.level.amount = bucket.level.amount.at_least_zero(),
            }
        }
        Cow::Owned(seen)
    }

    fn judge(&self, seen: &ScopeValue, binding: &Binding, ask: &Ask, outlook: &Outlook, ahead: u64, now: FleetTime) -> Would {
        let cause = Cause { source: outlook.opening.source, bucket: outlook.bucket.clone() };
        if let Some(denial) = verdict::verdict(seen, binding, ask, outlook, now) {
            return Would { wait: Span::ZERO, cause, denial: Some(denial) };
        }
        let is_counted = matches!(outlook.opening.source, Source::Concurrency | Source::Ramp);
        let opens = match outlook.opening.at {
            at if at > now && (is_counted || at == FleetTime::MAX) => UNTIL_ONE_ENDS,
            at => at.since(now),
        };
        let (windows, bucket) = later_windows(seen, binding, ask, now);
        let cause = match bucket {
            Some(bucket) if windows > opens => Cause { source: Source::Bucket, bucket },
            _ => cause,
        };
        let line = spacing(seen, binding, ask, now).as_micros().saturating_mul(i64::try_from(ahead).unwrap_or(i64::MAX));
        let wait = opens.max(windows).saturating_add(Span::from_micros(line)).at_least_zero();
        let denial = (now + wait > ask.wait_until).then(|| Denial {
            reason: Reason::Deadline,
            retry_after: Some(wait),
            detail: format!(
                "it would wait {wait} in line for {}, and {} ends in {}",
                delays::describe(&cause),
                if ask.until_deadline { "the deadline" } else { "max_wait" },
                ask.wait_until.since(now)
            ),
        });
        Would { wait: if denial.is_some() { Span::ZERO } else { wait }, cause, denial }
    }

    /// Charges the views that there are; `would_wait`: it makes those that there are not.
    fn take_place(&mut self, value: &ScopeValue, binding: &Binding, ask: &Ask, would_wait: bool, now: FleetTime) {
        for (plan, index) in binding.plan.buckets.iter().zip(&binding.buckets) {
            let Some(bucket) = value.buckets.get(*index) else { continue };
            let (Some(rate), Some(level)) = (bucket.rate(), bucket.level_at(now)) else { continue };
            if !would_wait && !self.views.contains_key(&plan.id) {
                continue;
            }
            let view = self.views.entry(plan.id.clone()).or_insert_with(|| {
                let level = Level::new(level.at_least_zero(), now);
                View { levels: [level; 3], window_end: bucket.window_end }
            });
            view.advance(bucket, &rate, now);
            let (cost, _) = outlook::charge_for(value, ask, *index);
            for level in view.levels.iter_mut().skip(ask.class.index()) {
                level.amount -= cost;
            }
        }
    }
}

impl View {
    /// What would be left behind all classes.
    fn least(&self) -> Milli {
        let [.., least] = &self.levels;
        least.amount
    }

    /// Moves every level on to `now`: evenly, or by whole windows.
    fn advance(&mut self, bucket: &BucketState, rate: &Rate, now: FleetTime) {
        if !bucket.is_windowed() {
            self.levels.iter_mut().for_each(|level| level.advance(now, rate));
            return;
        }
        if self.window_end == FleetTime::ZERO {
            self.window_end = bucket.window_end;
        }
        if self.window_end == FleetTime::ZERO || now < self.window_end {
            return;
        }
        let turns = now.since(self.window_end).as_micros() / rate.per.as_micros() + 1;
        self.window_end = self.window_end + Span::from_micros(rate.per.as_micros().saturating_mul(turns));
        for level in &mut self.levels {
            let gained = Milli::from_milli(rate.capacity.as_milli().saturating_mul(turns));
            *level = Level::new((level.amount + gained).min(rate.capacity), now);
        }
    }
}

/// Where a line is longer than a window's quota: how long until the window that has room for `ask`, and in which bucket.
fn later_windows(seen: &ScopeValue, binding: &Binding, ask: &Ask, now: FleetTime) -> (Span, Option<Arc<str>>) {
    let mut latest = (Span::ZERO, None);
    for (plan, index) in binding.plan.buckets.iter().zip(&binding.buckets) {
        let Some(bucket) = seen.buckets.get(*index).filter(|bucket| bucket.is_windowed()) else { continue };
        let Some(rate) = bucket.rate().filter(|rate| rate.capacity > Milli::ZERO) else { continue };
        let (cost, _) = outlook::charge_for(seen, ask, *index);
        let missing = (cost - bucket.level.amount).as_milli();
        if missing <= 0 || bucket.window_end <= now {
            continue;
        }
        let more = (missing - 1) / rate.capacity.as_milli();
        let opens = bucket.window_end + Span::from_micros(rate.per.as_micros().saturating_mul(more)) + guard(rate.per);
        if opens.since(now) > latest.0 {
            latest = (opens.since(now), Some(Arc::from(plan.id.label())));
        }
    }
    latest
}

/// How far apart calls like `ask` come in the scarcest of its buckets.
fn spacing(seen: &ScopeValue, binding: &Binding, ask: &Ask, now: FleetTime) -> Span {
    let per_call = binding.buckets.iter().filter_map(|index| {
        let bucket = seen.buckets.get(*index)?;
        let rate = bucket.rate()?;
        let (cost, _) = outlook::charge_for(seen, ask, *index);
        Some(if bucket.is_windowed() { bucket.gap(cost, now) } else { rate.time_for(cost) })
    });
    per_call.max().unwrap_or(Span::ZERO)
}

fn floors(value: &ScopeValue) -> impl Iterator<Item = Floor> {
    let groups = value.groups.iter().filter_map(|group| group.floor);
    value.floor.into_iter().chain(groups).chain(value.buckets.iter().filter_map(|bucket| bucket.floor))
}

/// Charges a call that is sent at `now` whatever its buckets hold: they go into debt, at most by what they hold in all. `is_new`: it
/// counts for the retry budget.
pub fn charge(value: &mut ScopeValue, ask: &Ask, is_new: bool, now: FleetTime) -> Slot {
    let binding = decide::bind(value, ask, now);
    let hold_until = Holds::slot_for(now, ask.ttl);
    let (charges, estimated) = decide::take(value, ask, &binding, (now, now), false, hold_until);
    for index in &binding.buckets {
        let Some(bucket) = value.buckets.get_mut(*index) else { continue };
        if let Some(rate) = bucket.rate() {
            bucket.level.amount = bucket.level.amount.max(Milli::ZERO - rate.capacity);
            bucket.burst.amount = bucket.burst.amount.max(Milli::ZERO - rate.capacity);
        }
    }
    let (group, group_mark) = decide::begin_flight(value, &binding, hold_until);
    if let Some(group) = value.groups.get_mut(binding.group).filter(|_| is_new) {
        group.tally.count(ask.sent, now);
    }
    Slot { send_at: now, charges, estimated, group_mark, group, hold_until, delays: Vec::new(), runner_up: None }
}
