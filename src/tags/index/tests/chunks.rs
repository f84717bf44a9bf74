//! Tests malformed chunks, as they occur in damaged files or come from attackers.

use proptest::prelude::*;

use super::*;
use crawlspace_compact::number::{put, put_bytes};

fn small() -> Index {
    let mut index = Index::default();
    let record = b"org,example)/ 20240101000000 a.warc.gz 1000";
    index.add(Tagged::Record, record, &[b"t", b"u"]).unwrap();
    let record = b"org,example)/b 20240101000000 a.warc.gz 0";
    index.add(Tagged::Record, record, &[b"t"]).unwrap();
    index.add(Tagged::Record, b"x - - -", &[b"t"]).unwrap();
    index.add(Tagged::File, b"a.warc.gz", &[b"v"]).unwrap();
    index.add(Tagged::Tag, b"t", &[b"u", b"v"]).unwrap();
    index.add(Tagged::Tag, b"u", &[b"v"]).unwrap();
    index
        .load(Tagged::File, Mode::Stage, &[(b"f", b"v w")])
        .unwrap();
    index.load(Tagged::Tag, Mode::Stage, &[]).unwrap();
    index
}

fn chunks(index: &Index) -> Vec<Vec<u8>> {
    let mut chunks = Vec::new();
    index.save(&mut |chunk| chunks.push(chunk.to_vec()));
    chunks
}

/// Returns true if an index accepts a chunk. Checks that a refused chunk leaves the index
/// unchanged.
fn try_chunk(index: &Index, chunk: &[u8]) -> bool {
    let mut loaded = index.clone();
    let result = loaded.load_chunk(chunk);
    loaded.verify();
    match &result {
        Ok(()) => {
            let mut again = Index::default();
            loaded.save(&mut |chunk| again.load_chunk(chunk).unwrap());
            assert_eq!(again, loaded);
        }
        Err(error) => {
            assert!(error.is_ascii());
            assert_eq!(&loaded, index);
        }
    }
    result.is_ok()
}

#[test]
fn damaged_chunk_is_refused_or_consistent() {
    let index = small();
    for chunk in chunks(&index) {
        for at in 0..chunk.len() {
            for byte in 0..=255 {
                let mut bad = chunk.clone();
                bad[at] = byte;
                try_chunk(&Index::default(), &bad);
                if (byte ^ chunk[at]).is_power_of_two() {
                    try_chunk(&index, &bad);
                }
            }
            assert!(!try_chunk(&Index::default(), &chunk[..at]));
        }
        let longer = [&chunk[..], b"\0"].concat();
        assert!(!try_chunk(&Index::default(), &longer));
    }
}

/// The encoding is canonical, except for the order: each valid chunk has one meaning.
#[test]
fn noncanonical_encoding_is_refused() {
    let good: &[u8] = &[0, 1, 1, b't', 1, 1, 0, 1, 1, b'f', 1, 0, 1, 7, 8, 1, b'u'];
    let mut index = Index::default();
    index.load_chunk(good).unwrap();
    assert_eq!(
        index.names_of(Tagged::Record, b"u 00000000000007 f 8"),
        [b"t"]
    );
    assert_eq!(chunks(&index), [good]);
    for (why, bad) in [
        ("kind", &[3, 1, 1, b't', 1, 1, 0, 1, 0, 1, b'u'][..]),
        ("kind", &[8, 1, 1, b't', 1, 1, 0, 1, 0, 1, b'u']),
        (
            "long number",
            &[1, 0x81, 0, 1, b't', 1, 1, 0, 1, 0, 1, b'u'],
        ),
        ("no ids", &[1, 0, 0, 0]),
        ("space", &[1, 1, 1, b' ', 1, 1, 0, 1, 0, 1, b'u']),
        (
            "a tag twice",
            &[1, 2, 1, b't', 1, b't', 1, 1, 0, 1, 0, 1, b'u'],
        ),
        ("empty tag", &[1, 1, 0, 1, 1, 0, 1, 0, 1, b'u']),
        ("empty set", &[1, 1, 1, b't', 1, 0, 1, 0, 1, b'u']),
        ("unknown tag", &[1, 1, 1, b't', 1, 1, 1, 1, 0, 1, b'u']),
        ("unknown set", &[1, 1, 1, b't', 1, 1, 0, 1, 1, 1, b'u']),
        ("empty id", &[1, 1, 1, b't', 1, 1, 0, 1, 0, 0]),
        (
            "unknown file",
            &[0, 1, 1, b't', 1, 1, 0, 1, 1, b'f', 1, 0, 2, 7, 8, 1, b'u'],
        ),
        (
            "space in file",
            &[0, 1, 1, b't', 1, 1, 0, 1, 1, b' ', 1, 0, 1, 7, 8, 1, b'u'],
        ),
        (
            "empty urlkey",
            &[0, 1, 1, b't', 1, 1, 0, 1, 1, b'f', 1, 0, 1, 7, 8, 0],
        ),
        ("self edge", &[2, 1, 1, b't', 1, 1, 0, 1, 0, 1, b't']),
        (
            "cycle",
            &[
                2, 2, 1, b't', 1, b'u', 2, 1, 0, 1, 1, 2, 0, 1, b'u', 1, 1, b't',
            ],
        ),
    ] {
        assert!(!try_chunk(&Index::default(), bad), "{why}");
        assert!(!try_chunk(&index, bad), "{why}");
    }
    let id = b"u 00000000000007 f 8";
    let whole = [
        &[0, 1, 1, b't', 1, 1, 0, 0, 1, 0, 0, id.len() as u8],
        &id[..],
    ]
    .concat();
    assert!(!try_chunk(&Index::default(), &whole));
}

#[test]
fn few_bytes_cannot_allocate_much() {
    // A count that claims four billion elements.
    let much = [0xff, 0xff, 0xff, 0xff, 0x0f];
    for (kind, before) in [
        (1, &[][..]),
        (1, &[0]),
        (1, &[0, 0]),
        (0, &[0, 0]),
        (0, &[0, 0, 0]),
    ] {
        let chunk = [&[kind], before, &much].concat();
        assert!(!try_chunk(&Index::default(), &chunk));
    }

    // Ten thousand tags for each of many ids, each of which already has another tag.
    let mut index = Index::default();
    let ids: Vec<_> = (0..1000_u32)
        .map(|n| format!("id{n}").into_bytes())
        .collect();
    for id in &ids {
        index.add(Tagged::File, id, &[id]).unwrap();
    }
    let mut chunk = vec![1];
    put(&mut chunk, MAX_TAGS as u64 - 1);
    for n in 1..MAX_TAGS {
        put_bytes(&mut chunk, n.to_string().as_bytes());
    }
    put(&mut chunk, 1);
    put(&mut chunk, MAX_TAGS as u64 - 1);
    chunk.extend((1..MAX_TAGS).map(|_| 0));
    put(&mut chunk, ids.len() as u64);
    for id in &ids {
        put(&mut chunk, 0);
        put_bytes(&mut chunk, id);
    }
    let before = index.clone();
    let error = index.load_chunk(&chunk).unwrap_err();
    assert!(error.contains("too many"), "{error}");
    assert_eq!(index, before);
    index.verify();
    Index::default().load_chunk(&chunk).unwrap();
}

#[test]
fn empty_staged_copy_is_saved() {
    let mut index = Index::default();
    assert!(chunks(&index).is_empty());
    for kind in Tagged::ALL {
        index.load(kind, Mode::Stage, &[]).unwrap();
    }
    assert!(!index.is_empty());
    let chunks = chunks(&index);
    assert_eq!(chunks.len(), 3);
    let mut loaded = Index::default();
    for chunk in chunks.iter().rev() {
        loaded.load_chunk(chunk).unwrap();
    }
    assert_eq!(loaded, index);
    assert_ne!(loaded, Index::default());
}

proptest! {
    #[test]
    fn any_bytes_are_refused_or_consistent(
        kind in 0..8_u8,
        bytes in prop::collection::vec(prop_oneof![3 => 0..4_u8, 1 => any::<u8>()], 0..60),
    ) {
        let chunk = [&[kind], &bytes[..]].concat();
        try_chunk(&Index::default(), &chunk);
        try_chunk(&small(), &chunk);
    }
}
