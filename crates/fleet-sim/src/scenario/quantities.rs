//! How lengths, shares, units and limits are written in scenario files.

use std::fmt;

use paceline_core::units::Span;
use paceline_provider_sim::{Limit, parse_amount, parse_limits, parse_span};
use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use super::Amount;

/// `800ms`, `1.5s`, `2min`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Length(pub(super) Span);

/// `0.1%`, or a number from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Part(pub(super) f64);

/// `20..300`, `1.5k`, or a list of `{share, units}`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Units(pub(super) Amount);

/// `{requests: 1200/min, tokens: 1.5M/min}`; after `burst=` what may go at once.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Limits(pub(super) Vec<Limit>);

impl<'de> Deserialize<'de> for Length {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        scalar(deserializer, "a length of time such as 800ms, 1.5s or 2min", |text| {
            parse_span(text).map(Length).map_err(|error| error.to_string())
        })
    }
}

impl<'de> Deserialize<'de> for Part {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        scalar(deserializer, "a share such as 30% or 0.3", |text| {
            let (number, unit) = text.strip_suffix('%').map_or((text, 1.0), |number| (number, 100.0));
            let share: f64 = number.trim().parse().map_err(|_| format!("`{text}` is no share; write 30% or 0.3"))?;
            let share = share / unit;
            if (0.0..=1.0).contains(&share) { Ok(Part(share)) } else { Err(format!("`{text}` is not between 0% and 100%")) }
        })
    }
}

fn range(text: &str) -> Result<(u64, u64), String> {
    let amount = |text: &str| parse_amount(text).map_err(|error| error.to_string());
    match text.split_once("..") {
        None => amount(text).map(|units| (units, units)),
        Some((least, most)) => {
            let (least, most) = (amount(least)?, amount(most)?);
            if least > most { Err(format!("`{text}` begins above its end")) } else { Ok((least, most)) }
        }
    }
}

impl<'de> Deserialize<'de> for Units {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visit;
        impl<'de> Visitor<'de> for Visit {
            type Value = Units;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("units such as 500, 200..2000, or a list of {share, units}")
            }

            fn visit_u64<E: de::Error>(self, units: u64) -> Result<Units, E> {
                self.visit_str(&units.to_string())
            }

            fn visit_i64<E: de::Error>(self, units: i64) -> Result<Units, E> {
                self.visit_str(&units.to_string())
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Units, E> {
                let (least, most) = range(text).map_err(E::custom)?;
                Ok(Units(Amount(vec![(1.0, least, most)])))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Units, A::Error> {
                let mut ranges = Vec::new();
                while let Some(item) = items.next_element::<Weighted>()? {
                    let (least, most) = range(&item.units.0).map_err(de::Error::custom)?;
                    ranges.push((item.share.0, least, most));
                }
                if ranges.iter().map(|(share, _, _)| share).sum::<f64>() <= 0.0 {
                    return Err(de::Error::custom("the shares add up to nothing"));
                }
                Ok(Units(Amount(ranges)))
            }
        }
        deserializer.deserialize_any(Visit)
    }
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Weighted {
    share: Part,
    units: Text,
}

/// A number or a text, as it is written.
struct Text(String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        scalar(deserializer, "a number or a text", |text| Ok(Text(text.to_owned())))
    }
}

impl<'de> Deserialize<'de> for Limits {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visit;
        impl<'de> Visitor<'de> for Visit {
            type Value = Limits;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("limits such as {requests: 1200/min, tokens: 1.5M/min}")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Limits, A::Error> {
                let mut limits = Vec::new();
                while let Some((meter, rate)) = entries.next_entry::<String, String>()? {
                    let group = parse_limits(&format!("{meter}={rate}")).map_err(de::Error::custom)?;
                    limits.extend(group.limits);
                }
                Ok(Limits(limits))
            }
        }
        deserializer.deserialize_map(Visit)
    }
}

/// Reads what is written as one word, whatever YAML takes it for.
fn scalar<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    expecting: &'static str,
    read: impl Fn(&str) -> Result<T, String>,
) -> Result<T, D::Error> {
    struct Visit<F>(&'static str, F);
    impl<T, F: Fn(&str) -> Result<T, String>> Visitor<'_> for Visit<F> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }

        fn visit_u64<E: de::Error>(self, number: u64) -> Result<T, E> {
            self.1(&number.to_string()).map_err(E::custom)
        }

        fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
            self.1(&number.to_string()).map_err(E::custom)
        }

        fn visit_f64<E: de::Error>(self, number: f64) -> Result<T, E> {
            self.1(&number.to_string()).map_err(E::custom)
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
            self.1(text).map_err(E::custom)
        }
    }
    deserializer.deserialize_any(Visit(expecting, read))
}
