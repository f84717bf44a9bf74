//! The synthetic crawls for all measurements of the index. Equal seeds result in equal data.

use std::io::Write;
use std::ops::Range;

/// Number of hosts. A few of them have most of the pages.
const HOSTS: u64 = 5_000;
/// Length of a hash as text, in bytes.
pub const HASH_LEN: usize = 71;

/// Generates the hash and the record of each number.
#[derive(Clone, Copy)]
pub struct Corpus {
    /// Seed of all generated data.
    pub seed: u64,
}

/// A crawl: its own hashes, and some hashes of earlier crawls.
pub struct Crawl {
    /// Id of the crawl.
    pub id: String,
    /// The numbers that identify the crawl's own hashes.
    pub own: Range<u64>,
    /// The numbers that identify its hashes from earlier crawls.
    pub shared: Vec<u64>,
}

impl Crawl {
    /// Returns all hashes of the crawl.
    pub fn hashes(&self) -> impl Iterator<Item = u64> + '_ {
        self.own.clone().chain(self.shared.iter().copied())
    }

    /// Returns the number of hashes.
    pub fn len(&self) -> u64 {
        self.own.end - self.own.start + self.shared.len() as u64
    }
}

/// A record as the arguments of `DEDUPE.ADD`.
pub struct Record {
    /// WACZ index.
    pub wacz: String,
    /// Date of 14 digits.
    pub date: String,
    /// URL.
    pub url: String,
    /// Size in bytes.
    pub size: String,
}

impl Record {
    /// Returns the value in `h:<crawl>`.
    pub fn value(&self) -> String {
        format!("{} {} {} {}", self.wacz, self.date, self.url, self.size)
    }
}

impl Corpus {
    /// Returns random bits that depend only on the seed, `n` and `lane` (SplitMix64).
    pub fn bits(&self, n: u64, lane: u64) -> u64 {
        let step = n.wrapping_mul(8).wrapping_add(lane).wrapping_add(1);
        let mut z = (self.seed.wrapping_mul(0xd134_2543_de82_ef95))
            .wrapping_add(step.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns the `n`-th hash, `sha256:` and 64 hex digits.
    pub fn hash(&self, n: u64) -> [u8; HASH_LEN] {
        let mut hash = [0; HASH_LEN];
        let mut rest = &mut hash[..];
        let [a, b, c, d] = [0, 1, 2, 3].map(|lane| self.bits(n, lane));
        write!(rest, "sha256:{a:016x}{b:016x}{c:016x}{d:016x}").expect("71 bytes hold a hash");
        hash
    }

    /// Returns the record of the `n`-th hash in the crawl of that number.
    pub fn record(&self, n: u64, crawl: u64) -> Record {
        let bits = self.bits(n, 4);
        let path = self.bits(n, 5);
        let second = (bits >> 3) % 86_400;
        let (month, day) = (crawl % 12 + 1, (bits >> 20) % 28 + 1);
        let time = second / 3600 * 10_000 + second / 60 % 60 * 100 + second % 60;
        Record {
            wacz: (bits % 4).to_string(),
            date: format!("2026{month:02}{day:02}{time:06}"),
            url: url(self.host(n), path),
            size: (400 + (bits >> 32) % 100_000).to_string(),
        }
    }

    /// Returns the host of a hash. Uses the cube of a uniform random number, so that the first
    /// tenth of the hosts has about half of the hashes.
    fn host(&self, n: u64) -> u64 {
        let draw = (self.bits(n, 6) >> 11) as f64 / (1u64 << 53) as f64;
        (draw.powi(3) * HOSTS as f64) as u64
    }

    /// Creates crawls of equal size from `hashes` hashes. Each crawl except the first also has
    /// hashes of earlier crawls; their number is `shared` percent of its own hashes.
    pub fn crawls(&self, hashes: u64, count: u64, shared: u64) -> Vec<Crawl> {
        let size = hashes / count;
        let crawl = |i: u64| self.crawl(i, i * size..(i + 1) * size, shared);
        (0..count).map(crawl).collect()
    }

    /// Creates a crawl from its own hashes and from hashes of earlier crawls. The number of hashes
    /// of earlier crawls is `shared` percent of the number of its own hashes.
    pub fn crawl(&self, number: u64, own: Range<u64>, shared: u64) -> Crawl {
        let wanted = (own.end - own.start) * shared / 100;
        let before = own.start;
        let mut again: Vec<u64> = (0..wanted)
            .filter(|_| before > 0)
            .map(|k| self.bits(own.start + k, 7) % before)
            .collect();
        again.sort_unstable();
        again.dedup();
        Crawl {
            id: format!("crawl-{number:02}-c2d10f7a"),
            own,
            shared: again,
        }
    }
}

fn url(host: u64, path: u64) -> String {
    const NAMES: &str = "archive museum gazette library parish kommune radio journal";
    const ZONES: &str = "org com net dk de";
    const FOLDERS: &str = "news images/2026 article wp-content/uploads/2026 en/about assets";
    const KINDS: &str = ".html .jpg .png / .js";
    let pick = |list: &'static str, by: u64| {
        let number = by % list.split(' ').count() as u64;
        list.split(' ')
            .nth(number as usize)
            .expect("a number below theirs")
    };
    let (name, zone, folder) = (
        pick(NAMES, host),
        pick(ZONES, host / 8),
        pick(FOLDERS, path),
    );
    let (first, second) = (pick(NAMES, path >> 8), pick(NAMES, path >> 12));
    let third = pick(FOLDERS, path >> 16).len();
    let (number, kind) = (path >> 24 & 0xffff_ffff, pick(KINDS, path >> 4));
    format!("https://www.{name}-{host}.{zone}/{folder}/{first}-{second}-{third}-{number:x}{kind}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    const CORPUS: Corpus = Corpus { seed: 1 };

    #[test]
    fn hashes_are_distinct_and_follow_the_seed() {
        let all: HashSet<_> = (0..10_000).map(|n| CORPUS.hash(n)).collect();
        assert_eq!(all.len(), 10_000);
        assert_eq!(CORPUS.hash(7), Corpus { seed: 1 }.hash(7));
        assert_ne!(CORPUS.hash(7), Corpus { seed: 2 }.hash(7));
    }

    #[test]
    fn records_have_realistic_lengths() {
        let bytes: usize = (0..10_000).map(|n| CORPUS.record(n, 0).value().len()).sum();
        assert!(
            (88..94).contains(&(bytes / 10_000)),
            "{bytes} bytes in 10 000 records"
        );
    }

    #[test]
    fn crawls_share_hashes_of_earlier_ones() {
        let crawls = CORPUS.crawls(1_000, 10, 5);
        assert!(crawls[0].shared.is_empty());
        for crawl in &crawls[1..] {
            assert!(crawl.shared.len() > 1 && crawl.shared.len() <= 5);
            assert!(crawl.shared.iter().all(|n| *n < crawl.own.start));
        }
        let own: u64 = crawls.iter().map(|c| c.own.end - c.own.start).sum();
        assert_eq!(own, 1_000);
    }
}
