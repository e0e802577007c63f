//! Names, flags and variables, hashes, aliases of models, and what an explanation shows.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod support;

use paceline_config::{Catalogue, Config, Overrides, ProviderFacts, ResolveError, Scalar};
use paceline_core::plan::{Class, Owner, Portion, Refill, TenantPolicy, Weight};
use paceline_core::units::Span;

fn parse(text: &str) -> Config {
    Config::parse(text, "paceline.yaml").unwrap_or_else(|errors| panic!("{errors}"))
}

#[test]
fn accounts_are_found_under_their_one_name() {
    let catalogue = support::catalogue();
    let config = parse(
        "providers:\n  openai:\n    accounts: {prod: {aliases: [team-a]}, default: {}}\n  \
         gemini: {accounts: {free: {}}, unknown_accounts: allow}\n  anthropic: {accounts: {a: {aliases: [default]}}}\n",
    );
    let canonical = |provider, account| {
        config.canonical(&catalogue, provider, account).map(|(provider, account)| format!("{provider}/{account}"))
    };
    assert_eq!(canonical("openai", "team-a").unwrap(), "openai/prod");
    assert_eq!(canonical("openai", "").unwrap(), "openai/default");
    assert_eq!(canonical("anthropic", "").unwrap(), "anthropic/a", "`default` may be an alias");
    assert_eq!(canonical("gemini", "mine").unwrap(), "gemini/mine");
    assert_eq!(canonical("github", "").unwrap(), "github/", "no accounts configured: the empty name is a scope of its own");
    assert_eq!(
        canonical("gemini", ""),
        Err(ResolveError::EmptyAccount { provider: "gemini".to_owned(), accounts: vec!["free".to_owned()] }),
        "an account that nobody named is never shared silently"
    );
    assert_eq!(
        canonical("openai", "Team-a").unwrap_err().to_string(),
        "unknown account `Team-a` of `openai`; did you mean `team-a`?"
    );
    assert_eq!(
        canonical("nowhere", "x").unwrap_err().to_string(),
        "unknown provider `nowhere`; name one of the catalogue or configure it under `providers`"
    );
}

#[test]
fn another_name_of_a_provider_is_the_same_scope() {
    let catalogue = paceline_signals::catalogue();
    let config = parse("providers: {openai: {accounts: {prod: {tier: 1}}}}");
    let (provider, account) = config.canonical(catalogue, "OpenAI", "prod").unwrap();
    assert_eq!((&*provider, account), ("openai", "prod"));
    let one = config.resolve(catalogue, "OpenAI", "prod", "gpt-4o").unwrap();
    assert_eq!(one, config.resolve(catalogue, "openai", "prod", "gpt-4o").unwrap());
    assert_eq!(one.buckets[0].limit, Some(500));
}

/// Names of one model share its group, whether or not the file speaks of the model.
#[test]
fn aliases_of_a_model_share_its_buckets() {
    struct Aliased(ProviderFacts);
    impl Catalogue for Aliased {
        fn names(&self) -> Vec<String> {
            vec!["acme".to_owned()]
        }
        fn provider(&self, name: &str) -> Option<ProviderFacts> {
            (name == "acme").then(|| self.0.clone())
        }
    }
    let mut facts = support::catalogue().provider("openai").unwrap();
    facts.name = "acme".to_owned();
    facts.aliases = vec![paceline_config::AliasFacts { model: "m".to_owned(), names: vec!["m-20*".to_owned()] }];
    let catalogue = Aliased(facts);
    let key = |config: &Config, model: &str| {
        let plan = config.resolve(&catalogue, "acme", "a", model).unwrap();
        (plan.key.to_string(), plan.is_each)
    };
    let nothing = Config::default();
    assert_eq!(key(&nothing, "m"), ("m".to_owned(), false));
    assert_eq!(key(&nothing, "m-2026-01-01"), ("m".to_owned(), false));
    assert_eq!(key(&nothing, "m2"), ("m2".to_owned(), true));
    let exact = parse("providers: {acme: {models: {m: {limits: {requests: 5/min}}}}}");
    assert_eq!(key(&exact, "m-2026-01-01"), ("m".to_owned(), false), "the file's group of the model takes its other names in");
    let dated = parse("providers: {acme: {models: {m-2026*: {limits: {requests: 5/min}}}}}");
    assert_eq!(key(&dated, "m-2026-01-01"), ("m-2026*".to_owned(), false), "unless the file speaks of the other name itself");
}

#[test]
fn windows_of_a_day_refill_at_once_unless_the_catalogue_knows_that_very_window() {
    let config = parse(
        "providers:\n  openai: {limits: {requests: [5/min, 100/day, {limit: 900, per: week, refill: continuous}, 2000/month]}}\n",
    );
    let plan = config.resolve(&support::catalogue(), "openai", "a", "m").unwrap();
    let account: Vec<_> = plan.buckets.iter().filter(|bucket| bucket.id.owner == Owner::Account).collect();
    let found: Vec<_> = account.iter().map(|bucket| (bucket.id.label(), bucket.refill.unwrap(), bucket.per.unwrap())).collect();
    let day = Span::from_secs(86_400);
    assert_eq!(
        found,
        [
            ("account/requests".to_owned(), Refill::Continuous, Span::from_secs(60)),
            ("account/requests_day".to_owned(), Refill::Window, day),
            ("account/requests_month".to_owned(), Refill::Window, day.scaled(30.0)),
            ("account/requests_week".to_owned(), Refill::Continuous, day.scaled(7.0)),
        ]
    );
}

#[test]
fn flags_win_over_variables_and_variables_over_the_file() {
    let config = parse("listen: {grpc: 127.0.0.1:1, http: 127.0.0.1:2}\n");
    let variables = [
        ("PACELINE_SERVE_GRPC", "127.0.0.1:3"),
        ("PACELINE_SERVE_HTTP", "127.0.0.1:4"),
        ("PACELINE_SERVE_PORT_7070_TCP", "tcp://10.0.0.1:7070"),
        ("PACELINE_SERVE_SERVICE_HOST", "10.0.0.1"),
        ("PACELINE_SERVE_MODE", ""),
        ("PACELINE_SERVE_EXPECTED_REPLICAS", "1"),
        ("PATH", "/bin"),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let overrides = Overrides::from_variables(variables).flag(Scalar::Grpc, Some("127.0.0.1:5")).flag(Scalar::Http, None);
    let config = config.with_overrides(&overrides).unwrap();
    let listen = config.listen();
    assert_eq!((listen.grpc.port(), listen.http.port()), (5, 4));
}

#[test]
fn a_wrong_flag_or_variable_is_named_and_shows_no_secret() {
    let variables = [("PACELINE_SERVE_STORE".to_owned(), "redisx://app:hunter2@redis:6379".to_owned())];
    let overrides = Overrides::from_variables(variables).flag(Scalar::Grpc, Some(":7070"));
    let said = Config::default().with_overrides(&overrides).unwrap_err().to_string();
    assert!(said.contains("`:7070` is not an address to listen on\n  --> --grpc"), "{said}");
    assert!(said.contains("`redisx://***********@redis:6379` is not a store\n  --> PACELINE_SERVE_STORE"), "{said}");
    assert!(!said.contains("hunter2"));
}

#[test]
fn the_hash_tells_effects_apart_and_nothing_else() {
    let same = [
        "providers: {openai: {limits: {requests: 60/min, tokens: 50k/min}}}",
        "# a comment\nproviders:\n  openai:\n    limits:\n      tokens: {limit: 50_000, per: 60s}\n      requests: 60/1m\n",
        "listen: {grpc: 0.0.0.0:1}\nstore: memory\nmode: enforce\nproviders: {openai: {limits: {tokens: 0.05M/min, requests: 60/min}}}",
    ];
    let hash = parse(same[0]).hash();
    assert_eq!(hash.len(), 32);
    for text in same {
        assert_eq!(parse(text).hash(), hash, "{text}");
    }
    assert_ne!(parse("providers: {openai: {limits: {requests: 61/min, tokens: 50k/min}}}").hash(), hash);
    assert_ne!(Config::default().hash(), hash);
    assert_eq!(Config::default().hash(), parse("").hash());
}

#[test]
fn the_catalogue_entry_that_reads_answers() {
    let config = parse(
        "providers:\n  gw: {extends: openai}\n  crm: {dialect: generic}\n  both: {extends: openai, dialect: generic}\n  openai: {}\n",
    );
    for (provider, entry) in
        [("gw", "openai"), ("crm", "generic"), ("both", "generic"), ("openai", "openai"), ("github", "github")]
    {
        assert_eq!(config.catalogue_name(provider), entry);
    }
}

#[test]
fn an_explanation_names_the_line_that_won() {
    let text = "providers:
  openai:
    tier: 1
    honor_cap: 60s
    accounts:
      prod:
        aliases: [team-a]
        use: 50%
        limits: {requests: 10000/min}
        models:
          \"gpt-4o-20*\":
            limits:
              requests: [500/min, {limit: 9k, per: day, burst: 1k}]
            max_wait: {batch: 10min}
";
    let config = parse(text);
    let found = config.explain(&support::catalogue(), "openai", "team-a", "gpt-4o-2024-11-20").unwrap();
    let expected = "openai/team-a/gpt-4o-2024-11-20
  account  \"prod\" of openai
  group    \"gpt-4o-20*\"  <- paceline.yaml:11:11 (account)
  bucket            limit  per         refill
  requests          250    1 min       continuous  cautious, use 50% of 500                          <-  paceline.yaml:13:26 (account)
  requests_day      4500   day in UTC  window      cautious, use 50% of 9000, burst 500              <-  paceline.yaml:13:35 (account)
  tokens            15000  1 min       continuous  cautious, use 50% of 30000, headers may raise it  <-  catalogue openai, tier 1, gpt-4o*
  account/requests  5000   1 min       continuous  cautious, use 50% of 10000                        <-  paceline.yaml:9:28 (account)
  interactive max_wait 15 s, honor_cap 1 min <- paceline.yaml:4:16 (provider), attempts 3, paid_attempts 2, max_share 50%
  normal      max_wait 2 min, honor_cap 1 min <- paceline.yaml:4:16 (provider), attempts 5, paid_attempts 2, guarantee 20%
  batch       max_wait 10 min <- paceline.yaml:14:31 (group), honor_cap 1 min <- paceline.yaml:4:16 (provider), attempts 8, paid_attempts 2, guarantee 5%
  retries     share 20%, at_least 3/10s
";
    assert_eq!(found.to_string(), expected);
    let json = found.to_json();
    assert_eq!(json["buckets"][1]["bucket"], "requests_day");
    assert_eq!(json["buckets"][1]["from"], "paceline.yaml:13:35 (account)");
    assert_eq!(json["classes"]["batch"]["max_wait_ms"], 600_000);
}

/// A day is a calendar's: in the zone that is written, else where the provider's days end, else UTC. 24 hours are no day, and what
/// refills evenly has no end.
#[test]
fn a_day_ends_where_the_provider_counts() {
    let calendar = |provider: &str, limit: &str| {
        let config = parse(&format!("providers: {{{provider}: {{models: {{m: {{limits: {{requests: {limit}}}}}}}}}}}"));
        let plan = config.resolve(paceline_signals::catalogue(), provider, "x", "m").unwrap();
        let bucket = plan.buckets.iter().find(|bucket| bucket.limit.is_some()).unwrap();
        assert_eq!(parse(&config.effective_yaml()).hash(), config.hash(), "{limit}");
        (config.hash(), bucket.calendar.as_ref().map(|calendar| (calendar.unit.name(), calendar.zone.name().to_string())))
    };
    let of = |provider, limit| calendar(provider, limit).1;
    let day = |zone: &str| Some(("day", zone.to_owned()));
    assert_eq!(of("gemini", "1500/day"), day("America/Los_Angeles"));
    assert_eq!(of("gemini", "{limit: 1500, per: day}"), day("America/Los_Angeles"));
    assert_eq!(of("gemini", "{limit: 1500, per: 1day, zone: europe/berlin}"), day("Europe/Berlin"));
    assert_eq!(of("vllm", "1500/day"), day("UTC"));
    assert_eq!(of("vllm", "1500/week"), Some(("week", "UTC".to_owned())));
    assert_eq!(of("vllm", "{limit: 1500, per: month, zone: Asia/Tokyo}"), Some(("month", "Asia/Tokyo".to_owned())));
    for length in ["1500/24h", "1500/2days", "{limit: 1500, per: day, refill: continuous}", "1500/h"] {
        assert_eq!(of("gemini", length), None, "{length}");
    }
    let zones = ["{limit: 9, per: day}", "{limit: 9, per: 24h}", "{limit: 9, per: day, zone: Asia/Tokyo}"];
    let hashes = zones.map(|limit| calendar("gemini", limit).0);
    assert!(hashes[0] != hashes[1] && hashes[0] != hashes[2] && hashes[1] != hashes[2]);
}

#[test]
fn the_nearest_level_says_how_many_retries_are_allowed() {
    let config = parse(
        "retries: {share: 10%, at_least: 1/s}\nproviders:\n  openai:\n    retries: {share: 5%}\n    accounts:\n      prod:\n        \
         models: {a: {retries: {at_least: 0/min, paid_attempts: 1}}, b: {concurrency: 3}}\n",
    );
    let of = |model: &str| config.explain(&support::catalogue(), "openai", "prod", model).unwrap();
    let policy = of("a").plan.retries;
    assert_eq!((policy.share_ppm, policy.at_least, policy.per), (50_000, 0, Span::from_secs(60)));
    assert_eq!(of("a").plan.classes[0].paid_attempts, 1);
    let policy = of("b").plan.retries;
    assert_eq!((policy.share_ppm, policy.at_least, policy.per), (50_000, 1, Span::from_secs(1)));
    let told = of("b").to_string();
    let line = "  retries     share 5% <- paceline.yaml:4:22 (provider), at_least 1/1s <- paceline.yaml:1:33 (retries)\n";
    assert!(told.ends_with(line), "{told}");
    // As shown by check-config, it is the same configuration.
    let again = parse(&config.effective_yaml());
    assert_eq!(again.hash(), config.hash());
    assert_ne!(config.hash(), parse("providers: {openai: {}}").hash());
}

/// The nearest `share` and `use` win each by itself; more than we may take is not ours.
#[test]
fn our_part_of_a_limit_is_resolved() {
    let config = parse(
        "providers: {openai: {share: 60%, accounts: {half: {use: 50%}, all: {}}, models: {a: {share: 20%, limits: {requests: \
         10/min}}}}}",
    );
    let of = |account: &str, model: &str| {
        let found = config.explain(&support::catalogue(), "openai", account, model).unwrap();
        let ours = found.plan.buckets[0].ours;
        (ours.least.as_millionths() / 10_000, ours.most.as_millionths() / 10_000, found.notes.first().cloned())
    };
    assert_eq!(of("all", "a"), (20, 100, None));
    assert_eq!(of("half", "a"), (20, 50, None));
    let note = "`share: 60%` of requests is more than `use: 50%` lets us take: 50% it is".to_owned();
    assert_eq!(of("half", "b"), (60, 50, Some(note)));
    assert_eq!(parse(&config.effective_yaml()).hash(), config.hash());
}

#[test]
fn warnings_are_about_accounts_and_groups() {
    let config = parse(
        "providers:\n  openai:\n    accounts:\n      half: {use: 50%, tier: 1, models: {\"*\": {max_wait: 5s}}}\n      \
         fine: {tier: 1, shared: {lonely: {concurrency: 3}}}\n",
    );
    assert_eq!(
        config.warnings(&support::catalogue()),
        [
            "providers.openai.accounts.fine.shared.lonely: no group uses it",
            "providers.openai.accounts.half.models.\"*\": all models share one set of buckets here; write `each: true`, or put the \
             settings beside `models`",
        ]
    );
}

#[test]
fn tenants_are_found_by_their_most_specific_entry() {
    let config = parse(
        "tenants:\n  \"*\": {weight: 2, max_priority: normal}\n  ads: {weight: 3}\n  \"ads-*\": {max_priority: batch}\n  \
         web: {max_priority: interactive}\n",
    );
    let of = |name| {
        let TenantPolicy { weight, max_priority } = config.tenant(name);
        (weight.get(), max_priority)
    };
    assert_eq!(of("web"), (2, Class::Interactive));
    assert_eq!(of("ads"), (3, Class::Normal), "what it does not say comes from the next entry");
    assert_eq!(of("ads-2"), (2, Class::Batch));
    assert_eq!(of("anybody"), (2, Class::Normal));
    assert_eq!(parse("").tenant("ads"), TenantPolicy { weight: Weight::ONE, max_priority: Class::Interactive });
    let reread = parse(&config.effective_yaml());
    assert_eq!((reread.tenant("ads"), reread.hash()), (config.tenant("ads"), config.hash()));
}

#[test]
fn shares_of_classes_are_resolved() {
    let config = parse("classes: {batch: {guarantee: 12.5%}, interactive: {max_share: 80%}}");
    let plan = config.resolve(&support::catalogue(), "openai", "x", "gpt-4o").unwrap();
    assert_eq!(plan.class(Class::Batch).guarantee, Portion::from_millionths(125_000));
    assert_eq!(plan.class(Class::Interactive).max_share, Portion::from_millionths(800_000));
    assert_eq!(plan.class(Class::Normal).guarantee, Portion::from_millionths(200_000), "the default");
}
