//! Flags and variables laid over the file: later wins, unknown variables are ignored.

use std::collections::BTreeMap;
use std::fmt;

use crate::model::Config;
use crate::problem::{ConfigErrors, FLAGS, Pos, Problems};
use crate::read::{advertised, modes, replicas, socket_addr, store};
use crate::tree::{Node, Value};

/// A scalar of the configuration that a flag or a variable may set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scalar {
    /// `listen.grpc`: `--grpc`, `PACELINE_SERVE_GRPC`.
    Grpc,
    /// `listen.http`: `--http`, `PACELINE_SERVE_HTTP`.
    Http,
    /// `listen.advertise`: `--advertise`, `PACELINE_SERVE_ADVERTISE`.
    Advertise,
    /// `store`: `--store`, `PACELINE_SERVE_STORE`.
    Store,
    /// `mode`: `--mode`, `PACELINE_SERVE_MODE`.
    Mode,
    /// `expected_replicas`: `--expected-replicas`, `PACELINE_SERVE_EXPECTED_REPLICAS`.
    ExpectedReplicas,
}

impl Scalar {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Grpc, Self::Http, Self::Advertise, Self::Store, Self::Mode, Self::ExpectedReplicas];

    /// The environment variable that sets it.
    pub const fn variable(self) -> &'static str {
        match self {
            Self::Grpc => "PACELINE_SERVE_GRPC",
            Self::Http => "PACELINE_SERVE_HTTP",
            Self::Advertise => "PACELINE_SERVE_ADVERTISE",
            Self::Store => "PACELINE_SERVE_STORE",
            Self::Mode => "PACELINE_SERVE_MODE",
            Self::ExpectedReplicas => "PACELINE_SERVE_EXPECTED_REPLICAS",
        }
    }

    /// The flag of `serve` that sets it.
    pub const fn flag(self) -> &'static str {
        match self {
            Self::Grpc => "--grpc",
            Self::Http => "--http",
            Self::Advertise => "--advertise",
            Self::Store => "--store",
            Self::Mode => "--mode",
            Self::ExpectedReplicas => "--expected-replicas",
        }
    }
}

/// Scalars from flags and variables.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Overrides {
    values: BTreeMap<Scalar, (String, &'static str)>,
}

impl fmt::Debug for Overrides {
    /// Without values: an address of a store may hold a password (I-12).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.values.values().map(|(_, from)| from)).finish()
    }
}

impl Overrides {
    /// Those among `variables` that are ours; others are ignored, whatever they are called, and so are empty ones.
    pub fn from_variables(variables: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut out = Self::default();
        for (name, value) in variables {
            if let Some(scalar) = Scalar::ALL.into_iter().find(|scalar| scalar.variable() == name).filter(|_| !value.is_empty())
            {
                out.values.insert(scalar, (value, scalar.variable()));
            }
        }
        out
    }

    /// A flag that was given: wins over a variable of the same scalar.
    pub fn flag(mut self, scalar: Scalar, value: Option<&str>) -> Self {
        if let Some(value) = value {
            self.values.insert(scalar, (value.to_owned(), scalar.flag()));
        }
        self
    }
}

impl Config {
    /// Lays flags and variables over the file.
    ///
    /// # Errors
    /// A value that the file could not have either; the path names the flag or variable.
    pub fn with_overrides(mut self, overrides: &Overrides) -> Result<Self, ConfigErrors> {
        let mut problems = Problems::default();
        for (scalar, (value, from)) in &overrides.values {
            let node = Node { value: number_or_text(value), pos: Pos::default() };
            let mut found = Problems::default();
            match scalar {
                Scalar::Grpc => {
                    if let Some(addr) = socket_addr(&node, from, &mut found) {
                        self.listen.grpc = addr;
                    }
                }
                Scalar::Http => {
                    if let Some(addr) = socket_addr(&node, from, &mut found) {
                        self.listen.http = addr;
                    }
                }
                Scalar::Advertise => {
                    if let Some(address) = advertised(&node, from, &mut found) {
                        self.listen.advertise = Some(address);
                    }
                }
                Scalar::Store => {
                    if let Some(address) = store(&node, from, &mut found) {
                        (self.store, self.store_at) = (address, None);
                    }
                }
                Scalar::Mode => {
                    if let Some(modes) = modes(&node, from, &mut found) {
                        self.mode = Some(modes);
                    }
                }
                Scalar::ExpectedReplicas => {
                    if let Some(number) = replicas(&node, from, &mut found) {
                        self.expected_replicas = number;
                    }
                }
            }
            // The value stands in no file: drop the place.
            found.drain().for_each(|problem| problems.add(problem.without_place()));
        }
        problems.into_result(self, FLAGS, "")
    }
}

fn number_or_text(value: &str) -> Value {
    value.parse().map_or_else(|_| Value::Text(value.to_owned()), Value::Int)
}
