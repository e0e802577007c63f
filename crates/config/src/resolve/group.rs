//! The group a model belongs to, and what each layer has to say about it.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::explain::Origin;
use crate::facts::{AliasFacts, GroupFacts, ProviderFacts};
use crate::glob::{Glob, Rank};
use crate::identify::Identity;
use crate::model::{Group, Settings};
use crate::resolve::{account_chain, nearest};

/// A model's group, and the group of each layer that covers it.
pub(super) struct Layers<'a> {
    /// The group's key.
    pub(super) key: Arc<str>,
    /// Whether the key is a model under a pattern that gives each model its own buckets.
    pub(super) is_each: bool,
    /// Which layer decided.
    pub(super) origin: Origin,
    /// The account's group.
    pub(super) account: Option<&'a Group>,
    /// The provider's group in the file.
    pub(super) provider: Option<&'a Group>,
    /// The catalogue's groups with published limits, the tier's first.
    pub(super) published: Vec<Published>,
}

/// A catalogue's group.
#[derive(Clone)]
pub(super) struct Published {
    pub(super) tier: Option<String>,
    pub(super) group: GroupFacts,
}

/// What the group stands for: everything its pattern matches, or one model.
struct Subject {
    key: Arc<str>,
    glob: Glob,
    is_each: bool,
    origin: Origin,
}

impl<'a> Layers<'a> {
    /// Finds the group of a model and what covers it.
    pub(super) fn choose(identity: &Identity<'a>, model: &str) -> Self {
        let account_groups = identity.account_in_file.map(|account| &account.block.models);
        let provider_groups = identity.in_file.map(|provider| &provider.block.models);
        // Another name of a model means that model, unless the file speaks of the other name itself.
        let alias = alias_of(&identity.facts, &Glob::literal(model));
        let names = std::iter::once(model).chain(alias.map(|alias| alias.model.as_str()));
        let chosen = names.clone().find_map(|name| {
            let by_account = account_groups.and_then(|groups| by_name(groups, name)).map(|found| ("account", found));
            by_account.or_else(|| provider_groups.and_then(|groups| by_name(groups, name)).map(|found| ("provider", found)))
        });
        let subject = match chosen {
            Some((level, (key, group))) => Subject::of_file(level, key, group, model),
            None => Subject::of_catalogue(identity, &account_chain(identity), alias, model),
        };
        let is_accounts = matches!(chosen, Some(("account", _)));
        let account = chosen.filter(|_| is_accounts).map(|(_, (_, group))| group);
        let provider = provider_groups.and_then(|groups| covering(groups, &subject.glob)).map(|(_, group)| group);
        let mut layers = Self {
            key: subject.key,
            is_each: subject.is_each,
            origin: subject.origin,
            account,
            provider,
            published: Vec::new(),
        };
        layers.published = published(&identity.facts, layers.tier(identity).as_deref(), &subject.glob);
        layers
    }

    /// The levels of settings that apply to the group's own buckets and promises, nearest first.
    pub(super) fn chain(&self, identity: &Identity<'a>) -> Vec<(&'a Settings, &'static str)> {
        let group = |group: Option<&'a Group>, level| group.map(|group| (&group.settings, level));
        let (account, provider): (Vec<_>, Vec<_>) =
            account_chain(identity).into_iter().partition(|(_, level)| *level == "account");
        let mut chain: Vec<_> = group(self.account, "group").into_iter().collect();
        chain.extend(account);
        chain.extend(group(self.provider, "provider's group"));
        chain.extend(provider);
        chain
    }

    /// The tier whose published limits apply.
    pub(super) fn tier(&self, identity: &Identity<'a>) -> Option<String> {
        nearest(&self.chain(identity), |settings| settings.tier.clone()).map(|(tier, _)| tier.value)
    }
}

impl Subject {
    fn of_file(level: &'static str, key: &str, group: &Group, model: &str) -> Self {
        let origin = Origin::File { level, pattern: Some(key.to_owned()), pos: group.pos };
        match group.each {
            true => Self { key: Arc::from(model), glob: Glob::literal(model), is_each: true, origin },
            false => Self { key: Arc::from(key), glob: group.glob.clone(), is_each: false, origin },
        }
    }

    fn of_catalogue(
        identity: &Identity<'_>,
        chain: &[(&Settings, &'static str)],
        alias: Option<&AliasFacts>,
        model: &str,
    ) -> Self {
        let tier = nearest(chain, |settings| settings.tier.clone()).map(|(tier, _)| tier.value);
        let catalogue = |tier, pattern: &str| Origin::Catalogue {
            provider: identity.facts.name.clone(),
            tier,
            pattern: Some(pattern.to_owned()),
        };
        if let Some(found) = published(&identity.facts, tier.as_deref(), &Glob::literal(model)).into_iter().next() {
            let pattern = found.group.pattern;
            let glob = Glob::parse(&pattern).unwrap_or_else(|_| Glob::literal(&pattern));
            return Self { key: Arc::from(&*pattern), glob, is_each: false, origin: catalogue(found.tier, &pattern) };
        }
        match alias {
            Some(alias) => {
                let origin = catalogue(None, &alias.model);
                Self { key: Arc::from(&*alias.model), glob: Glob::literal(&alias.model), is_each: false, origin }
            }
            None => Self { key: Arc::from(model), glob: Glob::literal(model), is_each: true, origin: Origin::Implied },
        }
    }
}

/// The most specific group that matches a model. A model that is called exactly as a group is written belongs to it, so that
/// no two groups ever have one key.
fn by_name<'a>(groups: &'a BTreeMap<String, Group>, model: &str) -> Option<(&'a str, &'a Group)> {
    let exact = groups.get_key_value(model).map(|(key, group)| (key.as_str(), group));
    exact.or_else(|| covering(groups, &Glob::literal(model)))
}

/// The most specific group that covers everything the subject stands for; ties were refused when the file was read.
fn covering<'a>(groups: &'a BTreeMap<String, Group>, subject: &Glob) -> Option<(&'a str, &'a Group)> {
    let ranked = groups.iter().filter_map(|(key, group)| group.glob.covers(subject).map(|rank| (rank, key, group)));
    ranked.max_by(|a, b| (a.0, b.1).cmp(&(b.0, a.1))).map(|(_, key, group)| (key.as_str(), group))
}

/// The catalogue's groups for a subject: the tier's most specific one, then that for everybody.
fn published(facts: &ProviderFacts, tier: Option<&str>, subject: &Glob) -> Vec<Published> {
    let alias = alias_of(facts, subject).map(|alias| Glob::literal(&alias.model));
    let of_tier = tier.and_then(|tier| facts.tiers.get(tier).map(|groups| (Some(tier.to_owned()), groups)));
    let layers = of_tier.into_iter().chain([(None, &facts.groups)]);
    let best = |groups: &[GroupFacts], subject: &Glob| {
        let ranked = groups.iter().filter_map(|group| rank(&group.pattern, subject).map(|rank| (rank, group)));
        ranked.max_by(|a, b| (a.0, &b.1.pattern).cmp(&(b.0, &a.1.pattern))).map(|(_, group)| group.clone())
    };
    layers
        .filter_map(|(tier, groups)| {
            let group = best(groups, subject).or_else(|| alias.as_ref().and_then(|alias| best(groups, alias)))?;
            Some(Published { tier, group })
        })
        .collect()
}

/// The catalogue's word that everything the subject stands for is another name of one model.
fn alias_of<'f>(facts: &'f ProviderFacts, subject: &Glob) -> Option<&'f AliasFacts> {
    let covered = facts.aliases.iter().filter_map(|alias| {
        let names = alias.names.iter().chain([&alias.model]).filter_map(|name| rank(name, subject));
        names.max().map(|rank| (rank, alias))
    });
    covered.max_by(|a, b| (a.0, &b.1.model).cmp(&(b.0, &a.1.model))).map(|(_, alias)| alias)
}

fn rank(pattern: &str, subject: &Glob) -> Option<Rank> {
    Glob::parse(pattern).ok()?.covers(subject)
}
