//! Tests `index gc`.

use std::fs::{self, File};
use std::path::Path;

use redis_tests::{assert_contains, assert_starts, ends};
use serde_json::{Value, json};

use crate::index_cache::operations::{built, files, hold, listed};
use crate::index_cache::stage::Stage;
use crate::tool::limited;

fn gc(stage: &Stage, words: &str, status: i32) -> Value {
    let words = format!("gc --grace 0s --json {words}");
    ends(stage.index(&words), status).object()
}

/// Returns the removed entries as cache and name.
fn gone(answer: &Value) -> Vec<String> {
    let removed = answer["removed"].as_array().unwrap().iter();
    removed
        .map(|one| {
            let path = Path::new(one["path"].as_str().unwrap());
            let cache = path.parent().unwrap().file_name().unwrap();
            let name = path.file_name().unwrap();
            format!("{}/{}", cache.to_str().unwrap(), name.to_str().unwrap())
        })
        .collect()
}

/// Sets the last use of an entry to this many seconds ago.
fn used_ago(stage: &Stage, cache: &str, entry: &str, seconds: u64) {
    let seen = stage.entry(cache, &format!("{entry}.seen"));
    let at = std::time::SystemTime::now() - std::time::Duration::from_secs(seconds);
    let manifests = [
        stage.entry(cache, &format!("{entry}.manifest.json")),
        stage.entry(cache, entry).join("manifest.json"),
    ];
    for file in manifests.iter().chain([&seen]).filter(|file| file.exists()) {
        let file = File::options().append(true).open(file).unwrap();
        file.set_modified(at).unwrap();
    }
}

#[test]
fn without_limits_only_leftovers_are_removed() {
    let stage = built();
    let left = stage.entry("fullcrawllogindex", ".5-cache.draft");
    fs::create_dir(&left).unwrap();
    fs::write(left.join("url.cdxj.gz"), "half").unwrap();
    let before = files(&stage);
    let told = gc(&stage, "--dry-run", 0);
    assert_eq!(gone(&told), ["fullcrawllogindex/.5-cache.draft"]);
    assert_eq!(told["removed"][0]["why"], "left over");
    assert_eq!(files(&stage), before);
    let done = gc(&stage, "", 0);
    assert_eq!(gone(&done), gone(&told));
    assert_eq!(done["entries"], 8);
    assert!(!left.exists());
    assert_eq!(files(&stage).len(), before.len() - 1);
}

#[test]
fn least_recently_used_entry_is_evicted_first() {
    let stage = built();
    used_ago(&stage, "fullcrawllogindex", "2-cache", 3_000);
    used_ago(&stage, "crawllog", "crawllog-2-cache", 2_000);
    used_ago(&stage, "cdxindex", "1-cache", 1_000);
    let total = gc(&stage, "", 0)["bytes"].as_u64().unwrap();
    let sizes: u64 = listed(&stage, "")
        .iter()
        .map(|one| one["size"].as_u64().unwrap())
        .sum();
    assert_eq!(total, sizes);
    // The total size is one byte above the limit, so one entry must be removed.
    let most = (total - 1).to_string();
    let told = gc(&stage, &format!("--max-size {most} --dry-run"), 0);
    assert_eq!(gone(&told), ["fullcrawllogindex/2-cache"]);
    let done = gc(&stage, &format!("--max-size {most}"), 0);
    assert_eq!(gone(&done), ["fullcrawllogindex/2-cache"]);
    assert_eq!(done["removed"], told["removed"]);
    assert_eq!(done["bytes"], told["bytes"]);
    assert_eq!(done["removed"][0]["why"], "size");
    assert!(!stage.entry("fullcrawllogindex", "2-cache").exists());
    assert!(!stage.entry("fullcrawllogindex", "2-cache.working").exists());

    let done = gc(&stage, "--max-age 1500s", 0);
    assert_eq!(gone(&done), ["crawllog/crawllog-2-cache"]);
    assert_eq!(done["removed"][0]["why"], "age");
    assert_eq!(done["entries"], 6);
    let done = gc(&stage, "--max-size 0", 0);
    assert_eq!(gone(&done).len(), 6);
    assert_eq!(gone(&done)[0], "cdxindex/1-cache");
    assert_eq!((&done["entries"], &done["bytes"]), (&json!(0), &json!(0)));
    // All removed entries can be built again.
    ends(stage.get("full", "1-2", "--strict"), 0);
}

#[test]
fn hit_counts_as_use() {
    let stage = built();
    for (cache, entry) in [
        ("crawllog", "crawllog-1-cache"),
        ("crawllog", "crawllog-2-cache"),
        ("cdxdata", "cdxdata-1-cache"),
        ("cdxdata", "cdxdata-2-cache"),
        ("fullcrawllogindex", "1-2-cache"),
        ("fullcrawllogindex", "1-cache"),
        ("fullcrawllogindex", "2-cache"),
        ("cdxindex", "1-cache"),
    ] {
        used_ago(&stage, cache, entry, 1_000);
    }
    ends(stage.get("full", "1", ""), 0);
    let done = gc(&stage, "--max-age 500s", 0);
    assert_eq!(gone(&done).len(), 7);
    assert!(stage.entry("fullcrawllogindex", "1-cache").exists());
}

#[test]
fn entry_in_use_is_kept_and_reported() {
    let stage = built();
    let index = hold(&stage, "1-2");
    let told = gc(&stage, "--max-size 0 --dry-run", 1);
    let done = gc(&stage, "--max-size 0", 1);
    assert_eq!(gone(&told), gone(&done));
    assert_eq!(done["keptInUse"], 1);
    assert_eq!(done["entries"], 1);
    assert_eq!(done["withinLimits"], false);
    assert!(
        stage
            .entry("fullcrawllogindex", "1-2-cache")
            .join("url.idx")
            .exists()
    );
    // The entry is undamaged.
    let text = ends(stage.index("verify --json"), 0).object();
    assert_eq!(text["entries"], 1);
    drop(index);
    let expected = ["fullcrawllogindex/1-2-cache"];
    assert_eq!(gone(&gc(&stage, "--max-size 0", 0)), expected);
}

#[test]
fn recently_used_entry_is_kept() {
    let stage = built();
    used_ago(&stage, "cdxindex", "1-cache", 3_600);
    let words = "gc --max-size 0 --json";
    let ended = ends(stage.index(words), 1);
    let done = ended.object();
    assert_eq!(gone(&done), ["cdxindex/1-cache"]);
    assert_eq!(done["keptInUse"], 7);
    assert_eq!(
        ended.errors,
        "crawlspace: the limits are exceeded: 7 entries that should be removed are in use, or were used a moment ago\n"
    );
    for entry in ["1-2-cache", "2-cache"] {
        used_ago(&stage, "fullcrawllogindex", entry, 3_600);
    }
    for (job, cache) in [
        (1, "crawllog"),
        (2, "crawllog"),
        (1, "cdxdata"),
        (2, "cdxdata"),
    ] {
        used_ago(&stage, cache, &format!("{cache}-{job}-cache"), 3_600);
    }
    let one = ends(stage.index(words), 1);
    assert_eq!(
        one.errors,
        "crawlspace: the limits are exceeded: 1 entry that should be removed is in use, or was used a moment ago\n"
    );
}

#[test]
fn entries_are_evicted_until_enough_space_is_free() {
    let stage = built();
    assert!(gone(&gc(&stage, "--min-free 1", 0)).is_empty());
    // Require more free space than any file system has: everything is removed, and the free space is
    // still too small.
    let words = "--min-free 9000000TB";
    let done = gc(&stage, words, 1);
    assert_eq!(gone(&done).len(), 8);
    assert_eq!(done["removed"][0]["why"], "room");
    let errors = ends(stage.index(&format!("gc {words}")), 1).errors;
    assert_contains(&errors, "no other entry can be removed");
}

#[test]
fn error_about_a_full_disk_names_the_command_that_frees_space() {
    let stage = Stage::of([1, 2]);
    let (metadata, cache) = (stage.metadata(), stage.cache());
    let (metadata, cache) = (metadata.display(), cache.display());
    let words =
        format!("index get --kind full --jobs 1,2 --metadata {metadata} --cache-dir {cache}");
    let failed = ends(limited(words, stage.path()), 1);
    assert_contains(
        &failed.errors,
        "no incomplete file was kept: free space and try again",
    );
    assert_contains(&failed.errors, "crawlspace index gc removes old indexes");
}

#[test]
fn foreign_files_are_never_removed() {
    let stage = built();
    let foreign = stage.entry("fullcrawllogindex", "9-cache");
    fs::create_dir(&foreign).unwrap();
    fs::write(foreign.join("_0.cfs.gz"), "a foreign index").unwrap();
    let file = stage.entry("cdxdata", "cdxdata-9-cache");
    fs::write(&file, "lines").unwrap();
    fs::write(stage.cache().join("a file"), "").unwrap();
    gc(&stage, "--max-size 0", 0);
    assert!(foreign.join("_0.cfs.gz").exists() && file.exists());
    assert!(stage.cache().join("a file").exists());
    let verified = ends(stage.index("verify --remove --json"), 0).object();
    assert_eq!(verified["foreign"].as_array().unwrap().len(), 2);
    assert!(foreign.exists() && file.exists());
}

#[test]
fn eviction_outcome_is_printed_as_text() {
    let stage = built();
    let told = ends(stage.index("gc --grace 0s --max-size 0 --dry-run"), 0).out;
    assert_starts(&told, "would go ");
    assert_contains(&told, "the total size is above the limit");
    assert_contains(&told, "0 entries would be left");
    let done = ends(stage.index("gc"), 0).out;
    assert_starts(&done, "8 entries are left");
    let verified = ends(stage.index("verify"), 0).out;
    assert_starts(&verified, "All entries are intact.");
}
