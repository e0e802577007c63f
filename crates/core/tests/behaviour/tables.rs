//! Decisions as tables: `crates/core/tests/tables/*.txt`, one line per limit, event and expectation. The language is explained in
//! `tables/README.md`; to add a case, add lines.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use paceline_core::amounts::Amounts;
use paceline_core::lease::CallFloor;
use paceline_core::plan::{BucketPlan, Class, ClassPolicy, GroupPlan, Portion, Refill, StartLevel, Weight};
use paceline_core::queue::AskId;
use paceline_core::signal::{AnswerKind, ObservedBucket, ResetMeans, Signal, Source};
use paceline_core::units::Span;

use crate::support::plans::{group_named, named, of_account, unknown};
use crate::support::world::{START, World};

#[test]
fn every_table_holds() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tables");
    let (mut cases, mut problems) = (0, String::new());
    for entry in std::fs::read_dir(&folder).expect("the folder of tables") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|extension| extension != "txt") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a readable table");
        let mut table = Table::default();
        for (number, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or("").trim();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("table");
            if (line.starts_with("case") || !table.failed)
                && let Err(problem) = table.line(line)
            {
                problems.push_str(&format!("{name}:{}: {line}\n  {problem}, in {}\n", number + 1, table.title));
                table.failed = true;
            }
        }
        cases += table.cases;
    }
    assert!(problems.is_empty(), "\n{problems}");
    assert!(cases >= 20, "only {cases} cases were found");
}

type Found<T> = Result<T, String>;

#[derive(Default)]
struct Table {
    title: String,
    cases: usize,
    /// Whether the case has failed: its other lines would only repeat it.
    failed: bool,
    buckets: BTreeMap<String, Vec<BucketPlan>>,
    plans: BTreeMap<String, Arc<GroupPlan>>,
    classes: BTreeMap<Class, ClassPolicy>,
    world: Option<World>,
    ids: BTreeMap<String, AskId>,
    /// How far the clock has jumped: a table's times go on as if it had not.
    jumped: Span,
}

/// The words of a line: plain ones, and those of the form `key=value`.
struct Words<'a> {
    plain: Vec<&'a str>,
    keyed: BTreeMap<&'a str, &'a str>,
}

impl<'a> Words<'a> {
    fn of(line: &'a str) -> Self {
        let (keyed, plain): (Vec<&str>, Vec<&str>) = line.split_whitespace().partition(|word| word.contains('='));
        Self { plain, keyed: keyed.into_iter().filter_map(|word| word.split_once('=')).collect() }
    }

    fn at(&self, index: usize) -> Found<&'a str> {
        self.plain.get(index).copied().ok_or_else(|| format!("word {} is missing", index + 1))
    }

    fn has(&self, word: &str) -> bool {
        self.plain.contains(&word)
    }

    fn units(&self, key: &str) -> Found<Option<u64>> {
        let read = |text: &&str| text.parse().map_err(|_| format!("{key} is no whole number: {text}"));
        self.keyed.get(key).map(read).transpose()
    }

    fn span(&self, key: &str) -> Found<Option<Span>> {
        self.keyed.get(key).map(|text| seconds(text)).transpose()
    }
}

fn seconds(text: &str) -> Found<Span> {
    let number = text.parse().map_err(|_| format!("{text} are no seconds"))?;
    Span::from_secs_f64(number).ok_or_else(|| format!("{text} are no seconds"))
}

fn class_named(word: &str) -> Option<Class> {
    Class::ALL.into_iter().find(|class| class.name() == word)
}

/// `5` or `5..6`, both ends included; one number allows nothing else.
fn within(range: &str, found: f64) -> Found<()> {
    let (least, most) = range.split_once("..").unwrap_or((range, range));
    let bound = |text: &str| text.parse::<f64>().map_err(|_| format!("{range} is no range"));
    let inside = (bound(least)? - 1e-6..=bound(most)? + 1e-6).contains(&found);
    if inside { Ok(()) } else { Err(format!("expected {range}, found {found}")) }
}

fn same(expected: &str, found: &str) -> Found<()> {
    if expected == found { Ok(()) } else { Err(format!("expected {expected}, found {found}")) }
}

impl Table {
    fn line(&mut self, line: &str) -> Found<()> {
        let words = Words::of(line);
        match words.plain.first().copied() {
            None => Ok(()),
            Some("case") => {
                let cases = self.cases + 1;
                *self = Self { title: line.to_string(), cases, world: Some(World::new(42)), ..Self::default() };
                Ok(())
            }
            Some("bucket") => self.bucket(&words),
            Some("class") => self.class(&words),
            Some(_) => self.event(&words),
        }
    }

    fn world(&mut self) -> Found<&mut World> {
        self.world.as_mut().ok_or_else(|| "a case begins with a line `case TITLE`".to_string())
    }

    /// `bucket NAME [window|held] [full|cautious] [account] [learn_above] [limit=N per=SECONDS capacity=N burst=N meter=M of=GROUP]`
    fn bucket(&mut self, words: &Words<'_>) -> Found<()> {
        let name = words.at(1)?;
        let limit = words.units("limit")?;
        let mut plan = named(name, unknown(words.keyed.get("meter").copied().unwrap_or(name)));
        plan = BucketPlan {
            limit,
            per: words.span("per")?,
            capacity: words.units("capacity")?,
            burst: words.units("burst")?,
            ..plan
        };
        plan.refill = match (words.has("window"), words.has("held"), limit) {
            (true, _, _) => Some(Refill::Window),
            (_, true, _) => Some(Refill::Held),
            (_, _, Some(_)) => Some(Refill::Continuous),
            _ => None,
        };
        plan.learn_above = words.has("learn_above");
        plan.start = if words.has("full") { StartLevel::Full } else { StartLevel::Cautious };
        if words.has("account") {
            // The whole account's: every group so far is charged in it.
            self.buckets.entry("main".to_string()).or_default();
            self.buckets.values_mut().for_each(|buckets| buckets.push(of_account(plan.clone())));
        } else {
            let group = words.keyed.get("of").copied().unwrap_or("main");
            self.buckets.entry(group.to_string()).or_default().push(plan);
        }
        Ok(())
    }

    /// `class interactive|normal|batch [guarantee=PERCENT max_share=PERCENT]`
    fn class(&mut self, words: &Words<'_>) -> Found<()> {
        let class = class_named(words.at(1)?).ok_or("that is no class")?;
        let part = |key: &str| -> Found<Option<Portion>> {
            let percent = words.units(key)?.filter(|percent| *percent <= 100);
            Ok(percent.and_then(|percent| u32::try_from(percent * 10_000).ok()).map(Portion::from_millionths))
        };
        let default = ClassPolicy::default_of(class);
        let guarantee = part("guarantee")?.unwrap_or(default.guarantee);
        let max_share = part("max_share")?.unwrap_or(default.max_share);
        self.classes.insert(class, ClassPolicy { guarantee, max_share, ..default });
        Ok(())
    }

    fn plan(&mut self, group: &str) -> Found<Arc<GroupPlan>> {
        if let Some(plan) = self.plans.get(group) {
            return Ok(plan.clone());
        }
        let buckets = self.buckets.get(group).ok_or_else(|| format!("no bucket is of group {group}"))?;
        let mut plan = GroupPlan::clone(&group_named(group, buckets.clone()));
        plan.classes = Class::ALL.map(|class| self.classes.get(&class).copied().unwrap_or(ClassPolicy::default_of(class)));
        let plan = Arc::new(plan);
        self.plans.insert(group.to_string(), plan.clone());
        Ok(plan)
    }

    fn id(&self, name: &str) -> Found<AskId> {
        self.ids.get(name).copied().ok_or_else(|| format!("nobody called {name} has asked"))
    }

    /// `TIME WHAT ...`: the world runs until then, and goes on from there.
    fn event(&mut self, words: &Words<'_>) -> Found<()> {
        let time = START + seconds(words.at(0)?)? + self.jumped;
        let world = self.world()?;
        if time < world.now {
            return Err("time goes back".to_string());
        }
        world.run_until(time);
        let (what, who) = (words.at(1)?, words.at(2)?);
        match what {
            "ask" => self.ask(who, words)?,
            "answer" => self.answer(who, words)?,
            "done" | "fails" | "release" | "leave" => self.end(what, who, words)?,
            "limit" => self.limit(who, words)?,
            "clock" => {
                let by = match who.strip_prefix('-') {
                    Some(back) => Span::ZERO - seconds(back)?,
                    None => seconds(who)?,
                };
                self.world()?.clock_jumps(by);
                self.jumped += by;
            }
            "store" => same("forgets", who).map(|()| self.world().map(World::lose))??,
            _ => return self.expect(what, who, words),
        }
        self.world()?.decide();
        Ok(())
    }

    /// `TIME limit BUCKET [of=GROUP limit=N capacity=N burst=N]`: the configuration is loaded again with this in it.
    fn limit(&mut self, name: &str, words: &Words<'_>) -> Found<()> {
        let group = words.keyed.get("of").copied().unwrap_or("main");
        let buckets = self.buckets.get_mut(group).ok_or_else(|| format!("no bucket is of group {group}"))?;
        let plan = buckets.iter_mut().find(|plan| &*plan.id.name == name).ok_or_else(|| format!("no bucket {name}"))?;
        plan.limit = words.units("limit")?.or(plan.limit);
        plan.capacity = words.units("capacity")?.or(plan.capacity);
        plan.burst = words.units("burst")?.or(plan.burst);
        self.plans.remove(group);
        let plan = self.plan(group)?;
        self.world()?.replan(&plan);
        Ok(())
    }

    /// `TIME ask NAME[*COUNT] [interactive|batch] [of=GROUP tenant=NAME weight=N requests=N tokens=N max_wait=S honor_cap=S not_before=S ttl=S]`
    fn ask(&mut self, who: &str, words: &Words<'_>) -> Found<()> {
        // `jobs*5` are five calls: jobs1 to jobs5.
        if let Some((name, count)) = who.split_once('*') {
            let count: u32 = count.parse().map_err(|_| format!("{count} is no count of calls"))?;
            return (1..=count).try_for_each(|number| self.ask(&format!("{name}{number}"), words));
        }
        let plan = self.plan(words.keyed.get("of").copied().unwrap_or("main"))?;
        let jumped = self.jumped;
        let weight = words.units("weight")?.map_or(Ok(1), u32::try_from).map_err(|_| "that is no weight".to_string())?;
        let world = self.world()?;
        let mut ask = world.ask(&plan);
        ask.tenant = Arc::from(words.keyed.get("tenant").copied().unwrap_or("default"));
        ask.weight = Weight::new(weight);
        ask.class = words.plain.iter().find_map(|word| class_named(word)).unwrap_or(Class::Normal);
        for meter in ["requests", "tokens"] {
            if let Some(units) = words.units(meter)? {
                ask.cost.set(meter, units);
            }
        }
        ask.wait_until = words.span("max_wait")?.map_or(ask.wait_until, |wait| world.now + wait);
        ask.honor_cap = words.span("honor_cap")?.unwrap_or(ask.honor_cap);
        ask.ttl = words.span("ttl")?.unwrap_or(ask.ttl);
        let own = words.span("not_before")?.map(|until| START + until + jumped);
        ask.not_before = own.map(|until| CallFloor { until, source: Source::RetryAfterSeconds });
        let id = world.push(ask);
        self.ids.insert(who.to_string(), id);
        Ok(())
    }

    /// `TIME answer NAME[..LAST] ok|throttled|overloaded [named] [retry_after=S] [METER.limit=N METER.remaining=N METER.full_in=S METER.ends_in=S]`
    fn answer(&mut self, who: &str, words: &Words<'_>) -> Found<()> {
        // `jobs1..5` are five calls: jobs1 to jobs5.
        if let Some((first, last)) = who.split_once("..") {
            let name = first.trim_end_matches(|c: char| c.is_ascii_digit());
            let number = |text: &str| text.parse::<u32>().map_err(|_| format!("{who} names no calls"));
            let mut all = number(first.strip_prefix(name).unwrap_or(""))?..=number(last)?;
            return all.try_for_each(|number| self.answer(&format!("{name}{number}"), words));
        }
        let kind = match words.at(3)? {
            "ok" => AnswerKind::Ok,
            "throttled" => AnswerKind::Throttled,
            "overloaded" => AnswerKind::Overloaded,
            other => return Err(format!("{other} is no kind of answer")),
        };
        let retry_after = words.span("retry_after")?;
        let source = if retry_after.is_some() { Source::RetryAfterSeconds } else { Source::None };
        let (retryable, names_model) = (kind != AnswerKind::Ok, words.has("named"));
        let mut signal = Signal { kind, retry_after, source, retryable, names_model, ..Signal::default() };
        let meters: std::collections::BTreeSet<&str> =
            words.keyed.keys().filter_map(|key| Some(key.split_once('.')?.0)).collect();
        for meter in meters {
            let (full_in, ends_in) = (words.span(&format!("{meter}.full_in"))?, words.span(&format!("{meter}.ends_in"))?);
            signal.buckets.push(ObservedBucket {
                name: meter.to_string(),
                meter: meter.to_string(),
                limit: words.units(&format!("{meter}.limit"))?,
                remaining: words.units(&format!("{meter}.remaining"))?,
                reset_in: full_in.or(ends_in),
                reset_means: if full_in.is_some() { ResetMeans::Full } else { ResetMeans::Window },
                ..ObservedBucket::default()
            });
        }
        let id = self.id(who)?;
        let world = self.world()?;
        if !world.open.contains_key(&id) {
            return Err(format!("{who} is not under way"));
        }
        world.answer(id, &signal);
        Ok(())
    }

    /// `TIME done NAME [tokens=N]`, `TIME fails NAME`, `TIME release NAME`, `TIME leave NAME`
    fn end(&mut self, how: &str, who: &str, words: &Words<'_>) -> Found<()> {
        let (id, tokens) = (self.id(who)?, words.units("tokens")?);
        let world = self.world()?;
        let now = world.now;
        match how {
            "done" => {
                let used = tokens.map(|tokens| Amounts::from_pairs([("tokens", tokens)]));
                world.report(id, Some(&Signal::default()), None, used.as_ref(), true);
            }
            "fails" => world.connection_fails(id),
            "release" => world.release(id),
            _ => drop(world.queue.remove(id, now)),
        }
        Ok(())
    }

    fn expect(&mut self, what: &str, who: &str, words: &Words<'_>) -> Found<()> {
        let jumped = self.jumped;
        if what == "level" {
            let level = self.world()?.level(who);
            return within(words.at(3)?, level);
        }
        // `TIME rate BUCKET RANGE`, `TIME drain BUCKET RANGE`: units a minute that are ours, and that somebody else takes.
        if what == "rate" || what == "drain" {
            let bucket = self.world()?.bucket(who).ok_or_else(|| format!("no bucket {who}"))?;
            let ours = bucket.rate().map(|rate| rate.gained_in(Span::from_secs(60)));
            let found = if what == "rate" { ours } else { bucket.foreign_drain() };
            return within(words.at(3)?, found.map_or(0.0, |units| units.as_units_f64()));
        }
        if what == "went" {
            // `TIME went NAME RANGE`: how many of those so called, with any number behind, are to be sent until now.
            let named = self.ids.iter().filter(|(name, _)| name.trim_end_matches(|c: char| c.is_ascii_digit()) == who);
            let ids: std::collections::BTreeSet<AskId> = named.map(|(_, id)| *id).collect();
            let world = self.world()?;
            let gone =
                world.granted.iter().filter(|granted| ids.contains(&granted.ask.id) && granted.slot.send_at <= world.now);
            return within(words.at(3)?, f64::from(u32::try_from(gone.count()).unwrap_or(u32::MAX)));
        }
        let id = self.id(who)?;
        let world = self.world()?;
        let granted = world.granted.iter().find(|granted| granted.ask.id == id);
        let denied = world.denied.iter().find(|denied| denied.ask.id == id);
        match what {
            // `TIME sent NAME RANGE [source=S bucket=B runner_up=B free_in=RANGE]`: when, and what governed the wait.
            "sent" => {
                let slot = &granted.ok_or_else(|| format!("{who} was not granted"))?.slot;
                within(words.at(3)?, (slot.send_at - START - jumped).as_secs_f64())?;
                let governing = paceline_core::delays::governing(&slot.delays);
                if let Some(source) = words.keyed.get("source") {
                    same(source, governing.map_or("none", |part| part.cause.source.name()))?;
                }
                if let Some(bucket) = words.keyed.get("bucket") {
                    same(bucket, governing.map_or("", |part| &part.cause.bucket))?;
                }
                if let Some(bucket) = words.keyed.get("runner_up") {
                    let second = slot.runner_up.as_ref().ok_or("there is no runner-up")?;
                    same(bucket, &second.cause.bucket)?;
                    within(words.keyed.get("free_in").copied().unwrap_or("0..999999"), second.free_in.as_secs_f64())?;
                }
                Ok(())
            }
            // `TIME denied NAME REASON [retry_after=RANGE]`
            "denied" => {
                let denial = &denied.ok_or_else(|| format!("{who} was not denied"))?.denial;
                same(words.at(3)?, denial.reason.name())?;
                match (words.keyed.get("retry_after"), denial.retry_after) {
                    (Some(&"never"), None) | (None, _) => Ok(()),
                    (Some(range), Some(wait)) => within(range, wait.as_secs_f64()),
                    (Some(range), None) => Err(format!("expected {range}, found never")),
                }
            }
            // `TIME waits NAME SOURCE [BUCKET]`
            "waits" => {
                let cause = world.queue.cause_of(id).ok_or_else(|| format!("{who} does not wait"))?;
                same(words.at(3)?, cause.source.name())?;
                same(words.plain.get(4).copied().unwrap_or(""), &cause.bucket)
            }
            _ => Err(format!("{what} is no event and no expectation")),
        }
    }
}
