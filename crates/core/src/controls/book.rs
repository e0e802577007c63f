//! All controls of a fleet.

use std::sync::Arc;

use super::{Control, Kind, LONGEST, MOST_REASON, MOST_WHO, What, Whom};
use crate::units::{FleetTime, Span};

/// The most controls at a time.
pub const MOST_CONTROLS: usize = 256;

/// How long a number stays taken after its control has ended, so that a log of yesterday names one control only.
const REMEMBERED: Span = Span::from_secs(86_400);

/// All controls of a fleet, in the order in which they were said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Book {
    controls: Vec<Control>,
    last_id: u64,
    limits_at: FleetTime,
}

/// What a person wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct New {
    /// What.
    pub what: What,
    /// For which calls.
    pub whom: Whom,
    /// For how long.
    pub lasts: Span,
    /// Why.
    pub reason: Arc<str>,
    /// Who.
    pub who: Arc<str>,
}

/// A change of the book, not written yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    /// The book after it.
    pub book: Book,
    /// What was added.
    pub added: Option<Control>,
    /// What was taken out.
    pub ended: Vec<Control>,
}

/// Why something cannot be said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControlError {
    /// There are as many as there may be.
    Full,
    /// It lasts for nothing or for too long.
    Length(Span),
    /// There is no reason, or too long a one.
    Reason,
    /// Nobody says it, or a name too long.
    Who,
    /// A limit of nothing, or in no time.
    Limit,
    /// A limit for a tenant or a class.
    LimitOfSome,
}

impl std::fmt::Display for ControlError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Full => write!(f, "{MOST_CONTROLS} controls are in force already; end some first"),
            Self::Length(lasts) => {
                write!(f, "a control lasts from 1 s to 7 days, and {lasts} was asked for; what is to last belongs in the configuration")
            }
            Self::Reason => write!(f, "a reason is needed, of at most {MOST_REASON} characters on one line"),
            Self::Who => write!(f, "a name of who says it is needed, of at most {MOST_WHO} characters on one line"),
            Self::Limit => f.write_str("a limit is one unit at least, in a second at least and 31 days at most"),
            Self::LimitOfSome => f.write_str(
                "a limit holds for all callers of a bucket: it can be told neither for a tenant nor for a priority; pause them, \
                 or change weights and shares in the configuration",
            ),
        }
    }
}

impl std::error::Error for ControlError {}

impl Book {
    /// A book as it was stored: of what is over or out of bounds nothing.
    pub fn from_parts(controls: Vec<Control>, last_id: u64, limits_at: FleetTime) -> Self {
        let mut controls = controls;
        controls.truncate(MOST_CONTROLS);
        let last_id = controls.iter().map(|control| control.id).fold(last_id, u64::max);
        Self { controls, last_id, limits_at }
    }

    /// All that it holds, what is over included.
    pub fn controls(&self) -> &[Control] {
        &self.controls
    }

    /// Those in force at `now`.
    pub fn active(&self, now: FleetTime) -> impl Iterator<Item = &Control> {
        self.controls.iter().filter(move |control| control.ends > now)
    }

    /// The number that was given last.
    pub fn last_id(&self) -> u64 {
        self.last_id
    }

    /// When it last came to say something else of limits; [`FleetTime::ZERO`]: never.
    pub fn limits_at(&self) -> FleetTime {
        self.limits_at
    }

    /// Until when it is worth keeping.
    pub fn matters_until(&self) -> FleetTime {
        self.controls.iter().map(|control| control.ends).fold(self.limits_at, FleetTime::max) + REMEMBERED
    }

    /// The book with something new in it; what was said before of the same thing to the same callers ends.
    ///
    /// # Errors
    /// [`ControlError`]; the book stays as it is.
    pub fn say(&self, new: New, now: FleetTime) -> Result<Pending, ControlError> {
        check(&new)?;
        let kind = new.what.kind();
        let is_replaced = |control: &Control| control.whom == new.whom && control.what.is_about_the_same(&new.what);
        let mut pending = self.without(now, kind, is_replaced);
        if pending.book.controls.len() >= MOST_CONTROLS {
            return Err(ControlError::Full);
        }
        let New { what, whom, lasts, reason, who } = new;
        let id = self.last_id.saturating_add(1);
        let control = Control { id, what, whom, since: now, ends: now + lasts, reason, who };
        pending.book.last_id = id;
        pending.book.controls.push(control.clone());
        if kind == Kind::Limit {
            pending.book.limits_at = self.next_instant(now);
        }
        Ok(Pending { added: Some(control), ..pending })
    }

    /// The book without the controls of a kind that lie within a selector; `bucket`: of limits, only this one's.
    pub fn take_back(&self, kind: Kind, whom: &Whom, bucket: Option<&str>, now: FleetTime) -> Pending {
        let is_meant = |control: &Control| match (&control.what, bucket) {
            (What::Limit(limit), Some(bucket)) => *limit.bucket == *bucket,
            _ => true,
        };
        self.without(now, kind, |control| whom.covers(&control.whom) && is_meant(control))
    }

    /// The book without the control of this kind and number.
    pub fn take_back_one(&self, kind: Kind, id: u64, now: FleetTime) -> Pending {
        self.without(now, kind, |control| control.id == id)
    }

    fn without(&self, now: FleetTime, kind: Kind, is_meant: impl Fn(&Control) -> bool) -> Pending {
        let goes = |control: &Control| control.what.kind() == kind && is_meant(control);
        let (ended, stay): (Vec<_>, Vec<_>) = self.active(now).cloned().partition(goes);
        let limits_at = if kind == Kind::Limit && !ended.is_empty() { self.next_instant(now) } else { self.limits_at };
        Pending { book: Self { controls: stay, last_id: self.last_id, limits_at }, added: None, ended }
    }

    /// Later than any before, also where two change it in one microsecond or a clock went back.
    fn next_instant(&self, now: FleetTime) -> FleetTime {
        now.max(self.limits_at + Span::from_micros(1))
    }
}

fn check(new: &New) -> Result<(), ControlError> {
    let is_line =
        |text: &str, most: usize| !text.trim().is_empty() && text.chars().count() <= most && !text.contains(char::is_control);
    if new.lasts < Span::from_secs(1) || new.lasts > LONGEST {
        return Err(ControlError::Length(new.lasts));
    }
    if !is_line(&new.reason, MOST_REASON) {
        return Err(ControlError::Reason);
    }
    if !is_line(&new.who, MOST_WHO) {
        return Err(ControlError::Who);
    }
    let What::Limit(limit) = &new.what else { return Ok(()) };
    let has_time = limit.per.is_none_or(|per| per >= Span::from_secs(1) && per <= Span::from_secs(31 * 86_400));
    match (limit.units > 0 && has_time, new.whom.is_of_all_callers()) {
        (false, _) => Err(ControlError::Limit),
        (true, false) => Err(ControlError::LimitOfSome),
        (true, true) => Ok(()),
    }
}
