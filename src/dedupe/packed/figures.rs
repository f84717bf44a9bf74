//! Benchmark of the packed index: memory per hash, and times of lookups and changes.
//!
//! `cargo bench --no-default-features --bench packed_index -- [hashes]`

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use crawlspace::dedupe::packed::{Cursor, Packed, Part};
use crawlspace_host::keyspace::Batch;

/// Allocator that counts the bytes in use. The module itself uses the server's allocator instead.
#[cfg_attr(feature = "module", expect(dead_code))]
struct Counting;

static IN_USE: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is forwarded to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        IN_USE.fetch_add(layout.size(), Relaxed);
        // SAFETY: the caller upholds the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller upholds the contract.
        unsafe { System.dealloc(at, layout) }
    }
}

#[cfg(not(feature = "module"))]
#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn main() {
    // cargo adds `--bench`.
    let hashes: u64 = match std::env::args().skip(1).find(|word| word != "--bench") {
        Some(hashes) => hashes.parse().expect("a number of hashes"),
        None => 1_000_000,
    };
    let mut figures = Figures {
        random: 0x2545_f491_4f6c_dd1d,
        hashes,
    };
    let packed = figures.fill(false);
    drop(packed);
    let mut packed = figures.fill(true);
    figures.look_ups(&packed);
    figures.scans(&packed);
    figures.removal(&mut packed);
}

const CRAWLS: u64 = 10;

/// Returns the CPU time of this thread, which does not depend on other load on the machine.
fn worked() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: writes to a local variable.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Returns the duration of a call of [`worked`].
fn of_clock() -> Duration {
    let start = worked();
    for _ in 0..1000 {
        worked();
    }
    (worked() - start) / 1000
}

/// Returns pseudo-random bits that depend only on two numbers (SplitMix64).
fn bits(n: u64, lane: u64) -> u64 {
    let mut z = (n * 8 + lane + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn hash(n: u64) -> [u8; 71] {
    let mut hash = [0; 71];
    let [a, b, c, d] = [0, 1, 2, 3].map(|lane| bits(n, lane));
    let mut rest = &mut hash[..];
    write!(rest, "sha256:{a:016x}{b:016x}{c:016x}{d:016x}").expect("room for it");
    hash
}

/// Returns a record of about 91 bytes. Most URLs are on a few of 5000 hosts.
fn record(n: u64, crawl: u64) -> Vec<u8> {
    const NAMES: [&str; 8] = [
        "archive", "museum", "gazette", "library", "parish", "kommune", "radio", "journal",
    ];
    const ZONES: [&str; 5] = ["org", "com", "net", "dk", "de"];
    const FOLDERS: [&str; 6] = [
        "news",
        "images/2026",
        "article",
        "wp-content/uploads/2026",
        "en/about",
        "assets",
    ];
    const KINDS: [&str; 5] = [".html", ".jpg", ".png", "/", ".js"];
    let pick = |list: &[&'static str], by: u64| list[(by % list.len() as u64) as usize];
    let draw = (bits(n, 6) >> 11) as f64 / (1u64 << 53) as f64;
    let host = (draw.powi(3) * 5000.0) as u64;
    let (bits, path) = (bits(n, 4), bits(n, 5));
    let second = (bits >> 3) % 86_400;
    format!(
        "{} 2026{:02}{:02}{:02}{:02}{:02} https://www.{}-{host}.{}/{}/{}-{}-{}-{:x}{} {}",
        bits % 4,
        crawl % 12 + 1,
        (bits >> 20) % 28 + 1,
        second / 3600,
        second / 60 % 60,
        second % 60,
        pick(&NAMES, host),
        pick(&ZONES, host / 8),
        pick(&FOLDERS, path),
        pick(&NAMES, path >> 8),
        pick(&NAMES, path >> 12),
        pick(&FOLDERS, path >> 16).len(),
        path >> 24 & 0xffff_ffff,
        pick(&KINDS, path >> 4),
        400 + (bits >> 32) % 100_000,
    )
    .into_bytes()
}

/// Reads the owners and records of hashes, and returns the number of hashes that have an owner.
fn find_all<'a>(packed: &Packed, hashes: impl Iterator<Item = &'a [u8]>) -> usize {
    let mut found = 0;
    let looked = packed.look_up(
        hashes,
        || Ok::<_, ()>(()),
        |owner, record| {
            found += usize::from(owner.is_some());
            black_box(record);
        },
    );
    looked.expect("nothing is refused");
    found
}

/// Reads the owner and the record of a hash. Returns true if the hash has an owner.
fn find(packed: &Packed, hash: &[u8]) -> bool {
    find_all(packed, std::iter::once(hash)) == 1
}

struct Figures {
    random: u64,
    hashes: u64,
}

fn per(time: Duration, n: u64) -> f64 {
    time.as_nanos() as f64 / n as f64
}

impl Figures {
    fn random(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % below
    }

    fn crawl_of(&self, n: u64) -> Vec<u8> {
        let crawl = n * CRAWLS / self.hashes;
        format!("crawl-{crawl:02}-c2d10f7a").into_bytes()
    }

    fn fill(&mut self, is_expected: bool) -> Packed {
        let of_clock = of_clock();
        let before = IN_USE.load(Relaxed);
        let mut packed = Packed::default();
        let (mut all, mut longest) = (Duration::ZERO, Duration::ZERO);
        let size = self.hashes.div_ceil(CRAWLS);
        let mut entries = Vec::new();
        for n in 0..self.hashes {
            let crawl = self.crawl_of(n);
            if is_expected && n % size == 0 {
                packed.expect(&crawl, size);
            }
            // Time every 64th record individually for the maximum, and the other records together
            // for the mean.
            entries.push((hash(n), record(n, n / size)));
            if n % 64 > 0 && n + 1 < self.hashes {
                continue;
            }
            let (alone, together) = entries.split_first().expect("one at least");
            let start = worked();
            packed.put_new(&crawl, &alone.0, &alone.1);
            longest = longest.max(worked() - start);
            let start = worked();
            for (hash, record) in together {
                packed.put_new(&crawl, hash, record);
            }
            all += (worked() - start).saturating_sub(of_clock);
            entries.clear();
        }
        let in_use = (IN_USE.load(Relaxed) - before) as f64;
        let hashes = self.hashes as f64;
        println!(
            "{} hashes, {} ({in_use:.0} bytes asked for, {} counted)",
            self.hashes,
            if is_expected {
                "announced"
            } else {
                "unannounced"
            },
            packed.memory(),
        );
        let memory = packed.memory() as f64 / hashes;
        println!("  memory per hash {memory:.2} bytes:");
        for (part, bytes) in packed.memory_by_part() {
            println!("    {part:10} {:.2}", bytes as f64 / hashes);
        }
        println!(
            "  put_new {:.0} ns, longest {:.0} us",
            per(all, self.hashes * 63 / 64),
            longest.as_secs_f64() * 1e6
        );
        packed
    }

    fn look_ups(&mut self, packed: &Packed) {
        const DRAWS: u64 = 1 << 18;
        let there: Vec<_> = (0..DRAWS).map(|_| hash(self.random(self.hashes))).collect();
        let not_there: Vec<_> = (0..DRAWS).map(|n| hash(self.hashes + n)).collect();
        let time = |what: &str, run: &mut dyn FnMut()| {
            let start = worked();
            run();
            println!("  {what:32} {:.0} ns", per(worked() - start, DRAWS));
        };
        time("find", &mut || {
            for hash in &there {
                assert!(find(packed, hash));
            }
        });
        time("find, none there", &mut || {
            for hash in &not_there {
                assert!(!find(packed, hash));
            }
        });
        time("has an owner", &mut || {
            for hash in &there {
                assert!(black_box(packed.has(Part::Owners, hash)));
            }
        });
        for batch in [16, 100] {
            time(&format!("find, {batch} at a time"), &mut || {
                for hashes in there.chunks(batch) {
                    let found = find_all(packed, hashes.iter().map(|hash| &hash[..]));
                    assert_eq!(found, hashes.len());
                }
            });
        }
        let few: Vec<_> = there.iter().take(64).collect();
        time("find, in the cache", &mut || {
            for _ in 0..DRAWS / 64 {
                for hash in &few {
                    assert!(find(packed, &hash[..]));
                }
            }
        });
        let crawl = self.crawl_of(0);
        time("find a crawl's record", &mut || {
            for hash in &there {
                black_box(packed.get(Part::Records(&crawl), hash));
            }
        });
    }

    fn scans(&mut self, packed: &Packed) {
        let crawl = self.crawl_of(0);
        for (what, part) in [
            ("scan a crawl", Part::Records(&crawl)),
            ("scan the owners", Part::Owners),
        ] {
            let (mut cursor, mut batch) = (Cursor::default(), Batch::default());
            let (mut given, mut longest) = (0, Duration::ZERO);
            let start = worked();
            let mut more = true;
            while more {
                batch.clear();
                let step = worked();
                more = packed.scan(part, &mut cursor, &mut batch);
                longest = longest.max(worked() - step);
                given += batch.len() as u64;
            }
            let took = worked() - start;
            assert_eq!(given, packed.len(part));
            println!(
                "  {what:32} {:.0} ns each, longest step {:.0} us",
                per(took, given),
                longest.as_secs_f64() * 1e6
            );
        }
        let start = worked();
        let copy = packed.clone();
        println!("  copy {:.0} ns a hash", per(worked() - start, self.hashes));
        drop(copy);
    }

    /// Removes one crawl in the order of a scan, and then the other crawls.
    fn removal(&mut self, packed: &mut Packed) {
        for (i, n) in (0..CRAWLS).enumerate() {
            let crawl = self.crawl_of(n * self.hashes.div_ceil(CRAWLS));
            let records = packed.len(Part::Records(&crawl));
            let (mut cursor, mut batch) = (Cursor::default(), Batch::default());
            let (mut all, mut longest) = (Duration::ZERO, Duration::ZERO);
            let mut more = true;
            while more {
                batch.clear();
                more = packed.scan(Part::Records(&crawl), &mut cursor, &mut batch);
                for (hash, _) in batch.iter() {
                    let start = worked();
                    packed.del(Part::Owners, hash);
                    packed.del(Part::Records(&crawl), hash);
                    let took = worked() - start;
                    all += took;
                    longest = longest.max(took);
                }
            }
            if i % 3 == 0 {
                println!(
                    "  crawl {i} removed: {:.0} ns each, longest {:.0} us; {} bytes left",
                    per(all, records),
                    longest.as_secs_f64() * 1e6,
                    packed.memory()
                );
            }
        }
    }
}
