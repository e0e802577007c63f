//! What is done with calls: the nearest level that says it, and what their tenant adds.

use paceline_core::mode::Modes;

use crate::explain::Origin;
use crate::facts::Catalogue;
use crate::identify::ResolveError;
use crate::model::{Config, Settings};
use crate::resolve::{account_chain, nearest};

/// The tenant of calls that name none.
const DEFAULT_TENANT: &str = "default";

/// The modes at the end of a chain of levels, and where they are written, if anywhere.
pub(super) fn modes(config: &Config, chain: &[(&Settings, &'static str)]) -> (Modes, Option<Origin>) {
    let written = nearest(chain, |settings| settings.mode).or(config.mode.map(|written| (written, "top of the file")));
    match written {
        Some((written, level)) => (written.value, Some(Origin::File { level, pattern: None, pos: written.pos })),
        None => (Modes::default(), None),
    }
}

/// What is done with the calls of each tenant that the file speaks of, where the level's modes are `level`.
pub(super) fn of_tenants(config: &Config, level: Modes) -> Vec<(String, Modes, Origin)> {
    let written = config.tenants.iter().filter_map(|(name, tenant)| Some((name, tenant.mode?)));
    let origin = |pos| Origin::File { level: "tenant", pattern: None, pos };
    written.map(|(name, written)| (name.clone(), level.and(written.value), origin(written.pos))).collect()
}

impl Config {
    /// What is done with the calls of an account where no group says otherwise.
    ///
    /// # Errors
    /// As [`Config::canonical`].
    pub fn modes(&self, catalogue: &dyn Catalogue, provider: &str, account: &str) -> Result<Modes, ResolveError> {
        let identity = self.identify(catalogue, provider, account)?;
        Ok(modes(self, &account_chain(&identity)).0)
    }

    /// What a tenant adds to that: each of its calls is in the mode that interferes less of the two. A tenant for which
    /// nothing is written adds nothing.
    pub fn tenant_modes(&self, tenant: &str) -> Modes {
        let name = if tenant.is_empty() { DEFAULT_TENANT } else { tenant };
        self.of_tenant(name, |tenant| tenant.mode).unwrap_or_default()
    }
}
