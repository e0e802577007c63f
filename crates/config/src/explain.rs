//! A resolution with the line or layer that each part comes from: what `check-config --resolve` shows.

use std::fmt;

use paceline_core::mode::Modes;
use paceline_core::plan::{BucketPlan, Class, GroupPlan, Portion, Refill, StartLevel};
use serde_json::{Value, json};

use crate::problem::Pos;
use crate::quantity::{Share, exact};

/// Where a part of a resolution comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A line of the file.
    File {
        /// The level it stands at: `account`, `provider`, `group`, `classes`, ...
        level: &'static str,
        /// The group's pattern, where the origin is a group.
        pattern: Option<String>,
        /// The place.
        pos: Pos,
    },
    /// A published limit or group of the catalogue.
    Catalogue {
        /// The catalogue's provider.
        provider: String,
        /// The tier.
        tier: Option<String>,
        /// The pattern of models.
        pattern: Option<String>,
    },
    /// Nobody wrote it: the provider meters it, and its limit is learned from the provider's answers.
    Learned {
        /// The catalogue's provider.
        provider: String,
    },
    /// No group matches: each model has its own buckets.
    Implied,
}

impl Origin {
    /// For people: `paceline.yaml:7:13 (account)`, `catalogue openai, tier 4, gpt-4o*`.
    fn describe(&self, file: &str) -> String {
        match self {
            Self::File { level, pos, .. } => format!("{file}:{pos} ({level})"),
            Self::Catalogue { provider, tier, pattern } => {
                let tier = tier.as_ref().map(|tier| format!(", tier {tier}")).unwrap_or_default();
                let pattern = pattern.as_ref().map(|pattern| format!(", {pattern}")).unwrap_or_default();
                format!("catalogue {provider}{tier}{pattern}")
            }
            Self::Learned { provider } => format!("learned: {provider} meters it, no limit is written"),
            Self::Implied => "no group matches: each model has its own buckets".to_owned(),
        }
    }
}

/// Where a bucket comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketOrigin {
    /// The bucket as people see it: `requests`, `account/requests`.
    pub bucket: String,
    /// Where its limit is written.
    pub origin: Origin,
}

/// Where a promise to a class comes from, if it is not the default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingOrigin {
    /// The class.
    pub class: Class,
    /// `max_wait`, `honor_cap`, `attempts`, `paid_attempts`, `guarantee` or `max_share`.
    pub setting: &'static str,
    /// Where it is written.
    pub origin: Origin,
}

/// Where the bounds of retries come from, where they are not the default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RetryOrigins {
    /// Of `share`.
    pub share: Option<Origin>,
    /// Of `at_least`.
    pub at_least: Option<Origin>,
}

/// A plan and where each of its parts comes from. [`fmt::Display`] is for people, [`Explanation::to_json`] for programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// `provider/account/model` as asked.
    pub asked: String,
    /// The configuration's file.
    pub file: String,
    /// The provider's one name.
    pub provider: String,
    /// The account's one name.
    pub account: String,
    /// Why this is the group.
    pub group: Origin,
    /// The plan.
    pub plan: GroupPlan,
    /// The origin of each of the plan's buckets, in their order.
    pub buckets: Vec<BucketOrigin>,
    /// The origin of each promise that is not the default.
    pub settings: Vec<SettingOrigin>,
    /// Where the mode is written; `None`: nowhere, calls are enforced.
    pub mode: Option<Origin>,
    /// Where it is written what happens while the store is away; `None`: nowhere, each replica goes on with its part.
    pub store_down: Option<Origin>,
    /// What is done with the calls of each tenant that the file speaks of, and where that is written.
    pub tenants: Vec<(String, Modes, Origin)>,
    /// The origin of the bounds of retries.
    pub retries: RetryOrigins,
    /// What is written and cannot be kept, in sentences.
    pub notes: Vec<String>,
}

impl Explanation {
    /// The same for programs.
    pub fn to_json(&self) -> Value {
        let buckets = self.plan.buckets.iter().zip(&self.buckets).map(|(plan, origin)| {
            json!({
                "bucket": origin.bucket,
                "meter": &*plan.meter,
                "limit": plan.limit.map(|limit| plan.ours.most_of_units(limit)),
                "use": Share::of_portion(plan.ours.most).to_string(),
                "share": Share::of_portion(plan.ours.least).to_string(),
                "per_ms": plan.per.map(|per| per.as_millis_ceil()),
                "refill": plan.refill.map(refill_name),
                "calendar": plan.calendar.as_ref().map(|calendar| calendar.unit.name()),
                "zone": plan.calendar.as_ref().map(|calendar| &**calendar.zone.name()),
                "capacity": plan.capacity.map(|capacity| plan.ours.most_of_units(capacity)),
                "burst": plan.burst.map(|burst| plan.ours.most_of_units(burst)),
                "start_level": start_name(plan.start),
                "learn_above": plan.learn_above,
                "from": origin.origin.describe(&self.file),
            })
        });
        let classes = Class::ALL.map(|class| {
            let policy = self.plan.class(class);
            let promises = json!({
                "max_wait_ms": policy.max_wait.as_millis_ceil(),
                "honor_cap_ms": policy.honor_cap.as_millis_ceil(),
                "attempts": policy.attempts,
                "paid_attempts": policy.paid_attempts,
                "guarantee": Share::of_portion(policy.guarantee).to_string(),
                "max_share": Share::of_portion(policy.max_share).to_string(),
            });
            (class.name().to_owned(), promises)
        });
        json!({
            "provider": self.provider,
            "account": self.account,
            "group": &*self.plan.key,
            "each": self.plan.is_each,
            "from": self.group.describe(&self.file),
            "buckets": buckets.collect::<Vec<Value>>(),
            "classes": Value::Object(classes.into_iter().collect()),
            "min_backoff_ms": self.plan.min_backoff.as_millis_ceil(),
            "mode": self.plan.modes.to_string(),
            "mode_from": self.mode.as_ref().map(|origin| origin.describe(&self.file)),
            "mode_of_tenants": self.tenants.iter().map(|(name, modes, _)| (name.clone(), json!(modes.to_string()))).collect::<serde_json::Map<_, _>>(),
            "on_store_down": self.plan.store_down.name(),
            "on_store_down_from": self.store_down.as_ref().map(|origin| origin.describe(&self.file)),
            "retries": {
                "share_ppm": self.plan.retries.share_ppm,
                "at_least": self.plan.retries.at_least,
                "per_ms": self.plan.retries.per.as_millis_ceil(),
            },
            "notes": self.notes,
        })
    }

    fn bucket_row(&self, plan: &BucketPlan, origin: &BucketOrigin) -> [String; 7] {
        let amount =
            |amount: Option<u64>, otherwise: &str| amount.map_or_else(|| otherwise.to_owned(), |units| units.to_string());
        let per = match (&plan.calendar, plan.per, plan.refill) {
            (Some(calendar), ..) => format!("{} in {}", calendar.unit.name(), calendar.zone.name()),
            (None, Some(per), _) => per.to_string(),
            (None, None, Some(Refill::Held)) => "-".to_owned(),
            (None, None, _) => "?".to_owned(),
        };
        let ours = plan.ours;
        let limit = amount(plan.limit.map(|limit| ours.most_of_units(limit)), "?");
        let mut more = vec![start_name(plan.start).to_owned()];
        more.extend(ours.is_shared().then(|| match plan.limit {
            Some(limit) => format!("use {} of {limit}", Share::of_portion(ours.most)),
            None => format!("use {}", Share::of_portion(ours.most)),
        }));
        more.extend(
            Some(Share::of_portion(ours.least)).filter(|least| *least > Share::NONE).map(|least| format!("share {least}")),
        );
        more.extend(plan.capacity.map(|capacity| format!("capacity {}", ours.most_of_units(capacity))));
        more.extend(plan.burst.map(|burst| format!("burst {}", ours.most_of_units(burst))));
        more.extend(plan.learn_above.then(|| "headers may raise it".to_owned()));
        let refill = plan.refill.map_or("?", refill_name).to_owned();
        [origin.bucket.clone(), limit, per, refill, more.join(", "), "<-".to_owned(), origin.origin.describe(&self.file)]
    }
}

fn refill_name(refill: Refill) -> &'static str {
    match refill {
        Refill::Continuous => "continuous",
        Refill::Window => "window",
        Refill::Held => "held",
    }
}

fn start_name(start: StartLevel) -> &'static str {
    match start {
        StartLevel::Cautious => "cautious",
        StartLevel::Full => "full",
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.asked)?;
        writeln!(f, "  account  {:?} of {}", self.account, self.provider)?;
        let each = if self.plan.is_each { " (its own buckets)" } else { "" };
        writeln!(f, "  group    {:?}{each}  <- {}", &*self.plan.key, self.group.describe(&self.file))?;
        if self.plan.buckets.is_empty() {
            writeln!(f, "  no buckets: nothing is written and the catalogue lists no meters; only floors hold calls back")?;
        }
        let mut rows = vec![["bucket", "limit", "per", "refill", "", "", ""].map(str::to_owned)];
        rows.extend(self.plan.buckets.iter().zip(&self.buckets).map(|(plan, origin)| self.bucket_row(plan, origin)));
        if rows.len() > 1 {
            write_table(f, &rows)?;
        }
        for class in Class::ALL {
            self.write_class(f, class)?;
        }
        if let Some(origin) = &self.mode {
            writeln!(f, "  mode     {} <- {}", self.plan.modes, origin.describe(&self.file))?;
        }
        for (name, modes, origin) in &self.tenants {
            writeln!(f, "  mode     {modes} for tenant {name:?} <- {}", origin.describe(&self.file))?;
        }
        if let Some(origin) = &self.store_down {
            writeln!(f, "  on_store_down {} <- {}", self.plan.store_down.name(), origin.describe(&self.file))?;
        }
        self.write_retries(f)?;
        self.notes.iter().try_for_each(|note| writeln!(f, "  note: {note}"))
    }
}

impl Explanation {
    fn write_retries(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let from = |origin: &Option<Origin>| {
            origin.as_ref().map(|origin| format!(" <- {}", origin.describe(&self.file))).unwrap_or_default()
        };
        let policy = &self.plan.retries;
        writeln!(
            f,
            "  {:<11} share {}{}, at_least {}/{}{}",
            "retries",
            Share::of_ppm(policy.share_ppm),
            from(&self.retries.share),
            policy.at_least,
            exact(policy.per),
            from(&self.retries.at_least),
        )
    }

    fn write_class(&self, f: &mut fmt::Formatter<'_>, class: Class) -> fmt::Result {
        let policy = self.plan.class(class);
        let from = |setting: &str| {
            let origin = self.settings.iter().find(|origin| origin.class == class && origin.setting == setting);
            origin.map(|origin| format!(" <- {}", origin.origin.describe(&self.file))).unwrap_or_default()
        };
        write!(
            f,
            "  {:<11} max_wait {}{}, honor_cap {}{}, attempts {}{}, paid_attempts {}{}",
            class.name(),
            policy.max_wait,
            from("max_wait"),
            policy.honor_cap,
            from("honor_cap"),
            policy.attempts,
            from("attempts"),
            policy.paid_attempts,
            from("paid_attempts"),
        )?;
        if policy.guarantee > Portion::NONE {
            write!(f, ", guarantee {}{}", Share::of_portion(policy.guarantee), from("guarantee"))?;
        }
        if policy.max_share < Portion::WHOLE {
            write!(f, ", max_share {}{}", Share::of_portion(policy.max_share), from("max_share"))?;
        }
        writeln!(f)
    }
}

/// Columns as wide as their widest cell.
fn write_table<const N: usize>(f: &mut fmt::Formatter<'_>, rows: &[[String; N]]) -> fmt::Result {
    let mut widths = [0; N];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    for row in rows {
        let cells: Vec<String> = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        writeln!(f, "  {}", cells.join("  ").trim_end())?;
    }
    Ok(())
}
