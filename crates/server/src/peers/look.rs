//! What another replica knows, asked over the connection on which calls are sent on.

use paceline_proto::v1;
use tokio::time::timeout;
use tonic::metadata::BinaryMetadataValue;
use tonic::{Code, Request};

use super::link::Link;
use super::proof::METADATA;

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
