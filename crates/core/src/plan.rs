//! What limits apply to a call: the configuration, resolved for one provider, account and model.
//!
//! `paceline-config` makes these from YAML and the catalogue; the core acts on them. They hold no state.

use std::sync::Arc;

use crate::calendar::Calendar;
use crate::mode::Modes;
use crate::retry_budget::RetryPolicy;
use crate::units::{Milli, Span};

/// The meter that counts calls in flight.
pub const CONCURRENCY: &str = "concurrency";

/// How urgent a call is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// A person waits.
    Interactive,
    /// The default.
    #[default]
    Normal,
    /// Hours are fine.
    Batch,
}

impl Class {
    /// All classes, most urgent first.
    pub const ALL: [Self; 3] = [Self::Interactive, Self::Normal, Self::Batch];

    /// Position in [`Class::ALL`].
    pub const fn index(self) -> usize {
        match self {
            Self::Interactive => 0,
            Self::Normal => 1,
            Self::Batch => 2,
        }
    }

    /// The metric label and configuration key.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Interactive => "interactive",
            Self::Normal => "normal",
            Self::Batch => "batch",
        }
    }

    /// How far ahead a slot is firm: later news (a 429, a pause) cannot take it back, so urgent calls get more certainty.
    pub const fn horizon(self) -> Span {
        match self {
            Self::Interactive => Span::from_millis(250),
            Self::Normal => Span::from_millis(100),
            Self::Batch => Span::from_millis(50),
        }
    }
}

/// A part of the whole, in millionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Portion(u32);

impl Portion {
    /// None of it.
    pub const NONE: Self = Self(0);
    /// All of it.
    pub const WHOLE: Self = Self(1_000_000);

    /// So many millionths; more than the whole is the whole.
    pub const fn from_millionths(millionths: u32) -> Self {
        Self(if millionths > Self::WHOLE.0 { Self::WHOLE.0 } else { millionths })
    }

    /// Millionths.
    pub const fn as_millionths(self) -> u32 {
        self.0
    }

    /// So much of an amount, rounded down to a thousandth of a unit.
    pub fn of(self, amount: Milli) -> Milli {
        let part = i128::from(amount.as_milli()) * i128::from(self.0) / i128::from(Self::WHOLE.0);
        Milli::from_milli(i64::try_from(part).unwrap_or(i64::MAX))
    }
}

/// Which part of a limit is ours, where others live on it too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OurPart {
    /// What is ours whatever others take: what they are seen to take never slows us below this.
    pub least: Portion,
    /// The most that we take.
    pub most: Portion,
}

impl OurPart {
    /// Whether others are left a part of it.
    pub fn is_shared(self) -> bool {
        self.most < Portion::WHOLE
    }

    /// What we take at most of an amount that the provider counts for all: whole units, at least one.
    pub fn most_of(self, amount: Milli) -> Milli {
        if !self.is_shared() {
            return amount;
        }
        let part = self.most.of(amount).as_units_floor().max(1);
        Milli::from_units(part).min(amount)
    }

    /// The same in units.
    pub fn most_of_units(self, units: u64) -> u64 {
        self.most_of(Milli::from_units(units)).as_units_floor()
    }
}

impl Default for OurPart {
    /// All of it, and we give way.
    fn default() -> Self {
        Self { least: Portion::NONE, most: Portion::WHOLE }
    }
}

/// How much of what is there a tenant gets in relation to others of its class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Weight(u32);

impl Weight {
    /// The weight of who has none of its own.
    pub const ONE: Self = Self(1);
    /// The largest weight.
    pub const MOST: Self = Self(1_000);

    /// From 1 to 1,000; what lies outside is clamped.
    pub const fn new(weight: u32) -> Self {
        Self(if weight < 1 {
            1
        } else if weight > Self::MOST.0 {
            Self::MOST.0
        } else {
            weight
        })
    }

    /// As a number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// What holds for a tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TenantPolicy {
    /// Its weight among the tenants of a class.
    pub weight: Weight,
    /// The most urgent class it may ask in; a more urgent ask is lowered to it.
    pub max_priority: Class,
}

impl Default for TenantPolicy {
    /// Weight 1, any class.
    fn default() -> Self {
        Self { weight: Weight::ONE, max_priority: Class::Interactive }
    }
}

/// What is promised to a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassPolicy {
    /// The longest a call waits in all its attempts.
    pub max_wait: Span,
    /// The longest floor set by the provider that a call waits for; a longer one is a denial at once.
    pub honor_cap: Span,
    /// How often a call is sent at most, counting refusals that cost nothing.
    pub attempts: u32,
    /// How often a call is sent at most when the attempt may have been paid for (time-outs, 500s).
    pub paid_attempts: u32,
    /// The part of a bucket that the class gets at least while it waits for it, whatever more urgent classes want.
    pub guarantee: Portion,
    /// The part of a bucket that the class gets at most while other classes wait for it.
    pub max_share: Portion,
}

impl ClassPolicy {
    /// The default of a class.
    pub const fn default_of(class: Class) -> Self {
        match class {
            Class::Interactive => Self {
                max_wait: Span::from_secs(15),
                honor_cap: Span::from_secs(15),
                attempts: 3,
                paid_attempts: 2,
                guarantee: Portion::NONE,
                max_share: Portion::from_millionths(500_000),
            },
            Class::Normal => Self {
                max_wait: Span::from_secs(120),
                honor_cap: Span::from_secs(90),
                attempts: 5,
                paid_attempts: 2,
                guarantee: Portion::from_millionths(200_000),
                max_share: Portion::WHOLE,
            },
            Class::Batch => Self {
                max_wait: Span::from_secs(3_600),
                honor_cap: Span::from_secs(900),
                attempts: 8,
                paid_attempts: 2,
                guarantee: Portion::from_millionths(50_000),
                max_share: Portion::WHOLE,
            },
        }
    }
}

/// To whom a bucket belongs; with its name this identifies the bucket within a scope.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Owner {
    /// One group of models, by its key.
    Group(Arc<str>),
    /// A bucket that several groups name in `uses`.
    Shared(Arc<str>),
    /// The whole account.
    Account,
}

/// Identifies a bucket within a scope.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BucketId {
    /// Whose it is.
    pub owner: Owner,
    /// The meter, with `_second`, `_hour`, `_day`, ... for any window but the minute or the only one.
    pub name: Arc<str>,
}

impl BucketId {
    /// As people see it: `requests`, `account/requests`, `shared/embeddings/tokens`.
    pub fn label(&self) -> String {
        match &self.owner {
            Owner::Group(_) => self.name.to_string(),
            Owner::Account => format!("account/{}", self.name),
            Owner::Shared(shared) => format!("shared/{shared}/{}", self.name),
        }
    }
}

/// How a bucket gets its units back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refill {
    /// Evenly, all the time.
    Continuous,
    /// All at once at the end of each window of `per`; until a header tells its phase, the window starts at the first grant.
    Window,
    /// Never: units come back when the calls that hold them end (calls in flight, stocks such as enqueued tokens).
    Held,
}

/// Where an unobserved bucket with a known limit starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StartLevel {
    /// With one second of refill, at least one call: nobody knows who used it a minute ago.
    #[default]
    Cautious,
    /// Full.
    Full,
}

/// One bucket that a call of a group is charged in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketPlan {
    /// Which one.
    pub id: BucketId,
    /// What it counts; the key into a call's cost. `concurrency` counts calls in flight.
    pub meter: Arc<str>,
    /// Units per window; `None`: unknown, learned from headers.
    pub limit: Option<u64>,
    /// The window; `None`: unknown, inferred from headers (a minute until then).
    pub per: Option<Span>,
    /// What it can hold, and so the largest cost that ever fits; `None`: the limit.
    pub capacity: Option<u64>,
    /// What may go back to back; `None`: the capacity.
    pub burst: Option<u64>,
    /// How it refills; `None`: unknown, learned from headers (continuous until then).
    pub refill: Option<Refill>,
    /// With which days, weeks or months of a place its windows end; `None`: after each `per`.
    pub calendar: Option<Calendar>,
    /// Where it starts.
    pub start: StartLevel,
    /// Whether headers may raise a limit written here.
    pub learn_above: bool,
    /// Which part of the limit is ours. The limit, the capacity and the burst are the whole.
    pub ours: OurPart,
}

/// What happens to calls while the store is away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum StoreDown {
    /// Each replica goes on with its part of each limit.
    #[default]
    Local,
    /// They are denied.
    Closed,
}

impl StoreDown {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Local, Self::Closed];

    /// The word in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Closed => "closed",
        }
    }
}

/// What a call of one group must respect: the answer of `resolve(provider, account, model)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupPlan {
    /// The group's key: the pattern that matched, or the model itself where each model has its own buckets.
    pub key: Arc<str>,
    /// Whether `key` is a model under a catch-all pattern: from the 64th such group on they share `other`.
    pub is_each: bool,
    /// Every bucket a call is charged in: the group's own, shared ones, the account's.
    pub buckets: Vec<BucketPlan>,
    /// Policies by [`Class::index`].
    pub classes: [ClassPolicy; 3],
    /// The least backoff after a refusal that says nothing usable.
    pub min_backoff: Span,
    /// What is done with its calls.
    pub modes: Modes,
    /// What happens to its calls while the store is away.
    pub store_down: StoreDown,
    /// How many of its calls may be retries.
    pub retries: RetryPolicy,
}

impl GroupPlan {
    /// The policy of a class.
    pub fn class(&self, class: Class) -> &ClassPolicy {
        let [interactive, normal, batch] = &self.classes;
        match class {
            Class::Interactive => interactive,
            Class::Normal => normal,
            Class::Batch => batch,
        }
    }

    /// The same plan under another group key: the group's own buckets move with it, shared and account's stay.
    pub fn renamed(&self, key: &Arc<str>) -> Self {
        let mut plan = self.clone();
        for bucket in &mut plan.buckets {
            if matches!(bucket.id.owner, Owner::Group(_)) {
                bucket.id.owner = Owner::Group(key.clone());
            }
        }
        plan.key = key.clone();
        plan
    }
}
