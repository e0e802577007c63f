//! Tallies in memory: by hour, so that whole hours go when they are over.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::RangeInclusive;

use paceline_core::history::Hour;
use paceline_core::units::FleetTime;

use super::shard::Usage;
use crate::key::ScopeKey;
use crate::tally::{Addition, Counters, Day, MOST_COUNTED, ScopeName};

/// About what a page takes beside its counters, and a counter beside its name.
const PAGE_BYTES: usize = 256;
const COUNTER_BYTES: usize = 64;

/// Tallies and names of all scopes.
#[derive(Debug, Default)]
pub(super) struct Tallies {
    hours: BTreeMap<Hour, HashMap<ScopeKey, Page>>,
    names: BTreeMap<Day, BTreeSet<ScopeName>>,
}

#[derive(Debug, Default)]
struct Page {
    counters: Counters,
    /// The last addition of each writer.
    last: HashMap<u32, u64>,
}

/// The most memory an addition can need.
pub(super) fn size_of(addition: &Addition) -> usize {
    PAGE_BYTES + addition.counters.iter().map(|(name, _)| COUNTER_BYTES + name.len()).sum::<usize>()
}

impl Tallies {
    pub(super) fn add(&mut self, scope: &ScopeKey, addition: Addition, now: FleetTime, used: &Usage) {
        self.end(now, used);
        if !addition.hour.is_kept(now) {
            return;
        }
        let pages = self.hours.entry(addition.hour).or_default();
        let mut grown = if pages.contains_key(scope) { 0 } else { PAGE_BYTES };
        let page = pages.entry(*scope).or_default();
        let last = page.last.entry(addition.writer).or_default();
        if addition.number > *last {
            *last = addition.number;
            for (name, count) in addition.counters {
                let size = COUNTER_BYTES + name.len();
                let sum = page.counters.entry(name).or_insert_with(|| {
                    grown += size;
                    0
                });
                *sum = sum.saturating_add(count).min(MOST_COUNTED);
            }
        }
        used.add(grown);
    }

    pub(super) fn read(&self, scope: &ScopeKey, hours: RangeInclusive<Hour>, now: FleetTime) -> Vec<(Hour, Counters)> {
        let kept = self.hours.range(hours).filter(|(hour, _)| hour.is_kept(now));
        kept.filter_map(|(hour, pages)| Some((*hour, pages.get(scope)?.counters.clone()))).collect()
    }

    pub(super) fn name(&mut self, day: Day, names: Vec<ScopeName>, now: FleetTime) {
        if day.kept_until() > now {
            self.names.entry(day).or_default().extend(names);
        }
    }

    pub(super) fn names(&self, days: RangeInclusive<Day>, now: FleetTime) -> BTreeSet<ScopeName> {
        let kept = self.names.range(days).filter(|(day, _)| day.kept_until() > now);
        kept.flat_map(|(_, names)| names.iter().cloned()).collect()
    }

    /// Takes away what is over.
    fn end(&mut self, now: FleetTime, used: &Usage) {
        while let Some(first) = self.hours.first_entry().filter(|first| !first.key().is_kept(now)) {
            let counters = |page: &Page| page.counters.keys().map(|name| COUNTER_BYTES + name.len()).sum::<usize>();
            let freed: usize = first.remove().values().map(|page| PAGE_BYTES + counters(page)).sum();
            used.sub(freed);
        }
        self.names.retain(|day, _| day.kept_until() > now);
    }
}
