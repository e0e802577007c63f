//! What people on call have said: a mode, a pause, a limit, for calls that a selector names, until a time, with a reason.
//!
//! All controls of a fleet are one small value, the [`Book`], which lies over the configuration: see `docs/internals/controls.md`.
//! Everything here is a function of the book and an instant; every control ends by itself.

mod book;
mod limits;
#[cfg(test)]
mod tests;
mod whom;

use std::sync::Arc;

pub use self::book::{Book, ControlError, MOST_CONTROLS, New, Pending};
pub use self::limits::{LimitSaid, Limits, OverLimit};
pub use self::whom::{Called, Whom, selects};
use crate::mode::{Mode, Modes};
use crate::units::{FleetTime, Span};

/// A control lasts so long where nobody says for how long.
pub const USUAL_LENGTH: Span = Span::from_secs(3_600);
/// And at most so long: what is to last is written into the configuration.
pub const LONGEST: Span = Span::from_secs(7 * 86_400);
/// The most characters of a reason.
pub const MOST_REASON: usize = 200;
/// The most characters of a name of who said it.
pub const MOST_WHO: usize = 100;

/// What a control says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// Calls are in this mode.
    Mode(Mode),
    /// Nobody is granted a slot.
    Pause,
    /// This limit holds in place of the configured and the learned one.
    Limit(OverLimit),
}

/// The kind of a control.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// [`What::Mode`].
    Mode,
    /// [`What::Pause`].
    Pause,
    /// [`What::Limit`].
    Limit,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Mode, Self::Pause, Self::Limit];

    /// The metric label and JSON value.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mode => "mode",
            Self::Pause => "pause",
            Self::Limit => "limit",
        }
    }
}

impl What {
    /// Its kind.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Mode(_) => Kind::Mode,
            Self::Pause => Kind::Pause,
            Self::Limit(_) => Kind::Limit,
        }
    }

    /// Whether this is said of the same thing, so that a later one takes its place.
    fn is_about_the_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Limit(ours), Self::Limit(theirs)) => ours.bucket == theirs.bucket,
            _ => self.kind() == other.kind(),
        }
    }
}

/// One thing a person said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Control {
    /// Its number in the book.
    pub id: u64,
    /// What.
    pub what: What,
    /// For which calls.
    pub whom: Whom,
    /// From when on.
    pub since: FleetTime,
    /// Until when.
    pub ends: FleetTime,
    /// Why.
    pub reason: Arc<str>,
    /// Who.
    pub who: Arc<str>,
}

/// A pause as it holds up a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pause {
    /// When it ends.
    pub until: FleetTime,
    /// Which control it is, who said it and why.
    pub told: Arc<str>,
}

/// The controls that touch one scope, as they hold at one instant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OfScope {
    controls: Vec<Control>,
    limits: Limits,
}

impl OfScope {
    /// What of a book touches the scope of this provider and account at `now`.
    pub fn of(book: &Book, provider: &str, account: &str, now: FleetTime) -> Self {
        let touching = book.active(now).filter(|control| control.whom.touches_scope(provider, account));
        let mut of = Self { controls: touching.cloned().collect(), limits: Limits::default() };
        of.limits = Limits { at: book.limits_at(), said: of.controls.iter().filter_map(LimitSaid::of).collect() };
        of
    }

    /// The limits among them.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// When the next of them ends.
    pub fn next_end(&self) -> Option<FleetTime> {
        self.controls.iter().map(|control| control.ends).min()
    }

    /// Lets go what is over. Returns whether anything was.
    pub fn expire(&mut self, now: FleetTime) -> bool {
        let before = self.controls.len();
        self.controls.retain(|control| control.ends > now);
        self.limits.expire(now);
        self.controls.len() < before
    }

    /// Whether nobody has said anything.
    pub fn is_empty(&self) -> bool {
        self.controls.is_empty()
    }

    /// The modes of calls that are in `planned` and whose tenant is in `tenants` at most by configuration.
    ///
    /// Of several controls the one that interferes least holds, in place of what is planned. What the configuration says of a
    /// tenant is still the most, unless a control names the tenant.
    pub fn modes(&self, call: &Called<'_>, planned: Modes, tenants: Modes) -> Modes {
        let said = || self.controls.iter().filter(|control| control.whom.touches_call(call));
        let modes = said().filter_map(|control| match control.what {
            What::Mode(mode) => Some((mode, control.whom.names_a_tenant())),
            _ => None,
        });
        match modes.min_by_key(|(mode, _)| *mode) {
            None => planned.and(tenants),
            Some((mode, true)) => Modes::all(mode),
            Some((mode, false)) => Modes::all(mode).and(tenants),
        }
    }

    /// The same where only controls count that hold for every call of a group (`None`: of the scope): as people are shown it.
    pub fn modes_of_all(&self, group: Option<&str>, planned: Modes) -> Modes {
        let holds =
            |whom: &Whom| whom.is_of_all_callers() && group.map_or(whom.is_of_all_models(), |key| whom.touches_group(key));
        let modes = self.controls.iter().filter(|control| holds(&control.whom)).filter_map(|control| match control.what {
            What::Mode(mode) => Some(mode),
            _ => None,
        });
        modes.min().map_or(planned, Modes::all)
    }

    /// The pause that holds a call up for longest.
    pub fn pause(&self, call: &Called<'_>) -> Option<Pause> {
        let pauses = self.controls.iter().filter(|control| control.what == What::Pause && control.whom.touches_call(call));
        pauses.max_by_key(|control| (control.ends, control.id)).map(Pause::of)
    }
}

impl Pause {
    fn of(control: &Control) -> Self {
        let Control { id, whom, ends, reason, who, .. } = control;
        Self { until: *ends, told: Arc::from(format!("pause {id} ({whom}) by {who}: {reason:?}")) }
    }
}
