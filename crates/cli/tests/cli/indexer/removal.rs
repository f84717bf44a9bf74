//! Tests crawls that were imported, and that the manifest no longer lists.

use std::fs;

use redis_tests::archive::{Entry, Shape};
use redis_tests::{Options, assert_contains, but, ok, plain_hash};
use serde_json::json;

use crate::indexer::stage::{COPY, Indexer, LIVE, Outcome, Stage, assert_over};

impl Stage {
    /// Returns the files of all crawls except these.
    fn without(&self, crawls: &[usize]) -> Vec<Entry> {
        self.files_that(|entry| !crawls.iter().any(|&n| self.crawls[n].id == entry.crawl))
    }

    /// Returns an import of the files of all crawls except these.
    fn import_without(&self, crawls: &[usize]) -> Indexer {
        let files = self.without(crawls);
        self.import_of(self.folder.manifest_of("without.json", &files))
    }

    /// Returns the size of these crawls' files in bytes.
    fn size_of(&self, crawls: &[usize]) -> i64 {
        let all: u64 = self.folder.entries.iter().map(|entry| entry.size).sum();
        let rest: u64 = self.without(crawls).iter().map(|entry| entry.size).sum();
        (all - rest) as i64
    }
}

#[test]
fn unlisted_crawls_are_counted_and_kept() {
    let stage = Stage::with("tracked", Options::new(), 4, Shape::default());
    stage.import().succeeds();
    let [live, _] = stage.both();
    for gone in [&[1, 3][..], &[0], &[], &[0, 1, 2]] {
        let report = stage.import_without(gone).succeeds();
        assert_eq!(report["unlistedCrawls"], gone.len());
        assert_eq!(report["removedCrawls"], 0);
        let copy = Outcome::of(&mut stage.server.wire(), COPY);
        assert_eq!(copy.count("removedCrawls") as usize, gone.len());
        assert_eq!(copy.count("removedCrawlSize"), stage.size_of(gone));
        let copy = copy.without_removed();
        copy.assert_same(&live, "no crawl is removed");
    }
}

#[test]
fn removal_leaves_the_index_of_the_remaining_crawls() {
    for gone in [&[1, 3][..], &[0, 4], &[0, 1, 2, 3]] {
        let stage = Stage::with("removed", Options::new(), 5, Shape::default());
        stage.import().succeeds();
        let report = stage.import_without(gone).flag("--remove").succeeds();
        assert_eq!(report["removedCrawls"], gone.len());
        let mut c = stage.server.wire();
        for &crawl in gone {
            ok!(c, "DEDUPE.REMOVE", LIVE, stage.crawls[crawl].id);
        }
        stage.assert_once();
        let copy = Outcome::of(&mut c, COPY);
        let counts = ["removedCrawls", "removedCrawlSize"].map(|name| copy.count(name));
        assert_eq!(counts, [0, 0]);
        // Rebuilt from the remaining files, the index has the same hashes and owners.
        stage.import_without(gone).prefix("{fresh}:").succeeds();
        let hashes = |c: &mut redis_tests::Wire, p| plain_hash(c, p, "allhashes");
        assert_eq!(hashes(&mut c, COPY), hashes(&mut c, "{fresh}:"));
    }
}

#[test]
fn removing_the_last_crawls_leaves_an_empty_index() {
    let stage = Stage::with("last ones", Options::new(), 4, Shape::default());
    stage.import().jobs(2).succeeds();
    stage.import_without(&[2, 3]).flag("--remove").succeeds();
    // No other crawl depends on the last two crawls, so the counts and dependencies also equal
    // those of an index that never contained them.
    stage.import_without(&[2, 3]).prefix("{fresh}:").succeeds();
    let mut c = stage.server.wire();
    let fresh = Outcome::of(&mut c, "{fresh}:");
    Outcome::of(&mut c, COPY)
        .assert_same(&fresh, "a removed crawl and one that was never imported");
    // The removed crawls can be imported again.
    stage.import().succeeds();
    stage.assert_once();
}

#[test]
fn crawl_that_could_not_be_loaded_is_not_removed() {
    let stage = Stage::with("failed", Options::new(), 3, Shape::default());
    stage.import().succeeds();
    let mut files = stage.without(&[2]);
    for entry in &mut files {
        // The index identifies packages by name, so the import opens only packages with a new name.
        entry.name.insert_str(0, "new ");
        entry.path.insert_str(0, "missing/");
    }
    let source = stage.folder.manifest_of("missing.json", &files);
    let failed = stage.import_of(&source).flag("--remove").fails_some();
    let names: Vec<&String> = failed.keys().collect();
    let mut listed: Vec<&String> = files.iter().map(|entry| &entry.name).collect();
    listed.sort();
    assert_eq!(names, listed);
    let mut c = stage.server.wire();
    ok!(c, "DEDUPE.REMOVE", LIVE, stage.crawls[2].id);
    stage.assert_once();

    // An invalid entry still protects its crawl from removal if its crawl id is readable.
    let entry = json!({"name": "x", "crawlId": stage.crawls[0].id});
    let import = stage.import_list("bad.json", &[entry]);
    let failed = import.flag("--remove").fails_some();
    assert_eq!(failed.keys().collect::<Vec<_>>(), ["x"]);
    ok!(c, "DEDUPE.REMOVE", LIVE, stage.crawls[1].id);
    stage.assert_once();
}

#[test]
fn file_listed_for_another_crawl_stays_in_its_crawl() {
    let stage = Stage::with("moved", Options::new(), 3, Shape::default());
    stage.import().succeeds();
    let moved = &stage.crawls[1].id;
    let mut names = Vec::new();
    let all = stage.folder.entries.iter().cloned();
    let files: Vec<Entry> = all
        .map(|mut entry| {
            if entry.crawl == *moved {
                names.push(entry.name.clone());
                "another".clone_into(&mut entry.crawl);
            }
            entry
        })
        .collect();
    names.sort();
    let source = stage.folder.manifest_of("moved.json", &files);
    for flags in [&[][..], &["--remove"]] {
        let import = stage.import_of(&source);
        let failed = flags.iter().fold(import, |i, f| i.flag(f)).fails_some();
        let expected = names.iter().collect::<Vec<_>>();
        assert_eq!(failed.keys().collect::<Vec<_>>(), expected);
        for reason in failed.values() {
            assert_contains(reason, "another");
        }
        stage.assert_once();
    }
}

#[test]
fn nothing_is_removed_while_a_file_may_belong_to_any_crawl() {
    let stage = Stage::with("whose", Options::new(), 3, Shape::default());
    stage.import().succeeds();
    let whole = stage.folder.manifest_of("two.json", &stage.without(&[2]));
    let two = fs::read_to_string(&whole).expect("it was written");
    let name = redis_tests::archive::json_text(&stage.without(&[0, 1])[0].name);
    for entry in [
        format!("{{\"name\": {name}}}"),
        format!("{{\"name\": {name}, \"path\": \"x.wacz\", \"crawlId\": {{}}}}"),
        "null".to_owned(),
        name.clone(),
    ] {
        let manifest = stage.folder.file("whose.json");
        let listed = two.replacen('[', &format!("[{entry}, "), 1);
        fs::write(&manifest, listed).expect("it is written");
        let import = stage.import_of(&manifest);
        let failed = import.flag("--remove").fails_some();
        assert_eq!(failed.len(), 1, "{entry}: {failed:?}");
        stage.assert_once();
    }
    // A duplicate key makes the list invalid.
    let manifest = stage.folder.file("twice.json");
    fs::write(&manifest, "{\"resources\": [], \"resources\": []}").expect("it is written");
    let import = stage.import_of(&manifest);
    let refused = import.flag("--remove").flag("--allow-empty").fails();
    assert_contains(&refused, "duplicate");
    stage.assert_once();
}

#[test]
fn single_file_is_no_list_of_a_collection() {
    let stage = Stage::new("one file");
    stage.import().succeeds();
    let file = stage.folder.file(&stage.folder.entries[0].path);
    let one = stage.import_of(&file);
    let errors = one.clone().flag("--remove").fails();
    assert_contains(&errors, "manifest");
    stage.assert_once();
    one.with("--crawl-id", "one more").succeeds();
    let copy = Outcome::of(&mut stage.server.wire(), COPY);
    let counts = ["removedCrawls", "removedCrawlSize"].map(|name| copy.count(name));
    assert_eq!(counts, [0, 0]);
}

#[test]
fn empty_manifest_removes_nothing_without_allow_empty() {
    let stage = Stage::new("empty");
    stage.import().succeeds();
    let empty = stage.import_of(stage.folder.manifest_of("empty.json", &[]));
    let errors = empty.clone().flag("--remove").fails();
    assert_contains(&errors, "empty.json");
    stage.assert_once();

    let report = empty.succeeds();
    assert_eq!(report["unlistedCrawls"], 3);
    let copy = Outcome::of(&mut stage.server.wire(), COPY);
    assert_eq!(copy.count("removedCrawls"), 3);
    assert_eq!(copy.count("removedCrawlSize"), stage.size_of(&[0, 1, 2]));

    let report = empty.flag("--remove").flag("--allow-empty").succeeds();
    assert_eq!(report["removedCrawls"], 3);
    let mut c = stage.server.wire();
    let copy = Outcome::of(&mut c, COPY);
    assert_eq!(copy.hashes(), 0);
    assert_eq!(copy.count("removedCrawls"), 0);
    assert_eq!(copy.count("totalUrls"), 0);
    assert_eq!(ok!(c, "EXISTS", format!("{COPY}src:d")).int(), 0);
    stage.import().succeeds();
    stage.assert_once();
}

#[test]
fn manifest_without_existing_files_removes_nothing_without_allow_empty() {
    let stage = Stage::new("nothing there");
    stage.import().succeeds();
    let missing = Entry {
        name: "new.wacz".into(),
        path: "missing.wacz".into(),
        crawl: "new".into(),
        ..stage.folder.entries[0].clone()
    };
    let import = stage.import_of(stage.folder.manifest_of("missing.json", &[missing]));
    let import = import.flag("--remove");
    let errors = import.fails();
    assert_contains(&errors, "empty");
    let [live, copy] = stage.both();
    let copy = copy.without_removed();
    copy.assert_same(&live, "no crawl was removed");
    let failed = import.flag("--allow-empty").fails_some();
    assert_eq!(failed.keys().collect::<Vec<_>>(), ["new.wacz"]);
    let copy = Outcome::of(&mut stage.server.wire(), COPY);
    assert_eq!(copy.hashes(), 0);
}

#[test]
fn allowed_empty_manifest_also_removes_crawls_set_aside_by_browsertrix() {
    let stage = Stage::new("put aside");
    stage.import().succeeds();
    let mut c = stage.server.wire();
    let empty = stage.import_of(stage.folder.manifest_of("empty.json", &[]));
    let empty = empty.flag("--remove").flag("--allow-empty");
    for (crawl, aside) in [
        (&stage.crawls[0].id, "canceledcrawls"),
        (&stage.crawls[1].id, "to-remove-crawls"),
        (&stage.crawls[2].id, "canceledcrawls"),
    ] {
        let [from, to] = ["allcrawls", aside].map(|name| format!("{COPY}{name}"));
        let moved = ok!(c, "SMOVE", from, to, crawl);
        assert_eq!(moved.int(), 1);
    }
    let report = empty.succeeds();
    assert_eq!(report["removedCrawls"], 3);
    assert_eq!(report["unlistedCrawls"], 3);
    for key in ["canceledcrawls", "to-remove-crawls", "src:d"] {
        assert_eq!(ok!(c, "EXISTS", format!("{COPY}{key}")).int(), 0, "{key}");
    }
    for crawl in &stage.crawls {
        let hashes = format!("{COPY}h:{}", crawl.id);
        assert_eq!(ok!(c, "EXISTS", hashes).int(), 0);
    }
    assert_eq!(ok!(c, "EXISTS", format!("{COPY}allhashes")).int(), 0);
    let again = empty.succeeds();
    assert_eq!(again["removedCrawls"], 0);
    // Repair the counts, which were not updated when the `SMOVE` of a plain client removed the
    // crawls.
    ok!(c, "DEDUPE.REPAIR", COPY);
    stage.import().succeeds();
    stage.assert_once();
}

#[test]
fn uncommitted_crawls_of_other_programs_are_kept() {
    let stage = Stage::new("others");
    let mut c = stage.server.wire();
    let hash = redis_tests::sha256_of(1 << 40);
    c.ok_line(format!(
        "DEDUPE.ADD {COPY} running {hash} 0 20240101000000 http://example.com/ 100"
    ));
    stage.import().flag("--remove").succeeds();
    assert_over(&mut c, COPY);
    let running = redis_tests::set_key(&mut c, &format!("{COPY}uncommittedcrawls"));
    assert_eq!(running, ["running"]);
    ok!(c, "DEDUPE.CANCEL", COPY, "running");
    stage.assert_once();
}

#[test]
fn file_listed_for_another_crawl_keeps_its_first_crawl() {
    let stage = Stage::new("another crawl");
    stage.import().succeeds();
    let other = stage.crawls[0].id.clone();
    let mut files = stage.folder.entries.clone();
    for entry in &mut files {
        if entry.crawl == stage.crawls[1].id {
            entry.crawl.clone_from(&other);
        }
    }
    let source = stage.folder.manifest_of("another.json", &files);
    let failed = stage.import_of(&source).flag("--remove").fails_some();
    let mut names: Vec<&String> = stage.crawls[1].waczs.iter().collect();
    names.sort();
    assert_eq!(failed.keys().collect::<Vec<_>>(), names);
    for reason in failed.values() {
        assert_contains(reason, &stage.crawls[1].id);
        assert_contains(reason, &other);
    }
    stage.assert_once();
}

#[test]
fn name_listed_for_two_crawls_belongs_to_the_first() {
    let stage = Stage::new("two crawls");
    let mut files = stage.folder.entries.clone();
    // List the file again at the end, as part of another crawl.
    let again = files[0].clone();
    files.push(but!(again, crawl: "another".into()));
    let source = stage.folder.manifest_of("two.json", &files);
    for _ in 0..2 {
        let ended = stage.import_of(&source).flag("--remove").run();
        assert!(ended.status.code() < Some(2), "{}", ended.errors);
        let [live, copy] = stage.both();
        copy.assert_same(&live, "the package stays in the crawl that listed it first");
    }
}

#[test]
fn entry_of_an_unknown_crawl_prevents_removals() {
    let stage = Stage::new("whose");
    stage.import().succeeds();
    let missing = json!({"path": "missing.wacz", "crawlId": stage.crawls[0].id});
    // The second entry could be any file of any crawl.
    let import = stage.import_list("whose.json", &[missing, json!({"name": "x"})]);
    for import in [import.clone(), import.flag("--remove")] {
        let ended = import.run();
        assert_eq!(ended.status.code(), Some(1), "{}", ended.errors);
        let [live, copy] = stage.both();
        copy.assert_same(&live, "no crawl is removed or counted as removed");
    }
    stage.assert_once();
}
