//! The buckets of a group, each with where it comes from.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use paceline_core::calendar::{Calendar, CalendarUnit, Zone};
use paceline_core::plan::{BucketId, BucketPlan, OurPart, Owner, Refill};
use paceline_core::units::Span;

use super::group::{Layers, Published};
use super::{account_chain, nearest};
use crate::explain::{BucketOrigin, Origin};
use crate::facts::{MeterFacts, ProviderFacts};
use crate::identify::Identity;
use crate::model::{Block, CONCURRENCY, Group, Limit, Settings, Written};
use crate::quantity::{Share, window_suffix};
use crate::read::limits::DAY;

type Chain<'a> = Vec<(&'a Settings, &'static str)>;

/// A bucket before it has a name.
struct Draft<'a> {
    owner: Owner,
    meter: Arc<str>,
    limit: Option<Limit>,
    /// What the catalogue says of it.
    fact: Option<MeterFacts>,
    /// Where the provider's days end.
    zone: Option<Zone>,
    /// Whether nobody wrote it: a published limit, or none at all.
    is_guess: bool,
    chain: Chain<'a>,
    origin: Origin,
}

/// Every bucket that a call of the group is charged in, sorted; the origin of each; and what a reader should know.
pub(super) fn buckets<'a>(identity: &Identity<'a>, layers: &Layers<'a>) -> (Vec<BucketPlan>, Vec<BucketOrigin>, Vec<String>) {
    let mut drafts = Drafts { identity, layers, found: Vec::new(), named: BTreeSet::new() };
    drafts.of_group(layers.account, "account");
    drafts.of_group(layers.provider, "provider");
    for published in &layers.published {
        drafts.of_catalogue(published);
    }
    let account_wide = drafts.account_wide();
    drafts.learned(&account_wide);
    finish(drafts.found)
}

struct Drafts<'a, 'l> {
    identity: &'l Identity<'a>,
    layers: &'l Layers<'a>,
    found: Vec<Draft<'a>>,
    /// Meters that a nearer layer named for the group.
    named: BTreeSet<Arc<str>>,
}

impl<'a> Drafts<'a, '_> {
    /// The group's own limits and the shared buckets it uses, of one layer of the file.
    fn of_group(&mut self, group: Option<&'a Group>, level: &'static str) {
        let Some(group) = group else { return };
        let mut here = BTreeSet::new();
        for limit in &group.limits {
            if self.named.contains(&limit.meter) {
                continue;
            }
            here.insert(limit.meter.clone());
            let owner = Owner::Group(self.layers.key.clone());
            self.write(owner, limit, self.layers.chain(self.identity), Origin::File { level, pattern: None, pos: limit.pos });
        }
        for name in group.uses.keys() {
            let Some(shared) = self.blocks().into_iter().find_map(|(block, _)| block.shared.get(name)) else { continue };
            let mut chain: Chain<'a> = vec![(&shared.settings, "shared")];
            chain.extend(account_chain(self.identity));
            for limit in &shared.limits {
                if self.named.contains(&limit.meter) {
                    continue;
                }
                here.insert(limit.meter.clone());
                let owner = Owner::Shared(Arc::from(name.as_str()));
                self.write(owner, limit, chain.clone(), Origin::File { level, pattern: None, pos: limit.pos });
            }
        }
        self.named.extend(here);
    }

    /// Published limits of the catalogue: a guess.
    fn of_catalogue(&mut self, published: &Published) {
        let mut here = BTreeSet::new();
        for limit in &published.group.limits {
            if self.named.contains(&limit.meter) {
                continue;
            }
            here.insert(limit.meter.clone());
            let fact = self.identity.facts.meters.iter().find(|fact| fact.meter == limit.meter).cloned();
            self.found.push(Draft {
                owner: Owner::Group(self.layers.key.clone()),
                meter: limit.meter.clone(),
                limit: Some(Limit {
                    meter: limit.meter.clone(),
                    pos: Default::default(),
                    limit: limit.limit,
                    per: limit.per,
                    unit: None,
                    zone: None,
                    capacity: None,
                    burst: None,
                    refill: fact.as_ref().and_then(|fact| fact.refill),
                }),
                fact,
                zone: zone_of(&self.identity.facts, &limit.meter),
                is_guess: true,
                chain: self.layers.chain(self.identity),
                origin: Origin::Catalogue {
                    provider: self.identity.facts.name.clone(),
                    tier: published.tier.clone(),
                    pattern: Some(published.group.pattern.clone()),
                },
            });
        }
        self.named.extend(here);
    }

    /// Account-wide limits: in addition to the group's. Returns the meters they name.
    fn account_wide(&mut self) -> BTreeSet<Arc<str>> {
        let mut named: BTreeSet<Arc<str>> = BTreeSet::new();
        for (block, level) in self.blocks() {
            let here: Vec<&'a Limit> = block.limits.iter().filter(|limit| !named.contains(&limit.meter)).collect();
            for limit in &here {
                let origin = Origin::File { level, pattern: None, pos: limit.pos };
                self.write(Owner::Account, limit, account_chain(self.identity), origin);
            }
            named.extend(here.iter().map(|limit| limit.meter.clone()));
        }
        named
    }

    /// What the provider meters and nobody named: learned from its answers.
    fn learned(&mut self, account_wide: &BTreeSet<Arc<str>>) {
        for fact in &self.identity.facts.meters {
            if self.named.contains(&fact.meter) || (fact.account_wide && account_wide.contains(&fact.meter)) {
                continue;
            }
            let (owner, chain) = match fact.account_wide {
                true => (Owner::Account, account_chain(self.identity)),
                false => (Owner::Group(self.layers.key.clone()), self.layers.chain(self.identity)),
            };
            self.found.push(Draft {
                owner,
                meter: fact.meter.clone(),
                limit: None,
                fact: Some(fact.clone()),
                zone: zone_of(&self.identity.facts, &fact.meter),
                is_guess: true,
                chain,
                origin: Origin::Learned { provider: self.identity.facts.name.clone() },
            });
        }
    }

    fn write(&mut self, owner: Owner, limit: &Limit, chain: Chain<'a>, origin: Origin) {
        let fact = fact_for(&self.identity.facts, limit);
        self.found.push(Draft {
            owner,
            meter: limit.meter.clone(),
            limit: Some(limit.clone()),
            fact,
            zone: zone_of(&self.identity.facts, &limit.meter),
            is_guess: false,
            chain,
            origin,
        });
    }

    /// The account's part of the file, then the provider's.
    fn blocks(&self) -> Vec<(&'a Block, &'static str)> {
        let account = self.identity.account_in_file.map(|account| (&account.block, "account"));
        account.into_iter().chain(self.identity.in_file.map(|provider| (&provider.block, "provider"))).collect()
    }
}

/// What the catalogue says of a written limit: of that window, else of the meter whatever the window. Of windows of a day and
/// longer only the former counts: a meter that refills evenly within the minute need not do so within the day.
fn fact_for(facts: &ProviderFacts, limit: &Limit) -> Option<MeterFacts> {
    let of_meter = || facts.meters.iter().filter(|fact| fact.meter == limit.meter);
    let same = of_meter().find(|fact| fact.per.is_some() && fact.per == limit.per);
    let any = || of_meter().find(|fact| fact.per.is_none()).filter(|_| limit.per.is_none_or(|per| per < DAY));
    same.or_else(any).cloned()
}

fn finish(drafts: Vec<Draft<'_>>) -> (Vec<BucketPlan>, Vec<BucketOrigin>, Vec<String>) {
    let mut counts: BTreeMap<(Owner, Arc<str>), usize> = BTreeMap::new();
    for draft in &drafts {
        *counts.entry((draft.owner.clone(), draft.meter.clone())).or_default() += 1;
    }
    let mut notes = BTreeSet::new();
    let mut done: Vec<(BucketPlan, BucketOrigin)> = Vec::with_capacity(drafts.len());
    for draft in drafts {
        let is_only_one = counts.get(&(draft.owner.clone(), draft.meter.clone())).is_none_or(|count| *count == 1);
        let origin = draft.origin.clone();
        let (plan, note) = plan(draft, is_only_one);
        notes.extend(note);
        done.push((plan.clone(), BucketOrigin { bucket: plan.id.label(), origin }));
    }
    done.sort_by(|a, b| a.0.id.cmp(&b.0.id));
    let (plans, origins) = done.into_iter().unzip();
    (plans, origins, notes.into_iter().collect())
}

fn plan(draft: Draft<'_>, is_only_one: bool) -> (BucketPlan, Option<String>) {
    let part = |of: fn(&Settings) -> Option<Written<Share>>, default: Share| {
        nearest(&draft.chain, of).map_or(default, |(share, _)| share.value).portion()
    };
    let ours = OurPart {
        least: part(|settings| settings.own_share, Share::NONE),
        most: part(|settings| settings.use_share, Share::WHOLE),
    };
    let wanted = nearest(&draft.chain, |settings| settings.learn_above).map(|(learn, _)| learn.value);
    let start = nearest(&draft.chain, |settings| settings.start_level).map(|(start, _)| start.value);
    let (limit, fact) = (draft.limit.as_ref(), draft.fact.as_ref());
    let per = limit.map_or_else(|| fact.and_then(|fact| fact.per), |limit| limit.per);
    let refill = refill(&draft.meter, limit, per, fact);
    let id = BucketId { owner: draft.owner, name: Arc::from(bucket_name(&draft.meter, per, refill, is_only_one)) };
    let note = (ours.least > ours.most).then(|| {
        let (least, most) = (Share::of_portion(ours.least), Share::of_portion(ours.most));
        format!("`share: {least}` of {} is more than `use: {most}` lets us take: {most} it is", id.label())
    });
    let plan = BucketPlan {
        id,
        limit: limit.map(|limit| limit.limit),
        per,
        capacity: limit.and_then(|limit| limit.capacity),
        burst: limit.and_then(|limit| limit.burst),
        refill,
        calendar: calendar(limit.filter(|_| !draft.is_guess), per, refill, draft.zone),
        start: start.unwrap_or_default(),
        learn_above: wanted.unwrap_or(draft.is_guess),
        ours,
        meter: draft.meter,
    };
    (plan, note)
}

/// As written; else as the catalogue says; else all at once for a day and longer; else unknown.
fn refill(meter: &str, limit: Option<&Limit>, per: Option<Span>, fact: Option<&MeterFacts>) -> Option<Refill> {
    if meter == CONCURRENCY {
        return Some(Refill::Held);
    }
    let written = limit.and_then(|limit| limit.refill);
    let known = fact.and_then(|fact| fact.refill);
    written.or(known).or_else(|| (limit.is_some() && per.is_some_and(|per| per >= DAY)).then_some(Refill::Window))
}

/// With which days, weeks or months the windows end. One that a person wrote is a calendar's, in the zone they wrote, else where the
/// provider's end, else UTC; one of the catalogue only where the provider says where its days end.
fn calendar(written: Option<&Limit>, per: Option<Span>, refill: Option<Refill>, of_provider: Option<Zone>) -> Option<Calendar> {
    if refill != Some(Refill::Window) {
        return None;
    }
    match (written, of_provider) {
        (Some(limit), of_provider) => {
            let zone = limit.zone.clone().or(of_provider).unwrap_or_else(Zone::utc);
            limit.unit.map(|unit| Calendar { unit, zone })
        }
        (None, zone) => per.and_then(CalendarUnit::of_length).zip(zone).map(|(unit, zone)| Calendar { unit, zone }),
    }
}

/// Where the provider's days end: as its catalogue says of the meter, else of any other.
fn zone_of(facts: &ProviderFacts, meter: &str) -> Option<Zone> {
    let with_zone = || facts.meters.iter().filter(|fact| fact.zone.is_some());
    with_zone().find(|fact| &*fact.meter == meter).or_else(|| with_zone().next()).and_then(|fact| fact.zone.clone())
}

/// A bucket's name: its meter, with the window for any but the minute or the only one of the meter.
fn bucket_name(meter: &str, per: Option<Span>, refill: Option<Refill>, is_only_one: bool) -> String {
    match per {
        None if !is_only_one && refill == Some(Refill::Held) => format!("{meter}_held"),
        Some(per) if !is_only_one && per != Span::from_secs(60) => format!("{meter}{}", window_suffix(per)),
        _ => meter.to_owned(),
    }
}
