//! Going on when nobody answers: with the recent share first, then as an SDK does by itself, and back as soon as anybody answers.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use paceline_proto::v1::acquire_response::Outcome;
use paceline_proto::v1::{AcquireResponse, Mode, Priority, Reason, Signal, Source};
use tokio::time::Instant;

use crate::ask::Asked;
use crate::error::Denied;
use crate::peers::Peers;
use crate::recent::{Place, Recent};
use crate::stats::Path;
use crate::timing;
use crate::waiting::sleep_past;

/// It is said so often that calls go on without the service.
const SAY_EVERY: Duration = Duration::from_secs(60);
/// A place that was closed without an end is looked at again after this long.
const UNTIL_FURTHER_NOTICE: Duration = Duration::from_secs(60 * 60);

/// What a client knows that it needs when it is alone.
#[derive(Debug, Default)]
pub(crate) struct Solo {
    recent: Mutex<Recent>,
    said_at: Mutex<Option<Instant>>,
}

/// How waiting without the service ended.
#[derive(Debug)]
pub(crate) enum Waited {
    /// Send now.
    Go(Path),
    /// Somebody answers again: ask.
    Back,
    /// It would take too long.
    Denied(Box<Denied>),
}

impl Solo {
    /// Remembers what an answer of the service means for the time after it.
    pub(crate) fn heard(&self, asked: &Asked, answer: &AcquireResponse, now: Instant) {
        match &answer.outcome {
            Some(Outcome::Grant(grant)) => {
                let target = grant.target.clone().unwrap_or_else(|| asked.target());
                let place = Place::of(&target);
                let sent_at = timing::after(now, grant.wait.as_ref().map(timing::length).unwrap_or_default());
                let is_enforced = !matches!(answer.mode(), Mode::Off | Mode::Shadow);
                self.with(|recent| {
                    recent.granted(&place, &grant.reserved, now);
                    recent.enforces(&place, is_enforced);
                    if is_enforced {
                        recent.lift(&place, sent_at);
                    }
                });
            }
            Some(Outcome::Queued(queued)) => {
                let is_floor = answer.delays.iter().any(|delay| delay.binding && is_of_the_provider(delay.source()));
                if let Some(wait) = queued.estimated_wait.as_ref().filter(|_| is_floor) {
                    self.not_before(asked, timing::after(now, timing::length(wait)));
                }
            }
            Some(Outcome::Denial(denial)) => {
                let stays = matches!(denial.reason(), Reason::OverHonorCap | Reason::QuotaExhausted | Reason::Paused);
                if stays {
                    let wait = denial.retry_after.as_ref().map_or(UNTIL_FURTHER_NOTICE, timing::length);
                    self.not_before(asked, timing::after(now, wait));
                }
            }
            None => {}
        }
    }

    /// Remembers what the provider said to a call, as the service or the client itself read it.
    pub(crate) fn told(&self, place: &Place, signal: Option<&Signal>, now: Instant) {
        let said = signal.and_then(|signal| signal.honored.as_ref().or(signal.retry_after.as_ref())).map(timing::length);
        if let Some(wait) = said.filter(|wait| !wait.is_zero()) {
            self.with(|recent| recent.floor(place, timing::after(now, wait)));
        }
    }

    /// The provider refused a call that nobody but us let go.
    pub(crate) fn refused(&self, place: &Place) {
        self.with(|recent| recent.refused(place));
    }

    /// Whether the service made calls like this wait when it last answered. Where it only watched, its absence holds nobody up.
    pub(crate) fn is_enforced(&self, asked: &Asked) -> bool {
        self.with(|recent| recent.is_enforced(&Place::of(&asked.target())))
    }

    /// Waits for a turn while nobody answers.
    pub(crate) async fn wait(&self, peers: &Peers, asked: &Asked, started: Instant) -> Waited {
        let mut changes = peers.changes();
        let now = Instant::now();
        let Some(away_since) = peers.away_since(now) else { return Waited::Back };
        let place = Place::of(&asked.target());
        let chance = rand::random();
        let turn = self.with(|recent| recent.book(&place, asked.cost(), away_since, now, chance));
        let path = if turn.is_paced { Path::Local } else { Path::Bypass };
        self.say(peers, path, away_since, now);
        if let Some(denied) = too_late(asked, started, turn.at, now) {
            return Waited::Denied(Box::new(denied));
        }
        let back = async {
            // The sender lives as long as the peers.
            while peers.away_since(Instant::now()).is_some() && changes.changed().await.is_ok() {}
        };
        tokio::select! {
            biased;
            () = back => Waited::Back,
            () = sleep_past(turn.at) => Waited::Go(path),
        }
    }

    fn not_before(&self, asked: &Asked, until: Instant) {
        self.with(|recent| recent.floor(&Place::of(&asked.target()), until));
    }

    /// Says once a minute how calls go on.
    fn say(&self, peers: &Peers, path: Path, away_since: Instant, now: Instant) {
        let mut said_at = self.said_at.lock().unwrap_or_else(PoisonError::into_inner);
        if said_at.is_some_and(|said_at| now.saturating_duration_since(said_at) < SAY_EVERY) {
            return;
        }
        *said_at = Some(now);
        let how = match path {
            Path::Local => "with this client's recent share, halved each minute",
            _ => "unpaced, as they would without Paceline",
        };
        let (addrs, for_s) = (peers.addrs(), now.saturating_duration_since(away_since).as_secs());
        tracing::warn!(addrs, for_s, "no Paceline service answers; calls go on {how}. Is `paceline serve` running there?");
    }

    fn with<T>(&self, change: impl FnOnce(&mut Recent) -> T) -> T {
        change(&mut self.recent.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Whether the provider itself said so, and not one of us reckoned it.
fn is_of_the_provider(source: Source) -> bool {
    matches!(
        source,
        Source::RetryAfterSeconds | Source::RetryAfterDate | Source::RetryAfterMs | Source::ResetHeader | Source::ErrorBody
    )
}

/// A turn that comes after the caller has lost interest.
fn too_late(asked: &Asked, started: Instant, at: Instant, now: Instant) -> Option<Denied> {
    let longest = asked.max_wait().unwrap_or_else(|| longest_wait(asked.priority()));
    let is_after_deadline = asked.deadline.is_some_and(|deadline| at >= deadline.at);
    let which = match (is_after_deadline, at > timing::after(started, longest)) {
        (true, _) => "its deadline".to_owned(),
        (false, true) => format!("the {longest:?} that it may wait"),
        (false, false) => return None,
    };
    let wait = at.saturating_duration_since(now);
    let detail = format!(
        "no Paceline service answers, and by this client's recent share the call could go in {wait:.1?}, after {which}"
    );
    Some(Denied { reason: Reason::Deadline, retry_after: Some(wait), detail, delays: Vec::new() })
}

/// How long a call waits when it does not say: as the service has it by default.
fn longest_wait(priority: Priority) -> Duration {
    match priority {
        Priority::Interactive => Duration::from_secs(15),
        Priority::Batch => Duration::from_secs(60 * 60),
        _ => Duration::from_secs(2 * 60),
    }
}
