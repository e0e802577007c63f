//! What those need who send calls on to the replica that leads their scope.

use std::sync::Arc;

use paceline_core::lease::Serial;
use paceline_store::{ScopeKey, Store};
use prost::Message;

use crate::api::{AcquireRequest, CallError, Target};
use crate::front::Coordinator;
use crate::inputs::{open_lease, open_place};
use crate::lead::Lead;
use crate::record::CallKey;
use crate::settings::AnswerParts;
use crate::token::{Keyring, Kind};
use crate::wire::{PartWire, TicketWire};
use paceline_core::delays::{Cause, DelayPart};
use paceline_core::signal::Source;
use paceline_core::units::Span;

/// Places given before a scope has seen the call count apart from those that scopes give: both are this replica's.
const GIVEN_AHEAD: u64 = 1 << 63;

impl<S: Store> Coordinator<S> {
    /// This replica's number; one that starts again has another.
    pub fn replica(&self) -> u32 {
        self.inner().replica
    }

    /// This replica as people see it: where it is reached, or its number.
    pub fn name(&self) -> String {
        self.inner().address().map_or_else(|| self.replica().to_string(), |address| address.to_string())
    }

    /// Whether another replica was ever seen to lead a scope of this one's calls: until then all of them are decided here, and
    /// nobody has to look up who leads.
    pub fn has_others(&self) -> bool {
        self.inner().has_others()
    }

    /// Signs and checks tokens.
    pub fn keyring(&self) -> &Arc<Keyring> {
        self.inner().keyring()
    }

    /// Which replica decides about this target; names that cannot be resolved are nobody's.
    pub fn leads(&self, target: &Target) -> Lead {
        match self.settings().canonical(target) {
            Ok(target) => self.leads_scope(&target.provider, &target.account),
            Err(_) => Lead::Unknown,
        }
    }

    /// Which replica decides about the scope of a lease.
    pub fn leads_of_lease(&self, lease_id: &str) -> Lead {
        match open_lease(lease_id, self.keyring()) {
            Ok((Some(lease), true)) => self.leads_scope(&lease.provider, &lease.account),
            _ => Lead::Unknown,
        }
    }

    /// Which replica decides about the scope of a place in line.
    pub fn leads_of_ticket(&self, ticket: &[u8]) -> Lead {
        match open_place(ticket, self.keyring()) {
            Some(place) => self.leads_scope(&place.provider, &place.account),
            None => Lead::Unknown,
        }
    }

    /// Reads an answer without touching any state.
    pub fn explain(&self, provider: &str, answer: &AnswerParts<'_>) -> paceline_core::signal::Signal {
        self.settings().read(provider, answer)
    }

    /// The live scopes whose calls the configuration in force refuses because it does not know their account any more, as
    /// `provider/account`.
    pub fn unknown_scopes(&self) -> Vec<String> {
        let settings = self.settings();
        let targets = self.live_targets();
        let unknown = targets.iter().filter(|target| settings.canonical(target).is_err());
        unknown.map(|target| format!("{}/{}", target.provider, target.account)).collect()
    }

    /// Whether this replica decides a target's scope without the store, for the time being.
    pub fn is_degraded(&self, target: &Target) -> bool {
        // Asked for each answer: names are resolved only while it matters.
        self.inner().has_degraded()
            && self
                .settings()
                .canonical(target)
                .is_ok_and(|target| self.inner().is_degraded(&ScopeKey::new(&target.provider, &target.account)))
    }

    /// The same of the scope of a lease.
    pub fn is_degraded_of_lease(&self, lease_id: &str) -> bool {
        self.inner().has_degraded()
            && matches!(open_lease(lease_id, self.keyring()), Ok((Some(lease), true))
                if self.inner().is_degraded(&ScopeKey::new(&lease.provider, &lease.account)))
    }

    /// A place in line for an ask that has none yet: it counts from now, wherever the ask is decided.
    ///
    /// # Errors
    /// Unknown names.
    pub fn place_for(&self, request: &AcquireRequest) -> Result<Vec<u8>, CallError> {
        let target = self.settings().canonical(&request.target)?;
        let now = self.now();
        let stamp = Serial { at: now, replica: self.replica(), sequence: GIVEN_AHEAD | self.inner().next_number() };
        // The way to the leader and back counts as the store's part of the wait.
        let on_the_way = DelayPart { cause: Cause::plain(Source::Store), length: Span::ZERO };
        let key = CallKey::new(&request.identity, &request.tenant, &request.request_id, request.attempt.max(1));
        let ticket = TicketWire {
            key: key.0.to_vec(),
            stamp: Some(stamp.into()),
            asked_at: now.as_micros(),
            left_at: now.as_micros(),
            waiting_for: Some(PartWire::from(&on_the_way)),
            provider: target.provider,
            account: target.account,
            model: target.model,
            is_first: true,
            ..TicketWire::default()
        };
        Ok(self.keyring().seal(Kind::Ticket, &ticket.encode_to_vec()))
    }

    fn leads_scope(&self, provider: &str, account: &str) -> Lead {
        self.inner().lead(&ScopeKey::new(provider, account))
    }
}
