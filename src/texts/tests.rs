//! Tests round trips of arbitrary strings and robustness against damaged input, and measures speed
//! and size.

use std::collections::HashMap;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use super::*;

/// Compresses a string, and expands it again.
fn compressed(texts: &mut Texts, table: u16, mark: u8, text: &[u8]) -> Vec<u8> {
    let mut bytes = b"before".to_vec();
    texts.compress(table, mark, text, &mut bytes);
    assert_eq!(&bytes[..6], b"before");
    bytes.drain(..6);
    assert!(bytes.len() <= text.len() + 1);
    let mut out = b"before".to_vec();
    texts.expand(table, &bytes, &mut out);
    assert_eq!(&out[..6], b"before");
    assert_eq!(&out[6..], text);
    assert_eq!(texts.len(table, &bytes), Some(text.len()));
    assert_eq!(Texts::mark(&bytes), mark);
    bytes
}

/// Returns a store that has learned a table from pages of some sites, and the number of the table.
fn learned() -> (Texts, u16) {
    let mut texts = Texts::default();
    for n in 0..14_000 {
        texts.learn(&page(n));
    }
    let table = texts.assign();
    assert_eq!(table, 1);
    (texts, table)
}

fn page(n: u32) -> Vec<u8> {
    const WORDS: [&str; 8] = [
        "kommune", "gazette", "parish", "museum", "harvest", "folio", "annals", "weather",
    ];
    let random = n.wrapping_mul(0x9e37_79b9);
    let word = |shift: u32| WORDS[(random >> shift) as usize % WORDS.len()];
    let (a, b, c) = (word(4), word(10), word(13));
    format!("/{a}/{b}-{c}/{random:08x}.jpeg").into_bytes()
}

fn text() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        "(https?://(www\\.)?a\\.(org|de))?/(news|[a-z]{0,9}|%[0-9A-F]{2}|[0-9a-f]{4,40}|[0-9]{1,25}|\\PC{0,9}|[/?=&. ]){0,6}".prop_map(String::into_bytes),
        vec(any::<u8>(), 0..6),
        vec(any::<u8>(), 0..300),
    ]
}

#[test]
fn bytes_that_are_not_text_are_stored_verbatim_and_not_learned() {
    let (mut texts, table) = learned();
    // The sample would be full of fingerprints, and the next table would be worthless.
    for n in 0..14_000_u32 {
        let mut print = n.wrapping_mul(0x9e37_79b9).to_le_bytes().repeat(5);
        print[0] = 0xff;
        texts.learn(&print);
        let bytes = compressed(&mut texts, table, 1, &print);
        assert_eq!(verbatim(&bytes), Some(&print[..]));
    }
    assert_eq!(texts.assign(), table);
    let text = page(1);
    assert!(compressed(&mut texts, table, 0, &text).len() < text.len() / 2);
}

proptest! {
    #[test]
    fn texts_round_trip(all in vec(text(), 1..20), mark in 0..=Texts::MAX_MARK) {
        thread_local! {
            static LEARNED: (Texts, u16) = learned();
        }
        let (mut texts, learned) = LEARNED.with(Clone::clone);
        for table in [0, learned] {
            let mut seen = HashMap::new();
            for (text, mark) in all.iter().flat_map(|text| [(text, 0), (text, mark)]) {
                let bytes = compressed(&mut texts, table, mark, text);
                let before = seen.insert(bytes, (text, mark));
                prop_assert!(before.is_none_or(|before| before == (text, mark)));
            }
        }
    }

    #[test]
    fn damaged_texts_are_harmless(text in text(), changes in vec((any::<Index>(), any::<u8>()), 0..4), cut: Index, table in 0..3u16) {
        let mut texts = Texts::default();
        let mut bytes = compressed(&mut texts, 0, 0, &text);
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes.truncate(cut.index(bytes.len() + 1));
        let mut out = Vec::new();
        texts.expand(table, &bytes, &mut out);
        prop_assert!(out.len() <= 2 * MAX_BYTES);
        if let Some(len) = texts.len(table, &bytes) {
            prop_assert_eq!(out.len(), len);
        }
    }
}

#[test]
fn long_texts_round_trip() {
    let mut texts = Texts::default();
    for len in [300, 65_535, MAX_BYTES, MAX_BYTES + 1, 1 << 20] {
        for byte in [b'a', b'7', b'/', 0, 0xff] {
            compressed(&mut texts, 0, 0, &vec![byte; len]);
            compressed(&mut texts, 0, 1, &vec![byte; len]);
        }
    }
    assert!(texts.memory() <= MAX_SCRATCH);
}

#[test]
fn incompressible_texts_take_one_byte_more() {
    let mut texts = Texts::default();
    assert_eq!(compressed(&mut texts, 0, 0, b"\x01\x02"), [3, 1, 2]);
    assert_eq!(compressed(&mut texts, 0, 2, b"\xff"), [11, 0xff]);
    assert_eq!(compressed(&mut texts, 0, 0, b"/").len(), 1);
}

#[test]
fn tables_live_as_long_as_their_owners() {
    let (mut texts, table) = learned();
    texts.tables.verify();
    let bytes = compressed(&mut texts, table, 0, &page(7));
    // For a different kind of strings, the store trains a new table.
    for n in 0..90_000u32 {
        let text: Vec<u8> = page(n).iter().rev().map(|c| c ^ 0x40).collect();
        texts.learn(&text);
    }
    assert_eq!(texts.assign(), 2);
    assert_eq!(compressed(&mut texts, table, 0, &page(7)), bytes);
    texts.retire(table);
    let has = |number| texts.tables.get(number).is_some();
    assert!(!has(table) && has(2) && has(0));
    texts.tables.verify();
}

#[test]
fn texts_without_a_table_take_little_memory() {
    let mut texts = Texts::default();
    assert!(size_of::<Texts>() + texts.memory() <= 256);
    compressed(&mut texts, 0, 0, b"/index.html");
    assert!(size_of::<Texts>() + texts.memory() <= 1024);
}

/// Returns the CPU time of this thread.
fn worked() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: writes to a local variable.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Returns pseudo-random bits that depend only on a number (SplitMix64).
fn bits(n: u64) -> u64 {
    let mut z = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[test]
#[ignore = "takes a while, and prints the longest steps of training"]
fn figures_of_training() {
    // Strings with as many different pairs as possible, long strings, and typical strings.
    let random = move |n: u32, len: usize, of: u64| -> Vec<u8> {
        let byte = |at| (bits(u64::from(n) << 20 | at as u64) % of) as u8;
        (0..len)
            .map(byte)
            .map(|byte| if of < 200 { b' ' + byte } else { byte })
            .collect()
    };
    // Every pair of values occurs the same number of times.
    let every_pair = |n: u32, of: u32| -> Vec<u8> {
        let pair = |k: u32| {
            let k = (n * 500 + k) % (of * of);
            [k % of, (k % of + k / of + 1) % of].map(|byte| byte as u8)
        };
        (0..500).flat_map(pair).collect()
    };
    type Kind<'a> = (&'a str, Box<dyn Fn(u32) -> Vec<u8>>);
    let kinds: [Kind<'_>; 7] = [
        ("pages", Box::new(page)),
        ("random bytes", Box::new(move |n| random(n, 1024, 256))),
        ("100 random values", Box::new(move |n| random(n, 1024, 100))),
        ("64 random values", Box::new(move |n| random(n, 300, 64))),
        ("pairs of 200 values", Box::new(move |n| every_pair(n, 200))),
        ("pairs of 140 values", Box::new(move |n| every_pair(n, 140))),
        ("pairs of 100 values", Box::new(move |n| every_pair(n, 100))),
    ];
    for (kind, text) in kinds {
        let mut texts = Texts::default();
        let mut steps = Vec::new();
        for n in 0..200_000 {
            let text = text(n);
            let start = worked();
            texts.learn(&text);
            steps.push(worked() - start);
        }
        steps.sort_unstable();
        let long = &steps[steps.len() - 12..];
        println!("{kind}: table {}, longest {long:?}", texts.assign());
    }
    let (texts, table) = learned();
    let start = worked();
    for _ in 0..100 {
        texts.clone().tables.matcher(table);
    }
    println!("a matcher {:?}", (worked() - start) / 100);
}
