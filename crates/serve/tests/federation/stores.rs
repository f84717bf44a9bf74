//! Tests of indexes and WARC files on web servers, and in object stores that check signatures.

use std::fs::read;
use std::path::Path;

use crawlspace_wacz::Index;
use redis_tests::archive::collection::{Collection, Shape};
use redis_tests::{FileHost, Manners, ObjectStore, Rng, Terms, assert_contains, but, with};
use tempfile::TempDir;

use crate::packages::{FIELDS, TIMES, config, pack, same, shelf};
use crate::pywb::both_ways::encoded;
use crate::serving::{Setup, Stage};

/// A generated archive in files: WARC files, an index, and the index as a cluster.
struct Archive {
    dir: TempDir,
    collection: Collection,
}

impl Archive {
    fn new(test: &str) -> Archive {
        let dir = tempfile::tempdir().unwrap();
        let shape = with!(Shape, name: "north", captures: 300);
        let mut collection = Collection::new(&mut Rng::new(test), shape);
        collection.store(&dir.path().join("warcs"));
        std::fs::write(dir.path().join("index.cdxj"), collection.cdxj()).unwrap();
        collection.cluster(&dir.path().join("cluster"), 20);
        Archive { dir, collection }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Copies all files with `put`, which gets the relative path and the content of each.
    fn copy(&self, mut put: impl FnMut(&str, &[u8])) {
        for folder in ["warcs", "cluster"] {
            for entry in std::fs::read_dir(self.path().join(folder)).unwrap() {
                let entry = entry.unwrap();
                let name = entry.file_name().into_string().unwrap();
                if !name.ends_with(".loc") {
                    put(&format!("{folder}/{name}"), &read(entry.path()).unwrap());
                }
            }
        }
        put("index.cdxj", &read(self.path().join("index.cdxj")).unwrap());
    }

    /// Returns a `.loc` file with the locations of the cluster's parts.
    fn loc(&self, base: &str) -> String {
        let line = |part: usize| format!("cdx-{part:05}.gz\t{base}/cluster/cdx-{part:05}.gz\n");
        [0, 1].map(line).concat()
    }

    /// Asserts that both collections give the same answers, for index and records.
    #[track_caller]
    fn is_same(&self, stage: &Stage, collection: &str) {
        let captures = &self.collection.captures;
        for capture in captures.iter().step_by(7) {
            let url = encoded(&capture.url);
            let time = &capture.timestamp;
            for query in [
                format!("index?url={url}&nosource=true"),
                format!("index?url={url}&nosource=true&sort=reverse"),
                format!("resource?url={url}&closest={time}"),
            ] {
                let [here, there] =
                    ["here", collection].map(|one| stage.get(format!("/{one}/{query}")));
                assert_eq!(
                    there.status,
                    here.status,
                    "{collection}: {query}: {}",
                    there.text()
                );
                assert_eq!(there.field("source-errors"), None, "{query}");
                assert!(there.body == here.body, "{collection}: {query}");
            }
        }
    }

    /// Returns a collection with the archive's local files.
    fn here(&self) -> String {
        let at = self.path().display();
        format!("\x20 here: {{index: {at}/index.cdxj, resource: {at}/warcs}}\n")
    }
}

/// Starts a server with these environment variables.
fn where_set(config: &str, variables: Vec<(&'static str, String)>) -> Stage {
    Stage::start_with(config, with!(Setup, is_apart: true, variables))
}

#[test]
fn remote_indexes_and_records_answer_like_local_ones() {
    let archive = Archive::new("remote_indexes_and_records_answer_like_local_ones");
    let host = FileHost::start();
    archive.copy(|path, bytes| host.put(&format!("/{path}"), bytes, Manners::default()));
    let base = host.url("");
    let loc = archive.path().join("cluster/cluster.loc");
    std::fs::write(&loc, archive.loc(&base)).unwrap();
    let (here, at) = (archive.here(), archive.path().display());
    let stage = Stage::start(&format!(
        "collections:\n{here}\
         \x20 beside: {{index: zipnum+{base}/cluster/cluster.idx, resource: {base}/warcs/}}\n\
         \x20 parts: {{index: {at}/cluster/cluster.idx, resource: {base}/warcs/}}\n\
         \x20 plain: {{index: {{type: file, path: '{base}/index.cdxj'}}, resource: {base}/warcs/}}\n"
    ));
    for collection in ["beside", "parts", "plain"] {
        archive.is_same(&stage, collection);
    }
    // A `.loc` file on the server also gives the locations of the parts.
    host.put(
        "/moved/cluster.idx",
        &read(archive.path().join("cluster/cluster.idx")).unwrap(),
        Manners::default(),
    );
    host.put(
        "/moved/cluster.loc",
        archive.loc("..").as_bytes(),
        Manners::default(),
    );
    let stage = Stage::start(&format!(
        "collections:\n{here}\x20 moved: {{index: {base}/moved/cluster.idx, resource: {base}/warcs/}}\n"
    ));
    archive.is_same(&stage, "moved");
    // Pages consist of blocks.
    let pages = stage
        .get("/moved/cdx?url=*.example.com&showNumPages=true&pageSize=1")
        .text();
    assert!(pages.trim().parse::<u32>().unwrap() > 3, "{pages}");
}

#[test]
fn objects_answer_like_local_files_to_signed_requests() {
    let archive = Archive::new("objects_answer_like_local_files_to_signed_requests");
    let token = Some("a+b/c=".to_owned());
    for terms in [
        Terms::default(),
        but!(Terms::default(), token: token.clone()),
        but!(Terms::default(), is_public: true),
    ] {
        let store = ObjectStore::start(terms.clone());
        archive.copy(|path, bytes| store.put(&format!("/bucket/an%20archive/{path}"), bytes));
        let loc = archive.path().join("cluster/cluster.loc");
        std::fs::write(&loc, archive.loc("s3://bucket/an archive")).unwrap();
        let (here, at) = (archive.here(), archive.path().display());
        let base = "s3://bucket/an%20archive";
        let list = archive.path().join("paths.txt");
        let warcs = archive.collection.captures.iter();
        let mut names: Vec<_> = warcs.map(|one| one.place.file.as_str()).collect();
        names.sort();
        names.dedup();
        let lines = names
            .iter()
            .map(|name| format!("{name}\t{base}/warcs/{name}\n"));
        std::fs::write(&list, lines.collect::<String>()).unwrap();
        let config = format!(
            "collections:\n{here}\
             \x20 beside: {{index: {base}/cluster/cluster.idx, resource: {base}/warcs}}\n\
             \x20 parts: {{index: {at}/cluster/cluster.idx, resource: {at}/paths.txt}}\n\
             \x20 plain: {{index: {base}/index.cdxj, resource: 'warc-prefix+{base}/warcs/'}}\n"
        );
        let mut variables = store.variables();
        if terms.is_public {
            variables.truncate(2);
        }
        variables.extend(terms.token.map(|token| ("AWS_SESSION_TOKEN", token)));
        let stage = where_set(&config, variables);
        for collection in ["beside", "parts", "plain"] {
            archive.is_same(&stage, collection);
        }
        assert_eq!(store.refusals(), [""; 0]);
        assert!(
            store
                .host()
                .requests()
                .iter()
                .all(|one| one.method == "GET")
        );
    }
}

#[test]
fn wrong_signature_gets_nothing_and_the_reason() {
    let archive = Archive::new("wrong_signature_gets_nothing_and_the_reason");
    let store = ObjectStore::start(Terms::default());
    archive.copy(|path, bytes| store.put(&format!("/bucket/{path}"), bytes));
    let config = "collections: {a: {index: s3://bucket/index.cdxj, resource: s3://bucket/warcs}}\n";
    let right = store.variables();
    let with = |name: &str, value: &str| {
        let variables = right.iter().cloned();
        let variables = variables.map(|(one, old)| {
            if one == name {
                (one, value.to_owned())
            } else {
                (one, old)
            }
        });
        variables.collect::<Vec<_>>()
    };
    for (variables, refusal, said) in [
        (
            with("AWS_SECRET_ACCESS_KEY", "other"),
            Some("SignatureDoesNotMatch"),
            "HTTP status 403",
        ),
        (
            with("AWS_ACCESS_KEY_ID", "other"),
            Some("InvalidAccessKeyId"),
            "HTTP status 403",
        ),
        (
            with("AWS_REGION", "us-east-1"),
            Some("InvalidAccessKeyId"),
            "HTTP status 403",
        ),
        (right[..2].to_vec(), Some("AccessDenied"), "HTTP status 403"),
        (right[..3].to_vec(), None, "AWS_SECRET_ACCESS_KEY is not"),
        (
            with("AWS_ENDPOINT_URL", "nothing"),
            None,
            "AWS_ENDPOINT_URL",
        ),
    ] {
        let stage = where_set(config, variables);
        let answer = stage.get("/a/index?url=http://example.com/");
        assert_eq!(answer.status, 502, "{}", answer.text());
        // Clients must not learn where the index is, and secrets must not appear anywhere.
        assert!(!answer.text().contains("bucket"), "{}", answer.text());
        let status = redis_tests::http::get(stage.operator(), "/_status").text();
        let log = stage.log();
        assert_contains(format!("{status}{log}"), said);
        assert!(
            !log.contains("X-Amz-Signature") && !log.contains("wJalrXUt"),
            "{log}"
        );
        assert_eq!(
            store
                .refusals()
                .last()
                .map(|why| &**why)
                .filter(|_| refusal.is_some()),
            refusal
        );
    }
    // The guard checks the address of a store like the address of any other server.
    store.host().take_requests();
    let stage = Stage::start_with(
        config,
        with!(Setup, is_guarded: true, is_apart: true, variables: store.variables()),
    );
    assert_eq!(stage.get("/a/index?url=http://example.com/").status, 502);
    assert_eq!(store.host().requests().len(), 0);
}

#[test]
fn packages_in_object_stores_answer_like_their_content() {
    let mut shelf = shelf();
    let index = shelf.write_index("index.cdxj");
    let store = ObjectStore::start(Terms::default());
    for file in ["north", "south"] {
        let path = shelf.path().join(file).with_extension("wacz");
        pack(
            &shelf,
            &index,
            &format!("{file}.warc.gz"),
            Index::Blocks(2),
            &path,
        );
        store.put(&format!("/bucket/crawls/{file}.wacz"), &read(path).unwrap());
    }
    let whole = [("north.wacz"), ("s3://bucket/crawls/south.wacz")];
    let put = |paths: &[&str]| {
        let paths: Vec<_> = paths
            .iter()
            .map(|path| serde_json::json!({ "path": path }))
            .collect();
        let list = serde_json::json!({ "resources": paths });
        store.put(
            "/bucket/crawls/collection.json",
            list.to_string().as_bytes(),
        );
    };
    put(&whole);
    store.put("/secrets/a.wacz", b"");
    let config = config(&index, &shelf, "s3://bucket/crawls/collection.json");
    let stage = where_set(&config, store.variables());
    same(&stage, FIELDS);
    put(&[whole[0], whole[1], "s3://secrets/a.wacz"]);
    let stage = where_set(&config, store.variables());
    let answer = stage.get("/w/index?url=http://example.com/1");
    assert_eq!(answer.text().lines().count(), TIMES.len());
    let said = answer.field("source-errors");
    assert_eq!(said, Some(r#"{"w":"incomplete, parts cannot be read"}"#));
    // If a list refers to a package in another bucket, the package is not requested, even though the access
    // key would allow it.
    let asked = store.host().requests();
    assert!(asked.iter().all(|one| !one.path.contains("secrets")));
    let status = redis_tests::http::get(stage.operator(), "/_status").text();
    assert_contains(status, "only a manifest in the same bucket may refer to it");
}
