//! The configuration in force, and how a changed file takes its place: the new one as a whole, or not at all.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use notify::{EventKind as FileEventKind, RecommendedWatcher, RecursiveMode, Watcher};
use paceline_config::{Config, ConfigErrors, Overrides};
use paceline_coordinator::settings::Settings;
use paceline_coordinator::{Configured, Coordinator, EventKind, Happened};
use paceline_core::units::{FleetTime, Span};
use paceline_store::Store;
use paceline_telemetry::{ReloadResult, Telemetry};
use tokio::sync::{Mutex, Notify};
use tokio::time::{MissedTickBehavior, interval, timeout};

/// A file is read when nothing has happened to it for this long: editors write in several steps.
const QUIET: Duration = Duration::from_millis(200);
/// It is read after this long even if it keeps changing.
const LONGEST_NOISE: Duration = Duration::from_secs(3);
/// It is also looked at this often, for file systems that tell nothing.
const LOOK_EVERY: Duration = Duration::from_secs(30);

/// A configuration and since when it is in force.
#[derive(Debug)]
pub(crate) struct InForce {
    configured: Arc<Configured>,
    hash: String,
    since: Instant,
}

impl InForce {
    /// `at`: fleet time; `is_reload`: it takes the place of another one.
    pub(crate) fn new(config: Config, at: FleetTime, is_reload: bool) -> Self {
        let hash = config.hash();
        Self { hash, configured: Arc::new(Configured::new(config).loaded_at(at, is_reload)), since: Instant::now() }
    }

    /// The same as read at another instant, when the service starts.
    pub(crate) fn read_at(self, at: FleetTime) -> Self {
        Self::new(self.config().clone(), at, false)
    }

    pub(crate) fn config(&self) -> &Config {
        self.configured.config()
    }

    pub(crate) fn configured(&self) -> Arc<Configured> {
        self.configured.clone()
    }

    pub(crate) fn hash(&self) -> &str {
        &self.hash
    }

    /// When it was read, in fleet time; zero: it comes from no file.
    pub(crate) fn at(&self) -> FleetTime {
        self.configured.loaded().map_or(FleetTime::ZERO, |loaded| loaded.at)
    }

    pub(crate) fn age(&self) -> Duration {
        self.since.elapsed()
    }
}

/// Reads a configuration as `serve` does: the file, flags and variables over it, checked against the catalogue.
///
/// # Errors
/// All that is wrong with the file, or else with the flags and variables.
pub(crate) fn load(file: Option<&Path>, overrides: &Overrides) -> Result<Config, ConfigErrors> {
    let catalogue = paceline_signals::catalogue();
    let config = file.map_or_else(|| Ok(Config::default()), |file| Config::load(file, catalogue))?.with_overrides(overrides)?;
    config.check(catalogue)?;
    Ok(config)
}

/// What became of a reload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reloaded {
    /// The new one is in force.
    Applied,
    /// It means the same as the one in force.
    Unchanged,
    /// It is invalid: the old one stays in force.
    Refused(ConfigErrors),
    /// There is no file.
    NoFile,
}

/// Puts a changed configuration in force; cheap to clone.
pub struct Reloader<S>(Arc<Inner<S>>);

impl<S> Clone for Reloader<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

struct Inner<S> {
    file: Option<PathBuf>,
    overrides: Overrides,
    in_force: Arc<ArcSwap<InForce>>,
    coordinator: Coordinator<S>,
    telemetry: Telemetry,
    /// Whether the last file was refused.
    has_refused: AtomicBool,
    /// What was in the file when it was last read; `None`: it could not be read. Held during a reload, so that they come one
    /// at a time and the last one read is the one in force.
    seen: Mutex<Option<Vec<u8>>>,
}

impl<S: Store> Reloader<S> {
    pub(crate) fn new(
        file: Option<PathBuf>,
        overrides: Overrides,
        in_force: Arc<ArcSwap<InForce>>,
        coordinator: Coordinator<S>,
        telemetry: Telemetry,
    ) -> Self {
        let seen = Mutex::new(file.as_deref().and_then(|file| std::fs::read(file).ok()));
        Self(Arc::new(Inner { file, overrides, in_force, coordinator, telemetry, has_refused: AtomicBool::new(false), seen }))
    }

    /// Reads the file and puts it in force, or says in the log what is wrong with it; `why` is for the log.
    pub async fn reload(&self, why: &str) -> Reloaded {
        let mut seen = self.0.seen.lock().await;
        let Some(file) = &self.0.file else {
            tracing::warn!(why, "there is nothing to reload: the service runs without a configuration file");
            return Reloaded::NoFile;
        };
        *seen = std::fs::read(file).ok();
        let reloaded = match load(Some(file), &self.0.overrides) {
            Ok(config) => self.put_in_force(config).await,
            Err(errors) => Reloaded::Refused(errors),
        };
        self.tell(why, &reloaded);
        reloaded
    }

    async fn put_in_force(&self, config: Config) -> Reloaded {
        let before = self.0.in_force.load_full();
        if config.listen() != before.config().listen() {
            let (old, new) = (before.config().listen(), config.listen());
            tracing::warn!(
                grpc = %new.grpc, http = %new.http, still_grpc = %old.grpc, still_http = %old.http,
                advertise = new.advertise.as_deref(), still_advertise = old.advertise.as_deref(),
                "the addresses to listen on changed, and that needs a restart; until then the old ones hold"
            );
        }
        if config.store() != before.config().store() {
            tracing::warn!(
                store = %config.store(), still = %before.config().store(),
                "the store changed, and that needs a restart; until then the old one holds"
            );
        }
        let next = {
            // Also where fleet time stands still the later one is the later one.
            let at = self.0.coordinator.now().max(before.at() + Span::from_micros(1));
            InForce::new(config, at, true)
        };
        if next.hash == before.hash {
            return Reloaded::Unchanged;
        }
        let settings = next.configured();
        self.0.telemetry.set_config_hash(&next.hash);
        self.0.in_force.store(Arc::new(next));
        self.0.coordinator.reconfigure(settings).await;
        Reloaded::Applied
    }

    fn tell(&self, why: &str, reloaded: &Reloaded) {
        match reloaded {
            Reloaded::Applied => {
                self.0.telemetry.config_reload(ReloadResult::Applied);
                self.0.has_refused.store(false, Ordering::Relaxed);
                self.note(EventKind::ConfigApplied, why, self.0.in_force.load().hash().to_owned());
                tracing::info!(
                    why,
                    hash = self.0.in_force.load().hash(),
                    "the new configuration is in force; no bucket was refilled"
                );
                let mut unknown = self.0.coordinator.unknown_scopes();
                if !unknown.is_empty() {
                    unknown.sort();
                    tracing::warn!(
                        accounts = unknown.join(", "),
                        "the new configuration does not know accounts that are in use: their calls are refused from now on. Write them \
                         down, or `unknown_accounts: allow` under their provider"
                    );
                }
            }
            Reloaded::Unchanged => {
                tracing::info!(why, "the configuration means the same as the one in force");
                // Whoever saw that a file was refused is to see that this is over.
                if self.0.has_refused.swap(false, Ordering::Relaxed) {
                    self.0.telemetry.config_reload(ReloadResult::Applied);
                    let after = "the file is valid again, and means the same as what is in force".to_owned();
                    self.note(EventKind::ConfigApplied, why, after);
                }
            }
            Reloaded::Refused(errors) => {
                self.0.telemetry.config_reload(ReloadResult::Refused);
                self.0.has_refused.store(true, Ordering::Relaxed);
                self.note(EventKind::ConfigRefused, &in_a_line(errors), "the old one stays in force".to_owned());
                for problem in &errors.problems {
                    let at = problem.pos.map(|pos| format!("{}:{pos}", errors.file)).unwrap_or_else(|| errors.file.clone());
                    let help = problem.help.as_deref().unwrap_or_default();
                    tracing::error!(at, setting = problem.path, help, "configuration: {}", problem.message);
                }
                let problems = errors.problems.len() + errors.not_shown;
                tracing::error!(why, problems, "the new configuration is refused; the old one stays in force");
            }
            Reloaded::NoFile => {}
        }
    }

    /// Notes what became of a reload; what is wrong with a file names its settings and never shows their values.
    fn note(&self, kind: EventKind, why: &str, after: String) {
        let coordinator = &self.0.coordinator;
        let who = coordinator.name();
        coordinator.note(Happened { who, why: why.to_owned(), after, ..Happened::new(coordinator.now(), kind) });
    }

    /// Whether the file holds something else than when it was last read. One that is away for a moment, as while it is
    /// replaced, is no change.
    async fn has_changed(&self, file: &Path) -> bool {
        // First wait for a reload that is under way: it may have seen the change.
        let seen = self.0.seen.lock().await;
        tokio::fs::read(file).await.is_ok_and(|found| seen.as_ref() != Some(&found))
    }

    /// Reloads whenever the file changes; ends only if there is none.
    pub(crate) async fn watch(self) {
        let Some(file) = self.0.file.clone() else { return };
        let changed = Arc::new(Notify::new());
        let _watcher = watcher(&file, changed.clone());
        let mut looks = interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            tokio::select! {
                () = changed.notified() => settle(&changed).await,
                _ = looks.tick() => {}
            }
            if self.has_changed(&file).await {
                self.reload("the file changed").await;
            }
        }
    }
}

/// What is wrong with a file, in a line: the first place, and how many more there are.
fn in_a_line(errors: &ConfigErrors) -> String {
    let Some(first) = errors.problems.first() else { return String::new() };
    let at = first.pos.map_or_else(|| errors.file.clone(), |pos| format!("{}:{pos}", errors.file));
    let setting = if first.path.is_empty() { String::new() } else { format!("{}: ", first.path) };
    let more = match errors.problems.len() + errors.not_shown - 1 {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    format!("{at}: {setting}{}{more}", first.message)
}

/// Waits until nothing more happens for a moment.
async fn settle(changed: &Notify) {
    let quiet = async { while timeout(QUIET, changed.notified()).await.is_ok() {} };
    // Either way it is time to look.
    let _ = timeout(LONGEST_NOISE, quiet).await;
}

/// Watches the folder of the file and not the file itself: editors and Kubernetes replace it (by renaming a new one, or the
/// symbolic link above it, into its place). Where the file is a link, the folder it leads to is watched too.
fn watcher(file: &Path, changed: Arc<Notify>) -> Option<RecommendedWatcher> {
    let told = move |event: notify::Result<notify::Event>| {
        // Our own reading is an event as well.
        if event.is_ok_and(|event| !matches!(event.kind, FileEventKind::Access(_))) {
            changed.notify_one();
        }
    };
    let failed = |error: notify::Error| {
        tracing::warn!(%error, "changes of the configuration are noticed only every {} s", LOOK_EVERY.as_secs());
    };
    let mut watcher = notify::recommended_watcher(told).map_err(failed).ok()?;
    let folder = |path: &Path| match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
        _ => PathBuf::from("."),
    };
    let beside = folder(file);
    watcher.watch(&beside, RecursiveMode::NonRecursive).map_err(failed).ok()?;
    let target = std::fs::canonicalize(file).map(|target| folder(&target)).ok();
    if let Some(target) = target.filter(|target| std::fs::canonicalize(&beside).is_ok_and(|beside| beside != *target)) {
        // Without it a change behind the link is noticed a little later.
        let _ = watcher.watch(&target, RecursiveMode::NonRecursive);
    }
    Some(watcher)
}
