//! Takes down a run for plots.

use paceline_core::signal::Source;
use paceline_core::units::{FleetTime, Span};
use paceline_provider_sim::Provider;

use super::jobs::Job;
use crate::recording::{Recording, SOURCES};
use crate::scenario::Scenario;

/// A recording in the making.
#[derive(Clone, Debug)]
pub(crate) struct Film {
    recording: Recording,
    start: FleetTime,
}

impl Film {
    /// Of this run, which begins at `start`.
    pub(crate) fn new(scenario: &Scenario, jobs: &[Job], strategy: &str, seed: u64, bin: Span, start: FleetTime) -> Self {
        let mut recording = Recording::new(&scenario.name, strategy, seed, bin);
        let demand = |meter: &str| jobs.iter().map(|job| job.call.cost.of(meter) as f64).sum::<f64>();
        let scarcity =
            |limit: &&paceline_provider_sim::Limit| demand(&limit.meter) / limit.units as f64 * limit.per.as_secs_f64();
        if let Some(limit) = scenario.limits().max_by(|a, b| scarcity(a).total_cmp(&scarcity(b))) {
            recording.level_meter = limit.meter.to_string();
            recording.level_capacity = limit.capacity().as_units_floor() as f64;
        }
        Self { recording, start }
    }

    pub(crate) fn sent(&mut self, now: FleetTime, rejected: bool) {
        let bin = self.bin_of(now);
        bump(&mut self.recording.sends, bin, 1);
        bump(&mut self.recording.rejections, bin, u32::from(rejected));
    }

    /// Somebody waited, or will wait, from `from` until `until`.
    pub(crate) fn waited(&mut self, source: Source, from: FleetTime, until: FleetTime) {
        let Some(number) = Source::ALL.iter().position(|known| *known == source) else { return };
        let bin = self.recording.bin;
        let mut at = from.max(self.start);
        while at < until {
            let index = self.bin_of(at);
            let end = (self.start + Span::from_micros(bin.as_micros() * (i64::try_from(index).unwrap_or(0) + 1))).min(until);
            if self.recording.waiting_by_source.len() <= index {
                self.recording.waiting_by_source.resize(index + 1, [0.0; SOURCES]);
            }
            let share = end.since(at).as_secs_f64() / bin.as_secs_f64();
            if let Some(waiting) = self.recording.waiting_by_source.get_mut(index).and_then(|bin| bin.get_mut(number)) {
                *waiting += share;
            }
            at = end;
        }
    }

    /// The length of a bin: ask for [`Film::look`] that often.
    pub(crate) fn bin(&self) -> Span {
        self.recording.bin
    }

    /// Takes down the provider's level at the end of a bin.
    pub(crate) fn look(&mut self, provider: &mut Provider, now: FleetTime) {
        let readings = provider.levels(now);
        let meter = &self.recording.level_meter;
        let level = readings.iter().find(|reading| *reading.reading.meter == **meter).map_or(0, |own| own.reading.remaining);
        self.recording.level.push(level as f64);
    }

    /// The recording of a run that ended.
    pub(crate) fn develop(mut self, end: FleetTime) -> Recording {
        let bins = self.bin_of(end) + 1;
        let last = self.recording.level.last().copied().unwrap_or(self.recording.level_capacity);
        self.recording.sends.resize(bins, 0);
        self.recording.rejections.resize(bins, 0);
        self.recording.level.resize(bins, last);
        self.recording.waiting_by_source.resize(bins, [0.0; SOURCES]);
        self.recording
    }

    fn bin_of(&self, at: FleetTime) -> usize {
        let bin = self.recording.bin.as_micros().max(1);
        usize::try_from(at.since(self.start).as_micros() / bin).unwrap_or(0)
    }
}

fn bump(bins: &mut Vec<u32>, index: usize, by: u32) {
    if bins.len() <= index {
        bins.resize(index + 1, 0);
    }
    if let Some(bin) = bins.get_mut(index) {
        *bin += by;
    }
}
