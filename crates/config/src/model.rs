//! The configuration as data: what was written, with its units resolved and where it was written.
//!
//! Maps are sorted and lists that are sets are sorted too, so that the order of a file is gone once it is read.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use paceline_core::calendar::{CalendarUnit, Zone};
use paceline_core::mode::Modes;
use paceline_core::plan::{Class, Refill, StartLevel, StoreDown, TenantPolicy, Weight};
use paceline_core::units::Span;

use crate::glob::Glob;
use crate::problem::Pos;
use crate::quantity::Share;
use crate::redact;

/// The meter that counts calls in flight.
pub(crate) const CONCURRENCY: &str = "concurrency";

/// A value and where it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Written<T> {
    pub(crate) value: T,
    pub(crate) pos: Pos,
}

/// The whole configuration: a file, or nothing at all ([`Config::default`]), with flags and variables laid over it.
///
/// Holds no state and reads nothing after it was parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The file's name for messages; empty without a file.
    pub(crate) file: String,
    /// The file's text, for excerpts in messages of later checks.
    pub(crate) text: Arc<str>,
    pub(crate) listen: Listen,
    /// How many replicas there are to be.
    pub(crate) expected_replicas: u32,
    pub(crate) store: StoreAddress,
    /// Where it stands in the file.
    pub(crate) store_at: Option<Pos>,
    /// What is done with calls where no nearer level says it.
    pub(crate) mode: Option<Written<Modes>>,
    pub(crate) classes: ClassSettings,
    pub(crate) retries: RetrySettings,
    pub(crate) providers: BTreeMap<String, Provider>,
    /// By name; `*` is every other one.
    pub(crate) tenants: BTreeMap<String, Tenant>,
}

/// Tenants of one name or pattern, as far as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tenant {
    pub(crate) pos: Pos,
    pub(crate) glob: Glob,
    pub(crate) weight: Option<Written<Weight>>,
    pub(crate) max_priority: Option<Written<Class>>,
    pub(crate) mode: Option<Written<Modes>>,
}

/// Where the service listens, and where others reach it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// gRPC; port 0 picks a free one.
    pub grpc: SocketAddr,
    /// HTTP: metrics, health, status page; port 0 picks a free one.
    pub http: SocketAddr,
    /// Where other replicas reach this one's gRPC, `host:port`; `None`: where it listens, unless that is a wildcard.
    pub advertise: Option<Arc<str>>,
}

impl Default for Listen {
    fn default() -> Self {
        let loopback = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        Self { grpc: loopback(7070), http: loopback(7071), advertise: None }
    }
}

/// Where the state lives. Prints without passwords.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct StoreAddress(Option<Arc<str>>);

impl StoreAddress {
    /// At an address, which the store reads.
    pub(crate) fn at(text: &str) -> Self {
        Self(Some(Arc::from(text)))
    }

    /// The address, with its password if it has one: for the store only; `None`: in the memory of the process.
    pub fn reveal(&self) -> Option<&str> {
        self.0.as_deref()
    }
}

impl fmt::Display for StoreAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            None => f.write_str("memory"),
            Some(text) => f.write_str(&redact::line(text)),
        }
    }
}

impl fmt::Debug for StoreAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreAddress({self})")
    }
}

impl Default for Config {
    /// No file: loopback listeners, memory store, everything learned.
    fn default() -> Self {
        Self {
            file: String::new(),
            text: Arc::from(""),
            listen: Listen::default(),
            expected_replicas: 1,
            store: StoreAddress::default(),
            store_at: None,
            mode: None,
            classes: ClassSettings::default(),
            retries: RetrySettings::default(),
            providers: BTreeMap::new(),
            tenants: BTreeMap::new(),
        }
    }
}

/// One provider of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Provider {
    pub(crate) pos: Pos,
    /// A catalogue entry whose everything is taken over.
    pub(crate) extends: Option<Written<String>>,
    /// A catalogue entry that says how answers are read and what is metered, no more.
    pub(crate) dialect: Option<Written<String>>,
    pub(crate) unknown_accounts: bool,
    pub(crate) accounts: BTreeMap<String, Account>,
    pub(crate) block: Block,
}

/// One account of a provider.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) pos: Pos,
    pub(crate) aliases: BTreeMap<String, Pos>,
    pub(crate) block: Block,
}

/// What may stand in a provider as well as in an account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) settings: Settings,
    /// Account-wide, in addition to the groups'.
    pub(crate) limits: Vec<Limit>,
    pub(crate) models: BTreeMap<String, Group>,
    pub(crate) shared: BTreeMap<String, Shared>,
}

/// Models that share their buckets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) pos: Pos,
    pub(crate) glob: Glob,
    /// Each matching model has its own buckets.
    pub(crate) each: bool,
    pub(crate) uses: BTreeMap<String, Pos>,
    pub(crate) settings: Settings,
    pub(crate) limits: Vec<Limit>,
}

/// A bucket of several groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shared {
    pub(crate) pos: Pos,
    pub(crate) settings: Settings,
    pub(crate) limits: Vec<Limit>,
}

/// What is settable at each level; the nearest wins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) tier: Option<Written<String>>,
    pub(crate) use_share: Option<Written<Share>>,
    pub(crate) own_share: Option<Written<Share>>,
    pub(crate) learn_above: Option<Written<bool>>,
    pub(crate) start_level: Option<Written<StartLevel>>,
    pub(crate) mode: Option<Written<Modes>>,
    pub(crate) on_store_down: Option<Written<StoreDown>>,
    pub(crate) classes: ClassSettings,
    pub(crate) retries: RetrySettings,
}

/// How many calls may be retries, as far as written at one level.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RetrySettings {
    pub(crate) share: Option<Written<Share>>,
    /// So many within so long.
    pub(crate) at_least: Option<Written<(u64, Span)>>,
}

/// What is promised to classes, as far as written at one level.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClassSettings {
    pub(crate) max_wait: ByClass<Span>,
    pub(crate) honor_cap: ByClass<Span>,
    pub(crate) attempts: ByClass<u32>,
    pub(crate) paid_attempts: ByClass<u32>,
    /// Only in `classes` at the top: buckets may be shared by groups.
    pub(crate) guarantee: ByClass<Share>,
    pub(crate) max_share: ByClass<Share>,
}

/// A value for each class that has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ByClass<T> {
    values: [Option<Written<T>>; 3],
}

impl<T> Default for ByClass<T> {
    fn default() -> Self {
        Self { values: [None, None, None] }
    }
}

impl<T: Copy> ByClass<T> {
    pub(crate) fn get(&self, class: Class) -> Option<Written<T>> {
        self.values.get(class.index()).copied().flatten()
    }

    pub(crate) fn set(&mut self, class: Class, value: Written<T>) {
        if let Some(slot) = self.values.get_mut(class.index()) {
            *slot = Some(value);
        }
    }
}

/// One limit of one meter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Limit {
    pub(crate) meter: Arc<str>,
    pub(crate) pos: Pos,
    /// Units per window.
    pub(crate) limit: u64,
    /// The window; `None` for what is held (calls in flight, stocks).
    pub(crate) per: Option<Span>,
    /// The window is a calendar's, if it ends all at once.
    pub(crate) unit: Option<CalendarUnit>,
    /// Where its days end; `None`: as the catalogue says, else UTC.
    pub(crate) zone: Option<Zone>,
    pub(crate) capacity: Option<u64>,
    pub(crate) burst: Option<u64>,
    /// `None`: as the catalogue says, else learned.
    pub(crate) refill: Option<Refill>,
}

/// The limits of one meter within limits sorted by meter.
pub(crate) fn of_meter<'l>(limits: &'l [Limit], meter: &str) -> impl Iterator<Item = &'l Limit> {
    limits.iter().filter(move |limit| &*limit.meter == meter)
}

impl Config {
    /// Where the state lives.
    pub fn store(&self) -> &StoreAddress {
        &self.store
    }

    /// Where the service listens, and where others reach it.
    pub fn listen(&self) -> &Listen {
        &self.listen
    }

    /// How many replicas there are to be, at least one.
    pub fn expected_replicas(&self) -> u32 {
        self.expected_replicas
    }

    /// The file's name as given to [`Config::parse`]; empty without a file.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// How a tenant shares limits, and how urgent it may be.
    pub fn tenant(&self, name: &str) -> TenantPolicy {
        let default = TenantPolicy::default();
        TenantPolicy {
            weight: self.of_tenant(name, |tenant| tenant.weight).unwrap_or(default.weight),
            max_priority: self.of_tenant(name, |tenant| tenant.max_priority).unwrap_or(default.max_priority),
        }
    }

    /// What is written for a tenant: the most specific entry that matches its name and says it.
    pub(crate) fn of_tenant<T: Copy>(&self, name: &str, read: impl Fn(&Tenant) -> Option<Written<T>>) -> Option<T> {
        if self.tenants.is_empty() {
            return None;
        }
        let subject = Glob::literal(name);
        let matching = self.tenants.values().filter_map(|tenant| Some((tenant.glob.covers(&subject)?, read(tenant)?.value)));
        matching.max_by_key(|(rank, _)| *rank).map(|(_, value)| value)
    }

    /// The names of the providers that the file mentions, sorted.
    pub fn provider_names(&self) -> impl Iterator<Item = &str> {
        self.providers.keys().map(String::as_str)
    }

    /// The names of the accounts configured for a provider, sorted, without their aliases.
    pub fn account_names(&self, provider: &str) -> impl Iterator<Item = &str> {
        self.providers.get(provider).into_iter().flat_map(|provider| provider.accounts.keys().map(String::as_str))
    }

    /// The catalogue entry by which a provider's answers are read: its `dialect`, what it `extends`, or its own name.
    pub fn catalogue_name<'c>(&'c self, provider: &'c str) -> &'c str {
        let written = self.providers.get(provider);
        let named = written.and_then(|provider| provider.dialect.as_ref().or(provider.extends.as_ref()));
        named.map_or(provider, |name| &name.value)
    }
}
