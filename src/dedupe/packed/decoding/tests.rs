//! What is saved is what is loaded, and what was tampered with is refused.

use std::collections::BTreeSet;

use super::*;

fn chunks(packed: &Packed) -> Vec<Vec<u8>> {
    let mut chunks = Vec::new();
    packed.save(&mut |chunk| chunks.push(chunk.to_vec()));
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

fn load<'a>(chunks: impl IntoIterator<Item = &'a Vec<u8>>) -> Result<Packed, String> {
    let mut packed = Packed::default();
    for chunk in chunks {
        packed.load(chunk, 1)?;
    }
    packed.loaded()?;
    Ok(packed)
}

fn small() -> Packed {
    let mut packed = Packed::default();
    let hash = |n: u8| format!("sha256:{}", format!("{n:02x}").repeat(32)).into_bytes();
    for n in 0..20 {
        let url = format!("{} 20240101000000 https://example.org/{n} 10{n}", n % 3);
        packed.put_new(
            if n % 2 == 0 { b"a" } else { b"b" },
            &hash(n),
            url.as_bytes(),
        );
    }
    packed.set(
        Part::Records(b"b"),
        &hash(0),
        b"0 20240101000000 http://x/ 5",
    );
    packed.set(Part::Holders, &hash(0), b"1 2");
    packed.set(Part::Owners, b"odd\xff\0", b"nobody");
    packed.set(Part::Records(b""), b"", b"");
    packed
}

#[test]
fn what_is_saved_is_what_is_loaded() {
    let packed = small();
    let loaded = load(&chunks(&packed)).unwrap();
    assert_eq!(elements(&loaded), elements(&packed));
    let empty = load(&chunks(&Packed::default())).unwrap();
    assert!(empty.is_empty());
}

#[test]
fn any_changed_byte_is_refused() {
    let good = chunks(&small());
    for number in 0..good.len() {
        for at in 0..good[number].len() {
            for bit in 0..8 {
                let mut bad = good.clone();
                bad[number][at] ^= 1 << bit;
                let error = load(&bad).err().expect("a changed byte is noticed");
                assert!(error.is_ascii());
            }
            let mut bad = good.clone();
            bad[number].truncate(at);
            assert!(load(&bad).is_err());
        }
    }
}

#[test]
fn missing_repeated_and_reordered_chunks_are_refused() {
    let good = chunks(&small());
    for i in 0..good.len() {
        let mut bad = good.clone();
        bad.remove(i);
        assert!(load(&bad).is_err());
        let mut bad = good.clone();
        bad.insert(i, good[i].clone());
        assert!(load(&bad).is_err());
        for j in 0..i {
            let mut bad = good.clone();
            bad.swap(i, j);
            assert!(load(&bad).is_err());
        }
    }
}
