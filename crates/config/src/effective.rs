//! The effective configuration: what holds after defaults, flags and variables, in one canonical form.

use paceline_core::calendar::CalendarUnit;
use paceline_core::mode::{Mode, Modes};
use paceline_core::plan::{Class, ClassPolicy, Refill, StartLevel};
use paceline_core::retry_budget::RetryPolicy;
use paceline_core::units::Span;
use serde_json::{Map, Value, json};

use crate::model::{
    Account, Block, ByClass, CONCURRENCY, ClassSettings, Config, Group, Limit, Listen, Provider, RetrySettings, Settings,
    Shared, Tenant,
};
use crate::quantity::{Share, exact, exact_length};

impl Config {
    /// What holds, for programs: keys sorted, units resolved, no secrets (a configuration of this version holds none).
    pub fn effective_json(&self) -> Value {
        json!({
            "classes": classes_with_defaults(&self.classes),
            "expected_replicas": self.expected_replicas,
            "listen": listen(&self.listen),
            "mode": modes(self.mode.map_or_else(Modes::default, |written| written.value)),
            "providers": self.providers.iter().map(|(name, one)| (name.clone(), provider(one))).collect::<Map<_, _>>(),
            "retries": retries_with_defaults(&self.retries),
            "store": self.store.to_string(),
            "tenants": self.tenants.iter().map(|(name, one)| (name.clone(), tenant(one))).collect::<Map<_, _>>(),
        })
    }

    /// The same for people; reads back as a configuration with the same effect.
    pub fn effective_yaml(&self) -> String {
        // Maps of texts, numbers and lists always serialise.
        serde_saphyr::to_string(&self.effective_json()).unwrap_or_default()
    }

    /// Tells configurations that decide differently apart: 32 hex digits, the same for any order of keys, any spelling of a
    /// number, any comment. Where a process listens, and by which address it reaches the store, is its own business and not part of
    /// it, so that the replicas of a fleet agree.
    pub fn hash(&self) -> String {
        format!("{:032x}", self.fingerprint())
    }

    /// The same as a number.
    pub fn fingerprint(&self) -> u128 {
        let mut effective = self.effective_json();
        if let Value::Object(top) = &mut effective {
            OF_THE_PROCESS.iter().for_each(|own| drop(top.remove(*own)));
        }
        fnv1a_128(effective.to_string().as_bytes())
    }
}

/// What may differ between replicas that decide the same.
const OF_THE_PROCESS: [&str; 2] = ["listen", "store"];

/// FNV-1a with 128 bits (Fowler, Noll, Vo; <http://www.isthe.com/chongo/tech/comp/fnv/>): it tells versions apart, it does not
/// protect against anybody.
fn fnv1a_128(bytes: &[u8]) -> u128 {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    bytes.iter().fold(OFFSET, |hash, byte| (hash ^ u128::from(*byte)).wrapping_mul(PRIME))
}

fn listen(listen: &Listen) -> Value {
    map([
        ("advertise", listen.advertise.as_ref().map(|address| json!(&**address))),
        ("grpc", Some(json!(listen.grpc.to_string()))),
        ("http", Some(json!(listen.http.to_string()))),
    ])
}

fn classes_with_defaults(written: &ClassSettings) -> Value {
    let of = |class: Class| {
        let default = ClassPolicy::default_of(class);
        let span = |by: &ByClass<Span>, default| exact(by.get(class).map_or(default, |written| written.value));
        let tries = |by: &ByClass<u32>, default| by.get(class).map_or(default, |written| written.value);
        let share = |by: &ByClass<Share>, default| {
            by.get(class).map_or(Share::of_portion(default), |written| written.value).to_string()
        };
        let policy = json!({
            "guarantee": share(&written.guarantee, default.guarantee),
            "max_share": share(&written.max_share, default.max_share),
            "attempts": tries(&written.attempts, default.attempts),
            "honor_cap": span(&written.honor_cap, default.honor_cap),
            "max_wait": span(&written.max_wait, default.max_wait),
            "paid_attempts": tries(&written.paid_attempts, default.paid_attempts),
        });
        (class.name().to_owned(), policy)
    };
    let mut classes = Class::ALL;
    classes.sort_by_key(|class| class.name());
    Value::Object(classes.into_iter().map(of).collect())
}

fn retries_with_defaults(written: &RetrySettings) -> Value {
    let default = RetryPolicy::default();
    let share = written.share.map_or(Share::of_ppm(default.share_ppm), |share| share.value);
    let at_least = written.at_least.map_or((default.at_least, default.per), |at_least| at_least.value);
    json!({"at_least": rate(at_least), "share": share.to_string()})
}

fn rate((units, per): (u64, Span)) -> String {
    format!("{units}/{}", exact(per))
}

fn tenant(tenant: &Tenant) -> Value {
    map([
        ("mode", tenant.mode.map(|written| modes(written.value))),
        ("max_priority", tenant.max_priority.map(|class| json!(class.value.name()))),
        ("weight", tenant.weight.map(|weight| json!(weight.value.get()))),
    ])
}

/// Only what is written: a map without empty members.
fn map<const N: usize>(members: [(&str, Option<Value>); N]) -> Value {
    let full = members.into_iter().filter_map(|(key, value)| value.map(|value| (key.to_owned(), value)));
    Value::Object(full.collect())
}

fn named<T>(all: &std::collections::BTreeMap<String, T>, one: impl Fn(&T) -> Value) -> Option<Value> {
    let members: Map<_, _> = all.iter().map(|(name, found)| (name.clone(), one(found))).collect();
    (!members.is_empty()).then_some(Value::Object(members))
}

fn merge(mut into: Value, more: Value) -> Value {
    if let (Value::Object(into), Value::Object(more)) = (&mut into, more) {
        into.extend(more);
        into.sort_keys();
    }
    into
}

/// The word, or the parts.
fn modes(modes: Modes) -> Value {
    if let Some(only) = modes.only() {
        return json!(only.name());
    }
    let parts = Mode::ALL.into_iter().filter(|mode| modes.part(*mode) > 0);
    Value::Object(
        parts.map(|mode| (mode.name().to_owned(), json!(format!("{}%", f64::from(modes.part(mode)) / 1e4)))).collect(),
    )
}

fn provider(provider: &Provider) -> Value {
    let own = map([
        ("accounts", named(&provider.accounts, account)),
        ("dialect", provider.dialect.as_ref().map(|name| json!(name.value))),
        ("extends", provider.extends.as_ref().map(|name| json!(name.value))),
        ("unknown_accounts", provider.unknown_accounts.then(|| json!("allow"))),
    ]);
    merge(own, block(&provider.block))
}

fn account(account: &Account) -> Value {
    let aliases: Vec<&String> = account.aliases.keys().collect();
    merge(map([("aliases", (!aliases.is_empty()).then(|| json!(aliases)))]), block(&account.block))
}

fn block(block: &Block) -> Value {
    let own = map([
        ("limits", limits(&block.limits)),
        ("models", named(&block.models, group)),
        ("shared", named(&block.shared, shared)),
    ]);
    merge(own, settings(&block.settings))
}

fn group(group: &Group) -> Value {
    let uses: Vec<&String> = group.uses.keys().collect();
    let own = map([
        ("each", group.each.then(|| json!(true))),
        ("limits", limits(&group.limits)),
        ("uses", (!uses.is_empty()).then(|| json!(uses))),
    ]);
    merge(own, settings(&group.settings))
}

fn shared(shared: &Shared) -> Value {
    merge(map([("limits", limits(&shared.limits))]), settings(&shared.settings))
}

fn settings(settings: &Settings) -> Value {
    let start = |level| if level == StartLevel::Full { "full" } else { "cautious" };
    map([
        ("attempts", by_class(&settings.classes.attempts, |tries| json!(tries))),
        ("honor_cap", by_class(&settings.classes.honor_cap, |span| json!(exact(span)))),
        ("learn_above", settings.learn_above.map(|learn| json!(learn.value))),
        ("max_wait", by_class(&settings.classes.max_wait, |span| json!(exact(span)))),
        ("mode", settings.mode.map(|written| modes(written.value))),
        ("on_store_down", settings.on_store_down.map(|written| json!(written.value.name()))),
        ("paid_attempts", by_class(&settings.classes.paid_attempts, |tries| json!(tries))),
        ("retries", retries(&settings.retries)),
        ("share", settings.own_share.map(|share| json!(share.value.to_string()))),
        ("start_level", settings.start_level.map(|level| json!(start(level.value)))),
        ("tier", settings.tier.as_ref().map(|tier| json!(tier.value))),
        ("use", settings.use_share.map(|share| json!(share.value.to_string()))),
    ])
}

fn retries(written: &RetrySettings) -> Option<Value> {
    let is_written = written.share.is_some() || written.at_least.is_some();
    is_written.then(|| {
        map([
            ("at_least", written.at_least.map(|at_least| json!(rate(at_least.value)))),
            ("share", written.share.map(|share| json!(share.value.to_string()))),
        ])
    })
}

fn by_class<T: Copy>(values: &ByClass<T>, show: impl Fn(T) -> Value) -> Option<Value> {
    let written = Class::ALL.into_iter().filter_map(|class| Some((class.name().to_owned(), show(values.get(class)?.value))));
    let members: Map<_, _> = written.collect();
    (!members.is_empty()).then_some(Value::Object(members))
}

/// By meter; a list where a meter has several windows.
fn limits(limits: &[Limit]) -> Option<Value> {
    let mut members: Map<String, Value> = Map::new();
    for limit in limits {
        let value = one_limit(limit);
        match members.get_mut(&*limit.meter) {
            None => {
                members.insert(limit.meter.to_string(), value);
            }
            Some(Value::Array(list)) => list.push(value),
            Some(first) => *first = Value::Array(vec![first.take(), value]),
        }
    }
    (!members.is_empty()).then_some(Value::Object(members))
}

fn one_limit(limit: &Limit) -> Value {
    if &*limit.meter == CONCURRENCY {
        return json!(limit.limit);
    }
    let per = limit.per.map(exact_length);
    let refill = |refill| match refill {
        Refill::Continuous => "continuous",
        Refill::Window => "window",
        Refill::Held => "held",
    };
    map([
        ("burst", limit.burst.map(|burst| json!(burst))),
        ("capacity", limit.capacity.map(|capacity| json!(capacity))),
        ("limit", Some(json!(limit.limit))),
        ("per", limit.unit.map(CalendarUnit::name).map(str::to_owned).or(per).map(|per| json!(per))),
        ("refill", limit.refill.map(|how| json!(refill(how)))),
        ("zone", limit.zone.as_ref().map(|zone| json!(&**zone.name()))),
    ])
}
