//! Reproducible randomness.

use std::ops::RangeInclusive;
use std::time::Duration;

/// A splitmix64 generator: the same seed gives the same numbers on every machine.
#[derive(Clone, Debug)]
pub struct Seed(u64);

impl Seed {
    /// A generator with this seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number, any of 2^64.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`, which must not be zero.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.number() % limit
    }

    /// True with this chance in percent.
    pub fn percent(&mut self, chance: u8) -> bool {
        self.below(100) < u64::from(chance)
    }

    /// A random span within these limits, in whole microseconds.
    pub fn span(&mut self, limits: &RangeInclusive<Duration>) -> Duration {
        let width = limits.end().saturating_sub(*limits.start()).as_micros() as u64;
        *limits.start() + Duration::from_micros(self.below(width + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers_and_another_one_does_not() {
        let row = |seed| {
            let mut seed = Seed::new(seed);
            [(); 8].map(|()| seed.number())
        };
        assert_eq!(row(1), row(1));
        assert_ne!(row(1), row(2));
        assert_eq!(row(1234567)[0], 6_457_827_717_110_365_317, "splitmix64, as published");
    }

    #[test]
    fn chances_and_spans_keep_their_limits() {
        let mut seed = Seed::new(7);
        let hits = (0..10_000).filter(|_| seed.percent(30)).count();
        assert!((2_700..3_300).contains(&hits), "{hits}");
        assert!((0..100).all(|_| !seed.percent(0) && seed.percent(100)));
        let limits = Duration::from_millis(2)..=Duration::from_millis(5);
        assert!((0..1_000).all(|_| limits.contains(&seed.span(&limits))));
        assert_eq!(seed.span(&(Duration::ZERO..=Duration::ZERO)), Duration::ZERO);
    }
}
