//! Figures of the tagging index: memory per record, times of look-ups and changes.
//!
//! `cargo run --release --no-default-features --example tags_index [records]`

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use crawlspace::tags::index::{Index, Mode, Tagged};

/// Counts bytes in use. With the module there is an allocator already, the server's.
#[cfg_attr(feature = "module", expect(dead_code))]
struct Counting;

static IN_USE: AtomicUsize = AtomicUsize::new(0);

// SAFETY: all is done by the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        IN_USE.fetch_add(layout.size(), Relaxed);
        // SAFETY: the caller's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's contract.
        unsafe { System.dealloc(at, layout) }
    }
}

#[cfg(not(feature = "module"))]
#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn main() {
    let records: u64 = match std::env::args().nth(1) {
        Some(records) => records.parse().expect("a number of records"),
        None => 1_000_000,
    };
    let mut figures = Figures {
        random: 0x2545_f491_4f6c_dd1d,
        records,
    };
    let mut index = figures.load();
    figures.look_ups(&index);
    figures.changes(&mut index);
    figures.chunks(&index);
    figures.tags();
}

struct Figures {
    random: u64,
    records: u64,
}

/// An id of a record; about 110 bytes.
fn record(n: u64) -> Vec<u8> {
    let host = n % 5000;
    let file = n / 2000;
    format!(
        "org,example{host:04},www)/archive/{:08x} 2024{:02}{:02}1234{:02} ARCHIVEIT-{}-20240101-{file:06}-h3.warc.gz {}",
        n.wrapping_mul(0x9e37_79b9) & 0xffff_ffff,
        n % 12 + 1,
        n % 28 + 1,
        n % 60,
        file % 1000,
        n % 2000 * 524_287 + 13
    )
    .into_bytes()
}

impl Figures {
    fn random(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % below
    }

    fn load(&mut self) -> Index {
        let before = IN_USE.load(Relaxed);
        let start = Instant::now();
        let mut index = Index::default();
        let (mut bytes, mut slowest) = (0, 0);
        for from in (0..self.records).step_by(1000) {
            let till = self.records.min(from + 1000);
            let ids: Vec<_> = (from..till)
                .map(|n| {
                    (
                        record(n),
                        format!("coll:{} crawl:{}", n / 2000 % 1000, n % 10),
                    )
                })
                .collect();
            let pairs: Vec<_> = ids
                .iter()
                .map(|(id, tags)| (&id[..], tags.as_bytes()))
                .collect();
            bytes += ids.iter().map(|(id, _)| id.len()).sum::<usize>();
            let start = Instant::now();
            index
                .load(Tagged::Record, Mode::Merge, &pairs)
                .expect("good records");
            slowest = slowest.max(start.elapsed().as_micros());
        }
        let seconds = start.elapsed().as_secs_f64();
        let in_use = IN_USE.load(Relaxed) - before;
        let per = |what: usize| what as f64 / self.records as f64;
        println!(
            "{} records with ids of {:.1} bytes, two tags each",
            self.records,
            per(bytes)
        );
        println!(
            "  {:.1} bytes each as memory() says, {:.1} as the allocator counts",
            per(index.memory()),
            per(in_use)
        );
        println!(
            "  loaded in {seconds:.2} s, making the ids included; the slowest 1000 in {slowest} us"
        );
        if cfg!(not(feature = "module")) {
            let off = index.memory() as f64 / in_use as f64;
            assert!((0.85..1.15).contains(&off), "memory() is off by {off}");
        }
        index
    }

    fn look_ups(&mut self, index: &Index) {
        let many = 200_000;
        for (what, beyond) in [
            ("hit", 0),
            ("miss, filename known", 1),
            ("miss", self.records),
        ] {
            let ids: Vec<_> = (0..many)
                .map(|_| {
                    let n = self.random(self.records);
                    let mut id = record(n + if beyond > 1 { beyond } else { 0 });
                    if beyond == 1 {
                        id.push(b'7');
                    }
                    id
                })
                .collect();
            let start = Instant::now();
            let found = ids
                .iter()
                .filter(|id| !index.tags_of(Tagged::Record, black_box(id)).is_empty());
            let found = found.count();
            let time = start.elapsed().as_nanos() as f64 / f64::from(many);
            println!("  tags_of, {what}: {time:.0} ns ({found} found)");
        }
    }

    fn changes(&mut self, index: &mut Index) {
        for (what, every) in [
            ("no snapshot", 0),
            ("one snapshot", u64::MAX),
            ("a new snapshot before each", 1),
        ] {
            let many = 100_000;
            let ids: Vec<_> = (0..many)
                .map(|_| record(self.random(self.records)))
                .collect();
            let mut snapshot = (every > 0).then(|| index.clone());
            let (mut total, mut slowest) = (0, 0);
            for (n, id) in (0..).zip(&ids) {
                if every == 1 && n > 0 {
                    snapshot = Some(index.clone());
                }
                let start = Instant::now();
                let (added, _) = index
                    .add(Tagged::Record, id, &[b"private"])
                    .expect("a good tag");
                if added == 0 {
                    index.remove(Tagged::Record, id, &[b"private"]);
                }
                let time = start.elapsed().as_nanos();
                total += time;
                slowest = slowest.max(time);
            }
            let mean = total as f64 / f64::from(many) / 1000.0;
            println!(
                "  toggle of an edge, {what}: {mean:.2} us, the slowest {} us",
                slowest / 1000
            );
            drop(snapshot);
        }
        let start = Instant::now();
        let mut cursor = 0;
        let mut seen = 0;
        loop {
            cursor = index.scan(Tagged::Record, cursor, 1000, &mut |_, _| seen += 1);
            if cursor == 0 {
                break;
            }
        }
        let time = start.elapsed().as_nanos() as f64 / seen as f64;
        println!("  scan: {time:.0} ns a record");
    }

    fn chunks(&mut self, index: &Index) {
        let start = Instant::now();
        let mut chunks = Vec::new();
        index.save(&mut |chunk| chunks.push(chunk.to_vec()));
        let saved = start.elapsed().as_secs_f64();
        let bytes: usize = chunks.iter().map(Vec::len).sum();
        let start = Instant::now();
        let mut loaded = Index::default();
        for chunk in &chunks {
            loaded.load_chunk(chunk).expect("a good chunk");
        }
        let time = start.elapsed().as_secs_f64();
        println!(
            "  {:.1} bytes a record when saved, in {saved:.2} s; loaded again in {time:.2} s",
            bytes as f64 / self.records as f64
        );
        let start = Instant::now();
        assert!(&loaded == index);
        println!("  compared in {:.2} s", start.elapsed().as_secs_f64());
        let start = Instant::now();
        drop(loaded);
        println!("  freed in {:.3} s", start.elapsed().as_secs_f64());
    }

    /// A million collections of 1000 organisations, each public or private.
    fn tags(&mut self) {
        let collections = 1_000_000;
        let before = IN_USE.load(Relaxed);
        let mut index = Index::default();
        let ids: Vec<_> = (0..collections)
            .map(|n| format!("coll:{n}").into_bytes())
            .collect();
        let made = IN_USE.load(Relaxed) - before;
        for (n, id) in ids.iter().enumerate() {
            let org = format!("org:{}", n % 1000);
            index
                .add(Tagged::Tag, id, &[org.as_bytes(), b"private"])
                .expect("no circle");
        }
        let in_use = IN_USE.load(Relaxed) - before - made;
        println!("{collections} tags that carry two each");
        let per = |what: usize| what as f64 / f64::from(collections);
        println!(
            "  {:.1} bytes each as memory() says, {:.1} as the allocator counts",
            per(index.memory()),
            per(in_use)
        );
        for (what, keep) in [("no snapshot", false), ("one snapshot", true)] {
            let snapshot = keep.then(|| index.clone());
            let start = Instant::now();
            let many = 100_000;
            for _ in 0..many {
                let id = &ids[self.random(ids.len() as u64) as usize];
                if index.remove(Tagged::Tag, id, &[b"private"]).0 == 0 {
                    index
                        .add(Tagged::Tag, id, &[b"private"])
                        .expect("no circle");
                }
            }
            let time = start.elapsed().as_micros() as f64 / f64::from(many);
            println!("  toggle of an edge, {what}: {time:.2} us");
            drop(snapshot);
        }
        let start = Instant::now();
        let (mut tags, many) = (Vec::new(), 1_000_000);
        for _ in 0..many {
            let id = &ids[self.random(ids.len() as u64) as usize];
            tags.clear();
            index.closure(&[index.tag(id).expect("a tag")], &mut tags);
            black_box(&tags);
        }
        let time = start.elapsed().as_nanos() as f64 / f64::from(many);
        println!("  look-up of a tag and its closure: {time:.0} ns");
    }
}
