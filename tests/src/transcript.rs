//! Reads the conversations under `docs/transcripts`; `docs/transcripts/README.md` explains the language.
//!
//! Only the form is read here (times, who, words). What the words mean is for those who execute a conversation.

use std::fmt;

/// One conversation.
#[derive(Clone, Debug)]
pub struct Transcript {
    /// The configuration it happens under, YAML.
    pub config: String,
    /// What happens and what is answered, in order.
    pub steps: Vec<Step>,
}

/// One line, with those that continue it.
#[derive(Clone, Debug)]
pub struct Step {
    /// Where it stands in the file, from 1.
    pub line: usize,
    /// When, from the beginning.
    pub at: Between,
    /// Which call.
    pub who: String,
    /// Whether Paceline answers here (otherwise a worker does something).
    pub is_answer: bool,
    /// What is done or answered.
    pub words: Words,
    /// Continuing lines: headers of a report, `then ...` of an answer.
    pub more: Vec<String>,
}

/// A verb, its operands, its fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Words {
    /// The first word.
    pub verb: String,
    /// Words without `=`.
    pub operands: Vec<String>,
    /// `name=value`, and `name~value` under the name `name~`.
    pub fields: Vec<(String, String)>,
}

/// From and to, in microseconds; the same where only one value will do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Between {
    /// The least.
    pub from_us: u64,
    /// The most.
    pub to_us: u64,
}

/// What is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

impl Transcript {
    /// Reads a whole file.
    pub fn parse(text: &str) -> Result<Self, Problem> {
        let mut config = None;
        let mut steps: Vec<Step> = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let problem = |what: &str| Problem { line: index + 1, what: what.to_owned() };
            let trimmed = line.trim_start();
            if line == "config:" && config.is_none() {
                config = Some(String::new());
            } else if let Some(more) = trimmed.strip_prefix("| ") {
                let step = steps.last_mut().ok_or_else(|| problem("continues nothing"))?;
                step.more.push(more.trim().to_owned());
            } else if line.starts_with("at ") {
                let step = Step::parse(line).map_err(|what| problem(&what))?;
                if steps.last().is_some_and(|last| last.at.from_us > step.at.from_us) {
                    return Err(problem("earlier than the line before"));
                }
                steps.push(Step { line: index + 1, ..step });
            } else if let Some(yaml) = config.as_mut().filter(|_| steps.is_empty() && line.starts_with("  ")) {
                yaml.push_str(line.strip_prefix("  ").unwrap_or(line));
                yaml.push('\n');
            } else if !trimmed.is_empty() && !line.starts_with('#') {
                return Err(problem("neither `config:`, `at ...`, `| ...` nor a comment"));
            }
        }
        let config = config.ok_or(Problem { line: 1, what: "there is no `config:`".to_owned() })?;
        Ok(Self { config, steps })
    }
}

impl Step {
    fn parse(line: &str) -> Result<Self, String> {
        let mut rest = line.split_whitespace().skip(1);
        let at = rest.next().and_then(Between::parse).ok_or("after `at` comes a time such as 0.5s or 1s..2s")?;
        let who = rest.next().ok_or("after the time comes the name of a call")?.to_owned();
        let words: Vec<&str> = rest.collect();
        let is_answer = words.first() == Some(&"<");
        let words = Words::parse(words.get(usize::from(is_answer)..).unwrap_or_default().iter().copied())?;
        if !is_answer && at.from_us != at.to_us {
            return Err("a worker acts at one time".to_owned());
        }
        Ok(Self { line: 0, at, who, is_answer, words, more: Vec::new() })
    }
}

impl Words {
    /// Reads a verb and what follows it.
    pub fn parse<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        let mut words = words.into_iter();
        let verb = words.next().ok_or("nothing is done or answered")?.to_owned();
        let mut read = Self { verb, ..Self::default() };
        for word in words {
            match (word.split_once('='), word.split_once('~')) {
                (Some((name, value)), _) => read.fields.push((name.to_owned(), value.to_owned())),
                (None, Some((name, value))) => read.fields.push((format!("{name}~"), value.to_owned())),
                (None, None) => read.operands.push(word.to_owned()),
            }
        }
        Ok(read)
    }
}

impl Between {
    /// Reads `1.5s`, `250ms`, `2min`, `1h`, or two of them with `..` between.
    pub fn parse(text: &str) -> Option<Self> {
        let (from, to) = text.split_once("..").unwrap_or((text, text));
        let (from_us, to_us) = (micros(from)?, micros(to)?);
        (from_us <= to_us).then_some(Self { from_us, to_us })
    }

    /// Whether `us` lies within, give or take `slack_us`.
    pub fn holds(&self, us: u64, slack_us: u64) -> bool {
        us.saturating_add(slack_us) >= self.from_us && us <= self.to_us.saturating_add(slack_us)
    }
}

/// Exact: whole and fraction are read as integers.
fn micros(text: &str) -> Option<u64> {
    let digits = text.find(|letter: char| letter.is_ascii_alphabetic())?;
    let (number, unit) = text.split_at_checked(digits)?;
    let unit_us: u64 = match unit {
        "ms" => 1_000,
        "s" => 1_000_000,
        "min" => 60_000_000,
        "h" => 3_600_000_000,
        _ => return None,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let scale = 10_u64.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let fraction = if fraction.is_empty() { 0 } else { fraction.parse::<u64>().ok()? };
    let parts = whole.parse::<u64>().ok()?.checked_mul(scale)?.checked_add(fraction)?;
    Some(parts.checked_mul(unit_us)? / scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_exactly() {
        for (text, expected) in [
            ("0s", Some((0, 0))),
            ("0.5s", Some((500_000, 500_000))),
            ("250ms", Some((250_000, 250_000))),
            ("1.25s..2min", Some((1_250_000, 120_000_000))),
            ("16.2s", Some((16_200_000, 16_200_000))),
            ("2s..1s", None),
            ("2", None),
            ("s", None),
            ("-1s", None),
            ("1.s2", None),
        ] {
            let read = Between::parse(text).map(|between| (between.from_us, between.to_us));
            assert_eq!(read, expected, "{text}");
        }
    }

    #[test]
    fn a_conversation_is_read_line_by_line() {
        let text =
            "# Title\n\nconfig:\n  a:\n    b: 1\n\nat 0s A acquire x/y/z tokens=3\n  | more\nat 1s A < denied detail~why now\n";
        let read = Transcript::parse(text).unwrap();
        assert_eq!(read.config, "a:\n  b: 1\n");
        let [ask, answer] = read.steps.as_slice() else { panic!("two steps") };
        assert_eq!((ask.line, ask.who.as_str(), ask.is_answer), (7, "A", false));
        assert_eq!(ask.words.fields, [("tokens".to_owned(), "3".to_owned())]);
        assert_eq!(ask.more, ["more"]);
        assert!(answer.is_answer && answer.words.operands == ["now"]);
        assert_eq!(answer.words.fields, [("detail~".to_owned(), "why".to_owned())]);
    }

    #[test]
    fn mistakes_name_their_line() {
        for (text, line) in [
            ("at 0s A acquire", 1),
            ("config:\nat x A acquire", 2),
            ("config:\nat 0s..1s A acquire", 2),
            ("config:\nat 1s A acquire\nat 0s A acquire", 3),
            ("config:\n| lost", 2),
            ("config:\nnonsense", 2),
        ] {
            assert_eq!(Transcript::parse(text).map(|_| ()).unwrap_err().line, line, "{text}");
        }
    }
}
