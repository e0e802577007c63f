//! What another replica knows, asked over the connection on which calls are sent on.

use std::time::Duration;

use paceline_proto::v1;
use tokio::time::timeout;
use tonic::metadata::BinaryMetadataValue;
use tonic::{Code, Request};

use super::link::Link;
use super::proof::METADATA;

/// How long a replica gets to look through what it remembers.
const LOOKS_WITHIN: Duration = Duration::from_secs(1);
/// How long a replica gets to write what it has counted: a round trip to the store for each of its scopes.
const WRITES_WITHIN: Duration = Duration::from_secs(2);

impl Link {
    /// The scopes that it knows; `None`: it does not answer in time.
    pub(crate) async fn list_scopes(&self, asked: v1::ListScopesRequest) -> Option<v1::ListScopesResponse> {
        let answer = timeout(self.arrives_within, async {
            let mut admin = self.wire().await?.admin();
            Some(admin.list_scopes(self.proven(asked)).await)
        });
        match answer.await.ok()?? {
            Ok(list) => Some(list.into_inner()),
            Err(status) => self.passed_over(&status),
        }
    }

    /// What it knows of a scope; `None`: nothing, or it does not answer in time.
    pub(crate) async fn get_scope(&self, asked: v1::GetScopeRequest) -> Option<v1::GetScopeResponse> {
        let answer = timeout(self.arrives_within, async {
            let mut admin = self.wire().await?.admin();
            Some(admin.get_scope(self.proven(asked)).await)
        });
        match answer.await.ok()?? {
            Ok(scope) => Some(scope.into_inner()),
            Err(status) => self.passed_over(&status),
        }
    }

    /// Asks it to write what it has counted; `None`: it has not in time.
    pub(crate) async fn get_history(&self, asked: v1::GetHistoryRequest) -> Option<v1::GetHistoryResponse> {
        let answer = timeout(self.arrives_within.max(WRITES_WITHIN), async {
            let mut admin = self.wire().await?.admin();
            Some(admin.get_history(self.proven(asked)).await)
        });
        match answer.await.ok()?? {
            Ok(written) => Some(written.into_inner()),
            Err(status) => self.passed_over(&status),
        }
    }

    /// What it knows of a call; `None`: it does not answer in time.
    pub(crate) async fn why(&self, asked: v1::WhyRequest) -> Option<v1::WhyResponse> {
        let answer = timeout(self.arrives_within.max(LOOKS_WITHIN), async {
            let mut admin = self.wire().await?.admin();
            Some(admin.why(self.proven(asked)).await)
        });
        match answer.await.ok()?? {
            Ok(known) => Some(known.into_inner()),
            Err(status) => self.passed_over(&status),
        }
    }

    /// As one of the fleet.
    fn proven<T>(&self, asked: T) -> Request<T> {
        let mut request = Request::new(asked);
        request.metadata_mut().insert_bin(METADATA, BinaryMetadataValue::from_bytes(&(self.prove)()));
        request
    }

    fn passed_over<T>(&self, status: &tonic::Status) -> Option<T> {
        if status.code() != Code::NotFound {
            tracing::debug!(address = &*self.address, %status, "a replica does not tell what it knows");
        }
        None
    }
}
