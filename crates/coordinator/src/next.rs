//! The next attempt of a reported call as an ask of its own: for whoever goes on waiting after the report was answered.

use paceline_store::Store;

use crate::api::{AcquireRequest, CallError, ReportRequest, Target};
use crate::front::Coordinator;
use crate::inputs;
use crate::scope::next_ask;

impl<S: Store> Coordinator<S> {
    /// The ask that a report's `retry` stands for, without its ticket; `None`: it asks for nothing, or its lease is not known.
    ///
    /// # Errors
    /// A forged token; names of fallbacks that nobody knows.
    pub fn next_request(&self, report: ReportRequest) -> Result<Option<AcquireRequest>, CallError> {
        let lease_id = report.lease_id.clone();
        let input = inputs::report_input(report, &*self.settings(), self.keyring(), self.now())?;
        let Some(lease) = input.lease.as_ref().filter(|_| input.is_authentic) else { return Ok(None) };
        let own = Target { provider: lease.provider.clone(), account: lease.account.clone(), model: lease.model.clone() };
        let Some(next) = next_ask(lease, &input, own.clone()) else { return Ok(None) };
        let (target, fallbacks) = match input.candidates.split_first() {
            Some((first, others)) => (first.clone(), others.to_vec()),
            None => (own, Vec::new()),
        };
        // The deadline is in the lease.
        Ok(Some(AcquireRequest { target, fallbacks, previous_lease_id: Some(lease_id), ..next.request }))
    }
}
