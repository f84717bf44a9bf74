//! Tests chunks with valid checksums and invalid contents.

use proptest::prelude::*;

use super::*;
use crate::dedupe::packed::encoding::HEAD;
use crawlspace_compact::envelope;
use crawlspace_compact::number::{put, put_bytes};

/// Returns the sections of a value that fits into one chunk.
fn sections(packed: &Packed) -> Vec<(u8, Vec<u8>)> {
    let chunk = chunks(packed, usize::MAX).remove(0);
    let mut rest = &chunk[HEAD..];
    let mut sections = Vec::new();
    while let [kind, a, b, c, d, ..] = *rest {
        let len = u32::from_le_bytes([a, b, c, d]) as usize;
        sections.push((kind, rest[5..][..len].to_vec()));
        rest = &rest[5 + len..];
    }
    sections
}

/// Builds a chunk of these sections, with a valid checksum.
fn chunk_of(sections: &[(u8, Vec<u8>)]) -> Vec<u8> {
    let mut body = vec![0; 4];
    for (kind, content) in sections {
        body.push(*kind);
        body.extend((content.len() as u32).to_le_bytes());
        body.extend(content);
    }
    sealed(&body)
}

fn sealed(body: &[u8]) -> Vec<u8> {
    ENVELOPE.sealed(&[body])
}

/// Loads a chunk. If the load succeeds, the value must be valid.
fn try_chunk(chunk: Vec<u8>) -> Result<Packed, String> {
    let packed = load([&chunk])?;
    let again = load(&chunks(&packed, 700)).expect("what was loaded can be saved");
    assert!(elements(&again) == elements(&packed));
    Ok(packed)
}

#[test]
fn value_with_a_valid_checksum_is_refused_or_consistent() {
    let packed = small();
    let good = sections(&packed);
    let whole = chunk_of(&good);
    assert_eq!(whole, chunks(&packed, 1 << 20)[0]);
    let body = &whole[envelope::HEAD..];
    let mut taken = 0;
    for at in 0..body.len() {
        for bit in 0..8 {
            let mut bad = body.to_vec();
            bad[at] ^= 1 << bit;
            taken += u32::from(try_chunk(sealed(&bad)).is_ok());
        }
        let mut bad = body.to_vec();
        bad.remove(at);
        let _ = try_chunk(sealed(&bad));
        let mut bad = body.to_vec();
        bad.insert(at, body[at]);
        let _ = try_chunk(sealed(&bad));
        assert!(try_chunk(sealed(&body[..at])).is_err());
    }
    // Digits of digests and bytes of values may have any value, so changing them is not an error.
    assert!(taken > 0);
}

/// Loads the sections of a value after changing one of them.
fn with(kind: PartKind, change: impl FnOnce(&mut Vec<u8>)) -> Result<Packed, String> {
    let mut sections = sections(&small());
    let section = sections.iter_mut().find(|(of, _)| *of == kind as u8);
    change(&mut section.expect("there is such a section").1);
    try_chunk(chunk_of(&sections))
}

#[track_caller]
fn assert_refused(result: Result<Packed, String>, why: &str) {
    let Err(error) = result else {
        panic!("accepted, although {why}");
    };
    assert!(error.contains(why), "{error:?} does not say {why:?}");
}

#[test]
fn wrong_counts_are_refused() {
    for i in 0..7 {
        for huge in [false, true] {
            let result = with(PartKind::Counts, |content| {
                let mut counts = small().counts();
                *counts.all()[i] = if huge { u64::MAX } else { *counts.all()[i] + 1 };
                content.clear();
                for count in counts.all() {
                    put(content, *count);
                }
            });
            assert_refused(result, "announced counts");
        }
    }
}

#[test]
fn few_bytes_cannot_allocate_much() {
    let mut counts = Vec::new();
    for _ in 0..7 {
        put(&mut counts, u64::MAX);
    }
    let mut sections = sections(&small());
    sections[0].1 = counts;
    sections.pop();
    let mut packed = Packed::default();
    packed.load(&chunk_of(&sections)).unwrap();
    assert!(packed.memory() < 2 << 20, "{} bytes", packed.memory());
    assert!(packed.loaded().is_err());
    // Lengths that reach beyond the end.
    for kind in [PartKind::Crawls, PartKind::Hosts, PartKind::Records] {
        let result = with(kind, |content| {
            content.truncate(1);
            put(content, u64::MAX);
        });
        assert!(result.is_err());
    }
    // Numbers far above the previous number.
    for number in [u64::MAX, u64::from(u32::MAX), 1 << 30] {
        let result = with(PartKind::Hosts, |content| {
            put(content, number);
            put_bytes(content, b"https://far.example");
        });
        assert!(result.is_err());
    }
}

/// Builds a block of a crawl's records.
fn block(records: &[Vec<u8>]) -> Vec<u8> {
    let mut block = vec![0; 6];
    let records = records.concat();
    block.extend((records.len() as u32).to_le_bytes());
    block.extend(records);
    block
}

/// Builds a record with a value that is stored verbatim.
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

/// Builds a value of the crawls `x` and `y` with these blocks, each with the number of its list.
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
            (0, block(std::slice::from_ref(&x))),
            (1, block(std::slice::from_ref(&y))),
            (2, block(&[owner(OWNS, b"f", 0)])),
            (3, block(&[held(0, b"f", b"1 2")])),
        ],
    )
    .unwrap();
    assert_eq!(good.len(Part::Owners), 2);
    let twice = "has a field twice";
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
                some(0, std::slice::from_ref(&y)),
                some(0, std::slice::from_ref(&x)),
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
            vec![
                some(0, std::slice::from_ref(&x)),
                some(1, std::slice::from_ref(&x)),
            ],
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
            "owner entry for a hash with a record",
            counts(1, 0, 1, 0),
            vec![some(0, &[text(0, "f")]), some(2, &[owner(OWNS, b"f", 0)])],
        ),
        (
            "records out of order",
            counts(2, 1, 0, 0),
            vec![
                some(1, std::slice::from_ref(&y)),
                some(0, std::slice::from_ref(&x)),
            ],
        ),
        (
            "unknown crawl",
            counts(1, 1, 0, 0),
            vec![some(4, std::slice::from_ref(&x))],
        ),
        (
            "unknown crawl",
            counts(1, 1, 1, 0),
            vec![
                some(0, std::slice::from_ref(&x)),
                some(2, &[owner(OWNS, b"f", 2)]),
            ],
        ),
        (
            "an invalid owner",
            counts(1, 1, 1, 0),
            vec![some(2, &[owner(0, b"f", 0)])],
        ),
        (
            "among holders",
            counts(1, 1, 0, 1),
            vec![some(3, &[held(OWNS, b"f", b"1")])],
        ),
        ("of invalid length", counts(0, 0, 0, 0), vec![some(0, &[])]),
        // A verbatim field that fits a format, an unknown format, and a format that is not the
        // canonical one.
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
        // Records marked as dead, and unused bits.
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
            "truncated",
            counts(1, 1, 0, 0),
            vec![some(0, &[x[..20].to_vec()])],
        ),
        // Crawls without any entries.
        (
            "announced",
            counts(1, 1, 0, 0),
            vec![some(0, std::slice::from_ref(&x))],
        ),
    ] {
        assert_refused(value(counts, &blocks), why);
    }
    // A date in the base of a list that is not a crawl.
    let mut dated = block(&[held(0, b"f", b"1")]);
    dated[0] = 1;
    assert_refused(value(counts(1, 1, 0, 1), &[(3, dated)]), "date");
    // A block of several records that is longer than the offset of a position can express.
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
fn reordered_sections_are_refused() {
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
            let is_list = |n: usize| good[n].0 == PartKind::Records as u8;
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
fn other_versions_are_refused_by_name() {
    let good = chunks(&small(), 1 << 20);
    for version in [0, 1, 3, 255] {
        let mut bad = good.clone();
        bad[0][0] = version;
        let error = load(&bad).err().unwrap();
        assert!(error.contains(&format!("version {version}")), "{error}");
    }
}

proptest! {
    #[test]
    fn any_sections_are_refused_or_consistent(
        sections in prop::collection::vec(
            (0..6_u8, prop::collection::vec(prop_oneof![3 => 0..4_u8, 1 => any::<u8>()], 0..60)),
            0..6,
        ),
    ) {
        let _ = try_chunk(chunk_of(&sections));
    }
}
