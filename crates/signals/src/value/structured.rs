//! Structured field values (RFC 9651): the lists and dictionaries that the RateLimit fields use. A field that does not parse as a
//! whole is ignored as a whole (section 4.2).

use super::number::Number;

/// An item with its parameters.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Item {
    /// The item itself.
    pub(crate) value: Bare,
    /// Its parameters in order.
    pub(crate) parameters: Vec<(String, Bare)>,
}

impl Item {
    /// The last parameter of that name (a repeated one overrides).
    pub(crate) fn parameter(&self, name: &str) -> Option<&Bare> {
        self.parameters.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value)
    }
}

/// A bare item.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Bare {
    /// An integer or a decimal.
    Number(Number),
    /// A quoted string, unescaped.
    String(String),
    /// A token.
    Token(String),
    /// Something the RateLimit fields carry and we do not need: bytes, a date, a boolean.
    Other,
}

impl Bare {
    pub(crate) fn number(&self) -> Option<Number> {
        match self {
            Self::Number(number) => Some(*number),
            _ => None,
        }
    }

    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::String(text) | Self::Token(text) => Some(text),
            _ => None,
        }
    }
}

/// Parses a list (section 4.2.1) of items; inner lists are not understood.
pub(crate) fn list(text: &str) -> Option<Vec<Item>> {
    members(text, |cursor| Some(Item { value: cursor.bare()?, parameters: cursor.parameters()? }))
}

/// Parses what is nearly a list: items that are joined by semicolons where commas belong, so that they share their parameters
/// (`"fixed window";"api";q=500;w=300`). Each group comes out as items that all have those.
pub(crate) fn list_of_fused(text: &str) -> Option<Vec<Vec<Item>>> {
    let groups = members(text, |cursor| {
        let (mut values, mut parameters) = (vec![cursor.bare()?], Vec::new());
        loop {
            parameters.append(&mut cursor.parameters()?);
            let is_item = cursor.rest.starts_with(';') && cursor.rest.trim_start_matches([';', ' ']).starts_with('"');
            if !is_item || values.len() > MOST_MEMBERS {
                return Some((values, parameters));
            }
            cursor.eat(';');
            cursor.skip_blanks();
            values.push(cursor.bare()?);
        }
    })?;
    let item = |(values, parameters): (Vec<Bare>, Vec<(String, Bare)>)| {
        values.into_iter().map(|value| Item { value, parameters: parameters.clone() }).collect()
    };
    Some(groups.into_iter().map(item).collect())
}

/// Parses a dictionary (section 4.2.2); a member without `=` is `true`.
pub(crate) fn dictionary(text: &str) -> Option<Vec<(String, Item)>> {
    members(text, |cursor| {
        let key = cursor.key()?;
        let value = if cursor.eat('=') { cursor.bare()? } else { Bare::Other };
        Some((key, Item { value, parameters: cursor.parameters()? }))
    })
}

/// What lies between commas; more than [`MOST_MEMBERS`] is not a RateLimit field.
fn members<T>(text: &str, mut member: impl FnMut(&mut Cursor<'_>) -> Option<T>) -> Option<Vec<T>> {
    let mut cursor = Cursor { rest: text.trim_matches(' ') };
    let mut found = Vec::new();
    loop {
        found.push(member(&mut cursor)?);
        cursor.skip_blanks();
        if cursor.rest.is_empty() {
            return Some(found);
        }
        if !cursor.eat(',') || found.len() >= MOST_MEMBERS {
            return None;
        }
        cursor.skip_blanks();
    }
}

const MOST_MEMBERS: usize = 64;

struct Cursor<'a> {
    rest: &'a str,
}

impl<'a> Cursor<'a> {
    fn eat(&mut self, expected: char) -> bool {
        match self.rest.strip_prefix(expected) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn skip_blanks(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t']);
    }

    fn take_while(&mut self, accept: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !accept(c)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at_checked(end).unwrap_or((self.rest, ""));
        self.rest = rest;
        taken
    }

    fn key(&mut self) -> Option<String> {
        let starts_well = self.rest.starts_with(|c: char| c.is_ascii_lowercase() || c == '*');
        starts_well.then(|| {
            self.take_while(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-' | '.' | '*')).to_owned()
        })
    }

    fn parameters(&mut self) -> Option<Vec<(String, Bare)>> {
        let mut parameters = Vec::new();
        while self.rest.starts_with(';') && !self.rest.trim_start_matches([';', ' ']).starts_with('"') {
            self.eat(';');
            self.skip_blanks();
            let key = self.key()?;
            let value = if self.eat('=') { self.bare()? } else { Bare::Other };
            parameters.push((key, value));
            if parameters.len() > MOST_MEMBERS {
                return None;
            }
        }
        Some(parameters)
    }

    fn bare(&mut self) -> Option<Bare> {
        match self.rest.chars().next()? {
            '"' => self.string().map(Bare::String),
            '-' | '0'..='9' => Number::parse(self.take_while(|c| c.is_ascii_digit() || c == '-' || c == '.')).map(Bare::Number),
            ':' => {
                self.eat(':');
                self.take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '='));
                self.eat(':').then_some(Bare::Other)
            }
            '?' => {
                self.eat('?');
                (self.eat('0') || self.eat('1')).then_some(Bare::Other)
            }
            '@' => {
                self.eat('@');
                Number::parse(self.take_while(|c| c.is_ascii_digit() || c == '-')).map(|_| Bare::Other)
            }
            first if first.is_ascii_alphabetic() || first == '*' => {
                Some(Bare::Token(self.take_while(is_token_character).to_owned()))
            }
            _ => None,
        }
    }

    fn string(&mut self) -> Option<String> {
        let mut text = String::new();
        let mut characters = self.rest.char_indices().skip(1);
        while let Some((position, character)) = characters.next() {
            match character {
                '"' => {
                    self.rest = self.rest.get(position + 1..)?;
                    return Some(text);
                }
                '\\' => match characters.next()? {
                    (_, escaped @ ('"' | '\\')) => text.push(escaped),
                    _ => return None,
                },
                ' '..='~' => text.push(character),
                _ => return None,
            }
        }
        None
    }
}

fn is_token_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~:/".contains(c)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;

    fn count(text: &str) -> Option<usize> {
        list(text).map(|items| items.len())
    }

    #[test]
    fn lists() {
        for (text, items) in [
            ("\"default\";r=50;t=30", Some(1)),
            ("\"a\";r=1, \"b\";r=0;t=7", Some(2)),
            ("\"a;r=9, b\";r=0;t=7", Some(1)),
            ("default;r=0;t=30", Some(1)),
            ("10;w=1, 50;w=60", Some(2)),
            ("\"peruser\";r=0;t=9;pk=:cHsdsRa894==:", Some(1)),
            ("default;r=0;t=30 garbage", None),
            ("limit=100, remaining=0", None),
            ("\"fixed window\";\"api\";q=500", None),
            (";w=21600", None),
            ("\"a\", ", None),
            ("\"open", None),
            ("", None),
        ] {
            assert_eq!(count(text), items, "{text}");
        }
        let quoted = &list("\"a\\\"b\";r=0").unwrap()[0];
        assert_eq!(quoted.value.text(), Some("a\"b"));
        assert_eq!(quoted.parameter("r").and_then(Bare::number).map(Number::as_count), Some(0));
    }

    #[test]
    fn fused_items_share_their_parameters() {
        let groups = list_of_fused("\"fixed window\";\"api\";q=500;w=300, \"pages\";q=100").unwrap();
        let figures: Vec<_> = groups
            .iter()
            .flatten()
            .map(|item| (item.value.text().unwrap(), item.parameter("q").and_then(Bare::number).map(Number::as_count)))
            .collect();
        assert_eq!(figures, [("fixed window", Some(500)), ("api", Some(500)), ("pages", Some(100))]);
        for bad in ["\"a\";\"b", "\"a\";;q=1", "\"a\" \"b\";q=1", "\"a\";\"b\";q=1 garbage"] {
            assert!(list_of_fused(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn dictionaries() {
        let members = dictionary("limit=100, remaining=0, reset=5;note=\"x\", flag").unwrap();
        let keys: Vec<_> = members.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(keys, ["limit", "remaining", "reset", "flag"]);
        let parameters = dictionary("limit=100; remaining=0").unwrap();
        assert_eq!(parameters[0].1.parameter("remaining").and_then(Bare::number).map(Number::as_count), Some(0));
        assert_eq!(dictionary("Limit=1"), None);
    }
}
