//! What one header value says about a bucket: one figure, or several.

use paceline_core::units::Span;

use super::clock::Clock;
use crate::catalogue::{PartFact, Quantity};
use crate::value::number::Number;
use crate::value::structured::{self, Bare};
use crate::value::time::{self, TimeForm, When};

/// One figure of a header.
pub(super) enum Figure {
    Limit(i64, Option<Span>),
    Remaining(i64),
    Used(i64),
    Reset(When),
    Window(Span),
    Fill(i64),
    /// Whether it is used up.
    Spent(bool),
}

/// Hands over every figure of a trimmed value; `false` when some of it, or all, could not be read.
pub(super) fn read(value: &str, fact: &PartFact, clock: &Clock, found: &mut dyn FnMut(Figure)) -> bool {
    match fact.reads {
        Quantity::Usage => usage(value, found),
        Quantity::Members => members(value, fact, clock, found),
        _ => figure(value, fact, clock).map(found).is_some(),
    }
}

fn figure(value: &str, fact: &PartFact, clock: &Clock) -> Option<Figure> {
    let count = || cautious(value, counted, |one, other| one.as_millionths() <= other.as_millionths()).map(Number::as_count);
    let later = |one: &When, other: &When| clock.until(*one) >= clock.until(*other);
    let when = |forms: &[TimeForm]| cautious(value, |text| Some(time::parse(text, forms, clock.near())?.0), later);
    match fact.reads {
        Quantity::Limit => limit(value).map(|(limit, window)| Figure::Limit(limit, window)),
        Quantity::Remaining => count().map(Figure::Remaining),
        Quantity::Used => count().filter(|used| *used >= 0).map(Figure::Used),
        // In the form that its file knows, else in one that its looks give away.
        Quantity::Reset => when(&fact.forms).or_else(|| when(time::BY_LOOKS)).map(Figure::Reset),
        Quantity::Window => match when(&fact.forms)? {
            When::In(span) if span > Span::ZERO => Some(Figure::Window(span)),
            _ => None,
        },
        Quantity::Share => Number::parse(value).map(|share| Figure::Spent(share.as_millionths() >= 1_000_000)),
        Quantity::Percent => percent(value).map(|share| Figure::Spent(share.as_millionths() >= 100_000_000)),
        Quantity::State => Some(Figure::Spent(fact.empty.iter().any(|word| word.eq_ignore_ascii_case(value)))),
        Quantity::Fill => count().filter(|fill| *fill > 0).map(Figure::Fill),
        Quantity::Usage | Quantity::Members => None,
    }
}

/// A number, or one with parameters that describe the policy (`0;w=21600`), as drafts 00 to 06 allow for limits only.
fn counted(value: &str) -> Option<Number> {
    let with_parameters = || structured::list(value).filter(|items| items.len() == 1)?.first()?.value.number();
    Number::parse(value).or_else(with_parameters)
}

/// One value, or the most cautious of several: an intermediary may make one line of repeated ones. A date has a comma of its own,
/// and so has `1,000`, which is why a comma without a blank separates nothing.
fn cautious<T>(value: &str, parse: impl Fn(&str) -> Option<T>, is_better: impl Fn(&T, &T) -> bool) -> Option<T> {
    let all = || -> Option<Vec<T>> { value.split(", ").map(|part| parse(part.trim())).collect() };
    parse(value).or_else(|| all()?.into_iter().reduce(|one, other| if is_better(&one, &other) { one } else { other }))
}

/// `100.3%` or `100.3`.
fn percent(value: &str) -> Option<Number> {
    Number::parse(value.strip_suffix('%').map_or(value, str::trim_end))
}

/// `40/40`: used, then the limit. What stands in parentheses behind it only names whose it is.
fn usage(value: &str, found: &mut dyn FnMut(Figure)) -> bool {
    let value = value.split_once('(').map_or(value, |(value, _)| value);
    let count = |text: &str| Number::parse(text.trim()).filter(|number| !number.negative).map(Number::as_count);
    let both = value.split_once('/').and_then(|(used, limit)| count(used).zip(count(limit)));
    if let Some((used, limit)) = both {
        found(Figure::Limit(limit, None));
        found(Figure::Used(used));
    }
    both.is_some()
}

/// `total=100; remaining=99; resets=41`, with semicolons or commas. At least one of the known names must be there, and each of
/// those that are must be readable.
fn members(value: &str, fact: &PartFact, clock: &Clock, found: &mut dyn FnMut(Figure)) -> bool {
    let (mut known, mut readable) = (0_usize, 0_usize);
    for (name, value) in value.split([';', ',']).filter_map(|member| member.split_once('=')) {
        let member = fact.members.iter().find(|(known, _)| known.eq_ignore_ascii_case(name.trim()));
        if let Some((_, member)) = member {
            known += 1;
            let value = value.trim().trim_matches('"');
            // Members do not nest.
            let is_read = match member.reads {
                Quantity::Usage => usage(value, found),
                _ => figure(value, member, clock).map(&mut *found).is_some(),
            };
            readable += usize::from(is_read);
        }
    }
    known > 0 && known == readable
}

/// A limit alone, or the list of drafts 00 to 06: the limit in force, then policies with their windows (`100, 100;w=60`).
fn limit(value: &str) -> Option<(i64, Option<Span>)> {
    if let Some(number) = Number::parse(value) {
        return Some((number.as_count(), None));
    }
    let items = structured::list(value)?;
    let policies: Option<Vec<(i64, Option<Span>)>> = items
        .iter()
        .map(|item| {
            let window = item.parameter("w").or_else(|| item.parameter("window")).and_then(Bare::number);
            Some((item.value.number()?.as_count(), window.map(|window| window.as_span(1_000_000))))
        })
        .collect();
    let policies = policies?;
    let ((first, own_window), rest) = policies.split_first()?;
    // Numbers without any window are no list of policies: `1,000` must not be read as 1.
    if own_window.is_none() && rest.iter().all(|(_, window)| window.is_none()) {
        return rest.iter().all(|(other, _)| other == first).then_some((*first, None));
    }
    // The window of the limit in force: its own when it is the only one, else that of the one policy with the same limit.
    let window = match (own_window, rest) {
        (Some(window), []) => Some(*window),
        (Some(_), _) => None,
        (None, _) => rest.iter().find(|(other, _)| other == first).and_then(|(_, window)| *window),
    };
    Some((*first, window.filter(|window| *window > Span::ZERO)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn least(value: &str) -> Option<i64> {
        cautious(value, Number::parse, |one, other| one.as_millionths() <= other.as_millionths()).map(Number::as_count)
    }

    #[test]
    fn joined_lines_count_with_their_most_cautious_value() {
        for (value, expected) in [
            ("7", Some(7)),
            ("7, 3", Some(3)),
            ("3, 7, 5", Some(3)),
            ("7, -1", Some(-1)),
            ("1,000", None),
            ("7, soon", None),
            ("7, ", None),
            (", 7", None),
            ("", None),
        ] {
            assert_eq!(least(value), expected, "{value}");
        }
    }
}
