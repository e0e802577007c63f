//! What is done with a call: nothing (*off*), only watched (*shadow*), or made to wait (*enforce*); and how calls are split
//! between the three.

/// What is done with a call. A later one interferes more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// As if nobody were there: sent at once, charged nowhere, its answers teach nothing.
    Off,
    /// Sent at once and charged; what would have been is told, and its answers teach.
    Shadow,
    /// The decision holds.
    #[default]
    Enforce,
}

impl Mode {
    /// All modes, the least interfering first.
    pub const ALL: [Self; 3] = [Self::Off, Self::Shadow, Self::Enforce];

    /// The configuration's word and the metric's label.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Shadow => "shadow",
            Self::Enforce => "enforce",
        }
    }

    /// Position in [`Mode::ALL`].
    pub const fn index(self) -> usize {
        match self {
            Self::Off => 0,
            Self::Shadow => 1,
            Self::Enforce => 2,
        }
    }

    /// The mode with this [`Mode::index`].
    pub const fn from_index(index: usize) -> Option<Self> {
        match index {
            0 => Some(Self::Off),
            1 => Some(Self::Shadow),
            2 => Some(Self::Enforce),
            _ => None,
        }
    }
}

/// Where a call falls among all calls, in millionths: the same for each of its attempts, everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Draw(u32);

impl Draw {
    /// Draws are below this.
    pub const WHOLE: u32 = 1_000_000;

    /// From any evenly spread number.
    pub const fn new(hash: u64) -> Self {
        // The remainder is below a million.
        Self((hash % Self::WHOLE as u64) as u32)
    }
}

/// The part of all calls in each mode, in millionths.
///
/// Enforced are the lowest draws, then come the shadowed ones: a larger share takes calls in and lets none go, so that a
/// roll-out from 10 % to 20 % keeps the first 10 % as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Modes {
    enforce: u32,
    shadow: u32,
}

impl Default for Modes {
    /// All calls are enforced.
    fn default() -> Self {
        Self::all(Mode::Enforce)
    }
}

impl Modes {
    /// Every call in one mode.
    pub const fn all(mode: Mode) -> Self {
        match mode {
            Mode::Off => Self { enforce: 0, shadow: 0 },
            Mode::Shadow => Self { enforce: 0, shadow: Draw::WHOLE },
            Mode::Enforce => Self { enforce: Draw::WHOLE, shadow: 0 },
        }
    }

    /// So many millionths enforced, so many shadowed, the rest off; what is over the whole is cut, the shadowed first.
    pub fn split(enforce: u32, shadow: u32) -> Self {
        let enforce = enforce.min(Draw::WHOLE);
        Self { enforce, shadow: shadow.min(Draw::WHOLE - enforce) }
    }

    /// The mode of the calls with this draw.
    pub const fn of(self, draw: Draw) -> Mode {
        if draw.0 < self.enforce {
            Mode::Enforce
        } else if draw.0 < self.enforce + self.shadow {
            Mode::Shadow
        } else {
            Mode::Off
        }
    }

    /// The part of all calls in `mode`, in millionths.
    pub const fn part(self, mode: Mode) -> u32 {
        match mode {
            Mode::Enforce => self.enforce,
            Mode::Shadow => self.shadow,
            Mode::Off => Draw::WHOLE - self.enforce - self.shadow,
        }
    }

    /// The mode that every call is in, if there is only one.
    pub fn only(self) -> Option<Mode> {
        Mode::ALL.into_iter().find(|mode| self.part(*mode) == Draw::WHOLE)
    }

    /// Both at once: each call in the mode that interferes less. (The same draw counts in both, so shares do not multiply.)
    pub fn and(self, other: Self) -> Self {
        let enforce = self.enforce.min(other.enforce);
        let not_off = (self.enforce + self.shadow).min(other.enforce + other.shadow);
        Self { enforce, shadow: not_off - enforce }
    }
}

impl std::fmt::Display for Modes {
    /// `enforce`, or `enforce 20%, shadow 80%`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(only) = self.only() {
            return f.write_str(only.name());
        }
        let parts = Mode::ALL.into_iter().rev().filter(|mode| self.part(*mode) > 0);
        for (at, mode) in parts.enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            write!(f, "{comma}{} {}%", mode.name(), f64::from(self.part(mode)) / 1e4)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn modes_read_as_they_are_written() {
        assert_eq!(Modes::default().to_string(), "enforce");
        assert_eq!(Modes::split(200_000, 800_000).to_string(), "enforce 20%, shadow 80%");
        assert_eq!(Modes::split(5_000, 0).to_string(), "enforce 0.5%, off 99.5%");
        assert_eq!(Modes::split(u32::MAX, u32::MAX), Modes::all(Mode::Enforce));
        for mode in Mode::ALL {
            assert_eq!(Modes::all(mode).only(), Some(mode));
            assert_eq!(Mode::from_index(mode.index()), Some(mode));
        }
        assert_eq!(Mode::from_index(3), None);
    }

    proptest! {
        /// The parts are the whole, whoever is drawn, and a larger share lets nobody go.
        #[test]
        fn a_larger_share_keeps_everyone(enforce in 0..=Draw::WHOLE, shadow in 0..=Draw::WHOLE, more in 0..=Draw::WHOLE, hash: u64) {
            let before = Modes::split(enforce, shadow);
            prop_assert_eq!(Mode::ALL.map(|mode| before.part(mode)).iter().sum::<u32>(), Draw::WHOLE);
            let after = Modes::split(enforce.max(more), Draw::WHOLE);
            let draw = Draw::new(hash);
            prop_assert!(before.of(draw) != Mode::Enforce || after.of(draw) == Mode::Enforce);
        }

        /// Two rules together are, call by call, the one that interferes less.
        #[test]
        fn two_rules_take_the_lesser(a in 0..=Draw::WHOLE, b in 0..=Draw::WHOLE, c in 0..=Draw::WHOLE, d in 0..=Draw::WHOLE, hash: u64) {
            let (one, other) = (Modes::split(a, b), Modes::split(c, d));
            let draw = Draw::new(hash);
            prop_assert_eq!(one.and(other).of(draw), one.of(draw).min(other.of(draw)));
        }
    }
}
