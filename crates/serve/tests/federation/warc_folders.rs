//! Tests of folders of WARC files that the server indexes.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use redis_tests::http::get;
use redis_tests::packages::sized;
use redis_tests::{assert_contains, open_files_of, until};

use crate::serving::Stage;
use crate::shelf::Shelf;

const INDEXING: &str = "{\"c\":\"indexing\"}";
const INCOMPLETE: &str = "{\"c\":\"incomplete, parts cannot be read\"}";
const DOMAIN: &str = "/c/index?url=example.com&matchType=domain&output=json";

fn url(page: impl std::fmt::Display) -> String {
    format!("http://example.com/{page}")
}

/// Returns the URLs of all rows, in order, and the header `Source-Errors`.
fn found(stage: &Stage) -> (Vec<String>, Option<String>) {
    let answer = stage.get(DOMAIN);
    assert_eq!(answer.status, 200, "{}", answer.text());
    let errors = answer.field("source-errors").map(str::to_owned);
    let cached = answer.field("cache-control");
    assert_eq!(
        cached,
        errors.is_some().then_some("no-store"),
        "{:?}",
        answer.fields
    );
    let rows = answer.text();
    let rows = rows
        .lines()
        .map(|row| serde_json::from_str::<serde_json::Value>(row).unwrap());
    let urls = rows.map(|row| row["url"].as_str().unwrap().to_owned());
    (urls.collect(), errors)
}

/// Waits until the answer lists these pages.
#[track_caller]
fn until_found(stage: &Stage, pages: &[&str], errors: Option<&str>) {
    let pages: Vec<String> = pages.iter().map(url).collect();
    let expected = (pages, errors.map(str::to_owned));
    until("the folder is indexed", || found(stage) == expected);
}

/// Asserts that the server returns the record of a page.
#[track_caller]
fn assert_served(stage: &Stage, page: &str, payload: &str) {
    let answer = stage.get(format!("/c/resource?url={}", url(page)));
    assert_eq!(answer.status, 200, "{page}: {}", answer.text());
    assert!(answer.text().trim_end().ends_with(payload), "{page}");
}

/// Returns the paths of the indexes in the default cache of a folder.
fn cached(warcs: impl AsRef<Path>) -> Vec<PathBuf> {
    let folder = warcs.as_ref().join(".crawlspace/cdxj-2");
    let entries = fs::read_dir(folder).into_iter().flatten();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .filter(|path| path.extension().is_some_and(|end| end == "cdxj"))
        .collect()
}

fn capture(shelf: &Shelf, file: &str, page: &str) {
    shelf.response(file, &url(page), "20260102030405", page.as_bytes());
}

#[test]
fn folder_of_warc_files_is_served_and_followed() {
    let shelf = Shelf::new();
    capture(&shelf, "a.warc.gz", "a1");
    capture(&shelf, "sub/b.warc", "b1");
    let warcs = PathBuf::from(shelf.warcs());
    fs::write(warcs.join("notes.txt"), "no WARC file").unwrap();
    fs::write(warcs.join("empty.warc"), "").unwrap();
    let stage = Stage::start_apart(&format!("collections: {{c: warc+{}}}", shelf.warcs()));
    until_found(&stage, &["a1", "b1"], None);
    assert_served(&stage, "a1", "a1");
    assert_served(&stage, "b1", "b1");
    // The index has the lengths of cdxj-indexer.
    let metrics = get(stage.operator(), "/_metrics").text().to_owned();
    assert!(
        !metrics.contains("crawlspace_record_deviations_total{"),
        "{metrics}"
    );

    // A file grows, and its last record is cut.
    capture(&shelf, "a.warc.gz", "a2");
    until_found(&stage, &["a1", "a2", "b1"], None);
    let path = warcs.join("a.warc.gz");
    let whole = fs::read(&path).unwrap();
    capture(&shelf, "a.warc.gz", "a3");
    let more = fs::read(&path).unwrap();
    fs::write(&path, &more[..more.len() - 20]).unwrap();
    until_found(&stage, &["a1", "a2", "b1"], None);
    assert_served(&stage, "a2", "a2");
    fs::write(&path, &more).unwrap();
    until_found(&stage, &["a1", "a2", "a3", "b1"], None);

    // A file is replaced, and another one is added.
    let other = Shelf::new();
    capture(&other, "new.warc.gz", "other");
    fs::rename(PathBuf::from(other.warcs()).join("new.warc.gz"), &path).unwrap();
    capture(&shelf, "z.warc.gz", "z1");
    until_found(&stage, &["b1", "other", "z1"], None);
    assert_served(&stage, "other", "other");

    // A file is damaged: its captures before the damage stay.
    fs::write(&path, [&whole[..], b"damage", &whole].concat()).unwrap();
    until_found(&stage, &["a1", "a2", "b1", "z1"], Some(INCOMPLETE));
    assert_served(&stage, "a2", "a2");
    let seen = || {
        let status = get(stage.operator(), "/_status").text();
        let status: serde_json::Value = serde_json::from_str(&status).unwrap();
        status["collections"][0]["sources"][0].clone()
    };
    let status = seen();
    assert_contains(
        status["health"].as_str().unwrap(),
        path.display().to_string(),
    );
    let expected = serde_json::json!({"indexed": 3, "waiting": 0, "damaged": 1, "unreadable": 0});
    assert_eq!(status["warc_files"], expected);
    let metrics = get(stage.operator(), "/_metrics").text();
    let sample = "crawlspace_source_warc_files{collection=\"c\",step=\"1\",source=\"c\",type=\"warc\",state=\"damaged\"} 1";
    assert_contains(metrics, sample);
    let damages = stage
        .log()
        .matches("a WARC file is damaged; its captures")
        .count();
    assert_eq!(damages, 1, "{}", stage.log());

    // Files are removed, and so are their indexes.
    fs::remove_file(&path).unwrap();
    fs::remove_file(warcs.join("empty.warc")).unwrap();
    until_found(&stage, &["b1", "z1"], None);
    until("the indexes are removed", || cached(&warcs).len() == 2);
    assert_eq!(seen()["health"], "ok");
}

#[test]
fn second_server_and_reload_use_the_same_indexes() {
    let shelf = Shelf::new();
    capture(&shelf, "a.warc", "a1");
    let cache = shelf.path().join("cache");
    let config = format!(
        "collections:\n  c: {{index: {{type: warc, path: {}, cache_dir: {}}}}}\n",
        shelf.warcs(),
        cache.display()
    );
    let folder = tempfile::tempdir().unwrap();
    let one = Stage::start_in(folder.path(), &config);
    until_found(&one, &["a1"], None);
    let two = Stage::start_apart(&config);
    until_found(&two, &["a1"], None);
    assert!(!Path::new(&shelf.warcs()).join(".crawlspace").exists());
    let more = format!("allow_private: [127.0.0.0/8]\n{config}  d: $live\n");
    fs::write(folder.path().join("config.yaml"), more).unwrap();
    until("the configuration is reloaded", || {
        one.get("/d/index?url=x.test").status == 200
    });
    until_found(&one, &["a1"], None);
    for n in 2..6 {
        capture(&shelf, "a.warc", &format!("a{n}"));
        let all: Vec<String> = (1..=n).map(|n| format!("a{n}")).collect();
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        until_found(&one, &all, None);
        until_found(&two, &all, None);
    }
}

#[test]
fn folder_that_cannot_be_indexed_is_reported() {
    let shelf = Shelf::new();
    capture(&shelf, "a.warc", "a1");
    // The cache would be below a file.
    let file = shelf.path().join("file");
    fs::write(&file, "").unwrap();
    let absent = shelf.path().join("absent");
    let stage = Stage::start(&format!(
        "collections:\n  c: {{index: {{type: warc, path: {}, cache_dir: {}}}}}\n  absent: warc+{}\n",
        shelf.warcs(),
        file.join("cache").display(),
        absent.display()
    ));
    let answer = stage.get(DOMAIN);
    assert_eq!(answer.field("source-errors"), Some(INDEXING));
    let status = || get(stage.operator(), "/_status").text();
    assert_contains(status(), "set cache_dir to another one");
    // The other folder is read in the background.
    until("the absent folder is reported", || {
        status().contains(&absent.display().to_string())
    });
    // The folder appears.
    fs::create_dir(&absent).unwrap();
    let copied = fs::copy(
        Path::new(&shelf.warcs()).join("a.warc"),
        absent.join("a.warc"),
    );
    copied.unwrap();
    until("the folder is indexed", || {
        stage
            .get("/absent/index?url=http://example.com/a1")
            .text()
            .lines()
            .count()
            == 1
    });
}

#[test]
fn killed_server_continues_and_answers_meanwhile() {
    let many = sized(2_000, 10_000);
    let shelf = Shelf::new();
    for n in 0..many {
        capture(&shelf, &format!("{n}.warc.gz"), &format!("page-{n:05}"));
    }
    let warcs = PathBuf::from(shelf.warcs());
    let all: BTreeSet<String> = (0..many).map(|n| url(format!("page-{n:05}"))).collect();
    let config = format!("collections: {{c: warc+{}}}", shelf.warcs());
    for at in [50, 400, 900] {
        let mut stage = Stage::start_apart(&config);
        until("some files are indexed", || cached(&warcs).len() > at);
        let (pages, errors) = found(&stage);
        assert_eq!(errors.as_deref(), Some(INDEXING));
        assert!(pages.len() < many && pages.iter().all(|page| all.contains(page)));
        stage.program().signal(9);
        until("the server is gone", || stage.program().ended().is_some());
        // No index was partially written.
        let mut rows = BTreeSet::new();
        for path in cached(&warcs) {
            let text = fs::read_to_string(&path).unwrap();
            let row = text.strip_suffix("}\n").expect(&text);
            assert!(!row.contains('\n') && rows.insert(row.to_owned()), "{row}");
        }
    }
    let stage = Stage::start_apart(&config);
    until("all files are indexed", || found(&stage).1.is_none());
    assert_eq!(found(&stage).0, all.into_iter().collect::<Vec<_>>());
    for n in [0, many / 2, many - 1] {
        let page = format!("page-{n:05}");
        assert_served(&stage, &page, &page);
        let answer = stage.get(format!("/c/index?url={}", url(&page)));
        assert_eq!(answer.text().lines().count(), 1, "{}", answer.text());
    }
    assert!(open_files_of(stage.pid()) < 700);
    assert_eq!(cached(&warcs).len(), many);
}
