//! Tests of eviction.

use std::fs;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, SystemTime};

use super::super::evict::{clean, evict};
use super::super::lock::Lock;
use super::super::{Eviction, Form, Work, draft, seen, with_end};
use super::{FORMS, names, square, squares, text_of};
use crate::JobId;

#[test]
fn leftovers_are_cleaned_unless_a_build_runs() {
    let root = tempfile::tempdir().expect("a folder");
    let cache = squares(root.path(), Form::Folder);
    let path = cache.path(&JobId(7));
    let draft = draft::temporary(&path);
    fs::create_dir(&draft).expect("a folder");
    let lock = Lock::try_acquire(&path).expect("a lock file");
    let lock = lock.expect("a lock");
    assert!(!clean(&path).expect("a look"));
    assert!(draft.exists());
    drop(lock);
    assert!(clean(&path).expect("a look"));
    assert!(!draft.exists());
    assert!(!clean(&path).expect("a look"));
}

#[test]
fn entry_in_use_is_kept_and_others_are_evicted() {
    for form in FORMS {
        let root = tempfile::tempdir().expect("a folder");
        let (cache, other) = (squares(root.path(), form), squares(root.path(), form));
        let entry = cache.cache(&JobId(7), &Work::default(), square(JobId(7)));
        let entry = entry.expect("an entry");
        let path = cache.path(&JobId(7));
        let now = |grace| evict(&path, form, grace).expect("evicted");
        assert_eq!(now(Duration::ZERO), Eviction::InUse);
        let second = other
            .hit(&JobId(7), &Work::default())
            .expect("a look")
            .expect("an entry");
        drop(entry);
        assert_eq!(now(Duration::ZERO), Eviction::InUse);
        assert!(text_of(&second).ends_with("b 7 49\n"));
        drop(second);
        assert_eq!(now(Duration::from_secs(3600)), Eviction::InUse);
        let lock = Lock::try_acquire(&path).expect("a lock file");
        let lock = lock.expect("a lock");
        assert_eq!(now(Duration::ZERO), Eviction::BeingBuilt);
        drop(lock);
        assert_eq!(now(Duration::ZERO), Eviction::Gone);
        assert_eq!(names(&cache), [""; 0]);
        assert!(!with_end(&path, ".seen").exists());
        assert!(!with_end(&path, ".working").exists());
        assert_eq!(now(Duration::ZERO), Eviction::Absent);
        assert!(
            cache
                .hit(&JobId(7), &Work::default())
                .expect("a look")
                .is_none()
        );
    }
}

/// Checks that readers get complete entries while another thread evicts them continuously.
#[test]
fn eviction_under_load_removes_nothing_in_use() {
    for form in FORMS {
        let root = tempfile::tempdir().expect("a folder");
        let (readers, rounds) = (4, 200);
        let begin = Barrier::new(readers + 1);
        thread::scope(|scope| {
            let reading: Vec<_> = (0..readers)
                .map(|_| {
                    scope.spawn(|| {
                        let cache = squares(root.path(), form);
                        begin.wait();
                        for _ in 0..rounds {
                            let entry = cache.cache(&JobId(7), &Work::default(), square(JobId(7)));
                            assert!(text_of(&entry.expect("an entry")).ends_with("b 7 49\n"));
                        }
                    })
                })
                .collect();
            begin.wait();
            let path = squares(root.path(), form).path(&JobId(7));
            while !reading.iter().all(|reader| reader.is_finished()) {
                evict(&path, form, Duration::ZERO).expect("evicted");
                thread::yield_now();
            }
            // The entry is no longer in use.
            evict(&path, form, Duration::ZERO).expect("evicted");
            assert!(!path.exists());
        });
    }
}

/// Checks files with times in the future, which exist after the clock was set back.
#[test]
fn future_file_times_count_as_now() {
    let root = tempfile::tempdir().expect("a folder");
    let cache = squares(root.path(), Form::Folder);
    let entry = cache.cache(&JobId(7), &Work::default(), square(JobId(7)));
    let entry = entry.expect("an entry");
    let manifest = entry.manifest_path();
    drop(entry);
    let path = cache.path(&JobId(7));
    let year = Duration::from_secs(365 * 86_400);
    for path in [&manifest, &with_end(&path, ".seen")] {
        let file = fs::File::options().write(true).open(path).expect("a file");
        file.set_modified(SystemTime::now() + year).expect("a time");
    }
    assert!(
        cache
            .hit(&JobId(7), &Work::default())
            .expect("a look")
            .is_some()
    );
    let used = seen::last_used(&path, &manifest).expect("a time");
    assert!(used <= SystemTime::now());
    assert_eq!(
        evict(&path, Form::Folder, Duration::from_secs(60)).expect("evicted"),
        Eviction::InUse
    );
    assert_eq!(
        evict(&path, Form::Folder, Duration::ZERO).expect("evicted"),
        Eviction::Gone
    );
}
