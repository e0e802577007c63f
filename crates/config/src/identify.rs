//! Whose quota a call means: provider and account under their one name each.

use std::borrow::Cow;

use crate::facts::{Catalogue, ProviderFacts};
use crate::model::{Account, Config, Provider};
use crate::problem::suggest;

/// The account that a call means when it names none.
const DEFAULT_ACCOUNT: &str = "default";
/// What answers are read by when nobody says otherwise.
const GENERIC: &str = "generic";

/// Why a provider, an account and a model resolve to nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// Neither in the catalogue nor in the file.
    #[error("unknown provider `{provider}`{}", advice(.suggestion.as_deref(), "name one of the catalogue or configure it under `providers`"))]
    UnknownProvider {
        /// The name that was given.
        provider: String,
        /// What was probably meant.
        suggestion: Option<String>,
    },
    /// Accounts are configured for the provider, and this is not one of them.
    #[error("unknown account `{account}` of `{provider}`{}", advice(.suggestion.as_deref(), "configure it, or write `unknown_accounts: allow`"))]
    UnknownAccount {
        /// The provider.
        provider: String,
        /// The name that was given.
        account: String,
        /// What was probably meant.
        suggestion: Option<String>,
    },
    /// Accounts are configured for the provider, none was named, and none is the default.
    #[error(
        "`{provider}` has configured accounts and none of them is `default`, so the account must be named: {}",
        listed(.accounts)
    )]
    EmptyAccount {
        /// The provider.
        provider: String,
        /// The accounts there are, at most ten.
        accounts: Vec<String>,
    },
}

fn advice(suggestion: Option<&str>, otherwise: &str) -> String {
    match suggestion {
        Some(meant) => format!("; did you mean `{meant}`?"),
        None => format!("; {otherwise}"),
    }
}

fn listed(names: &[String]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    quoted.join(", ")
}

/// A provider and an account, found.
pub(crate) struct Identity<'a> {
    /// The provider's one name: the file's, else the catalogue's.
    pub(crate) provider: Cow<'a, str>,
    /// What the catalogue knows of it, as far as the file takes it over.
    pub(crate) facts: ProviderFacts,
    /// Its part of the file.
    pub(crate) in_file: Option<&'a Provider>,
    /// The account's one name.
    pub(crate) account: &'a str,
    /// Its part of the file.
    pub(crate) account_in_file: Option<&'a Account>,
}

impl Config {
    /// The provider's and the account's one name each: other names of a provider and aliases of an account are resolved.
    /// Calls that agree in both share one scope.
    ///
    /// # Errors
    /// An unknown provider; an unknown or missing account where accounts are configured.
    pub fn canonical<'a>(
        &'a self,
        catalogue: &dyn Catalogue,
        provider: &'a str,
        account: &'a str,
    ) -> Result<(Cow<'a, str>, &'a str), ResolveError> {
        let (provider, in_file) = self.find_provider(catalogue, provider)?;
        let (account, _) = find_account(&provider, in_file, account)?;
        Ok((provider, account))
    }

    pub(crate) fn identify<'a>(
        &'a self,
        catalogue: &dyn Catalogue,
        provider: &'a str,
        account: &'a str,
    ) -> Result<Identity<'a>, ResolveError> {
        let (provider, in_file) = self.find_provider(catalogue, provider)?;
        let (account, account_in_file) = find_account(&provider, in_file, account)?;
        let facts = match in_file {
            Some(in_file) => facts_of(catalogue, &provider, in_file),
            None => catalogue.provider(&provider).unwrap_or_default(),
        };
        Ok(Identity { provider, facts, in_file, account, account_in_file })
    }

    fn find_provider<'a>(
        &'a self,
        catalogue: &dyn Catalogue,
        name: &'a str,
    ) -> Result<(Cow<'a, str>, Option<&'a Provider>), ResolveError> {
        if let Some(provider) = self.providers.get(name) {
            return Ok((Cow::Borrowed(name), Some(provider)));
        }
        if let Some(name) = catalogue.name_of(name) {
            let in_file = self.providers.get(&name);
            return Ok((Cow::Owned(name), in_file));
        }
        let known = catalogue.names();
        let names = known.iter().chain(self.providers.keys()).map(String::as_str);
        let suggestion = suggest(name, names).map(str::to_owned);
        Err(ResolveError::UnknownProvider { provider: name.to_owned(), suggestion })
    }
}

/// What the catalogue knows of a provider of the file: everything of what it extends, of a dialect only what is metered.
fn facts_of(catalogue: &dyn Catalogue, name: &str, provider: &Provider) -> ProviderFacts {
    let known = |name: &str| catalogue.provider(name).unwrap_or_default();
    match (&provider.extends, &provider.dialect) {
        (Some(base), _) => known(&base.value),
        (None, Some(dialect)) => only_metering(known(&dialect.value)),
        (None, None) => catalogue.provider(name).unwrap_or_else(|| only_metering(known(GENERIC))),
    }
}

fn only_metering(facts: ProviderFacts) -> ProviderFacts {
    ProviderFacts { meters: facts.meters, min_backoff: facts.min_backoff, ..ProviderFacts::default() }
}

fn find_account<'a>(
    name: &str,
    in_file: Option<&'a Provider>,
    account: &'a str,
) -> Result<(&'a str, Option<&'a Account>), ResolveError> {
    let Some(provider) = in_file.filter(|provider| !provider.accounts.is_empty()) else { return Ok((account, None)) };
    let wanted = if account.is_empty() { DEFAULT_ACCOUNT } else { account };
    if let Some((name, found)) = provider.accounts.get_key_value(wanted) {
        return Ok((name, Some(found)));
    }
    if let Some((name, found)) = provider.accounts.iter().find(|(_, found)| found.aliases.contains_key(wanted)) {
        return Ok((name, Some(found)));
    }
    if account.is_empty() {
        let accounts = provider.accounts.keys().take(10).cloned().collect();
        return Err(ResolveError::EmptyAccount { provider: name.to_owned(), accounts });
    }
    if provider.unknown_accounts {
        return Ok((account, None));
    }
    let names = provider.accounts.iter().flat_map(|(name, found)| std::iter::once(name).chain(found.aliases.keys()));
    let suggestion = suggest(account, names.map(String::as_str)).map(str::to_owned);
    Err(ResolveError::UnknownAccount { provider: name.to_owned(), account: account.to_owned(), suggestion })
}
