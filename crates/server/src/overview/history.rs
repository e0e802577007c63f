//! What became of calls: the store has it of the whole fleet but for the last seconds, so all replicas are asked to write first.

use futures_util::future::join_all;
use paceline_coordinator::ScopeHistory;
use paceline_coordinator::api::CallError;
use paceline_core::controls::selects;
use paceline_core::history::Hour;
use paceline_core::units::Span;
use paceline_proto::{history, v1};
use paceline_store::Store;

use super::{Overview, Whose, own};

impl<S: Store> Overview<S> {
    /// What became of the calls of the scopes that a selector touches, for so long. Another replica asks that this one writes what it
    /// has counted, and is told nothing.
    ///
    /// # Errors
    /// The store is away.
    pub(crate) async fn history(
        &self,
        selector: v1::Selector,
        since: Span,
        whose: Whose,
    ) -> Result<v1::GetHistoryResponse, CallError> {
        if whose == Whose::Own {
            return self.coordinator.write_history().await.map(|()| v1::GetHistoryResponse::default());
        }
        let silent_replicas = self.ask_to_write().await;
        let provider = selector.provider.to_lowercase();
        let is_meant = |of: &str, account: &str| selects(&provider, of) && selects(&selector.account, account);
        let found = self.coordinator.history(Hour::of(self.coordinator.now() - since), is_meant).await?;
        let scopes = join_all(found.into_iter().map(|scope| self.told(scope))).await;
        Ok(v1::GetHistoryResponse { scopes, silent_replicas })
    }

    /// Asks the others to write what they have counted; returns how many do not say that they have.
    async fn ask_to_write(&self) -> u32 {
        let others = self.others(std::iter::empty()).into_iter();
        let written = join_all(others.map(|(replica, address)| {
            let link = self.peers.link(replica, address);
            async move { link.get_history(v1::GetHistoryRequest::default()).await.is_some() }
        }));
        let silent = written.await.into_iter().filter(|is_written| !is_written).count();
        u32::try_from(silent).unwrap_or(u32::MAX)
    }

    async fn told(&self, found: ScopeHistory) -> v1::ScopeHistory {
        let ScopeHistory { provider, account, hours } = found;
        let now = self.coordinator.now();
        let hours = hours.iter().map(|(hour, counted)| history::hour(counted, now.since(hour.began()).at_least_zero()));
        let asked = v1::GetScopeRequest { provider: provider.clone(), account: account.clone() };
        // One that nobody has used lately is looked up in the store.
        let scope = match self.scope(&asked, Whose::Fleet).await {
            Ok(None) => {
                self.coordinator.stored_scope(&provider, &account).await.ok().flatten().map(|view| own::scope(self.me(), &view))
            }
            known => known.ok().flatten(),
        };
        v1::ScopeHistory { provider, account, hours: hours.collect(), scope }
    }
}
