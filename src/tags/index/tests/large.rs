//! Tests behaviour that only occurs in large indexes.

use super::*;

fn tag(n: usize) -> Vec<u8> {
    format!("t{n}").into_bytes()
}

/// Returns the edges of a chain, each as id and tag.
fn chain(len: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
    (0..len).map(|n| (tag(n), tag(n + 1))).collect()
}

const LONG: usize = if cfg!(debug_assertions) {
    50_000
} else {
    1_000_000
};

#[test]
fn long_chain_is_checked_both_ways_without_deep_recursion() {
    let links = chain(LONG);
    let mut forward = Index::default();
    for (id, tag) in &links {
        forward
            .load(Tagged::Tag, Mode::Stage, &[(id, tag)])
            .unwrap();
    }
    forward.swap(Tagged::Tag, Some(LONG as u64)).unwrap();
    let mut backward = Index::default();
    for (id, tag) in links.iter().rev() {
        backward.add(Tagged::Tag, id, &[tag]).unwrap();
    }
    assert_eq!(forward, backward);
    let pairs: Vec<_> = links.iter().map(|(id, tag)| (&id[..], &tag[..])).collect();
    let mut loaded = Index::default();
    loaded.load(Tagged::Tag, Mode::Replace, &pairs).unwrap();
    assert_eq!(forward, loaded);

    let last = tag(LONG);
    let cycle = Error::Cycle {
        tag: tag(0).into(),
        carries: last.clone().into(),
    };
    assert_eq!(forward.add(Tagged::Tag, &last, &[b"t0"]), Err(cycle));
    let closing = [(&last[..], &b"x t0"[..])];
    assert!(forward.load(Tagged::Tag, Mode::Merge, &closing).is_err());
    let all = [&pairs[..], &closing].concat();
    for mode in [Mode::Replace, Mode::Set, Mode::Stage] {
        assert!(forward.load(Tagged::Tag, mode, &all).is_err());
    }
    assert_eq!(forward, loaded);
    assert_eq!(forward.tag(b"x"), None);

    let mut closure = Vec::new();
    forward.closure(&[forward.tag(b"t0").unwrap()], &mut closure);
    assert_eq!(closure.len(), LONG + 1);
    let mut again = Index::default();
    forward.save(&mut |chunk| again.load_chunk(chunk).unwrap());
    assert_eq!(again, forward);
}

#[test]
fn chain_joined_in_any_order_is_checked_from_the_shorter_end() {
    let mut links = chain(20_000);
    // Sort by the reversed id, so that ids are in neither ascending nor descending order.
    links.sort_by_key(|(id, _)| id.iter().rev().copied().collect::<Vec<_>>());
    let mut index = Index::default();
    for (id, tag) in &links {
        index.add(Tagged::Tag, id, &[tag]).unwrap();
    }
    assert!(index.add(Tagged::Tag, b"t20000", &[b"t0"]).is_err());
    index.verify();
}

#[test]
fn tag_with_very_many_members_is_fast() {
    let mut index = Index::default();
    let ids: Vec<_> = (0..50_000).map(tag).collect();
    let pairs: Vec<_> = ids.iter().map(|id| (&id[..], &b"private"[..])).collect();
    index.load(Tagged::Tag, Mode::Merge, &pairs).unwrap();
    for _ in 0..1000 {
        index.add(Tagged::Tag, b"private", &[b"x"]).unwrap();
        index.add(Tagged::Tag, b"x", &[b"y"]).unwrap();
        assert!(index.add(Tagged::Tag, b"y", &[b"private"]).is_err());
        assert!(index.add(Tagged::Tag, b"y", &[b"t7"]).is_err());
        index.remove(Tagged::Tag, b"x", &[b"y"]);
        index.remove(Tagged::Tag, b"private", &[b"x"]);
    }
    index.verify();
    let none: Vec<_> = ids.iter().map(|id| (&id[..], &b""[..])).collect();
    index.load(Tagged::Tag, Mode::Set, &none).unwrap();
    assert!(index.is_empty());
    index.verify();
}

#[test]
fn leftovers_of_a_large_copy_are_freed_gradually() {
    let mut index = Index::default();
    let record = |n| format!("org,example)/{n} 20240101000000 f{n}.warc.gz {n}").into_bytes();
    let pairs: Vec<_> = (0..20_000).map(|n| (record(n), tag(n))).collect();
    let pairs: Vec<_> = pairs.iter().map(|(id, tag)| (&id[..], &tag[..])).collect();
    index.load(Tagged::Record, Mode::Stage, &pairs).unwrap();
    index.swap(Tagged::Record, Some(20_000)).unwrap();
    let full = index.memory();
    index.load(Tagged::Record, Mode::Stage, &[]).unwrap();
    let (_, dropped) = index.swap(Tagged::Record, None).unwrap();
    assert!(dropped.effort() > 64);
    for _ in 0..1000 {
        index.add(Tagged::File, b"f", &[b"t"]).unwrap();
        index.remove(Tagged::File, b"f", &[b"t"]);
    }
    index.verify();
    assert_eq!((index.tag_count(), index.tag(b"t7")), (0, None));
    assert!(index.is_empty());
    assert!(index.memory() < full / 20, "{} of {full}", index.memory());
}

#[test]
fn snapshot_can_be_read_on_another_thread_while_the_index_changes() {
    let mut index = Index::default();
    let files: Vec<_> = (0..5000).map(|n| format!("file{n}").into_bytes()).collect();
    for file in &files {
        index.add(Tagged::File, file, &[b"old", file]).unwrap();
    }
    let snapshot = index.clone();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            for _ in 0..3 {
                for file in &files {
                    let names = snapshot.names_of(Tagged::File, file);
                    assert_eq!(names, [&file[..], b"old"]);
                }
            }
        });
        for file in &files {
            index.remove(Tagged::File, file, &[b"old", file]);
            index.add(Tagged::File, file, &[b"new"]).unwrap();
        }
        reader.join().unwrap();
    });
    assert_eq!(index.tag_count(), 1);
    index.verify();
    snapshot.verify();
}
