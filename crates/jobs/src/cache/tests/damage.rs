//! Tests of damaged entries.

use std::fs;
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use super::super::seen::{self, Seen};
use super::super::{FileSum, Form, Manifest, Work, with_end};
use super::{FORMS, built, has, square, squares, text_of};
use crate::JobId;

/// Damages each byte of each file, in both forms. Also restores the file times after the damage, as
/// a careless copy does.
#[test]
fn every_damaged_byte_is_found_and_the_entry_rebuilt() {
    for form in FORMS {
        let root = tempfile::tempdir().expect("a folder");
        let cache = squares(root.path(), form);
        let entry = built(&cache);
        let (text, manifest) = (text_of(&entry), entry.manifest_path());
        let mut paths: Vec<_> = entry.files().map(|(_, path, _)| path).collect();
        paths.push(manifest);
        drop(entry);
        let mut damaged = 0;
        for path in &paths {
            let size = fs::metadata(path).expect("a file").len();
            for at in 0..size {
                let before = modified(path);
                let file = open(path);
                let mut byte = [0];
                file.read_exact_at(&mut byte, at).expect("a byte");
                file.write_all_at(&[byte[0] ^ 1], at).expect("a byte");
                file.set_modified(before).expect("a time");
                assert!(!has(&cache, JobId(7)), "byte {at} of {}", path.display());
                damaged += 1;
                assert_eq!(text_of(&built(&cache)), text);
                assert!(has(&cache, JobId(7)));
            }
            open(path).set_len(size / 2).expect("cut");
            assert!(!has(&cache, JobId(7)));
            assert_eq!(text_of(&built(&cache)), text);
            fs::remove_file(path).expect("removed");
            assert!(!has(&cache, JobId(7)));
            assert_eq!(text_of(&built(&cache)), text);
        }
        assert!(damaged > 300);
        assert!(cache.figures.counts().damaged > damaged);
    }
}

/// Checks that the state of a verified entry is only trusted if a later change would be detected.
#[test]
fn damage_after_a_successful_check_is_found() {
    for form in FORMS {
        let root = tempfile::tempdir().expect("a folder");
        let path = {
            let cache = squares(root.path(), form);
            let (_, path, _) = built(&cache).files().next().expect("a file");
            path
        };
        // Wait until the stamps are old enough, by the clock of the file system.
        let seen = with_end(&root.path().join("squares/7-cache"), ".seen");
        let cache = squares(root.path(), form);
        until(|| {
            assert!(has(&cache, JobId(7)));
            fs::metadata(&seen).is_ok_and(|seen| seen.len() > 0)
        });
        // Check both the state in memory and the state that another process reads.
        for cache in [&cache, &squares(root.path(), form)] {
            let bytes = fs::read(&path).expect("a file");
            let before = modified(&path);
            let mut other = bytes.clone();
            other[0] ^= 1;
            let file = open(&path);
            file.write_all_at(&other, 0).expect("written");
            file.set_modified(before).expect("a time");
            assert!(!has(cache, JobId(7)));
            file.write_all_at(&bytes, 0).expect("written");
            assert!(has(cache, JobId(7)));
        }
    }
}

fn open(path: &Path) -> fs::File {
    let file = fs::File::options().read(true).write(true).open(path);
    file.expect("a file")
}

fn modified(path: &Path) -> SystemTime {
    let metadata = fs::metadata(path).expect("a file");
    metadata.modified().expect("a time")
}

/// Waits until a condition is true; fails after a minute.
fn until(mut is: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "the condition never became true"
        );
        thread::yield_now();
    }
}

#[test]
fn entry_with_another_name_is_not_used() {
    let root = tempfile::tempdir().expect("a folder");
    let cache = squares(root.path(), Form::Folder);
    drop(built(&cache));
    fs::rename(cache.path(&JobId(7)), cache.path(&JobId(8))).expect("renamed");
    assert!(!has(&cache, JobId(8)));
    let entry = cache.cache(&JobId(8), &Work::default(), square(JobId(8)));
    let entry = entry.expect("an entry");
    assert!(text_of(&entry).ends_with("b 8 64\n"));
}

#[test]
fn manifest_reads_back_and_detects_any_changed_byte() {
    let mut manifest = Manifest::new("squares", "7-cache", "7,9-12".parse().expect("jobs"));
    manifest.counts.insert("lines".to_owned(), 3);
    manifest.notes.push("a \"note\"\n".to_owned());
    manifest.files.push(FileSum {
        name: "a".to_owned(),
        size: 1,
        xxh128: "0".repeat(32),
    });
    let (bytes, checksum) = manifest.to_bytes().expect("bytes");
    manifest.checksum = checksum;
    assert_eq!(Manifest::parse(&bytes), Ok(manifest));
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut other = bytes.clone();
            other[at] ^= 1 << bit;
            assert!(Manifest::parse(&other).is_err(), "bit {bit} of byte {at}");
        }
        assert!(Manifest::parse(&bytes[..at]).is_err());
    }
}

/// Checks that stamps from the future are valid, as after a clock was set back.
#[test]
fn changed_file_times_are_detected() {
    let root = tempfile::tempdir().expect("a folder");
    let path = root.path().join("file");
    fs::write(&path, "text").expect("a file");
    let stamp = seen::Stamp::of(&fs::metadata(&path).expect("a file"));
    let seen = Seen::now("", stamp, std::iter::once(path)).expect("a file");
    let now = SystemTime::now();
    let day = Duration::from_secs(86_400);
    assert!(!seen.is_telling(now, now));
    assert!(seen.is_telling(now + day, now + day));
    assert!(seen.is_telling(now - day, now - day));
    // The clock was set while the stamps were taken, or taking them was slow.
    assert!(!seen.is_telling(now + day, now - day));
    assert!(!seen.is_telling(now - day, now + day));
}

/// Checks that pipes do not block, and that links to themselves count as missing.
#[test]
fn special_file_is_damage_and_is_not_waited_for() {
    for form in FORMS {
        let root = tempfile::tempdir().expect("a folder");
        let cache = squares(root.path(), form);
        let entry = built(&cache);
        let (text, manifest) = (text_of(&entry), entry.manifest_path());
        let mut paths: Vec<_> = entry.files().map(|(_, path, _)| path).collect();
        drop(entry);
        paths.push(manifest);
        paths.extend([".seen", ".owner"].map(|end| with_end(&cache.path(&JobId(7)), end)));
        for path in &paths {
            let put_a_pipe = || mkfifo(path, Mode::S_IRWXU).expect("a pipe");
            let put_a_link = || symlink(path, path).expect("a link");
            for put in [&put_a_pipe as &dyn Fn(), &put_a_link] {
                let _ = fs::remove_file(path);
                put();
                assert_eq!(text_of(&built(&cache)), text, "{}", path.display());
                assert!(has(&cache, JobId(7)));
            }
            let _ = fs::remove_file(path);
        }
    }
}
