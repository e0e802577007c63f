//! What the demo is about to do: the fleet, its calls and what they cost, the provider and its limits. Pure; checked before
//! anything starts.

use paceline_core::units::{FleetTime, Span};
use paceline_provider_sim::{Call, Cost, Dialect, Latency, Limit, LimitGroup, Metering, Provider, ProviderConfig, SimError};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::text::{Share, rate_text};

/// The model that every call is for.
pub(super) const MODEL: &str = "gpt-4o";
/// How long the limits should need for all calls when nobody says how many.
const USUAL_RUN_S: f64 = 18.0;
/// How much of the window in which a fleet starts is still to come at least, where limits count in windows; a fifth of shorter
/// ones.
const FIRST_WINDOW_LEFT: Span = Span::from_secs(2);
/// Longer than this is no demo: a typing error, or a job for `bench`.
const LONGEST_RUN_S: f64 = 900.0;

/// What a person may ask of a demo.
#[derive(Clone, Debug)]
pub(super) struct Wish {
    pub(super) workers: u32,
    pub(super) calls: Option<u32>,
    /// `None`: the usual one of such a provider.
    pub(super) limit: Option<Limit>,
    pub(super) tokens: Tokens,
    pub(super) call_tokens: u64,
    pub(super) dialect: Dialect,
    pub(super) latency: Span,
    pub(super) left: Share,
    pub(super) configured: bool,
    pub(super) seed: u64,
}

/// Which limit of tokens there is.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Tokens {
    /// The usual one of such a provider.
    #[default]
    Usual,
    /// None at all.
    None,
    /// This one.
    Limit(Limit),
}

/// A demo that can be run.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) workers: usize,
    pub(super) calls_per_worker: usize,
    provider: ProviderConfig,
    /// The part of each limit that is left when the fleet starts.
    pub(super) left: Share,
    /// Whether the service is told the limits; otherwise it reads them from answers.
    pub(super) is_configured: bool,
    pub(super) seed: u64,
    /// Tokens of each call, those of a worker one after the other.
    costs: Vec<u64>,
}

/// Why a demo cannot be run as asked for.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum PlanError {
    /// Some calls would never fit.
    #[error(
        "calls of up to {largest} tokens never fit {limit}: lower --call-tokens (calls vary by half around it) or raise --tokens"
    )]
    CallTooLarge {
        /// The largest call, in tokens.
        largest: u64,
        /// What --tokens says.
        limit: String,
    },
    /// Nobody wants to watch that.
    #[error(
        "{calls} calls would take about {}: lower --jobs{}, or {remedy}",
        Span::from_secs(*seconds), if *is_one_each { " and --workers" } else { "" }
    )]
    TooLong {
        /// Calls in all.
        calls: usize,
        /// How long they take at best, in seconds.
        seconds: i64,
        /// What else would help.
        remedy: &'static str,
        /// Whether each worker has one call only.
        is_one_each: bool,
    },
    /// Something the provider cannot do.
    #[error(transparent)]
    Provider(#[from] SimError),
}

impl Plan {
    /// Works out a demo from what was asked for.
    pub(super) fn new(wish: Wish) -> Result<Self, PlanError> {
        let limits = Limits::of(&wish);
        let largest = largest_call(wish.call_tokens);
        if let Some(limit) = limits.tokens.as_ref().filter(|limit| largest > limit.capacity().as_units_floor()) {
            return Err(PlanError::CallTooLarge { largest, limit: rate_text(limit) });
        }
        let (per_second, remedy) = limits.calls_per_second(wish.call_tokens);
        let workers = usize::try_from(wish.workers.max(1)).unwrap_or(1);
        // Every worker has as many as the others, at least one; the bounds on flags keep the product small.
        let calls_per_worker = match wish.calls {
            Some(calls) => usize::try_from(calls).unwrap_or(1).div_ceil(workers).max(1),
            None => (per_second * USUAL_RUN_S / workers as f64).round().clamp(1.0, 1e6) as usize,
        };
        let calls = workers * calls_per_worker;
        let by_limits = (calls as f64 / per_second, remedy);
        let by_latency = (calls_per_worker as f64 * wish.latency.as_secs_f64(), "lower --latency");
        let (seconds, remedy) = if by_latency.0 > by_limits.0 { by_latency } else { by_limits };
        if seconds > LONGEST_RUN_S {
            let seconds = Span::from_secs_f64(seconds).map_or(i64::MAX, |span| span.as_micros() / 1_000_000);
            return Err(PlanError::TooLong { calls, seconds, remedy, is_one_each: calls_per_worker == 1 });
        }
        let mut rng = StdRng::seed_from_u64(wish.seed);
        let costs = (0..calls).map(|_| rng.random_range(smallest_call(wish.call_tokens)..=largest)).collect();
        let is_configured = wish.configured || !tells_limits(wish.dialect);
        let provider = provider(&wish, limits);
        provider.validate()?;
        Ok(Self { workers, calls_per_worker, provider, left: wish.left, is_configured, seed: wish.seed, costs })
    }

    /// Calls in all.
    pub(super) fn calls(&self) -> usize {
        self.workers * self.calls_per_worker
    }

    /// What a worker's nth call costs, in tokens.
    pub(super) fn tokens(&self, worker: usize, nth: usize) -> u64 {
        self.costs.get(worker * self.calls_per_worker + nth).copied().unwrap_or(1)
    }

    /// All calls in the order in which they become due: everybody's first, everybody's second, ...
    pub(super) fn due(&self) -> Vec<Call> {
        let call = |worker, nth| Call::new(MODEL, Cost::one().with("tokens", self.tokens(worker, nth)));
        (0..self.calls_per_worker).flat_map(|nth| (0..self.workers).map(move |worker| call(worker, nth))).collect()
    }

    /// How the provider answers.
    pub(super) fn dialect(&self) -> Dialect {
        self.provider.dialect
    }

    /// The provider for a fleet that starts at `now`: where limits count in windows, one of them is about to end.
    pub(super) fn provider_at(&self, now: FleetTime) -> ProviderConfig {
        let mut provider = self.provider.clone();
        for limit in provider.groups.iter_mut().flat_map(|group| &mut group.limits) {
            if let Metering::FixedWindow { phase } = &mut limit.metering {
                let ends = now + FIRST_WINDOW_LEFT.min(Span::from_micros(limit.per.as_micros() / 5));
                // On a whole second, as real windows do.
                let ends = ends.as_micros().saturating_add(999_999).div_euclid(1_000_000).saturating_mul(1_000_000);
                *phase = Span::from_micros(ends.rem_euclid(limit.per.as_micros().max(1)));
            }
        }
        provider
    }

    /// What somebody else used of the limits right before.
    pub(super) fn used_before(&self) -> Cost {
        let used = |limit: &Limit| (limit.capacity().as_units_f64() * (1.0 - self.left.0)).round().max(0.0) as u64;
        self.limits().fold(Cost::one(), |cost, limit| cost.with(&limit.meter, used(limit)))
    }

    /// The provider's limits.
    pub(super) fn limits(&self) -> impl Iterator<Item = &Limit> {
        self.provider.groups.iter().flat_map(|group| &group.limits)
    }

    /// The catalogue's name for a provider that answers in this dialect.
    pub(super) fn catalogue_name(&self) -> &'static str {
        match self.provider.dialect {
            Dialect::OpenAi => "openai",
            Dialect::Generic | Dialect::Ietf | Dialect::IetfTrio | Dialect::RetryAfter | Dialect::Bare => "generic",
        }
    }

    /// What the service is told: nothing, or the limits as a configuration file would say them.
    pub(super) fn configuration(&self) -> String {
        if !self.is_configured {
            return String::new();
        }
        let limits = self.limits().map(|limit| {
            let burst = limit.burst.map(|burst| format!(", burst: {burst}")).unwrap_or_default();
            let refill = if counts_in_windows(limit) { "window" } else { "continuous" };
            let per = limit.per.as_millis_ceil();
            format!("{}: {{limit: {}, per: {per}ms, refill: {refill}{burst}}}", limit.meter, limit.units)
        });
        let limits = limits.collect::<Vec<_>>().join(", ");
        format!("providers: {{{}: {{limits: {{{limits}}}}}}}\n", self.catalogue_name())
    }

    /// How long the limits need for all calls at best.
    pub(super) fn takes_at_best(&self) -> Result<Span, PlanError> {
        let start = FleetTime::from_secs(1);
        let mut provider = Provider::new(self.provider_at(start))?;
        provider.arrive(start, &Call::new(MODEL, self.used_before()));
        Ok(provider.clairvoyant_makespan(start, &self.due(), self.workers)?)
    }
}

/// Whether answers in this dialect carry limits: then the service needs to be told nothing.
pub(super) fn tells_limits(dialect: Dialect) -> bool {
    !matches!(dialect, Dialect::RetryAfter | Dialect::Bare)
}

/// The limits of a provider.
struct Limits {
    requests: Limit,
    tokens: Option<Limit>,
}

impl Limits {
    /// Those asked for, else the usual ones: 40 requests and 50,000 tokens a second, in windows of ten seconds where they are
    /// counted in windows, so that a short run sees more than one.
    fn of(wish: &Wish) -> Self {
        let metering =
            if has_windows(wish.dialect) { Metering::FixedWindow { phase: Span::ZERO } } else { Metering::TokenBucket };
        let per = Span::from_secs(if has_windows(wish.dialect) { 10 } else { 60 });
        let usual =
            |meter: &str, per_second: u64| Limit::new(meter, per_second * (per.as_micros() / 1_000_000).unsigned_abs(), per);
        let requests = wish.limit.clone().unwrap_or_else(|| usual("requests", 40));
        let tokens = match &wish.tokens {
            Tokens::Usual => Some(usual("tokens", 50_000)),
            Tokens::None => None,
            Tokens::Limit(limit) => Some(limit.clone()),
        };
        Self { requests: requests.metered(metering), tokens: tokens.map(|limit| limit.metered(metering)) }
    }

    /// How many calls a second they let through in the long run, and what would help if that is too few.
    fn calls_per_second(&self, call_tokens: u64) -> (f64, &'static str) {
        let rate = |limit: &Limit, cost: u64| limit.units as f64 / limit.per.as_secs_f64().max(1e-3) / cost.max(1) as f64;
        let by_requests = rate(&self.requests, 1);
        let by_tokens = self.tokens.as_ref().map_or(f64::INFINITY, |limit| rate(limit, call_tokens));
        if by_tokens < by_requests { (by_tokens, "raise --tokens") } else { (by_requests, "raise --limit") }
    }
}

/// Providers whose headers tell when a window ends count in windows.
fn has_windows(dialect: Dialect) -> bool {
    matches!(dialect, Dialect::Generic | Dialect::Ietf | Dialect::IetfTrio)
}

fn counts_in_windows(limit: &Limit) -> bool {
    matches!(limit.metering, Metering::FixedWindow { .. })
}

fn provider(wish: &Wish, limits: Limits) -> ProviderConfig {
    let third = Span::from_micros(wish.latency.as_micros() / 3);
    ProviderConfig {
        dialect: wish.dialect,
        groups: vec![LimitGroup::shared(std::iter::once(limits.requests).chain(limits.tokens).collect())],
        // A refusal does no work, but it crosses the same network.
        latency: Latency { usual: wish.latency, jitter: third, refused: third },
        seed: wish.seed,
        ..ProviderConfig::default()
    }
}

fn smallest_call(call_tokens: u64) -> u64 {
    (call_tokens / 2).max(1)
}

fn largest_call(call_tokens: u64) -> u64 {
    call_tokens.saturating_add(call_tokens / 2)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::text::parse_rate;
    use super::*;

    fn wish() -> Wish {
        Wish {
            workers: 200,
            calls: None,
            limit: None,
            tokens: Tokens::Usual,
            call_tokens: 1_000,
            dialect: Dialect::OpenAi,
            latency: Span::from_millis(300),
            left: Share(0.02),
            configured: false,
            seed: 1,
        }
    }

    fn tokens(rate: &str) -> Tokens {
        Tokens::Limit(parse_rate("tokens", rate).unwrap())
    }

    fn requests(rate: &str) -> Option<Limit> {
        Some(parse_rate("requests", rate).unwrap())
    }

    #[test]
    fn calls_are_as_many_as_the_limits_let_through_in_a_usual_run() {
        let plan = Plan::new(wish()).unwrap();
        assert_eq!((plan.calls(), plan.calls_per_worker), (800, 4));
        let tokens_bind = Wish { tokens: tokens("600k/min"), workers: 50, ..wish() };
        assert_eq!(Plan::new(tokens_bind).unwrap().calls(), 200);
        let few = Wish { calls: Some(7), workers: 4, tokens: Tokens::None, ..wish() };
        assert_eq!(Plan::new(few).unwrap().calls(), 8, "every worker has as many as the others");
        let slow = Wish { limit: requests("60/min"), workers: 50, ..wish() };
        assert_eq!(Plan::new(slow).unwrap().calls(), 50, "every worker has one at least");
    }

    #[test]
    fn a_run_takes_what_the_limits_make_it_take() {
        let seconds = |wish: Wish| Plan::new(wish).unwrap().takes_at_best().unwrap().as_secs_f64();
        // 800 calls, 48 of them at once, 40 a second, and the last answer.
        assert!((18.9..19.3).contains(&seconds(wish())), "{}", seconds(wish()));
        // 8 now, 400 after two seconds, 392 ten seconds later in batches of 200.
        let windowed = seconds(Wish { dialect: Dialect::Generic, ..wish() });
        assert!((12.4..13.0).contains(&windowed), "{windowed}");
        assert!(seconds(Wish { left: Share(1.0), ..wish() }) < 2.0);
    }

    #[test]
    fn windows_end_soon_after_the_start() {
        let plan = Plan::new(Wish { dialect: Dialect::Ietf, ..wish() }).unwrap();
        assert_eq!(plan.limits().map(|limit| limit.per).collect::<Vec<_>>(), [Span::from_secs(10); 2]);
        let provider = plan.provider_at(FleetTime::from_micros(122_300_000));
        let phases: Vec<Metering> =
            provider.groups.iter().flat_map(|group| &group.limits).map(|limit| limit.metering).collect();
        assert_eq!(phases, [Metering::FixedWindow { phase: Span::from_secs(5) }; 2]);
    }

    #[test]
    fn costs_vary_by_half_and_repeat_with_the_seed() {
        let plan = Plan::new(wish()).unwrap();
        let costs: Vec<u64> = plan.due().iter().map(|call| call.cost.of("tokens")).collect();
        assert!(costs.iter().all(|cost| (500..=1_500).contains(cost)));
        let mean = costs.iter().sum::<u64>() / 800;
        assert!((950..1_050).contains(&mean), "{mean}");
        assert_eq!(costs.get(1), Some(&plan.tokens(1, 0)), "the second call due is the second worker's first");
        let again: Vec<u64> = Plan::new(wish()).unwrap().due().iter().map(|call| call.cost.of("tokens")).collect();
        assert_eq!(costs, again);
        assert_ne!(plan.costs, Plan::new(Wish { seed: 2, ..wish() }).unwrap().costs);
    }

    #[test]
    fn what_cannot_be_shown_says_what_to_change() {
        let text = |wish: Wish| Plan::new(wish).unwrap_err().to_string();
        let large = Wish { call_tokens: 3_000_000, ..wish() };
        assert!(text(large).contains("lower --call-tokens"), "calls that never fit");
        let long = Wish { limit: requests("6/min"), ..wish() };
        assert!(text(long.clone()).contains("200 calls would take about 33 min 20 s"), "{}", text(long.clone()));
        assert!(text(long).contains("raise --limit"));
        let long = Wish { call_tokens: 1_000_000, ..wish() };
        assert!(text(long).contains("raise --tokens"));
        assert!(text(Wish { latency: Span::from_secs(7_200), ..wish() }).contains("lower --latency"));
    }

    #[test]
    fn a_provider_that_tells_nothing_is_configured() {
        assert_eq!(Plan::new(wish()).unwrap().configuration(), "");
        let bare = Plan::new(Wish { dialect: Dialect::Bare, ..wish() }).unwrap();
        let requests = "requests: {limit: 2400, per: 60000ms, refill: continuous}";
        assert!(bare.configuration().starts_with(&format!("providers: {{generic: {{limits: {{{requests}, tokens: ")));
        let windowed = Plan::new(Wish { dialect: Dialect::Generic, configured: true, ..wish() }).unwrap();
        assert!(windowed.configuration().contains("requests: {limit: 400, per: 10000ms, refill: window}"));
        let burst = Plan::new(Wish { limit: super::tests::requests("600/min,burst=30"), configured: true, ..wish() }).unwrap();
        for plan in [bare, windowed, burst] {
            let config = paceline_config::Config::parse(&plan.configuration(), "demo").unwrap();
            assert_eq!(config.provider_names().collect::<Vec<_>>(), [plan.catalogue_name()]);
        }
    }
}
