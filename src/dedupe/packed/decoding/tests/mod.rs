//! Tests round trips of saved values, and rejection of tampered values.

mod hostile;

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::dedupe::packed::Part;
use crate::dedupe::packed::tests::verify;

/// Maximum chunk sizes: two sizes that split a small value into many chunks, and the size that the
/// server uses.
const LIMITS: [usize; 3] = [100, 700, 1 << 20];

fn chunks(packed: &Packed, limit: usize) -> Vec<Vec<u8>> {
    let mut chunks = Vec::new();
    packed.save_in(limit, &mut |chunk| chunks.push(chunk.to_vec()));
    chunks
}

fn elements(packed: &Packed) -> BTreeSet<Vec<Vec<u8>>> {
    let mut elements = BTreeSet::new();
    packed.entries(&mut |parts| {
        let parts = parts.iter().map(|part| part.to_vec()).collect();
        assert!(elements.insert(parts), "an element twice");
    });
    elements
}

/// Loads chunks. If the load succeeds, the value must be valid and must load again after saving;
/// otherwise it must be empty.
fn load<'a>(chunks: impl IntoIterator<Item = &'a Vec<u8>>) -> Result<Packed, String> {
    let mut packed = Packed::default();
    for chunk in chunks {
        let loaded = packed.load(chunk);
        if let Err(error) = &loaded {
            assert!(
                error.is_ascii() && error.contains("packed index"),
                "{error}"
            );
        }
        if loaded.is_err() {
            verify(&packed);
        }
        loaded?;
    }
    verify(&packed);
    packed.loaded()?;
    Ok(packed)
}

fn hash(n: u64) -> Vec<u8> {
    let digits: String = (0..4_u64)
        .map(|i| format!("{:016x}", (n + i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)))
        .collect();
    format!("sha256:{digits}").into_bytes()
}

fn record(n: u64) -> Vec<u8> {
    let host = n % 7;
    format!(
        "{} 202401{:02}000000 https://host-{host}.example.org/page/{n} 10{n}",
        n % 3,
        n % 28 + 1
    )
    .into_bytes()
}

/// Returns a small value with every kind of entry.
fn small() -> Packed {
    let mut packed = Packed::default();
    for n in 0..20 {
        packed.put_new([&b"a"[..], b"b"][n as usize % 2], &hash(n), &record(n));
    }
    packed.set(Part::Records(b"b"), &hash(0), &record(0));
    packed.set(Part::Records(b"a"), &hash(1), b"another value");
    packed.set(Part::Holders, &hash(0), b"1 2");
    packed.set(Part::Holders, b"\xff", b"");
    packed.set(Part::Owners, b"odd\xff\0", b"nobody");
    packed.set(Part::Owners, &hash(40), b"a");
    packed.set(Part::Records(b""), b"", b"");
    packed.set(Part::Owners, b"", b"");
    packed.set(
        Part::Records(b"c"),
        b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567",
        b"x",
    );
    packed.del(Part::Records(b"a"), &hash(4));
    packed.del(Part::Owners, &hash(6));
    verify(&packed);
    packed
}

#[test]
fn saved_value_loads_back() {
    let packed = small();
    for limit in LIMITS {
        let chunks = chunks(&packed, limit);
        let loaded = load(&chunks).unwrap();
        assert!(elements(&loaded) == elements(&packed));
        assert_eq!(loaded.counts(), packed.counts());
        assert_eq!(loaded.len(Part::Owners), packed.len(Part::Owners));
        assert_eq!(loaded.all_records(), packed.all_records());
        assert!(elements(&loaded.clone()) == elements(&packed));
    }
    assert_eq!(
        chunks(&packed, 1 << 20).len(),
        1,
        "a small value is one chunk"
    );
    assert!(chunks(&packed, 100).len() > 10);
}

#[test]
fn value_without_entries_is_saved() {
    let loaded = load(&chunks(&Packed::default(), 1 << 20)).unwrap();
    assert!(loaded.is_empty());
}

#[test]
fn any_changed_byte_is_refused() {
    let packed = small();
    for limit in [700, 1 << 20] {
        let good = chunks(&packed, limit);
        for number in 0..good.len() {
            for at in 0..good[number].len() {
                let mut bad = good.clone();
                for bit in 0..8 {
                    bad[number][at] ^= 1 << bit;
                    assert!(load(&bad[..=number]).is_err());
                    bad[number][at] ^= 1 << bit;
                }
                bad[number].truncate(at);
                assert!(load(&bad[..=number]).is_err());
            }
            let mut bad = good.clone();
            bad[number].push(0);
            assert!(load(&bad[..=number]).is_err());
        }
    }
}

#[test]
fn missing_repeated_foreign_and_reordered_chunks_are_refused() {
    let good = chunks(&small(), 100);
    let mut other = small();
    other.set(Part::Records(b"b"), b"", b"further");
    let foreign = chunks(&other, 100);
    assert!(load(&[good.clone(), good.clone()].concat()).is_err());
    for i in 0..good.len() {
        let mut bad = good.clone();
        bad.remove(i);
        assert!(load(&bad).is_err());
        let mut bad = good.clone();
        bad.truncate(i);
        assert!(i == 0 || load(&bad).is_err());
        let mut bad = good.clone();
        bad.insert(i, good[i].clone());
        assert!(load(&bad).is_err());
        if i < foreign.len() && foreign[i] != good[i] {
            let mut bad = good.clone();
            bad[i] = foreign[i].clone();
            assert!(load(&bad).is_err());
        }
        for j in 0..i {
            let mut bad = good.clone();
            bad.swap(i, j);
            assert!(load(&bad).is_err());
        }
    }
}

#[test]
fn value_can_be_used_between_its_chunks() {
    let packed = small();
    let all = elements(&packed);
    let good = chunks(&packed, 100);
    let mut loaded = Packed::default();
    for (n, chunk) in good.iter().enumerate() {
        loaded.load(chunk).unwrap();
        verify(&loaded);
        assert!(elements(&loaded).is_subset(&all));
        if n + 1 < good.len() {
            assert!(!loaded.is_empty() && loaded.loaded().is_err());
            // A partially loaded value can be saved and copied.
            let some = load(&chunks(&loaded, 100)).unwrap();
            assert!(elements(&some) == elements(&loaded));
            let mut changed = loaded.clone();
            changed.put_new(b"new", b"new", b"0 20240101000000 https://new.example/ 5");
            changed.set(Part::Holders, b"new", b"7");
            let field = &hash(1);
            changed.del(Part::Records(b"b"), field);
            changed.del(Part::Owners, field);
            verify(&changed);
            let before = elements(&changed);
            // The value has changed, so the remaining chunks are refused.
            assert!(changed.load(&good[n + 1]).is_err());
            assert!(before.contains(&vec![b"owners".to_vec(), b"new".to_vec(), b"new".to_vec()]));
        }
    }
    loaded.loaded().unwrap();
    assert!(loaded.load(&good[0]).is_err(), "there is a value");
    assert!(elements(&loaded) == all);
}

#[test]
fn loaded_value_accepts_changes() {
    let mut packed = small();
    let mut loaded = load(&chunks(&packed, 700)).unwrap();
    for value in [&mut packed, &mut loaded] {
        for n in 0..60 {
            value.put_new(b"d", &hash(n), &record(n + 1));
            if n % 3 == 0 {
                value.del(Part::Records(b"a"), &hash(n));
                value.set(Part::Owners, &hash(n), b"d");
            }
        }
        verify(value);
    }
    assert!(elements(&packed) == elements(&loaded));
    let all = elements(&packed);
    for element in &all {
        let part = match &element[0][..] {
            b"owners" => Part::Owners,
            b"holders" => Part::Holders,
            _ => Part::Records(&element[1]),
        };
        let field = &element[element.len() - 2];
        for value in [&mut packed, &mut loaded] {
            let was = value.get(part, field).expect("what there is");
            assert_eq!(was[..], element[element.len() - 1]);
            assert!(value.del(part, field));
        }
    }
    assert!(packed.is_empty() && loaded.is_empty());
    assert_eq!(loaded.memory(), Packed::default().memory());
}

fn many(crawls: u64, each: u64) -> Packed {
    let mut packed = Packed::default();
    for crawl in 0..crawls {
        let id = format!("crawl-{crawl}").into_bytes();
        packed.expect(&id, each);
        for n in 0..each {
            let n = if n % 20 == 0 { n } else { crawl * each + n };
            let (field, value) = (hash(n), record(n));
            if packed.has(Part::Owners, &field) {
                packed.set(Part::Records(&id), &field, &value);
                packed.set(Part::Holders, &field, b"3");
            } else {
                packed.put_new(&id, &field, &value);
            }
        }
    }
    packed
}

#[test]
fn loaded_value_takes_about_the_memory_of_a_fresh_one() {
    let fresh = many(4, 20_000);
    let chunks = chunks(&fresh, 1 << 20);
    assert!(chunks.len() > 3 && chunks.iter().all(|chunk| chunk.len() <= 1 << 20));
    let loaded = load(&chunks).unwrap();
    let (loaded, fresh) = (loaded.memory(), fresh.memory());
    assert!(
        loaded.abs_diff(fresh) * 20 < fresh,
        "{loaded} bytes loaded, {fresh} fresh"
    );
}

#[test]
fn removed_hosts_leave_no_significant_gap() {
    let mut packed = Packed::default();
    let url = |n: u64| format!("0 20240101000000 https://host-{n}.example/ 5").into_bytes();
    // The remaining hosts have the lowest and the highest numbers.
    let stays = |n: u64| !(3..70_000).contains(&n);
    for n in 0..70_003 {
        for twice in 0..2 {
            packed.put_new(b"a", &hash(2 * n + twice), &url(n));
        }
    }
    for n in (0..70_003).filter(|n| !stays(*n)) {
        for twice in 0..2 {
            packed.del(Part::Records(b"a"), &hash(2 * n + twice));
            packed.del(Part::Owners, &hash(2 * n + twice));
        }
    }
    let loaded = load(&chunks(&packed, 1 << 20)).unwrap();
    assert!(elements(&loaded) == elements(&packed));
}

#[test]
fn removed_entries_are_not_saved() {
    let mut packed = many(4, 5_000);
    let bytes = |packed: &Packed| chunks(packed, 1 << 20).concat().len();
    let before = bytes(&packed);
    for n in 0..20_000 {
        if n % 10 != 0 {
            for crawl in ["crawl-0", "crawl-1", "crawl-2", "crawl-3"] {
                packed.del(Part::Records(crawl.as_bytes()), &hash(n));
            }
            packed.del(Part::Owners, &hash(n));
            packed.del(Part::Holders, &hash(n));
        }
    }
    verify(&packed);
    assert!(
        bytes(&packed) < before / 5,
        "{} of {before}",
        bytes(&packed)
    );
    let loaded = load(&chunks(&packed, 1 << 20)).unwrap();
    assert!(elements(&loaded) == elements(&packed));
}

fn any_field() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        3 => (0..60_u64).prop_map(hash),
        1 => prop::collection::vec(any::<u8>(), 0..4),
        1 => "[0-9a-f]{32}|[0-9A-F]{64}|sha1:[A-Z2-7]{32}|[2-7]{32}|[0-9]{64}".prop_map(String::into_bytes),
        1 => (1..200_usize).prop_map(|len| vec![b'x'; len * 37]),
    ]
}

fn any_value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        3 => (0..1000_u64).prop_map(record),
        1 => prop::collection::vec(any::<u8>(), 0..40),
        1 => "[0-9]{0,3} [0-9]{13,17} [ -~]{0,40} [0-9]{0,12}".prop_map(String::into_bytes),
        1 => (1..30_usize).prop_map(|len| vec![b'y'; len * 3001]),
    ]
}

/// A change: kind, crawl, field and value.
type RawChange = (u8, u8, Vec<u8>, Vec<u8>);

fn apply(packed: &mut Packed, (what, crawl, field, value): &RawChange) {
    let id = [&b""[..], b"a", b"b", b"nobody"][usize::from(*crawl % 4)];
    match what % 9 {
        0..=3 => drop(packed.put_new(id, field, value)),
        4 => drop(packed.set(Part::Records(id), field, value)),
        5 => drop(packed.set(Part::Owners, field, id)),
        6 => drop(packed.set(Part::Holders, field, value)),
        7 => drop(packed.del(Part::Records(id), field)),
        _ => drop(packed.del(Part::Owners, field)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn any_contents_load_back(
        changes in prop::collection::vec((any::<u8>(), any::<u8>(), any_field(), any_value()), 0..150),
        later in prop::collection::vec((any::<u8>(), any::<u8>(), any_field(), any_value()), 0..40),
        limit in prop_oneof![Just(100_usize), Just(5000), Just(1 << 20)],
    ) {
        let mut packed = Packed::default();
        for change in &changes {
            apply(&mut packed, change);
        }
        let mut loaded = load(&chunks(&packed, limit)).unwrap();
        prop_assert!(elements(&loaded) == elements(&packed));
        for change in &later {
            apply(&mut packed, change);
            apply(&mut loaded, change);
        }
        verify(&loaded);
        prop_assert!(elements(&loaded) == elements(&packed));
    }
}

/// Benchmark: `cargo test --release --no-default-features --lib figures_of_saving -- --ignored
/// --nocapture`.
#[test]
#[ignore = "takes a while, and says rather than tests"]
fn save_and_load_figures_are_printed() {
    use std::time::Instant;
    let packed = many(10, 100_000);
    let n = packed.len(Part::Owners) as f64;
    let begun = Instant::now();
    let mut saved = Vec::new();
    packed.save(&mut |chunk| saved.push(chunk.to_vec()));
    let save = begun.elapsed();
    let bytes: usize = saved.iter().map(Vec::len).sum();
    let begun = Instant::now();
    let mut loaded = Packed::default();
    for chunk in &saved {
        loaded.load(chunk).unwrap();
    }
    loaded.loaded().unwrap();
    let load = begun.elapsed();
    let begun = Instant::now();
    let mut count = 0;
    packed.elements(&mut |_| count += 1);
    let walk = begun.elapsed();
    println!(
        "{n} hashes, {} records: {:.1} bytes a hash in {} chunks, saved in {save:?}, loaded in {load:?}; \
         {count} elements in {walk:?}; memory {:.1} a hash, loaded {:.1}",
        packed.all_records(),
        bytes as f64 / n,
        saved.len(),
        packed.memory() as f64 / n,
        loaded.memory() as f64 / n,
    );
}
