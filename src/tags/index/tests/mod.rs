//! Tests of the index, compared with plain maps.

mod chunks;
mod histories;
mod large;
mod model;

use super::change::occurs;
use super::*;

impl Index {
    /// Checks that redundant data is consistent and that no unused data remains.
    fn verify(&self) {
        for edges in self.copies() {
            edges.verify(&self.names);
        }
        let names = &self.names;
        let copies = (&self.in_place, &self.staged);
        names
            .tags
            .verify(|tag| occurs(copies.0, copies.1, |edges| edges.uses(TagId(tag))));
        names
            .files
            .verify(|file| occurs(copies.0, copies.1, |edges| edges.uses_file(file)));
    }

    fn names_of(&self, kind: Tagged, id: &[u8]) -> Vec<&[u8]> {
        let tags = self.tags_of(kind, id).iter();
        let mut names: Vec<_> = tags.map(|tag| self.name(*tag)).collect();
        names.sort();
        names
    }
}

#[test]
fn closure_contains_the_tags_of_tags_and_copies_do_not_change() {
    let mut index = Index::default();
    let member: &[&[u8]] = &[b"coll:1068"];
    index.add(Tagged::File, b"a.warc.gz", member).unwrap();
    let tags: &[&[u8]] = &[b"org:77", b"private"];
    index.add(Tagged::Tag, b"coll:1068", tags).unwrap();
    let before = index.clone();
    index.remove(Tagged::Tag, b"coll:1068", &[b"private"]);

    let mut tags = Vec::new();
    index.closure(index.tags_of(Tagged::File, b"a.warc.gz"), &mut tags);
    let mut names: Vec<_> = tags.iter().map(|tag| index.name(*tag)).collect();
    names.sort();
    assert_eq!(names, [&b"coll:1068"[..], b"org:77"]);
    assert_eq!(before.counts(Tagged::Tag).edges, 2);
}

#[test]
fn snapshot_can_be_dropped_by_another_thread() {
    fn is_shared<T: Send + Sync>() {}
    is_shared::<Index>();
    is_shared::<Dropped>();
}

#[test]
fn loading_no_ids_changes_only_the_staging_state() {
    let (mut index, kind) = (Index::default(), Tagged::File);
    let modes = [Mode::Merge, Mode::Set, Mode::Stage, Mode::Replace];
    let changes = |index: &Index| modes.map(|mode| index.changes_without_ids(kind, mode));
    assert_eq!(changes(&index), [false, false, true, false]);
    index.load(kind, Mode::Stage, &[]).unwrap();
    assert_eq!(changes(&index), [false; 4]);
    index.add(kind, b"f", &[b"t"]).unwrap();
    assert_eq!(changes(&index), [false, false, false, true]);
    index.discard(kind);
    index.load(kind, Mode::Replace, &[]).unwrap();
    assert_eq!(changes(&index), [false, false, true, false]);
}

#[test]
fn invalid_tag_or_id_is_refused() {
    let mut index = Index::default();
    index.add(Tagged::File, b"f", &[b"t"]).unwrap();
    let before = index.clone();
    let long = vec![b'x'; ID_BYTES + 1];
    for (kind, id, tag) in [
        (Tagged::File, &b""[..], &b"t"[..]),
        (Tagged::File, &long, b"t"),
        (Tagged::Record, b"", b"t"),
        (Tagged::Tag, b"", b"t"),
        (Tagged::Tag, b"a b", b"t"),
        (Tagged::Tag, &long[..TAG_BYTES + 1], b"t"),
        (Tagged::File, b"f", b""),
        (Tagged::File, b"f", b"a b"),
        (Tagged::File, b"f", &long[..TAG_BYTES + 1]),
        (Tagged::Tag, b"a", b"a"),
    ] {
        let error = index.add(kind, id, &[b"new", tag]).unwrap_err();
        assert!(error.to_string().is_ascii());
        assert!(error.to_string().contains(' '), "{error}");
        assert_eq!(index, before);
        index.verify();
    }
    index
        .add(Tagged::File, &long[1..], &[&long[..TAG_BYTES]])
        .unwrap();
    index.add(Tagged::File, b" a b ", &[b"\0\xff"]).unwrap();
    assert_eq!(index.names_of(Tagged::File, b" a b "), [b"\0\xff"]);
    assert_eq!(index.tag(b"new"), None);
    index.verify();
}

#[test]
fn number_of_tags_per_id_is_limited() {
    let names: Vec<_> = (0..=MAX_TAGS).map(|n| n.to_string().into_bytes()).collect();
    let all: Vec<&[u8]> = names.iter().map(|name| &name[..]).collect();
    let joined = all.join(&b' ');
    for kind in Tagged::ALL {
        let mut index = Index::default();
        let full = Error::TooMany(b"id"[..].into());
        assert_eq!(index.add(kind, b"id", &all), Err(full.clone()));
        for mode in [Mode::Merge, Mode::Set, Mode::Replace, Mode::Stage] {
            let error = index.load(kind, mode, &[(b"a", b"x"), (b"id", &joined)]);
            assert_eq!(error.err(), Some(full.clone()));
            assert!(index.is_empty());
            index.verify();
        }
        let (added, _) = index.add(kind, b"id", &all[1..]).unwrap();
        assert_eq!(added, MAX_TAGS as u64);
        assert_eq!(index.add(kind, b"id", &all[..1]), Err(full));
        assert_eq!(index.remove(kind, b"id", &all).0, MAX_TAGS as u64);
        assert!(index.is_empty());
        index.verify();
    }
}

#[test]
fn reused_tag_number_invalidates_its_ids() {
    let mut index = Index::default();
    index.add(Tagged::File, b"f", &[b"a"]).unwrap();
    let a = index.tag(b"a").unwrap();
    index.remove(Tagged::File, b"f", &[b"a"]);
    assert_eq!(index.tag(b"a"), None);
    let (_, touched) = index.add(Tagged::Record, b"r", &[b"b"]).unwrap();
    assert_eq!(index.tag(b"b"), Some(a));
    assert_eq!(touched, Touched::Tags(vec![a]));
    let (_, touched) = index.add(Tagged::Record, b"r2", &[b"b"]).unwrap();
    assert_eq!(touched, Touched::Nothing);
}

#[test]
fn members_of_a_changed_tag_are_invalidated() {
    let mut index = Index::default();
    let touched = |index: &Index, touched: Touched| match touched {
        Touched::Tags(tags) => {
            let mut names: Vec<_> = tags.iter().map(|tag| index.name(*tag).to_vec()).collect();
            names.sort();
            names.join(&b' ')
        }
        other => format!("{other:?}").into_bytes(),
    };
    index.add(Tagged::Tag, b"coll:1", &[b"org:1"]).unwrap();
    index.add(Tagged::Tag, b"coll:2", &[b"org:1"]).unwrap();
    let (_, who) = index
        .add(Tagged::Tag, b"org:1", &[b"private", b"org:2"])
        .unwrap();
    assert_eq!(touched(&index, who), b"coll:1 coll:2 org:1 org:2 private");
    let (_, who) = index.add(Tagged::Tag, b"coll:2", &[b"org:2"]).unwrap();
    assert_eq!(touched(&index, who), b"coll:2");
    let (_, who) = index.remove(Tagged::Tag, b"org:1", &[b"org:2"]);
    assert_eq!(touched(&index, who), b"coll:1 coll:2 org:1");
    assert_eq!(
        index.remove(Tagged::Tag, b"org:1", &[b"org:2"]).1,
        Touched::Nothing
    );
    for n in 0..Touched::MAX {
        let id = format!("coll:{}", n + 10);
        index.add(Tagged::Tag, id.as_bytes(), &[b"org:1"]).unwrap();
    }
    assert_eq!(
        index.remove(Tagged::Tag, b"org:1", &[b"private"]).1,
        Touched::All
    );
    index.verify();
}
