//! When a call is charged for what it produces: providers differ, and it decides what a reservation costs.

use std::str::FromStr;

use paceline_core::units::Milli;

use crate::error::SimError;
use crate::parse::choose;
use crate::provider::Call;

/// The meter of what a model writes; only its end tells how much that was.
pub const OUTPUT_TOKENS: &str = "output_tokens";
/// The meter of input and output together.
pub const TOKENS: &str = "tokens";

/// When output is charged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Charging {
    /// Everything that the call states is charged when it arrives, and that is that.
    #[default]
    OnArrival,
    /// What the call states (its `max_tokens` included) is charged when it arrives; at its end what it did not use is given
    /// back, and what it used beyond is charged.
    Reserved,
    /// Output is charged when the call ends and nothing is reserved for it: a meter may then go below zero, and passes nobody
    /// until it is out of debt (Anthropic, "Rate limits": `max_tokens` does not factor into output tokens per minute).
    AtEnd,
}

impl Charging {
    /// Every way of charging with its name on the command line.
    pub const ALL: [(&'static str, Self); 3] =
        [("on-arrival", Self::OnArrival), ("reserved", Self::Reserved), ("at-end", Self::AtEnd)];

    /// What a call is charged on a meter when it arrives, in units.
    pub(crate) fn on_arrival(self, call: &Call, meter: &str) -> u64 {
        match self {
            Self::OnArrival | Self::Reserved => call.cost.of(meter),
            Self::AtEnd => call.used().of(meter).saturating_sub(output_of(call, meter)),
        }
    }

    /// What is charged at its end; negative: given back.
    pub(crate) fn at_end(self, call: &Call, meter: &str) -> Milli {
        let units = Milli::from_units;
        match self {
            Self::OnArrival => Milli::ZERO,
            Self::Reserved => units(call.used().of(meter)) - units(call.cost.of(meter)),
            Self::AtEnd => units(output_of(call, meter).min(call.used().of(meter))),
        }
    }
}

impl FromStr for Charging {
    type Err = SimError;
    fn from_str(text: &str) -> Result<Self, SimError> {
        choose(text, "way of charging", &Self::ALL)
    }
}

/// The part of a meter's units that is output.
fn output_of(call: &Call, meter: &str) -> u64 {
    if matches!(meter, OUTPUT_TOKENS | TOKENS) { call.used().of(OUTPUT_TOKENS) } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::Cost;

    #[test]
    fn what_is_charged_when() {
        let stated = Cost::one().with("input_tokens", 50).with(OUTPUT_TOKENS, 1_000).with(TOKENS, 1_050);
        let used = Cost::one().with("input_tokens", 50).with(OUTPUT_TOKENS, 300).with(TOKENS, 350);
        let call = Call { used: Some(used), ..Call::new("m", stated) };
        for (charging, meter, arrival, end) in [
            (Charging::OnArrival, TOKENS, 1_050, 0),
            (Charging::Reserved, "requests", 1, 0),
            (Charging::Reserved, TOKENS, 1_050, -700),
            (Charging::AtEnd, "requests", 1, 0),
            (Charging::AtEnd, "input_tokens", 50, 0),
            (Charging::AtEnd, OUTPUT_TOKENS, 0, 300),
            (Charging::AtEnd, TOKENS, 50, 300),
        ] {
            assert_eq!(charging.on_arrival(&call, meter), arrival, "{charging:?} {meter}");
            assert_eq!(charging.at_end(&call, meter), Milli::from_milli(end * 1_000), "{charging:?} {meter}");
        }
    }
}
