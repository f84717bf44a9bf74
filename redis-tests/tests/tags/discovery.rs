//! COMMAND INFO, COMMAND DOCS and INFO tell what there is of `TAGS.*`.

use std::collections::HashMap;

use redis_tests::{Reply, Server, TagSpace, bulk, int, ok, run};

/// Command, words of its shortest call, whether it writes, whether it adds data.
const COMMANDS: [(&str, i64, bool, bool); 16] = [
    ("tags.add", 5, true, true),
    ("tags.rem", 5, true, false),
    ("tags.get", 4, false, false),
    ("tags.load", 4, true, true),
    ("tags.swap", 3, true, false),
    ("tags.ruleset", 6, true, true),
    ("tags.ruledel", 3, true, false),
    ("tags.rules", 2, false, false),
    ("tags.pointset", 4, true, true),
    ("tags.pointdel", 3, true, false),
    ("tags.points", 2, false, false),
    ("tags.filter", 4, false, false),
    ("tags.explain", 4, false, false),
    ("tags.list", 3, false, false),
    ("tags.scan", 4, false, false),
    ("tags.info", 2, false, false),
];

#[test]
fn command_info_tells_arity_flags_and_key_specs() {
    let server = Server::start();
    let mut c = server.wire();
    for (name, shortest, writes, grows) in COMMANDS {
        let info = ok!(c, "COMMAND", "INFO", name).items()[0].clone();
        assert!(!info.is_nil(), "{name} is not there");
        let items = info.items();
        assert_eq!(items[0], bulk(name));
        assert_eq!(items[1].int().abs(), shortest, "arity of {name}");
        let flags = items[2].texts();
        let has = |flag: &str| flags.iter().any(|f| f == flag);
        assert_eq!(has("write"), writes, "{name}: {flags:?}");
        assert_eq!(has("readonly"), !writes, "{name}: {flags:?}");
        assert_eq!(has("denyoom"), grows, "{name}: {flags:?}");
        assert!(!has("no-cluster"), "{name}");
        assert_eq!(
            [&items[3], &items[4], &items[5]],
            [&int(1); 3],
            "keys of {name}"
        );
        let specs = &items[8];
        assert_eq!(specs.items().len(), 1, "{name}: {specs:?}");
        let spec = &specs.items()[0];
        let index = spec.field("begin_search").field("spec").field("index");
        assert_eq!(index, int(1), "{name}: {specs:?}");
        let flags = spec.field("flags").texts();
        let access = |flag: &str| flags.iter().any(|f| f == flag);
        assert_eq!(access("RO"), !writes, "{name}: {flags:?}");
        assert_eq!(access("RW"), writes, "{name}: {flags:?}");
    }
}

#[test]
fn command_docs_are_complete() {
    let server = Server::start();
    let mut c = server.wire();
    for (name, ..) in COMMANDS {
        let docs = ok!(c, "COMMAND", "DOCS", name);
        let docs = docs.field(name);
        for field in ["summary", "since", "group", "complexity"] {
            assert!(!docs.field(field).text().is_empty(), "{field} of {name}");
        }
        let first = &docs.field("arguments").items()[0].clone();
        assert_eq!(first.field("name").text(), "key", "{name}: {first:?}");
        assert_eq!(first.field("type").text(), "key", "{name}: {first:?}");
    }
}

/// Every word that stands for itself in the arguments of a command.
fn tokens(arguments: &Reply, into: &mut Vec<String>) {
    for argument in arguments.items() {
        into.extend(argument.find("token").map(|token| token.text()));
        if let Some(inner) = argument.find("arguments") {
            tokens(&inner, into);
        }
    }
}

#[test]
fn command_docs_name_every_keyword() {
    let server = Server::start();
    let mut c = server.wire();
    let filter = "POINT WHERE FILTER DIALECT OUTBACK IA PYWB COLLAPSE SKIP LIMIT FORMAT AUTO CDX CDXJ FILE RECORD BADLINES ERROR DROP \
                  RETURN INDEX BITS COUNT TAGS LINES BLOB";
    for (name, keywords) in [
        ("tags.add", "RECORD FILE TAG"),
        ("tags.rem", "RECORD FILE TAG"),
        ("tags.get", "RECORD FILE TAG ALL"),
        ("tags.load", "RECORD FILE TAG MERGE SET REPLACE STAGE"),
        ("tags.swap", "RECORD FILE TAG EXPECT DISCARD"),
        ("tags.filter", filter),
        ("tags.explain", "POINT WHERE FILTER DIALECT FORMAT LINES"),
        ("tags.list", "PREFIX CURSOR COUNT"),
        ("tags.scan", "RECORD FILE TAG PREFIX COUNT"),
    ] {
        let docs = ok!(c, "COMMAND", "DOCS", name);
        let mut told = Vec::new();
        tokens(&docs.field(name).field("arguments"), &mut told);
        for keyword in keywords.split_whitespace() {
            assert!(
                told.iter().any(|t| t == keyword),
                "{name} {keyword}: {told:?}"
            );
        }
    }
}

#[test]
fn there_is_no_unknown_command() {
    let server = Server::start();
    let mut c = server.wire();
    let listed = ok!(c, "COMMAND", "LIST", "FILTERBY", "MODULE", "crawlspace").texts();
    let mut ours: Vec<&String> = listed.iter().filter(|c| c.starts_with("tags.")).collect();
    ours.sort();
    let mut known = COMMANDS.map(|(name, ..)| name).to_vec();
    known.sort_unstable();
    assert_eq!(ours, known);
}

#[test]
fn real_clients_of_both_protocols_understand_the_replies() {
    let server = Server::start();
    let mut s = TagSpace::of(&server);
    s.ok("ADD FILE f t");
    for mut conn in [server.conn(), server.conn3()] {
        let info = run(&mut conn, &["TAGS.INFO", "tags"]).expect("a map");
        let info: HashMap<String, i64> = redis::from_redis_value(info).expect("a map of integers");
        assert_eq!(info["file-edges"], 1);
        let words = [
            "TAGS.FILTER",
            "tags",
            "FORMAT",
            "FILE",
            "RETURN",
            "TAGS",
            "LINES",
            "f",
        ];
        let tags = run(&mut conn, &words).expect("tags");
        let tags: Vec<(i64, Vec<String>)> = redis::from_redis_value(tags).expect("pairs");
        assert_eq!(tags, [(0, vec!["t".to_owned()])]);
        let page = run(&mut conn, &["TAGS.SCAN", "tags", "FILE", "0"]).expect("a page");
        let (cursor, page): (u64, Vec<String>) = redis::from_redis_value(page).expect("a page");
        assert_eq!((cursor, page), (0, vec!["f".into(), "t".into()]));
        let words = ["TAGS.FILTER", "tags", "POINT", "nobody", "LINES", "f"];
        let error = run(&mut conn, &words).expect_err("unknown");
        assert!(redis_tests::error_line(&error).starts_with("NOPOINT "));
    }
}
