//! What holds whoever asks, and whatever happened to the files.

use std::fs;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use super::evict::{clean, evict};
use super::lock::{owner, Lock};
use super::seen::Seen;
use super::*;
use crate::index_cache::JobId;

fn squares(root: &Path, form: Form) -> FileBasedCache<JobId> {
    FileBasedCache::open(root, "squares", form).expect("a cache")
}

/// Two files, or one, with something to damage in each.
fn square(id: JobId) -> impl FnOnce(&mut Draft) -> Result<(), Error> {
    move |draft| {
        for name in ["a", "b"] {
            let (path, mut file) = draft.create(name)?;
            writeln!(file, "{name} {} {}", id.0, id.0 * id.0).map_err(Error::io(&path, "write"))?;
        }
        draft.count("numbers", 2);
        Ok(())
    }
}

fn text_of(entry: &Entry) -> String {
    let files = entry.files();
    files
        .map(|(_, path, _)| fs::read_to_string(path).expect("a file"))
        .collect()
}

/// Names of what is in the folder of the cache, without lock files and marks.
fn names(cache: &FileBasedCache<JobId>) -> Vec<String> {
    let files = fs::read_dir(cache.folder()).expect("a folder");
    let names = files.map(|file| {
        file.expect("a file")
            .file_name()
            .into_string()
            .expect("text")
    });
    let mut names: Vec<_> = names
        .filter(|name| !name.ends_with(".working") && !name.ends_with(".seen"))
        .collect();
    names.sort();
    names
}

const FORMS: [Form; 2] = [Form::File, Form::Folder];

#[test]
fn an_item_is_built_once_however_many_threads_ask() {
    for form in FORMS {
        let root = tempfile::tempdir().expect("a folder");
        // Each has its own, as processes have.
        let caches: Vec<_> = (0..4).map(|_| squares(root.path(), form)).collect();
        let (threads, ids) = (16, 5);
        let built: Vec<_> = (0..ids).map(|_| AtomicUsize::new(0)).collect();
        let begin = Barrier::new(threads);
        thread::scope(|scope| {
            for thread in 0..threads {
                let (caches, built, begin) = (&caches, &built, &begin);
                scope.spawn(move || {
                    begin.wait();
                    for step in 0..ids {
                        let id = (thread + step) % ids;
                        let job = JobId(id as u64);
                        let cache = &caches[thread % caches.len()];
                        let entry = cache.cache(&job, &Work::default(), |draft| {
                            built[id].fetch_add(1, Ordering::Relaxed);
                            square(job)(draft)
                        });
                        let text = text_of(&entry.expect("an entry"));
                        assert!(text.ends_with(&format!(" {id} {}\n", id * id)), "{text}");
                    }
                });
            }
        });
        let built: Vec<_> = built.into_iter().map(AtomicUsize::into_inner).collect();
        assert_eq!(built, [1; 5]);
        let builds: u64 = caches
            .iter()
            .map(|cache| cache.figures.counts().builds)
            .sum();
        assert_eq!(builds, 5);
    }
}

#[test]
fn a_hit_waits_for_nobody() {
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
        assert!(cache
            .cache(&JobId(7), &Work::default(), |_| unreachable!())
            .is_ok());
    }
}

#[test]
fn waiting_ends_and_says_who_builds() {
    let root = tempfile::tempdir().expect("a folder");
    let cache = squares(root.path(), Form::File).waiting(Duration::from_millis(20));
    let path = cache.path(&JobId(7));
    let lock = Lock::try_acquire(&path)
        .expect("a lock file")
        .expect("a lock");
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
    assert!(cache
        .cache(&JobId(7), &Work::default(), square(JobId(7)))
        .is_ok());
    assert_eq!(
        fs::metadata(with_end(&path, ".working"))
            .expect("a lock file")
            .len(),
        0
    );
}

#[test]
fn whoever_is_cancelled_stops_waiting() {
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

#[test]
fn nothing_is_left_of_what_failed() {
    for form in FORMS {
        let root = tempfile::tempdir().expect("a folder");
        let cache = squares(root.path(), form);
        let failed = cache.cache(&JobId(7), &Work::default(), |draft| {
            square(JobId(7))(draft)?;
            Err(Error::Request("no".to_owned()))
        });
        assert!(matches!(failed, Err(Error::Request(_))));
        assert_eq!(names(&cache), [""; 0]);
        assert!(cache
            .hit(&JobId(7), &Work::default())
            .expect("a look")
            .is_none());
        assert_eq!(cache.figures.counts().failures, 1);
        let panicked = thread::scope(|scope| {
            let cache = &cache;
            let build = move || cache.cache(&JobId(7), &Work::default(), |_| panic!("on purpose"));
            scope.spawn(build).join().is_err()
        });
        assert!(panicked);
        assert_eq!(names(&cache), [""; 0]);
        let entry = cache
            .cache(&JobId(7), &Work::default(), square(JobId(7)))
            .expect("an entry");
        assert!(text_of(&entry).ends_with("b 7 49\n"));
    }
}

#[test]
fn what_a_dead_builder_left_is_in_nobodys_way() {
    for form in FORMS {
        let root = tempfile::tempdir().expect("a folder");
        let cache = squares(root.path(), form);
        let path = cache.path(&JobId(7));
        let draft = super::draft::temporary(&path);
        fs::create_dir(&draft).expect("a folder");
        fs::write(draft.join("half"), "half").expect("a file");
        // One that was not finished under the name itself is none, either.
        match form {
            Form::File => fs::write(&path, "half").expect("a file"),
            Form::Folder => fs::create_dir(&path).expect("a folder"),
        }
        assert!(cache
            .hit(&JobId(7), &Work::default())
            .expect("a look")
            .is_none());
        let entry = cache
            .cache(&JobId(7), &Work::default(), square(JobId(7)))
            .expect("an entry");
        assert!(text_of(&entry).ends_with("b 7 49\n"));
        assert!(!draft.exists());
    }
}

#[test]
fn leftovers_are_cleaned_unless_somebody_builds() {
    let root = tempfile::tempdir().expect("a folder");
    let cache = squares(root.path(), Form::Folder);
    let path = cache.path(&JobId(7));
    let draft = super::draft::temporary(&path);
    fs::create_dir(&draft).expect("a folder");
    let lock = Lock::try_acquire(&path)
        .expect("a lock file")
        .expect("a lock");
    assert!(!clean(&path).expect("a look"));
    assert!(draft.exists());
    drop(lock);
    assert!(clean(&path).expect("a look"));
    assert!(!draft.exists());
    assert!(!clean(&path).expect("a look"));
}

/// Each byte of each file, in both forms; also with the times of the file set back, as a careless copy does.
#[test]
fn every_damaged_byte_is_found_and_the_entry_built_anew() {
    for form in FORMS {
        let root = tempfile::tempdir().expect("a folder");
        let cache = squares(root.path(), form);
        let build = || {
            cache
                .cache(&JobId(7), &Work::default(), square(JobId(7)))
                .expect("an entry")
        };
        let entry = build();
        let (text, manifest) = (text_of(&entry), entry.manifest_path());
        let mut paths: Vec<_> = entry.files().map(|(_, path, _)| path).collect();
        paths.push(manifest);
        drop(entry);
        let mut damaged = 0;
        for path in &paths {
            let size = fs::metadata(path).expect("a file").len();
            for at in 0..size {
                let file = fs::File::options()
                    .read(true)
                    .write(true)
                    .open(path)
                    .expect("a file");
                let before = file
                    .metadata()
                    .expect("metadata")
                    .modified()
                    .expect("a time");
                let mut byte = [0];
                file.read_exact_at(&mut byte, at).expect("a byte");
                file.write_all_at(&[byte[0] ^ 1], at).expect("a byte");
                file.set_modified(before).expect("a time");
                let found = cache.hit(&JobId(7), &Work::default()).expect("a look");
                assert!(found.is_none(), "byte {at} of {}", path.display());
                damaged += 1;
                assert_eq!(text_of(&build()), text);
                assert!(cache
                    .hit(&JobId(7), &Work::default())
                    .expect("a look")
                    .is_some());
            }
            fs::File::options()
                .write(true)
                .open(path)
                .and_then(|file| file.set_len(size / 2))
                .expect("cut");
            assert!(cache
                .hit(&JobId(7), &Work::default())
                .expect("a look")
                .is_none());
            assert_eq!(text_of(&build()), text);
            fs::remove_file(path).expect("removed");
            assert!(cache
                .hit(&JobId(7), &Work::default())
                .expect("a look")
                .is_none());
            assert_eq!(text_of(&build()), text);
        }
        assert!(damaged > 300);
        assert!(cache.figures.counts().damaged > damaged);
    }
}

/// What was seen is believed only as long as nobody could have changed anything unseen.
#[test]
fn damage_is_found_after_the_entry_was_seen_whole() {
    for form in FORMS {
        let root = tempfile::tempdir().expect("a folder");
        let path = {
            let cache = squares(root.path(), form);
            let entry = cache
                .cache(&JobId(7), &Work::default(), square(JobId(7)))
                .expect("an entry");
            let (_, path, _) = entry.files().next().expect("a file");
            path
        };
        // Until the stamps tell, by the clock of the file system.
        let seen = with_end(&root.path().join("squares/7-cache"), ".seen");
        let cache = squares(root.path(), form);
        until(|| {
            assert!(cache
                .hit(&JobId(7), &Work::default())
                .expect("a look")
                .is_some());
            fs::metadata(&seen).is_ok_and(|seen| seen.len() > 0)
        });
        // Both what this one remembers, and what another one reads.
        for cache in [&cache, &squares(root.path(), form)] {
            let bytes = fs::read(&path).expect("a file");
            let before = fs::metadata(&path)
                .expect("a file")
                .modified()
                .expect("a time");
            let mut other = bytes.clone();
            other[0] ^= 1;
            fs::File::options()
                .write(true)
                .open(&path)
                .and_then(|file| {
                    file.write_all_at(&other, 0)
                        .and_then(|()| file.set_modified(before))
                })
                .expect("written");
            assert!(cache
                .hit(&JobId(7), &Work::default())
                .expect("a look")
                .is_none());
            fs::File::options()
                .write(true)
                .open(&path)
                .and_then(|file| file.write_all_at(&bytes, 0))
                .expect("written");
            assert!(cache
                .hit(&JobId(7), &Work::default())
                .expect("a look")
                .is_some());
        }
    }
}

/// Goes on as soon as something is true; fails when that takes a minute.
fn until(mut is: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < Duration::from_secs(60), "it never came");
        thread::yield_now();
    }
}

#[test]
fn an_entry_of_another_name_is_not_taken_for_this_one() {
    let root = tempfile::tempdir().expect("a folder");
    let cache = squares(root.path(), Form::Folder);
    cache
        .cache(&JobId(7), &Work::default(), square(JobId(7)))
        .expect("an entry");
    fs::rename(cache.path(&JobId(7)), cache.path(&JobId(8))).expect("renamed");
    assert!(cache
        .hit(&JobId(8), &Work::default())
        .expect("a look")
        .is_none());
    let entry = cache
        .cache(&JobId(8), &Work::default(), square(JobId(8)))
        .expect("an entry");
    assert!(text_of(&entry).ends_with("b 8 64\n"));
}

#[test]
fn an_entry_in_use_stays_and_one_that_is_not_goes() {
    for form in FORMS {
        let root = tempfile::tempdir().expect("a folder");
        let (cache, other) = (squares(root.path(), form), squares(root.path(), form));
        let entry = cache
            .cache(&JobId(7), &Work::default(), square(JobId(7)))
            .expect("an entry");
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
        let lock = Lock::try_acquire(&path)
            .expect("a lock file")
            .expect("a lock");
        assert_eq!(now(Duration::ZERO), Eviction::BeingBuilt);
        drop(lock);
        assert_eq!(now(Duration::ZERO), Eviction::Gone);
        assert_eq!(names(&cache), [""; 0]);
        assert!(!with_end(&path, ".seen").exists());
        assert!(with_end(&path, ".working").exists());
        assert_eq!(now(Duration::ZERO), Eviction::Absent);
        assert!(cache
            .hit(&JobId(7), &Work::default())
            .expect("a look")
            .is_none());
    }
}

/// Readers always get a whole entry, while others evict it as fast as they can.
#[test]
fn eviction_under_load_takes_nothing_from_anybody() {
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
            // Nobody has it any more.
            evict(&path, form, Duration::ZERO).expect("evicted");
            assert!(!path.exists());
        });
    }
}

/// A clock that was set back makes files of the future.
#[test]
fn files_of_the_future_count_as_used_now() {
    let root = tempfile::tempdir().expect("a folder");
    let cache = squares(root.path(), Form::Folder);
    let entry = cache
        .cache(&JobId(7), &Work::default(), square(JobId(7)))
        .expect("an entry");
    let manifest = entry.manifest_path();
    drop(entry);
    let path = cache.path(&JobId(7));
    let year = Duration::from_secs(365 * 86_400);
    for path in [&manifest, &with_end(&path, ".seen")] {
        let file = fs::File::options().write(true).open(path).expect("a file");
        file.set_modified(SystemTime::now() + year).expect("a time");
    }
    assert!(cache
        .hit(&JobId(7), &Work::default())
        .expect("a look")
        .is_some());
    let used = super::seen::last_used(&path, &manifest).expect("a time");
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

#[test]
fn a_manifest_reads_back_and_no_byte_of_it_may_change() {
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

/// Lock files have to stay; where somebody removes them all the same, nobody gets half an entry.
#[test]
fn a_builder_whose_lock_file_was_removed_publishes_nothing() {
    for form in FORMS {
        let root = tempfile::tempdir().expect("a folder");
        let cache = squares(root.path(), form);
        let lock_file = with_end(&cache.path(&JobId(7)), ".working");
        let alone = cache.cache(&JobId(7), &Work::default(), |draft| {
            fs::remove_file(&lock_file).expect("removed");
            square(JobId(7))(draft)
        });
        assert!(matches!(alone, Err(Error::Damaged { .. })), "{alone:?}");
        assert!(cache
            .hit(&JobId(7), &Work::default())
            .expect("a look")
            .is_none());
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
fn a_lock_of_a_file_that_was_removed_is_none() {
    let root = tempfile::tempdir().expect("a folder");
    let entry = root.path().join("7-cache");
    let first = Lock::try_acquire(&entry)
        .expect("a lock file")
        .expect("a lock");
    assert!(first.is_valid());
    fs::remove_file(with_end(&entry, ".working")).expect("removed");
    assert!(!first.is_valid());
    let second = Lock::try_acquire(&entry)
        .expect("a lock file")
        .expect("a lock");
    second.sign();
    drop(first);
    assert!(second.is_valid() && owner(&entry).is_some_and(|owner| owner.contains("process")));
}

#[test]
fn an_entry_that_is_replaced_is_there_at_every_moment() {
    for form in FORMS {
        let root = tempfile::tempdir().expect("a folder");
        let cache = squares(root.path(), form);
        let rebuild = || {
            let entry = cache.rebuild(&JobId(7), &Work::default(), square(JobId(7)));
            entry.expect("an entry")
        };
        let paths: Vec<_> = rebuild().files().map(|(_, path, _)| path).collect();
        let is_over = std::sync::atomic::AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    for path in &paths {
                        assert!(path.exists(), "{}", path.display());
                    }
                    let hit = cache.hit(&JobId(7), &Work::default());
                    assert!(form == Form::File || hit.expect("a look").is_some());
                }
            });
            for _ in 0..15 {
                rebuild();
            }
            is_over.store(true, Ordering::Relaxed);
        });
        assert_eq!(cache.figures.counts().damaged, 0);
    }
}

/// Where a clock was set back, what the file system says of files is from the future, and as good.
#[test]
fn times_from_another_time_tell_as_well() {
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
    // The clock was set while one looked, or somebody looked for long.
    assert!(!seen.is_telling(now + day, now - day));
    assert!(!seen.is_telling(now - day, now + day));
}
