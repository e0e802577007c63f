//! Calls of the past, from a recording of `paceline serve --record`.
//!
//! Attempts of one call are put together again: it came when its first attempt was asked for, cost what its last one used, and
//! took as long as that one did. How long it waited then says something about the service of that time, and nothing about the call.

use std::collections::HashMap;

use paceline_coordinator::trace::{FORM, Heading, Line};
use paceline_core::units::{FleetTime, Span};

use super::{CallsError, LONGEST, MOST_CALLS, MOST_UNITS, PastCall, PastCalls, add_total, from_the_first_on};

/// Reads a recording; `file` is what it is called in messages. `account` (provider and account) says whose calls are meant, where
/// it holds those of several.
///
/// # Errors
/// What is no recording, or one of another form; the first line that cannot be read; several accounts, and none was named.
pub fn read_trace(file: &str, text: &str, account: Option<(&str, &str)>) -> Result<PastCalls, CallsError> {
    let whole = |problem: String| CallsError::File { file: file.to_owned(), problem };
    let lines = lines(file, text)?;
    let of_account = choose(&lines, account).map_err(whole)?;
    let calls = together(&of_account);
    if calls.len() > MOST_CALLS {
        return Err(whole(format!("more than {MOST_CALLS} calls; cut the file into pieces, each with its first line")));
    }
    let past = calls.into_iter().map(|call| (i128::from(call.at.as_micros()), call.past())).collect();
    Ok(PastCalls { calls: from_the_first_on(past).map_err(whole)?, ignored: Vec::new() })
}

/// All attempts. A line that a crash cut off is left out: the last one of the file, or the last one before another heading.
fn lines(file: &str, text: &str) -> Result<Vec<Line>, CallsError> {
    let whole = |problem: String| CallsError::File { file: file.to_owned(), problem };
    let mut lines = Vec::new();
    let mut texts = text.lines().enumerate().peekable();
    let mut is_headed = false;
    while let Some((index, line)) = texts.next() {
        if let Ok(Heading { paceline_trace: form }) = serde_json::from_str(line) {
            if form != FORM {
                return Err(whole(format!(
                    "it is a recording of form {form}, and this release reads form {FORM}; use the paceline that wrote it"
                )));
            }
            is_headed = true;
            continue;
        }
        if !is_headed {
            return Err(whole("it is no recording of `paceline serve --record`; for a CSV there is --calls".to_owned()));
        }
        let bad = |problem: String| CallsError::Line { file: file.to_owned(), line: index + 1, problem };
        match serde_json::from_str::<Line>(line) {
            Ok(line) if line.class().is_none() => {
                return Err(bad(format!("`{}` is no class; interactive, normal and batch are", line.class)));
            }
            Ok(line) if line.stated.values().chain(line.used.values()).any(|units| *units > MOST_UNITS) => {
                return Err(bad("a cost of more than 10^15 units".to_owned()));
            }
            Ok(line) if line.took().is_some_and(|took| took > LONGEST || took < Span::ZERO) => {
                return Err(bad("it took no time between 0 and 31 days".to_owned()));
            }
            Ok(line) => lines.push(line),
            Err(error) => {
                let is_cut_off =
                    texts.peek().is_none_or(|(_, next)| serde_json::from_str::<Heading>(next).is_ok()) && error.is_eof();
                if !is_cut_off {
                    return Err(bad(format!("it cannot be read: {error}")));
                }
            }
        }
    }
    if lines.is_empty() {
        return Err(whole("no call was recorded in it".to_owned()));
    }
    Ok(lines)
}

fn choose<'a>(lines: &'a [Line], account: Option<(&str, &str)>) -> Result<Vec<&'a Line>, String> {
    let own = |line: &Line| (line.provider.clone(), line.account.clone());
    let mut all: Vec<(String, String)> = lines.iter().map(own).collect();
    all.sort();
    all.dedup();
    let names = || all.iter().map(|(provider, account)| format!("{provider}/{account}")).collect::<Vec<_>>().join(", ");
    let (provider, name) = match (account, all.as_slice()) {
        (Some(account), _) => account,
        (None, [(provider, name)]) => (provider.as_str(), name.as_str()),
        (None, _) => {
            return Err(format!("it holds calls of several accounts; say which are meant with --account: {}", names()));
        }
    };
    let chosen: Vec<&Line> = lines.iter().filter(|line| line.provider == provider && line.account == name).collect();
    if chosen.is_empty() {
        return Err(format!("it holds no call of {provider}/{name}; it has: {}", names()));
    }
    Ok(chosen)
}

/// One call, put together from its attempts.
struct Attempts<'a> {
    at: FleetTime,
    first: &'a Line,
    last: &'a Line,
}

/// The calls in the order in which their first attempts were noted.
fn together<'a>(lines: &[&'a Line]) -> Vec<Attempts<'a>> {
    let mut index_of: HashMap<&str, usize> = HashMap::new();
    let mut calls: Vec<Attempts<'a>> = Vec::new();
    for line in lines {
        let index = *index_of.entry(line.call.as_str()).or_insert_with(|| {
            calls.push(Attempts { at: line.at(), first: line, last: line });
            calls.len() - 1
        });
        if let Some(call) = calls.get_mut(index) {
            call.at = call.at.min(line.at());
            if line.attempt < call.first.attempt {
                call.first = line;
            }
            // A denial says nothing of what the call costs.
            if line.attempt >= call.last.attempt && (line.took().is_some() || call.last.took().is_none()) {
                call.last = line;
            }
        }
    }
    calls
}

impl Attempts<'_> {
    fn past(&self) -> PastCall {
        let pairs = |units: &std::collections::BTreeMap<String, u64>| {
            let mut pairs: Vec<(String, u64)> = units.iter().map(|(meter, units)| (meter.clone(), *units)).collect();
            add_total(&mut pairs);
            pairs
        };
        let stated = pairs(&self.first.stated);
        let cost = if self.last.used.is_empty() { stated.clone() } else { pairs(&self.last.used) };
        PastCall {
            at: Span::ZERO,
            model: self.first.model.as_str().into(),
            class: self.first.class().unwrap_or_default(),
            tenant: self.first.tenant.clone(),
            cost,
            stated: Some(stated),
            duration: self.last.took().filter(|_| self.last.went_well()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;

    const HEADING: &str = "{\"paceline_trace\":1}\n";

    fn line(call: &str, attempt: u32, at_us: i64, more: &str) -> String {
        format!(
            "{{\"at_us\":{at_us},\"call\":\"{call}\",\"attempt\":{attempt},\"provider\":\"openai\",\"account\":\"prod\",\
             \"model\":\"gpt-4o\",\"class\":\"normal\",\"tenant\":\"ads\",\"waited_us\":0,{more}}}\n"
        )
    }

    fn done(took_us: i64, used: &str) -> String {
        format!(
            "\"took_us\":{took_us},\"outcome\":\"response\",\"status\":200,\"verdict\":\"done\",\
             \"stated\":{{\"tokens\":900}},\"used\":{{{used}}}"
        )
    }

    const REFUSED: &str =
        "\"took_us\":50000,\"outcome\":\"response\",\"status\":429,\"verdict\":\"retry\",\"stated\":{\"tokens\":900}";
    const DENIED: &str = "\"took_us\":null,\"outcome\":\"denied\",\"reason\":\"deadline\"";

    fn read(text: &str) -> Result<PastCalls, String> {
        read_trace("calls.jsonl", text, None).map_err(|error| error.to_string())
    }

    #[test]
    fn attempts_become_calls_again() {
        let text = [
            HEADING.to_owned(),
            line("b", 1, 7_000_000, &done(400_000, "")),
            line("a", 1, 5_000_000, REFUSED),
            line("a", 2, 9_000_000, &done(800_000, "\"input_tokens\":300,\"output_tokens\":20")),
            line("c", 1, 9_500_000, DENIED),
        ];
        let past = read(&text.concat()).unwrap();
        let calls: Vec<(Span, Option<Span>)> = past.calls.iter().map(|call| (call.at, call.duration)).collect();
        let millis = Span::from_millis;
        assert_eq!(calls, [(millis(0), Some(millis(800))), (millis(2_000), Some(millis(400))), (millis(4_500), None)]);
        let cost = |nth: usize| past.calls[nth].cost.iter().find(|(meter, _)| meter == "tokens").map(|(_, units)| *units);
        assert_eq!((cost(0), cost(1), cost(2)), (Some(320), Some(900), None), "as used, else as stated, else one request");
        assert_eq!(past.calls[0].stated, Some(vec![("tokens".to_owned(), 900)]));
        assert_eq!((past.calls[0].tenant.as_str(), &*past.calls[0].model), ("ads", "gpt-4o"));
    }

    #[test]
    fn what_a_crash_cut_off_is_left_out_and_nothing_else() {
        let whole = line("a", 1, 0, &done(1, ""));
        let cut = &whole[..40];
        assert_eq!(read(&format!("{HEADING}{whole}{cut}")).unwrap().calls.len(), 1);
        assert_eq!(read(&format!("{HEADING}{cut}\n{HEADING}{whole}")).unwrap().calls.len(), 1);
        let error = read(&format!("{HEADING}{cut}\n{whole}")).unwrap_err();
        assert!(error.starts_with("calls.jsonl, line 2: it cannot be read"), "{error}");
    }

    #[test]
    fn what_cannot_be_used_is_told() {
        let other = line("b", 1, 0, &done(1, "")).replace("prod", "test");
        for (text, words) in [
            ("time,tokens\n0,1\n".to_owned(), "no recording of `paceline serve --record`; for a CSV there is --calls"),
            ("{\"paceline_trace\":9}\n".to_owned(), "form 9"),
            (HEADING.to_owned(), "no call was recorded"),
            (String::new(), "no call was recorded"),
            (format!("{HEADING}{}", line("a", 1, 0, DENIED).replace("normal", "urgent")), "line 2: `urgent` is no class"),
            (format!("{HEADING}{}", line("a", 1, 0, &done(-1, ""))), "between 0 and 31 days"),
            (format!("{HEADING}{}{other}", line("a", 1, 0, DENIED)), "--account: openai/prod, openai/test"),
        ] {
            let error = read(&text).unwrap_err();
            assert!(error.contains(words) && error.starts_with("calls.jsonl"), "{text}\n{error}");
        }
        let two = format!("{HEADING}{}{other}", line("a", 1, 0, DENIED));
        assert_eq!(read_trace("calls.jsonl", &two, Some(("openai", "test"))).unwrap().calls.len(), 1);
        let error = read_trace("calls.jsonl", &two, Some(("openai", "dev"))).unwrap_err().to_string();
        assert!(error.contains("no call of openai/dev; it has: openai/prod, openai/test"), "{error}");
    }
}
