//! Tests manifests, and the locations of the files in them.

use crawlspace_wacz::{Location, Manifest, ManifestEntry, Options, Problem};
use redis_tests::{assert_contains, rows, with};

use crate::saved;
use crate::zipped::{Part, zip};

fn parse(at: &str, json: &str) -> Result<Manifest, String> {
    Manifest::parse(&Location::parse(at).unwrap(), json.as_bytes())
        .map_err(|error| error.to_string())
}

/// Returns the only entry of a list at `/archive/all.json`.
fn only(entry: &str) -> ManifestEntry {
    let manifest = parse(
        "/archive/all.json",
        &format!("{{\"resources\": [{entry}]}}"),
    )
    .unwrap();
    assert!(manifest.is_full);
    assert_eq!(manifest.entries.len(), 1);
    manifest.entries.into_iter().next().unwrap()
}

fn file(path: &str) -> Result<Location, String> {
    Ok(Location::File(path.into()))
}

#[test]
fn entry_name_defaults_to_the_path() {
    let full = r#"{"name": "a", "path": "b/c.wacz", "hash": "sha256:00", "size": 12, "crawlId": "crawl-1", "other": [{}]}"#;
    assert_eq!(
        only(full),
        ManifestEntry {
            name: "a".into(),
            location: file("/archive/b/c.wacz"),
            hash: Some("sha256:00".into()),
            size: Some(12),
            crawl: Some("crawl-1".into()),
        }
    );
    let least = only(r#"{"path": "b/c.wacz", "hash": null, "name": ""}"#);
    assert_eq!(
        (&least.name[..], least.hash, least.size, least.crawl),
        ("c.wacz", None, None, None)
    );
    assert_eq!(only(r#"{"path": "c", "bytes": 5}"#).size, Some(5));
    assert_eq!(
        only(r#"{"path": "c", "bytes": 5, "size": 6}"#).size,
        Some(6)
    );
    assert_eq!(only(r#"{"path": "c", "size": "7"}"#).size, Some(7));
    assert_eq!(
        only(r#"{"path": "c", "crawlId": 42}"#).crawl.as_deref(),
        Some("42")
    );
    let url = only(r#"{"path": "https://u:secret@example.org/x/a%20b.wacz?key=secret#f"}"#);
    assert_eq!(url.name, "a b.wacz");
    let expected = "https://example.org/x/a%20b.wacz?…";
    assert_eq!(url.location.unwrap().to_string(), expected);
}

#[test]
fn bad_entry_reports_its_reason_and_affects_no_other() {
    let reasons = rows![
        "{}", "entry 1", "it has no path";
        r#"{"name": "x"}"#, "x", "it has no path";
        r#"{"name": "x", "path": ""}"#, "x", "it has no path";
        r#"{"name": "x", "path": []}"#, "x", "its path is not a string";
        r#"{"name": {"a": [1.5, true]}, "path": "y/z"}"#, "z", "its name is not a string";
        r#"{"path": "y/z", "size": -1}"#, "z", "its size is not a number of bytes";
        r#"{"path": "y/z", "size": 1.5}"#, "z", "its size is not a number of bytes";
        r#"{"path": "y/z", "bytes": "many"}"#, "z", "its size is not a number of bytes";
        r#"{"path": "y/z\u0000"}"#, "entry 1", "its path contains a control character";
        r#"{"name": "a\nb", "path": "y/z"}"#, "z", "its name contains a control character";
        r#"{"path": "ftp://host/z.wacz"}"#, "z.wacz",
            "its path \"ftp://host/z.wacz\" cannot be used: ftp: URLs are not supported";
        r#"{"path": "file://host/z.wacz"}"#, "z.wacz",
            "its path \"file://host/z.wacz\" cannot be used: a file: URL";
        r#"{"path": "https://"}"#, "entry 1", "its path \"https://\" cannot be used: invalid URL";
        r#"{"path": "https://example.org/"}"#, "entry 1",
            "it has no name, and its path does not end in a file name";
        r#""text""#, "entry 1", "it is not an object";
        "17", "entry 1", "it is not an object";
        "null", "entry 1", "it is not an object";
        "[[]]", "entry 1", "it is not an object";
    ];
    for (entry, name, reason) in reasons {
        let manifest = parse(
            "/a/m.json",
            &format!("{{\"resources\": [{entry}, {{\"path\": \"good.wacz\"}}]}}"),
        )
        .unwrap();
        let [bad, good] = &manifest.entries[..] else {
            panic!()
        };
        assert_eq!(bad.name, name, "{entry}");
        let found = bad.location.as_ref().unwrap_err();
        assert!(found.starts_with(reason), "{entry}: {found}");
        assert_eq!(good.location, file("/a/good.wacz"));
    }
}

#[test]
fn remote_list_cannot_name_local_files() {
    let at = |path: &str| {
        let list = format!("{{\"resources\": [{{\"name\": \"x\", \"path\": \"{path}\"}}]}}");
        let manifest = parse("https://u:p@example.org/a/m.json?key=1", &list).unwrap();
        manifest.entries[0]
            .location
            .clone()
            .map(|location| match location {
                Location::Url(url) => url.to_string(),
                Location::File(path) => panic!("{}", path.display()),
            })
    };
    assert_eq!(at("b.wacz").unwrap(), "https://u:p@example.org/a/b.wacz");
    let expected = "https://u:p@example.org/b.wacz?x=1";
    assert_eq!(at("../b.wacz?x=1").unwrap(), expected);
    assert_eq!(
        at("/etc/passwd").unwrap(),
        "https://u:p@example.org/etc/passwd"
    );
    assert_eq!(
        at("http://other.example/b.wacz").unwrap(),
        "http://other.example/b.wacz"
    );
    for path in [
        "file:///etc/passwd",
        "FILE:/etc/passwd",
        "ftp://example.org/b.wacz",
        "data:,x",
        "unix:/run/x",
    ] {
        assert!(
            at(path).unwrap_err().contains("not an http(s) URL"),
            "{path}"
        );
    }
}

#[test]
fn invalid_list_is_refused() {
    for (json, reason) in [
        ("", "it is empty"),
        (" \n", "it is empty"),
        ("{}", "it has no list \"resources\""),
        (r#"{"resources": null}"#, "it has no list \"resources\""),
        (r#"{"resources": {"a": 1}}"#, "invalid type: map"),
        ("[]", "an object with a list \"resources\""),
        (r#"{"resources": [{"path": "a"}"#, "EOF while parsing"),
        ("<html>", "expected value"),
    ] {
        let error = parse("/archive/all.json", json).unwrap_err();
        assert!(
            error.starts_with("/archive/all.json: ") && error.contains(reason),
            "{json}: {error}"
        );
    }
    let deep = format!("{{\"a\": {}", "[".repeat(100_000));
    assert!(parse("/m.json", &deep).is_err());
    assert_eq!(
        parse("/m.json", "\u{feff}{\"resources\": []}")
            .unwrap()
            .entries
            .len(),
        0
    );
}

#[test]
fn package_is_recognized_by_name_or_content() {
    let folder = tempfile::tempdir().unwrap();
    let package = zip(&[Part::stored("a", b"b")]);
    let list = br#"{"resources": [{"path": "x.wacz"}, {"path": "/y.wacz"}]}"#;
    let options = with!(Options, manifest: list.len() as u64);
    let open = |path: &std::path::Path| Manifest::open(&path.into(), &options);
    for name in ["a.wacz", "a.WACZ", "a.zip", "a", "a.json"] {
        let path = saved(folder.path(), name, &package);
        let manifest = open(&path).unwrap();
        assert!(!manifest.is_full);
        assert_eq!(manifest.entries[0].location, Ok(path.as_path().into()));
        assert_eq!(&manifest.entries[0].name[..], name);
        assert_eq!(manifest.entries[0].crawl, None);
    }
    let path = saved(folder.path(), "list", list);
    let manifest = open(&path).unwrap();
    assert!(manifest.is_full);
    assert_eq!(
        manifest.entries[0].location,
        Ok(Location::File(folder.path().join("x.wacz")))
    );
    assert_eq!(manifest.entries[1].location, file("/y.wacz"));

    let path = saved(folder.path(), "long", &[list, &b" "[..]].concat());
    let error = open(&path).unwrap_err();
    assert!(
        matches!(
            error.problem,
            Problem::TooLarge {
                option: "manifest",
                ..
            }
        ),
        "{error}"
    );
    let error = open(folder.path()).unwrap_err();
    assert_contains(&error, "a folder, a pipe");
    let error = open(&folder.path().join("none")).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with(&folder.path().join("none").display().to_string()),
        "{error}"
    );
}

/// Saves a list with these members.
fn saved_list(folder: &std::path::Path, name: &str, entries: &str) -> Location {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, format!("{{\"resources\": [{entries}]}}")).unwrap();
    Location::File(path)
}

#[test]
fn unreachable_server_is_asked_for_one_list_only() {
    // A server that closes every connection without a response.
    let gone = redis_tests::ScriptedHost::start(|_| vec![redis_tests::Part::Close]);
    let there = redis_tests::FileHost::start();
    there.put(
        "/a.json",
        br#"{"resources": [{"path": "1.wacz"}]}"#,
        redis_tests::Manners::default(),
    );
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("all.json");
    let resources: Vec<_> = [
        gone.url("/a.json"),
        gone.url("/b.json"),
        there.url("/a.json"),
        gone.url("/c.json"),
    ]
    .into_iter()
    .map(|path| serde_json::json!({ "path": path }))
    .collect();
    std::fs::write(
        &list,
        serde_json::json!({ "resources": resources }).to_string(),
    )
    .unwrap();
    let options = with!(Options, retries: 2, pause: std::time::Duration::ZERO);
    let manifest = Manifest::open(&Location::File(list), &options).unwrap();
    let of = |n: usize| manifest.entries[n].location.clone();
    for n in [0, 1, 3] {
        assert!(of(n).is_err(), "{:?}", manifest.entries);
    }
    let reason = of(3).unwrap_err();
    let first = gone.url("/a.json");
    assert_contains(&reason, "its server did not respond");
    assert_contains(&reason, &first);
    assert_eq!(of(2).unwrap().to_string(), there.url("/1.wacz"));
    // The first request and its retries.
    assert_eq!(gone.asked().len(), 3);
}

#[test]
fn nested_lists_have_paths_relative_to_their_own_folders() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let outer = saved_list(
        at,
        "all.json",
        r#"{"path": "a.wacz"}, {"path": "sub/one.json", "crawlId": "c1"}, {"path": "sub/../sub/two.JSON"}, {"path": "z.wacz"}"#,
    );
    saved_list(
        at,
        "sub/one.json",
        r#"{"path": "b.wacz"}, {"path": "d.wacz", "crawlId": "own"}, {"path": "two.JSON"}"#,
    );
    saved_list(
        at,
        "sub/two.JSON",
        r#"{"path": "../e.wacz", "crawlId": "c2"}, {"path": "f.wacz"}"#,
    );
    let manifest = Manifest::open(&outer, &Options::default()).unwrap();
    assert!(manifest.is_full);
    let entries: Vec<_> = manifest
        .entries
        .into_iter()
        .map(|entry| (entry.location.unwrap(), entry.crawl))
        .collect();
    let entry =
        |path: &str, crawl: Option<&str>| (Location::File(at.join(path)), crawl.map(str::to_owned));
    assert_eq!(
        entries,
        [
            entry("a.wacz", None),
            entry("sub/b.wacz", Some("c1")),
            entry("sub/d.wacz", Some("own")),
            // The list appears twice, but is read once.
            entry("sub/../e.wacz", Some("c2")),
            entry("sub/f.wacz", Some("c1")),
            entry("z.wacz", None),
        ]
    );
}

#[test]
fn unusable_list_is_an_entry_of_an_unknown_crawl() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let open = |location: &Location| Manifest::open(location, &Options::default()).unwrap();
    let reasons = |manifest: Manifest| -> Vec<(String, Option<String>, String)> {
        let entries = manifest.entries.into_iter();
        let bad =
            entries.filter_map(|entry| Some((entry.name, entry.crawl, entry.location.err()?)));
        bad.collect()
    };
    let outer = saved_list(
        at,
        "all.json",
        r#"{"path": "none.json", "crawlId": "c"}, {"path": "sub/cycle.json"}, {"path": "a.wacz"}"#,
    );
    saved_list(
        at,
        "sub/cycle.json",
        r#"{"path": "b.wacz"}, {"path": "../all.json"}"#,
    );
    let manifest = open(&outer);
    assert_eq!(manifest.entries.len(), 4);
    let found = reasons(manifest);
    let names: Vec<_> = found
        .iter()
        .map(|(name, crawl, _)| (&name[..], crawl))
        .collect();
    assert_eq!(names, [("none.json", &None), ("all.json", &None)]);
    assert_contains(&found[1].2, "contains itself");
    assert_contains(&found[1].2, "cycle.json lists ");

    for depth in 1..=8 {
        let next = match depth {
            8 => r#"{"path": "deep.wacz"}"#.to_owned(),
            _ => format!("{{\"path\": \"{}.json\"}}", depth + 1),
        };
        saved_list(at, &format!("{depth}.json"), &next);
    }
    let second = Location::File(at.join("1.json"));
    assert_eq!(open(&second).entries[0].name, "deep.wacz");
    let first = saved_list(at, "0.json", r#"{"path": "1.json"}"#);
    let found = reasons(open(&first));
    assert_eq!(found[0].0, "8.json");
    assert_contains(&found[0].2, "more than 8 deep");
}
