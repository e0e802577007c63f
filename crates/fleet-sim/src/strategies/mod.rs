//! What workers do without us: each keeps its own state and knows nothing of the others.

mod backoff;
mod header;
mod sdk;
mod spacing;
mod split;

use paceline_core::signal::Source;
use paceline_core::units::{FleetTime, Span};
use paceline_provider_sim::{Answer, Call, Telling};
use rand::{Rng, RngExt};
use rand_chacha::ChaCha8Rng;

use crate::engine::{Governor, Own, Run, WorkerId, went_through};
use crate::error::{SimulateError, suggest};
use crate::scenario::{Happens, Scenario};

/// The name of ours.
pub const OURS: &str = "paceline";

/// What one worker does about limits by itself.
pub(crate) trait Strategy {
    /// Whether it looks at what headers say is left.
    fn reads_limits(&self) -> bool {
        false
    }

    /// How long the next call waits before it is sent the first time, and why.
    fn before(&mut self, _call: &Call, _now: FleetTime, _rng: &mut ChaCha8Rng) -> Pause {
        Pause::NONE
    }

    /// A call went through.
    fn went_through(&mut self, _answer: &Answer, _now: FleetTime) {}

    /// A call was refused for the `nth` time, from 1: how long to wait before it is sent again; `None`: give it up.
    fn refused(&mut self, answer: &Answer, nth: u32, now: FleetTime, rng: &mut ChaCha8Rng) -> Option<Pause>;
}

/// A wait and where it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pause {
    pub(crate) length: Span,
    pub(crate) source: Source,
}

impl Pause {
    pub(crate) const NONE: Self = Self { length: Span::ZERO, source: Source::None };

    pub(crate) fn new(source: Source, length: Span) -> Self {
        Self { length: length.at_least_zero(), source }
    }
}

type Make = fn(&Scenario) -> Box<dyn Strategy>;

/// Every strategy to compare with: its name, what it does, and how to make one worker's.
const ALL: &[(&str, &str, Make)] = &[
    ("exponential", "doubles its wait with each refusal, from 1 s to 60 s, no jitter", |_| Box::new(backoff::Backoff::exact())),
    (
        "full-jitter",
        "waits uniformly within a bound that doubles, from 1 s to 60 s",
        |_| Box::new(backoff::Backoff::jittered()),
    ),
    ("header", "waits exactly as long as Retry-After says, else as full-jitter", |_| Box::new(header::Header::exact())),
    ("header-jitter", "waits as Retry-After says and up to as long again, else as full-jitter", |_| {
        Box::new(header::Header::jittered())
    }),
    ("spacing", "spreads what headers say is left over the time until the reset, each worker by itself", |_| {
        Box::new(spacing::Spacing::default())
    }),
    ("fixed-split", "each worker keeps to an equal part of the limits", |scenario| Box::new(split::Split::new(scenario))),
    ("openai-python", "the SDK's own retries: Retry-After up to 60 s, else 0.5 s doubling, twice", |_| {
        Box::new(sdk::Sdk::OPENAI_PYTHON)
    }),
    ("anthropic-python", "the SDK's own retries: Retry-After as said, else 0.5 s doubling, twice", |_| {
        Box::new(sdk::Sdk::ANTHROPIC_PYTHON)
    }),
    ("openai-node", "the SDK's own retries: Retry-After as said, else 0.5 s doubling, twice", |_| {
        Box::new(sdk::Sdk::OPENAI_NODE)
    }),
    ("vercel-ai", "the SDK's own retries: Retry-After up to 60 s, else 2 s doubling, twice", |_| Box::new(sdk::Sdk::VERCEL_AI)),
    ("litellm", "the router's retries: Retry-After up to 60 s and up to 0.75 s more, else 0.5 s doubling, twice", |_| {
        Box::new(sdk::Sdk::LITELLM)
    }),
    ("google-genai", "the SDK as it comes: no retries", |_| Box::new(sdk::Sdk::GOOGLE_GENAI)),
];

/// The names of all strategies, ours first, and what each does.
pub fn strategies() -> Vec<(&'static str, &'static str)> {
    let ours = (OURS, "asks the service when to send, and reports what the provider said");
    std::iter::once(ours).chain(ALL.iter().map(|(name, about, _)| (*name, *about))).collect()
}

/// Whether a strategy goes by the provider's limits, whoever told it.
pub(crate) fn knows_limits(name: &str) -> bool {
    name == "fixed-split"
}

/// Checks a strategy's name.
///
/// # Errors
/// There is none of this name.
pub fn known(name: &str) -> Result<&'static str, SimulateError> {
    let all = strategies();
    all.iter().find(|(known, _)| *known == name).map(|(known, _)| *known).ok_or_else(|| SimulateError::UnknownStrategy {
        name: name.to_owned(),
        suggestion: suggest(name, all.iter().map(|(known, _)| *known)),
    })
}

/// Workers that keep to themselves.
pub(crate) struct Alone {
    workers: Vec<(Box<dyn Strategy>, u32)>,
}

impl Alone {
    /// A fleet of workers with this strategy; `None`: there is no such strategy.
    pub(crate) fn new(name: &str, scenario: &Scenario) -> Option<Self> {
        let (_, _, make) = ALL.iter().find(|(known, _, _)| *known == name)?;
        Some(Self { workers: (0..scenario.workers()).map(|_| (make(scenario), 0)).collect() })
    }

    fn pause(worker: WorkerId, pause: Pause, run: &mut Run<'_>) {
        let at = run.now + pause.length;
        run.waits(pause.source, run.now, at);
        run.send_at(worker, at);
    }
}

impl Governor for Alone {
    fn reads(&self) -> Telling {
        let reads_limits = self.workers.first().is_some_and(|(strategy, _)| strategy.reads_limits());
        if reads_limits { Telling::NoCompletions } else { Telling::WaitsOnly }
    }

    fn begin(&mut self, worker: WorkerId, run: &mut Run<'_>) {
        let Some(job) = run.job_of(worker).and_then(|job| run.jobs.get(job)) else { return };
        let Some((strategy, refusals)) = self.workers.get_mut(worker) else { return };
        *refusals = 0;
        let pause = strategy.before(&job.call, run.now, &mut run.rng);
        Self::pause(worker, pause, run);
    }

    fn answered(&mut self, worker: WorkerId, answer: Answer, run: &mut Run<'_>) {
        let Some((strategy, refusals)) = self.workers.get_mut(worker) else { return };
        if went_through(&answer) {
            return strategy.went_through(&answer, run.now);
        }
        *refusals += 1;
        match strategy.refused(&answer, *refusals, run.now, &mut run.rng) {
            Some(pause) => Self::pause(worker, pause, run),
            None => run.give_up(worker),
        }
    }

    fn due(&mut self, _own: Own, _run: &mut Run<'_>) {}

    fn crashed(&mut self, worker: WorkerId, run: &mut Run<'_>) {
        let _ = (worker, run);
    }

    fn happens(&mut self, _event: Happens, _run: &mut Run<'_>) {}
}

/// Uniform between zero and `most`.
pub(crate) fn up_to<R: Rng + ?Sized>(most: Span, rng: &mut R) -> Span {
    most.scaled(rng.random::<f64>())
}

/// The wait that a refusal's `retry-after-ms` tells: some SDKs read it, nobody who writes a loop of their own does.
pub(crate) fn told_millis(answer: &Answer) -> Option<Pause> {
    let millis = answer.header("retry-after-ms").and_then(|value| value.parse::<f64>().ok())?;
    Span::from_secs_f64(millis / 1e3).map(|length| Pause::new(Source::RetryAfterMs, length))
}

/// The wait that a refusal's `Retry-After` tells, in seconds (RFC 9110, section 10.2.3).
pub(crate) fn told_wait(answer: &Answer) -> Option<Pause> {
    let secs = answer.header("retry-after").and_then(|value| value.parse::<f64>().ok())?;
    Span::from_secs_f64(secs).map(|length| Pause::new(Source::RetryAfterSeconds, length))
}
