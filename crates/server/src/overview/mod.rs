//! What the fleet knows: a person may ask any replica why a call waits.
//!
//! A call waits at one replica, mostly the one that leads its scope. So whoever is asked asks all others, over the connections
//! on which calls are sent on and with the same proof, and puts their answers together (`merge`). Nobody is waited for: who does
//! not answer in time is named in the answer, with what is missing because of it.

mod events;
mod history;
mod merge;
mod own;
mod why;

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::join_all;
use paceline_coordinator::Coordinator;
use paceline_coordinator::api::CallError;
use paceline_core::controls::{Whom, selects};
use paceline_core::units::Span;
use paceline_proto::{convert, v1};
use paceline_store::Store;
use tonic::Status;
use tonic::metadata::MetadataMap;

pub(crate) use self::events::EventsAsked;
use crate::controls::{Touched, in_force};
use crate::peers::Peers;

/// Whose knowledge is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// This replica's: another one asks.
    Own,
    /// The fleet's.
    Fleet,
}

/// The fleet as seen from this replica; cheap to clone.
pub(crate) struct Overview<S> {
    coordinator: Coordinator<S>,
    peers: Arc<Peers<S>>,
    /// The store's address, without secrets.
    store: Arc<str>,
}

impl<S> Clone for Overview<S> {
    fn clone(&self) -> Self {
        Self { coordinator: self.coordinator.clone(), peers: self.peers.clone(), store: self.store.clone() }
    }
}

/// Where other replicas are, by number.
type Others = BTreeMap<u32, Arc<str>>;

impl<S: Store> Overview<S> {
    pub(crate) fn new(coordinator: Coordinator<S>, peers: Arc<Peers<S>>, store: impl Into<Arc<str>>) -> Self {
        Self { coordinator, peers, store: store.into() }
    }

    /// Whether another replica asks.
    ///
    /// # Errors
    /// It says so, and cannot prove it.
    pub(crate) async fn is_peer(&self, metadata: &MetadataMap) -> Result<bool, Status> {
        Ok(self.peers.peer(metadata).await?.is_some())
    }

    /// The scopes that a selector touches, those with most waiting calls first; and who serves.
    pub(crate) async fn scopes(&self, selector: v1::Selector, whose: Whose) -> v1::ListScopesResponse {
        let own = self.own_scopes(&selector).await;
        match whose {
            Whose::Own => v1::ListScopesResponse { scopes: own, ..v1::ListScopesResponse::default() },
            Whose::Fleet => self.of_fleet(selector, own).await.0,
        }
    }

    /// One scope in full; `None`: nothing has asked for it lately.
    ///
    /// # Errors
    /// Unknown names.
    pub(crate) async fn scope(
        &self,
        asked: &v1::GetScopeRequest,
        whose: Whose,
    ) -> Result<Option<v1::GetScopeResponse>, CallError> {
        let view = self.coordinator.scope(&asked.provider, &asked.account).await?;
        let own = view.map(|view| own::scope(self.me(), &view));
        if whose == Whose::Own {
            return Ok(own);
        }
        let others = self.others(own.iter().filter_map(|scope| scope.leader.as_ref()));
        Ok(self.scope_of_fleet(asked, own, &others).await)
    }

    /// Who serves and, in full, the scopes that are live, at most so many of them, by name.
    pub(crate) async fn all(&self, most: usize) -> (v1::ListScopesResponse, Vec<v1::GetScopeResponse>) {
        let views = self.coordinator.scopes().await;
        let own = views.iter().map(|view| own::summary(self.me(), view)).collect();
        let (mut list, told) = self.of_fleet(v1::Selector::default(), own).await;
        list.scopes.sort_by(|a, b| (&a.provider, &a.account).cmp(&(&b.provider, &b.account)));
        let in_full = list.scopes.iter().take(most).map(|listed| {
            let own = views.iter().find(|view| view.provider == listed.provider && view.account == listed.account);
            let own = own.map(|view| own::scope(self.me(), view));
            let asked = v1::GetScopeRequest { provider: listed.provider.clone(), account: listed.account.clone() };
            // Only those who have something to tell: with many scopes it is much to ask for.
            let whom = told.iter().filter(|(replica, (_, scopes))| {
                scopes.as_ref().is_some_and(|theirs| own.is_none() || merge::tells(**replica, theirs, listed))
            });
            let whom: Others = whom.map(|(replica, (address, _))| (*replica, address.clone())).collect();
            async move { self.scope_of_fleet(&asked, own, &whom).await }
        });
        let in_full = join_all(in_full).await.into_iter().flatten().collect();
        (list, in_full)
    }

    /// Every live scope of the fleet in a line.
    pub(crate) async fn live(&self) -> Vec<v1::ScopeSummary> {
        self.scopes(v1::Selector::default(), Whose::Fleet).await.scopes
    }

    /// What a selector touches now.
    pub(crate) async fn touched(&self, whom: &Whom) -> Touched {
        let (provider, account) = (whom.provider.to_string(), whom.account.to_string());
        let list = self.scopes(v1::Selector { provider, account, ..v1::Selector::default() }, Whose::Fleet).await;
        let silent = list.replicas.iter().filter(|replica| !replica.answers && !replica.asked).count();
        let in_full = list.scopes.into_iter().map(|scope| async move {
            let asked = v1::GetScopeRequest { provider: scope.provider, account: scope.account };
            // One that went to rest meanwhile is touched by nothing.
            self.scope(&asked, Whose::Fleet).await.ok().flatten()
        });
        let scopes: Vec<_> = join_all(in_full).await.into_iter().flatten().collect();
        Touched::of(whom, &scopes, u32::try_from(silent).unwrap_or(u32::MAX))
    }

    async fn own_scopes(&self, selector: &v1::Selector) -> Vec<v1::ScopeSummary> {
        let provider = selector.provider.to_lowercase();
        let views = self.coordinator.scopes().await;
        let selected =
            views.iter().filter(|view| selects(&provider, &view.provider) && selects(&selector.account, &view.account));
        selected.map(|view| own::summary(self.me(), view)).collect()
    }

    /// The list, and what each of the others said: its scopes, or nothing.
    async fn of_fleet(&self, selector: v1::Selector, own: Vec<v1::ScopeSummary>) -> (v1::ListScopesResponse, Told) {
        let others = self.others(own.iter().filter_map(|scope| scope.leader.as_ref()));
        let request = v1::ListScopesRequest { selector: Some(selector) };
        let told: Told = join_all(others.into_iter().map(|(replica, address)| {
            let link = self.peers.link(replica, address.clone());
            let request = request.clone();
            async move { (replica, (address, link.list_scopes(request).await.map(|list| list.scopes))) }
        }))
        .await
        .into_iter()
        .collect();
        let degraded_for = own.iter().flat_map(|scope| &scope.degraded).filter_map(|one| one.lasts.as_ref());
        let store = self.store_as_seen(degraded_for.max_by_key(|lasts| (lasts.seconds, lasts.nanos)).cloned());
        let heard = told.iter().filter_map(|(replica, (_, scopes))| Some((*replica, scopes.clone()?)));
        let scopes = merge::summaries(self.me(), own, heard.collect());
        (
            v1::ListScopesResponse {
                scopes,
                replicas: self.replicas(&told),
                store: Some(store),
                controls: in_force(&self.coordinator),
            },
            told,
        )
    }

    async fn scope_of_fleet(
        &self,
        asked: &v1::GetScopeRequest,
        own: Option<v1::GetScopeResponse>,
        others: &Others,
    ) -> Option<v1::GetScopeResponse> {
        let told = join_all(others.iter().map(|(replica, address)| {
            let link = self.peers.link(*replica, address.clone());
            async move { (*replica, link.get_scope(asked.clone()).await) }
        }));
        let heard = told.await.into_iter().filter_map(|(replica, scope)| Some((replica, scope?)));
        merge::scope(self.me(), own, heard.collect())
    }

    /// Those that can be asked: all that serve, and those that lead here and have not announced themselves.
    fn others<'l>(&self, leaders: impl Iterator<Item = &'l v1::Leader>) -> Others {
        let mut others: Others = leaders.map(|leader| (leader.replica, Arc::from(leader.address.as_str()))).collect();
        others.extend(
            self.coordinator.replicas().iter().map(|one| (one.announced.id, Arc::from(one.announced.address.as_str()))),
        );
        others.retain(|replica, address| *replica != self.me() && !address.is_empty());
        others
    }

    fn replicas(&self, told: &Told) -> Vec<v1::Replica> {
        let now = self.coordinator.now();
        let answers = |replica: u32| told.get(&replica).is_some_and(|(_, scopes)| scopes.is_some());
        let unannounced = told.iter().map(|(replica, (address, _))| {
            let one = v1::Replica {
                id: *replica,
                address: address.to_string(),
                answers: answers(*replica),
                ..v1::Replica::default()
            };
            (*replica, one)
        });
        let mut replicas: BTreeMap<u32, v1::Replica> = unannounced.collect();
        replicas.extend(self.coordinator.replicas().iter().map(|replica| {
            let announced = &replica.announced;
            let asked = announced.id == self.me();
            let one = v1::Replica {
                id: announced.id,
                address: announced.address.clone(),
                version: announced.build.clone(),
                schema: announced.schema,
                heartbeat_age: Some(convert::duration(now.since(replica.seen).at_least_zero())),
                config_hash: announced.config_hash.clone(),
                asked,
                answers: asked || answers(announced.id),
            };
            (announced.id, one)
        }));
        replicas.into_values().collect()
    }

    /// `degraded_for`: how long a scope has been decided here without it.
    fn store_as_seen(&self, degraded_for: Option<prost_types::Duration>) -> v1::Store {
        let silence = self.coordinator.store_silence();
        let (away_for, problem) = match (silence, degraded_for) {
            (Some((length, why)), None) => (Some(convert::duration(Span::from(length))), why),
            (Some((_, why)), lasts) => (lasts, why),
            (None, Some(lasts)) => (Some(lasts), "it does not answer".to_owned()),
            (None, None) => (None, String::new()),
        };
        v1::Store { address: self.store.to_string(), away_for, problem, among: self.coordinator.among() }
    }

    fn me(&self) -> u32 {
        self.coordinator.replica()
    }
}

/// What others said of their scopes, or nothing, by replica; and where each is.
type Told = BTreeMap<u32, (Arc<str>, Option<Vec<v1::ScopeSummary>>)>;
