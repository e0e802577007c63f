//! How large something usually is: a histogram in integers that forgets.
//!
//! Sizes are counted in ranges, two per power of two, each with the largest size seen in it; so a quantile is a size that was really
//! seen, never below the true one and less than one and a half times as large. All counts are halved when there are too many, so
//! that only the last few hundred matter.

/// One sample counts this much: after several halvings a rare size is still more than nothing.
const WEIGHT: u32 = 64;
/// Counts are halved when they add up to so many samples.
const MOST_SAMPLES: u32 = 256;
/// The last range holds everything from 2^31 on.
const LAST_RANGE: u8 = 63;

/// One range of sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// Which one.
    pub index: u8,
    /// How often, in units of one 64th.
    pub count: u32,
    /// The largest size seen in it.
    pub most: u64,
}

/// Sizes seen lately.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sketch {
    ranges: Vec<Range>,
}

impl Sketch {
    /// Counts one more.
    pub fn note(&mut self, size: u64) {
        let index = range_of(size);
        match self.ranges.binary_search_by_key(&index, |range| range.index) {
            Ok(at) => {
                if let Some(range) = self.ranges.get_mut(at) {
                    range.count += WEIGHT;
                    range.most = range.most.max(size);
                }
            }
            Err(at) => self.ranges.insert(at, Range { index, count: WEIGHT, most: size }),
        }
        if self.total() >= MOST_SAMPLES * WEIGHT {
            self.ranges.iter_mut().for_each(|range| range.count /= 2);
            self.ranges.retain(|range| range.count > 0);
        }
    }

    /// How many samples count, at most 256.
    pub fn samples(&self) -> u32 {
        self.total() / WEIGHT
    }

    /// The size that `permille` of a thousand samples do not exceed; `None` without samples.
    pub fn quantile(&self, permille: u32) -> Option<u64> {
        let rank = (self.total().saturating_mul(permille.min(1_000))).div_ceil(1_000).max(1);
        let mut seen = 0;
        self.ranges.iter().find_map(|range| {
            seen += range.count;
            (seen >= rank).then_some(range.most)
        })
    }

    /// The ranges, smallest sizes first.
    pub fn ranges(&self) -> &[Range] {
        &self.ranges
    }

    /// A sketch from stored ranges; `None` when they are none: out of order, empty, too many, or with a size of another range.
    pub fn from_ranges(ranges: Vec<Range>) -> Option<Self> {
        let in_order = ranges.windows(2).all(|pair| matches!(pair, [a, b] if a.index < b.index));
        let sound = |range: &Range| {
            range.index <= LAST_RANGE
                && (1..=MOST_SAMPLES * WEIGHT).contains(&range.count)
                && range_of(range.most) == range.index
        };
        let sketch = Self { ranges };
        (in_order && sketch.ranges.iter().all(sound) && sketch.total() <= MOST_SAMPLES * WEIGHT).then_some(sketch)
    }

    fn total(&self) -> u32 {
        self.ranges.iter().fold(0, |sum, range| sum.saturating_add(range.count))
    }
}

/// 0, 1, then two per power of two: 2, 3, 4..5, 6..7, 8..11, 12..15, ...
fn range_of(size: u64) -> u8 {
    if size < 2 {
        return u8::try_from(size).unwrap_or(LAST_RANGE);
    }
    let power = size.ilog2();
    let upper_half = (size >> (power - 1)) & 1;
    u8::try_from(2 * u64::from(power) + upper_half).unwrap_or(LAST_RANGE).min(LAST_RANGE)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ranges_are_half_powers_of_two() {
        let ranges: Vec<u8> = [0, 1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 15, 16, 1 << 31, u64::MAX].map(range_of).to_vec();
        assert_eq!(ranges, [0, 1, 2, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 62, 63]);
    }

    #[test]
    fn what_is_no_longer_seen_is_forgotten() {
        let mut sketch = Sketch::default();
        (0..1_000).for_each(|_| sketch.note(8_000));
        assert_eq!(sketch.quantile(900), Some(8_000));
        (0..1_000).for_each(|_| sketch.note(100));
        assert_eq!(sketch.quantile(990), Some(100));
        assert!(sketch.ranges().len() <= 2 && sketch.samples() <= 256);
    }

    #[test]
    fn a_rare_size_stays_visible() {
        let mut sketch = Sketch::default();
        (0..3_000).for_each(|call| sketch.note(if call % 50 == 0 { 60_000 } else { 900 }));
        assert_eq!(sketch.quantile(900), Some(900));
        assert_eq!(sketch.quantile(990), Some(60_000), "one in fifty");
    }

    proptest! {
        /// A quantile is never below the true one and less than half as much above it, as long as nothing is forgotten.
        #[test]
        fn a_quantile_is_within_one_range(sizes in vec(prop_oneof![0_u64..50, 0_u64..200_000, 0_u64..3_000_000_000], 1..255), permille in 1_u32..=1_000) {
            let mut sketch = Sketch::default();
            sizes.iter().for_each(|size| sketch.note(*size));
            let mut sorted = sizes.clone();
            sorted.sort_unstable();
            let rank = (sorted.len() * permille as usize).div_ceil(1_000).max(1);
            let (truth, told) = (sorted[rank - 1], sketch.quantile(permille).unwrap());
            prop_assert!(told >= truth, "{} for {}", told, truth);
            prop_assert!(told * 2 < (truth * 3).max(1), "{} for {}", told, truth);
            prop_assert!(sizes.contains(&told));
        }

        /// It stays small whatever it is told, the order of recent samples aside it forgets nothing it should know, and what is
        /// stored reads back.
        #[test]
        fn it_is_bounded_and_reads_back(sizes in vec(any::<u64>(), 0..2_000)) {
            let mut sketch = Sketch::default();
            sizes.iter().for_each(|size| sketch.note(*size));
            prop_assert!(sketch.ranges().len() <= 64 && sketch.samples() <= 256);
            prop_assert_eq!(sketch.quantile(500).is_some(), !sizes.is_empty());
            prop_assert_eq!(Sketch::from_ranges(sketch.ranges().to_vec()), Some(sketch.clone()));
        }
    }
}
