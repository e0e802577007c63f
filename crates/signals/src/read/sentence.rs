//! Waits that sentences state: `try again in 6.12s`, `replenished in 00:30:02`, `wait about 1 hour and 5 minutes`.

use paceline_core::units::{FleetTime, Span};

use super::clock::Clock;
use crate::value::time::{self, TimeForm, When};
use crate::value::{date, duration};

/// Words that may stand between the phrase and the time.
const FILLERS: [&str; 12] = [
    "about ",
    "approximately ",
    "approx. ",
    "around ",
    "roughly ",
    "another ",
    "at least ",
    "less than ",
    "up to ",
    "for ",
    "in ",
    "after ",
];

/// The longest wait stated after a phrase (lower case), in whole milliseconds. A number without a unit is seconds when nothing
/// follows that could be one.
pub(super) fn wait_after(text: &str, phrase: &str, clock: &Clock) -> Option<Span> {
    // Lower case of ASCII keeps every byte's place.
    let lower = text.to_ascii_lowercase();
    let stated = lower.match_indices(phrase).filter_map(|(position, _)| stated(lower.get(position + phrase.len()..)?, clock));
    stated.filter_map(|when| clock.until(when)).max()
}

fn stated(text: &str, clock: &Clock) -> Option<When> {
    let mut rest = text.trim_start_matches(|c: char| c == ' ' || (c.is_ascii_punctuation() && c != '-') || c == '≈');
    // A word such as `afternoon` is no filler with something behind it.
    while let Some(after) = FILLERS.iter().find_map(|filler| rest.strip_prefix(filler)) {
        rest = after.trim_start_matches(['~', '≈', ' ']);
    }
    if let Some(unit) = ["a ", "an ", "one "].iter().find_map(|article| rest.strip_prefix(article)) {
        return one_of(unit).map(When::In);
    }
    instant(rest, clock).or_else(|| length(rest).map(When::In)).or_else(|| bare_number(rest))
}

/// `a minute`, `an hour`: a second or a moment in prose is a manner of speaking.
fn one_of(unit: &str) -> Option<Span> {
    let words = [("minute", 60), ("hour", 3_600), ("day", 86_400), ("week", 7 * 86_400)];
    words.iter().find(|(word, _)| unit.starts_with(word)).map(|(_, secs)| Span::from_secs(*secs))
}

/// A length of time; of a range (`5-10 minutes`, `5 to 10 minutes`) the upper end.
fn length(text: &str) -> Option<Span> {
    let number_end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let after = text.get(number_end..).unwrap_or("").trim_start();
    let upper = ["-", "–", "to "].iter().find_map(|mark| after.strip_prefix(mark)).filter(|_| number_end > 0);
    let text = upper.map_or(text, str::trim_start);
    duration::leading_clock(text).or_else(|| duration::leading(text)).map(|(span, _)| span)
}

/// A date and time at the start of a sentence: RFC 3339, with a blank for `T` or `UTC` for `Z`, or an HTTP-date.
fn instant(text: &str, clock: &Clock) -> Option<When> {
    let end = text.find(['"', '\'', '(', ')', ';', '\n']).unwrap_or(text.len()).min(48);
    let words: Vec<&str> = text.get(..end)?.split(' ').filter(|word| !word.is_empty()).take(6).collect();
    let tidy = |word: &str| word.trim_end_matches(['.', ',', '!']).to_owned();
    let joined = |count: usize, blank: &str| words.get(..count).map(|words| tidy(&words.join(blank)));
    let zoned = || match words.get(..3)? {
        [date, time, zone] if matches!(tidy(zone).as_str(), "utc" | "gmt" | "z") => Some(format!("{date}t{time}z")),
        _ => None,
    };
    let rfc3339 = [joined(1, ""), joined(2, "t"), zoned()].into_iter().flatten().find_map(|text| date::rfc3339(&text));
    let http_date = || (1..=words.len()).rev().find_map(|count| date::http_date(&joined(count, " ")?, clock.near()));
    let is_named = text.starts_with(|c: char| c.is_ascii_alphabetic());
    rfc3339.or_else(|| is_named.then(http_date).flatten()).map(When::At)
}

/// `retry after 9.` is seconds (or an epoch), `retry after 9 lives` and `retry after 9/10` are nothing: what follows must neither
/// be a unit nor part of the number.
fn bare_number(text: &str) -> Option<When> {
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, rest) = text.split_at_checked(end)?;
    let ends_sentence = number.ends_with('.') || rest.trim_start().is_empty();
    let ends_clause = rest.starts_with(['"', '\'', ')', ']', ';', '!', '\n', '\r']);
    let is_followed_by_words = rest.strip_prefix(", ").is_some_and(|after| after.starts_with(|c: char| c.is_alphabetic()));
    let number = number.trim_end_matches('.');
    (ends_sentence || ends_clause || is_followed_by_words)
        .then(|| time::parse(number, &[TimeForm::SecondsOrEpoch], FleetTime::ZERO))
        .flatten()
        .map(|(when, _)| when)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Wed, 12 Aug 2026 09:40:00 GMT.
    const CLOCK: Clock = Clock { now: Some(FleetTime::from_secs(1_786_527_600)), is_servers: true };

    #[test]
    fn sentences() {
        for (text, phrase, millis) in [
            ("Please try again in 6.12s. Visit", "try again in", Some(6_120)),
            ("Please try again in 28ms.", "try again in", Some(28)),
            ("Please Try Again In 1m30.5s.", "try again in", Some(90_500)),
            ("Please try again in 7m12.345s. Need more?", "try again in", Some(432_345)),
            ("retry after 33 seconds", "retry after", Some(33_000)),
            ("retry after 86,400 seconds.", "retry after", Some(86_400_000)),
            ("Too Many Requests: retry after 9", "retry after", Some(9_000)),
            ("retry after 9.", "retry after", Some(9_000)),
            ("retry after 9. Then", "retry after", Some(9_000)),
            ("retry after 9, please", "retry after", Some(9_000)),
            ("(retry after 9)", "retry after", Some(9_000)),
            ("retry after 9 lives", "retry after", None),
            ("retry after 9/10", "retry after", None),
            ("retry after 9,5", "retry after", None),
            ("retry after 1786527660", "retry after", Some(60_000)),
            ("try again in 5-10 minutes", "try again in", Some(600_000)),
            ("try again in 5 to 10 minutes", "try again in", Some(600_000)),
            ("wait 1 hour and 5 minutes", "wait", Some(3_900_000)),
            ("wait 1 hour, 5 minutes, then go", "wait", Some(3_900_000)),
            ("wait 2 minute(s) 5 second(s).", "wait", Some(125_000)),
            ("please wait for about 20 seconds before", "please wait", Some(20_000)),
            ("try again in an hour", "try again in", Some(3_600_000)),
            ("try again in a minute.", "try again in", Some(60_000)),
            ("try again in a second", "try again in", None),
            ("try again in a few minutes", "try again in", None),
            ("resets in ~5s.", "resets in", Some(5_000)),
            ("resets in: `5s`", "resets in", Some(5_000)),
            ("replenished in 00:30:02.", "replenished in", Some(1_802_000)),
            ("replenished in 1.00:30:02.", "replenished in", Some(88_202_000)),
            ("replenished in 2.12 days.", "replenished in", Some(183_168_000)),
            ("resets at 2026-08-12T09:41:00Z.", "resets at", Some(60_000)),
            ("resets at 2026-08-12 09:41:00 UTC", "resets at", Some(60_000)),
            ("resets at 2026-08-12 11:41:00+02:00.", "resets at", Some(60_000)),
            ("resets at 2026-08-12 09:41:00.", "resets at", None),
            ("retry after Wed, 12 Aug 2026 09:41:00 GMT.", "retry after", Some(60_000)),
            ("resets at midnight", "resets at", None),
            ("try again in -5s", "try again in", None),
            ("try again in a while", "try again in", None),
            ("try again in 5s or try again in 7s", "try again in", Some(7_000)),
            ("try again in PT1M30S.", "try again in", Some(90_000)),
            ("try again in", "try again in", None),
            ("", "try again in", None),
        ] {
            assert_eq!(wait_after(text, phrase, &CLOCK).map(Span::as_millis_ceil), millis, "{text}");
        }
    }
}
