//! What an answer that is not a success means for somebody with a new key, and what to do about it.

use hyper::header::LOCATION;
use paceline_core::signal::AnswerKind;
use paceline_signals::Reading;
use serde_json::Value;

use super::plan::Plan;
use super::secret::Key;
use super::wire::Answered;

/// The longest part of a provider's text that is shown.
const MOST_SHOWN: usize = 400;
/// Where providers say what is wrong.
const TEXTS: [&str; 7] = ["/error/message", "/message", "/detail", "/error", "/error_description", "/errors/0/message", "/msg"];

/// What is wrong with an answer; `None`: nothing.
pub(super) fn of(plan: &Plan, key: &Key, answered: &Answered, reading: &Reading) -> Option<String> {
    let status = answered.status.as_u16();
    if answered.status.is_success() && reading.signal.kind == AnswerKind::Ok {
        return None;
    }
    let title = plan.title();
    let wait = reading.signal.retry_after.map(|wait| format!(" It says to come back in {wait}.")).unwrap_or_default();
    let what = match (status, reading.signal.kind) {
        (401, _) => format!(
            "{title} does not take the key ({status}). Is the value of ${} whole, of this provider, and still valid?",
            key.variable()
        ),
        (403, AnswerKind::Rejected) => format!(
            "{title} knows the key, or this machine, and lets it not do this ({status}). Does the key have the right to call {}?",
            of_model(plan)
        ),
        (404, _) if plan.model.is_empty() => {
            format!("there is nothing at {} ({status}). Check --base-url", plan.url)
        }
        (404, _) => format!(
            "{title} has no {}, or this key may not use it, or the address {} is wrong ({status}). Name a model you use with --model",
            of_model(plan),
            plan.url
        ),
        (300..=399, _) => {
            let to = answered.headers.get(LOCATION).and_then(|to| to.to_str().ok()).unwrap_or("another address");
            format!(
                "{title} sends the call on to {to} ({status}). The key is not sent there; name that address with --base-url if it is right"
            )
        }
        (_, AnswerKind::Throttled) => format!(
            "{title} refused the call at once ({status}): the limit is used up by others with this key, or it is zero.{wait} \
             Try again {}, with --calls 1",
            if wait.is_empty() { "in a few minutes" } else { "then" }
        ),
        (_, AnswerKind::QuotaExhausted) => {
            format!("{title} refused the call ({status}): no credit, or a quota that is used up. Look at its billing page")
        }
        (_, AnswerKind::Overloaded | AnswerKind::Failed) => {
            format!("{title} is overloaded or broken at the moment ({status}), which is not your limit.{wait} Try again later")
        }
        _ => format!("{title} refused the call ({status}), for another reason than a limit"),
    };
    let said = words(&answered.body).map(|said| format!("\nIt says: {}", key.hide(&said))).unwrap_or_default();
    Some(key.scrub(&printable(&format!("{what}{said}"))))
}

fn of_model(plan: &Plan) -> String {
    if plan.model.is_empty() { plan.url.path().to_owned() } else { format!("model `{}`", plan.model) }
}

/// The sentence of an error's body; of one that is no JSON nothing, which is a page of somebody in between.
fn words(body: &[u8]) -> Option<String> {
    let json: Value = serde_json::from_slice(body).ok()?;
    let json = json.get(0).cloned().unwrap_or(json);
    let text = TEXTS.iter().find_map(|path| json.pointer(path)?.as_str())?.trim();
    let shown: String = text.chars().take(MOST_SHOWN).collect();
    (!shown.is_empty()).then_some(shown)
}

/// Text from outside, safe to print on a terminal.
pub(super) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' { '\u{fffd}' } else { c }).collect()
}
