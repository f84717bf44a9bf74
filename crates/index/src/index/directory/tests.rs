use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use redis_tests::Rng;

use super::build::{Batch, read_unknown};
use super::*;
use crate::index::entry::Spelled;
use crate::sorted::file::NamedFile;

/// Base size of the written files in bytes. The revision is added to the size, so that each revision has
/// its own version.
const SIZE: usize = 10_000;

/// A file, and the pages that its lines describe.
struct File {
    entry: Arc<Entry>,
    pages: BTreeSet<u64>,
    /// True if all keys are urlkeys.
    is_here: bool,
    revision: usize,
}

/// Returns the urlkey of a page, or a key in another form.
fn key(page: u64, is_urlkey: bool) -> Box<[u8]> {
    let slash = if is_urlkey { "" } else { "/" };
    format!("com,example)/page/{page:05}{slash}")
        .into_bytes()
        .into()
}

fn text(pages: &BTreeSet<u64>, is_here: bool) -> Vec<u8> {
    let line = |page: &u64| {
        let key = String::from_utf8(key(*page, is_here).into()).unwrap();
        let url = key.replace("com,example)", "http://example.com");
        let field = format!("{{\"url\": \"{url}\"}}");
        format!("{key} 20200101000000 {field}\n{key} 20210101000000 {field}\n")
    };
    pages.iter().map(line).collect::<String>().into_bytes()
}

impl File {
    /// Creates a file in memory, like the index of a package.
    fn made(pages: impl IntoIterator<Item = u64>) -> File {
        let pages = pages.into_iter().collect();
        let file = NamedFile::made("made".into(), text(&pages, true));
        File {
            entry: Arc::new(Entry::new(file, None, Spelled::Here)),
            pages,
            is_here: true,
            revision: 0,
        }
    }

    fn written(path: &Path, rng: &mut Rng) -> File {
        let mut file = File::made([]);
        file.entry = Arc::new(Entry::plain(path.to_owned()));
        file.rewrite(rng);
        file
    }

    fn path(&self) -> &Path {
        self.entry.file.path()
    }

    fn rewrite(&mut self, rng: &mut Rng) {
        self.pages = (0..1 + rng.below(40)).map(|_| rng.below(500)).collect();
        self.is_here = rng.chance(70);
        self.revision += 1;
        let mut text = text(&self.pages, self.is_here);
        let end = text.len() - "}\n".len();
        let more = " ".repeat(SIZE + self.revision - text.len());
        text.splice(end..end, more.bytes());
        std::fs::write(self.path(), text).unwrap();
    }

    /// Records the version of a written file, as a listing does.
    fn list(&self) {
        if let Ok(metadata) = std::fs::metadata(self.path()) {
            self.entry.note_inspected(FileVersion::of(&metadata));
        }
    }

    fn has(&self, page: u64, is_urlkey: bool) -> bool {
        self.pages.contains(&page) && (is_urlkey || !self.is_here)
    }
}

fn look(files: &[File]) -> (Arc<Directory>, Vec<Arc<Entry>>) {
    let entries: Vec<_> = files.iter().map(|file| Arc::clone(&file.entry)).collect();
    let (directory, unread) = Directory::look(&entries, |_| true);
    (Arc::new(directory), unread)
}

fn build(unread: &[Arc<Entry>], max_keys: usize) {
    let mut batch = Batch::of(max_keys);
    unread.iter().for_each(|entry| batch.add(entry));
    batch.finish();
}

/// Builds segments until no entry is left to read.
fn settled(files: &[File]) -> Arc<Directory> {
    for _ in 0..8 {
        let (directory, unread) = look(files);
        if unread.is_empty() {
            return directory;
        }
        build(&unread, MAX_KEYS);
    }
    panic!("files are read again and again");
}

/// Checks that every file with a page is a candidate, in order, and returns the number of false positives.
fn check(directory: &Arc<Directory>, files: &[File], page: u64) -> usize {
    if !directory.covers_some() {
        // In this case, a query searches all files.
        return 0;
    }
    let mut wrong = 0;
    for spellings in [&[true][..], &[false], &[true, false]] {
        let keys: Vec<_> = spellings.iter().map(|one| key(page, *one)).collect();
        let candidates = directory.candidates(&keys);
        let skips_some = candidates.skips_some;
        let found: Vec<usize> = candidates.collect();
        assert!(found.is_sorted_by(|one, other| one < other), "{found:?}");
        assert_eq!(skips_some, found.len() < files.len());
        for (position, file) in files.iter().enumerate() {
            let is_found = found.contains(&position);
            let is_right = spellings.iter().any(|one| file.has(page, *one));
            assert!(is_found || !is_right, "{page}: no file {position}");
            assert!(file.is_here || !directory.is_here(position));
            wrong += usize::from(is_found && !is_right);
        }
    }
    wrong
}

#[test]
fn added_changed_and_removed_files_are_found() {
    let mut rng = Rng::new("added_changed_and_removed_files_are_found");
    let dir = tempfile::tempdir().unwrap();
    let (mut files, mut waiting) = (Vec::<File>::new(), Vec::<Arc<Entry>>::new());
    let mut batch = Batch::of(MAX_KEYS);
    for round in 0..400 {
        for change in 0..rng.below(6) {
            let (at, is_large) = (rng.below(files.len() as u64 + 1) as usize, files.len() > 60);
            let is_written = |file: &File| file.path().starts_with(dir.path());
            match (rng.below(5), files.get_mut(at)) {
                (0 | 1, Some(file)) if is_written(file) => file.rewrite(&mut rng),
                // Replace the file by another file of the same name.
                (2, Some(file)) if is_written(file) => {
                    *file = File::written(file.path(), &mut rng);
                }
                (0..3, Some(_)) if is_large => drop(files.remove(at)),
                (3, Some(file)) if is_large && is_written(file) => {
                    std::fs::remove_file(file.path()).unwrap();
                }
                (3, _) => files.insert(at, File::made((0..20).map(|_| rng.below(500)))),
                _ => {
                    let path = dir.path().join(format!("{round}-{change}.cdxj"));
                    files.insert(at, File::written(&path, &mut rng));
                }
            }
            // Files may change while other files are being read.
            if rng.chance(20) {
                waiting.drain(..).for_each(|entry| batch.add(&entry));
            }
            if rng.chance(20) {
                batch.finish();
            }
            files.retain(|file| !is_written(file) || file.path().exists());
        }
        for file in &files {
            file.list();
        }
        let (directory, unread) = look(&files);
        waiting.extend(unread);
        if rng.chance(30) {
            batch.finish();
        }
        for _ in 0..3 {
            check(&directory, &files, rng.below(500));
        }
    }
    waiting.iter().for_each(|entry| batch.add(entry));
    batch.finish();
    let directory = settled(&files);
    assert!(files.len() > FEW && directory.uncovered.is_empty());
    let wrong: usize = (0..500).map(|page| check(&directory, &files, page)).sum();
    assert!(wrong < 500, "{wrong} files for 500 pages");
    let is_here = (0..files.len()).map(|position| directory.is_here(position));
    assert!(is_here.eq(files.iter().map(|file| file.is_here)));
}

#[test]
fn files_added_one_by_one_are_in_few_segments() {
    let mut rng = Rng::new("files_added_one_by_one_are_in_few_segments");
    let (mut files, mut reads) = (Vec::new(), 0);
    for n in 0..1200 {
        let at = rng.below(n + 1) as usize;
        files.insert(at, File::made([rng.below(5000), rng.below(5000)]));
        let (directory, unread) = look(&files);
        assert!(directory.parts.len() <= 3 * MANY, "of {n} files");
        reads += unread.len();
        build(&unread, MAX_KEYS);
    }
    assert!(reads <= 4 * files.len(), "{reads}");
    check(&settled(&files), &files, 7);
    // When most files are removed, their segments are freed.
    while files.len() > 100 {
        files.swap_remove(rng.below(files.len() as u64) as usize);
    }
    let directory = settled(&files);
    check(&directory, &files, 7);
    let kept: usize = directory
        .parts
        .iter()
        .map(|part| part.segment.files())
        .sum();
    assert!(
        directory.uncovered.is_empty() && kept <= 2 * files.len(),
        "{kept}"
    );
}

#[test]
fn files_that_do_not_fit_a_segment_are_in_the_next() {
    let mut files: Vec<File> = (0..10).map(|n| File::made(n * 30..n * 30 + 30)).collect();
    files.insert(4, File::made(0..101));
    files.insert(7, File::made([]));
    let (_, unread) = look(&files);
    assert_eq!(unread.len(), 12);
    build(&unread, 100);
    let (directory, _) = look(&files);
    assert_eq!(directory.uncovered, [4]);
    let sizes = directory
        .parts
        .iter()
        .map(|part| (part.live.files, part.live.keys));
    assert_eq!(
        sizes.collect::<Vec<_>>(),
        [(3, 90), (1, 30), (4, 90), (3, 90)]
    );
    for page in 0..310 {
        check(&directory, &files, page);
    }
    let files: Vec<File> = (0..1500).map(|n| File::made([n % 100])).collect();
    let directory = settled(&files);
    assert_eq!(directory.parts.len(), 2);
    check(&directory, &files, 7);
}

#[test]
fn few_growing_files_are_searched() {
    let mut rng = Rng::new("few_growing_files_are_searched");
    let dir = tempfile::tempdir().unwrap();
    let mut files = Vec::new();
    for n in 0..FEW {
        files.push(File::written(&dir.path().join(n.to_string()), &mut rng));
        files[n].list();
    }
    assert!(!settled(&files).covers_some());
    files.push(File::made([7]));
    assert!(settled(&files).uncovered.is_empty());
    let alone = [File::made([7])];
    assert!(!settled(&alone).covers_some());
    // A file that is listed twice is found twice.
    let twice: Vec<_> = [0, 1, 1, 0]
        .map(|n| Arc::clone(&files[FEW - n].entry))
        .into();
    let (directory, _) = Directory::look(&twice, |_| true);
    let found = Arc::new(directory).candidates(&[key(7, true)]);
    assert!(found.eq([0, 1, 2, 3]));
}

#[test]
fn file_changed_since_its_listing_is_searched() {
    let mut rng = Rng::new("file_changed_since_its_listing_is_searched");
    let dir = tempfile::tempdir().unwrap();
    let mut files: Vec<File> = (0..FEW as u64).map(|n| File::made([n])).collect();
    files.push(File::written(&dir.path().join("a.cdxj"), &mut rng));
    files[FEW].list();
    let (_, unread) = look(&files);
    files[FEW].rewrite(&mut rng);
    build(&unread, MAX_KEYS);
    assert_eq!(look(&files).0.uncovered, [FEW as u32]);
    files[FEW].list();
    assert!(settled(&files).uncovered.is_empty());
}

#[test]
fn listed_files_are_read_in_the_background() {
    let files: Vec<File> = (0..30).map(|n| File::made(n..n + 50)).collect();
    let entries: Vec<_> = files.iter().map(|file| Arc::clone(&file.entry)).collect();
    let directory = Directory::of(&entries);
    assert!(!directory.covers_some());
    read_unknown(&directory);
    let begun = Instant::now();
    while !Directory::of(&entries).uncovered.is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(30));
        std::thread::sleep(Duration::from_millis(5));
    }
    let directory = Directory::of(&entries);
    assert_eq!(directory.parts.len(), 1);
    let wrong: usize = (0..90).map(|page| check(&directory, &files, page)).sum();
    assert!(wrong < 90, "{wrong} files for 90 pages");
}
