//! Tests manifests and their defaults.

use std::fs;

use redis_tests::archive::{Crawl, Crawler, Entry, Folder, Kind, Layout, Shape, crawl};
use redis_tests::{
    Options, Relay, Rng, Server, assert_contains, but, ok, plain_hash, rows, set_key, with,
};
use serde_json::json;

use crate::indexer::guards::larger;
use crate::indexer::stage::{
    COPY, Indexer, Outcome, Stage, assert_over, in_the_middle, killed, succeeded, unsized_entry,
};

/// Returns a server, and a folder with one file of a plain crawl with this number of captures.
fn one_file(captures: u64) -> (Server, Folder, Crawl) {
    let shape = with!(Shape, captures, waczs: 1, plain: true);
    let crawl = Crawler::new(Rng::seeded(1), shape).next_crawl();
    let mut folder = Folder::new();
    folder.write_as(&crawl, Layout::CdxjGzip);
    (Server::start(), folder, crawl)
}

/// Returns the names of a crawl's WACZ files.
fn waczs(server: &Server, crawl: &str) -> Vec<String> {
    let key = format!("{COPY}c:{crawl}:wacz");
    let list = ok!(server.wire(), "LRANGE", key, 0, -1);
    let name = |entry: &redis_tests::Reply| {
        let entry: serde_json::Value = serde_json::from_slice(entry.bytes()).expect("JSON");
        entry["filename"].as_str().expect("a name").to_owned()
    };
    list.items().iter().map(name).collect()
}

fn crawls(server: &Server) -> Vec<String> {
    set_key(&mut server.wire(), &format!("{COPY}allcrawls"))
}

#[test]
fn single_file_is_a_crawl_named_by_option_or_file() {
    let (server, folder, _) = one_file(50);
    let source = folder.file("0.wacz");
    let import = Indexer::new(&source);
    let import = import.redis(&server.url()).prefix(COPY);
    import.succeeds();
    assert_eq!(crawls(&server), ["0.wacz"]);
    assert_eq!(waczs(&server, "0.wacz"), ["0.wacz"]);
    for (option, crawl) in [("--crawl-id", "été 1"), ("--crawlId", "other")] {
        ok!(server.wire(), "FLUSHALL");
        import.clone().with(option, crawl).succeeds();
        assert_eq!(crawls(&server), [crawl]);
        assert_eq!(waczs(&server, crawl), ["0.wacz"]);
    }
}

#[test]
fn source_accepts_the_spellings_of_the_crawler() {
    let (server, folder, _) = one_file(50);
    let source = folder.file("0.wacz");
    let import = Indexer::new("").redis(&server.url()).prefix(COPY);
    let import = import.without("--source-url");
    let source = source.to_string_lossy();
    import.with("--sourceUrl", &source).succeeds();
    assert_eq!(crawls(&server), ["0.wacz"]);
}

#[test]
fn missing_entry_fields_are_taken_from_the_path() {
    let (server, folder, crawl) = one_file(50);
    let bytes = fs::read(folder.file("0.wacz")).expect("it is there");
    for path in ["a.wacz", "sub/b c.wacz", "sub/é.wacz", "d.wacz"] {
        let file = folder.file(path);
        fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
        fs::write(file, &bytes).expect("it is written");
    }
    let absolute = folder.file("d.wacz");
    let manifest = folder.file("some.json");
    let size = bytes.len();
    let hash = &folder.entries[0].hash;
    let resources = json!({"resources": [
        {"path": "a.wacz"},
        {"path": "sub/b c.wacz", "crawlId": "b"},
        {"path": "./sub/../sub/é.wacz", "name": "named", "hash": hash, "bytes": size},
        {"path": absolute, "crawlId": "b", "name": "d", "size": size},
    ]});
    fs::write(&manifest, resources.to_string()).expect("it is written");
    let import = Indexer::new(&manifest);
    let import = import.redis(&server.url()).prefix(COPY);
    import.succeeds();
    assert_eq!(crawls(&server), ["a.wacz", "b", "named"]);
    assert_eq!(waczs(&server, "b"), ["b c.wacz", "d"]);
    let names = set_key(&mut server.wire(), &format!("{COPY}src:d"));
    assert_eq!(names, ["a.wacz", "b c.wacz", "d", "named"]);

    // Pass an id for packages without a crawl id.
    ok!(server.wire(), "FLUSHALL");
    import.with("--crawl-id", "rest").succeeds();
    assert_eq!(crawls(&server), ["b", "rest"]);
    assert_eq!(waczs(&server, "rest"), ["a.wacz", "named"]);
    let responses = crawl.captures.iter();
    let responses = responses.filter(|c| c.kind == Kind::Response);
    let records = plain_hash(&mut server.wire(), COPY, "h:b");
    assert_eq!(records.len(), responses.count());
}

#[test]
fn name_is_imported_once_from_any_location() {
    let stage = Stage::new("moved");
    let twice = stage.folder.entries.iter().flat_map(|entry| {
        let moved = but!(entry.clone(), path: format!("moved {}.wacz", entry.size));
        let [from, to] = [&entry.path, &moved.path].map(|path| stage.folder.file(path));
        fs::copy(from, to).expect("a copy");
        [entry.clone(), moved]
    });
    let twice: Vec<Entry> = twice.collect();
    let source = stage.folder.manifest_of("twice.json", &twice);
    stage.import_of(&source).jobs(2).succeeds();
    stage.assert_once();
    // The result stays the same if every file is at another location.
    let moved: Vec<Entry> = twice.into_iter().skip(1).step_by(2).collect();
    let source = stage.folder.manifest_of("moved.json", &moved);
    let report = stage.import_of(&source).succeeds();
    assert_eq!(report["imported"], 0);
    stage.assert_once();
}

/// Returns the crawl with its files reordered: the `n`-th file was the `order[n]`-th.
pub fn reordered(made: &Crawl, order: &[usize]) -> Crawl {
    let mut crawl = made.clone();
    crawl.waczs = order.iter().map(|&old| made.waczs[old].clone()).collect();
    for capture in &mut crawl.captures {
        let new = order.iter().position(|&old| old == capture.wacz);
        capture.wacz = new.expect("every file has a new place");
    }
    crawl
}

/// Returns the files of a crawl in listed order, and the position of each in the crawl.
pub fn files_in_order(made: &Crawl, listed: &[Entry]) -> (Vec<Entry>, Vec<usize>) {
    let files = listed.iter().filter(|entry| entry.crawl == made.id);
    let files: Vec<Entry> = files.cloned().collect();
    let place = |file: &Entry| made.waczs.iter().position(|name| *name == file.name);
    let order = files
        .iter()
        .map(|file| place(file).expect("it is the crawl's"));
    let order = order.collect();
    (files, order)
}

#[test]
fn wacz_indexes_follow_the_manifest_and_not_the_fastest_worker() {
    let shape = with!(Shape, waczs: 8, captures: 900);
    let mut stage = Stage::with("shuffled", Options::new(), 3, shape);
    let mut c = stage.server.wire();
    for round in 0..3 {
        let (live, copy) = (format!("{{live-{round}}}:"), format!("{{copy-{round}}}:"));
        // One file of each crawl comes first, in the order of the crawls; all other files follow,
        // shuffled.
        let mut rest = stage.folder.entries.clone();
        stage.rng.shuffle(&mut rest);
        let mut listed = Vec::new();
        for made in &stage.crawls {
            let first = rest.iter().position(|entry| entry.crawl == made.id);
            listed.push(rest.remove(first.expect("each crawl has a file")));
        }
        listed.extend(rest);
        for made in &stage.crawls {
            let (files, order) = files_in_order(made, &listed);
            crawl(&mut c, &live, &reordered(made, &order), &files);
        }
        let source = stage.folder.manifest_of("shuffled.json", &listed);
        let import = stage.import_of(&source).prefix(&copy).jobs(4);
        for one in [import.start(), import.start()] {
            succeeded(&one.end());
        }
        assert_over(&mut c, &copy);
        let live = Outcome::of(&mut c, &live);
        Outcome::of(&mut c, &copy).assert_same(&live, "a manifest in another order");
    }
}

#[test]
fn next_import_finishes_a_crashed_one_with_any_manifest() {
    let stage = Stage::with("leftover", Options::new(), 4, larger());
    let relay = Relay::to(&stage.server);
    relay.hold_after(100_000);
    let mut first = stage.import_over(&relay, COPY).start();
    in_the_middle(&relay, &mut first);
    killed(first, &relay);
    // The second manifest lists only the last crawl, which has been queued already.
    let source = stage.folder.manifest_of("last.json", &stage.files_of(3));
    stage.import_of(&source).succeeds();
    let mut c = stage.server.wire();
    assert_over(&mut c, COPY);
    let [live, copy] = stage.both();
    assert_eq!(copy.count("removedCrawls"), 3, "three crawls are unlisted");
    let not_listed = stage.files_that(|entry| entry.crawl != stage.crawls[3].id);
    let size: i64 = not_listed.iter().map(|entry| entry.size as i64).sum();
    assert_eq!(copy.count("removedCrawlSize"), size);
    let copy = copy.without_removed();
    copy.assert_same(&live, "an import finished with another manifest");
}

#[test]
fn single_file_import_finishes_a_crashed_import() {
    let stage = Stage::with("leftover file", Options::new(), 3, larger());
    let relay = Relay::to(&stage.server);
    relay.hold_after(150_000);
    let mut first = stage.import_over(&relay, COPY).start();
    in_the_middle(&relay, &mut first);
    killed(first, &relay);
    let (server, folder, _) = one_file(20);
    drop(server);
    let source = folder.file("0.wacz");
    let import = stage.import_of(&source);
    import.with("--crawl-id", "one more").succeeds();
    ok!(stage.server.wire(), "DEDUPE.REMOVE", COPY, "one more");
    stage.assert_once();
}

#[test]
fn missing_single_file_is_reported() {
    let stage = Stage::new("no file");
    let source = stage.folder.file("nothing.wacz");
    let failed = stage.import_of(&source).fails_some();
    assert_eq!(failed.keys().collect::<Vec<_>>(), ["nothing.wacz"]);
    stage.import().succeeds();
    stage.assert_once();
}

#[test]
fn unreadable_source_is_reported() {
    let (server, folder, _) = one_file(10);
    let path = |name: &str, text: &str| {
        let path = folder.file(name);
        fs::write(&path, text).expect("it is written");
        path.to_string_lossy().into_owned()
    };
    for (source, why) in rows![
        folder.file("nothing.json").to_string_lossy().into_owned(), "";
        path("empty.json", ""), "empty";
        path("text.json", "no JSON"), "";
        path("list.json", "[]"), "resources";
        path("other.json", "{\"profile\": \"x\"}"), "resources";
        path("cut.json", "{\"resources\": [{\"path\": \"0.wacz\"}"), "";
        "ftp://example.org/a.json".into(), "ftp";
    ] {
        let errors = Indexer::new(&source).redis(&server.url()).fails();
        assert_contains(&errors, &source);
        assert_contains(&errors, why);
        assert_eq!(ok!(server.wire(), "DBSIZE").int(), 0, "{source}");
    }
}

#[test]
fn source_that_is_not_a_regular_file_is_refused_at_once() {
    let (server, folder, _) = one_file(10);
    let pipe = folder.file("pipe.json");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    for source in [&*pipe, folder.path()] {
        let errors = Indexer::new(source).redis(&server.url()).fails();
        let told = format!("{}: it is not a regular file", source.display());
        assert_contains(&errors, &told);
    }
    // The import rejects a pipe that a list names, and imports the other entry of the list.
    let outer = folder.file("outer.json");
    let manifest = json!({"resources": [{"path": "pipe.json"}, {"path": "0.wacz"}]});
    fs::write(&outer, manifest.to_string()).expect("it is written");
    let import = Indexer::new(&outer);
    let failed = import.redis(&server.url()).prefix(COPY).fails_some();
    assert_eq!(failed.keys().collect::<Vec<_>>(), ["pipe.json"]);
    assert_contains(&failed["pipe.json"], "not a regular file");
    assert_eq!(crawls(&server), ["0.wacz"]);
}

#[test]
fn name_is_limited_to_a_kibibyte() {
    let (server, mut folder, made) = one_file(50);
    let long = "n".repeat(1024);
    let path = folder.entries[0].path.clone();
    folder.entries.clear();
    folder.list(&long, &path, &"c".repeat(1024));
    let import = Indexer::new(folder.manifest()).redis(&server.url());
    let import = import.prefix(COPY);
    import.succeeds();
    let listed = waczs(&server, &"c".repeat(1024));
    assert_eq!(listed, std::slice::from_ref(&long));
    // The data recorded for revisits include the file name.
    let mut kinds = made.captures.iter().map(|c| c.kind);
    assert!(kinds.any(|kind| kind == Kind::Revisit));

    let (name, crawl) = (format!("{long}n"), "c".repeat(1025));
    folder.list(&name, &path, "c");
    folder.list("short", &path, &crawl);
    let source = folder.manifest();
    let failed = import.with("--source-url", &source).fails_some();
    assert_eq!(failed.keys().collect::<Vec<_>>(), [&name, "short"]);
}

#[test]
fn nested_manifests_are_read_and_an_unreadable_one_prevents_removals() {
    let stage = Stage::new("nested");
    let entries = &stage.folder.entries;
    let half = entries.len() / 2;
    let inner = stage.folder.manifest_of("inner.json", &entries[half..]);
    let mut resources: Vec<_> = entries[..half].iter().map(unsized_entry).collect();
    resources.push(json!({"path": "inner.json"}));
    let import = stage.import_list("outer.json", &resources);
    let import = import.flag("--remove");
    import.succeeds();
    stage.assert_once();
    // Delete the inner manifest, which could have listed any package.
    fs::remove_file(inner).expect("it was there");
    let failed = import.fails_some();
    assert_eq!(failed.keys().collect::<Vec<_>>(), ["inner.json"]);
    stage.assert_once();
    assert_eq!(crawls(&stage.server).len(), 3);
    let ended = import.flag("--ignore-failed").run();
    assert_eq!(ended.status.code(), Some(1), "{}", ended.errors);
}

#[test]
fn replay_json_of_browsertrix_is_a_manifest() {
    let stage = Stage::new("replay.json");
    let last = &stage.crawls[2].id;
    let entries = stage.folder.entries.iter().map(|entry| {
        json!({"name": entry.name, "path": entry.path, "hash": entry.hash, "size": entry.size,
            "crawlId": entry.crawl, "numReplicas": 1, "expireAt": "2026-03-19T10:20:15Z",
            "fromDependency": entry.crawl != *last})
    });
    let entries: Vec<_> = entries.collect();
    let import = stage.import_list("replay.json", &entries).flag("--remove");
    for _ in 0..2 {
        assert_eq!(import.succeeds()["removedCrawls"], 0);
        stage.assert_once();
    }
}
