//! What people on call say through any replica: modes, pauses and limits for a while, and what is to be forgotten.
//!
//! Each answer tells whom it touches and how it is undone. What was asked for is read in `read`, whom it touches is found in `touched`
//! (pure, on what the fleet shows), answers and commands are written in `write`.

mod read;
mod touched;
mod write;

use paceline_coordinator::{Coordinator, EventKind, Happened};
use paceline_core::controls::{Book, Control, ControlError, Kind, New, Pending, What, Whom};
use paceline_core::forget::Forget;
use paceline_core::units::FleetTime;
use paceline_proto::v1;
use paceline_store::{ChangeError, Store, StoreError};
use tonic::Status;

use crate::overview::Overview;

pub(crate) use self::touched::Touched;

/// The controls as people reach them; cheap to clone.
pub(crate) struct Controls<S> {
    coordinator: Coordinator<S>,
    overview: Overview<S>,
}

/// How something is said.
#[derive(Clone, Copy, Debug, Default)]
struct How {
    /// Nothing is said: it is only told what would be touched.
    is_trial: bool,
    /// Also when nothing live is touched.
    even_if_unseen: bool,
    /// At this replica alone.
    is_here: bool,
}

impl<S: Store> Controls<S> {
    pub(crate) fn new(coordinator: Coordinator<S>, overview: Overview<S>) -> Self {
        Self { coordinator, overview }
    }

    /// The controls in force.
    pub(crate) fn list(&self) -> v1::ListControlsResponse {
        v1::ListControlsResponse { controls: in_force(&self.coordinator) }
    }

    pub(crate) async fn set_mode(&self, request: v1::SetModeRequest) -> Result<v1::ControlResponse, Status> {
        let what = read::mode(request.mode);
        self.say(what, request.selector, request.said).await
    }

    pub(crate) async fn pause(&self, request: v1::PauseRequest) -> Result<v1::ControlResponse, Status> {
        self.say(Ok(What::Pause), request.selector, request.said).await
    }

    pub(crate) async fn set_limit(&self, request: v1::SetLimitRequest) -> Result<v1::ControlResponse, Status> {
        let what = read::limit(request.limit.as_ref());
        self.say(what, request.selector, request.said).await
    }

    async fn say(
        &self,
        what: Result<What, read::Wrong>,
        selector: Option<v1::Selector>,
        said: Option<v1::Said>,
    ) -> Result<v1::ControlResponse, Status> {
        let (mut new, how) = read::said(what, selector, said)?;
        self.make_canonical(&mut new.whom)?;
        let mut touched = self.overview.touched(&new.whom).await;
        if let What::Limit(limit) = &new.what {
            touched.keep_limits(limit);
        }
        if touched.is_nothing() && !how.even_if_unseen {
            return Err(self.unseen(&new).await);
        }
        let pending = self.change(how, |book, now| book.say(new.clone(), now)).await?;
        let now = self.coordinator.now();
        let mut added = pending.added.clone();
        if let Some(control) = added.as_mut().filter(|_| how.is_trial) {
            control.id = 0;
        }
        if !how.is_trial {
            self.tell(&pending, "", now);
        }
        Ok(v1::ControlResponse {
            undo: added.as_ref().map(write::undo).unwrap_or_default(),
            control: added.map(|control| write::control(&control, now)),
            ended: pending.ended.iter().map(|control| write::control(control, now)).collect(),
            touched: Some(touched.into_message()),
        })
    }

    /// Ends controls of a kind.
    pub(crate) async fn end(&self, kind: Kind, request: v1::EndControlsRequest) -> Result<v1::ControlResponse, Status> {
        let how = How { is_trial: request.dry_run, is_here: request.here, even_if_unseen: false };
        let (whom, id) = read::which(&request)?;
        let bucket = Some(request.bucket.as_str()).filter(|bucket| !bucket.is_empty());
        let mut whom = whom;
        if let Some(whom) = &mut whom {
            self.make_canonical(whom)?;
        }
        let take_back = |book: &Book, now: FleetTime| {
            Ok(match &whom {
                Some(whom) => book.take_back(kind, whom, bucket, now),
                None => book.take_back_one(kind, id, now),
            })
        };
        let pending = self.change(how, take_back).await?;
        let now = self.coordinator.now();
        if pending.ended.is_empty() {
            return Err(Status::not_found(write::nothing_to_end(kind, whom.as_ref(), id, &pending.book, now)));
        }
        if !how.is_trial {
            self.tell(&pending, &request.who, now);
        }
        let mut touched = touched::Touched::default();
        for control in &pending.ended {
            touched.add(self.overview.touched(&control.whom).await);
        }
        Ok(v1::ControlResponse {
            control: None,
            ended: pending.ended.iter().map(|control| write::control(control, now)).collect(),
            touched: Some(touched.into_message()),
            undo: pending.ended.iter().map(|control| write::again(control, now)).collect::<Vec<_>>().join("\n"),
        })
    }

    /// Forgets what answers have taught.
    pub(crate) async fn forget(&self, request: v1::ForgetRequest) -> Result<v1::ForgetResponse, Status> {
        let (what, mut whom) = read::forget(&request)?;
        self.make_canonical(&mut whom)?;
        let touched = self.overview.touched(&whom).await;
        let mut names: Vec<(String, String)> =
            touched.names().map(|(provider, account)| (provider.to_owned(), account.to_owned())).collect();
        if names.is_empty() && is_name(&whom.provider) && is_name(&whom.account) {
            // It may be at rest, with what it learned in the store.
            names.push((whom.provider.to_string(), whom.account.to_string()));
        }
        if names.is_empty() {
            return Err(Status::not_found(touched::nothing(&whom, &self.overview.live().await)));
        }
        let Forget { floors, learned, breakers, quotas } = what;
        let mut scopes = Vec::new();
        for (provider, account) in &names {
            let forgotten = self.coordinator.forget(provider, account, what, &whom, request.dry_run).await;
            let forgotten = forgotten.map_err(crate::grpc::status_of_call)?;
            if !forgotten.is_nothing() {
                if !request.dry_run {
                    self.coordinator.note(Happened {
                        provider: provider.clone(),
                        account: account.clone(),
                        group: whom.model.to_string(),
                        who: request.who.clone(),
                        why: request.reason.clone(),
                        before: write::forgotten_in_words(forgotten),
                        after: "nothing: it is learned anew".to_owned(),
                        ..Happened::new(self.coordinator.now(), EventKind::Forgotten)
                    });
                }
                scopes.push(write::forgotten(provider, account, forgotten));
            }
        }
        if !request.dry_run {
            tracing::warn!(
                %whom, floors, learned, breakers, quotas, who = request.who, reason = request.reason, scopes = scopes.len(),
                "a person had it forget what answers have taught"
            );
        }
        Ok(v1::ForgetResponse { scopes, looked_at: u64::try_from(names.len()).unwrap_or(u64::MAX) })
    }

    async fn change(
        &self,
        how: How,
        mut change: impl FnMut(&Book, FleetTime) -> Result<Pending, ControlError> + Send,
    ) -> Result<Pending, Status> {
        let refused = |error: ControlError| match error {
            ControlError::Full => Status::failed_precondition(error.to_string()),
            other => Status::invalid_argument(other.to_string()),
        };
        if how.is_trial {
            return change(&self.coordinator.controls(), self.coordinator.now()).map_err(refused);
        }
        if how.is_here {
            return self.coordinator.change_controls_here(change).await.map_err(refused);
        }
        self.coordinator.change_controls(change).await.map_err(|error| match error {
            ChangeError::Refused(error) => refused(error),
            ChangeError::Store(StoreError::Corrupt { detail }) => {
                Status::failed_precondition(format!("the controls of this fleet cannot be changed here: {detail}"))
            }
            ChangeError::Store(error) => Status::unavailable(format!(
                "the store does not answer, so other replicas cannot be told: {error}; try again, or have it hold at this replica alone \
                 until the store answers (--here), and at each of the others"
            )),
        })
    }

    /// Names without patterns are made those that scopes have: aliases of accounts are resolved.
    fn make_canonical(&self, whom: &mut Whom) -> Result<(), Status> {
        if !is_name(&whom.provider) {
            return Ok(());
        }
        let account = Some(whom.account.to_string()).filter(|account| is_name(account));
        let target = paceline_coordinator::api::Target {
            provider: whom.provider.to_string(),
            account: account.clone().unwrap_or_default(),
            model: String::new(),
        };
        match self.coordinator.settings().canonical(&target) {
            Ok(target) => {
                whom.provider = target.provider.into();
                if account.is_some() {
                    whom.account = target.account.into();
                }
                Ok(())
            }
            // Without an account there may be none of that name.
            Err(error) => match error {
                paceline_coordinator::api::CallError::Invalid { .. } if account.is_none() => Ok(()),
                error => Err(crate::grpc::status_of_call(error)),
            },
        }
    }

    /// Says in the log, and to whoever asks what happened, what a person did; `who`: who ended something, where that was said.
    fn tell(&self, pending: &Pending, who: &str, now: FleetTime) {
        if let Some(added) = &pending.added {
            let lasts = added.ends.since(now);
            tracing::warn!(id = added.id, who = &*added.who, reason = &*added.reason, %lasts, "a person said: {}", write::in_words(added));
            let before = pending.ended.first().map(write::in_words).unwrap_or_default();
            self.note(EventKind::ControlBegan, added, &added.who, before, format!("{}, for {lasts}", write::in_words(added)));
            return;
        }
        for ended in &pending.ended {
            tracing::warn!(id = ended.id, said_by = &*ended.who, who, "a person ended: {}", write::in_words(ended));
            self.note(EventKind::ControlEnded, ended, who, write::in_words(ended), "what is configured".to_owned());
        }
    }

    fn note(&self, kind: EventKind, control: &Control, who: &str, before: String, after: String) {
        // An event is of one scope, or of the fleet.
        let name = |glob: &str| if glob.contains(['*', '?']) { String::new() } else { glob.to_owned() };
        self.coordinator.note(Happened {
            provider: name(&control.whom.provider),
            account: name(&control.whom.account),
            who: if who.is_empty() { "a person".to_owned() } else { who.to_owned() },
            why: control.reason.to_string(),
            before,
            after,
            ..Happened::new(self.coordinator.now(), kind)
        });
    }

    async fn unseen(&self, new: &New) -> Status {
        let live = self.overview.live().await;
        let said = match &new.what {
            What::Limit(limit) => touched::no_such_bucket(&new.whom, limit, self.overview.touched(&new.whom).await, &live),
            _ => touched::nothing(&new.whom, &live),
        };
        Status::not_found(format!("{said}; to say it all the same, for what comes: --even-if-unseen"))
    }
}

/// Whether it selects one name only.
fn is_name(glob: &str) -> bool {
    !glob.is_empty() && !glob.contains(['*', '?'])
}

/// The controls that a replica keeps to now.
pub(crate) fn in_force<S: Store>(coordinator: &Coordinator<S>) -> Vec<v1::Control> {
    let now = coordinator.now();
    coordinator.controls().active(now).map(|control| write::control(control, now)).collect()
}
