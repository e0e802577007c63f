//! `providers:`: accounts, groups of models, shared buckets.

use std::collections::BTreeMap;

use super::check_name;
use super::limits::limits;
use super::scalars::{flag, names, text, word};
use super::settings::{bucket_settings, settings};
use crate::fields::{Fields, named};
use crate::glob::Glob;
use crate::model::{Account, Block, Group, Provider, Shared};
use crate::problem::{Pos, Problem, Problems, join, suggest};
use crate::redact;
use crate::tree::{Entry, Node};

/// The most groups one account or provider may name.
const MOST_GROUPS: usize = 1_000;

/// `providers:` at the top of the file.
pub(super) fn providers(node: &Node, problems: &mut Problems) -> BTreeMap<String, Provider> {
    let mut out = BTreeMap::new();
    for entry in named(node, "providers", "providers: {openai: {accounts: {prod: {tier: 4}}}}", problems) {
        if check_name(&entry.key, "a provider", entry.key_pos, "providers", problems)
            && let Some(provider) = provider(entry, problems)
        {
            out.insert(entry.key.clone(), provider);
        }
    }
    out
}

fn provider(entry: &Entry, problems: &mut Problems) -> Option<Provider> {
    let path = join("providers", &entry.key);
    let mut fields = Fields::open(&entry.node, &path, "accounts, models, limits or settings below the name", problems)?;
    let catalogue = "the name of a provider in the catalogue";
    let mut out = Provider { pos: entry.key_pos, ..Provider::default() };
    if let Some(entry) = fields.take("extends") {
        out.extends = text(&entry.node, &fields.join("extends"), catalogue, problems);
    }
    if let Some(entry) = fields.take("dialect") {
        out.dialect = text(&entry.node, &fields.join("dialect"), catalogue, problems);
    }
    if let Some(entry) = fields.take("unknown_accounts") {
        let words = [("allow", true), ("deny", false)];
        out.unknown_accounts = word(&entry.node, &fields.join("unknown_accounts"), &words, problems).unwrap_or(false);
    }
    if let Some(entry) = fields.take("accounts") {
        out.accounts = accounts(&entry.node, &fields.join("accounts"), problems);
    }
    out.block = block(&mut fields, problems);
    fields.close(problems);
    check_uses_of_accounts(&out, &path, problems);
    Some(out)
}

fn accounts(node: &Node, path: &str, problems: &mut Problems) -> BTreeMap<String, Account> {
    let mut out = BTreeMap::new();
    for entry in named(node, path, "accounts: {prod: {tier: 4}}", problems) {
        if check_account_name(&entry.key, entry.key_pos, path, problems)
            && let Some(account) = account(entry, path, problems)
        {
            out.insert(entry.key.clone(), account);
        }
    }
    check_aliases(&out, path, problems);
    out
}

fn check_account_name(name: &str, pos: Pos, path: &str, problems: &mut Problems) -> bool {
    if redact::looks_like_a_key(name) {
        let message = "this account's name looks like a secret key";
        let help = "an account is an alias of the key, never the key itself: call it prod or team-a, and replace the key";
        problems.add(Problem::at(pos, path, message).help(help));
        return false;
    }
    if name == "*" {
        let message = "an account's name is not a pattern";
        let help = "put what holds for every account beside `accounts`, and write `unknown_accounts: allow`";
        problems.add(Problem::at(pos, path, message).help(help));
        return false;
    }
    check_name(name, "an account", pos, path, problems)
}

fn account(entry: &Entry, path: &str, problems: &mut Problems) -> Option<Account> {
    let path = join(path, &entry.key);
    let mut fields = Fields::open(&entry.node, &path, "tier, limits, models or settings below the name", problems)?;
    let mut out = Account { pos: entry.key_pos, ..Account::default() };
    if let Some(entry) = fields.take("aliases") {
        let path = fields.join("aliases");
        for (name, node) in names(&entry.node, &path, "a name", problems) {
            if check_account_name(&name, node.pos, &path, problems) {
                out.aliases.insert(name, node.pos);
            }
        }
    }
    out.block = block(&mut fields, problems);
    fields.close(problems);
    Some(out)
}

/// A name belongs to one account only.
fn check_aliases(accounts: &BTreeMap<String, Account>, path: &str, problems: &mut Problems) {
    let mut owners: BTreeMap<&str, &str> = accounts.keys().map(|name| (name.as_str(), name.as_str())).collect();
    let mut aliases: Vec<(&Pos, &str, &str)> = accounts
        .iter()
        .flat_map(|(name, account)| account.aliases.iter().map(|(alias, pos)| (pos, alias.as_str(), name.as_str())))
        .collect();
    aliases.sort_unstable();
    for (pos, alias, account) in aliases {
        let message = match owners.get(alias) {
            Some(owner) if *owner == alias => format!("the alias `{alias}` of `{account}` is an account itself"),
            Some(owner) => format!("the alias `{alias}` of `{account}` already belongs to `{owner}`"),
            None => {
                owners.insert(alias, account);
                continue;
            }
        };
        problems.add(Problem::at(*pos, path, message).help("a name belongs to one account; remove one of the two"));
    }
}

/// What may stand in a provider as well as in an account.
fn block(fields: &mut Fields<'_>, problems: &mut Problems) -> Block {
    let mut out = Block { settings: settings(fields, problems), limits: limits(fields, problems), ..Block::default() };
    if let Some(entry) = fields.take("shared") {
        out.shared = shared(&entry.node, &fields.join("shared"), problems);
    }
    if let Some(entry) = fields.take("models") {
        out.models = models(&entry.node, &fields.join("models"), problems);
    }
    out
}

fn shared(node: &Node, path: &str, problems: &mut Problems) -> BTreeMap<String, Shared> {
    let mut out = BTreeMap::new();
    for entry in named(node, path, "shared: {embeddings: {limits: {tokens: 1M/min}}}", problems) {
        if !check_name(&entry.key, "a shared bucket", entry.key_pos, path, problems) {
            continue;
        }
        let path = join(path, &entry.key);
        let Some(mut fields) = Fields::open(&entry.node, &path, "{limits: {tokens: 1M/min}}", problems) else { continue };
        let shared = Shared {
            pos: entry.key_pos,
            settings: bucket_settings(&mut fields, problems),
            limits: limits(&mut fields, problems),
        };
        fields.close(problems);
        if shared.limits.is_empty() {
            let message = format!("the shared bucket `{}` has no limits", entry.key);
            problems.add(Problem::at(entry.key_pos, &path, message).help("write limits: {tokens: 1M/min} below it"));
        }
        out.insert(entry.key.clone(), shared);
    }
    out
}

fn models(node: &Node, path: &str, problems: &mut Problems) -> BTreeMap<String, Group> {
    let mut out: BTreeMap<String, Group> = BTreeMap::new();
    let entries = named(node, path, "models: {\"gpt-4o*\": {limits: {requests: 500/min}}}", problems);
    if let Some(entry) = entries.get(MOST_GROUPS) {
        let message = format!("more than {MOST_GROUPS} groups");
        problems.add(Problem::at(entry.key_pos, path, message).help("use patterns with `each: true`"));
        return out;
    }
    for entry in entries {
        match Glob::parse(&entry.key) {
            Err(why) => {
                let message = format!("`{}` is not a pattern: {why}", redact::name(&entry.key));
                problems.add(Problem::at(entry.key_pos, path, message));
            }
            Ok(_) if !check_name(&entry.key, "a group", entry.key_pos, path, problems) => {}
            Ok(glob) => {
                let Some(group) = group(entry, glob, path, problems) else { continue };
                check_ties(&entry.key, &group, &out, path, problems);
                out.insert(entry.key.clone(), group);
            }
        }
    }
    out
}

fn group(entry: &Entry, glob: Glob, path: &str, problems: &mut Problems) -> Option<Group> {
    let path = join(path, &entry.key);
    let mut fields = Fields::open(&entry.node, &path, "{limits: {requests: 500/min}}", problems)?;
    let each = fields.take("each").and_then(|entry| flag(&entry.node, &fields.join("each"), problems));
    let uses =
        fields.take("uses").map(|entry| names(&entry.node, &fields.join("uses"), "the name of a shared bucket", problems));
    let group = Group {
        pos: entry.key_pos,
        glob,
        each: each.is_some_and(|each| each.value),
        uses: uses.into_iter().flatten().map(|(name, node)| (name, node.pos)).collect(),
        settings: settings(&mut fields, problems),
        limits: limits(&mut fields, problems),
    };
    fields.close(problems);
    Some(group)
}

/// Two groups that are equally specific for one and the same model: which one wins would depend on the file's order.
fn check_ties(key: &str, group: &Group, earlier: &BTreeMap<String, Group>, path: &str, problems: &mut Problems) {
    for (other, theirs) in earlier {
        if let Some(model) = group.glob.tie(&theirs.glob) {
            let (first, second) = if other < &key.to_owned() { (other.as_str(), key) } else { (key, other.as_str()) };
            let message = format!("`{first}` and `{second}` are equally specific: both match `{}`", model.escape_debug());
            let help = format!("the other one is in line {}; add literal text to one of them", theirs.pos.line);
            problems.add(Problem::at(group.pos, path, message).help(help));
        }
    }
}

/// Every name in `uses` is a shared bucket of the account or of its provider.
fn check_uses_of_accounts(provider: &Provider, path: &str, problems: &mut Problems) {
    check_uses(&provider.block, &[&provider.block.shared], path, problems);
    for (name, account) in &provider.accounts {
        let path = join(&join(path, "accounts"), name);
        check_uses(&account.block, &[&account.block.shared, &provider.block.shared], &path, problems);
    }
}

fn check_uses(block: &Block, shared: &[&BTreeMap<String, Shared>], path: &str, problems: &mut Problems) {
    for (key, group) in &block.models {
        for (name, pos) in &group.uses {
            if shared.iter().any(|known| known.contains_key(name)) {
                continue;
            }
            let path = join(&join(&join(path, "models"), key), "uses");
            let problem = Problem::at(*pos, &path, format!("there is no shared bucket `{name}`"));
            let known = shared.iter().flat_map(|known| known.keys().map(String::as_str));
            problems.add(match suggest(name, known) {
                Some(meant) => problem.help(format!("did you mean `{meant}`?")),
                None => problem.help(format!("write shared: {{{name}: {{limits: {{tokens: 1M/min}}}}}} beside `models`")),
            });
        }
    }
}
