//! Controls as messages, as commands and in words.

use paceline_core::controls::{Book, Control, Kind, OverLimit, What, Whom};
use paceline_core::forget::Forgotten;
use paceline_core::plan::Class;
use paceline_core::units::{FleetTime, Span};
use paceline_proto::{convert, v1};

use super::read::as_argument;

/// A control as people are shown it.
pub(crate) fn control(control: &Control, now: FleetTime) -> v1::Control {
    let Control { id, what, whom, since, ends, reason, who } = control;
    let (kind, mode, limit) = match what {
        What::Mode(mode) => (v1::ControlKind::Mode, v1::Mode::from(*mode), None),
        What::Pause => (v1::ControlKind::Pause, v1::Mode::Unspecified, None),
        What::Limit(limit) => (v1::ControlKind::Limit, v1::Mode::Unspecified, Some(self::limit(limit))),
    };
    v1::Control {
        id: *id,
        kind: kind.into(),
        selector: Some(selector(whom)),
        mode: mode.into(),
        limit,
        ends_in: Some(convert::duration(ends.since(now).at_least_zero())),
        age: Some(convert::duration(now.since(*since).at_least_zero())),
        reason: reason.to_string(),
        who: who.to_string(),
        undo: undo(control),
        says: says(what),
        touches: whom.to_string(),
    }
}

fn limit(limit: &OverLimit) -> v1::Limit {
    v1::Limit { bucket: limit.bucket.to_string(), units: limit.units, per: limit.per.map(convert::duration) }
}

fn selector(whom: &Whom) -> v1::Selector {
    v1::Selector {
        provider: whom.provider.to_string(),
        account: whom.account.to_string(),
        model: whom.model.to_string(),
        tenant: whom.tenant.to_string(),
        priority: match whom.class {
            None => v1::Priority::Unspecified,
            Some(Class::Interactive) => v1::Priority::Interactive,
            Some(Class::Normal) => v1::Priority::Normal,
            Some(Class::Batch) => v1::Priority::Batch,
        }
        .into(),
    }
}

pub(super) fn forgotten(provider: &str, account: &str, forgotten: Forgotten) -> v1::ForgottenScope {
    let Forgotten { floors, learned, breakers, quotas } = forgotten;
    v1::ForgottenScope { provider: provider.to_owned(), account: account.to_owned(), floors, learned, breakers, quotas }
}

pub(super) fn forgotten_in_words(forgotten: Forgotten) -> String {
    let Forgotten { floors, learned, breakers, quotas } = forgotten;
    format!("floors {floors}, learned limits {learned}, breakers {breakers}, empty quotas {quotas}")
}

/// The command that ends a control.
pub(super) fn undo(control: &Control) -> String {
    let whom = arguments(&control.whom);
    match &control.what {
        What::Mode(_) => format!("paceline mode --clear {whom}"),
        What::Pause => format!("paceline resume {whom}"),
        What::Limit(limit) => format!("paceline limit --clear {} {whom}", quoted(&limit.bucket)),
    }
}

/// The command that says an ended control again, for what was left of it.
pub(super) fn again(control: &Control, now: FleetTime) -> String {
    let (whom, left) = (arguments(&control.whom), as_argument(control.ends.since(now)));
    let how = format!("{whom} --for {left} --reason {}", quoted(&control.reason));
    match &control.what {
        What::Mode(mode) => format!("paceline mode {} {how}", mode.name()),
        What::Pause => format!("paceline pause {how}"),
        What::Limit(limit) => format!("paceline limit {} {how}", quoted(&limit_argument(limit))),
    }
}

fn limit_argument(limit: &OverLimit) -> String {
    let OverLimit { bucket, units, per } = limit;
    match per.map(Span::as_micros) {
        None => format!("{bucket}={units}"),
        Some(1_000_000) => format!("{bucket}={units}/s"),
        Some(60_000_000) => format!("{bucket}={units}/min"),
        Some(3_600_000_000) => format!("{bucket}={units}/h"),
        Some(86_400_000_000) => format!("{bucket}={units}/day"),
        Some(micros) => format!("{bucket}={units}/{}", as_argument(Span::from_micros(micros))),
    }
}

/// What a control says, in a few words: `mode off for openai/*`.
pub(super) fn in_words(control: &Control) -> String {
    format!("{} for {}", says(&control.what), control.whom)
}

fn says(what: &What) -> String {
    match what {
        What::Mode(mode) => format!("mode {}", mode.name()),
        What::Pause => "pause".to_owned(),
        What::Limit(limit) => format!("limit {}", limit_argument(limit)),
    }
}

/// Why nothing was ended, and what could be.
pub(super) fn nothing_to_end(kind: Kind, whom: Option<&Whom>, id: u64, book: &Book, now: FleetTime) -> String {
    let of_kind: Vec<&Control> = book.active(now).filter(|control| control.what.kind() == kind).collect();
    let which = match whom {
        Some(whom) => format!("no {} lies within {whom}", kind.name()),
        None => format!("no {} has the number {id}", kind.name()),
    };
    if of_kind.is_empty() {
        return format!("{which}: none is in force");
    }
    let listed: Vec<String> = of_kind.iter().take(5).map(|control| format!("{} ({})", control.id, control.whom)).collect();
    let more = of_kind.len().saturating_sub(listed.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{which}; in force: {}{more}", listed.join("; "))
}

/// A selector as the arguments of a command.
pub(super) fn arguments(whom: &Whom) -> String {
    let mut arguments = Vec::new();
    let names =
        [("--provider", &whom.provider), ("--account", &whom.account), ("--model", &whom.model), ("--tenant", &whom.tenant)];
    arguments
        .extend(names.into_iter().filter(|(_, glob)| !glob.is_empty()).map(|(name, glob)| format!("{name} {}", quoted(glob))));
    arguments.extend(whom.class.map(|class| format!("--priority {}", class.name())));
    if arguments.is_empty() { "--all".to_owned() } else { arguments.join(" ") }
}

/// A word for a shell.
fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_./:@%+=,-".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use paceline_core::mode::Mode;

    use super::*;

    const NOW: FleetTime = FleetTime::from_secs(1_800_000_000);

    fn control(what: What, whom: Whom) -> Control {
        let ends = NOW + Span::from_secs(1_800);
        Control { id: 7, what, whom, since: NOW, ends, reason: Arc::from("it's slow"), who: Arc::from("ada") }
    }

    #[test]
    fn commands_can_be_pasted() {
        let openai = || Whom { provider: Arc::from("openai"), ..Whom::default() };
        let batch = Whom { account: Arc::from("team *"), tenant: Arc::from("ads"), class: Some(Class::Batch), ..openai() };
        let paused = control(What::Pause, batch);
        assert_eq!(undo(&paused), "paceline resume --provider openai --account 'team *' --tenant ads --priority batch");
        let expected = r"paceline pause --provider openai --account 'team *' --tenant ads --priority batch --for 30m --reason 'it'\''s slow'";
        assert_eq!(again(&paused, NOW), expected);
        let off = control(What::Mode(Mode::Off), Whom::default());
        assert_eq!(undo(&off), "paceline mode --clear --all");
        assert_eq!(in_words(&off), "mode off for everything");
        let limit = OverLimit { bucket: Arc::from("account/requests"), units: 300, per: Some(Span::from_secs(60)) };
        let limited = control(What::Limit(limit), openai());
        assert_eq!(undo(&limited), "paceline limit --clear account/requests --provider openai");
        assert_eq!(in_words(&limited), "limit account/requests=300/min for openai/*");
    }
}
