use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::fcntl::{FcntlArg, fcntl};
use tempfile::TempDir;
use xxhash_rust::xxh3::xxh3_128;

use super::super::cache::{Lock, with_end};
use super::super::{Draft, Error, FileBasedCache, Form, JobId, Limits, Work};
use super::{Collected, EntryState, Reason, Verified, collect, list, verify};

/// Creates caches with the entry `fullcrawllogindex/7-cache` or `crawllog/crawllog-7-cache`.
fn caches(form: Form) -> (TempDir, PathBuf) {
    let root = tempfile::tempdir().expect("a folder");
    let path = build(root.path(), form).expect("an entry");
    (root, path)
}

fn build(root: &Path, form: Form) -> Result<PathBuf, Error> {
    let (name, prefix) = match form {
        Form::File => ("crawllog", "crawllog-"),
        Form::Folder => ("fullcrawllogindex", ""),
    };
    let cache = FileBasedCache::<JobId>::open(root, name, form)?.prefixed(prefix);
    let build = |draft: &mut Draft| {
        let (path, _) = draft.create("lines")?;
        fs::write(&path, "lines").map_err(Error::io(&path, "write"))
    };
    cache.cache(&JobId(7), &Work::default(), build)?;
    Ok(cache.path(&JobId(7)))
}

const FORMS: [Form; 2] = [Form::File, Form::Folder];

fn manifest_of(entry: &Path, form: Form) -> PathBuf {
    super::super::cache::manifest_of(entry, form)
}

fn verified(root: &TempDir, remove: bool) -> Verified {
    verify(root.path(), remove, &Work::default()).expect("a look")
}

/// Collects without limits and without a grace period.
fn collected(root: &TempDir, dry_run: bool) -> Collected {
    let limits = Limits {
        grace: Duration::ZERO,
        ..Limits::default()
    };
    collect(root.path(), &limits, dry_run, &Work::default()).expect("a collection")
}

fn names(entry: &Path) -> Vec<String> {
    let files = fs::read_dir(entry.parent().expect("a folder")).expect("a folder");
    let names = files.map(|file| {
        file.expect("a file")
            .file_name()
            .to_string_lossy()
            .into_owned()
    });
    names.collect()
}

/// Checks that partly built or removed entries are not reported as damaged.
#[test]
fn entry_being_removed_or_built_is_not_damaged() {
    for form in FORMS {
        for step in ["manifest", "file", "other file"] {
            let (root, entry) = caches(form);
            let lock = Lock::try_acquire(&entry)
                .expect("a lock file")
                .expect("a lock");
            let file = match form {
                Form::File => entry.clone(),
                Form::Folder => entry.join("lines"),
            };
            match step {
                "manifest" => fs::remove_file(manifest_of(&entry, form)).expect("removed"),
                "file" => fs::remove_file(file).expect("removed"),
                _ => fs::write(file, "other").expect("written"),
            }
            for remove in [false, true] {
                assert_eq!(
                    verified(&root, remove),
                    Verified::default(),
                    "{form:?} {step}"
                );
            }
            drop(lock);
            let left = verified(&root, false);
            assert_eq!(
                (left.damaged.len(), left.foreign.len()),
                (1, 0),
                "{form:?} {step}"
            );
        }
    }
}

/// A folder prevents the second rename, which would move the manifest into place.
#[test]
fn leftover_of_a_builder_killed_between_renames_is_freed() {
    for remove_by in ["gc", "verify"] {
        let root = tempfile::tempdir().expect("a folder");
        let entry = root.path().join("crawllog/crawllog-7-cache");
        let manifest = manifest_of(&entry, Form::File);
        fs::create_dir_all(&manifest).expect("a folder");
        build(root.path(), Form::File).expect_err("a folder is in the way");
        fs::remove_dir(&manifest).expect("removed");
        assert!(entry.is_file());
        match remove_by {
            "gc" => {
                for dry_run in [true, false] {
                    let removed = collected(&root, dry_run).removed;
                    let [one] = &removed[..] else {
                        panic!("{removed:?}");
                    };
                    assert_eq!((&one.path, one.why), (&entry, Reason::Left));
                }
            }
            _ => {
                let found = verified(&root, true);
                assert_eq!((found.damaged.len(), found.foreign.len()), (1, 0));
            }
        }
        assert_eq!(names(&entry), [""; 0]);
        build(root.path(), Form::File).expect("an entry");
    }
}

#[test]
fn unused_lock_files_are_removed_with_their_entries() {
    let (root, entry) = caches(Form::File);
    let other = entry.with_file_name("crawllog-8-cache");
    let held = entry.with_file_name("crawllog-9-cache");
    for path in [&other, &held] {
        File::create(with_end(path, ".working")).expect("a file");
    }
    let lock = Lock::try_acquire(&held)
        .expect("a lock file")
        .expect("a lock");
    // The lock file is new, so another process may be about to lock it.
    collect(root.path(), &Limits::default(), false, &Work::default()).expect("a collection");
    assert!(with_end(&other, ".working").exists());
    collected(&root, true);
    assert!(with_end(&other, ".working").exists());
    assert_eq!(collected(&root, false).removed, []);
    let there = [&entry, &other, &held].map(|path| with_end(path, ".working").exists());
    assert_eq!(there, [true, false, true]);
    drop(lock);
    let limits = Limits {
        max_bytes: Some(0),
        grace: Duration::ZERO,
        ..Limits::default()
    };
    collect(root.path(), &limits, false, &Work::default()).expect("a collection");
    assert_eq!(names(&entry), [""; 0]);
}

/// Checks that locking a removed lock file does not exclude other processes.
#[test]
fn lock_on_a_removed_lock_file_does_not_count() {
    let (root, entry) = caches(Form::File);
    let before = File::options()
        .write(true)
        .open(with_end(&entry, ".working"));
    let before = before.expect("a file");
    let limits = Limits {
        max_bytes: Some(0),
        grace: Duration::ZERO,
        ..Limits::default()
    };
    collect(root.path(), &limits, false, &Work::default()).expect("a collection");
    let region = nix::libc::flock {
        l_type: nix::libc::F_WRLCK as nix::libc::c_short,
        l_whence: 0,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    };
    fcntl(&before, FcntlArg::F_OFD_SETLK(&region)).expect("a lock");
    assert!(Lock::try_acquire(&entry).expect("a lock file").is_some());
    build(root.path(), Form::File).expect("an entry");
}

#[test]
fn entry_of_another_version_is_neither_damaged_nor_removed() {
    for form in FORMS {
        let (root, entry) = caches(form);
        let path = manifest_of(&entry, form);
        let text = fs::read_to_string(&path).expect("a manifest");
        let at = text.find("\",\n").expect("the checksum");
        let (begin, rest) = text.split_at(at);
        // Write a manifest of another format, in which a member has another type.
        let rest = rest
            .replace("\"format\": 2", "\"format\": 3")
            .replace("\"notes\": []", "\"notes\": {}");
        let begin = &begin[..begin.len() - 32];
        let newer = format!("{begin}{:032x}{rest}", xxh3_128(rest.as_bytes()));
        fs::write(&path, newer).expect("written");
        for remove in [false, true] {
            let found = verified(&root, remove);
            assert_eq!(found.other_format, std::slice::from_ref(&entry));
            assert_eq!((found.damaged, found.foreign), (Vec::new(), Vec::new()));
            assert!(path.exists());
        }
        let listed = list(root.path()).expect("a list");
        assert_eq!(listed[0].state, EntryState::OtherFormat(3));
        // The next request builds the entry again.
        build(root.path(), form).expect("an entry");
        assert_eq!(verified(&root, false).entries, 1);
    }
}
