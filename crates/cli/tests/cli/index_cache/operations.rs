//! Tests `index list` and `index verify`.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crawlspace_jobs::{IndexCaches, IndexKind, Options, Work};
use redis_tests::{Rng, assert_contains, assert_starts, ends};
use serde_json::{Value, json};

use crate::index_cache::stage::{Stage, lock_as_another_process};

/// Returns a stage with indexes of jobs 1 and 2, separately and together, and the CDX of one.
pub fn built() -> Stage {
    let stage = Stage::of([1, 2]);
    ends(stage.get("full", "1-2", ""), 0);
    ends(stage.get("cdx", "1", ""), 0);
    stage
}

pub fn listed(stage: &Stage, words: &str) -> Vec<Value> {
    ends(stage.index(&format!("list --json {words}")), 0).json()
}

fn state_of(listed: &[Value], entry: &str) -> String {
    let one = listed.iter().find(|one| one["entry"] == entry);
    let one = one.unwrap_or_else(|| panic!("{entry} is not in {listed:?}"));
    one["state"].as_str().unwrap().to_owned()
}

/// Holds the index in use, like another process.
pub fn hold(stage: &Stage, jobs: &str) -> crawlspace_jobs::Index {
    let options = Options {
        cache_dir: stage.cache(),
        metadata: vec![stage.metadata().display().to_string()],
        ..Options::default()
    };
    let caches = IndexCaches::open(options).unwrap();
    let jobs = jobs.parse().unwrap();
    let index = caches.hit(IndexKind::Full, &jobs, &Work::default());
    let index = index.unwrap();
    index.expect("it was built")
}

#[test]
fn all_entries_are_listed() {
    let stage = built();
    let all = listed(&stage, "");
    let names: Vec<_> = all
        .iter()
        .map(|one| {
            format!(
                "{}/{}",
                one["cache"].as_str().unwrap(),
                one["entry"].as_str().unwrap()
            )
        })
        .collect();
    assert_eq!(
        names,
        [
            "crawllog/crawllog-1-cache",
            "crawllog/crawllog-2-cache",
            "cdxdata/cdxdata-1-cache",
            "cdxdata/cdxdata-2-cache",
            "fullcrawllogindex/1-2-cache",
            "fullcrawllogindex/1-cache",
            "fullcrawllogindex/2-cache",
            "cdxindex/1-cache",
        ]
    );
    for one in &all {
        assert_eq!(one["state"], "whole");
        assert!(one["lines"].as_u64().unwrap() > 0, "{one}");
        assert!(one["size"].as_u64().unwrap() > 0, "{one}");
        for time in ["made", "lastUsed"] {
            assert!(one[time].as_str().unwrap().ends_with('Z'), "{one}");
        }
        assert!(Path::new(one["path"].as_str().unwrap()).exists(), "{one}");
    }
    assert_eq!(all[4]["jobs"], json!([1, 2]));
    assert_eq!(all[4]["kind"], "full");
    assert_eq!(all[0]["kind"], Value::Null);
    let lines = |at: usize| all[at]["lines"].as_u64().unwrap();
    assert_eq!(lines(4), lines(5) + lines(6));

    let full = listed(&stage, "--kind full");
    assert_eq!(full[..], all[4..7]);
    assert!(listed(&stage, "--kind dedup").is_empty());

    let text = ends(stage.index("list"), 0).out;
    assert_eq!(text.lines().count(), 1 + all.len());
    assert_starts(&text, "cache ");
}

#[test]
fn empty_folder_lists_nothing() {
    let stage = Stage::of([]);
    fs::create_dir(stage.cache()).unwrap();
    let nothing = ends(stage.index("list"), 0);
    assert_eq!(nothing.out, "");
    assert_contains(&nothing.errors, "the caches are empty");
    assert!(listed(&stage, "").is_empty());
    for words in ["verify", "gc"] {
        ends(stage.index(words), 0);
    }
    assert_eq!(fs::read_dir(stage.cache()).unwrap().count(), 0);
}

#[test]
fn missing_folder_is_reported() {
    let stage = Stage::of([]);
    for words in ["list", "verify", "verify --json", "gc"] {
        let failed = ends(stage.index(words), 1);
        assert_eq!(failed.out, "", "{words:?}");
        let begin = format!("crawlspace: {}: ", stage.cache().display());
        assert_starts(&failed.errors, &begin);
    }
    assert!(!stage.cache().exists());
}

#[test]
fn entries_in_use_damaged_foreign_or_left_over_are_marked() {
    let stage = built();
    let index = hold(&stage, "1-2");
    fs::write(
        stage.entry("fullcrawllogindex", "1-cache").join("url.idx"),
        "cut",
    )
    .unwrap();
    fs::create_dir(stage.entry("dedupcrawllogindex", "9-cache")).unwrap();
    let left = stage.entry("fullcrawllogindex", ".5-cache.draft");
    fs::create_dir(&left).unwrap();
    fs::write(left.join("url.cdxj.gz"), "half").unwrap();
    let all = listed(&stage, "");
    assert_eq!(state_of(&all, "1-2-cache"), "in use");
    assert_eq!(state_of(&all, "9-cache"), "foreign");
    assert_eq!(state_of(&all, ".5-cache.draft"), "left over");
    let damaged = all.iter().find(|one| one["state"] == "damaged").unwrap();
    assert_eq!(
        damaged["path"],
        stage
            .entry("fullcrawllogindex", "1-cache")
            .to_str()
            .unwrap()
    );
    assert_contains(damaged["why"].as_str().unwrap(), "url.idx");
    drop(index);
    assert_eq!(state_of(&listed(&stage, ""), "1-2-cache"), "whole");
}

#[test]
fn builds_in_progress_are_listed_with_their_process() {
    let stage = built();
    let lock = stage.entry("fullcrawllogindex", "1-2-cache.working");
    let _locked = lock_as_another_process(&lock);
    let all = listed(&stage, "--kind full");
    let both = all.iter().find(|one| one["entry"] == "1-2-cache").unwrap();
    assert_eq!(both["state"], "being built");
    assert!(!both["why"].as_str().unwrap().is_empty());
    // An entry is not removed while it is being built.
    let kept = ends(stage.index("gc --max-size 0 --grace 0s --json"), 1).object();
    assert_eq!(kept["keptInUse"], 1);
    assert!(stage.entry("fullcrawllogindex", "1-2-cache").exists());
}

/// Returns all files of the entries including manifests, ordered by name.
pub fn files(stage: &Stage) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![stage.cache()];
    while let Some(folder) = folders.pop() {
        for file in fs::read_dir(folder).unwrap() {
            let path = file.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            let is_beside = [".working", ".seen", ".owner"]
                .iter()
                .any(|end| name.ends_with(end));
            if path.is_dir() {
                folders.push(path);
            } else if !is_beside {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

#[test]
fn verify_finds_every_changed_byte_and_names_the_file() {
    let stage = built();
    let mut rng = Rng::new("verify_finds_every_changed_byte_and_names_the_file");
    let well = ends(stage.index("verify --json"), 0).object();
    assert_eq!(well["entries"], 8);
    assert_eq!(well["damaged"], json!([]));
    assert_eq!(well["foreign"], json!([]));
    let files = files(&stage);
    assert!(files.len() >= 8 * 2);
    for file in &files {
        let times = File::open(file)
            .unwrap()
            .metadata()
            .unwrap()
            .modified()
            .unwrap();
        let mut open = File::options().read(true).write(true).open(file).unwrap();
        let at = rng.below(open.metadata().unwrap().len());
        let mut byte = [0];
        open.seek(SeekFrom::Start(at)).unwrap();
        open.read_exact(&mut byte).unwrap();
        let other = [byte[0] ^ (1 << rng.below(8))];
        let mut put = |byte: [u8; 1]| {
            open.seek(SeekFrom::Start(at)).unwrap();
            open.write_all(&byte).unwrap();
            // Restores the times, as if the file had not been touched.
            open.set_modified(times).unwrap();
        };
        put(other);
        let found = ends(stage.index("verify --json"), 1);
        let damaged = found.object()["damaged"].clone();
        let damaged = damaged.as_array().unwrap();
        assert_eq!(damaged.len(), 1, "{}: {damaged:?}", file.display());
        assert_eq!(damaged[0]["file"], file.to_str().unwrap(), "byte {at}");
        assert_eq!(damaged[0]["removed"], false);
        assert!(
            found.errors.contains(file.to_str().unwrap()),
            "{}",
            found.errors
        );
        put(byte);
    }
    ends(stage.index("verify"), 0);
}

#[test]
fn verify_finds_missing_and_short_files() {
    let stage = built();
    let short = stage
        .entry("fullcrawllogindex", "1-cache")
        .join("digest.cdxj.gz");
    let file = File::options().write(true).open(&short).unwrap();
    file.set_len(file.metadata().unwrap().len() - 1).unwrap();
    let gone = stage.entry("fullcrawllogindex", "2-cache").join("url.idx");
    fs::remove_file(&gone).unwrap();
    let raw = stage.entry("crawllog", "crawllog-1-cache");
    fs::remove_file(&raw).unwrap();
    let found = ends(stage.index("verify"), 1);
    for file in [&short, &gone, &raw] {
        assert!(
            found.errors.contains(file.to_str().unwrap()),
            "{}",
            found.errors
        );
    }
    assert_contains(&found.out, "damaged              3");
}

#[test]
fn damaged_entry_can_be_removed_and_rebuilt() {
    let stage = built();
    let entry = stage.entry("fullcrawllogindex", "1-cache");
    let used = stage.entry("fullcrawllogindex", "1-2-cache");
    let index = hold(&stage, "1-2");
    fs::write(entry.join("url.idx"), "spoilt").unwrap();
    fs::write(used.join("url.idx"), "spoilt").unwrap();
    let found = ends(stage.index("verify --remove --json"), 1);
    let damaged = found.object()["damaged"].clone();
    let of = |path: &Path| {
        let one = damaged
            .as_array()
            .unwrap()
            .iter()
            .find(|one| one["entry"] == path.to_str().unwrap());
        one.unwrap()["removed"].clone()
    };
    assert_eq!((of(&entry), of(&used)), (json!(true), json!(false)));
    assert!(!entry.exists() && used.exists());
    assert_contains(&found.errors, "not removed, because it is in use");
    drop(index);
    ends(stage.index("verify --remove"), 1);
    assert!(!used.exists());
    ends(stage.index("verify"), 0);
    ends(stage.get("full", "1-2", "--strict"), 0);
    assert!(entry.exists() && used.exists());
}

#[test]
fn entry_without_manifest_is_damaged_only_if_it_is_ours() {
    let stage = built();
    let folder = stage.entry("fullcrawllogindex", "1-2-cache");
    let file = stage.entry("cdxdata", "cdxdata-1-cache");
    let manifests = [
        folder.join("manifest.json"),
        stage.entry("cdxdata", "cdxdata-1-cache.manifest.json"),
    ];
    fs::remove_file(&manifests[0]).unwrap();
    // A dangling link counts as a missing file, too.
    fs::remove_file(&manifests[1]).unwrap();
    std::os::unix::fs::symlink("nowhere", &manifests[1]).unwrap();
    let other = stage.entry("fullcrawllogindex", "2-cache");
    fs::remove_file(other.join("manifest.json")).unwrap();
    fs::remove_file(stage.entry("fullcrawllogindex", "2-cache.seen")).unwrap();

    let all = listed(&stage, "");
    assert_eq!(state_of(&all, "1-2-cache"), "damaged");
    assert_eq!(state_of(&all, "cdxdata-1-cache"), "damaged");
    assert_eq!(state_of(&all, "2-cache"), "foreign");
    let found = ends(stage.index("verify --json"), 1);
    let answer = found.object();
    let damaged = answer["damaged"].as_array().unwrap().iter();
    let damaged: Vec<_> = damaged.map(|one| one["file"].as_str().unwrap()).collect();
    let [of_folder, of_file] = manifests.each_ref().map(|path| path.to_str().unwrap());
    assert_eq!(damaged, [of_file, of_folder]);
    assert_eq!(answer["foreign"], json!([other]));

    ends(stage.index("verify --remove"), 1);
    assert!(!folder.exists() && !file.exists() && other.exists());
    ends(stage.index("verify"), 0);
}
