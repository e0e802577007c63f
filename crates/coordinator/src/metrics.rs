//! Events of a step as metrics.

use std::collections::HashMap;
use std::sync::Arc;

use paceline_core::report::Outcome;
use paceline_core::units::FleetTime;
use paceline_telemetry::{AcquireOutcome, ReportOutcome, ScopeLabels, StateLoss, Status, Telemetry, Units};

use crate::api::Target;
use crate::history::Ledger;
use crate::journal::{Happened, Journal, Kind, of_scope};
use crate::lives::Lives;
use crate::scope::{DecidedAs, Event, UnitsOf};

/// The recorder of one scope; it keeps the labels of the models it has seen.
pub(crate) struct Recorder {
    telemetry: Telemetry,
    /// Where calls are counted for later.
    ledger: Option<Arc<Ledger>>,
    /// Where changes are noted, and by which replica.
    journal: (Arc<Journal>, u32),
    /// Where calls that leave are remembered.
    lives: Arc<Lives>,
    target: Target,
    labels: HashMap<Arc<str>, ScopeLabels>,
}

impl Recorder {
    pub(crate) fn new(
        telemetry: Telemetry,
        ledger: Option<Arc<Ledger>>,
        journal: (Arc<Journal>, u32),
        lives: Arc<Lives>,
        target: Target,
    ) -> Self {
        Self { telemetry, ledger, journal, lives, target, labels: HashMap::new() }
    }

    fn note(&self, happened: Happened) {
        let (journal, replica) = &self.journal;
        journal.note(*replica, happened);
    }

    pub(crate) fn conflict(&self) {
        self.telemetry.store_conflict();
    }

    pub(crate) fn repaired(&self, fields: u64) {
        self.telemetry.state_repaired(fields);
    }

    pub(crate) fn merged(&self, loss: StateLoss) {
        self.telemetry.state_merged(loss);
    }

    /// Counts what a step at `now` brought about.
    pub(crate) fn record(&mut self, event: Event, now: FleetTime) {
        if let Some(ledger) = &self.ledger {
            ledger.note(&event, now);
        }
        match event {
            Event::Decided { model, tenant, class, outcome, delays, .. } => {
                let labels = self.labels_of(&model);
                let (outcome, reason) = match outcome {
                    DecidedAs::Granted => (AcquireOutcome::Granted, ""),
                    DecidedAs::Queued => (AcquireOutcome::Queued, ""),
                    DecidedAs::Denied(reason) => (AcquireOutcome::Denied, reason.name()),
                };
                self.telemetry.acquire_decided(&labels, outcome, reason);
                // The wait of who is queued goes on and is counted when it ends.
                let waited = (outcome != AcquireOutcome::Queued).then(|| paceline_core::delays::total(&delays));
                self.telemetry.tenant_answered(&labels, &tenant, class, outcome, waited);
                let Some(waited) = waited else { return };
                self.telemetry.wait(&labels, class, outcome, waited);
                for part in delays {
                    self.telemetry.delay(&labels, part.cause.source, &part.cause.bucket, part.length);
                }
            }
            Event::Reported(report) => {
                let labels = self.labels_of(&report.model);
                let status = match (report.outcome, report.grpc_status, report.status) {
                    (Outcome::Response, Some(code), 0) => Status::Grpc(code),
                    (Outcome::Response, _, status) if status > 0 => Status::Http(status),
                    _ => Status::None,
                };
                self.telemetry.report(&labels, outcome_label(report.outcome), status, report.verdict);
                if let Some(source) = report.refusal_source {
                    self.telemetry.signal(&labels, source);
                }
                for name in &report.unread {
                    self.telemetry.unread_header(&labels, name);
                }
            }
            Event::LeasesExpired(count) => {
                let labels = self.labels_of(&Arc::from(""));
                self.telemetry.leases_expired(&labels, count);
            }
            Event::LateUse { model } => {
                let labels = self.labels_of(&model);
                self.telemetry.late_use(&labels);
            }
            Event::LimitFlapped { model } => {
                let labels = self.labels_of(&model);
                self.telemetry.learned_limit_flap(&labels);
            }
            Event::Used { model, tenant, is_retry, units, .. } => {
                let labels = self.labels_of(&model);
                for UnitsOf { meter, used, overrun } in units {
                    let units = Units { tenant: &tenant, meter: &meter, is_retry, used, overrun };
                    self.telemetry.units(&labels, &units);
                }
            }
            Event::Changed(changed) => self.note(of_scope(&self.target, &changed, now)),
            Event::AccountMixed { organisations } => {
                let mixed = Happened {
                    provider: self.target.provider.clone(),
                    account: self.target.account.clone(),
                    who: "the provider".to_owned(),
                    why: "its answers name several organisations under one account name".to_owned(),
                    after: organisations.join(", "),
                    ..Happened::new(now, Kind::AccountMixed)
                };
                self.note(mixed);
                tracing::warn!(
                    provider = self.target.provider,
                    account = self.target.account,
                    organisations = organisations.join(", "),
                    "answers of this account name several organisations: one name stands for several quotas"
                );
            }
            Event::Watched { model, wait, denied, .. } => {
                let labels = self.labels_of(&model);
                self.telemetry.watched(&labels, wait);
                if let Some(reason) = denied {
                    self.telemetry.would_deny(&labels, reason);
                }
            }
            Event::Prevented { model } => {
                let labels = self.labels_of(&model);
                self.telemetry.prevented(&labels);
            }
            Event::Left(life) => self.lives.note(*life),
            // Counted in the history alone.
            Event::Spoilt { .. } => {}
            Event::Repaired(fields) => self.repaired(fields),
        }
    }

    fn labels_of(&mut self, model: &Arc<str>) -> ScopeLabels {
        if let Some(labels) = self.labels.get(model) {
            return labels.clone();
        }
        let labels = self.telemetry.scope(&self.target.provider, &self.target.account, model);
        // Bounded here as there: a worker may invent model names.
        if self.labels.len() < 1_024 {
            self.labels.insert(model.clone(), labels.clone());
        }
        labels
    }
}

const fn outcome_label(outcome: Outcome) -> ReportOutcome {
    match outcome {
        Outcome::Response => ReportOutcome::Response,
        Outcome::Running => ReportOutcome::Running,
        Outcome::Timeout => ReportOutcome::Timeout,
        Outcome::ConnectionFailed => ReportOutcome::ConnectionFailed,
        Outcome::Abandoned => ReportOutcome::Abandoned,
    }
}
