//! `paceline check-config`: is this file right, what does it mean, and which line wins for a call.

use std::io::{self, Read, Write};
use std::path::Path;

use clap::Args;
use paceline_config::{Config, ConfigErrors, Explanation, Overrides, ResolveError, Scalar};
use paceline_store::RedisUrl;
use serde_json::{Value, json};

use super::provider_files::ProviderFiles;

const EXAMPLES: &str = "\
Examples:
  # Is the file right? Every problem with its line and what to write instead
  paceline check-config paceline.yaml

  # Which buckets is this call charged in, and which line says so?
  paceline check-config paceline.yaml --resolve openai/prod/gpt-4o

  # Another store than the file's: is this an address, and can the files it names be read?
  paceline check-config paceline.yaml --store 'rediss://redis:6379?password_file=/run/secrets/redis'

  # For programs; a dash reads standard input
  paceline check-config - --json < paceline.yaml

The exit status is 0 when the file is right and 1 when it is not. Account and
model may be left empty: --resolve openai//gpt-4o. Nothing is connected to: `serve` looks
at the store when it starts, and says what is wrong with it.";

/// Checks a configuration and prints what it means.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES, after_help = "See --help for examples.")]
pub(crate) struct CheckConfigArgs {
    /// The file; `-` reads standard input; without it, what holds when nothing is configured.
    #[arg(value_name = "FILE")]
    file: Option<String>,

    /// Show the buckets of a call and the line or layer that each comes from; repeatable. A model may contain slashes.
    #[arg(long, value_name = "PROVIDER/ACCOUNT/MODEL")]
    resolve: Vec<String>,

    /// The store in place of the file's: `memory`, or the address of Redis or Valkey.
    #[arg(long, value_name = "URL")]
    store: Option<String>,

    /// One JSON object: {"file","valid","hash","effective","warnings","resolve"}, or {"file","valid","problems"}.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    pub(crate) provider_files: ProviderFiles,
}

/// Why a configuration is not fine.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CheckConfigError {
    /// The file is wrong.
    #[error(transparent)]
    Invalid(#[from] ConfigErrors),
    /// What was to be resolved means nothing.
    #[error("--resolve {target}: {source}")]
    Unresolved {
        /// As given.
        target: String,
        /// Why.
        source: ResolveError,
    },
    /// Standard input cannot be read, or the result cannot be written.
    #[error("check-config stopped: {0}")]
    Io(#[from] io::Error),
}

/// Checks the file and writes what it means to `out`; with `--json` also what is wrong with it.
///
/// # Errors
/// The file is wrong, a target does not resolve, or reading or writing failed.
pub(crate) fn run(args: &CheckConfigArgs, out: &mut dyn Write) -> Result<(), CheckConfigError> {
    let file = args.file.as_deref().unwrap_or("(no file)");
    let config = match load(args.file.as_deref())?.and_then(|config| with_store(config, args.store.as_deref())) {
        Ok(config) => config,
        Err(errors) => {
            if args.json {
                writeln!(out, "{}", json!({"file": file, "valid": false, "problems": errors.to_json()}))?;
            }
            return Err(errors.into());
        }
    };
    let resolved = resolve(&config, &args.resolve)?;
    if args.json {
        write_json(out, file, &config, &resolved)?
    } else {
        write_text(out, file, &config, &resolved)?
    }
    Ok(())
}

/// Parses the file and checks it against the catalogue.
fn load(file: Option<&str>) -> Result<Result<Config, ConfigErrors>, io::Error> {
    let catalogue = paceline_signals::catalogue();
    Ok(match file {
        None => Ok(Config::default()),
        Some("-") => {
            let mut text = String::new();
            io::stdin().lock().read_to_string(&mut text)?;
            Config::parse_checked(&text, "standard input", catalogue)
        }
        Some(path) => Config::load(Path::new(path), catalogue),
    })
}

/// The store that is asked for, and the one that holds checked as `serve` reads it: its whole address, and the files in it.
fn with_store(config: Config, store: Option<&str>) -> Result<Config, ConfigErrors> {
    let config = config.with_overrides(&Overrides::default().flag(Scalar::Store, store))?;
    let problems = match config.store().reveal().map(str::parse::<RedisUrl>) {
        None => Vec::new(),
        Some(Ok(url)) => url.problems_of_files(),
        Some(Err(error)) => vec![error.to_string()],
    };
    config.with_problems_of_store(problems)
}

fn resolve(config: &Config, targets: &[String]) -> Result<Vec<Explanation>, CheckConfigError> {
    let one = |target: &String| {
        let mut parts = target.splitn(3, '/');
        let mut next = || parts.next().unwrap_or_default();
        let (provider, account, model) = (next(), next(), next());
        config
            .explain(paceline_signals::catalogue(), provider, account, model)
            .map_err(|source| CheckConfigError::Unresolved { target: target.clone(), source })
    };
    targets.iter().map(one).collect()
}

fn write_json(out: &mut dyn Write, file: &str, config: &Config, resolved: &[Explanation]) -> io::Result<()> {
    let object = json!({
        "file": file,
        "valid": true,
        "hash": config.hash(),
        "effective": config.effective_json(),
        "warnings": config.warnings(paceline_signals::catalogue()),
        "resolve": resolved.iter().map(Explanation::to_json).collect::<Vec<Value>>(),
    });
    writeln!(out, "{object}")
}

/// The effective configuration as YAML (the rest as comments, so that it can be used as a file), or the resolutions.
fn write_text(out: &mut dyn Write, file: &str, config: &Config, resolved: &[Explanation]) -> io::Result<()> {
    writeln!(out, "# {file} is valid; hash {}", config.hash())?;
    for warning in config.warnings(paceline_signals::catalogue()) {
        writeln!(out, "# warning: {warning}")?;
    }
    if resolved.is_empty() {
        return write!(out, "{}", config.effective_yaml());
    }
    resolved.iter().try_for_each(|found| write!(out, "\n{found}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;

    fn check(text: &str, name: &str, resolve: &[&str], json: bool) -> (String, Result<(), CheckConfigError>) {
        let dir = std::env::temp_dir().join(format!("paceline-check-config-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join("paceline.yaml");
        std::fs::write(&path, text).unwrap();
        let file = path.display().to_string();
        let resolve = resolve.iter().map(|target| (*target).to_owned()).collect();
        let mut out = Vec::new();
        let result = run(
            &CheckConfigArgs { file: Some(file.clone()), resolve, store: None, json, provider_files: ProviderFiles::default() },
            &mut out,
        );
        std::fs::remove_dir_all(&dir).unwrap();
        (String::from_utf8(out).unwrap().replace(&file, "paceline.yaml"), result)
    }

    #[test]
    fn the_effective_configuration_is_a_configuration() {
        let (said, result) = check("providers: {openai: {accounts: {prod: {tier: 1}}}}", "effective", &[], false);
        result.unwrap();
        assert!(said.starts_with("# paceline.yaml is valid; hash "), "{said}");
        let again = Config::parse(&said, "again").unwrap();
        assert_eq!(again.effective_json()["providers"], json!({"openai": {"accounts": {"prod": {"tier": "1"}}}}));
    }

    #[test]
    fn a_resolution_names_the_winning_line() {
        let text = "providers:\n  openai:\n    models:\n      \"gpt-4o*\": {limits: {requests: 7/min}}\n";
        let (said, result) = check(text, "resolve", &["openai/prod/gpt-4o", "openai//org/model"], false);
        result.unwrap();
        assert!(said.contains("paceline.yaml:4:38 (provider)"), "{said}");
        assert!(said.contains("openai//org/model\n"), "a model may contain slashes: {said}");
    }

    #[test]
    fn problems_point_at_line_and_column() {
        let text = "providers:\n  openai:\n    limit: {requests: 7/min}\n";
        let (said, result) = check(text, "problems", &[], true);
        let printed = result.unwrap_err().to_string();
        assert!(printed.contains("paceline.yaml:3:5 in providers.openai\n   3 |     limit:"), "{printed}");
        let object: Value = serde_json::from_str(&said).unwrap();
        assert_eq!(object["valid"], false);
        assert_eq!((object["problems"][0]["line"].as_u64(), object["problems"][0]["column"].as_u64()), (Some(3), Some(5)));
    }

    #[test]
    fn the_whole_address_of_the_store_and_its_files_are_checked() {
        let wrong = |text: &str| check(text, "store", &[], false).1.unwrap_err().to_string();
        let said = wrong("mode: off\nstore: redis://redis:6379/first\n");
        assert!(said.contains("behind the host stands the number of the database"), "{said}");
        assert!(said.contains("paceline.yaml:2:8 in store"), "{said}");
        let said = wrong("store: redis://app:hunter2@redis:6379?pass_file=x\n");
        assert!(said.contains("nothing is called `pass_file` there") && !said.contains("hunter2"), "{said}");
        let said = wrong("store: rediss://redis?password_file=/nowhere/a&ca=/nowhere/b\n");
        assert!(said.contains("cannot read the password file /nowhere/a") && said.contains("/nowhere/b"), "{said}");
        assert!(said.contains("2 problems in "), "{said}");
        check("store: redis+cluster://a,b,c?timeout_ms=300\n", "store", &[], false).1.unwrap();
        // Of a flag no place is told.
        let errors = with_store(Config::default(), Some("redis+sentinel://a,b")).unwrap_err();
        assert!(errors.to_string().contains("--> --store"), "{errors}");
        assert_eq!(with_store(Config::default(), Some("redis://a")).unwrap().store().reveal(), Some("redis://a"));
    }

    #[test]
    fn json_is_one_line_with_everything() {
        let text = "providers: {openai: {share: 60%, accounts: {prod: {use: 50%}}}}";
        let (said, result) = check(text, "json", &["openai/prod/gpt-4o"], true);
        result.unwrap();
        assert_eq!(said.lines().count(), 1);
        let object: Value = serde_json::from_str(&said).unwrap();
        assert_eq!(object["resolve"][0]["group"], "gpt-4o");
        assert!(object["warnings"][0].as_str().unwrap().contains("is more than `use: 50%` lets us take"));
        assert_eq!(object["hash"].as_str().unwrap().len(), 32);
    }

    #[test]
    fn what_does_not_resolve_says_why() {
        let (_, result) = check("", "unresolved", &["opnai/prod/gpt-4o"], false);
        let said = result.unwrap_err().to_string();
        assert_eq!(said, "--resolve opnai/prod/gpt-4o: unknown provider `opnai`; did you mean `openai`?");
    }

    #[test]
    fn nothing_configured_is_fine() {
        let mut out = Vec::new();
        run(
            &CheckConfigArgs {
                file: None,
                resolve: vec!["openai".to_owned()],
                store: None,
                json: false,
                provider_files: ProviderFiles::default(),
            },
            &mut out,
        )
        .unwrap();
        assert!(String::from_utf8(out).unwrap().contains("no group matches: each model has its own buckets"));
    }
}
