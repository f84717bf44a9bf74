//! Tests the client's `TAGS.*` methods against a live server.

use crawlspace_client::tags::{
    Captures, Collapse, Dialect, Filter, Format, Kind, Mode, Page, Point, Rule, TagSpace,
};
use crawlspace_client::{Code, Error};
use redis_tests::{Server, but, with};

use crate::refused;

/// Creates a tag space similar to the one of Archive-It.
fn archive(server: &Server) -> TagSpace {
    let space = TagSpace::open(&server.url(), "tags").unwrap();
    let regex = br"(?:^|/)ARCHIVEIT-(\d+)-";
    let rule = space.rule_set(b"coll", b"filename", regex, &[b"coll:$1"]);
    rule.unwrap();
    space.point_set(b"all", b"coll:* & !private").unwrap();
    space.point_set(br"org-(\d+)", b"org:$1").unwrap();
    let tags = [("coll:1", "org:7"), ("coll:2", "org:7 private")];
    space.load(Kind::Tag, Mode::Merge, &tags).unwrap();
    space
}

fn cdx(collection: u32) -> String {
    format!(
        "org,example)/ 20240501120000 http://example.org/ text/html 200 AAAA - - 100 17 \
         ARCHIVEIT-{collection}-2024.warc.gz"
    )
}

fn texts(items: &[Vec<u8>]) -> Vec<String> {
    let text = |item: &Vec<u8>| String::from_utf8(item.clone()).unwrap();
    items.iter().map(text).collect()
}

#[test]
fn tags_are_added_read_and_removed() {
    let server = Server::start();
    let space = archive(&server);
    let file = b"x/ARCHIVEIT-2-2024.warc.gz";
    assert_eq!(space.add(Kind::File, file, &[b"b", b"a"]).unwrap(), 2);
    assert_eq!(space.add(Kind::File, file, &[b"b"]).unwrap(), 0);
    assert_eq!(space.add(Kind::File, file, &[]).unwrap(), 0);
    assert_eq!(texts(&space.get(Kind::File, file).unwrap()), ["a", "b"]);
    let expected = ["a", "b", "coll:2", "org:7", "private"];
    assert_eq!(texts(&space.get_all(Kind::File, file).unwrap()), expected);
    assert_eq!(space.rem(Kind::File, file, &[b"a", b"c"]).unwrap(), 1);
    assert!(space.get(Kind::Record, b"nobody").unwrap().is_empty());
    let cycle = space.add(Kind::Tag, b"org:7", &[b"coll:1"]);
    refused(cycle, Code::Cycle);
}

/// Returns the items of all pages.
fn walked<T>(page: impl Fn(u64) -> Result<Page<T>, Error>) -> Vec<T> {
    let (mut cursor, mut all) = (0, Vec::new());
    loop {
        let page = page(cursor).unwrap();
        all.extend(page.items);
        cursor = page.next;
        if cursor == 0 {
            return all;
        }
    }
}

#[test]
fn many_ids_are_loaded_scanned_and_swapped() {
    let server = Server::start();
    let space = archive(&server);
    let entries = (0..2500).map(|n| (format!("coll:{n}"), format!("org:{}", n % 3)));
    let entries: Vec<(String, String)> = entries.collect();
    assert_eq!(space.load(Kind::Tag, Mode::Stage, &entries).unwrap(), 2500);
    let info = space.info().unwrap();
    assert_eq!((info.tag_ids, info.staged_tag_ids), (2, 2500));
    assert_eq!((info.rules, info.points), (1, 2));
    assert!(info.memory > 0);
    refused(space.swap(Kind::Tag, Some(2499)), Code::NoStage);
    assert_eq!(space.swap(Kind::Tag, Some(2500)).unwrap(), 2500);
    refused(space.swap(Kind::Tag, None), Code::NoStage);
    space.load(Kind::Tag, Mode::Stage, &[("a", "b")]).unwrap();
    assert_eq!(space.discard(Kind::Tag).unwrap(), 1);
    assert_eq!(space.discard(Kind::Tag).unwrap(), 0);

    let mut found = walked(|cursor| space.scan(Kind::Tag, cursor, b"coll:1", Some(100)));
    found.sort();
    found.dedup();
    let expected = entries.iter().filter(|(id, _)| id.starts_with("coll:1"));
    let bytes = |(id, tags): &(String, String)| (id.clone().into(), tags.clone().into());
    let mut expected: Vec<(Vec<u8>, Vec<u8>)> = expected.map(bytes).collect();
    expected.sort();
    assert_eq!(found, expected);

    let none: [(&str, &str); 0] = [];
    space.load(Kind::Tag, Mode::Replace, &none).unwrap();
    let private = [("coll:1", "private")];
    space.load(Kind::Tag, Mode::Set, &private).unwrap();
    let private = walked(|cursor| space.list(b"private", b"coll:", cursor, Some(10)));
    assert_eq!(texts(&private), ["coll:1"]);
}

#[test]
fn rules_and_points_are_returned_as_set() {
    let server = Server::start();
    let space = archive(&server);
    let rule = Rule {
        name: b"coll".to_vec(),
        field: b"filename".to_vec(),
        regex: br"(?:^|/)ARCHIVEIT-(\d+)-".to_vec(),
        templates: vec![b"coll:$1".to_vec()],
    };
    assert_eq!(space.rules().unwrap(), [rule]);
    let point = |name: &[u8], expression: &[u8]| Point {
        name: name.to_vec(),
        expression: expression.to_vec(),
    };
    let all = point(b"all", b"coll:* & !private");
    let points = [all, point(br"org-(\d+)", b"org:$1")];
    assert_eq!(space.points().unwrap(), points);
    assert_eq!(space.point(b"org-7").unwrap().expression, b"org:7");
    refused(space.point(b"nowhere"), Code::NoPoint);
    assert!(space.rule_delete(b"coll").unwrap());
    assert!(!space.rule_delete(b"coll").unwrap());
    assert!(space.point_delete(b"all").unwrap());
    assert!(!space.point_delete(b"all").unwrap());
    let bad = space.rule_set(b"x", b"filename", b"(", &[b"y"]);
    refused(bad, Code::BadRegex);
}

#[test]
fn batch_is_filtered_in_every_form() {
    let server = Server::start();
    let space = archive(&server);
    let lines = [cdx(1), cdx(2), cdx(3), "no line".to_owned()];
    let blob = lines[..3].join("\n");
    let lines: Vec<&[u8]> = lines.iter().map(|line| line.as_bytes()).collect();
    let good = Captures::Lines(&lines[..3]);
    let all = with!(Filter, point: Some(b"all"));
    let expected = [lines[0], lines[2]];
    assert_eq!(space.filter_lines(&all, &lines[..3]).unwrap(), expected);
    let kept = [lines[0], b"\n", lines[2], b"\n"].concat();
    assert_eq!(space.filter_blob(&all, blob.as_bytes()).unwrap(), kept);
    assert_eq!(space.indices(&all, good).unwrap(), [0, 2]);
    assert_eq!(space.bits(&all, good).unwrap(), [0b1010_0000]);
    let blob = Captures::Blob(blob.as_bytes());
    assert_eq!(space.count(&all, blob).unwrap(), 2);
    let tagged = space.tagged(&all, good).unwrap();
    assert_eq!(tagged[0].index, 0);
    assert_eq!(texts(&tagged[0].tags), ["coll:1", "org:7"]);
    assert_eq!(space.count(&all, Captures::Lines(&[])).unwrap(), 0);

    refused(space.filter_lines(&all, &lines), Code::BadLine);
    let most = Filter {
        condition: Some(b"*"),
        specs: vec![b"mime:contains-nothing", b"!=status:404"],
        dialect: Dialect::Pywb,
        drop_bad_lines: true,
        ..all.clone()
    };
    assert!(space.filter_lines(&most, &lines).unwrap().is_empty());
    let field = b"timestamp";
    let first = Filter {
        collapse: Some(Collapse {
            field,
            first: Some(4),
        }),
        format: Format::Cdx,
        ..Filter::default()
    };
    assert_eq!(space.indices(&first, good).unwrap(), [0]);
    let second = but!(all.clone(), skip: 1, limit: Some(1));
    assert_eq!(space.indices(&second, good).unwrap(), [2]);
    let unknown = with!(Filter, point: Some(b"nowhere"));
    refused(space.count(&unknown, good), Code::NoPoint);

    let told = space.explain(&all, lines[1]).unwrap();
    assert!(!told.keep);
    assert_eq!(told.format, "CDX");
    let sources = told
        .tags
        .iter()
        .map(|it| [it.tag.clone(), it.source.clone()]);
    let sources: Vec<_> = sources.map(|both| texts(&both).join(" by ")).collect();
    for expected in ["coll:2 by rule coll", "private by tag coll:2"] {
        assert!(
            sources.iter().any(|source| source == expected),
            "{expected}"
        );
    }
    assert!(!told.clauses[0].holds && !told.clauses[0].parts.is_empty());
}
