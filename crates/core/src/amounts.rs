//! Amounts per meter: what a call is expected to cost, or did cost.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Units per meter, with the derivations that providers' meters need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Amounts(BTreeMap<Arc<str>, u64>);

impl Amounts {
    /// Amounts from pairs.
    pub fn from_pairs<'a>(pairs: impl IntoIterator<Item = (&'a str, u64)>) -> Self {
        Self(pairs.into_iter().map(|(meter, units)| (Arc::from(meter), units)).collect())
    }

    /// Sets a meter.
    pub fn set(&mut self, meter: &str, units: u64) {
        self.0.insert(Arc::from(meter), units);
    }

    /// What is stated of a meter.
    pub fn stated(&self, meter: &str) -> Option<u64> {
        self.0.get(meter).copied()
    }

    /// What is stated or follows: `tokens` = input + output; input or output = tokens less the other. `None`: not known.
    pub fn of(&self, meter: &str) -> Option<u64> {
        if let Some(units) = self.stated(meter) {
            return Some(units);
        }
        match meter {
            "tokens" => match (self.stated("input_tokens"), self.stated("output_tokens")) {
                (None, None) => None,
                (input, output) => Some(input.unwrap_or(0).saturating_add(output.unwrap_or(0))),
            },
            "input_tokens" => self.tokens_less("output_tokens"),
            "output_tokens" => self.tokens_less("input_tokens"),
            _ => None,
        }
    }

    /// Every stated meter.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(meter, units)| (&**meter, *units))
    }

    /// Whether nothing is stated.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn tokens_less(&self, other: &str) -> Option<u64> {
        Some(self.stated("tokens")?.saturating_sub(self.stated(other)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_meters_follow_from_each_other() {
        let both = Amounts::from_pairs([("input_tokens", 10), ("output_tokens", 5)]);
        assert_eq!(both.of("tokens"), Some(15));
        let total = Amounts::from_pairs([("tokens", 15), ("output_tokens", 5)]);
        assert_eq!(total.of("input_tokens"), Some(10));
        assert_eq!(Amounts::from_pairs([("tokens", 15)]).of("input_tokens"), None);
        assert_eq!(Amounts::from_pairs([("input_tokens", u64::MAX), ("output_tokens", 5)]).of("tokens"), Some(u64::MAX));
    }
}
