//! What is saved is what is loaded, and what was tampered with is refused.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::super::encoding::{put, put_bytes};
use super::super::tests::verify;
use super::super::Part;
use super::*;

/// Limits of chunks: one that makes many of a small value, and what a server uses.
const LIMITS: [usize; 3] = [100, 700, 1 << 20];

fn chunks(packed: &Packed, limit: usize) -> Vec<Vec<u8>> {
    let mut chunks = Vec::new();
    packed.save_in(limit, &mut |chunk| chunks.push(chunk.to_vec()));
    chunks
}

fn elements(packed: &Packed) -> BTreeSet<Vec<Vec<u8>>> {
    let mut elements = BTreeSet::new();
    packed.elements(&mut |parts| {
        let parts = parts.iter().map(|part| part.to_vec()).collect();
        assert!(elements.insert(parts), "an element twice");
    });
    elements
}

/// Loads chunks. What is loaded is sound, and loads again; what is refused leaves nothing.
fn load<'a>(chunks: impl IntoIterator<Item = &'a Vec<u8>>) -> Result<Packed, String> {
    let mut packed = Packed::default();
    for chunk in chunks {
        let loaded = packed.load(chunk, 1);
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

/// Something of everything.
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
fn what_is_saved_is_what_is_loaded() {
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
fn a_value_without_entries_is_saved_as_one() {
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
fn a_value_can_be_used_between_its_chunks() {
    let packed = small();
    let all = elements(&packed);
    let good = chunks(&packed, 100);
    let mut loaded = Packed::default();
    for (n, chunk) in good.iter().enumerate() {
        loaded.load(chunk, 1).unwrap();
        verify(&loaded);
        assert!(elements(&loaded).is_subset(&all));
        if n + 1 < good.len() {
            assert!(!loaded.is_empty() && loaded.loaded().is_err());
            // What came so far can be saved, and copied.
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
            // It is another value then, to which the other chunks do not belong.
            assert!(changed.load(&good[n + 1], 1).is_err());
            assert!(before.contains(&vec![b"owners".to_vec(), b"new".to_vec(), b"new".to_vec()]));
        }
    }
    loaded.loaded().unwrap();
    assert!(loaded.load(&good[0], 1).is_err(), "there is a value");
    assert!(elements(&loaded) == all);
}

#[test]
fn a_loaded_value_takes_changes_as_any_other() {
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

/// Sections of a value that is one chunk.
fn sections(packed: &Packed) -> Vec<(u8, Vec<u8>)> {
    let chunk = chunks(packed, usize::MAX).remove(0);
    let mut rest = &chunk[HEAD..chunk.len() - SEAL];
    let mut sections = Vec::new();
    while let [kind, a, b, c, d, ..] = *rest {
        let len = u32::from_le_bytes([a, b, c, d]) as usize;
        sections.push((kind, rest[5..][..len].to_vec()));
        rest = &rest[5 + len..];
    }
    sections
}

/// The chunk of these sections, with the checksum that fits.
fn chunk_of(sections: &[(u8, Vec<u8>)]) -> Vec<u8> {
    let mut chunk = vec![VERSION, 0, 0, 0, 0];
    for (kind, content) in sections {
        chunk.push(*kind);
        chunk.extend((content.len() as u32).to_le_bytes());
        chunk.extend(content);
    }
    sealed(chunk)
}

fn sealed(mut chunk: Vec<u8>) -> Vec<u8> {
    let sum = seal(&chunk, 0);
    chunk.extend(sum.to_le_bytes());
    chunk
}

/// Loads one chunk. Whatever it says, what comes of it is a sound value.
fn try_chunk(chunk: Vec<u8>) -> Result<Packed, String> {
    let packed = load([&chunk])?;
    let again = load(&chunks(&packed, 700)).expect("what was loaded can be saved");
    assert!(elements(&again) == elements(&packed));
    Ok(packed)
}

#[test]
fn what_has_the_right_checksum_is_refused_or_sound() {
    let packed = small();
    let good = sections(&packed);
    let whole = chunk_of(&good);
    assert_eq!(whole, chunks(&packed, 1 << 20)[0]);
    let sealed_from = whole.len() - SEAL;
    let mut taken = 0;
    for at in 0..sealed_from {
        for bit in 0..8 {
            let mut bad = whole[..sealed_from].to_vec();
            bad[at] ^= 1 << bit;
            taken += u32::from(try_chunk(sealed(bad)).is_ok());
        }
        let mut bad = whole[..sealed_from].to_vec();
        bad.remove(at);
        let _ = try_chunk(sealed(bad));
        let mut bad = whole[..sealed_from].to_vec();
        bad.insert(at, whole[at]);
        let _ = try_chunk(sealed(bad));
        assert!(try_chunk(sealed(whole[..at].to_vec())).is_err());
    }
    // Digits of digests and bytes of values may be any.
    assert!(taken > 0);
}

/// The sections of a value with one of them changed.
fn with(kind: Kind, change: impl FnOnce(&mut Vec<u8>)) -> Result<Packed, String> {
    let mut sections = sections(&small());
    let section = sections.iter_mut().find(|(of, _)| *of == kind as u8);
    change(&mut section.expect("there is such a section").1);
    try_chunk(chunk_of(&sections))
}

#[track_caller]
fn assert_refused(result: Result<Packed, String>, why: &str) {
    let error = result.err().expect("refused");
    assert!(error.contains(why), "{error:?} does not say {why:?}");
}

#[test]
fn counts_that_are_not_those_of_the_value_are_refused() {
    for i in 0..7 {
        for huge in [false, true] {
            let result = with(Kind::Counts, |content| {
                let mut counts = small().counts();
                *counts.all()[i] = if huge { u64::MAX } else { *counts.all()[i] + 1 };
                content.clear();
                for count in counts.all() {
                    put(content, *count);
                }
            });
            assert_refused(result, "not what was announced");
        }
    }
}

#[test]
fn a_few_bytes_cannot_ask_for_very_much() {
    let mut counts = Vec::new();
    for _ in 0..7 {
        put(&mut counts, u64::MAX);
    }
    let mut sections = sections(&small());
    sections[0].1 = counts;
    sections.pop();
    let mut packed = Packed::default();
    packed.load(&chunk_of(&sections), 1).unwrap();
    assert!(packed.memory() < 2 << 20, "{} bytes", packed.memory());
    assert!(packed.loaded().is_err());
    // Lengths beyond the end.
    for kind in [Kind::Crawls, Kind::Hosts, Kind::Records] {
        let result = with(kind, |content| {
            content.truncate(1);
            put(content, u64::MAX);
        });
        assert!(result.is_err());
    }
    // Numbers far beyond those before them.
    for number in [u64::MAX, u64::from(u32::MAX), 1 << 30] {
        let result = with(Kind::Hosts, |content| {
            put(content, number);
            put_bytes(content, b"https://far.example");
        });
        assert!(result.is_err());
    }
}

/// A block of a crawl's records.
fn block(records: &[Vec<u8>]) -> Vec<u8> {
    let mut block = vec![0; 6];
    let records = records.concat();
    block.extend((records.len() as u32).to_le_bytes());
    block.extend(records);
    block
}

/// A record with a value that is kept as it is.
fn plain(head: u8, field: &[u8]) -> Vec<u8> {
    let mut record = vec![head];
    if head & 0x0f == 0 {
        put(&mut record, field.len() as u64);
    }
    record.extend(field);
    let mut codec = Packed::default().codec;
    codec.encode(Base::default(), b"any value", &mut record);
    record
}

const OWNS: u8 = 0x10;

/// A value of crawls `x` and `y` with these blocks, each with the number of its list.
fn value(counts: Counts, blocks: &[(u64, Vec<u8>)]) -> Result<Packed, String> {
    let mut announced = Vec::new();
    for count in { counts }.all() {
        put(&mut announced, *count);
    }
    let mut crawls = Vec::new();
    put_bytes(&mut crawls, b"x");
    put_bytes(&mut crawls, b"y");
    let mut sections = vec![(0, announced), (1, crawls)];
    for (list, block) in blocks {
        let mut content = Vec::new();
        put(&mut content, *list);
        content.extend(block);
        sections.push((4, content));
    }
    sections.push((5, Vec::new()));
    try_chunk(chunk_of(&sections))
}

fn counts(records: u64, owned: u64, owners: u64, holders: u64) -> Counts {
    Counts {
        crawls: 2,
        records,
        owned,
        owners,
        holders,
        ..Counts::default()
    }
}

fn owner(head: u8, field: &[u8], crawl: u32) -> Vec<u8> {
    let mut record = vec![head];
    put_bytes(&mut record, field);
    record.extend(crawl.to_le_bytes());
    record
}

fn held(head: u8, field: &[u8], value: &[u8]) -> Vec<u8> {
    let mut record = vec![head];
    put_bytes(&mut record, field);
    put_bytes(&mut record, value);
    record
}

#[test]
fn contradictions_are_refused() {
    let digest = [7; 32];
    let x = plain(1 | OWNS, &digest);
    let y = plain(1, &digest);
    let good = value(
        counts(2, 1, 1, 1),
        &[
            (0, block(&[x.clone()])),
            (1, block(&[y.clone()])),
            (2, block(&[owner(OWNS, b"f", 0)])),
            (3, block(&[held(0, b"f", b"1 2")])),
        ],
    )
    .unwrap();
    assert_eq!(good.len(Part::Owners), 2);
    let twice = "for the second time";
    let some = |list: u64, records: &[Vec<u8>]| (list, block(records));
    let text = |head: u8, field: &str| plain(head, field.as_bytes());
    let digits = "07".repeat(32);
    for (why, counts, blocks) in [
        (
            twice,
            counts(2, 2, 0, 0),
            vec![some(0, &[x.clone(), x.clone()])],
        ),
        (
            twice,
            counts(2, 0, 0, 0),
            vec![some(0, &[y.clone(), y.clone()])],
        ),
        (
            twice,
            counts(2, 1, 0, 0),
            vec![some(0, &[x.clone(), y.clone()]), some(1, &[text(0, "f")])],
        ),
        (
            twice,
            counts(2, 1, 0, 0),
            vec![
                some(0, &[y.clone()]),
                some(0, &[x.clone()]),
                some(1, &[text(0, "f")]),
            ],
        ),
        (
            twice,
            counts(2, 1, 0, 0),
            vec![some(0, &[y.clone(), x.clone()])],
        ),
        (
            twice,
            counts(2, 2, 0, 0),
            vec![some(0, &[x.clone()]), some(1, &[x.clone()])],
        ),
        (
            twice,
            counts(2, 1, 1, 0),
            vec![
                some(0, &[text(OWNS, "f")]),
                some(2, &[owner(OWNS, b"f", 1)]),
            ],
        ),
        (
            twice,
            counts(1, 0, 2, 0),
            vec![some(2, &[owner(OWNS, b"f", 1), owner(OWNS, b"f", 0)])],
        ),
        (
            twice,
            counts(1, 1, 0, 2),
            vec![some(3, &[held(0, b"f", b"1"), held(0, b"f", b"2")])],
        ),
        (
            "apart from its record",
            counts(1, 0, 1, 0),
            vec![some(0, &[text(0, "f")]), some(2, &[owner(OWNS, b"f", 0)])],
        ),
        (
            "where they cannot be",
            counts(2, 1, 0, 0),
            vec![some(1, &[y.clone()]), some(0, &[x.clone()])],
        ),
        (
            "no known crawl",
            counts(1, 1, 0, 0),
            vec![some(4, &[x.clone()])],
        ),
        (
            "no known crawl",
            counts(1, 1, 1, 0),
            vec![some(0, &[x.clone()]), some(2, &[owner(OWNS, b"f", 2)])],
        ),
        (
            "an owner that is none",
            counts(1, 1, 1, 0),
            vec![some(2, &[owner(0, b"f", 0)])],
        ),
        (
            "among holders",
            counts(1, 1, 0, 1),
            vec![some(3, &[held(OWNS, b"f", b"1")])],
        ),
        ("a wrong length", counts(0, 0, 0, 0), vec![some(0, &[])]),
        // Text of which there is a shorter form, an unknown spelling, and one that is not the first.
        (
            "kind",
            counts(1, 1, 0, 0),
            vec![some(0, &[text(OWNS, &format!("sha256:{digits}"))])],
        ),
        (
            "kind",
            counts(1, 1, 0, 0),
            vec![some(0, &[text(OWNS, &digits)])],
        ),
        (
            "kind",
            counts(1, 1, 0, 0),
            vec![some(0, &[plain(15 | OWNS, &digest)])],
        ),
        (
            "kind",
            counts(1, 1, 0, 0),
            vec![some(0, &[plain(11 | OWNS, &[0x22; 32])])],
        ),
        // Records that are no more, and bits without a meaning.
        (
            "begins with",
            counts(1, 0, 0, 0),
            vec![some(0, &[plain(1 | 0x20, &digest)])],
        ),
        (
            "begins with",
            counts(1, 0, 0, 0),
            vec![some(0, &[plain(1 | 0x40, &digest)])],
        ),
        (
            "cut off",
            counts(1, 1, 0, 0),
            vec![some(0, &[x[..20].to_vec()])],
        ),
        // Crawls of which there is nothing.
        ("announced", counts(1, 1, 0, 0), vec![some(0, &[x.clone()])]),
    ] {
        assert_refused(value(counts, &blocks), why);
    }
    // A date outside crawls.
    let mut dated = block(&[held(0, b"f", b"1")]);
    dated[0] = 1;
    assert_refused(value(counts(1, 1, 0, 1), &[(3, dated)]), "date");
    // A block that is too long for places in it, of more than one record.
    let long: Vec<Vec<u8>> = (0..2000_u32)
        .map(|n| {
            let mut digest = [0; 32];
            digest[..4].copy_from_slice(&n.to_le_bytes());
            plain(1 | OWNS, &digest)
        })
        .collect();
    assert_refused(
        value(counts(2000, 2000, 0, 0), &[(0, block(&long))]),
        "length",
    );
}

#[test]
fn sections_in_another_order_are_refused() {
    let good = sections(&small());
    for i in 0..good.len() {
        let mut bad = good.clone();
        bad.remove(i);
        let chunk = chunk_of(&bad);
        assert!(load([&chunk]).is_err(), "without section {i}");
        let mut bad = good.clone();
        bad.insert(i, good[i].clone());
        assert!(try_chunk(chunk_of(&bad)).is_err(), "section {i} twice");
        for j in 0..i {
            let mut bad = good.clone();
            bad.swap(i, j);
            let is_list = |n: usize| good[n].0 == Kind::Records as u8;
            let loaded = try_chunk(chunk_of(&bad));
            assert!(loaded.is_err(), "{i} and {j} {}", is_list(i));
        }
    }
    for kind in [6, 7, 0xff] {
        let mut bad = good.clone();
        bad[2].0 = kind;
        assert_refused(try_chunk(chunk_of(&bad)), "kind");
    }
}

#[test]
fn later_versions_are_refused_by_name() {
    let good = chunks(&small(), 1 << 20);
    for version in [0, 2, 255] {
        let mut bad = good.clone();
        bad[0][0] = version;
        let error = load(&bad).err().unwrap();
        assert!(error.contains(&format!("version {version}")), "{error}");
    }
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
fn a_loaded_value_takes_about_the_memory_of_a_fresh_one() {
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
fn what_is_gone_is_not_saved() {
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

/// A change: what, in which of some crawls, of which field, to what.
type Change = (u8, u8, Vec<u8>, Vec<u8>);

fn apply(packed: &mut Packed, (what, crawl, field, value): &Change) {
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
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_contents_come_back(
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

    #[test]
    fn any_sections_are_refused_or_sound(
        sections in prop::collection::vec(
            (0..6_u8, prop::collection::vec(prop_oneof![3 => 0..4_u8, 1 => any::<u8>()], 0..60)),
            0..6,
        ),
    ) {
        let _ = try_chunk(chunk_of(&sections));
    }
}

/// Figures: `cargo test --release --no-default-features --lib figures_of_saving -- --ignored --nocapture`.
#[test]
#[ignore = "takes a while, and says rather than tests"]
fn figures_of_saving_and_loading() {
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
        loaded.load(chunk, 1).unwrap();
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
