//! Buckets as gauges show them: written by the actor at its steps, read when somebody scrapes.

use std::sync::{Arc, Mutex, PoisonError};

use paceline_core::bucket::BucketState;
use paceline_core::plan::Owner;
use paceline_core::units::{FleetTime, Span};
use paceline_telemetry::InBucket;

use crate::scope::Scope;

/// A busy scope steps hundreds of times a second, and a scrape needs nothing fresher of many buckets.
const EVERY: Span = Span::from_secs(1);
/// So few are written at each step: the last one of a burst may be the last for long.
const FEW: usize = 8;

/// A bucket, and how its level goes on.
#[derive(Clone, Debug)]
struct Row {
    shown: InBucket,
    refill_per_second: f64,
    most: f64,
}

#[derive(Debug, Default)]
struct Written {
    at: FleetTime,
    rows: Arc<[Row]>,
}

/// The buckets of one scope as they were at one instant.
#[derive(Debug, Default)]
pub(crate) struct BucketGauges(Mutex<Written>);

impl BucketGauges {
    /// Writes them; where there are many, unless that was done within the last second.
    pub(crate) fn write(&self, scope: &Scope, now: FleetTime) {
        let mut written = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_fresh = written.at != FleetTime::ZERO && now >= written.at && now.since(written.at) < EVERY;
        if is_fresh && scope.value().buckets.len() > FEW {
            return;
        }
        *written = Written { at: now, rows: scope.value().buckets.iter().map(|bucket| row(bucket, now)).collect() };
    }

    /// What they hold at `now`, if nothing has happened since they were written.
    pub(crate) fn read(&self, provider: &Arc<str>, account: &Arc<str>, now: FleetTime) -> Vec<InBucket> {
        let (at, rows) = {
            let written = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            (written.at, written.rows.clone())
        };
        let passed = now.since(at).as_secs_f64();
        let shown = |row: &Row| InBucket {
            provider: provider.clone(),
            account: account.clone(),
            level: row.shown.level.map(|level| level.max((level + row.refill_per_second * passed).min(row.most))),
            ..row.shown.clone()
        };
        rows.iter().map(shown).collect()
    }
}

fn row(bucket: &BucketState, now: FleetTime) -> Row {
    let rate = bucket.rate();
    let refilling = rate.filter(|_| !bucket.is_held() && !bucket.is_windowed());
    let knows_others = bucket.drain.backing.reports > 0;
    Row {
        shown: InBucket {
            provider: Arc::from(""),
            account: Arc::from(""),
            model: match &bucket.plan.id.owner {
                Owner::Group(group) => group.clone(),
                Owner::Shared(_) | Owner::Account => Arc::from(""),
            },
            bucket: Arc::from(bucket.plan.id.label()),
            level: bucket.level_at(now).map(|level| level.as_units_f64()),
            configured: bucket.plan.limit,
            learned: bucket.learned.limit,
            effective: bucket.our_limit(),
            observed_remaining: bucket.observed.map(|seen| seen.remaining.as_units_floor()),
            foreign_drain: knows_others.then(|| bucket.foreign_drain().map_or(0.0, |drain| drain.as_units_f64())),
        },
        refill_per_second: refilling.map_or(0.0, |rate| rate.gained_in(Span::from_secs(60)).as_units_f64() / 60.0),
        most: rate.map_or(f64::INFINITY, |rate| rate.capacity.as_units_f64()),
    }
}
