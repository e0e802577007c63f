//! What the catalogue's rules match on: statuses and places in a body.

use std::fmt;

use serde::Deserialize;
use serde_json::Value;

/// A set of statuses: `429`, `5xx`, `520-527`. Empty matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "Vec<StatusRange>")]
pub(crate) struct Statuses(Vec<StatusRange>);

impl From<Vec<StatusRange>> for Statuses {
    fn from(ranges: Vec<StatusRange>) -> Self {
        Self(ranges)
    }
}

impl Statuses {
    /// Whether no status is named.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the status is in the set.
    pub(crate) fn contains(&self, status: u32) -> bool {
        self.0.iter().any(|range| (range.first..=range.last).contains(&status))
    }

    /// Whether any status of a success is in the set.
    pub(crate) fn touches_success(&self) -> bool {
        self.0.iter().any(|range| range.first < 400 && range.last >= 200)
    }
}

impl fmt::Display for Statuses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, range) in self.0.iter().enumerate() {
            f.write_str(if index == 0 { "" } else { ", " })?;
            match range {
                StatusRange { first, last } if first == last => write!(f, "{first}")?,
                StatusRange { first, last } if first % 100 == 0 && *last == first + 99 => write!(f, "{}xx", first / 100)?,
                StatusRange { first, last } => write!(f, "{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "StatusText")]
pub(crate) struct StatusRange {
    first: u32,
    last: u32,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum StatusText {
    Number(u32),
    Text(String),
}

impl TryFrom<StatusText> for StatusRange {
    type Error = String;

    fn try_from(text: StatusText) -> Result<Self, Self::Error> {
        let text = match text {
            StatusText::Number(status) => return Ok(Self { first: status, last: status }),
            StatusText::Text(text) => text,
        };
        let parse = |digits: &str| digits.trim().parse::<u32>().ok();
        let range = match (text.strip_suffix("xx"), text.split_once('-')) {
            (Some(class), _) => parse(class).map(|class| (class * 100, class * 100 + 99)),
            (None, Some((first, last))) => parse(first).zip(parse(last)),
            (None, None) => parse(&text).map(|status| (status, status)),
        };
        match range {
            Some((first, last)) if first <= last => Ok(Self { first, last }),
            _ => Err(format!("`{text}` is no status; write 429, 5xx or 520-527")),
        }
    }
}

/// A place in a JSON body: `/error/code`. Arrays are looked through; `**` stands for any depth.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct BodyPath(Vec<String>);

impl TryFrom<String> for BodyPath {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let segments: Vec<String> =
            text.strip_prefix('/').into_iter().flat_map(|rest| rest.split('/')).map(str::to_owned).collect();
        if segments.is_empty() || segments.iter().any(String::is_empty) || segments.last().is_some_and(|last| last == "**") {
            return Err(format!("`{text}` is no place in a body; write it as /error/code or /**/retry_after"));
        }
        Ok(Self(segments))
    }
}

impl fmt::Display for BodyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|segment| write!(f, "/{segment}"))
    }
}

impl BodyPath {
    /// Calls `found` with every value at this place.
    pub(crate) fn visit<'v>(&self, body: &'v Value, found: &mut dyn FnMut(&'v Value)) {
        descend(&self.0, body, found);
    }
}

/// The depth is bounded by serde_json's own limit on nesting.
fn descend<'v>(segments: &[String], value: &'v Value, found: &mut dyn FnMut(&'v Value)) {
    if let Value::Array(items) = value {
        return items.iter().for_each(|item| descend(segments, item, found));
    }
    let Some((segment, rest)) = segments.split_first() else { return found(value) };
    let Value::Object(members) = value else { return };
    if segment == "**" {
        descend(rest, value, found);
        members.values().for_each(|member| descend(segments, member, found));
    } else if let Some(member) = members.get(segment) {
        descend(rest, member, found);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn statuses() {
        let set: Statuses = serde_json::from_str(r#"[429, "5xx", "520-527"]"#).unwrap();
        for (status, is_in) in [(429, true), (500, true), (599, true), (600, false), (428, false)] {
            assert_eq!(set.contains(status), is_in, "{status}");
        }
        for bad in [r#"["often"]"#, r#"["527-520"]"#, r#"[-1]"#] {
            assert!(serde_json::from_str::<Statuses>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn places_in_a_body() {
        let body: Value =
            serde_json::from_str(r#"[{"error": {"details": [{"a": 1}, {"retryDelay": "5s"}], "retryDelay": "6s"}}]"#).unwrap();
        let at = |path: &str| {
            let mut texts = Vec::new();
            BodyPath::try_from(path.to_owned()).unwrap().visit(&body, &mut |value| texts.push(value.to_string()));
            texts.join(" ")
        };
        assert_eq!(at("/error/details/retryDelay"), "\"5s\"");
        assert_eq!(at("/**/retryDelay"), "\"6s\" \"5s\"");
        assert_eq!(at("/error/nothing"), "");
        for bad in ["", "error", "/", "/a//b", "/**"] {
            assert!(BodyPath::try_from(bad.to_owned()).is_err(), "{bad}");
        }
    }
}
