//! A small seeded random number generator.

/// SplitMix64. The test prints the seed, so that a failing run can be repeated with `SEED=`.
pub struct Rng(u64);

impl Rng {
    /// Creates a generator with the seed in the environment variable `SEED` or, if it is not set,
    /// with a seed derived from the name of the test.
    ///
    /// # Panics
    /// Panics if `SEED` is not a number.
    pub fn new(test: &str) -> Rng {
        let seed = seed_of(test);
        eprintln!("{test}: SEED={seed}");
        Rng(seed)
    }

    /// Creates a generator with this seed, for one of several threads.
    pub fn seeded(seed: u64) -> Rng {
        Rng(seed)
    }

    /// Returns the next 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `limit`. `limit` must be at least 1.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.bits() % limit
    }

    /// Returns true in `percent` of 100 cases.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Returns one of `items`.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len() as u64) as usize]
    }

    /// Shuffles `items`.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i as u64 + 1) as usize);
        }
    }
}

/// Returns the number of rounds of a random test: the value of this environment variable or, if it is not
/// set, the number for `make test`.
///
/// # Panics
/// Panics if the variable is not a number.
pub fn rounds(name: &str, otherwise: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) if !text.is_empty() => text.parse().expect("a number of rounds"),
        _ => otherwise,
    }
}

/// Returns `SEED` of the environment, or a 32-bit number derived from the name.
pub(crate) fn seed_of(name: &str) -> u64 {
    match std::env::var("SEED") {
        Ok(text) if !text.is_empty() => text.parse().expect("SEED is a number"),
        _ => {
            let sum = name
                .bytes()
                .fold(0, |sum: u64, byte| Rng(sum ^ u64::from(byte)).bits());
            sum >> 32
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_depend_on_the_name() {
        let other = seed_of("one test");
        assert_eq!(seed_of("a test"), seed_of("a test"));
        // If SEED is set, all tests use it.
        let given = std::env::var("SEED").is_ok_and(|text| !text.is_empty());
        assert_eq!(seed_of("a test") == other, given);
    }
}
