//! What operators ask: scopes, the configuration in force, how an answer would be read.

use std::sync::Arc;

use arc_swap::ArcSwap;
use paceline_coordinator::Coordinator;
use paceline_coordinator::api::MOST_BODY_BYTES;
use paceline_coordinator::settings::AnswerParts;
use paceline_core::controls::Kind;
use paceline_core::units::Span;
use paceline_proto::v1::admin_server::Admin;
use paceline_proto::{convert, v1};
use paceline_store::Store;
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status};

use super::{read, status};
use crate::controls::Controls;
use crate::overview::{Overview, Whose};
use crate::reload::InForce;

/// `paceline.v1.Admin` over a coordinator.
pub(crate) struct AdminService<S> {
    coordinator: Coordinator<S>,
    overview: Overview<S>,
    controls: Controls<S>,
    in_force: Arc<ArcSwap<InForce>>,
    is_open: bool,
}

impl<S: Store> AdminService<S> {
    /// `is_open`: only this machine reaches the listener, so whoever asks may.
    pub(crate) fn new(
        coordinator: Coordinator<S>,
        overview: Overview<S>,
        in_force: Arc<ArcSwap<InForce>>,
        is_open: bool,
    ) -> Self {
        let controls = Controls::new(coordinator.clone(), overview.clone());
        Self { coordinator, overview, controls, in_force, is_open }
    }

    fn allow(&self) -> Result<(), Status> {
        if self.is_open {
            return Ok(());
        }
        Err(Status::permission_denied(
            "Admin is answered on a loopback listener only, and this one is open to others; run the service with \
             listen.grpc on 127.0.0.1, or look at the status page and /metrics on its HTTP listener",
        ))
    }

    /// Another replica may ask on any listener, and is told what is known here; a person is told what the fleet knows.
    async fn whose(&self, metadata: &MetadataMap) -> Result<Whose, Status> {
        if self.overview.is_peer(metadata).await? {
            return Ok(Whose::Own);
        }
        self.allow().map(|()| Whose::Fleet)
    }
}

#[tonic::async_trait]
impl<S: Store> Admin for AdminService<S> {
    async fn list_scopes(&self, request: Request<v1::ListScopesRequest>) -> Result<Response<v1::ListScopesResponse>, Status> {
        let whose = self.whose(request.metadata()).await?;
        let selector = request.into_inner().selector.unwrap_or_default();
        read::names(&[("selector.provider", &selector.provider), ("selector.account", &selector.account)])?;
        Ok(Response::new(self.overview.scopes(selector, whose).await))
    }

    async fn get_scope(&self, request: Request<v1::GetScopeRequest>) -> Result<Response<v1::GetScopeResponse>, Status> {
        let whose = self.whose(request.metadata()).await?;
        let asked = request.into_inner();
        read::names(&[("provider", &asked.provider), ("account", &asked.account)])?;
        let found = self.overview.scope(&asked, whose).await.map_err(status::of_call)?;
        found.map(Response::new).ok_or_else(|| {
            Status::not_found(format!(
                "nothing has asked for {}/{} lately; ListScopes tells what is live",
                asked.provider, asked.account
            ))
        })
    }

    async fn get_history(&self, request: Request<v1::GetHistoryRequest>) -> Result<Response<v1::GetHistoryResponse>, Status> {
        let whose = self.whose(request.metadata()).await?;
        let (selector, since) = read::history(request.into_inner())?;
        self.overview.history(selector, since, whose).await.map(Response::new).map_err(status::of_call)
    }

    async fn list_events(&self, request: Request<v1::ListEventsRequest>) -> Result<Response<v1::ListEventsResponse>, Status> {
        self.allow()?;
        let asked = read::events(request.into_inner())?;
        Ok(Response::new(self.overview.events(asked).await))
    }

    async fn why(&self, request: Request<v1::WhyRequest>) -> Result<Response<v1::WhyResponse>, Status> {
        let whose = self.whose(request.metadata()).await?;
        let asked = read::why(request.into_inner())?;
        Ok(Response::new(self.overview.why(asked, whose).await))
    }

    async fn get_config(&self, _: Request<v1::GetConfigRequest>) -> Result<Response<v1::GetConfigResponse>, Status> {
        self.allow()?;
        let in_force = self.in_force.load();
        Ok(Response::new(v1::GetConfigResponse {
            yaml: in_force.config().effective_yaml(),
            hash: in_force.hash().to_owned(),
            age: Some(convert::duration(Span::from(in_force.age()))),
        }))
    }

    async fn explain(&self, request: Request<v1::ExplainRequest>) -> Result<Response<v1::ExplainResponse>, Status> {
        self.allow()?;
        let asked = request.into_inner();
        let age = read::explain(&asked)?;
        let headers: Vec<(String, String)> = asked.headers.into_iter().map(|header| (header.name, header.value)).collect();
        let answer = AnswerParts {
            status: asked.status,
            grpc_status: asked.grpc_status,
            headers: &headers,
            body: asked.body.get(..MOST_BODY_BYTES).unwrap_or(&asked.body),
            received_at_micros: self.coordinator.now().as_micros(),
            age_micros: age.as_micros(),
        };
        let signal = self.coordinator.explain(&asked.provider, &answer);
        Ok(Response::new(v1::ExplainResponse { signal: Some(convert::signal(&signal, None)) }))
    }

    async fn list_controls(&self, _: Request<v1::ListControlsRequest>) -> Result<Response<v1::ListControlsResponse>, Status> {
        self.allow()?;
        Ok(Response::new(self.controls.list()))
    }

    async fn set_mode(&self, request: Request<v1::SetModeRequest>) -> Result<Response<v1::ControlResponse>, Status> {
        self.allow()?;
        self.controls.set_mode(request.into_inner()).await.map(Response::new)
    }

    async fn clear_mode(&self, request: Request<v1::EndControlsRequest>) -> Result<Response<v1::ControlResponse>, Status> {
        self.allow()?;
        self.controls.end(Kind::Mode, request.into_inner()).await.map(Response::new)
    }

    async fn pause(&self, request: Request<v1::PauseRequest>) -> Result<Response<v1::ControlResponse>, Status> {
        self.allow()?;
        self.controls.pause(request.into_inner()).await.map(Response::new)
    }

    async fn resume(&self, request: Request<v1::EndControlsRequest>) -> Result<Response<v1::ControlResponse>, Status> {
        self.allow()?;
        self.controls.end(Kind::Pause, request.into_inner()).await.map(Response::new)
    }

    async fn set_limit(&self, request: Request<v1::SetLimitRequest>) -> Result<Response<v1::ControlResponse>, Status> {
        self.allow()?;
        self.controls.set_limit(request.into_inner()).await.map(Response::new)
    }

    async fn clear_limit(&self, request: Request<v1::EndControlsRequest>) -> Result<Response<v1::ControlResponse>, Status> {
        self.allow()?;
        self.controls.end(Kind::Limit, request.into_inner()).await.map(Response::new)
    }

    async fn forget(&self, request: Request<v1::ForgetRequest>) -> Result<Response<v1::ForgetResponse>, Status> {
        self.allow()?;
        self.controls.forget(request.into_inner()).await.map(Response::new)
    }
}
