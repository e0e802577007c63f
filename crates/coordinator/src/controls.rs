//! Changing and following the book of controls, and forgetting.

use std::sync::{Arc, PoisonError};

use paceline_core::controls::{Book, Control, ControlError, OfScope, Pending, Whom};
use paceline_core::forget::{Forget, Forgotten};
use paceline_core::mode::{Mode, Modes};
use paceline_core::units::FleetTime;
use paceline_store::{ChangeError, Store, StoreError, Version, change_book, load_book};
use paceline_telemetry::InOverride;
use tokio::sync::Mutex;

use crate::api::{CallError, Target};
use crate::front::{Coordinator, Inner, lost};
use crate::scope::{ForgetInput, Input, Reply};
use crate::settings::Settings;
use crate::steered::Steered;

/// What is known of the stored book. Held while settings are put in force, so that they come one at a time.
#[derive(Debug, Default)]
pub(crate) struct Following(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    version: Version,
    /// Whether something was said here only, because the store was away.
    is_from_here: bool,
}

impl<S: Store> Coordinator<S> {
    /// The controls that this replica keeps to.
    pub fn controls(&self) -> Arc<Book> {
        self.settings().controls()
    }

    /// Reads the book, and puts it in force if it is another one; call it every second or so.
    ///
    /// # Errors
    /// The store is away, or the book was written by a newer release: the last one that was read holds.
    pub async fn follow_controls(&self) -> Result<(), StoreError> {
        let (version, book) = load_book(&self.inner().store).await?;
        let mut known = self.inner().following.0.lock().await;
        // A book that is older was read before one that was written here.
        if version > known.version || (version == Version::NONE && known.version != version) || known.is_from_here {
            self.put_in_force(&mut known, version, book).await;
        }
        Ok(())
    }

    /// Changes the book for all replicas, and puts it in force here at once. `change` may be called several times.
    ///
    /// # Errors
    /// The store; the error of `change`.
    pub async fn change_controls(
        &self,
        change: impl FnMut(&Book, FleetTime) -> Result<Pending, ControlError> + Send,
    ) -> Result<Pending, ChangeError<ControlError>> {
        let (version, pending) = change_book(&self.inner().store, self.replica(), change).await?;
        let mut known = self.inner().following.0.lock().await;
        if version > known.version {
            self.put_in_force(&mut known, version, pending.book.clone()).await;
        }
        Ok(pending)
    }

    /// Changes the book at this replica only, until the store has answered.
    ///
    /// # Errors
    /// The error of `change`.
    pub async fn change_controls_here(
        &self,
        change: impl FnOnce(&Book, FleetTime) -> Result<Pending, ControlError> + Send,
    ) -> Result<Pending, ControlError> {
        let mut known = self.inner().following.0.lock().await;
        let pending = change(&self.controls(), self.now())?;
        known.is_from_here = true;
        self.steer(|before| before.with(Arc::new(pending.book.clone()))).await;
        Ok(pending)
    }

    async fn put_in_force(&self, known: &mut Known, version: Version, book: Book) {
        known.version = version;
        known.is_from_here = false;
        if *self.controls() != book {
            self.steer(|before| before.with(Arc::new(book))).await;
        }
    }

    /// Puts another configuration in force, under the same book.
    pub(crate) async fn rewrite(&self, written: Arc<dyn Settings>) {
        let _known = self.inner().following.0.lock().await;
        self.steer(|before| before.over(written)).await;
    }

    async fn steer(&self, change: impl FnOnce(&Steered) -> Steered) {
        let settings = {
            let mut settings = self.inner().settings.write().unwrap_or_else(PoisonError::into_inner);
            *settings = Arc::new(change(&settings));
            settings.clone()
        };
        self.broadcast(|| Input::Settings(settings.clone())).await;
    }

    /// Forgets `what` of one scope, also where nothing of it is live here or another replica leads it; `is_trial`: it is only counted.
    ///
    /// # Errors
    /// Unknown names; the store is away.
    pub async fn forget(
        &self,
        provider: &str,
        account: &str,
        what: Forget,
        whom: &Whom,
        is_trial: bool,
    ) -> Result<Forgotten, CallError> {
        let asked = Target { provider: provider.to_owned(), account: account.to_owned(), model: String::new() };
        let target = self.settings().canonical(&asked)?;
        let input = Box::new(ForgetInput::new(what, whom.clone(), is_trial));
        match self.call(&target, |id| Input::Forget(id, input)).await? {
            Reply::Forgotten(forgotten) => forgotten,
            _ => Err(lost()),
        }
    }
}

impl<S: Store> Inner<S> {
    /// The modes of all calls of a scope as people are shown them.
    pub(crate) fn modes_shown(&self, target: &Target, planned: Modes) -> Modes {
        let book = self.settings.read().unwrap_or_else(PoisonError::into_inner).controls();
        let of = OfScope::of(&book, &target.provider, &target.account, self.store.now());
        of.modes_of_all(None, planned)
    }

    /// The controls in force, as metrics tell them.
    pub(crate) fn overrides(&self) -> Vec<InOverride> {
        let (now, book) = (self.store.now(), self.settings.read().unwrap_or_else(PoisonError::into_inner).controls());
        let of = |control: &Control| InOverride {
            provider: control.whom.provider.clone(),
            account: control.whom.account.clone(),
            kind: control.what.kind().name(),
            ends_in: control.ends.since(now),
        };
        book.active(now).map(of).collect()
    }

    /// Whether calls of a target are made to wait, as far as that holds for all of them.
    pub(crate) fn is_enforced(&self, target: &Target, planned: Modes) -> bool {
        self.modes_shown(target, planned).only() == Some(Mode::Enforce)
    }
}
