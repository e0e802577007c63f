//! OpenTelemetry instruments made from the catalogue, and the Prometheus exporter they are read through.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::metrics::{AsyncInstrument, Counter, Histogram, Meter, MeterProvider as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use opentelemetry_sdk::metrics::{Instrument, PeriodicReader, SdkMeterProvider, Stream};
use paceline_core::mode::{Draw, Mode};
use prometheus::Registry;

use crate::Error;
use crate::buckets::InBucket;
use crate::catalogue::{self, CATALOGUE, Kind, Metric};
use crate::fleet::Fleet;
use crate::load::Observed;
use crate::process;
use crate::series::label;
use crate::store;

/// One instrument per metric that events are recorded in; gauges are read by callbacks.
#[derive(Debug)]
pub(crate) struct Instruments {
    pub(crate) delay_seconds: Counter<f64>,
    pub(crate) wait_seconds: Histogram<f64>,
    pub(crate) acquires: Counter<u64>,
    pub(crate) reports: Counter<u64>,
    pub(crate) signals: Counter<u64>,
    pub(crate) unread_headers: Counter<u64>,
    pub(crate) units: Counter<u64>,
    pub(crate) tenant_acquires: Counter<u64>,
    pub(crate) tenant_wait_seconds: Counter<f64>,
    pub(crate) leases_expired: Counter<u64>,
    pub(crate) late_uses: Counter<u64>,
    pub(crate) rpc_duration: Histogram<f64>,
    pub(crate) order_lost: Counter<u64>,
    pub(crate) store_seconds: Histogram<f64>,
    pub(crate) store_errors: Counter<u64>,
    pub(crate) forwarded: Counter<u64>,
    pub(crate) store_conflicts: Counter<u64>,
    pub(crate) clock_steps: Counter<u64>,
    pub(crate) state_repaired: Counter<u64>,
    pub(crate) state_merged: Counter<u64>,
    pub(crate) config_reloads: Counter<u64>,
    pub(crate) learned_limit_flaps: Counter<u64>,
    pub(crate) shadow_asks: Counter<u64>,
    pub(crate) shadow_would_wait: Counter<u64>,
    pub(crate) shadow_wait_seconds: Counter<f64>,
    pub(crate) shadow_would_deny: Counter<u64>,
    pub(crate) shadow_prevented: Counter<u64>,
}

impl Instruments {
    pub(crate) fn new(meter: &Meter) -> Self {
        Self {
            delay_seconds: seconds_counter(meter, &catalogue::DELAY_SECONDS),
            wait_seconds: histogram(meter, &catalogue::WAIT_SECONDS),
            acquires: counter(meter, &catalogue::ACQUIRES),
            reports: counter(meter, &catalogue::REPORTS),
            signals: counter(meter, &catalogue::SIGNALS),
            unread_headers: counter(meter, &catalogue::UNREAD_HEADERS),
            units: counter(meter, &catalogue::UNITS),
            tenant_acquires: counter(meter, &catalogue::TENANT_ACQUIRES),
            tenant_wait_seconds: seconds_counter(meter, &catalogue::TENANT_WAIT_SECONDS),
            leases_expired: counter(meter, &catalogue::LEASES_EXPIRED),
            late_uses: counter(meter, &catalogue::LATE_USES),
            rpc_duration: histogram(meter, &catalogue::RPC_DURATION),
            order_lost: counter(meter, &catalogue::ORDER_LOST),
            store_seconds: histogram(meter, &store::STORE_SECONDS),
            store_errors: counter(meter, &store::STORE_ERRORS),
            clock_steps: counter(meter, &store::CLOCK_STEPS),
            forwarded: counter(meter, &catalogue::FORWARDED),
            store_conflicts: counter(meter, &catalogue::STORE_CONFLICTS),
            state_repaired: counter(meter, &catalogue::STATE_REPAIRED),
            state_merged: counter(meter, &catalogue::STATE_MERGED),
            config_reloads: counter(meter, &catalogue::CONFIG_RELOADS),
            learned_limit_flaps: counter(meter, &catalogue::LEARNED_LIMIT_FLAPS),
            shadow_asks: counter(meter, &catalogue::SHADOW_ASKS),
            shadow_would_wait: counter(meter, &catalogue::SHADOW_WOULD_WAIT),
            shadow_wait_seconds: seconds_counter(meter, &catalogue::SHADOW_WAIT_SECONDS),
            shadow_would_deny: counter(meter, &catalogue::SHADOW_WOULD_DENY),
            shadow_prevented: counter(meter, &catalogue::SHADOW_PREVENTED),
        }
    }
}

/// The provider of meters and the registry that its metrics are gathered from; both live as long as the telemetry.
///
/// `push`: who is told, too.
pub(crate) fn provider<E: PushMetricExporter>(
    max_scopes: usize,
    push: Option<Push<E>>,
) -> Result<(SdkMeterProvider, Registry), Error> {
    let registry = Registry::new();
    let exporter = opentelemetry_prometheus::exporter()
        .with_registry(registry.clone())
        .scope_info_enabled(false)
        .without_target_info()
        .build()
        .map_err(|error| Error::Setup(error.to_string()))?;
    // The SDK folds everything beyond 2,000 series into one without labels; our own bounds act first and keep names.
    let limit = |metric: &Metric| match metric.kind {
        // The series of the scrape before are let go only after those of this one have come.
        Kind::Gauge(_) => 2 * metric.series.most(max_scopes),
        Kind::Counter | Kind::Histogram { .. } => metric.series.most(max_scopes),
    };
    let limits: HashMap<&str, usize> = CATALOGUE.iter().map(|metric| (instrument_name(metric), limit(metric))).collect();
    let bounded = move |instrument: &Instrument| -> Option<Stream> {
        let most = limits.get(instrument.name())?;
        Stream::builder().with_cardinality_limit(*most).build().ok()
    };
    let mut provider = SdkMeterProvider::builder().with_reader(exporter).with_view(bounded);
    if let Some(push) = push {
        let mut reader = PeriodicReader::builder(push.exporter);
        if let Some(interval) = push.every {
            reader = reader.with_interval(interval);
        }
        provider = provider.with_resource(push.resource).with_reader(reader.build());
    }
    Ok((provider.build(), registry))
}

/// Where metrics are pushed to, beside being scraped.
#[derive(Debug)]
pub struct Push<E> {
    /// What takes them.
    pub exporter: E,
    /// How often; `None`: as OTEL_METRIC_EXPORT_INTERVAL says, else every minute.
    pub every: Option<Duration>,
    /// Whose they are.
    pub resource: Resource,
}

/// The meter that every instrument belongs to.
pub(crate) fn meter(provider: &SdkMeterProvider) -> Meter {
    provider.meter("paceline")
}

/// Registers the gauges, which are read when somebody looks.
pub(crate) fn register_gauges(meter: &Meter, observed: &Arc<Observed>, version: &'static str) {
    let of_load = |metric: &'static Metric, value: fn(&crate::Load) -> Option<f64>| {
        let observed = observed.clone();
        meter
            .f64_observable_gauge(instrument_name(metric))
            .with_unit(metric.unit)
            .with_description(metric.help)
            .with_callback(move |observer| {
                for load in observed.loads() {
                    let Some(value) = value(&load) else { continue };
                    let labels = [
                        label("provider", &load.provider),
                        label("account", &load.account),
                        label("priority", load.class.name()),
                    ];
                    observer.observe(value, &labels);
                }
            })
            .build();
    };
    of_load(&catalogue::INFLIGHT, |load| load.in_flight.map(|calls| calls as f64));
    of_load(&catalogue::QUEUE_DEPTH, |load| Some(load.queued as f64));
    of_load(&catalogue::OLDEST_WAIT_SECONDS, |load| Some(load.oldest_wait.at_least_zero().as_secs_f64()));

    let of_modes = observed.clone();
    meter
        .f64_observable_gauge(instrument_name(&catalogue::MODE))
        .with_description(catalogue::MODE.help)
        .with_callback(move |observer| {
            for row in of_modes.modes() {
                for mode in Mode::ALL {
                    let labels = [label("provider", &row.provider), label("account", &row.account), label("mode", mode.name())];
                    observer.observe(f64::from(row.modes.part(mode)) / f64::from(Draw::WHOLE), &labels);
                }
            }
        })
        .build();

    let of_organisations = observed.clone();
    meter
        .u64_observable_gauge(instrument_name(&catalogue::ACCOUNT_MIXED))
        .with_description(catalogue::ACCOUNT_MIXED.help)
        .with_callback(move |observer| {
            for row in of_organisations.modes() {
                let Some(organisations) = row.organisations else { continue };
                let labels = [label("provider", &row.provider), label("account", &row.account)];
                observer.observe(if organisations > 1 { organisations } else { 0 }, &labels);
            }
        })
        .build();

    let of_groups = observed.clone();
    meter
        .u64_observable_gauge(instrument_name(&catalogue::BREAKER_OPEN))
        .with_description(catalogue::BREAKER_OPEN.help)
        .with_callback(move |observer| {
            for row in of_groups.groups() {
                let labels = [label("provider", &row.provider), label("account", &row.account), label("model", &row.model)];
                observer.observe(u64::from(row.is_breaker_open), &labels);
            }
        })
        .build();

    register_buckets(meter, observed);
    register_fleet(meter, observed);
    process::register(meter, observed);

    let fact = |metric: &'static Metric, read: Box<dyn Fn() -> Option<KeyValue> + Send + Sync>| {
        meter
            .u64_observable_gauge(instrument_name(metric))
            .with_description(metric.help)
            .with_callback(move |observer| {
                if let Some(name) = read() {
                    observer.observe(1, &[name]);
                }
            })
            .build();
    };
    let of_config = observed.clone();
    fact(&catalogue::CONFIG_HASH_INFO, Box::new(move || of_config.config_hash().map(|hash| label("hash", &hash))));
    fact(&catalogue::BUILD_INFO, Box::new(move || Some(label("version", version))));
}

/// The gauges of the fleet; they show nothing until somebody tells.
fn register_fleet(meter: &Meter, observed: &Arc<Observed>) {
    let gauge = |metric: &'static Metric| {
        meter.u64_observable_gauge(instrument_name(metric)).with_description(metric.help).with_unit(metric.unit)
    };
    let of_fleet = |metric: &'static Metric, value: fn(&Fleet) -> Option<u64>| {
        let observed = observed.clone();
        let callback = move |observer: &dyn AsyncInstrument<u64>| {
            if let Some(value) = observed.fleet().as_ref().and_then(value) {
                observer.observe(value, &[]);
            }
        };
        gauge(metric).with_callback(callback).build();
    };
    let of_life = observed.clone();
    gauge(&catalogue::READY)
        .with_callback(move |observer| {
            if let Some(is_ready) = of_life.is_ready() {
                observer.observe(u64::from(is_ready), &[]);
            }
        })
        .build();
    of_fleet(&catalogue::REPLICAS_LIVE, |fleet| Some(fleet.replicas).filter(|replicas| *replicas > 0));
    of_fleet(&catalogue::SCOPES_LED, |fleet| Some(fleet.led()));
    of_fleet(&catalogue::CONFIG_STALE, |fleet| Some(u64::from(fleet.is_config_stale)));
    let of_controls = |metric: &'static Metric, value: fn((u64, paceline_core::units::Span)) -> f64| {
        let observed = observed.clone();
        meter
            .f64_observable_gauge(instrument_name(metric))
            .with_description(metric.help)
            .with_unit(metric.unit)
            .with_callback(move |observer| {
                for ((provider, account, kind), told) in observed.fleet().unwrap_or_default().overrides() {
                    let labels = [label("provider", &provider), label("account", &account), label("kind", kind)];
                    observer.observe(value(told), &labels);
                }
            })
            .build();
    };
    of_controls(&catalogue::OVERRIDE_ACTIVE, |(count, _)| count as f64);
    of_controls(&catalogue::OVERRIDE_ENDS_IN, |(_, ends_in)| ends_in.as_secs_f64());
    let observed = observed.clone();
    gauge(&catalogue::DEGRADED)
        .with_callback(move |observer| {
            for ((provider, policy), scopes) in observed.fleet().unwrap_or_default().degraded() {
                observer.observe(scopes, &[label("provider", &provider), label("policy", policy)]);
            }
        })
        .build();
}

/// A value, and the label `kind` where there are several.
type OfKind = (Option<&'static str>, f64);

/// The gauges of buckets.
fn register_buckets(meter: &Meter, observed: &Arc<Observed>) {
    let of_buckets = |metric: &'static Metric, values: fn(&InBucket) -> Vec<OfKind>| {
        let observed = observed.clone();
        meter
            .f64_observable_gauge(instrument_name(metric))
            .with_unit(metric.unit)
            .with_description(metric.help)
            .with_callback(move |observer| {
                for row in observed.buckets() {
                    for (kind, value) in values(&row) {
                        let mut labels = vec![
                            label("provider", &row.provider),
                            label("account", &row.account),
                            label("model", &row.model),
                            label("bucket", &row.bucket),
                        ];
                        labels.extend(kind.map(|kind| label("kind", kind)));
                        observer.observe(value, &labels);
                    }
                }
            })
            .build();
    };
    of_buckets(&catalogue::BUCKET_LEVEL, |row| row.level.map(|level| (None, level)).into_iter().collect());
    of_buckets(&catalogue::BUCKET_LIMIT, |row| {
        let kinds = [("configured", row.configured), ("learned", row.learned), ("effective", row.effective)];
        kinds.into_iter().filter_map(|(kind, limit)| Some((Some(kind), limit? as f64))).collect()
    });
    of_buckets(&catalogue::BUCKET_OBSERVED_REMAINING, |row| {
        row.observed_remaining.map(|left| (None, left as f64)).into_iter().collect()
    });
    of_buckets(&catalogue::UTILIZATION, |row| row.utilization.map(|part| (None, part)).into_iter().collect());
    of_buckets(&catalogue::QUOTA_EXHAUSTED_IN_SECONDS, |row| {
        row.exhausted_in.map(|seconds| (None, seconds)).into_iter().collect()
    });
    of_buckets(&catalogue::QUOTA_RESETS_IN_SECONDS, |row| row.resets_in.map(|seconds| (None, seconds)).into_iter().collect());
    of_buckets(&catalogue::BUCKET_FOREIGN_DRAIN, |row| row.foreign_drain.map(|drain| (None, drain)).into_iter().collect());
}

/// The name to give OpenTelemetry, so that the exporter's suffixes make the catalogue's name of it.
pub(crate) fn instrument_name(metric: &Metric) -> &'static str {
    // The one name that is not ours has dots where nobody asks Prometheus.
    if metric.name == catalogue::RPC_DURATION.name {
        return "rpc.server.call.duration";
    }
    let name = match metric.kind {
        Kind::Counter => metric.name.strip_suffix("_total").unwrap_or(metric.name),
        Kind::Gauge(_) | Kind::Histogram { .. } => metric.name,
    };
    let suffix = match metric.unit {
        "s" => "_seconds",
        "By" => "_bytes",
        _ => return name,
    };
    name.strip_suffix(suffix).unwrap_or(name)
}

fn counter(meter: &Meter, metric: &Metric) -> Counter<u64> {
    meter.u64_counter(instrument_name(metric)).with_unit(metric.unit).with_description(metric.help).build()
}

fn seconds_counter(meter: &Meter, metric: &Metric) -> Counter<f64> {
    meter.f64_counter(instrument_name(metric)).with_unit(metric.unit).with_description(metric.help).build()
}

fn histogram(meter: &Meter, metric: &Metric) -> Histogram<f64> {
    let builder = meter.f64_histogram(instrument_name(metric)).with_unit(metric.unit).with_description(metric.help);
    match metric.kind {
        Kind::Histogram { bounds } => builder.with_boundaries(bounds.to_vec()).build(),
        Kind::Counter | Kind::Gauge(_) => builder.build(),
    }
}
