//! Tallies at Redis: a hash for each hour of a scope that ends by itself, and one for each day that names the scopes.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use paceline_core::history::Hour;
use paceline_core::units::FleetTime;
use redis::{Cmd, Value};

use super::calls::{Courier, Request};
use super::keys::{self, Keys};
use super::routes::Route;
use super::script::{By, Foreign, HASHES, NAMES, RequestId, Room, Script, TALLY};
use crate::error::StoreError;
use crate::key::ScopeKey;
use crate::observe::Operation;
use crate::tally::{Addition, Counters, Day, MOST_COUNTED, ScopeName, life};

/// Before the number of each writer: no counter begins like this.
const WRITER: &str = "~";
/// So many hours are read at once.
const HOURS_AT_ONCE: usize = 64;
/// So many scopes are named at once.
const NAMES_AT_ONCE: usize = 500;

/// Adds, once.
pub(super) async fn add(
    courier: &Courier,
    keys: &Keys,
    scope: &ScopeKey,
    addition: Addition,
    now: FleetTime,
) -> Result<(), StoreError> {
    let hour = addition.hour;
    if !hour.is_kept(now) || addition.counters.is_empty() {
        return Ok(());
    }
    let request = Simple::new(&TALLY, vec![keys.tally(scope, hour)])
        .with(keys::millis(life(hour.kept_until(), now)).to_string())
        .with(format!("{WRITER}{:08x}", addition.writer))
        .with(addition.number.to_string())
        .with(MOST_COUNTED.to_string());
    let pairs = addition.counters.into_iter().flat_map(|(name, count)| [name, count.min(MOST_COUNTED).to_string()]);
    let request = pairs.fold(request, Simple::with);
    courier.ask(Operation::Meta, aside(scope), &request, |answer| request.id.open(answer).map(drop)).await
}

/// What was added to these hours.
pub(super) async fn read(
    courier: &Courier,
    keys: &Keys,
    scope: &ScopeKey,
    hours: RangeInclusive<Hour>,
    now: FleetTime,
) -> Result<Vec<(Hour, Counters)>, StoreError> {
    let kept: Vec<Hour> = (hours.start().0..=hours.end().0).map(Hour).filter(|hour| hour.is_kept(now)).collect();
    let mut found = Vec::new();
    for some in kept.chunks(HOURS_AT_ONCE) {
        let request = Simple::new(&HASHES, some.iter().map(|hour| keys.tally(scope, *hour)).collect());
        let hashes = courier.ask(Operation::Meta, aside(scope), &request, |answer| request.hashes(answer)).await?;
        for (hour, fields) in some.iter().zip(hashes) {
            let counters: Counters = fields.into_iter().filter_map(counter).collect();
            found.extend((!counters.is_empty()).then_some((*hour, counters)));
        }
    }
    Ok(found)
}

/// Names scopes that were counted on a day.
pub(super) async fn name(
    courier: &Courier,
    keys: &Keys,
    day: Day,
    names: &[ScopeName],
    now: FleetTime,
) -> Result<(), StoreError> {
    if day.kept_until() <= now {
        return Ok(());
    }
    for some in names.chunks(NAMES_AT_ONCE) {
        let key = keys.names(day);
        let (route, life) = (Route::of_key(&key), keys::millis(life(day.kept_until(), now)));
        let request = Simple::new(&NAMES, vec![key]).with(life.to_string());
        let request = some.iter().fold(request, |request, name| {
            request.with(ScopeKey::new(&name.provider, &name.account).to_string()).with(name.to_bytes())
        });
        courier.ask(Operation::Meta, route, &request, |answer| request.id.open(answer).map(drop)).await?;
    }
    Ok(())
}

/// The scopes that were counted on these days.
pub(super) async fn names(
    courier: &Courier,
    keys: &Keys,
    days: RangeInclusive<Day>,
    now: FleetTime,
) -> Result<BTreeSet<ScopeName>, StoreError> {
    let mut names = BTreeSet::new();
    for day in (days.start().0..=days.end().0).map(Day).filter(|day| day.kept_until() > now) {
        let request = Simple::new(&HASHES, vec![keys.names(day)]);
        let route = Route::of_key(&keys.names(day));
        let hashes = courier.ask(Operation::Meta, route, &request, |answer| request.hashes(answer)).await?;
        names.extend(hashes.into_iter().flatten().filter_map(|(_, name)| ScopeName::from_bytes(&name)));
    }
    Ok(names)
}

/// The way of a scope's keys over another connection than its commits take, where there are several: they do not wait for this.
fn aside(scope: &ScopeKey) -> Route {
    let route = Route::of(scope);
    Route { pick: route.pick.wrapping_add(1), ..route }
}

/// A field of an hour that is a counter.
fn counter((field, value): Pair) -> Option<(String, u64)> {
    let name = String::from_utf8(field).ok().filter(|name| !name.starts_with(WRITER))?;
    Some((name, std::str::from_utf8(&value).ok()?.parse().ok()?))
}

/// A field of a hash and its value.
type Pair = (Vec<u8>, Vec<u8>);

/// A request of a script, keys and arguments.
#[derive(Debug)]
struct Simple {
    id: RequestId,
    script: &'static Script,
    keys: Vec<String>,
    arguments: Vec<Vec<u8>>,
}

impl Simple {
    fn new(script: &'static Script, keys: Vec<String>) -> Self {
        Self { id: RequestId::random(), script, keys, arguments: Vec::new() }
    }

    fn with(mut self, argument: impl Into<Vec<u8>>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// The fields of each hash that was asked for.
    fn hashes(&self, answer: Value) -> Result<Vec<Vec<Pair>>, Foreign> {
        let hashes = self.id.open(answer)?;
        if hashes.len() != self.keys.len() {
            return Err(Foreign);
        }
        hashes.into_iter().map(fields).collect()
    }
}

/// Fields and values, which follow each other.
fn fields(hash: Value) -> Result<Vec<Pair>, Foreign> {
    let Value::Array(parts) = hash else { return Err(Foreign) };
    let mut parts = parts.into_iter();
    let mut pairs = Vec::new();
    while let Some(field) = parts.next() {
        let (Value::BulkString(field), Some(Value::BulkString(value))) = (field, parts.next()) else { return Err(Foreign) };
        pairs.push((field, value));
    }
    Ok(pairs)
}

impl Request for Simple {
    fn script(&self) -> &'static Script {
        self.script
    }

    fn keys(&self) -> &[String] {
        &self.keys
    }

    fn command(&self, by: By) -> Cmd {
        let bytes = self.arguments.iter().map(Vec::len).sum::<usize>();
        let more = Room { arguments: 1 + self.arguments.len(), bytes: 8 + bytes };
        let mut cmd = self.script.command(by, &self.keys, more);
        cmd.arg(self.id.as_bytes());
        for argument in &self.arguments {
            cmd.arg(argument.as_slice());
        }
        cmd
    }
}
