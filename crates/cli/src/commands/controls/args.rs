//! The command lines.

use clap::{Args, ValueEnum};
use paceline_proto::v1::{EndControlsRequest, Limit, Mode, Priority, Said, Selector};
use prost_types::Duration;

use super::{ControlsError, read};

const MODE_EXAMPLES: &str = "\
Examples:
  # Take Paceline out of the way of everything, for a quarter of an hour
  paceline mode off --all --for 15m --reason 'paceline in doubt'

  # Enforce one account for half an hour, and see
  paceline mode enforce --provider openai --account prod --for 30m --reason 'first half hour'

  # Back to what the configuration says
  paceline mode --clear --all

Calls in mode off are let through at once, those that wait included. It holds at every replica within 2 s,
and ends by itself. Of several such controls the one that interferes least holds.";

const PAUSE_EXAMPLES: &str = "\
Examples:
  # Chats first: batch calls of one account wait
  paceline pause --provider openai --account prod --priority batch --for 30m --reason 'chats first'

  # What would that touch?
  paceline pause --provider openai --account prod --priority batch --reason 'chats first' --dry-run

  # Stop one tenant
  paceline pause --tenant ads --for 15m --reason 'slots leak'

Nobody who is paused gets a slot. Calls that may wait for longer than the pause lasts wait, and keep their
place; others are denied with PAUSED. Calls that were granted a slot go on. It ends by itself.";

const RESUME_EXAMPLES: &str = "\
Examples:
  # As the pause was said
  paceline resume --provider openai --account prod --priority batch

  # Every pause of a provider; every pause
  paceline resume --provider openai
  paceline resume --all

  # The one with this number (see `paceline controls`)
  paceline resume --id 3

It ends every pause that lies within what you name. Who waited goes on in the order it came.";

const LIMIT_EXAMPLES: &str = "\
Examples:
  # Send less: at most 300 requests a minute to each group of models of an account
  paceline limit requests=300/min --provider openai --account prod --for 1h --reason 'provider refuses more'

  # A bucket of the whole account; calls in flight
  paceline limit account/tokens=40000/min --provider openai --account prod --reason 'shared with research'
  paceline limit concurrency=8 --provider acme --account prod --reason 'their gateway is slow'

  # Back to the configured and learned limit: of one bucket, of all
  paceline limit --clear requests --provider openai --account prod
  paceline limit --clear --provider openai --account prod

Buckets have the names that `paceline status` shows. The limit takes the place of the configured and the
learned one, `use:` and `share:` still apply, and no bucket is refilled by it. It ends by itself.";

const FORGET_EXAMPLES: &str = "\
Examples:
  # The outage is over: failures and floors of one model
  paceline forget --provider openai --model gpt-4o --only floors,breakers --reason 'outage is over'

  # What was learned and the floors of an account, on a bad day
  paceline forget --provider openai --account prod --reason 'learned from a bad day'

This cannot be undone. What is still true is learned anew from the next answers; until then only what is
configured is known. No bucket is refilled. Slots in use stay in use until they are reported or expire.";

const CONTROLS_EXAMPLES: &str = "\
Examples:
  paceline controls
  paceline controls --json

Every control ends by itself, at the time shown.";

/// Which calls.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct WhomArgs {
    /// Only this provider; `*` stands for any characters, here and below.
    #[arg(long, value_name = "GLOB", help_heading = "Which calls")]
    provider: Option<String>,

    /// Only this account.
    #[arg(long, value_name = "GLOB", help_heading = "Which calls")]
    account: Option<String>,

    /// Only this model, or the group of models that it shares its limits with.
    #[arg(long, value_name = "GLOB", help_heading = "Which calls")]
    model: Option<String>,

    /// Only calls of this tenant.
    #[arg(long, value_name = "GLOB", help_heading = "Which calls")]
    tenant: Option<String>,

    /// Only calls of this priority.
    #[arg(long, value_enum, help_heading = "Which calls")]
    priority: Option<PriorityWord>,

    /// All calls of the fleet.
    #[arg(
        long,
        help_heading = "Which calls",
        conflicts_with_all = ["provider", "account", "model", "tenant", "priority"]
    )]
    all: bool,
}

impl WhomArgs {
    pub(super) fn selector(&self) -> Result<Selector, ControlsError> {
        let named = [&self.provider, &self.account, &self.model, &self.tenant];
        if named.iter().any(|name| name.as_ref().is_some_and(|name| name.trim().is_empty())) {
            return Err(ControlsError::Usage("a name is empty: leave the option out, or write `*` for any".to_owned()));
        }
        if named.iter().all(|name| name.is_none()) && self.priority.is_none() && !self.all {
            let said = "which calls? Name them with --provider, --account, --model, --tenant or --priority, or say --all";
            return Err(ControlsError::Usage(said.to_owned()));
        }
        let of = |name: &Option<String>| name.clone().unwrap_or_default();
        Ok(Selector {
            provider: of(&self.provider),
            account: of(&self.account),
            model: of(&self.model),
            tenant: of(&self.tenant),
            priority: self.priority.map_or(Priority::Unspecified, PriorityWord::number).into(),
        })
    }

    /// The same where callers cannot be told apart; `why`: because of this.
    pub(super) fn selector_of_all_callers(&self, why: &str) -> Result<Selector, ControlsError> {
        if self.tenant.is_some() || self.priority.is_some() {
            return Err(ControlsError::Usage(format!("{why}: leave --tenant and --priority out")));
        }
        self.selector()
    }

    fn is_empty(&self) -> bool {
        let Self { provider, account, model, tenant, priority, all } = self;
        [provider, account, model, tenant].iter().all(|name| name.is_none()) && priority.is_none() && !all
    }
}

/// A priority.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum PriorityWord {
    /// A person waits.
    Interactive,
    /// The default.
    Normal,
    /// Hours are fine.
    Batch,
}

impl PriorityWord {
    fn number(self) -> Priority {
        match self {
            Self::Interactive => Priority::Interactive,
            Self::Normal => Priority::Normal,
            Self::Batch => Priority::Batch,
        }
    }
}

/// For how long, why and who.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct SaidArgs {
    /// For how long: 90s, 30m, 4h, 2d; at most 7d. What is to last belongs in the configuration. [default: 1h]
    #[arg(long = "for", value_name = "TIME", value_parser = read::length)]
    pub(super) lasts: Option<Duration>,

    /// Why, in a few words: everybody sees it who meets it. Required.
    #[arg(long, value_name = "TEXT")]
    pub(super) reason: Option<String>,

    /// Who says so. [default: you, at this host]
    #[arg(long, value_name = "NAME")]
    pub(super) who: Option<String>,

    /// Only tell what it would touch.
    #[arg(long)]
    pub(super) dry_run: bool,

    /// Also when nothing live is touched: for calls that are to come.
    #[arg(long)]
    pub(super) even_if_unseen: bool,

    /// At the replica that is asked alone, until the store answers: for when the store is away. Say it to each replica.
    #[arg(long)]
    pub(super) here: bool,
}

impl SaidArgs {
    pub(super) fn said(&self) -> Result<Said, ControlsError> {
        let reason = self.reason.as_deref().map(str::trim).unwrap_or_default();
        if reason.is_empty() {
            let said = "--reason is needed: say why in a few words, for whoever meets it tonight";
            return Err(ControlsError::Usage(said.to_owned()));
        }
        Ok(Said {
            lasts: self.lasts,
            reason: reason.to_owned(),
            who: self.who.clone().unwrap_or_else(read::whoami),
            dry_run: self.dry_run,
            even_if_unseen: self.even_if_unseen,
            here: self.here,
        })
    }

    pub(super) fn end(&self) -> EndControlsRequest {
        let who = self.who.clone().unwrap_or_else(read::whoami);
        EndControlsRequest { dry_run: self.dry_run, here: self.here, who, ..EndControlsRequest::default() }
    }
}

/// Where the service is, and how it is to be told.
#[derive(Clone, Debug, Args)]
pub(crate) struct Place {
    /// gRPC address of the service; of several replicas any will do.
    #[arg(long, value_name = "ADDR", env = "PACELINE_ADDR", default_value = "127.0.0.1:7070")]
    pub(super) addr: String,

    /// Print one JSON object; lengths of time are in milliseconds.
    #[arg(long)]
    pub(super) json: bool,
}

/// A mode.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ModeWord {
    /// Let calls through as if nobody were there.
    Off,
    /// Let calls through, and tell what would have been.
    Shadow,
    /// Make calls wait.
    Enforce,
}

impl ModeWord {
    pub(super) fn number(self) -> Mode {
        match self {
            Self::Off => Mode::Off,
            Self::Shadow => Mode::Shadow,
            Self::Enforce => Mode::Enforce,
        }
    }
}

/// Put calls in a mode for a while: off, shadow or enforce, in place of the configured one.
#[derive(Debug, Args)]
#[command(after_long_help = MODE_EXAMPLES, after_help = "See --help for examples.")]
pub(crate) struct ModeArgs {
    /// What is done with calls.
    #[arg(value_enum, required_unless_present = "clear", conflicts_with = "clear")]
    pub(super) mode: Option<ModeWord>,

    /// End the modes said before that lie within what you name: the configured mode holds again.
    #[arg(long)]
    pub(super) clear: bool,

    #[command(flatten)]
    pub(super) whom: WhomArgs,

    #[command(flatten)]
    pub(super) said: SaidArgs,

    #[command(flatten)]
    pub(super) place: Place,
}

/// Give nobody of these calls a slot for a while; they wait, or are denied with PAUSED.
#[derive(Debug, Args)]
#[command(after_long_help = PAUSE_EXAMPLES, after_help = "See --help for examples.")]
pub(crate) struct PauseArgs {
    #[command(flatten)]
    pub(super) whom: WhomArgs,

    #[command(flatten)]
    pub(super) said: SaidArgs,

    #[command(flatten)]
    pub(super) place: Place,
}

/// End pauses.
#[derive(Debug, Args)]
#[command(after_long_help = RESUME_EXAMPLES, after_help = "See --help for examples.")]
pub(crate) struct ResumeArgs {
    #[command(flatten)]
    whom: WhomArgs,

    /// The pause with this number.
    #[arg(long, value_name = "NUMBER", help_heading = "Which calls")]
    id: Option<u64>,

    /// Only tell what would be ended.
    #[arg(long)]
    pub(super) dry_run: bool,

    /// At the replica that is asked alone, until the store answers.
    #[arg(long)]
    pub(super) here: bool,

    #[command(flatten)]
    pub(super) place: Place,
}

/// Which controls are to be ended.
pub(super) enum Which {
    Whom(Selector),
    Id(u64),
}

impl ResumeArgs {
    pub(super) fn which(&self) -> Result<Which, ControlsError> {
        match self.id {
            Some(0) => Err(ControlsError::Usage("--id 0 is no control; `paceline controls` tells the numbers".to_owned())),
            Some(id) if self.whom.is_empty() => Ok(Which::Id(id)),
            Some(_) => Err(ControlsError::Usage("--id names one pause: leave the other options out".to_owned())),
            None => self.whom.selector().map(Which::Whom),
        }
    }
}

/// Set a limit for a while, in place of the configured and the learned one.
#[derive(Debug, Args)]
#[command(after_long_help = LIMIT_EXAMPLES, after_help = "See --help for examples.")]
pub(crate) struct LimitArgs {
    /// The limit: requests=300/min, account/tokens=40000/min, concurrency=8. With --clear: the bucket, or nothing for all.
    #[arg(value_name = "BUCKET=UNITS[/TIME]", required_unless_present = "clear")]
    limit: Option<String>,

    /// End the limits said before that lie within what you name.
    #[arg(long)]
    pub(super) clear: bool,

    #[command(flatten)]
    pub(super) whom: WhomArgs,

    #[command(flatten)]
    pub(super) said: SaidArgs,

    #[command(flatten)]
    pub(super) place: Place,
}

impl LimitArgs {
    pub(super) fn limit(&self) -> Result<Limit, ControlsError> {
        read::limit(self.limit.as_deref().unwrap_or_default()).map_err(ControlsError::Usage)
    }

    /// The bucket whose limit is to be cleared; empty: all.
    pub(super) fn bucket(&self) -> Result<String, ControlsError> {
        let bucket = self.limit.clone().unwrap_or_default();
        match bucket.split_once('=') {
            Some((name, _)) => {
                Err(ControlsError::Usage(format!("with --clear only the bucket is named: paceline limit --clear {name} ...")))
            }
            None => Ok(bucket),
        }
    }
}

/// Forget what answers have taught: floors, limits, failures, empty quotas. Cannot be undone.
#[derive(Debug, Args)]
#[command(after_long_help = FORGET_EXAMPLES, after_help = "See --help for examples.")]
pub(crate) struct ForgetArgs {
    #[command(flatten)]
    pub(super) whom: WhomArgs,

    /// Only this; several with commas. [default: all of it]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "WHAT")]
    only: Vec<ForgetWord>,

    /// Why, in a few words, for the log. Required.
    #[arg(long, value_name = "TEXT")]
    pub(super) reason: Option<String>,

    /// Who says so. [default: you, at this host]
    #[arg(long, value_name = "NAME")]
    pub(super) who: Option<String>,

    /// Only tell what would be forgotten.
    #[arg(long)]
    pub(super) dry_run: bool,

    #[command(flatten)]
    pub(super) place: Place,
}

/// What can be forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ForgetWord {
    /// Times before which nothing is granted.
    Floors,
    /// Limits, windows and what others take.
    Learned,
    /// Failures in a row, and open breakers.
    Breakers,
    /// That money or quota has run out.
    Quotas,
}

impl ForgetArgs {
    /// Floors, learned, breakers, quotas.
    pub(super) fn what(&self) -> [bool; 4] {
        [ForgetWord::Floors, ForgetWord::Learned, ForgetWord::Breakers, ForgetWord::Quotas]
            .map(|word| self.only.is_empty() || self.only.contains(&word))
    }
}

/// List what people have said for a while: modes, pauses, limits, until when, who and why.
#[derive(Debug, Args)]
#[command(after_long_help = CONTROLS_EXAMPLES, after_help = "See --help for examples.")]
pub(crate) struct ControlsArgs {
    #[command(flatten)]
    pub(super) place: Place,
}
