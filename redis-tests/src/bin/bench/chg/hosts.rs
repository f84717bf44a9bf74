//! The synthetic hosts and URIs for all measurements of the frontier. Equal seeds result in equal
//! data.

/// Crawl executions with their weights.
pub const EXECUTIONS: [(&str, u32); 3] = [
    ("5f1ac3de-77b2-4b0e-9a0f-0c6c1f6f9a01", 1),
    ("a2b9d0f4-10c7-4d6b-8f25-6f3f0a1c7d02", 2),
    ("c81e728d-9d4c-4f63-af06-7f89cc14862c", 3),
];

/// Generates the group with a number, and the URIs of this group.
#[derive(Clone, Copy)]
pub struct Hosts {
    /// Seed of all generated data.
    pub seed: u64,
}

impl Hosts {
    /// Returns random bits that depend only on the seed and `n` (SplitMix64).
    pub fn bits(&self, n: u64) -> u64 {
        let mut z = (n ^ self.seed.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns the id of a group. As in Veidemann, it consists of a host group and a politeness
    /// configuration.
    pub fn chg(&self, n: u64) -> String {
        format!("{:016x}{:04x}:default", self.bits(n), n & 0xffff)
    }

    /// Returns the `i`-th URI of a group, about 75 bytes.
    pub fn uri(&self, chg: u64, i: u64) -> String {
        let bits = self.bits(chg.wrapping_mul(1_000_003).wrapping_add(i));
        let host = self.bits(chg);
        let section = ["news", "culture", "archive", "politics"][(bits >> 60 & 3) as usize];
        format!(
            "https://www.h{:010x}.example/{section}/2026/{:02}/article-{:012x}-{i}.html",
            host >> 24,
            1 + bits % 12,
            bits >> 16,
        )
    }

    /// Returns the execution of the `i`-th URI of any group.
    pub fn execution(&self, i: u64) -> (&'static str, u32) {
        EXECUTIONS[(i % EXECUTIONS.len() as u64) as usize]
    }

    /// Returns the number of links between a seed of the crawl and the `i`-th URI.
    pub fn depth(&self, i: u64) -> u64 {
        i % 5
    }

    /// Returns the arguments of `CHG.ADDURI` for the `i`-th URI of a group, due now.
    pub fn tuple(&self, chg: u64, i: u64) -> [String; 4] {
        let (depth, uri) = (self.depth(i).to_string(), self.uri(chg, i));
        [self.chg(chg), "0".into(), depth, uri]
    }
}
