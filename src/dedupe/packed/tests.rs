//! Tests that a packed index equals plain maps after arbitrary changes.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::model::Model;
use super::place::{RecordSlot, Records};
use super::record::Record;
use super::*;
use crawlspace_compact::blocks::NONE;
use crawlspace_host::keyspace::Batch;

/// Asserts the invariants between the parts.
pub(super) fn verify(packed: &Packed) {
    packed.table.verify(&packed.chunks);
    let (mut all, mut records, mut owners, mut chunks, mut room) = (0, 0, 0, 0, 0);
    let crawls = packed.crawls.iter().map(|(number, _)| number);
    for list in crawls.chain([OWNERS, HOLDERS]) {
        let of = packed.crawls.list(list);
        let (mut count, mut owned, mut live, mut used) = (0, 0, 0, 0);
        let mut number = of.segment.first;
        let mut sequence = None;
        while number != NONE {
            let chunk = packed.chunks.get(number);
            assert_eq!(chunk.crawl(), list);
            assert!(sequence < Some(chunk.sequence()));
            sequence = Some(chunk.sequence());
            chunks += 1;
            room += chunk.room();
            let mut offset = 0;
            let mut live_here = 0;
            while offset < chunk.bytes().len() {
                let record = Record::at(&chunk.bytes()[offset..]);
                let len = packed.len_of(list, &record);
                let place = RecordSlot {
                    chunk: number,
                    offset: offset as u16,
                };
                assert_eq!(usize::from(place.offset), offset);
                if !record.is_dead() {
                    Record::checked(&chunk.bytes()[offset..]).unwrap();
                    let hash = packed.chunks.hash(place);
                    assert_eq!(packed.table.find(hash, |at| at == place), Some(place));
                    count += 1;
                    owned += u64::from(record.is_owner());
                    live_here += len;
                    if list == OWNERS {
                        assert!(record.is_owner());
                        let mut text = field::Text::new();
                        field::write(record.kind(), record.raw, &mut text);
                        let field = Field::parse(&text);
                        let owner = packed.owner_at(place);
                        let has = packed.find_in(owner, &field, field.hash());
                        assert_eq!(has, None, "the owner of {text:?} has it");
                    }
                }
                offset += len;
            }
            assert_eq!(offset, chunk.bytes().len());
            assert!(live_here > 0);
            assert_eq!(live_here, chunk.live());
            live += live_here;
            used += offset;
            number = chunk.next();
        }
        assert_eq!(of.segment.sizes(), (used as u64, live as u64));
        packed.chunks.verify_links(&of.segment);
        assert_eq!(count, of.records);
        all += count;
        owners += owned;
        match list {
            OWNERS => assert_eq!(owned, count),
            HOLDERS => assert_eq!(owned, 0),
            crawl => {
                records += count;
                assert_eq!(packed.crawls.get(crawl).owned, owned);
                assert_eq!(
                    packed.crawls.find(&packed.crawls.get(crawl).id),
                    Some(crawl)
                );
            }
        }
    }
    let without: u64 = packed.crawls.iter().map(|(_, c)| c.owned_without).sum();
    assert_eq!(without, packed.crawls.owners.records);
    assert_eq!(all, packed.table.len() as u64);
    assert_eq!((records, owners), (packed.records, packed.owners));
    assert_eq!(chunks, packed.chunks.len());
    assert_eq!(room, packed.chunks.room_of_all());
}

fn same(packed: &Packed, model: &Model) {
    assert_eq!(packed.len(Part::Owners), model.owners.len() as u64);
    assert_eq!(packed.len(Part::Holders), model.holders.len() as u64);
    let mut crawls = packed.crawls();
    crawls.sort();
    assert!(crawls.iter().eq(model.records.keys()));
    let records: usize = model.records.values().map(BTreeMap::len).sum();
    assert_eq!(packed.all_records(), records as u64);
    let mut parts = vec![Part::Owners, Part::Holders];
    parts.extend(model.records.keys().map(|crawl| Part::Records(crawl)));
    for part in parts {
        let wanted = model.part(part).unwrap();
        assert_eq!(packed.len(part), wanted.len() as u64);
        let mut given = BTreeMap::new();
        let (mut cursor, mut batch, mut more) = (Cursor::default(), Batch::default(), true);
        while more {
            batch.clear();
            more = packed.scan(part, &mut cursor, &mut batch);
            for (field, value) in batch.iter() {
                let before = given.insert(field.to_vec(), value.to_vec());
                assert_eq!(before, None, "{field:?} was given twice");
            }
        }
        assert_eq!(&given, wanted);
        for (field, value) in wanted {
            assert_eq!(packed.get(part, field).as_deref(), Some(&value[..]));
            assert!(packed.has(part, field));
        }
    }
    for (field, owner) in &model.owners {
        let probe = packed.probe(field);
        packed.aim(&probe);
        let mut record = Value::new();
        assert_eq!(packed.find(&probe, &mut record), Some(&owner[..]));
        let wanted = model.get(Part::Records(owner), field);
        assert_eq!(&record[..], wanted.unwrap_or_default());
    }
    assert!(packed.memory() < 600 * (records + 4) + 8 * model_bytes(model) + 200_000);
    assert_eq!(
        packed.is_empty(),
        model.owners.is_empty() && model.holders.is_empty() && records == 0
    );
}

fn model_bytes(model: &Model) -> usize {
    let maps = model
        .records
        .values()
        .chain([&model.owners, &model.holders]);
    maps.flatten().map(|(f, v)| f.len() + v.len()).sum()
}

/// A change of one of a few fields in one of a few crawls.
#[derive(Clone, Copy, Debug)]
enum FieldChange {
    Own(u8, u8),
    Record(u8, u8, u16),
    New(u8, u8, u16),
    Holders(u8, u16),
    DelOwner(u8),
    DelRecord(u8, u8),
    DelHolders(u8),
    Expect(u16),
    Copy,
}

fn change() -> impl Strategy<Value = FieldChange> {
    prop_oneof![
        3 => (any::<u8>(), 0..6_u8).prop_map(|(f, c)| FieldChange::Own(f, c)),
        5 => (any::<u8>(), 0..6_u8, any::<u16>()).prop_map(|(f, c, v)| FieldChange::Record(f, c, v)),
        8 => (any::<u8>(), 0..6_u8, any::<u16>()).prop_map(|(f, c, v)| FieldChange::New(f, c, v)),
        2 => (any::<u8>(), any::<u16>()).prop_map(|(f, v)| FieldChange::Holders(f, v)),
        2 => any::<u8>().prop_map(FieldChange::DelOwner),
        6 => (any::<u8>(), 0..6_u8).prop_map(|(f, c)| FieldChange::DelRecord(f, c)),
        1 => any::<u8>().prop_map(FieldChange::DelHolders),
        1 => (0..5000_u16).prop_map(FieldChange::Expect),
        1 => Just(FieldChange::Copy),
    ]
}

/// Returns the field with this number. The fields cover every kind.
fn field(n: u32) -> Vec<u8> {
    let spread = u64::from(n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let hex: String = (0..4)
        .map(|i| format!("{:016x}", spread.rotate_left(i * 7)))
        .collect();
    let base32: String = (0..32)
        .map(|i| {
            char::from(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"[(spread >> (i % 13) & 31) as usize])
        })
        .collect();
    let text = match n % 17 {
        0 => hex,
        1 => format!("sha1:{base32}"),
        2 => base32,
        3 => format!("md5:{}", &hex[..32]),
        4 => hex[..32].to_string(),
        5 => format!("sha256:{}", hex.to_uppercase()),
        6 => format!("odd {n}"),
        7 => "x".repeat(n as usize * 3),
        8 => format!("sha256:{}", &hex[..63]),
        9 => hex[..40].to_string(),
        _ => format!("sha256:{hex}"),
    };
    text.into_bytes()
}

fn crawl(n: u8) -> Vec<u8> {
    match n {
        0 => Vec::new(),
        1 => vec![0xff; 300],
        n => format!("crawl-{n}").into_bytes(),
    }
}

fn value(n: u16) -> Vec<u8> {
    let n = u32::from(n);
    match n % 23 {
        0 => Vec::new(),
        1 => vec![b'z'; n as usize / 3],
        2 => b"12 15".to_vec(),
        3 if n % 5 == 0 => vec![(n % 251) as u8; n as usize * 3],
        _ => format!(
            "{} 202603{:02}{:02}0000 https://www.host-{}.example/{}/{} {n}",
            n % 4,
            n % 28 + 1,
            n % 24,
            n % 7,
            "path".repeat(n as usize % 9),
            n * 77
        )
        .into_bytes(),
    }
}

fn apply(change: FieldChange, packed: &mut Packed, model: &mut Model) {
    let f = |n: u8| field(u32::from(n));
    match change {
        FieldChange::Own(n, c) => {
            let (f, c) = (f(n), crawl(c));
            assert_eq!(
                packed.set(Part::Owners, &f, &c),
                model.set(Part::Owners, &f, &c)
            );
        }
        FieldChange::Record(n, c, v) => {
            let (f, c, v) = (f(n), crawl(c), value(v));
            let part = Part::Records(&c);
            assert_eq!(packed.set(part, &f, &v), model.set(part, &f, &v));
        }
        FieldChange::New(n, c, v) => {
            let (f, c, v) = (f(n), crawl(c), value(v));
            assert_eq!(packed.put_new(&c, &f, &v), model.put_new(&c, &f, &v));
        }
        FieldChange::Holders(n, v) => {
            let (f, v) = (f(n), value(v));
            assert_eq!(
                packed.set(Part::Holders, &f, &v),
                model.set(Part::Holders, &f, &v)
            );
        }
        FieldChange::DelOwner(n) => {
            assert_eq!(
                packed.del(Part::Owners, &f(n)),
                model.del(Part::Owners, &f(n))
            );
        }
        FieldChange::DelRecord(n, c) => {
            let (f, c) = (f(n), crawl(c));
            let part = Part::Records(&c);
            assert_eq!(packed.del(part, &f), model.del(part, &f));
        }
        FieldChange::DelHolders(n) => {
            assert_eq!(
                packed.del(Part::Holders, &f(n)),
                model.del(Part::Holders, &f(n))
            );
        }
        FieldChange::Expect(n) => packed.expect(b"", n.into()),
        FieldChange::Copy => {
            let copy = packed.clone();
            assert!(copy.memory() <= packed.memory());
            *packed = copy;
        }
    }
}

/// Returns a test configuration with fewer cases, for long histories.
fn long() -> ProptestConfig {
    let usual = ProptestConfig::default();
    ProptestConfig {
        cases: usual.cases / 8,
        ..usual
    }
}

proptest! {
    #![proptest_config(long())]

    #[test]
    fn packed_index_equals_plain_maps(changes in proptest::collection::vec(change(), 1..600)) {
        let (mut packed, mut model) = (Packed::default(), Model::default());
        for (i, &change) in changes.iter().enumerate() {
            apply(change, &mut packed, &mut model);
            if i % 64 == 0 {
                packed.verify();
            }
        }
        packed.verify();
        same(&packed, &model);
        let copy = loaded(&packed);
        copy.verify();
        same(&copy, &model);
        // Remove all entries again.
        for (field, _) in std::mem::take(&mut model.holders) {
            prop_assert!(packed.del(Part::Holders, &field));
        }
        for (crawl, records) in std::mem::take(&mut model.records) {
            for field in records.into_keys() {
                prop_assert!(packed.del(Part::Records(&crawl), &field));
            }
        }
        packed.verify();
        same(&packed, &model);
        for (field, _) in std::mem::take(&mut model.owners) {
            prop_assert!(packed.del(Part::Owners, &field));
        }
        packed.verify();
        same(&packed, &model);
        // The last announcement may still reserve memory in the first shard.
        prop_assert!(packed.memory() <= Packed::default().memory() + 1024);
    }

    #[test]
    fn scan_returns_all_permanent_entries(
        seed in proptest::collection::vec(change(), 0..400),
        rounds in proptest::collection::vec(proptest::collection::vec(change(), 0..60), 1..60),
        which in 0..8_u8,
    ) {
        let mut cursor = Cursor::default();
        misses_nothing(seed, rounds, which, |packed, part, batch| {
            packed.scan(part, &mut cursor, batch)
        })?;
    }

    #[test]
    fn scan_without_state_returns_all_permanent_entries(
        seed in proptest::collection::vec(change(), 0..400),
        rounds in proptest::collection::vec(proptest::collection::vec(change(), 0..60), 1..60),
        which in 0..8_u8,
        strange in any::<u64>(),
    ) {
        let mut position = 0;
        misses_nothing(seed, rounds, which, |packed, part, batch| {
            // A client may send any cursor.
            packed.scan_at(part, strange, &mut Batch::default());
            let next = packed.scan_at(part, position, batch);
            position = next.unwrap_or(0);
            next.is_some()
        })?;
    }
}

/// Scans a part of an index that changes between the steps, until `step` returns false. Fails unless
/// the scan returns all entries that are never deleted.
fn misses_nothing(
    seed: Vec<FieldChange>,
    rounds: Vec<Vec<FieldChange>>,
    which: u8,
    mut step: impl FnMut(&Packed, Part<'_>, &mut Batch) -> bool,
) -> Result<(), TestCaseError> {
    let (mut packed, mut model) = (Packed::default(), Model::default());
    for change in seed {
        apply(change, &mut packed, &mut model);
    }
    let of = crawl(which);
    let part = match which {
        6 => Part::Owners,
        7 => Part::Holders,
        _ => Part::Records(&of),
    };
    let empty = BTreeMap::new();
    let mut stays: Vec<Vec<u8>> = model.part(part).unwrap_or(&empty).keys().cloned().collect();
    let mut batch = Batch::default();
    let mut rounds = rounds.into_iter();
    while step(&packed, part, &mut batch) {
        for change in rounds.next().unwrap_or_default() {
            apply(change, &mut packed, &mut model);
            let now = model.part(part).unwrap_or(&empty);
            stays.retain(|field| now.contains_key(field));
        }
    }
    packed.verify();
    let given: std::collections::BTreeSet<_> =
        batch.iter().map(|(field, _)| field.to_vec()).collect();
    for field in stays {
        prop_assert!(given.contains(&field), "{field:?} was not given");
    }
    Ok(())
}

/// Saves an index and loads it again.
fn loaded(packed: &Packed) -> Packed {
    let mut copy = Packed::default();
    packed.save(&mut |chunk| copy.load(chunk).unwrap());
    copy.loaded().unwrap();
    copy
}

fn sha256(n: u32) -> Vec<u8> {
    let words = [1_u64, 2, 3, 4].map(|i| field::hash_in(u64::from(n) * 4 + i, 7));
    let [a, b, c, d] = words;
    format!("sha256:{a:016x}{b:016x}{c:016x}{d:016x}").into_bytes()
}

#[test]
fn field_of_many_crawls_is_found_at_once() {
    let mut packed = Packed::default();
    let name = |n: u32| format!("crawl-{n}").into_bytes();
    let shared = sha256(0);
    for n in 0..3000 {
        let is_new = packed.put_new(&name(n), &shared, &value(n as u16));
        assert_eq!(is_new, n == 0);
        packed.put_new(&name(n), &sha256(n + 1), b"own");
    }
    packed.verify();
    // Only a few positions are moved from a full bucket to later buckets, although 3000 crawls have
    // the same field.
    assert!(packed.table.most_passed() < 30);
    for n in 0..3000 {
        let found = packed.get(Part::Records(&name(n)), &shared);
        assert_eq!(found.as_deref(), Some(&value(n as u16)[..]));
    }
    assert_eq!(
        packed.get(Part::Owners, &shared).as_deref(),
        Some(&name(0)[..])
    );
    for n in 0..3000 {
        assert!(packed.del(Part::Records(&name(n)), &shared));
    }
    packed.verify();
    assert_eq!(
        packed.get(Part::Owners, &shared).as_deref(),
        Some(&name(0)[..])
    );
}

#[test]
fn memory_is_freed() {
    let mut packed = Packed::default();
    let crawl = b"crawl";
    for n in 0..20_000 {
        packed.put_new(crawl, &sha256(n), &value(n as u16 | 4));
    }
    let full = packed.memory();
    // Remove records in a different order than the stored one, so that live records are moved
    // together.
    let mut order: Vec<u32> = (0..20_000).collect();
    order.sort_unstable_by_key(|&n| field::hash_in(u64::from(n), 3));
    for &n in &order[..18_000] {
        assert!(packed.del(Part::Owners, &sha256(n)));
        assert!(packed.del(Part::Records(crawl), &sha256(n)));
    }
    packed.verify();
    let left = packed.memory();
    assert!(left < full / 3, "{left} of {full} bytes");
    for &n in &order[18_000..] {
        let found = packed.get(Part::Records(crawl), &sha256(n));
        assert_eq!(found.as_deref(), Some(&value(n as u16 | 4)[..]));
    }
    for &n in &order[18_000..] {
        packed.del(Part::Owners, &sha256(n));
        packed.del(Part::Records(crawl), &sha256(n));
    }
    assert!(packed.is_empty());
    assert_eq!(packed.memory(), Packed::default().memory());
}

#[test]
fn changing_values_take_no_more_memory() {
    let mut packed = Packed::default();
    let holders =
        |n: u32, round: u32| vec![b'0' + (round % 10) as u8; 10 + ((n + round) % 50) as usize];
    let record = |n: u32, round: u32| {
        let path = "x".repeat(((n + round) % 40) as usize);
        format!("1 20260319102015 https://www.example/{path} {n}").into_bytes()
    };
    let mut most = 0;
    for round in 0..60 {
        for n in 0..2000 {
            packed.set(Part::Holders, &sha256(n), &holders(n, round));
            packed.set(Part::Records(b"crawl"), &sha256(n), &record(n, round));
        }
        let memory = packed.table.memory() + packed.chunks.memory();
        if round < 3 {
            most = most.max(memory);
        }
        assert!(memory < most * 3 / 2, "{memory} bytes in round {round}");
    }
    packed.verify();
    assert_eq!(packed.len(Part::Holders), 2000);
    for n in 0..2000 {
        let found = packed.get(Part::Holders, &sha256(n));
        assert_eq!(found.as_deref(), Some(&holders(n, 59)[..]));
    }
}

#[test]
fn announced_size_only_reserves_room() {
    for expected in [0, 1, 5_000, 1 << 20, u64::MAX] {
        let mut packed = Packed::default();
        for n in 0..500 {
            packed.put_new(b"before", &sha256(n), b"x");
        }
        packed.expect(b"crawl", expected);
        for n in 0..5_000 {
            packed.put_new(b"crawl", &sha256(n), b"y");
        }
        packed.verify();
        packed.expect(b"crawl", 0);
        for n in 0..5_000 {
            assert!(packed.del(Part::Records(b"crawl"), &sha256(n)));
        }
        packed.verify();
        assert_eq!(packed.len(Part::Owners), 5_000);
    }
}

#[test]
fn defragmentation_moves_all_memory_and_changes_nothing() {
    let (mut packed, mut model) = (Packed::default(), Model::default());
    for n in 0..3_000_u32 {
        let change = FieldChange::New(n as u8, (n % 6) as u8, n as u16);
        apply(change, &mut packed, &mut model);
        let (f, v) = (sha256(n), value(n as u16));
        assert_eq!(packed.put_new(b"c", &f, &v), model.put_new(b"c", &f, &v));
    }
    let memory = packed.memory();
    let mut moved = 0;
    // The test allocator does not know the size of an allocation, so defragmentation moves nothing.
    let mut ask = |_: *mut u8| {
        moved += 1;
        std::ptr::null_mut()
    };
    let mut steps = 0;
    let mut cursor = 0;
    loop {
        // SAFETY: the mover moves nothing.
        let mut mover = unsafe { Mover::new(&mut ask) };
        cursor = packed.defrag(cursor, &mut mover, &mut || false);
        if cursor == 0 {
            break;
        }
        steps += 1;
    }
    assert!(steps > 10);
    let all = packed.table.shards_with_room() + packed.chunks.len();
    assert_eq!(moved, all, "pieces that were asked for, and that there are");
    assert_eq!(packed.memory(), memory);
    packed.verify();
    same(&packed, &model);
}

#[test]
fn scan_of_a_resized_table_misses_nothing() {
    let paces = (4..80).step_by(4);
    for (grows, each) in paces.flat_map(|each| [(false, each), (true, each)]) {
        let mut packed = Packed::default();
        let (stay, all) = (300, 1_500);
        for n in 0..if grows { stay } else { all } {
            packed.put_new(b"crawl", &sha256(n), b"x");
        }
        let (mut cursor, mut batch) = (Cursor::default(), Batch::default());
        let mut next = stay;
        while packed.scan(Part::Owners, &mut cursor, &mut batch) {
            for n in next..(next + each).min(all) {
                if grows {
                    packed.put_new(b"crawl", &sha256(n), b"x");
                } else {
                    packed.del(Part::Owners, &sha256(n));
                    packed.del(Part::Records(b"crawl"), &sha256(n));
                }
            }
            next = (next + each).min(all);
        }
        packed.verify();
        let given: std::collections::BTreeSet<_> = batch.iter().map(|(f, _)| f.to_vec()).collect();
        assert!((0..stay).all(|n| given.contains(&sha256(n))));
    }
}
