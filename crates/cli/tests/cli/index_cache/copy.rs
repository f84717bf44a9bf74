//! Tests copies of an index.

use redis_tests::{assert_contains, ends};
use std::fs;
use std::path::Path;

use crate::index_cache::stage::Stage;

#[test]
fn copy_is_complete_and_independent() {
    let stage = Stage::of([1, 2]);
    let out = stage.path().join("some/where/copy");
    let get = |kind: &str, status: i32| {
        ends(
            stage.get(kind, "1-2", &format!("--json --out {}", out.display())),
            status,
        )
    };
    let answer = get("full", 0).object();
    assert_eq!(answer["out"], out.to_str().unwrap());
    let entry = stage.entry("fullcrawllogindex", "1-2-cache");
    let names = |folder: &Path| {
        let names = fs::read_dir(folder)
            .unwrap()
            .map(|file| file.unwrap().file_name());
        let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    };
    assert_eq!(names(&out), names(&entry));
    for name in names(&entry) {
        use std::os::unix::fs::MetadataExt;
        let (copy, own) = (out.join(&name), entry.join(&name));
        assert_eq!(fs::read(&copy).unwrap(), fs::read(&own).unwrap(), "{name}");
        assert_ne!(
            copy.metadata().unwrap().ino(),
            own.metadata().unwrap().ino(),
            "{name}"
        );
    }
    // Writing to the copy does not write to the cache.
    fs::write(out.join("url.idx"), "spoilt").unwrap();
    ends(stage.index("verify"), 0);

    // The next copy replaces the existing copy completely, even if it is of another kind.
    get("full", 0);
    assert_eq!(
        fs::read(out.join("url.idx")).unwrap(),
        fs::read(entry.join("url.idx")).unwrap()
    );
    get("cdx", 0);
    assert_eq!(names(&out), ["1-2-cache", "manifest.json"]);
    assert_eq!(names(out.parent().unwrap()), ["copy"]);

    // A folder that is not a copy is left untouched.
    fs::remove_file(out.join("manifest.json")).unwrap();
    let refused = get("full", 1);
    assert_contains(&refused.errors, "is not a copy of an index");
    assert_eq!(names(&out), ["1-2-cache"]);
}

#[test]
fn copy_without_room_leaves_nothing() {
    let stage = Stage::of([1]);
    fs::write(stage.path().join("file"), "").unwrap();
    let out = stage.path().join("file/copy");
    let failed = ends(
        stage.get("full", "1", &format!("--out {}", out.display())),
        1,
    );
    assert_contains(&failed.errors, "/file");
}
