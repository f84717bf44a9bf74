//! Looking at what there is, proving it whole, making room.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crawlspace_client::index_cache::{IndexCaches, IndexKind, Options, Work};
use redis_tests::Rng;
use serde_json::{json, Value};

use crate::stage::{ends, lock_as_another_process, Stage};

/// With indexes of jobs 1 and 2, of each of them and of both, and the CDX of one.
fn built() -> Stage {
    let stage = Stage::of([1, 2]);
    ends(stage.get("full", "1-2", &[]), 0);
    ends(stage.get("cdx", "1", &[]), 0);
    stage
}

fn listed(stage: &Stage, words: &[&str]) -> Vec<Value> {
    ends(stage.index(&[&["list", "--json"], words].concat()), 0).json()
}

fn state_of(listed: &[Value], entry: &str) -> String {
    let one = listed.iter().find(|one| one["entry"] == entry);
    let one = one.unwrap_or_else(|| panic!("{entry} is not in {listed:?}"));
    one["state"].as_str().unwrap().to_owned()
}

/// The index in use, as somebody else has it.
fn hold(stage: &Stage, jobs: &str) -> crawlspace_client::index_cache::Index {
    let options = Options {
        cache_dir: stage.cache(),
        metadata: vec![stage.metadata().display().to_string()],
        ..Options::default()
    };
    let caches = IndexCaches::open(options).unwrap();
    let jobs = jobs.parse().unwrap();
    let index = caches
        .hit(IndexKind::Full, &jobs, &Work::default())
        .unwrap();
    index.expect("it was built")
}

#[test]
fn everything_that_was_built_is_listed() {
    let stage = built();
    let all = listed(&stage, &[]);
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
    assert_eq!(
        (&all[4]["kind"], &all[0]["kind"]),
        (&json!("full"), &Value::Null)
    );
    let lines = |at: usize| all[at]["lines"].as_u64().unwrap();
    assert_eq!(lines(4), lines(5) + lines(6));

    let full = listed(&stage, &["--kind", "full"]);
    assert_eq!(full[..], all[4..7]);
    assert!(listed(&stage, &["--kind", "dedup"]).is_empty());

    let text = ends(stage.index(&["list"]), 0).out;
    assert_eq!(text.lines().count(), 1 + all.len());
    assert!(text.starts_with("cache "), "{text}");
}

#[test]
fn of_a_folder_without_anything_nothing_is_listed() {
    let stage = Stage::of([]);
    let nothing = ends(stage.index(&["list"]), 0);
    assert_eq!(nothing.out, "");
    assert!(
        nothing.errors.contains("there is nothing"),
        "{}",
        nothing.errors
    );
    assert!(listed(&stage, &[]).is_empty());
    for words in [&["verify"][..], &["gc"]] {
        ends(stage.index(words), 0);
    }
    assert!(!stage.cache().exists());
}

#[test]
fn what_is_in_use_or_damaged_or_not_ours_or_left_over_is_said_to_be() {
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
    let all = listed(&stage, &[]);
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
    assert!(
        damaged["why"].as_str().unwrap().contains("url.idx"),
        "{damaged}"
    );
    drop(index);
    assert_eq!(state_of(&listed(&stage, &[]), "1-2-cache"), "whole");
}

#[test]
fn what_is_being_built_is_said_to_be_and_by_whom() {
    let stage = built();
    let lock = stage.entry("fullcrawllogindex", "1-2-cache.working");
    let _locked = lock_as_another_process(&lock);
    let all = listed(&stage, &["--kind", "full"]);
    let both = all.iter().find(|one| one["entry"] == "1-2-cache").unwrap();
    assert_eq!(both["state"], "being built");
    assert!(!both["why"].as_str().unwrap().is_empty());
    // Nobody takes it away from its builder.
    let kept = ends(
        stage.index(&["gc", "--max-size", "0", "--grace", "0s", "--json"]),
        1,
    )
    .object();
    assert_eq!(kept["keptInUse"], 1);
    assert!(stage.entry("fullcrawllogindex", "1-2-cache").exists());
}

/// All files of the entries, manifests included, in the order of names.
fn files(stage: &Stage) -> Vec<PathBuf> {
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
fn every_changed_byte_is_found_and_its_file_named() {
    let stage = built();
    let mut rng = Rng::new("every_changed_byte_is_found_and_its_file_named");
    let well = ends(stage.index(&["verify", "--json"]), 0).object();
    assert_eq!(well["entries"], 8);
    assert_eq!(
        (&well["damaged"], &well["foreign"]),
        (&json!([]), &json!([]))
    );
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
            // As if nobody had touched it.
            open.set_modified(times).unwrap();
        };
        put(other);
        let found = ends(stage.index(&["verify", "--json"]), 1);
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
    ends(stage.index(&["verify"]), 0);
}

#[test]
fn a_missing_or_short_file_is_named_as_well() {
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
    let found = ends(stage.index(&["verify"]), 1);
    for file in [&short, &gone, &raw] {
        assert!(
            found.errors.contains(file.to_str().unwrap()),
            "{}",
            found.errors
        );
    }
    assert!(
        found.out.contains("damaged              3"),
        "{}",
        found.out
    );
}

#[test]
fn what_is_damaged_can_be_removed_and_is_built_anew() {
    let stage = built();
    let entry = stage.entry("fullcrawllogindex", "1-cache");
    let used = stage.entry("fullcrawllogindex", "1-2-cache");
    let index = hold(&stage, "1-2");
    fs::write(entry.join("url.idx"), "spoilt").unwrap();
    fs::write(used.join("url.idx"), "spoilt").unwrap();
    let found = ends(stage.index(&["verify", "--remove", "--json"]), 1);
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
    assert!(
        found.errors.contains("not removed, since it is in use"),
        "{}",
        found.errors
    );
    drop(index);
    ends(stage.index(&["verify", "--remove"]), 1);
    assert!(!used.exists());
    ends(stage.index(&["verify"]), 0);
    ends(stage.get("full", "1-2", &["--strict"]), 0);
    assert!(entry.exists() && used.exists());
}

fn gc(stage: &Stage, words: &[&str], status: i32) -> Value {
    let words = [&["gc", "--grace", "0s", "--json"], words].concat();
    ends(stage.index(&words), status).object()
}

/// The entries that went, as cache and name.
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

/// Says that an entry was last used so long ago.
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
fn without_limits_only_what_was_left_by_the_dead_goes() {
    let stage = built();
    let left = stage.entry("fullcrawllogindex", ".5-cache.draft");
    fs::create_dir(&left).unwrap();
    fs::write(left.join("url.cdxj.gz"), "half").unwrap();
    let before = files(&stage);
    let told = gc(&stage, &["--dry-run"], 0);
    assert_eq!(gone(&told), ["fullcrawllogindex/.5-cache.draft"]);
    assert_eq!(told["removed"][0]["why"], "left over");
    assert_eq!(files(&stage), before);
    let done = gc(&stage, &[], 0);
    assert_eq!(gone(&done), gone(&told));
    assert_eq!(done["entries"], 8);
    assert!(!left.exists());
    assert_eq!(files(&stage).len(), before.len() - 1);
}

#[test]
fn what_nobody_used_for_the_longest_time_goes_first() {
    let stage = built();
    used_ago(&stage, "fullcrawllogindex", "2-cache", 3_000);
    used_ago(&stage, "crawllog", "crawllog-2-cache", 2_000);
    used_ago(&stage, "cdxindex", "1-cache", 1_000);
    let total = gc(&stage, &[], 0)["bytes"].as_u64().unwrap();
    let sizes: u64 = listed(&stage, &[])
        .iter()
        .map(|one| one["size"].as_u64().unwrap())
        .sum();
    assert_eq!(total, sizes);
    // One byte too much, and one entry has to go.
    let most = (total - 1).to_string();
    let told = gc(&stage, &["--max-size", &most, "--dry-run"], 0);
    assert_eq!(gone(&told), ["fullcrawllogindex/2-cache"]);
    let done = gc(&stage, &["--max-size", &most], 0);
    assert_eq!(gone(&done), ["fullcrawllogindex/2-cache"]);
    assert_eq!(
        (&done["removed"], &done["bytes"]),
        (&told["removed"], &told["bytes"])
    );
    assert_eq!(done["removed"][0]["why"], "size");
    assert!(!stage.entry("fullcrawllogindex", "2-cache").exists());
    // Its lock file stays: somebody may be about to lock it.
    assert!(stage.entry("fullcrawllogindex", "2-cache.working").exists());

    let done = gc(&stage, &["--max-age", "1500s"], 0);
    assert_eq!(gone(&done), ["crawllog/crawllog-2-cache"]);
    assert_eq!(done["removed"][0]["why"], "age");
    assert_eq!(done["entries"], 6);
    let done = gc(&stage, &["--max-size", "0"], 0);
    assert_eq!(gone(&done).len(), 6);
    assert_eq!(gone(&done)[0], "cdxindex/1-cache");
    assert_eq!((&done["entries"], &done["bytes"]), (&json!(0), &json!(0)));
    // And all of it can be built again.
    ends(stage.get("full", "1-2", &["--strict"]), 0);
}

#[test]
fn a_hit_is_a_use() {
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
    ends(stage.get("full", "1", &[]), 0);
    let done = gc(&stage, &["--max-age", "500s"], 0);
    assert_eq!(gone(&done).len(), 7);
    assert!(stage.entry("fullcrawllogindex", "1-cache").exists());
}

#[test]
fn what_is_in_use_stays_and_that_is_told() {
    let stage = built();
    let index = hold(&stage, "1-2");
    let told = gc(&stage, &["--max-size", "0", "--dry-run"], 1);
    let done = gc(&stage, &["--max-size", "0"], 1);
    assert_eq!(gone(&told), gone(&done));
    assert_eq!(
        (&done["keptInUse"], &done["entries"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(done["withinLimits"], false);
    assert!(stage
        .entry("fullcrawllogindex", "1-2-cache")
        .join("url.idx")
        .exists());
    // It is as good as it was.
    let text = ends(stage.index(&["verify", "--json"]), 0).object();
    assert_eq!(text["entries"], 1);
    drop(index);
    assert_eq!(
        gone(&gc(&stage, &["--max-size", "0"], 0)),
        ["fullcrawllogindex/1-2-cache"]
    );
}

#[test]
fn what_was_used_a_moment_ago_stays() {
    let stage = built();
    used_ago(&stage, "cdxindex", "1-cache", 3_600);
    let words = ["gc", "--max-size", "0", "--json"];
    let done = ends(stage.index(&words), 1).object();
    assert_eq!(gone(&done), ["cdxindex/1-cache"]);
    assert_eq!(done["keptInUse"], 7);
}

#[test]
fn room_is_made_until_enough_is_free() {
    let stage = built();
    assert!(gone(&gc(&stage, &["--min-free", "1"], 0)).is_empty());
    // More than any file system has: everything goes, and it is not enough.
    let done = gc(&stage, &["--min-free", "9000000TB"], 1);
    assert_eq!(gone(&done).len(), 8);
    assert_eq!(done["removed"][0]["why"], "room");
}

#[test]
fn what_is_not_ours_is_never_removed() {
    let stage = built();
    let foreign = stage.entry("fullcrawllogindex", "9-cache");
    fs::create_dir(&foreign).unwrap();
    fs::write(foreign.join("_0.cfs.gz"), "an index of somebody else").unwrap();
    let file = stage.entry("cdxdata", "cdxdata-9-cache");
    fs::write(&file, "lines").unwrap();
    fs::write(stage.cache().join("a file"), "").unwrap();
    gc(&stage, &["--max-size", "0"], 0);
    assert!(foreign.join("_0.cfs.gz").exists() && file.exists());
    assert!(stage.cache().join("a file").exists());
    let verified = ends(stage.index(&["verify", "--remove", "--json"]), 0).object();
    assert_eq!(verified["foreign"].as_array().unwrap().len(), 2);
    assert!(foreign.exists() && file.exists());
}

#[test]
fn the_outcome_is_told_to_people_too() {
    let stage = built();
    let told = ends(
        stage.index(&["gc", "--grace", "0s", "--max-size", "0", "--dry-run"]),
        0,
    )
    .out;
    assert!(told.starts_with("would go "), "{told}");
    assert!(told.contains("there is too much"), "{told}");
    assert!(told.contains("0 entries would be left"), "{told}");
    let done = ends(stage.index(&["gc"]), 0).out;
    assert!(done.starts_with("8 entries are left"), "{done}");
    let verified = ends(stage.index(&["verify"]), 0).out;
    assert!(
        verified.starts_with("All entries are what they were."),
        "{verified}"
    );
}
