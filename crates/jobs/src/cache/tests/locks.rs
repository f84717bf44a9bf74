//! Tests of locks and of waiting for builders.

use std::fs;
use std::thread;
use std::time::Duration;

use super::super::lock::{Lock, owner};
use super::super::{Draft, Error, Form, Work, with_end};
use super::{FORMS, square, squares, text_of};
use crate::JobId;

#[test]
fn hit_does_not_wait() {
    for form in FORMS {
        let root = tempfile::tempdir().expect("a folder");
        let cache = squares(root.path(), form);
        cache
            .cache(&JobId(7), &Work::default(), square(JobId(7)))
            .expect("an entry");
        let _lock = Lock::try_acquire(&cache.path(&JobId(7)))
            .expect("a lock file")
            .expect("a lock");
        let hit = cache.hit(&JobId(7), &Work::default()).expect("a look");
        assert!(hit.is_some());
        assert!(
            cache
                .cache(&JobId(7), &Work::default(), |_| unreachable!())
                .is_ok()
        );
    }
}

#[test]
fn wait_ends_and_names_the_builder() {
    let root = tempfile::tempdir().expect("a folder");
    let cache = squares(root.path(), Form::File).waiting(Duration::from_millis(20));
    let path = cache.path(&JobId(7));
    let lock = Lock::try_acquire(&path).expect("a lock file");
    let lock = lock.expect("a lock");
    lock.sign();
    let error = cache
        .cache(&JobId(7), &Work::default(), |_| unreachable!())
        .expect_err("busy");
    let text = error.to_string();
    let pid = format!("process {} on", std::process::id());
    assert!(
        text.contains("squares/7-cache") && text.contains(&pid),
        "{text}"
    );
    drop(lock);
    assert_eq!(owner(&path), None);
    assert!(
        cache
            .cache(&JobId(7), &Work::default(), square(JobId(7)))
            .is_ok()
    );
    assert_eq!(
        fs::metadata(with_end(&path, ".working"))
            .expect("a lock file")
            .len(),
        0
    );
}

#[test]
fn cancelled_wait_stops() {
    let root = tempfile::tempdir().expect("a folder");
    let cache = squares(root.path(), Form::File);
    let _lock = Lock::try_acquire(&cache.path(&JobId(7)))
        .expect("a lock file")
        .expect("a lock");
    let work = Work::default();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| cache.cache(&JobId(7), &work, |_| unreachable!()));
        work.cancel();
        assert!(matches!(
            waiting.join().expect("a thread"),
            Err(Error::Cancelled)
        ));
    });
}

/// Checks that no reader gets a partial entry if a lock file was removed against the rules.
#[test]
fn builder_with_a_removed_lock_file_publishes_nothing() {
    for form in FORMS {
        let root = tempfile::tempdir().expect("a folder");
        let cache = squares(root.path(), form);
        let lock_file = with_end(&cache.path(&JobId(7)), ".working");
        let alone = cache.cache(&JobId(7), &Work::default(), |draft| {
            fs::remove_file(&lock_file).expect("removed");
            square(JobId(7))(draft)
        });
        assert!(matches!(alone, Err(Error::Damaged { .. })), "{alone:?}");
        assert!(
            cache
                .hit(&JobId(7), &Work::default())
                .expect("a look")
                .is_none()
        );
        let with_another = cache.cache(&JobId(7), &Work::default(), |draft| {
            let half = |_: &mut Draft| Err(Error::Request("no".to_owned()));
            fs::remove_file(&lock_file).expect("removed");
            let other = squares(root.path(), form);
            assert!(other.cache(&JobId(7), &Work::default(), half).is_err());
            let entry = other.cache(&JobId(7), &Work::default(), square(JobId(7)));
            assert!(entry.is_ok());
            draft.create("c").map(drop)
        });
        assert!(with_another.is_err());
        let entry = cache
            .hit(&JobId(7), &Work::default())
            .expect("a look")
            .expect("an entry");
        assert!(text_of(&entry).ends_with("b 7 49\n"));
    }
}

#[test]
fn lock_on_a_removed_file_does_not_count() {
    let root = tempfile::tempdir().expect("a folder");
    let entry = root.path().join("7-cache");
    let first = Lock::try_acquire(&entry).expect("a lock file");
    let first = first.expect("a lock");
    assert!(first.is_valid());
    fs::remove_file(with_end(&entry, ".working")).expect("removed");
    assert!(!first.is_valid());
    let second = Lock::try_acquire(&entry).expect("a lock file");
    let second = second.expect("a lock");
    second.sign();
    drop(first);
    assert!(second.is_valid() && owner(&entry).is_some_and(|owner| owner.contains("process")));
}
