//! One provider, ready to read with: its facts and the names compiled from them.

use paceline_core::plan::Refill;
use paceline_core::signal::{ObservedOwner, ResetMeans};
use paceline_core::units::Span;

use super::bucket::Bucket;
use super::facts::{AnswerFact, BucketFact, Charge, FamilyFact, ProviderFacts, Repeat};
use super::limit::Limit;
use super::names::{Lookup, NameIndex, Pattern, Piece, Stored, pieces};
use super::probe_facts::{self, Probe};
use super::provenance::Provenance;
use super::{Catalogue, CatalogueError};

/// What is known of a provider.
#[derive(Clone, Debug)]
pub struct Provider {
    name: String,
    facts: ProviderFacts,
    names: NameIndex,
    /// The rules about answers that a success without a gRPC status may fit, which is nearly every answer.
    for_success: Vec<usize>,
}

/// How a provider counts one meter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meter<'p> {
    /// The meter: `requests`, `tokens`, ...
    pub name: &'p str,
    /// How its bucket refills; `None`: not known.
    pub refill: Option<Refill>,
    /// The window of its limit; `None`: not known, or several under one name.
    pub window: Option<Span>,
    /// Where its day or month ends (IANA name), when the provider says.
    pub zone: Option<&'p str>,
    /// What a reset field of it means.
    pub reset_means: ResetMeans,
    /// Whose the bucket is.
    pub owner: ObservedOwner,
    /// When a call's units are taken; `None`: not known.
    pub charge: Option<Charge>,
    /// Figures are rounded to multiples of this; `None`: exact, as far as anybody knows.
    pub step: Option<u64>,
    /// What else there is to know of it.
    pub note: Option<&'p str>,
}

/// Published limits of a set of models.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelLimits<'p> {
    /// A glob over model names: matching models share the buckets.
    pub pattern: &'p str,
    /// Limits by meter.
    pub limits: Vec<(&'p str, Limit)>,
}

impl Provider {
    /// Reads a provider's file. `name` is what the configuration calls it; the file may extend one of the catalogue and extends
    /// `generic` when it does not say.
    ///
    /// # Errors
    /// The file is no valid YAML, has an unknown key or value, or extends a provider that the catalogue does not have.
    pub fn parse(yaml: &str, name: &str, catalogue: &Catalogue) -> Result<Self, CatalogueError> {
        let facts = parse_facts(yaml, name)?;
        let base_name = facts.extends.clone().unwrap_or_else(|| super::GENERIC.to_owned());
        let base = catalogue
            .get(&base_name)
            .ok_or_else(|| CatalogueError::UnknownBase { name: name.to_owned(), base: base_name.clone() })?;
        let mut merged = facts.over(&base.facts);
        if super::is_same_name(&base.name, name) {
            let before = base.facts.probe.as_ref();
            merged.probe = merged.probe.map(|probe| before.map_or(probe.clone(), |before| probe.of_same(before)));
        }
        merged.extends = Some(base.name.clone());
        Self::compile(name, merged)
    }

    /// What the configuration calls it, lower case for built-in ones.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How people call it.
    pub fn title(&self) -> &str {
        self.facts.title.as_deref().unwrap_or(&self.name)
    }

    /// Counts up with every change of what its file says; `None` when the file does not say.
    pub fn version(&self) -> Option<u32> {
        self.facts.version
    }

    /// The provider whose file this one started from.
    pub fn extends(&self) -> Option<&str> {
        self.facts.extends.as_deref()
    }

    /// More names of the same provider.
    pub fn also_called(&self) -> &[String] {
        &self.facts.also_called
    }

    /// What it counts, by name. Only these meters and configured ones have buckets.
    pub fn meters(&self) -> impl Iterator<Item = Meter<'_>> {
        self.facts.meters.iter().map(|(name, fact)| Meter {
            name,
            refill: fact.refill,
            window: fact.window.map(|window| window.span()),
            zone: fact.zone.as_deref(),
            reset_means: fact.reset_means.unwrap_or_default(),
            owner: fact.owner.unwrap_or_default(),
            charge: fact.charge,
            step: fact.step,
            note: fact.note.as_deref(),
        })
    }

    /// The least backoff after a refusal that says nothing usable; zero when the provider demands none.
    pub fn min_backoff(&self) -> Span {
        self.facts.min_backoff.as_ref().map_or(Span::ZERO, |fact| fact.at_least.span())
    }

    /// The names of the tiers whose limits are published.
    pub fn tiers(&self) -> impl Iterator<Item = &str> {
        self.facts.tiers.keys().map(String::as_str)
    }

    /// The published limits of a tier; `None` when the catalogue does not have that tier.
    pub fn tier(&self, tier: &str) -> Option<Vec<ModelLimits<'_>>> {
        let fact = self.facts.tiers.get(tier)?;
        let by_model = fact.models.iter().map(|(pattern, limits)| ModelLimits {
            pattern,
            limits: limits.iter().map(|(meter, limit)| (meter.as_str(), *limit)).collect(),
        });
        Some(by_model.collect())
    }

    /// Limits that hold for everybody.
    pub fn models(&self) -> impl Iterator<Item = ModelLimits<'_>> {
        self.facts.models.iter().map(|(pattern, fact)| ModelLimits {
            pattern,
            limits: fact.limits.iter().map(|(meter, limit)| (meter.as_str(), *limit)).collect(),
        })
    }

    /// Models and the patterns of other names that share their buckets.
    pub fn aliases(&self) -> impl Iterator<Item = (&str, &[String])> {
        self.facts.aliases.iter().map(|fact| (fact.model.as_str(), fact.names.as_slice()))
    }

    /// Headers that name the organisation whose quota an answer was about.
    pub fn identity_headers(&self) -> impl Iterator<Item = &str> {
        self.facts.identities.iter().flat_map(|fact| &fact.headers).map(String::as_str)
    }

    /// Endpoints (path patterns, first match counts) and whether calls to them may be sent twice.
    pub fn endpoints(&self) -> impl Iterator<Item = (&str, Repeat)> {
        self.facts.endpoints.iter().map(|fact| (fact.path.as_str(), fact.repeat))
    }

    /// The cheapest call that shows its limits; `None` when nobody wrote it down.
    pub fn probe(&self) -> Option<Probe<'_>> {
        self.facts.probe.as_ref().and_then(Probe::of)
    }

    /// Every fact with what it is about, where it is from and when it was checked; inherited facts included.
    pub fn provenances(&self) -> Vec<(String, Provenance)> {
        self.facts.provenances()
    }

    /// The merged facts.
    pub(crate) fn facts(&self) -> &ProviderFacts {
        &self.facts
    }

    /// Whether the body of a success says something: some providers refuse with status 200, or state their buckets there.
    pub(crate) fn looks_into_success(&self, body: &str) -> bool {
        let reads_code = |rule: &AnswerFact| rule.status.touches_success() && !(rule.code.is_empty() && rule.text.is_empty());
        let may_refuse = || body.contains("rror") || body.contains("code");
        !self.facts.body.buckets.is_empty()
            || self.facts.body.lists.iter().any(|list| body.contains(&list.marker))
            || (self.facts.answers.iter().any(reads_code) && may_refuse())
    }

    /// The first rule about an answer that fits.
    pub(crate) fn rule_for(&self, status: u32, grpc: Option<u32>, fits: impl Fn(&AnswerFact) -> bool) -> Option<&AnswerFact> {
        if grpc.is_none() && (200..400).contains(&status) {
            return self.for_success.iter().filter_map(|index| self.facts.answers.get(*index)).find(|rule| fits(rule));
        }
        self.facts.answers.iter().find(|rule| fits(rule))
    }

    /// The bucket that a fact about bodies names.
    pub(crate) fn body_bucket(&self, fact: &BucketFact) -> Bucket {
        Bucket::from_fact(fact, None, self.facts.meters.get(&fact.meter))
    }

    /// The name of a header that a gateway passes on, without what it puts in front.
    pub(crate) fn without_prefix<'n>(&self, name: &'n str) -> Option<&'n str> {
        self.facts.prefixes.iter().find_map(|fact| {
            let (start, rest) = name.split_at_checked(fact.prefix.len())?;
            start.eq_ignore_ascii_case(&fact.prefix).then_some(rest)
        })
    }

    /// What a header is to this provider's rules.
    pub(crate) fn find_header(&self, name: &str) -> Lookup<'_> {
        self.names.find(name, &self.facts.vocabulary)
    }

    /// Makes a provider of merged facts.
    pub(crate) fn compile(name: &str, facts: ProviderFacts) -> Result<Self, CatalogueError> {
        let unusable = |problem: String| CatalogueError::Unusable { name: name.to_owned(), problem };
        let probe = facts.probe.as_ref().map_or(Ok(()), probe_facts::check);
        let names = check_zones(&facts).and(probe).and_then(|()| compile_names(&facts)).map_err(unusable)?;
        let may_fit = |rule: &AnswerFact| rule.grpc.is_empty() && (rule.status.is_empty() || rule.status.touches_success());
        let for_success = (0..).zip(&facts.answers).filter(|(_, rule)| may_fit(rule)).map(|(index, _)| index).collect();
        Ok(Self { name: name.to_owned(), facts, names, for_success })
    }
}

/// Reads a file's facts as written.
pub(crate) fn parse_facts(yaml: &str, name: &str) -> Result<ProviderFacts, CatalogueError> {
    let mut facts: ProviderFacts = super::mistake::read(yaml)
        .map_err(|mistake| CatalogueError::Unreadable { name: name.to_owned(), mistake: Box::new(mistake) })?;
    facts.stamp();
    Ok(facts)
}

fn check_zones(facts: &ProviderFacts) -> Result<(), String> {
    let of_meters = facts.meters.values().filter_map(|meter| meter.zone.as_ref());
    let mut zones = of_meters.chain(facts.body.quotas.iter().filter_map(|quota| quota.zone.as_ref()));
    let unknown = zones.find(|zone| paceline_core::calendar::Zone::named(zone).is_none());
    unknown.map_or(Ok(()), |zone| Err(format!("nobody knows the time zone `{zone}`; write it as America/Los_Angeles or UTC")))
}

fn compile_names(facts: &ProviderFacts) -> Result<NameIndex, String> {
    let mut names = NameIndex::default();
    names.set_hints(&facts.looks_like_limits);
    names.add("date", Stored::Date);
    names.add("age", Stored::Age);
    names.add("grpc-status", Stored::GrpcStatus);
    for (index, wait) in facts.waits.iter().enumerate() {
        if wait.forms.is_empty() {
            return Err(format!("the wait in `{}` has no form", wait.header));
        }
        names.add(&lower(&wait.header)?, Stored::Wait(index));
    }
    for flag in &facts.retry_flags {
        names.add(&lower(&flag.header)?, Stored::Flag);
    }
    for field in &facts.rate_limit_fields {
        names.add(&lower(&field.header)?, Stored::RateLimit);
        names.add(&lower(&field.policy)?, Stored::Policy);
    }
    for (index, refusal) in facts.refusals.iter().enumerate() {
        names.add(&lower(&refusal.header)?, Stored::Refusal(index));
        names.add(&lower(&refusal.reset)?, Stored::RefusalReset(index));
    }
    for header in facts.identities.iter().flat_map(|identity| &identity.headers) {
        lower(header)?;
    }
    for header in facts.known.iter().flat_map(|known| &known.headers) {
        names.add(&lower(header)?, Stored::Known);
    }
    for (index, family) in facts.families.iter().enumerate() {
        compile_family(&mut names, facts, index, family)?;
    }
    Ok(names)
}

fn compile_family(names: &mut NameIndex, facts: &ProviderFacts, index: usize, family: &FamilyFact) -> Result<(), String> {
    let meter = |name: &str| facts.meters.get(name);
    let own = family.bucket.as_ref().map_or_else(
        || Bucket { reset_means: family.reset_means.unwrap_or_default(), ..Bucket::requests() },
        |fact| Bucket::from_fact(fact, Some(family), meter(&fact.meter)),
    );
    // Longer words first: in `x-reset-after-tokens` the part is `reset-after`, not `reset`.
    let mut parts: Vec<_> = family.parts.iter().collect();
    parts.sort_by_key(|(word, _)| std::cmp::Reverse(word.len()));
    for (template, (word, _)) in family.names.iter().flat_map(|template| parts.iter().map(move |part| (template, *part))) {
        let template = lower(template)?;
        let pieces = pieces(&template, word)?;
        let stored = |bucket: Bucket| Stored::Part { family: index, part: word.clone(), bucket: Box::new(bucket) };
        if pieces.contains(&Piece::Bucket) && !pieces.contains(&Piece::Vendor) {
            for (words, fact) in &family.buckets {
                let name = template.replace("{part}", word).replace("{bucket}", words);
                names.add(&name, stored(Bucket::from_fact(fact, Some(family), meter(&fact.meter))));
            }
        }
        match pieces.as_slice() {
            [Piece::Literal(name)] => names.add(name, stored(own.clone())),
            _ => {
                let (part, bucket) = (word.clone(), own.clone());
                names.add_pattern(Pattern { pieces, family: index, part, bucket, apart: family.apart });
            }
        }
    }
    Ok(())
}

fn lower(name: &str) -> Result<String, String> {
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic() && !byte.is_ascii_uppercase());
    if is_name { Ok(name.to_owned()) } else { Err(format!("`{name}` is no header name in lower case")) }
}
