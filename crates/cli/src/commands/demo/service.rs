//! The service of a run: the one that `paceline serve` runs, in this process, on ports of its own.

use std::net::SocketAddr;
use std::path::PathBuf;

use paceline_client::{Channel, Limiter};
use paceline_config::{Overrides, Scalar};
use paceline_proto::v1::GetScopeRequest;
use paceline_proto::v1::GetScopeResponse;
use paceline_proto::v1::admin_client::AdminClient;
use paceline_server::{Options, Server};
use tokio::task::JoinHandle;
use tonic::transport::Endpoint;

use super::DemoError;
use super::plan::Plan;

/// Whose quota the calls use.
pub(super) const ACCOUNT: &str = "demo";
/// How many workers share a connection; real ones would be processes with one each.
const WORKERS_PER_CONNECTION: usize = 25;
/// A free port of this machine.
const ANY_PORT: &str = "127.0.0.1:0";

/// A service that runs until it is dropped.
pub(super) struct Service {
    address: SocketAddr,
    serving: JoinHandle<()>,
    /// Its configuration, if it has one.
    _config: Option<ConfigFile>,
}

impl Service {
    /// Starts it with an empty store, and without configuration unless the plan has one.
    pub(super) async fn start(plan: &Plan) -> Result<Self, DemoError> {
        let config = plan.is_configured.then(|| ConfigFile::write(&plan.configuration())).transpose()?;
        let overrides = Overrides::default().flag(Scalar::Grpc, Some(ANY_PORT)).flag(Scalar::Http, Some(ANY_PORT));
        let path = config.as_ref().map(|file| file.0.clone());
        let server = Server::bind(Options { config: path, overrides, ..Options::default() }).await?;
        let address = server.grpc_addr();
        let serving = tokio::spawn(async move {
            // It ends with the run; should a listener stop by itself, the workers are told that nobody answers.
            if let Err(error) = server.run(std::future::pending()).await {
                tracing::error!(%error, "the demo's service stopped");
            }
        });
        Ok(Self { address, serving, _config: config })
    }

    /// Where it serves gRPC.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Enough clients for so many workers.
    pub(super) fn limiters(&self, workers: usize) -> Result<Vec<Limiter>, DemoError> {
        let one = || Limiter::builder().addr(self.address.to_string()).account(ACCOUNT).go_on_without_service(false).build();
        (0..workers.div_ceil(WORKERS_PER_CONNECTION)).map(|_| Ok(one()?)).collect()
    }

    /// What shows an operator what it believes.
    pub(super) fn inspector(&self, provider: &'static str) -> Result<Inspector, DemoError> {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.address));
        let endpoint = endpoint.map_err(|error| DemoError::Inspect(error.to_string()))?;
        Ok(Inspector { admin: AdminClient::new(endpoint.connect_lazy()), provider })
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Looks at the scope of the run through Admin.
pub(super) struct Inspector {
    admin: AdminClient<Channel>,
    provider: &'static str,
}

impl Inspector {
    /// The scope as it is; `None` while nobody has asked, or when the service is too busy to tell.
    pub(super) async fn look(&mut self) -> Option<GetScopeResponse> {
        let request = GetScopeRequest { provider: self.provider.to_owned(), account: ACCOUNT.to_owned() };
        self.admin.get_scope(request).await.ok().map(tonic::Response::into_inner)
    }
}

/// A configuration file that lives as long as its service.
struct ConfigFile(PathBuf);

impl ConfigFile {
    fn write(text: &str) -> Result<Self, DemoError> {
        let path = std::env::temp_dir().join(format!("paceline-demo-{:016x}.yaml", rand::random::<u64>()));
        let file = Self(path);
        let written = std::fs::write(&file.0, text);
        written.map_err(|source| DemoError::Config { path: file.0.clone(), source })?;
        Ok(file)
    }
}

impl Drop for ConfigFile {
    fn drop(&mut self) {
        // What cannot be removed stays in the folder for temporary files.
        let _ = std::fs::remove_file(&self.0);
    }
}
