//! Tests full disks, file size limits, read-only folders, and too few open files.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crawlspace_jobs::{Error, IndexCaches, Missing, Options, Work};
use redis_tests::packages::left_out;
use redis_tests::{Rng, assert_contains, but};
use rustix::process::{Resource, Rlimit, geteuid, getrlimit, setrlimit};

use crate::durability::processes::{Process, Told};
use crate::durability::state::{State, assert_clean, assert_no_leftovers, assert_unlocked, state};
use crate::stage::{Stage, asks, folder, set};

/// Indexes built before the failure, which must remain unchanged.
const BEFORE: &str = "full 3;cdx 3";
/// Indexes requested during the failure.
const ASKS: &str = "full 1,2;cdx 1,2";
/// User id of `nobody`: unlike root, this user cannot read files without permission.
const NOBODY: u32 = 65_534;

/// Builds all indexes without failures; returns their state, and the size of the largest file of an index.
fn undisturbed(told: &Told) -> (State, u64) {
    let folder = folder();
    let options = but!(told.options.clone(), cache_dir: folder.path().to_owned());
    let caches = IndexCaches::open(options).expect("caches");
    let mut largest = 0;
    for ask in [asks(BEFORE), asks(ASKS)].concat() {
        let index = ask.get(&caches);
        let sizes = index.entry.files().map(|(_, _, size)| size);
        largest = sizes.fold(largest, u64::max);
    }
    (state(folder.path()), largest)
}

/// Requests all indexes; the first error ends the attempt.
fn attempt(caches: &IndexCaches) -> Result<(), Error> {
    for ask in asks(ASKS) {
        let index = caches.get_index(ask.kind, &ask.jobs, &Work::default())?;
        assert_eq!((&index.found, index.missing), (&ask.jobs, Vec::new()));
    }
    Ok(())
}

/// Requests all indexes during a failure, and again after it. Returns the error of the first attempt.
fn disturbed<T>(
    options: &Options,
    expected: &State,
    put: impl FnOnce() -> T,
    clear: impl FnOnce(T),
) -> Option<Error> {
    let cache_dir = &options.cache_dir;
    let open = || IndexCaches::open(options.clone()).expect("caches");
    let caches = open();
    for ask in asks(BEFORE) {
        ask.get(&caches);
    }
    let before = state(cache_dir);
    let obstacle = put();
    let attempted = attempt(&caches);
    clear(obstacle);
    assert_unlocked(cache_dir);
    assert_no_leftovers(cache_dir);
    let there = state(cache_dir);
    for (entry, sum) in &there {
        assert_eq!(expected.get(entry), Some(sum), "{entry}");
    }
    assert!(
        before
            .iter()
            .all(|(entry, sum)| there.get(entry) == Some(sum))
    );
    if let Err(error) = &attempted {
        let text = error.to_string();
        assert_contains(&text, &*cache_dir.to_string_lossy());
        let figures = caches.figures();
        assert_eq!(figures.damaged, 0, "{text}");
    }
    for caches in [caches, open()] {
        attempt(&caches).expect("an index");
        assert_eq!(caches.figures().damaged, 0);
    }
    let mut after = state(cache_dir);
    after.retain(|entry, _| expected.contains_key(entry));
    assert_eq!(&after, expected);
    assert_clean(cache_dir);
    attempted.err()
}

fn limit(resource: Resource, most: Option<u64>) {
    let maximum = getrlimit(resource).maximum;
    let current = most.or(maximum);
    setrlimit(resource, Rlimit { current, maximum }).expect("a limit");
}

/// Makes the kernel kill this process when it writes a file beyond this size (SIGXFSZ).
pub fn die_at(bytes: u64) {
    let nothing = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    setrlimit(Resource::Core, nothing).expect("a limit");
    limit(Resource::Fsize, Some(bytes));
}

#[test]
fn file_size_limit_leaves_nothing_half_written() {
    let mut rng = Rng::new("files that must not grow");
    // With very few lines, manifests are the largest files.
    for (lines, memory) in [(3, 1 << 20), (120, 8 << 10)] {
        let stage = Stage::with_jobs("1-3", lines);
        let process = Process::new("limited", &stage, &stage.cache_dir(), "");
        let ended = process.memory(memory).threads(1, rng.bits()).run();
        ended.assert_done();
    }
}

/// Runs in a process with changing limits of the file size.
pub fn limited(told: &Told) {
    // Handle the signal, which would otherwise end the process.
    signal_hook::flag::register(
        signal_hook::consts::SIGXFSZ,
        Arc::new(AtomicBool::new(false)),
    )
    .expect("a handler");
    let (expected, largest) = undisturbed(told);
    let mut rng = Rng::seeded(told.seed);
    let mut limits = vec![0, 1];
    // Sizes of manifests, or of `.seen` files.
    limits.extend((0..24).map(|_| rng.below(2_000)));
    limits.extend((0..12).map(|_| rng.below(largest)));
    let (mut failed, mut manifests) = (0, 0);
    for (round, most) in limits.into_iter().enumerate() {
        let options = Options {
            cache_dir: told.cache_dir.join(format!("limited-{round}")),
            ..told.options.clone()
        };
        let put = || limit(Resource::Fsize, Some(most));
        let error = disturbed(&options, &expected, put, |()| limit(Resource::Fsize, None));
        if let Some(error) = &error {
            failed += 1;
            manifests += u32::from(error.to_string().contains("manifest"));
            assert!(error.is_full(), "{error}");
        }
        assert!(error.is_some() || most > 100, "{most}");
        fs::remove_dir_all(&options.cache_dir).expect("removed");
    }
    println!("{failed} failed, {manifests} of them at a manifest");
    assert!(failed > 5);
    limit(Resource::Fsize, None);
}

/// Returns an error if the system does not allow private mounts.
fn mounts() -> Result<(), String> {
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount"]);
    command.args(["mount", "-t", "tmpfs", "none", "/tmp"]);
    redis_tests::packages::run(&mut command).map(drop)
}

#[test]
fn full_disk_leaves_nothing_half_written() {
    if let Err(why) = mounts() {
        return left_out("a file system of its own", &why);
    }
    let mut rng = Rng::new("full disks");
    let stage = Stage::with_jobs("1-3", 60);
    fs::create_dir(stage.cache_dir()).expect("a folder");
    let script = "mount -t tmpfs -o size=4m,nr_inodes=400 none \"$CRAWLSPACE_TESTS_CACHE\"";
    let process = Process::behind(script, "full", &stage, &stage.cache_dir(), "");
    process
        .memory(8 << 10)
        .threads(1, rng.bits())
        .run()
        .assert_done();
}

/// Runs on a full file system, with changing amounts of free space.
pub fn full(told: &Told) {
    let (expected, _) = undisturbed(told);
    let mut rng = Rng::seeded(told.seed);
    let ballast = told.cache_dir.join("ballast");
    let mut failed = 0;
    for round in 0..40 {
        let options = Options {
            cache_dir: told.cache_dir.join(format!("full-{round}")),
            ..told.options.clone()
        };
        let put = || {
            let there = nix::sys::statvfs::statvfs(&told.cache_dir).expect("figures");
            if round % 4 == 3 {
                // Leave enough free space for all files, but only a few free inodes.
                fs::create_dir(&ballast).expect("a folder");
                let many = there.files_free().saturating_sub(1 + rng.below(30));
                for number in 0..many {
                    fs::write(ballast.join(number.to_string()), "").expect("a file");
                }
            } else {
                let free = there.blocks_free() * there.fragment_size();
                let most = free.saturating_sub(rng.below(40) * 4096);
                let bytes = vec![1; usize::try_from(most).expect("a size")];
                fs::write(&ballast, bytes).expect("ballast");
            }
        };
        let clear = |()| {
            let _ = fs::remove_file(&ballast).or_else(|_| fs::remove_dir_all(&ballast));
        };
        if let Some(error) = disturbed(&options, &expected, put, clear) {
            assert!(error.is_full(), "{error}");
            failed += 1;
        }
        fs::remove_dir_all(&options.cache_dir).expect("removed");
    }
    println!("{failed} failed");
    assert!(failed > 0);
}

#[test]
fn entries_are_found_in_a_read_only_folder() {
    if let Err(why) = mounts() {
        return left_out("a file system of its own", &why);
    }
    let stage = Stage::with_jobs("1-3", 60);
    let caches = stage.caches();
    for ask in asks(BEFORE) {
        ask.get(&caches);
    }
    let before = state(&stage.cache_dir());
    let script = "C=\"$CRAWLSPACE_TESTS_CACHE\" && mount --bind \"$C\" \"$C\" \
                  && mount -o remount,bind,ro \"$C\"";
    let process = Process::behind(script, "read-only", &stage, &stage.cache_dir(), "");
    process.run().assert_done();
    assert_eq!(state(&stage.cache_dir()), before);
}

pub fn read_only(told: &Told) {
    let caches = told.caches();
    for _ in 0..2 {
        for ask in asks(BEFORE) {
            ask.get(&caches);
        }
    }
    let error = attempt(&caches).expect_err("nothing may be written");
    let text = error.to_string();
    assert!(
        text.contains("Read-only") && text.contains(&*told.cache_dir.to_string_lossy()),
        "{text}"
    );
    assert_eq!((caches.figures().hits, caches.figures().builds), (4, 0));
}

#[test]
fn unreadable_file_is_reported_and_affects_nothing_else() {
    let stage = Stage::with_jobs("1-3", 40);
    let cache_dir = stage.cache_dir();
    fs::create_dir(&cache_dir).expect("a folder");
    let hidden = stage.add_logs(2, b"", None, redis_tests::metadata::Form::Warc);
    for other in fs::read_dir(stage.archive()).expect("a folder") {
        let other = other.expect("a file");
        if other.path() != hidden && other.file_name().to_string_lossy().starts_with("2-") {
            fs::remove_file(other.path()).expect("removed");
        }
    }
    fs::set_permissions(&hidden, fs::Permissions::from_mode(0o000)).expect("permissions");
    let mut process = Process::new("unreadable", &stage, &cache_dir, "");
    if geteuid().is_root() {
        fs::set_permissions(stage.path(), fs::Permissions::from_mode(0o755)).expect("permissions");
        chown(&cache_dir, Some(NOBODY), Some(NOBODY)).expect("another owner");
        process = process.with(|command| {
            command.uid(NOBODY).gid(NOBODY);
        });
    }
    match process.try_start() {
        Ok(running) => {
            running.end().assert_done();
        }
        Err(error) => left_out("a process of nobody", &error.to_string()),
    };
}

pub fn unreadable(told: &Told) {
    let caches = told.caches();
    let kind = asks(ASKS)[0].kind;
    let index = caches.get_index(kind, &set("1-3"), &Work::default());
    let index = index.expect("an index");
    assert_eq!(index.found, set("1,3"));
    let [missing] = &index.missing[..] else {
        panic!("{:?}", index.missing)
    };
    let Missing::Unreadable { why } = &missing.why else {
        panic!("{missing:?}")
    };
    assert_contains(why, "2-metadata-1.warc");
    assert_contains(why, "denied");
    // The entry is intact, but this user may not read it.
    let manifest = index.entry.manifest_path();
    drop(index);
    fs::set_permissions(&manifest, fs::Permissions::from_mode(0o000)).expect("permissions");
    for caches in [&caches, &told.caches()] {
        let error = caches.get_index(kind, &set("1,3"), &Work::default());
        let text = error.expect_err("it cannot be read").to_string();
        assert_contains(&text, "1-3-cache/manifest.json");
        assert_contains(&text, "denied");
    }
}

#[test]
fn too_few_open_files_are_an_error() {
    let stage = Stage::with_jobs("1-150", 3);
    let process = Process::new("descriptors", &stage, &stage.cache_dir(), "");
    process.run().assert_done();
}

pub fn few_descriptors(told: &Told) {
    let jobs = set("1-150");
    let mut failed = 0;
    let kinds = asks("full 1;cdx 1");
    for most in [6, 8, 10, 12, 16, 24, 40, 80, 140, 160, 310] {
        let caches = told.caches();
        for ask in &kinds {
            limit(Resource::Nofile, Some(most));
            let index = caches.get_index(ask.kind, &jobs, &Work::default());
            limit(Resource::Nofile, None);
            match index {
                Ok(index) => assert_eq!((&index.found, index.missing), (&jobs, Vec::new())),
                Err(error) => {
                    let text = error.to_string();
                    assert_contains(&text, "Too many open files");
                    assert!(text.contains('/'), "{text}");
                    failed += 1;
                }
            }
        }
        assert_eq!(caches.figures().damaged, 0);
        assert_no_leftovers(&told.cache_dir);
    }
    assert!(failed > 3);
    let caches = told.caches();
    for ask in &kinds {
        let index = caches.get_index(ask.kind, &jobs, &Work::default());
        let index = index.expect("an index");
        assert_eq!((&index.found, index.missing), (&jobs, Vec::new()));
    }
    // The folders contain raw data of both kinds, segments, and the two sets, and nothing of any other set.
    assert_eq!(state(&told.cache_dir).len(), 150 * 3 + 2);
}
