//! Tests round trips of arbitrary bytes, and robustness against untrusted bytes.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::dedupe::packed::Value;

fn decoded(codec: &Codec, base: Base, packed: &[u8]) -> Vec<u8> {
    let mut out = Value::from_slice(b"before");
    codec.decode(base, packed, &mut out);
    assert_eq!(&out[..6], b"before");
    out[6..].to_vec()
}

/// Encodes all values one after the other, and decodes each record alone, with garbage after it.
fn round_trip(values: &[Vec<u8>]) -> Result<(), TestCaseError> {
    let mut codec = Codec::default();
    let base = codec.base(1, values.first().map_or(&b""[..], |first| first));
    let mut records = Vec::new();
    for value in values {
        let mut packed = b"before".to_vec();
        codec.encode(base, value, &mut packed);
        prop_assert_eq!(&packed[..6], b"before");
        records.push(packed.split_off(6));
    }
    for (value, packed) in values.iter().zip(&records) {
        prop_assert_eq!(&decoded(&codec, base, packed), value);
        prop_assert_eq!(codec.check(base, packed), Ok(packed.len()));
        // Run fewer cases for long values, which are slow.
        let all = if value.len() < 10_000 { 4 } else { 1 };
        for garbage in [&[0xff; 40][..], &[0; 40], b"\x05abcdefghijklmnop", b"/"]
            .into_iter()
            .take(all)
        {
            let behind = [packed, garbage].concat();
            prop_assert_eq!(codec.len(&behind), packed.len());
            prop_assert_eq!(codec.check(base, &behind), Ok(packed.len()));
            prop_assert_eq!(&decoded(&codec, base, &behind), value);
        }
        for end in 0..packed.len().min(300) {
            prop_assert!(codec.check(base, &packed[..end]).is_err());
        }
    }
    for packed in &records {
        codec.release(base, packed);
    }
    prop_assert_eq!(codec.hosts().count(), 0);
    Ok(())
}

#[test]
fn every_kind_of_value_round_trips() {
    let values: Vec<Vec<u8>> = [
        "",
        " ",
        "   ",
        "0 20260319102015 http://x.example/ 1",
        "0 20260319102015 http://x.example/?a=1&b=2#c 1",
        "0 20260319102015 http://x.example 1",
        "0 20260319102015 http://x.example?q 1",
        "3 20260319102015123 https://x.example/a b 7 c 42",
        "3 20260319102016000 https://x.example/ 42",
        "1 2026-03-19T10:20:15Z https://x.example/ 9",
        "1 2026-03-19T10:20:15.004Z https://x.example/ 9",
        "1 2026-03-19T10:20:15+01:00 https://x.example/ 9",
        "00 20260319102015 http://x.example/ 1",
        "0 20260319102015 http://x.example/ 01",
        "0 20260319102015 http://x.example/",
        "0 20260319102015 http://x.example/ ",
        "0 20260319102015  1",
        "0 20260231102015 http://x.example/ 1",
        "0 00000000000000 http://x.example/ 1",
        "0 19700101000000 urn:uuid:6ba7b810-9dad-11d1-80b4-00c04fd430c8 1",
        "0 21051231235959 http://x.example/ 1",
        "9223372036854775807 20260319102015 http://x.example/ 9223372036854775807",
        "9223372036854775808 20260319102015 http://x.example/ 1",
        "0 20260319102015 http://x.example/ 9223372036854775808",
        "0 20260319102015 http://x.example/ 18446744073709551616",
        "0 20260319102015 :// 1",
        "0 20260319102015 :///// 1",
        "0 20260319102015 http://пример.example/%D0%BF/é 1",
        "crawl-01-c2d10f7a",
        "12 15",
    ]
    .map(|value| value.as_bytes().to_vec())
    .to_vec();
    round_trip(&values).unwrap();
    for value in values {
        round_trip(&[value]).unwrap();
    }
}

#[test]
fn saved_values_stay_readable() {
    let value = b"2 20260319102015 https://www.archive.example/news/gazette-5-1a2b3c4d/?v=1234567&id=dQw4w9WgXcQ 12345";
    let mut codec = Codec::default();
    let base = codec.base(1, b"0 20260318000000 http://x.example/ 1");
    let mut packed = Vec::new();
    codec.encode(base, value, &mut packed);
    codec.encode(base, b"a value of another kind", &mut packed);
    let hex: String = packed.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(
        hex,
        concat!(
            "2975976f717220d80382ea8b6bfbf852fe7f9050d9616a70dd7f1f87d612aff47f4b43830498e8d0ced0",
            "139ffa52233e0bbd14697ca92af287e64b7584f5"
        )
    );
}

#[test]
fn long_values_round_trip() {
    for len in [200, 239, 240, 1000, 65_450, 65_500, 65_536, 1 << 20] {
        let paths = [
            "a".repeat(len),
            "0123456789abcdef".repeat(len / 16),
            "0123456789".repeat(len / 10),
            "ÿ\u{1}".repeat(len / 3),
        ];
        let values = paths.map(|path| {
            format!("1 20260319102015 https://www.example.org/{path} 12345").into_bytes()
        });
        round_trip(&values).unwrap();
        let host = format!("1 20260319102015 https://{}/x 5", "a".repeat(len));
        round_trip(&[host.into_bytes(), vec![b'x'; len], vec![0xff; len]]).unwrap();
    }
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    let url = "(https?://(www\\.)?(archive|museum|a-1)\\.(org|de)(:80)?)?/(news|wp-content/uploads/2026|[a-z]{0,9}|%[0-9A-F]{2}|[0-9a-f]{4,40}|[0-9]{1,25}|\\PC{0,9}|[/?=&. ]){0,6}(\\.html)?";
    let record = (
        prop_oneof![0u64..5, any::<u64>()],
        prop_oneof![
            "202603[0-2][0-9][01][0-9][0-5][0-9][0-5][0-9]",
            "20[0-9]{12}([0-9]{3})?",
            "20[0-9]{2}-0[1-9]-[012][0-9]T1[0-9]:[0-5][0-9]:[0-5][0-9](\\.[0-9]{3})?Z"
        ],
        url,
        prop_oneof![0..1u64 << 20, any::<u64>()],
    );
    let record = record
        .prop_map(|(wacz, date, url, size)| format!("{wacz} {date} {url} {size}").into_bytes());
    prop_oneof![
        6 => record,
        1 => vec(any::<u8>(), 0..300),
        1 => "[0-9]{1,3} [0-9]{12,18} [a-z:/ ]{0,20} [0-9]{0,3}".prop_map(String::into_bytes),
    ]
}

proptest! {
    #[test]
    fn values_round_trip(values in vec(value(), 1..20)) {
        round_trip(&values)?;
    }

    #[test]
    fn random_bytes_are_harmless(values in vec(value(), 0..10), date: u32, table: u16, bytes in vec(any::<u8>(), 0..400)) {
        let mut codec = Codec::default();
        let mut packed = Vec::new();
        for value in &values {
            codec.encode(Base { date: 0, table: 0 }, value, &mut packed);
        }
        for table in [0, table] {
            let base = Base { date, table };
            let checked = codec.check(base, &bytes);
            let out = decoded(&codec, base, &bytes);
            prop_assert!(out.len() <= bytes.len().max(2 * COMPRESSED));
            let len = codec.len(&bytes);
            prop_assert!(len <= bytes.len());
            if let Ok(checked) = checked {
                prop_assert_eq!(checked, len);
            }
            let mut other = codec.clone();
            other.hold(base, &bytes);
            other.release(base, &bytes);
            other.release(base, &bytes);
        }
    }

    #[test]
    fn record_with_changed_bits_is_harmless(values in vec(value(), 1..10), changes in vec((any::<proptest::sample::Index>(), 0..8u8), 1..4)) {
        let mut codec = Codec::default();
        let base = codec.base(1, &values[0]);
        for value in &values {
            let mut packed = Vec::new();
            codec.encode(base, value, &mut packed);
            for (at, bit) in &changes {
                let at = at.index(packed.len());
                packed[at] ^= 1 << bit;
            }
            let _ = codec.check(base, &packed);
            prop_assert!(decoded(&codec, base, &packed).len() <= 2 * COMPRESSED);
        }
    }
}

/// Returns a value that is typical for crawls of one site: many words, some numbers.
fn page(n: u32) -> Vec<u8> {
    const WORDS: [&str; 8] = [
        "kommune", "gazette", "parish", "museum", "harvest", "folio", "annals", "weather",
    ];
    let random = n.wrapping_mul(0x9e37_79b9);
    let word = |shift: u32| WORDS[(random >> shift) as usize % WORDS.len()];
    format!(
        "{} 202603{:02}1020{:02} https://{}.example/{}/{}-{}/{random:08x}.jpeg {}",
        n % 3,
        1 + random % 28,
        n % 60,
        word(4),
        word(7),
        word(10),
        word(13),
        random >> 12,
    )
    .into_bytes()
}

/// A value and its encoding.
type Record = (Vec<u8>, Vec<u8>);

/// Chunks and their records, as in an index.
struct Chunks {
    codec: Codec,
    chunks: Vec<(Base, Vec<Record>)>,
}

impl Chunks {
    fn of(values: impl Iterator<Item = Vec<u8>>) -> Chunks {
        let mut codec = Codec::default();
        let mut chunks: Vec<(Base, Vec<Record>)> = Vec::new();
        for (n, value) in values.enumerate() {
            if n % 500 == 0 {
                chunks.push((codec.base(1, &value), Vec::new()));
            }
            let (base, records) = chunks.last_mut().unwrap();
            let mut packed = Vec::new();
            codec.encode(*base, &value, &mut packed);
            records.push((value, packed));
        }
        Chunks { codec, chunks }
    }

    fn verify(&self) {
        for (base, records) in &self.chunks {
            for (value, packed) in records {
                assert_eq!(&decoded(&self.codec, *base, packed), value);
                assert_eq!(self.codec.check(*base, packed), Ok(packed.len()));
            }
        }
        self.codec.tables.verify();
    }

    /// Returns the total size of a chunk's records, in bytes.
    fn packed(&self, chunk: usize) -> usize {
        self.chunks[chunk].1.iter().map(|of| of.1.len()).sum()
    }
}

#[test]
fn values_packed_before_a_table_was_learnt_stay_readable() {
    // Pages of one kind are followed by pages of another kind, so that two tables are trained.
    let reversed = |n: u32| {
        let value = page(n);
        let mut parts: Vec<&[u8]> = value.split(|&c| c == b' ').collect();
        let url: Vec<u8> = [b"https://a.example/", &value[40..]].concat();
        let url: Vec<u8> = url.iter().rev().copied().filter(|&c| c != b' ').collect();
        parts[2] = &url;
        parts.join(&b' ')
    };
    let pages = (0..14_000).map(page);
    let mut index = Chunks::of(pages.chain((0..30_000).map(reversed)));
    index.verify();
    assert!(index.packed(27) * 5 < index.packed(0) * 4);
    let last = index.chunks.len() - 1;
    assert!(index.packed(last) * 5 < index.packed(30) * 4);
    let tables: Vec<u16> = index.codec.tables().map(|of| of.0).collect();
    assert_eq!(tables, [1, 2]);

    // Load the values again without the chunks of the first table.
    let mut loaded = Codec::default();
    for (number, host) in index.codec.hosts() {
        loaded.add_host(number, host).unwrap();
    }
    for (number, table) in index.codec.tables() {
        loaded.add_table(number, table).unwrap();
        assert!(loaded.add_table(number, table).is_err());
    }
    let kept = |base: &Base| base.table != 1;
    for (base, records) in index.chunks.iter().filter(|of| kept(&of.0)) {
        loaded.adopt(*base);
        for (value, packed) in records {
            assert_eq!(loaded.check(*base, packed), Ok(packed.len()));
            loaded.hold(*base, packed);
            assert_eq!(&decoded(&loaded, *base, packed), value);
        }
    }
    loaded.settle();
    let tables: Vec<u16> = loaded.tables().map(|of| of.0).collect();
    assert_eq!(tables, [2]);

    // Removing these chunks one by one has the same result.
    let (gone, rest) = index.chunks.into_iter().partition(|of| !kept(&of.0));
    index.chunks = rest;
    let gone: Vec<_> = gone;
    for (base, records) in gone {
        for (_, packed) in &records {
            index.codec.release(base, packed);
        }
        index.codec.retire(base);
    }
    index.verify();
    assert!(index.codec.tables().eq(loaded.tables()));
    assert!(index.codec.hosts().eq(loaded.hosts()));

    // A clone is equal and independent of the original.
    let copy = Chunks {
        codec: index.codec.clone(),
        chunks: std::mem::take(&mut index.chunks),
    };
    for (base, records) in &copy.chunks {
        for (_, packed) in records {
            index.codec.release(*base, packed);
        }
        index.codec.retire(*base);
    }
    assert_eq!(index.codec.hosts().count(), 0);
    copy.verify();
}

#[test]
fn most_values_take_a_fifth_of_their_text() {
    let index = Chunks::of((0..12_000).map(page));
    let last = index.chunks.last().unwrap();
    let text: usize = last.1.iter().map(|of| of.0.len()).sum();
    assert!(index.packed(index.chunks.len() - 1) * 5 < text);
}

proptest! {
    #[test]
    fn untrusted_table_is_harmless(changes in vec((any::<proptest::sample::Index>(), any::<u8>()), 0..4), cut in any::<proptest::sample::Index>(), is_cut in any::<bool>(), bytes in vec(any::<u8>(), 0..300)) {
        let mut saved = builtin::table().save();
        for (at, byte) in changes {
            let at = at.index(saved.len());
            saved[at] = byte;
        }
        if is_cut {
            saved.truncate(cut.index(saved.len()));
        }
        let mut codec = Codec::default();
        let base = Base { date: 0, table: 7 };
        if codec.add_table(7, &saved).is_ok() {
            prop_assert!(codec.tables().eq([(7, &saved[..])]));
            let _ = codec.check(base, &bytes);
            let out = decoded(&codec, base, &bytes);
            prop_assert!(out.len() <= 3 * COMPRESSED);
            let value = page(5);
            let mut packed = Vec::new();
            codec.encode(base, &value, &mut packed);
            prop_assert_eq!(decoded(&codec, base, &packed), value);
        }
        prop_assert!(codec.add_table(8, &bytes).is_err());
        prop_assert!(codec.add_table(0, &saved).is_err());
    }
}
