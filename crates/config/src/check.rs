//! What is wrong with a configuration that only the catalogue can tell.

use std::collections::BTreeSet;

use crate::facts::{Catalogue, ProviderFacts};
use crate::model::{Block, CONCURRENCY, Config, Limit, Provider, Settings, Written};
use crate::problem::{ConfigErrors, Problem, Problems, join, suggest};

/// Meters that calls of any provider may name.
const COMMON_METERS: [&str; 8] =
    ["requests", "tokens", "input_tokens", "cached_input_tokens", "output_tokens", "images", "audio_seconds", CONCURRENCY];

impl Config {
    /// Checks the names that a catalogue knows: providers, what they extend, tiers, meters.
    ///
    /// # Errors
    /// Everything that is wrong, in the order of the file.
    pub fn check(&self, catalogue: &dyn Catalogue) -> Result<(), ConfigErrors> {
        let mut problems = Problems::default();
        self.check_names(catalogue, &mut problems);
        problems.into_result((), &self.file, &self.text)
    }

    /// Adds what is wrong with names to what was found when the file was read. A provider whose base cannot be read is left
    /// alone: what is said of it would be wrong.
    pub(crate) fn check_names(&self, catalogue: &dyn Catalogue, problems: &mut Problems) {
        for (name, provider) in &self.providers {
            let path = join("providers", name);
            if !["extends", "dialect"].iter().any(|key| problems.has(&join(&path, key))) {
                check_provider(name, provider, catalogue, problems);
            }
        }
    }

    /// What is valid and will surprise: settings that cannot be kept, groups that join what is better kept apart. Sentences
    /// that begin with the account (or group) they are about; sorted, each once.
    pub fn warnings(&self, catalogue: &dyn Catalogue) -> Vec<String> {
        let mut out = BTreeSet::new();
        for (name, provider) in &self.providers {
            joining_groups(&join("providers", name), &provider.block, &mut out);
            unused_shared(&join("providers", name), provider, &mut out);
            let no_account = String::new();
            let accounts: Vec<&String> =
                if provider.accounts.is_empty() { vec![&no_account] } else { provider.accounts.keys().collect() };
            for account in accounts {
                let block = provider.accounts.get(account).map(|account| &account.block);
                if let Some(block) = block {
                    joining_groups(&join(&join(&join("providers", name), "accounts"), account), block, &mut out);
                }
                let groups = block.into_iter().chain([&provider.block]).flat_map(|block| block.models.keys());
                for model in groups.map(String::as_str).chain([""]) {
                    let notes = self.explain(catalogue, name, account, model).map(|found| found.notes).unwrap_or_default();
                    out.extend(notes.into_iter().map(|note| format!("{name}/{account}: {note}")));
                }
            }
        }
        out.into_iter().collect()
    }
}

/// A catch-all that says nothing about limits: whoever wrote it wanted a setting for every model, not one bucket for all.
fn joining_groups(path: &str, block: &Block, out: &mut BTreeSet<String>) {
    for (key, group) in &block.models {
        let is_only_settings = group.limits.is_empty() && group.uses.is_empty() && !group.each;
        if is_only_settings && group.glob.matches_everything() {
            out.insert(format!(
                "{}: all models share one set of buckets here; write `each: true`, or put the settings beside `models`",
                join(&join(path, "models"), key)
            ));
        }
    }
}

/// Shared buckets that no group uses: nothing is ever charged in them.
fn unused_shared(path: &str, provider: &Provider, out: &mut BTreeSet<String>) {
    let used_in = |block: &Block, name: &str| block.models.values().any(|group| group.uses.contains_key(name));
    let unused = |path: &str, name: &str| format!("{}: no group uses it", join(&join(path, "shared"), name));
    for name in provider.block.shared.keys() {
        let mut blocks = provider.accounts.values().map(|account| &account.block).chain([&provider.block]);
        if !blocks.any(|block| used_in(block, name)) {
            out.insert(unused(path, name));
        }
    }
    for (account, found) in &provider.accounts {
        let path = join(&join(path, "accounts"), account);
        for name in found.block.shared.keys() {
            // The provider's groups look the name up in the account first.
            if !used_in(&found.block, name) && !used_in(&provider.block, name) {
                out.insert(unused(&path, name));
            }
        }
    }
}

fn check_provider(name: &str, provider: &Provider, catalogue: &dyn Catalogue, problems: &mut Problems) {
    let path = join("providers", name);
    let bases = [("extends", &provider.extends), ("dialect", &provider.dialect)];
    for (key, base) in bases {
        if let Some(base) = base {
            check_base(base, &join(&path, key), catalogue, problems);
        }
    }
    let base = provider.extends.as_ref().or(provider.dialect.as_ref());
    let facts = match (base, catalogue.provider(name)) {
        (Some(base), _) => catalogue.provider(&base.value).unwrap_or_default(),
        (None, Some(facts)) => {
            if facts.name != *name {
                let message = format!("`{name}` is another name of `{}`", facts.name);
                problems.add(Problem::at(provider.pos, &path, message).help(format!("write `{}`", facts.name)));
            }
            facts
        }
        (None, None) => {
            problems.add(unknown_provider(name, provider, &path, catalogue));
            return;
        }
    };
    // A dialect brings no tiers.
    let has_tiers = provider.extends.is_some() || provider.dialect.is_none();
    let tiers: Vec<&str> = if has_tiers { facts.tiers.keys().map(String::as_str).collect() } else { Vec::new() };
    check_block(&provider.block, &facts, &tiers, &path, problems);
    for (account, found) in &provider.accounts {
        check_block(&found.block, &facts, &tiers, &join(&join(&path, "accounts"), account), problems);
    }
}

fn unknown_provider(name: &str, provider: &Provider, path: &str, catalogue: &dyn Catalogue) -> Problem {
    let known = catalogue.names();
    let problem = Problem::at(provider.pos, path, format!("`{name}` is not in the catalogue"));
    match suggest(name, known.iter().map(String::as_str)) {
        Some(meant) => problem.help(format!("did you mean `{meant}`? A provider of your own says `extends:` or `dialect:`")),
        None => problem
            .help("a provider of your own says `extends: NAME` or `dialect: NAME`; `dialect: generic` reads the usual headers"),
    }
}

fn check_base(base: &Written<String>, path: &str, catalogue: &dyn Catalogue, problems: &mut Problems) {
    if catalogue.provider(&base.value).is_some() {
        return;
    }
    let known = catalogue.names();
    let problem = Problem::at(base.pos, path, format!("`{}` is not in the catalogue", base.value));
    problems.add(match suggest(&base.value, known.iter().map(String::as_str)) {
        Some(meant) => problem.help(format!("did you mean `{meant}`?")),
        None => problem.help(format!("the catalogue has: {}", known.join(", "))),
    });
}

fn check_block(block: &Block, facts: &ProviderFacts, tiers: &[&str], path: &str, problems: &mut Problems) {
    check_level(&block.settings, &block.limits, facts, tiers, path, problems);
    for (key, group) in &block.models {
        check_level(&group.settings, &group.limits, facts, tiers, &join(&join(path, "models"), key), problems);
    }
    for (name, shared) in &block.shared {
        check_level(&shared.settings, &shared.limits, facts, tiers, &join(&join(path, "shared"), name), problems);
    }
}

fn check_level(
    settings: &Settings,
    limits: &[Limit],
    facts: &ProviderFacts,
    tiers: &[&str],
    path: &str,
    problems: &mut Problems,
) {
    if let Some(tier) = &settings.tier {
        check_tier(tier, tiers, &join(path, "tier"), problems);
    }
    let mut seen = BTreeSet::new();
    for limit in limits {
        if seen.insert(&limit.meter) {
            check_meter(limit, facts, &join(path, "limits"), problems);
        }
    }
}

fn check_tier(tier: &Written<String>, tiers: &[&str], path: &str, problems: &mut Problems) {
    if tiers.contains(&tier.value.as_str()) {
        return;
    }
    let problem = Problem::at(tier.pos, path, format!("the catalogue has no tier `{}` of this provider", tier.value));
    problems.add(match tiers {
        [] => problem.help("it knows no tiers here: write `limits`, or nothing to have them learned"),
        _ => problem.help(format!("it has: {}", tiers.join(", "))),
    });
}

/// A meter of one's own is fine; one that is a slip of the pen away from a known one would never be charged.
fn check_meter(limit: &Limit, facts: &ProviderFacts, path: &str, problems: &mut Problems) {
    let known: BTreeSet<&str> = facts.meters.iter().map(|fact| &*fact.meter).chain(COMMON_METERS).collect();
    if known.contains(&*limit.meter) {
        return;
    }
    if let Some(meant) = suggest(&limit.meter, known) {
        let message = format!("no call is charged in `{}`", limit.meter);
        problems.add(Problem::at(limit.pos, path, message).help(format!("did you mean `{meant}`?")));
    }
}
