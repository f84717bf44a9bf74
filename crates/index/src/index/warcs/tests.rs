use std::fs::File;

use crawlspace_warc::{Compression, Writer};

use super::*;

fn shared(folder: &Path) -> Arc<Shared> {
    Arc::new(Shared {
        folder: folder.to_owned(),
        cache: cache_of(folder, None),
        work: Work::default(),
        state: Mutex::default(),
        changed: Condvar::new(),
    })
}

/// Scans the folder, and indexes the files that are due. Returns their names.
fn settle(shared: &Arc<Shared>) -> Vec<String> {
    let due = shared.scan();
    due.iter().for_each(|name| shared.index(name));
    due
}

/// Returns the rows in the indexes that queries search, and the number of files that are not indexed.
fn rows(shared: &Arc<Shared>) -> (Vec<String>, u64) {
    // Never drop the value, because that would stop the indexing that the test waits for.
    let folder = std::mem::ManuallyDrop::new(WarcFolder(Arc::clone(shared)));
    let Indexes { walk, waiting } = folder.indexes();
    let texts = walk
        .files
        .iter()
        .map(|(path, _)| fs::read_to_string(path).unwrap());
    let mut rows: Vec<String> = texts
        .flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    rows.sort_unstable();
    (rows, waiting)
}

fn record(page: &str, compression: Compression) -> Vec<u8> {
    let mut bytes = Vec::new();
    let uri = format!("http://example.com/{page}");
    let fields: [(&str, &[u8]); 3] = [
        ("WARC-Type", b"response"),
        ("WARC-Target-URI", uri.as_bytes()),
        ("WARC-Date", b"2026-03-19T10:20:15Z"),
    ];
    let block = b"HTTP/1.1 200 OK\r\n\r\nhello";
    Writer::new(&mut bytes, compression)
        .write(&fields, block)
        .unwrap();
    bytes
}

#[test]
fn file_cut_at_any_byte_is_indexed_up_to_the_cut() {
    for (compression, ending) in [
        (Compression::None, "warc"),
        (Compression::PerRecord, "warc.gz"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let (one, two) = (record("1", compression), record("2", compression));
        let all = [&one[..], &two].concat();
        let shared = shared(dir.path());
        for cut in 0..all.len() {
            let name = format!("{cut}.{ending}");
            fs::write(dir.path().join(&name), &all[..cut]).unwrap();
        }
        assert_eq!(settle(&shared).len(), all.len());
        let state = shared.lock();
        for cut in 0..all.len() {
            let file = &state.files[&format!("{cut}.{ending}")];
            let index = file.index.as_ref().unwrap();
            assert_eq!(index.damage, None, "{cut} of {} {ending}", all.len());
            let text = fs::read_to_string(shared.in_cache(&index.stem, INDEX)).unwrap();
            // Only the line ends that close a record may be missing.
            let whole = [one.len(), all.len()];
            let at_least = whole.iter().filter(|end| **end <= cut).count();
            let at_most = whole.iter().filter(|end| **end <= cut + 4).count();
            let rows = text.lines().count();
            assert!((at_least..=at_most).contains(&rows), "{cut}: {rows}");
        }
    }
}

#[test]
fn damage_is_remembered_by_the_next_process() {
    let dir = tempfile::tempdir().unwrap();
    let good = record("1", Compression::PerRecord);
    let bytes = [&good[..], b"this is no record", &good].concat();
    fs::write(dir.path().join("a.warc.gz"), bytes).unwrap();
    let first = shared(dir.path());
    assert_eq!(settle(&first), ["a.warc.gz"]);
    let next = shared(dir.path());
    assert_eq!(settle(&next), [""; 0]);
    for shared in [first, next] {
        let (rows, waiting) = rows(&shared);
        assert_eq!((rows.len(), waiting), (1, 0));
        let folder = std::mem::ManuallyDrop::new(WarcFolder(Arc::clone(&shared)));
        assert_eq!(
            folder.counts(),
            WarcCounts {
                damaged: 1,
                ..WarcCounts::default()
            }
        );
        let failures = folder.indexes().walk.failures;
        assert!(failures[0].contains("a.warc.gz"), "{failures:?}");
    }
}

#[test]
fn grown_file_keeps_its_rows_and_a_replaced_one_does_not() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.warc");
    let [one, two, other] = ["1", "2", "other"].map(|page| record(page, Compression::None));
    fs::write(&path, &one).unwrap();
    let shared = shared(dir.path());
    settle(&shared);
    assert_eq!(rows(&shared).0.len(), 1);
    let mut file = File::options().append(true).open(&path).unwrap();
    file.write_all(&two).unwrap();
    shared.lock().files.get_mut("a.warc").unwrap().not_before = None;
    let due = shared.scan();
    assert_eq!(due, ["a.warc"]);
    assert_eq!((rows(&shared).0.len(), rows(&shared).1), (1, 1));
    due.iter().for_each(|name| shared.index(name));
    assert_eq!((rows(&shared).0.len(), rows(&shared).1), (2, 0));
    // The file that replaces it is larger, too.
    let new = dir.path().join("new");
    fs::write(&new, [&other[..], &other, &other].concat()).unwrap();
    fs::rename(&new, &path).unwrap();
    let due = shared.scan();
    assert_eq!(rows(&shared), (Vec::new(), 1));
    due.iter().for_each(|name| shared.index(name));
    let (found, waiting) = rows(&shared);
    assert!(
        found
            .iter()
            .all(|row| row.starts_with("com,example)/other "))
    );
    assert_eq!((found.len(), waiting), (3, 0));
    fs::remove_file(&path).unwrap();
    settle(&shared);
    assert_eq!(rows(&shared), (Vec::new(), 0));
    assert_eq!(list(&shared.cache).unwrap(), HashSet::new());
}

#[test]
fn processes_share_a_cache() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.warc");
    fs::write(&path, record("1", Compression::None)).unwrap();
    let (one, other) = (shared(dir.path()), shared(dir.path()));
    assert_eq!(settle(&one).len(), 1);
    assert_eq!(settle(&other).len(), 0);
    assert_eq!(rows(&other), rows(&one));
    fs::write(&path, record("2", Compression::None).repeat(2)).unwrap();
    assert_eq!(settle(&other).len(), 1);
    // This scan removes the index of the previous version, which `one` still searches.
    other.scan();
    assert_eq!(rows(&one), (Vec::new(), 1));
    assert_eq!(settle(&one).len(), 0);
    assert_eq!((rows(&one).0.len(), rows(&one).1), (2, 0));
}

#[test]
fn only_files_of_the_cache_are_removed_from_it() {
    let dir = tempfile::tempdir().unwrap();
    let shared = shared(dir.path());
    settle(&shared);
    let names = [
        "note.txt",
        ".crawlspace-new",
        ".crawlspace-old",
        "x-1-2.3.cdxj",
        "x-1-2.3.damage",
    ];
    for name in names {
        fs::write(shared.cache.join(name), "").unwrap();
    }
    let old = File::options()
        .write(true)
        .open(shared.cache.join(".crawlspace-old"));
    old.unwrap()
        .set_modified(SystemTime::now() - 2 * STALE)
        .unwrap();
    // If a folder is missing, for example because its disk is not mounted, its indexes are kept.
    let away = shared.folder.with_extension("away");
    let whole = Shared {
        folder: away,
        cache: shared.cache.clone(),
        work: Work::default(),
        state: Mutex::default(),
        changed: Condvar::new(),
    };
    whole.scan();
    assert_eq!(list(&shared.cache).unwrap().len(), names.len());
    shared.scan();
    let mut left: Vec<String> = list(&shared.cache).unwrap().into_iter().collect();
    left.sort_unstable();
    assert_eq!(left, [".crawlspace-new", "note.txt"]);
}
