//! Settings from the configuration file and the catalogue.

use std::sync::Arc;

use paceline_config::{Config, ResolveError};
use paceline_core::in_force::{ConfigHash, Loaded};
use paceline_core::mode::Modes;
use paceline_core::plan::{GroupPlan, TenantPolicy};
use paceline_core::signal::Signal;
use paceline_core::units::{FleetTime, Span};
use paceline_signals::{Answer, catalogue};

use crate::api::{CallError, Target};
use crate::settings::{AnswerParts, Settings};

/// The configuration in force over the embedded catalogue.
#[derive(Debug)]
pub struct Configured {
    config: Config,
    loaded: Option<Loaded>,
}

impl Configured {
    /// Settings from a checked configuration.
    pub fn new(config: Config) -> Self {
        Self { config, loaded: None }
    }

    /// The same, read at this instant of fleet time; `is_reload`: it takes the place of another one. In a fleet the later one
    /// says what the limits are; what comes from no file is later than none.
    pub fn loaded_at(mut self, at: FleetTime, is_reload: bool) -> Self {
        let hash = ConfigHash(self.config.fingerprint());
        let is_written = !self.config.file().is_empty();
        self.loaded = Some(if is_written { Loaded { hash, at, is_reload } } else { Loaded::nothing(hash) });
        self
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }
}

impl Settings for Configured {
    fn canonical(&self, target: &Target) -> Result<Target, CallError> {
        let (provider, account) = self.config.canonical(catalogue(), &target.provider, &target.account).map_err(unresolved)?;
        Ok(Target { provider: provider.into_owned(), account: account.to_string(), model: target.model.clone() })
    }

    fn plan(&self, target: &Target) -> Result<Arc<GroupPlan>, CallError> {
        self.config.resolve(catalogue(), &target.provider, &target.account, &target.model).map_err(unresolved)
    }

    fn modes(&self, target: &Target) -> Result<Modes, CallError> {
        self.config.modes(catalogue(), &target.provider, &target.account).map_err(unresolved)
    }

    fn tenant_modes(&self, tenant: &str) -> Modes {
        self.config.tenant_modes(tenant)
    }

    fn tenant(&self, tenant: &str) -> TenantPolicy {
        self.config.tenant(tenant)
    }

    fn loaded(&self) -> Option<Loaded> {
        self.loaded
    }

    fn expected_replicas(&self) -> u32 {
        self.config.expected_replicas()
    }

    fn organisation(&self, provider: &str, answer: &AnswerParts<'_>) -> Option<String> {
        let entry = catalogue().get_or_generic(self.config.catalogue_name(provider));
        entry.identity_headers().next()?;
        let headers = headers(answer);
        paceline_signals::identity(entry, &Answer { headers: &headers, ..Answer::default() }).map(str::to_owned)
    }

    fn read(&self, provider: &str, answer: &AnswerParts<'_>) -> Signal {
        let entry = catalogue().get_or_generic(self.config.catalogue_name(provider));
        let headers = headers(answer);
        let answer = Answer {
            status: u16::try_from(answer.status).unwrap_or(0),
            grpc_status: answer.grpc_status,
            headers: &headers,
            body: answer.body,
            received_at: Some(FleetTime::from_micros(answer.received_at_micros)),
            age: Span::from_micros(answer.age_micros),
        };
        paceline_signals::read(entry, &answer)
    }
}

fn headers<'a>(answer: &AnswerParts<'a>) -> Vec<(&'a str, &'a [u8])> {
    answer.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect()
}

fn unresolved(error: ResolveError) -> CallError {
    match error {
        ResolveError::UnknownProvider { .. } => CallError::UnknownProvider(error.to_string()),
        _ => CallError::Invalid { field: "target.account", problem: format!("is wrong: {error}") },
    }
}
