//! Prices, where a person states them: what units cost.

use std::str::FromStr;

use paceline_core::history::{Counts, Units};
use paceline_provider_sim::parse_amount;

/// What units of a meter cost.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Price {
    meter: String,
    usd_per_unit: f64,
}

impl FromStr for Price {
    type Err = String;

    /// Reads `tokens=3/1M`: three dollars for a million tokens.
    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("`{text}` is no price; write METER=USD/UNITS, such as tokens=3/1M");
        let (meter, price) = text.split_once('=').filter(|(meter, _)| !meter.is_empty()).ok_or_else(bad)?;
        let (usd, units) = price.split_once('/').ok_or_else(bad)?;
        let usd: f64 = usd.trim().trim_start_matches('$').parse().map_err(|_| bad())?;
        let units = parse_amount(units).map_err(|error| format!("{}: {error}", bad()))?;
        if !(usd.is_finite() && usd >= 0.0) {
            return Err(bad());
        }
        Ok(Self { meter: meter.trim().to_owned(), usd_per_unit: usd / units as f64 })
    }
}

impl Price {
    /// What it is a price of.
    pub(super) fn meter(&self) -> &str {
        &self.meter
    }
}

/// What the units that `of` picks cost, in dollars; `None`: nothing that was used has a price.
pub(super) fn usd(prices: &[Price], counts: &Counts, of: impl Fn(&Units) -> u64) -> Option<f64> {
    let priced = prices.iter().filter_map(|price| Some(counts.units.get(&price.meter).map(&of)? as f64 * price.usd_per_unit));
    priced.fold(None, |sum, usd| Some(sum.unwrap_or(0.0) + usd))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_are_read_and_applied() {
        let mut counts = Counts::default();
        *counts.units_of("tokens") = Units { used: 4_000_000, retried: 1_500_000, refused: 0 };
        counts.units_of("requests").used = 9;
        let prices = ["tokens=3/1M", "requests=$0.5/1k", "images=4/1"].map(|text| text.parse::<Price>().unwrap());
        assert_eq!(usd(&prices, &counts, |units| units.retried), Some(4.5));
        assert_eq!(usd(&prices[..1], &counts, |units| units.used), Some(12.0));
        assert_eq!(usd(&prices[2..], &counts, |units| units.used), None, "no image was used");
        for bad in ["tokens", "tokens=3", "=3/1M", "tokens=x/1M", "tokens=-1/1M", "tokens=3/0", "tokens=inf/1"] {
            let error = bad.parse::<Price>().unwrap_err();
            assert!(error.contains("tokens=3/1M"), "{error}");
        }
    }
}
