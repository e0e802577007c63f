//! Buckets as gauges show them: written by the actor at its steps, read when somebody scrapes.

use std::sync::{Arc, Mutex, PoisonError};

use paceline_core::bucket::BucketState;
use paceline_core::forecast::{Drawn, Grants};
use paceline_core::plan::{BucketId, Owner};
use paceline_core::units::{FleetTime, Milli, Span};
use paceline_telemetry::InBucket;

use crate::scope::Scope;

/// A busy scope steps hundreds of times a second, and a scrape needs nothing fresher of many buckets.
const EVERY: Span = Span::from_secs(1);
/// So few are written at each step: the last one of a burst may be the last for long.
const FEW: usize = 8;

/// A bucket, and how its level goes on.
#[derive(Clone, Debug)]
struct Row {
    id: BucketId,
    shown: InBucket,
    refill_per_second: f64,
    most: f64,
    drawn: Drawn,
    /// What was granted of it while this replica had the scope.
    last_minute: Grants,
    /// The same of a day's quota.
    last_hour: Option<Grants>,
}

#[derive(Debug, Default)]
struct Written {
    at: FleetTime,
    rows: Vec<Row>,
}

/// The buckets of one scope as they were at one instant.
#[derive(Debug, Default)]
pub(crate) struct BucketGauges(Mutex<Written>);

impl BucketGauges {
    /// Writes them; where there are many, unless that was done within the last second.
    pub(crate) fn write(&self, scope: &Scope, now: FleetTime) {
        let mut written = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_fresh = written.at != FleetTime::ZERO && now >= written.at && now.since(written.at) < EVERY;
        let buckets = &scope.value().buckets;
        if is_fresh && buckets.len() > FEW {
            return;
        }
        written.at = now;
        let are_the_same = written.rows.len() == buckets.len()
            && written.rows.iter().zip(buckets).all(|(row, bucket)| row.id == bucket.plan.id);
        if !are_the_same {
            let before = std::mem::take(&mut written.rows);
            written.rows = buckets.iter().map(|bucket| Row::of(bucket, &before, now)).collect();
        }
        written.rows.iter_mut().zip(buckets).for_each(|(row, bucket)| row.write(bucket, now));
    }

    /// What they hold at `now`, if nothing has happened since they were written.
    pub(crate) fn read(&self, provider: &Arc<str>, account: &Arc<str>, now: FleetTime) -> Vec<InBucket> {
        let written = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let passed = now.since(written.at).as_secs_f64();
        written.rows.iter().map(|row| row.read(provider, account, passed, now)).collect()
    }
}

impl Row {
    /// One that is new here, unless it was among those `before`.
    fn of(bucket: &BucketState, before: &[Self], now: FleetTime) -> Self {
        let id = &bucket.plan.id;
        before.iter().find(|row| row.id == *id).cloned().unwrap_or_else(|| Self {
            id: id.clone(),
            shown: InBucket {
                provider: Arc::from(""),
                account: Arc::from(""),
                model: match &id.owner {
                    Owner::Group(group) => group.clone(),
                    Owner::Shared(_) | Owner::Account => Arc::from(""),
                },
                bucket: Arc::from(id.label()),
                level: None,
                configured: None,
                learned: None,
                effective: None,
                observed_remaining: None,
                foreign_drain: None,
                utilization: None,
                exhausted_in: None,
                resets_in: None,
            },
            refill_per_second: 0.0,
            most: f64::INFINITY,
            drawn: Drawn::of(bucket, now),
            last_minute: Grants::over(Span::from_secs(60)),
            last_hour: None,
        })
    }

    fn write(&mut self, bucket: &BucketState, now: FleetTime) {
        let rate = bucket.rate();
        let refilling = rate.filter(|_| !bucket.is_held() && !bucket.is_windowed());
        let knows_others = bucket.drain.backing.reports > 0;
        self.shown.level = bucket.level_at(now).map(Milli::as_units_f64);
        self.shown.configured = bucket.plan.limit;
        self.shown.learned = bucket.learned.limit;
        self.shown.effective = bucket.our_limit();
        self.shown.observed_remaining = bucket.observed.map(|seen| seen.remaining.as_units_floor());
        self.shown.foreign_drain = knows_others.then(|| bucket.foreign_drain().map_or(0.0, Milli::as_units_f64));
        self.refill_per_second = refilling.map_or(0.0, |rate| rate.gained_in(Span::from_secs(60)).as_units_f64() / 60.0);
        self.most = rate.map_or(f64::INFINITY, |rate| rate.capacity.as_units_f64());
        self.drawn = Drawn::of(bucket, now);
        self.last_minute.note(now, bucket.fired);
        if self.drawn.is_long() {
            self.last_hour.get_or_insert_with(|| Grants::over(Span::from_secs(3_600))).note(now, bucket.fired);
        }
    }

    fn read(&self, provider: &Arc<str>, account: &Arc<str>, passed: f64, now: FleetTime) -> InBucket {
        let level = self.shown.level.map(|level| level.max((level + self.refill_per_second * passed).min(self.most)));
        let seconds = |span: Option<Span>| span.map(Span::as_secs_f64);
        let left = level.map(|level| Milli::from_milli((level * 1_000.0) as i64));
        let exhausted_in = left.zip(self.last_hour.as_ref()).and_then(|(left, hour)| self.drawn.empty_in(left, hour, now));
        InBucket {
            provider: provider.clone(),
            account: account.clone(),
            level,
            utilization: self.drawn.utilization(&self.last_minute, now),
            exhausted_in: seconds(exhausted_in),
            resets_in: seconds(self.drawn.resets_in(now)),
            ..self.shown.clone()
        }
    }
}
