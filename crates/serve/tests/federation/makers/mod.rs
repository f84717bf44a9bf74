//! Tests of packages and indexes by every maker: each capture is found under one urlkey, wherever the maker put its
//! line.

pub mod asking;
pub mod corpus;
pub mod maker;
pub mod requests;
mod revisits;

use std::fmt::Write as _;
use std::path::Path;

use redis_tests::{FileHost, Manners, rows};
use serde_json::json;

use self::asking::{Client, Expected, MatchType, WAYS, asked, by_urlkey, encoded, is_target, scan};
use self::corpus::{Corpus, many, odd, payload};
use self::maker::{Family, MAKERS, Maker, Row};
use crate::resource::record;
use crate::serving::Stage;

/// Writes a maker's index and its WARC files into a folder. Returns the collection for a configuration.
fn put(folder: &Path, name: &str, maker: &Maker, rows: &[Row], warcs: &[(&str, &[u8])]) -> String {
    if !maker.loose {
        let path = folder.join(format!("{name}.wacz"));
        std::fs::write(&path, maker.package(rows, warcs)).unwrap();
        return path.display().to_string();
    }
    let index = folder.join(name);
    let files = folder.join(format!("{name}-warcs"));
    for folder in [&index, &files] {
        std::fs::create_dir(folder).unwrap();
    }
    for (name, bytes) in maker.index(&maker.lines(rows), name) {
        std::fs::write(index.join(name), bytes).unwrap();
    }
    for (name, bytes) in warcs {
        std::fs::write(files.join(name), bytes).unwrap();
    }
    format!(
        "{{index: {}, resource: {}}}",
        index.display(),
        files.display()
    )
}

#[test]
fn unusual_urls_are_found_in_indexes_of_every_tool() {
    let dir = tempfile::tempdir().unwrap();
    let corpus = odd("data.warc.gz");
    let mut config = "collections:\n".to_owned();
    for maker in &MAKERS {
        let name = maker.slug();
        let at = put(dir.path(), &name, maker, &corpus.rows, &corpus.files());
        let _ = writeln!(config, "  {name}: {at}");
    }
    // Browsertrix Crawler also writes indexes outside of packages, with lines of the same form.
    let js = &MAKERS[5];
    let (plain, warcs) = (
        dir.path().join("js.cdxj"),
        dir.path().join("cdxj-indexer-1-5-0--c-warcs"),
    );
    std::fs::write(&plain, js.lines(&corpus.rows).join("\n") + "\n").unwrap();
    let _ = writeln!(
        config,
        "  plain: {{index: {}, resource: {}}}",
        plain.display(),
        warcs.display()
    );
    let stage = Stage::start(&config);
    let all = by_urlkey(&corpus.rows);
    let plain = ("plain".to_owned(), js.family);
    let makers = MAKERS.iter().map(|maker| (maker.slug(), maker.family));
    for (name, family) in makers.chain([plain]) {
        let mut client = Client::new(&stage, &name);
        for (n, row) in corpus.rows.iter().enumerate() {
            let expected = Expected::new(&all, row, family);
            // Each URL has three captures, which are queried in two ways each.
            for way in (0..WAYS).filter(|way| way % 3 == n % 3) {
                asked(&mut client, way, row, &expected, &name);
            }
            let body = payload(&row.url, &row.time);
            let target = format!("resource?url={}&closest={}", encoded(&row.url), row.time);
            let (_, block) = record(&client.ask(&target));
            assert!(block.ends_with(body.as_bytes()), "{name}: {target}");
            if is_target(&row.url) {
                let answer = client.ask(&format!("{}id_/{}", row.time, row.url));
                assert_eq!(answer.text(), body, "{name}");
            }
        }
        for (url, match_type) in [
            ("http://example.com/", MatchType::Prefix),
            ("http://example.com/p", MatchType::Prefix),
            ("http://example.com/about/", MatchType::Prefix),
            ("http://example.com/", MatchType::Host),
            ("http://example.com/", MatchType::Domain),
            ("http://example/", MatchType::Domain),
        ] {
            scan(&mut client, url, match_type, &corpus.rows, 7, &name);
        }
    }
}

/// Line counts at which makers compress an index, or end a block.
const SIZES: [usize; 8] = [1, 1023, 1024, 1025, 2999, 3000, 3001, 10_000];

#[test]
fn no_line_is_lost_at_block_boundaries() {
    let dir = tempfile::tempdir().unwrap();
    let corpora = SIZES.map(many);
    let mut config = "collections:\n".to_owned();
    for maker in &MAKERS {
        for rows in &corpora {
            let name = format!("{}-{}", maker.slug(), rows.len());
            let at = put(dir.path(), &name, maker, rows, &[("data.warc.gz", b"")]);
            let _ = writeln!(config, "  {name}: {at}");
        }
    }
    let stage = Stage::start(&config);
    let ask = |maker: &Maker| {
        for rows in &corpora {
            let name = format!("{}-{}", maker.slug(), rows.len());
            let mut client = Client::new(&stage, &name);
            let all = by_urlkey(rows);
            for (n, row) in at_edges(maker, rows).into_iter().enumerate() {
                let expected = Expected::new(&all, row, maker.family);
                asked(&mut client, n % WAYS, row, &expected, &name);
            }
            let page = rows.len() / 2 + 1;
            let host = "http://example.com/";
            scan(&mut client, host, MatchType::Prefix, rows, page, &name);
            let part = "http://example.com/p/000";
            scan(&mut client, part, MatchType::Prefix, rows, page, &name);
        }
    };
    std::thread::scope(|scope| {
        for maker in &MAKERS {
            scope.spawn(move || ask(maker));
        }
    });
}

/// Returns rows near the edges of blocks, in the maker's order, and some in between.
fn at_edges<'a>(maker: &Maker, rows: &'a [Row]) -> Vec<&'a Row> {
    let mut sorted: Vec<&Row> = rows.iter().collect();
    let place = |row: &&Row| (row.keys[maker.family as usize].clone(), row.time.clone());
    sorted.sort_by_cached_key(place);
    let is_near = |n: usize| (n + 2) % maker.block < 5 || n.is_multiple_of(61);
    let near = sorted.iter().enumerate().filter(|(n, _)| is_near(*n));
    near.map(|(_, row)| *row).collect()
}

/// Creates packages with some of the captures each, by all makers in turn. Their WARC files have the same name.
fn packages(count: usize, corpus: &Corpus) -> Vec<(String, Vec<u8>)> {
    let makers: Vec<&Maker> = MAKERS.iter().filter(|maker| !maker.loose).collect();
    let mut parts: Vec<Corpus> = Vec::new();
    parts.resize_with(count, Corpus::default);
    for (n, row) in corpus.rows.iter().enumerate() {
        let [js, surt] = row.keys.each_ref().map(|key| &**key);
        let payload = payload(&row.url, &row.time);
        parts[n % count].capture("data.warc.gz", [&row.url, js, surt], &row.time, &payload);
    }
    let packed = parts.iter().enumerate().map(|(n, part)| {
        let maker = makers[n % makers.len()];
        (
            format!("{n:02}.wacz"),
            maker.package(&part.rows, &part.files()),
        )
    });
    packed.collect()
}

#[test]
fn many_packages_answer_as_one_with_the_right_records() {
    let dir = tempfile::tempdir().unwrap();
    let corpus = odd("data.warc.gz");
    let folder = dir.path().join("packages");
    std::fs::create_dir(&folder).unwrap();
    let host = FileHost::start();
    let mut listed = Vec::new();
    for (name, bytes) in packages(40, &corpus) {
        std::fs::write(folder.join(&name), &bytes).unwrap();
        host.put(&format!("/{name}"), &bytes, Manners::default());
        listed.push(json!({"name": name, "path": name}));
    }
    let list = json!({"resources": listed}).to_string();
    let here = folder.join("collection.json");
    std::fs::write(&here, &list).unwrap();
    host.put("/collection.json", list.as_bytes(), Manners::default());
    let stage = Stage::start(&format!(
        "collections:\n  folder: wacz+{}\n  list: wacz+{}\n  remote: wacz+{}\n",
        folder.display(),
        here.display(),
        host.url("/collection.json")
    ));
    let all = by_urlkey(&corpus.rows);
    let ask = |name: &str| {
        let mut client = Client::new(&stage, name);
        for (n, row) in corpus.rows.iter().enumerate() {
            let expected = Expected::new(&all, row, Family::Js);
            asked(&mut client, n % WAYS, row, &expected, name);
            let target = format!("resource?url={}&closest={}", encoded(&row.url), row.time);
            let (_, block) = record(&client.ask(&target));
            assert!(
                block.ends_with(payload(&row.url, &row.time).as_bytes()),
                "{name}: {target}"
            );
        }
        for match_type in [MatchType::Prefix, MatchType::Domain] {
            scan(
                &mut client,
                "http://example.com/",
                match_type,
                &corpus.rows,
                50,
                name,
            );
        }
    };
    std::thread::scope(|scope| {
        for name in ["folder", "list", "remote"] {
            scope.spawn(move || ask(name));
        }
    });
}

#[test]
fn access_rules_apply_to_every_key_format() {
    const HIDDEN: [&str; 4] = rows![
        "com,example)/about"; "com,example)/~user"; "com,example)/double/slash"; "com,example)/p?a={";
    ];
    let dir = tempfile::tempdir().unwrap();
    let rules = dir.path().join("rules.aclj");
    let mut lines = HIDDEN.map(|key| format!("{key} - {{\"access\": \"exclude\"}}\n"));
    lines.sort_unstable_by(|a, b| b.cmp(a));
    std::fs::write(&rules, lines.concat()).unwrap();
    let corpus = odd("data.warc.gz");
    let is_hidden = |row: &Row| HIDDEN.iter().any(|key| row.urlkey.starts_with(key));
    let shown: Vec<Row> = corpus
        .rows
        .iter()
        .filter(|row| !is_hidden(row))
        .cloned()
        .collect();
    assert!(shown.len() + 20 < corpus.rows.len());
    let mut config = "collections:\n".to_owned();
    for maker in &MAKERS {
        let name = maker.slug();
        let at = put(dir.path(), &name, maker, &corpus.rows, &corpus.files());
        let index = if maker.loose {
            at.trim_matches(['{', '}']).to_owned()
        } else {
            format!("index: {at}")
        };
        let _ = writeln!(
            config,
            "  {name}: {{{index}, acl_paths: {}}}",
            rules.display()
        );
    }
    let stage = Stage::start(&config);
    for maker in &MAKERS {
        let name = maker.slug();
        let mut client = Client::new(&stage, &name);
        scan(
            &mut client,
            "http://example.com/",
            MatchType::Domain,
            &shown,
            40,
            &name,
        );
        for row in corpus.rows.iter().filter(|row| is_hidden(row)) {
            let url = encoded(&row.url);
            assert_eq!(client.rows(&format!("url={url}")), [], "{name}: {url}");
            assert_eq!(client.columns(&format!("url={url}")), [], "{name}: {url}");
            let mut targets = vec![
                format!("resource?url={url}&closest={}", row.time),
                format!(
                    "resource?url=http://example.com/*&filter==timestamp:{}",
                    row.time
                ),
            ];
            for key in &row.keys {
                targets.push(format!(
                    "resource?url=http://example.com/*&filter==urlkey:{}",
                    encoded(key)
                ));
            }
            if is_target(&row.url) {
                targets.push(format!("timemap/link/{}", row.url));
                targets.push(format!("{}id_/{}", row.time, row.url));
            }
            for target in targets {
                let answer = client.send("GET", &target, "", "");
                assert_eq!(answer.status, 404, "{name}: {target}: {}", answer.text());
            }
        }
    }
}
