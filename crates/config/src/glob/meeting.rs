//! Do two patterns meet: is there a text that both match, and which?

use std::collections::HashSet;

use super::Token;

/// A search for a text that two patterns both match.
pub(super) struct Meeting<'p> {
    left: &'p [Token],
    right: &'p [Token],
    seen: HashSet<(usize, usize)>,
}

impl<'p> Meeting<'p> {
    pub(super) fn new(left: &'p [Token], right: &'p [Token]) -> Self {
        Self { left, right, seen: HashSet::new() }
    }

    pub(super) fn witness(mut self) -> Option<String> {
        let mut text = Vec::new();
        self.step(0, 0, &mut text).then(|| text.iter().collect())
    }

    /// Each pair of positions is visited once, so this ends after at most left x right steps.
    fn step(&mut self, i: usize, j: usize, text: &mut Vec<char>) -> bool {
        if !self.seen.insert((i, j)) {
            return false;
        }
        let (left, right) = (self.left.get(i), self.right.get(j));
        match (left, right) {
            (None, None) => true,
            (Some(Token::AnyText), Some(Token::AnyText)) => self.step(i + 1, j, text) || self.step(i, j + 1, text),
            (Some(Token::AnyText), other) => self.step(i + 1, j, text) || self.absorb(other, i, j + 1, text),
            (other, Some(Token::AnyText)) => self.step(i, j + 1, text) || self.absorb(other, i + 1, j, text),
            (Some(own), Some(their)) => match own.common(their) {
                Some(c) => self.write(c, i + 1, j + 1, text),
                None => false,
            },
            _ => false,
        }
    }

    /// A `*` takes whatever the other pattern's token is.
    fn absorb(&mut self, token: Option<&'p Token>, i: usize, j: usize, text: &mut Vec<char>) -> bool {
        let Some(c) = token.and_then(|token| token.common(&Token::AnyChar)) else { return false };
        self.write(c, i, j, text)
    }

    fn write(&mut self, c: char, i: usize, j: usize, text: &mut Vec<char>) -> bool {
        text.push(c);
        if self.step(i, j, text) {
            return true;
        }
        text.pop();
        false
    }
}
