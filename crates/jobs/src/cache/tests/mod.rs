//! Tests of caches under concurrency and file damage.

mod damage;
mod eviction;
mod locks;

use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::*;
use crate::JobId;

fn squares(root: &Path, form: Form) -> FileBasedCache<JobId> {
    FileBasedCache::open(root, "squares", form).expect("a cache")
}

/// Builds two files, or one, with content that can be damaged.
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

/// Returns the entry of job 7, and builds it unless it exists.
fn built(cache: &FileBasedCache<JobId>) -> Entry {
    let entry = cache.cache(&JobId(7), &Work::default(), square(JobId(7)));
    entry.expect("an entry")
}

/// Returns whether there is an entry of this job.
fn has(cache: &FileBasedCache<JobId>, job: JobId) -> bool {
    let hit = cache.hit(&job, &Work::default());
    hit.expect("a look").is_some()
}

fn text_of(entry: &Entry) -> String {
    let text = |path| fs::read_to_string(path).expect("a file");
    entry.files().map(|(_, path, _)| text(path)).collect()
}

/// Returns the names of the files in the folder of the cache, without lock files and marks.
fn names(cache: &FileBasedCache<JobId>) -> Vec<String> {
    let files = fs::read_dir(cache.folder()).expect("a folder");
    let names = files.map(|file| file.expect("a file").file_name().into_string());
    let names = names.map(|name| name.expect("text"));
    let is_entry = |name: &String| !name.ends_with(".working") && !name.ends_with(".seen");
    let mut names: Vec<_> = names.filter(is_entry).collect();
    names.sort();
    names
}

const FORMS: [Form; 2] = [Form::File, Form::Folder];

#[test]
fn concurrent_requests_build_an_item_once() {
    for form in FORMS {
        let root = tempfile::tempdir().expect("a folder");
        // Each cache simulates a process with several threads.
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
        let builds = caches.iter().map(|cache| cache.figures.counts().builds);
        let builds: u64 = builds.sum();
        assert_eq!(builds, 5);
    }
}

#[test]
fn failed_build_leaves_nothing() {
    for form in FORMS {
        let root = tempfile::tempdir().expect("a folder");
        let cache = squares(root.path(), form);
        let failed = cache.cache(&JobId(7), &Work::default(), |draft| {
            square(JobId(7))(draft)?;
            Err(Error::Request("no".to_owned()))
        });
        assert!(matches!(failed, Err(Error::Request(_))));
        assert_eq!(names(&cache), [""; 0]);
        assert!(!has(&cache, JobId(7)));
        assert_eq!(cache.figures.counts().failures, 1);
        let panicked = thread::scope(|scope| {
            let cache = &cache;
            let build = move || cache.cache(&JobId(7), &Work::default(), |_| panic!("on purpose"));
            scope.spawn(build).join().is_err()
        });
        assert!(panicked);
        assert_eq!(names(&cache), [""; 0]);
        assert!(text_of(&built(&cache)).ends_with("b 7 49\n"));
    }
}

#[test]
fn leftovers_of_a_dead_builder_block_nothing() {
    for form in FORMS {
        let root = tempfile::tempdir().expect("a folder");
        let cache = squares(root.path(), form);
        let path = cache.path(&JobId(7));
        let draft = super::draft::temporary(&path);
        fs::create_dir(&draft).expect("a folder");
        fs::write(draft.join("half"), "half").expect("a file");
        // An incomplete file or folder under the name of the entry does not count as an entry.
        match form {
            Form::File => fs::write(&path, "half").expect("a file"),
            Form::Folder => fs::create_dir(&path).expect("a folder"),
        }
        assert!(!has(&cache, JobId(7)));
        assert!(text_of(&built(&cache)).ends_with("b 7 49\n"));
        assert!(!draft.exists());
    }
}

#[test]
fn replaced_entry_exists_at_every_moment() {
    for form in FORMS {
        let root = tempfile::tempdir().expect("a folder");
        let cache = squares(root.path(), form);
        let rebuild = || {
            let entry = cache.cache_if(&JobId(7), &Work::default(), &|_| false, square(JobId(7)));
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
