//! The typed calls for tags, and `crawlspace tags filter`, `explain` and `info`, against a live server.

use std::io::Write;
use std::process::{Output, Stdio};

use crawlspace_client::Code;
use crawlspace_client::tags::{
    Captures, Collapse, Dialect, Filter, Format, Kind, Mode, Point, Rule, TagSpace,
};
use redis_tests::{Server, assert_contains, assert_starts, with};
use serde_json::Value;

use crate::tool::tool;

/// A space as Archive-It would have it.
fn archive(server: &Server) -> TagSpace {
    let space = TagSpace::open(&server.url(), "tags").unwrap();
    space
        .rule_set(
            b"coll",
            b"filename",
            br"(?:^|/)ARCHIVEIT-(\d+)-",
            &[b"coll:$1"],
        )
        .unwrap();
    space.point_set(b"all", b"coll:* & !private").unwrap();
    space.point_set(br"org-(\d+)", b"org:$1").unwrap();
    space
        .load(
            Kind::Tag,
            Mode::Merge,
            &[("coll:1", "org:7"), ("coll:2", "org:7 private")],
        )
        .unwrap();
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
    let cycle = space.add(Kind::Tag, b"org:7", &[b"coll:1"]).unwrap_err();
    assert_eq!(cycle.code(), Some(Code::Cycle));
}

#[test]
fn many_ids_are_loaded_walked_through_and_swapped() {
    let server = Server::start();
    let space = archive(&server);
    let entries: Vec<(String, String)> = (0..2500)
        .map(|n| (format!("coll:{n}"), format!("org:{}", n % 3)))
        .collect();
    assert_eq!(space.load(Kind::Tag, Mode::Stage, &entries).unwrap(), 2500);
    let info = space.info().unwrap();
    assert_eq!((info.tag_ids, info.staged_tag_ids), (2, 2500));
    assert_eq!((info.rules, info.points), (1, 2));
    assert!(info.memory > 0);
    let refused = space.swap(Kind::Tag, Some(2499)).unwrap_err();
    assert_eq!(refused.code(), Some(Code::NoStage));
    assert_eq!(space.swap(Kind::Tag, Some(2500)).unwrap(), 2500);
    assert_eq!(
        space.swap(Kind::Tag, None).unwrap_err().code(),
        Some(Code::NoStage)
    );
    space.load(Kind::Tag, Mode::Stage, &[("a", "b")]).unwrap();
    assert_eq!(space.discard(Kind::Tag).unwrap(), 1);
    assert_eq!(space.discard(Kind::Tag).unwrap(), 0);

    let (mut cursor, mut found) = (0, Vec::new());
    loop {
        let page = space.scan(Kind::Tag, cursor, b"coll:1", Some(100)).unwrap();
        found.extend(page.items);
        cursor = page.next;
        if cursor == 0 {
            break;
        }
    }
    found.sort();
    found.dedup();
    let expected: Vec<_> = entries
        .iter()
        .filter(|(id, _)| id.starts_with("coll:1"))
        .map(|(id, tags)| (id.clone().into_bytes(), tags.clone().into_bytes()))
        .collect();
    assert_eq!(found.len(), expected.len());
    assert!(expected.iter().all(|entry| found.contains(entry)));

    let none: [(&str, &str); 0] = [];
    space.load(Kind::Tag, Mode::Replace, &none).unwrap();
    space
        .load(Kind::Tag, Mode::Set, &[("coll:1", "private")])
        .unwrap();
    let (mut cursor, mut private) = (0, Vec::new());
    loop {
        let page = space.list(b"private", b"coll:", cursor, Some(10)).unwrap();
        private.extend(page.items);
        cursor = page.next;
        if cursor == 0 {
            break;
        }
    }
    assert_eq!(texts(&private), ["coll:1"]);
}

#[test]
fn rules_and_points_are_as_they_were_set() {
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
    assert_eq!(
        space.points().unwrap(),
        [
            point(b"all", b"coll:* & !private"),
            point(br"org-(\d+)", b"org:$1")
        ]
    );
    assert_eq!(space.point(b"org-7").unwrap().expression, b"org:7");
    assert_eq!(
        space.point(b"nowhere").unwrap_err().code(),
        Some(Code::NoPoint)
    );
    assert!(space.rule_delete(b"coll").unwrap());
    assert!(!space.rule_delete(b"coll").unwrap());
    assert!(space.point_delete(b"all").unwrap());
    assert!(!space.point_delete(b"all").unwrap());
    let bad = space
        .rule_set(b"x", b"filename", b"(", &[b"y"])
        .unwrap_err();
    assert_eq!(bad.code(), Some(Code::BadRegex));
}

#[test]
fn a_batch_is_filtered_in_every_form() {
    let server = Server::start();
    let space = archive(&server);
    let lines = [cdx(1), cdx(2), cdx(3), "no line".to_owned()];
    let blob = lines[..3].join("\n");
    let lines: Vec<&[u8]> = lines.iter().map(|line| line.as_bytes()).collect();
    let good = Captures::Lines(&lines[..3]);
    let all = with!(Filter, point: Some(b"all"));
    let expected = [lines[0], lines[2]];
    assert_eq!(space.filter_lines(&all, &lines[..3]).unwrap(), expected);
    assert_eq!(
        space.filter_blob(&all, blob.as_bytes()).unwrap(),
        [lines[0], b"\n", lines[2], b"\n"].concat()
    );
    assert_eq!(space.indices(&all, good).unwrap(), [0, 2]);
    assert_eq!(space.bits(&all, good).unwrap(), [0b1010_0000]);
    assert_eq!(
        space.count(&all, Captures::Blob(blob.as_bytes())).unwrap(),
        2
    );
    let tagged = space.tagged(&all, good).unwrap();
    assert_eq!(tagged[0].index, 0);
    assert_eq!(texts(&tagged[0].tags), ["coll:1", "org:7"]);
    assert_eq!(space.count(&all, Captures::Lines(&[])).unwrap(), 0);

    let bad = space.filter_lines(&all, &lines).unwrap_err();
    assert_eq!(bad.code(), Some(Code::BadLine));
    let most = Filter {
        condition: Some(b"*"),
        specs: vec![b"mime:contains-nothing", b"!=status:404"],
        dialect: Dialect::Pywb,
        drop_bad_lines: true,
        ..all.clone()
    };
    assert!(space.filter_lines(&most, &lines).unwrap().is_empty());
    let first = Filter {
        collapse: Some(Collapse {
            field: b"timestamp",
            first: Some(4),
        }),
        format: Format::Cdx,
        ..Filter::default()
    };
    assert_eq!(space.indices(&first, good).unwrap(), [0]);
    let second = Filter {
        skip: 1,
        limit: Some(1),
        ..all.clone()
    };
    assert_eq!(space.indices(&second, good).unwrap(), [2]);
    let unknown = with!(Filter, point: Some(b"nowhere"));
    let refused = space.count(&unknown, good).unwrap_err();
    assert_eq!(refused.code(), Some(Code::NoPoint));

    let told = space.explain(&all, lines[1]).unwrap();
    assert!(!told.keep);
    assert_eq!(told.format, "CDX");
    let sources: Vec<_> = told
        .tags
        .iter()
        .map(|source| texts(&[source.tag.clone(), source.source.clone()]).join(" by "))
        .collect();
    assert!(sources.contains(&"coll:2 by rule coll".to_owned()));
    assert!(sources.contains(&"private by tag coll:2".to_owned()));
    assert!(!told.clauses[0].holds && !told.clauses[0].parts.is_empty());
}

/// Runs `crawlspace tags` with this on standard input.
fn crawlspace(server: &Server, words: &str, input: &[u8]) -> Output {
    let mut child = tool(format!("tags {words} --redis {}", server.url()))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        // It may stop reading before the end.
        scope.spawn(move || drop(stdin.write_all(input)));
        child.wait_with_output().unwrap()
    })
}

#[test]
fn a_file_of_any_size_is_filtered_with_its_header() {
    let server = Server::start();
    archive(&server);
    let header = " CDX N b a m s k r M S V g\n";
    let mut input = header.to_owned();
    let mut expected = header.to_owned();
    for n in 0..30_000u32 {
        let line = cdx(n % 3) + "\n";
        input.push_str(&line);
        if n % 3 != 2 {
            expected.push_str(&line);
        }
    }
    let words = "filter --key tags --point all";
    let output = crawlspace(&server, words, input.as_bytes());
    assert!(output.status.success(), "{output:?}");
    assert!(output.stdout == expected.as_bytes(), "other lines");

    // The last line has no end.
    input.push_str("no line");
    let output = crawlspace(&server, words, input.as_bytes());
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert_contains(&said, "BADLINE line 30002: ");
    let output = crawlspace(
        &server,
        &format!("{words} --drop-bad-lines"),
        input.as_bytes(),
    );
    assert!(output.stdout == expected.as_bytes(), "other lines");
}

#[test]
fn a_filter_that_is_wrong_is_an_error_for_an_empty_file_too() {
    let server = Server::start();
    archive(&server);
    for input in [String::new(), cdx(1)] {
        let words = "filter --key tags --point nowhere";
        let output = crawlspace(&server, words, input.as_bytes());
        assert_eq!(output.status.code(), Some(1));
        assert!(
            String::from_utf8(output.stderr)
                .unwrap()
                .contains("NOPOINT")
        );
    }
    let words = "filter --key tags --where coll:* --filter tag.org:7 --filter !tag:x|private --dialect pywb --format file";
    let files = b"ARCHIVEIT-1-a.warc.gz\nARCHIVEIT-2-b.warc.gz\nARCHIVEIT-3-c.warc.gz";
    let output = crawlspace(&server, words, files);
    assert_eq!(output.stdout, b"ARCHIVEIT-1-a.warc.gz\n", "{output:?}");
    let words = "filter --key no-space --where *";
    let output = crawlspace(&server, words, cdx(1).as_bytes());
    assert!(output.status.success() && output.stdout.is_empty());
}

#[test]
fn an_explanation_and_the_figures_are_shown() {
    let server = Server::start();
    archive(&server);
    let line = cdx(2);
    let words = format!("explain --key tags --point all '{line}'");
    let output = crawlspace(&server, &words, b"");
    let told = String::from_utf8(output.stdout).unwrap();
    assert_contains(&told, "It does NOT pass.");
    assert_contains(&told, "tag private by tag coll:2");
    assert_contains(&told, "NO  POINT all");
    assert_contains(&told, "yes     coll:*");
    let output = crawlspace(&server, &format!("{words} --json"), b"");
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(told["keep"], false);
    assert_eq!(told["tags"][0]["source"], "rule coll");

    let output = crawlspace(&server, "info --key tags", b"");
    let told = String::from_utf8(output.stdout).unwrap();
    assert_starts(&told, "tag space 'tags'\n");
    assert_contains(&told, "with 3 tags");
    let output = crawlspace(&server, "info --key tags --json", b"");
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(told["rules"], 1);
}
