//! The one handle that events are recorded through and metrics are rendered from.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use opentelemetry::metrics::BoundCounter;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use opentelemetry_sdk::metrics::{SdkMeterProvider, Temporality};
use paceline_core::plan::Class;
use paceline_core::signal::Source;
use paceline_core::units::Span;
use prometheus::{Registry, TextEncoder};

use crate::Error;
use crate::buckets::InBucket;
use crate::fleet::Fleet;
use crate::instruments::{self, Instruments, Push};
use crate::labels::{AcquireOutcome, Forwarded, ReloadResult, ReportOutcome, StateLoss, Status, Units};
use crate::load::{InGroup, InMode, Load, Observed};
use crate::process::Runtime;
use crate::rpc::{MAX_RPCS, Rpcs};
use crate::series::{
    Bounded, Budget, MAX_HEADERS, MAX_PROVIDERS, MAX_TENANTS, OTHER, ProviderSeries, SERIES_OF_A_SCOPE, ScopeSeries, label,
};

/// The `Content-Type` of [`Telemetry::render`] (Prometheus text format 0.0.4).
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Header names longer than this are counted as `other`.
const LONGEST_HEADER_NAME: usize = 64;

/// How much is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// How many (provider, account, model) get series of their own, 1..=10,000; later ones are summed as `other`.
    pub max_scopes: usize,
    /// The version in `paceline_build_info`.
    pub version: &'static str,
}

impl Default for Options {
    fn default() -> Self {
        Self { max_scopes: 150, version: env!("CARGO_PKG_VERSION") }
    }
}

/// The exporter of who pushes nowhere.
enum Nobody {}

impl PushMetricExporter for Nobody {
    async fn export(&self, _: &ResourceMetrics) -> OTelSdkResult {
        match *self {}
    }

    fn force_flush(&self) -> OTelSdkResult {
        match *self {}
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        match *self {}
    }

    fn temporality(&self) -> Temporality {
        match *self {}
    }
}

/// Records what happens and renders it for Prometheus. Clones share everything; each `new` is a world of its own.
#[derive(Clone, Debug)]
pub struct Telemetry(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    instruments: Instruments,
    /// Series of scopes and their tenants that may still be named.
    named_series: Budget,
    named_tenants: Budget,
    scopes: Bounded<String, Arc<ScopeSeries>>,
    other_scopes: OnceLock<Arc<ScopeSeries>>,
    providers: Bounded<Box<str>, Arc<ProviderSeries>>,
    other_providers: OnceLock<Arc<ProviderSeries>>,
    headers: Bounded<String, BoundCounter<u64>>,
    forwarded: [BoundCounter<u64>; 3],
    store_conflicts: BoundCounter<u64>,
    state_repaired: BoundCounter<u64>,
    state_merged: [BoundCounter<u64>; 3],
    config_reloads: [BoundCounter<u64>; 2],
    observed: Arc<Observed>,
    rpcs: Rpcs,
    registry: Registry,
    /// Dropping it shuts the instruments down.
    provider: SdkMeterProvider,
}

/// Under which labels a call is counted. Cheap to clone; keep it beside the scope's or model's state.
#[derive(Clone, Debug)]
pub struct ScopeLabels {
    scope: Arc<ScopeSeries>,
    provider: Arc<ProviderSeries>,
}

impl Telemetry {
    pub(crate) fn instruments(&self) -> &Instruments {
        &self.0.instruments
    }

    pub(crate) fn rpcs(&self) -> &Rpcs {
        &self.0.rpcs
    }

    /// Pushes what there is a last time, where it is pushed, for at most so long. It blocks; nothing is recorded afterwards.
    pub fn finish(&self, within: Duration) {
        // Whoever cannot be told has been told of already.
        let _ = self.0.provider.shutdown_with_timeout(within);
    }

    /// Sets up the registry and every instrument.
    ///
    /// # Errors
    /// [`Error::Setup`] when the exporter cannot be registered.
    pub fn new(options: Options) -> Result<Self, Error> {
        Self::build::<Nobody>(options, None)
    }

    /// The same, which also pushes every metric now and then, from a thread of its own. Call [`Telemetry::finish`] at the end.
    ///
    /// # Errors
    /// [`Error::Setup`] when the exporter cannot be registered.
    pub fn pushing<E: PushMetricExporter>(options: Options, push: Push<E>) -> Result<Self, Error> {
        Self::build(options, Some(push))
    }

    fn build<E: PushMetricExporter>(options: Options, push: Option<Push<E>>) -> Result<Self, Error> {
        let max_scopes = options.max_scopes.clamp(1, 10_000);
        let (provider, registry) = instruments::provider(max_scopes, push)?;
        let meter = instruments::meter(&provider);
        let instruments = Instruments::new(&meter);
        let observed = Arc::new(Observed::new(max_scopes));
        instruments::register_gauges(&meter, &observed, options.version);

        let zero = |counter: BoundCounter<u64>| {
            // Shown from the start: a counter that appears with its first event hides that event from `rate()`.
            counter.add(0);
            counter
        };
        let forwarded = Forwarded::ALL.map(|outcome| zero(instruments.forwarded.bind(&[label("outcome", outcome.name())])));
        let store_conflicts = zero(instruments.store_conflicts.bind(&[]));
        let state_repaired = zero(instruments.state_repaired.bind(&[]));
        let state_merged = StateLoss::ALL.map(|why| zero(instruments.state_merged.bind(&[label("why", why.name())])));
        let config_reloads = [ReloadResult::Applied, ReloadResult::Refused]
            .map(|result| zero(instruments.config_reloads.bind(&[label("result", result.name())])));
        Ok(Self(Arc::new(Inner {
            instruments,
            named_series: Budget::new(SERIES_OF_A_SCOPE * max_scopes),
            named_tenants: Budget::new(MAX_TENANTS),
            scopes: Bounded::new(max_scopes),
            other_scopes: OnceLock::new(),
            providers: Bounded::new(MAX_PROVIDERS),
            other_providers: OnceLock::new(),
            headers: Bounded::new(MAX_HEADERS),
            forwarded,
            store_conflicts,
            state_repaired,
            state_merged,
            config_reloads,
            observed,
            rpcs: Bounded::new(MAX_RPCS),
            registry,
            provider,
        })))
    }

    /// The labels of a scope's model. Beyond `max_scopes` of them all three become `other`; what is counted per provider
    /// keeps the provider's name.
    pub fn scope(&self, provider: &str, account: &str, model: &str) -> ScopeLabels {
        let instruments = &self.0.instruments;
        // Lengths first, so that no two triples share a key.
        let key = format!("{}:{}:{provider}{account}{model}", provider.len(), account.len());
        let make = || (key.clone(), Arc::new(ScopeSeries::new(instruments, provider, account, model)));
        let paid = (&self.0.named_series, SERIES_OF_A_SCOPE);
        let scope = self.0.scopes.with_paid(&key, paid, make, Arc::clone).unwrap_or_else(|| {
            self.0.other_scopes.get_or_init(|| Arc::new(ScopeSeries::new(instruments, OTHER, OTHER, OTHER))).clone()
        });
        ScopeLabels { scope, provider: self.provider(provider) }
    }

    /// Counts an answered ask. `reason` is that of a denial in lower snake case (`deadline`), else empty.
    pub fn acquire_decided(&self, scope: &ScopeLabels, outcome: AcquireOutcome, reason: &'static str) {
        scope.scope.acquire(&self.0.instruments, outcome, reason);
    }

    /// Adds to the time that calls waited for one reason; `bucket` is the one that governed, empty when none did.
    pub fn delay(&self, scope: &ScopeLabels, source: Source, bucket: &str, waited: Span) {
        if waited > Span::ZERO {
            scope.scope.delay(&self.0.instruments, source, bucket, waited.as_secs_f64());
        }
    }

    /// Records how long a call waited in all; negative waits count as none.
    pub fn wait(&self, scope: &ScopeLabels, class: Class, outcome: AcquireOutcome, waited: Span) {
        scope.provider.wait(&self.0.instruments, class, outcome, waited.at_least_zero().as_secs_f64());
    }

    /// Counts a report. `verdict` is in lower snake case (`retry`), empty while the call goes on.
    pub fn report(&self, scope: &ScopeLabels, outcome: ReportOutcome, status: Status, verdict: &'static str) {
        scope.provider.report(&self.0.instruments, outcome, status.label(), verdict);
    }

    /// Counts an answer that asked to wait, by where the length was read; [`Source::None`] when nothing usable came.
    pub fn signal(&self, scope: &ScopeLabels, source: Source) {
        scope.provider.signal(source);
    }

    /// Counts a header that looks like a limit and that nothing read; only its name is kept.
    pub fn unread_header(&self, scope: &ScopeLabels, name: &str) {
        let instruments = &self.0.instruments;
        let provider = scope.provider.name();
        let attributes = |name: &str| [label("provider", provider), label("header", name)];
        let name = name.to_ascii_lowercase();
        let counted = is_header_name(&name).then(|| {
            let key = format!("{}:{provider}{name}", provider.len());
            let make = || (key.clone(), instruments.unread_headers.bind(&attributes(&name)));
            self.0.headers.with(&key, make, |counter| counter.add(1))
        });
        if counted.flatten().is_none() {
            instruments.unread_headers.add(1, &attributes(OTHER));
        }
    }

    /// Adds to the units that ended calls used.
    pub fn units(&self, scope: &ScopeLabels, units: &Units<'_>) {
        scope.scope.units(&self.0.instruments, &self.0.named_series, units);
    }

    /// Counts an answered ask of a tenant; `waited`: how long it waited in all, where the wait is over.
    pub fn tenant_answered(
        &self,
        scope: &ScopeLabels,
        tenant: &str,
        class: Class,
        outcome: AcquireOutcome,
        waited: Option<Span>,
    ) {
        let waited = waited.map(|waited| waited.at_least_zero().as_secs_f64());
        scope.provider.tenant(&self.0.instruments, &self.0.named_tenants, tenant, (class, outcome), waited);
    }

    /// Counts leases that ended without a report.
    pub fn leases_expired(&self, scope: &ScopeLabels, count: u64) {
        scope.scope.leases_expired(&self.0.instruments, count);
    }

    /// Counts a slot whose caller came too late.
    pub fn late_use(&self, scope: &ScopeLabels) {
        scope.scope.late_uses.add(1);
    }

    /// Counts a learned limit that turned back on its last change.
    pub fn learned_limit_flap(&self, scope: &ScopeLabels) {
        scope.scope.learned_limit_flaps.add(1);
    }

    /// Counts a call that was only watched, with how long it would have waited.
    pub fn watched(&self, scope: &ScopeLabels, wait: Span) {
        scope.scope.shadow(&self.0.instruments).ask(wait.at_least_zero().as_secs_f64());
    }

    /// Counts a watched call that would have been denied; `reason` in lower snake case.
    pub fn would_deny(&self, scope: &ScopeLabels, reason: &'static str) {
        scope.scope.shadow(&self.0.instruments).denied(&self.0.instruments, reason);
    }

    /// Counts a refusal by the provider that enforce would have prevented.
    pub fn prevented(&self, scope: &ScopeLabels) {
        scope.scope.shadow(&self.0.instruments).prevented.add(1);
    }

    /// Says where the gauge of modes reads them; as [`Telemetry::observe_load`].
    pub fn observe_modes(&self, source: impl Fn() -> Vec<InMode> + Send + Sync + 'static) {
        self.0.observed.set_modes(Arc::new(source));
    }

    /// Says where the gauges of buckets read them; as [`Telemetry::observe_load`].
    pub fn observe_buckets(&self, source: impl Fn() -> Vec<InBucket> + Send + Sync + 'static) {
        self.0.observed.set_buckets(Arc::new(source));
    }

    /// Says where the gauges of groups read them; as [`Telemetry::observe_load`].
    pub fn observe_groups(&self, source: impl Fn() -> Vec<InGroup> + Send + Sync + 'static) {
        self.0.observed.set_groups(Arc::new(source));
    }

    /// Says whether calls are taken; as [`Telemetry::observe_load`].
    pub fn observe_ready(&self, source: impl Fn() -> bool + Send + Sync + 'static) {
        self.0.observed.set_ready(Arc::new(source));
    }

    /// Says where figures of the runtime are read; as [`Telemetry::observe_load`].
    pub fn observe_runtime(&self, source: impl Fn() -> Runtime + Send + Sync + 'static) {
        self.0.observed.set_runtime(Arc::new(source));
    }

    /// Says where the gauges of the fleet read it; as [`Telemetry::observe_load`].
    pub fn observe_fleet(&self, source: impl Fn() -> Fleet + Send + Sync + 'static) {
        self.0.observed.set_fleet(Arc::new(source));
    }

    /// Counts a call whose place in line could not be kept, or whose order against other replicas' calls is not known.
    pub fn order_lost(&self, scope: &ScopeLabels) {
        scope.provider.order_lost.add(1);
    }

    /// Counts a call that was sent on to another replica.
    pub fn forwarded(&self, outcome: Forwarded) {
        let [answered, unanswered, broken] = &self.0.forwarded;
        match outcome {
            Forwarded::Answered => answered.add(1),
            Forwarded::Unanswered => unanswered.add(1),
            Forwarded::Broken => broken.add(1),
        }
    }

    /// Counts a commit that another replica's had overtaken.
    pub fn store_conflict(&self) {
        self.0.store_conflicts.add(1);
    }

    /// Counts stored buckets that were out of bounds and set back.
    pub fn state_repaired(&self, buckets: u64) {
        self.0.state_repaired.add(buckets);
    }

    /// Counts a stored value that was merged with what a replica remembered.
    pub fn state_merged(&self, why: StateLoss) {
        let [lost, rolled_back, joined] = &self.0.state_merged;
        match why {
            StateLoss::Lost => lost.add(1),
            StateLoss::RolledBack => rolled_back.add(1),
            StateLoss::Joined => joined.add(1),
        }
    }

    /// Counts a changed configuration.
    pub fn config_reload(&self, result: ReloadResult) {
        let [applied, refused] = &self.0.config_reloads;
        match result {
            ReloadResult::Applied => applied.add(1),
            ReloadResult::Refused => refused.add(1),
        }
    }

    /// Says which configuration is in force.
    pub fn set_config_hash(&self, hash: &str) {
        self.0.observed.set_config_hash(hash);
    }

    /// Says where the gauges read who waits and what runs. Called once per gauge and scrape, on the thread that scrapes:
    /// let it read a snapshot. Capture a `Weak` of whatever owns this telemetry, or neither is ever freed.
    pub fn observe_load(&self, source: impl Fn() -> Vec<Load> + Send + Sync + 'static) {
        self.0.observed.set_source(Arc::new(source));
    }

    /// Everything as Prometheus' text format; serve it as [`CONTENT_TYPE`].
    ///
    /// # Errors
    /// [`Error::Render`] when the metrics cannot be written as text.
    pub fn render(&self) -> Result<String, Error> {
        TextEncoder::new().encode_to_string(&self.0.registry.gather()).map_err(|error| Error::Render(error.to_string()))
    }

    fn provider(&self, name: &str) -> Arc<ProviderSeries> {
        let instruments = &self.0.instruments;
        let make = || (name.into(), Arc::new(ProviderSeries::new(instruments, name)));
        self.0
            .providers
            .with(name, make, Arc::clone)
            .unwrap_or_else(|| self.0.other_providers.get_or_init(|| Arc::new(ProviderSeries::new(instruments, OTHER))).clone())
    }
}

/// Whether a name is one that HTTP allows (RFC 9110, section 5.1: a token) and short enough for a label.
fn is_header_name(name: &str) -> bool {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.len() <= LONGEST_HEADER_NAME && name.bytes().all(is_token)
}
