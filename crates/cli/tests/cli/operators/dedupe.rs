//! `crawlspace dedupe …`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use redis_tests::{Cluster, DATE, Options, Server, array, bulk, int, nil, ok, sha256_of};
use serde_json::{Value, json};

use crate::operators::stage::{INDEX, Outcome, crawlspace, crawlspace_bytes, index, program, run};

pub fn dedupe(server: &Server, words: &[&str]) -> Outcome {
    crawlspace(server, INDEX, &[&["dedupe"], words].concat())
}

#[test]
fn figures_of_an_index_and_of_a_crawl() {
    let server = Options::new().plain().start();
    index(&server);
    let shown = dedupe(&server, &["stats"]);
    assert_eq!(shown.status, 0, "{shown:?}");
    assert!(
        shown.out.starts_with("index '{coll-42}:'\n  crawls "),
        "{}",
        shown.out
    );
    for part in [
        "and 1 in progress",
        "25.0 %",
        "5.2 MB in finished WACZ files",
    ] {
        assert!(shown.out.contains(part), "{part}: {}", shown.out);
    }
    let stats = dedupe(&server, &["stats", "--json"]).object();
    // The server's own names.
    for (field, value) in [
        ("crawls", json!(2)),
        ("uncommitted", json!(1)),
        ("hashes", json!(5)),
        ("totalUrls", json!(8)),
        ("dupeUrls", json!(2)),
        ("conservedSize", json!(8900)),
        ("totalCrawlSize", json!(5_242_880)),
        ("updateProgress", Value::Null),
        ("profile", json!("document")),
        ("storage", json!("plain")),
    ] {
        assert_eq!(stats[field], value, "{field} in {stats}");
    }

    let shown = dedupe(&server, &["stats", "2026-03"]);
    assert!(
        shown.out.starts_with("crawl 2026-03: committed\n"),
        "{}",
        shown.out
    );
    let crawl = dedupe(&server, &["stats", "2026-03", "--json"]).object();
    assert_eq!(
        (&crawl["crawl"], &crawl["requires"]),
        (&json!("2026-03"), &json!(1))
    );

    let unknown = dedupe(&server, &["stats", "2026-09"]);
    assert_eq!((unknown.status, &unknown.out[..]), (1, ""));
    assert!(
        unknown
            .errors
            .starts_with("crawlspace: DEDUPE.STATS: NOCRAWL "),
        "{unknown:?}"
    );
}

#[test]
fn crawls_are_a_table_with_figures_below_each_other() {
    let server = Server::start();
    index(&server);
    let shown = dedupe(&server, &["crawls"]);
    let table = "\
crawl    state        hashes  records  revisits   saved    size  waczs
2026-02  committed         3        3     0.0 %     0 B  5.2 MB      1
2026-03  committed         3        5    40.0 %  8.9 kB     0 B      1
2026-04  uncommitted       1        1     0.0 %     0 B     0 B      0
";
    assert_eq!((shown.status, &shown.out[..]), (0, table));
    let ids = |words: &[&str]| -> Vec<String> {
        let crawls = dedupe(&server, &[&["crawls", "--json"], words].concat()).json();
        crawls
            .iter()
            .map(|crawl| crawl["crawl"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(ids(&[]), ["2026-02", "2026-03", "2026-04"]);
    assert_eq!(ids(&["--committed"]), ["2026-02", "2026-03"]);
    assert_eq!(ids(&["--uncommitted"]), ["2026-04"]);
    assert_eq!(
        dedupe(&server, &["crawls", "--committed", "--uncommitted"]).status,
        2
    );
}

#[test]
fn a_lookup_tells_who_stored_it() {
    let server = Server::start();
    index(&server);
    let (known, unknown, open) = (sha256_of(2), sha256_of(77), sha256_of(9));
    let shown = dedupe(&server, &["lookup", &known]);
    assert_eq!(shown.status, 0, "{shown:?}");
    assert!(
        shown.out.contains("2026-02") && shown.out.contains("2026-02-0.wacz"),
        "{shown:?}"
    );
    let found = dedupe(&server, &["lookup", "--json", &known, &unknown]);
    assert_eq!(found.status, 1, "one is not known");
    let lines = found.json();
    assert_eq!(lines[0]["hash"], json!(known));
    assert_eq!(lines[0]["crawl"], "2026-02");
    assert_eq!(lines[0]["waczIndex"], 0);
    assert_eq!(lines[0]["filename"], "2026-02-0.wacz");
    assert_eq!(lines[1], json!({"hash": unknown, "known": false}));
    assert_eq!(dedupe(&server, &["lookup", &open]).status, 1);
    assert_eq!(
        dedupe(&server, &["lookup", &open, "--crawl", "2026-04"]).status,
        0
    );
    assert_eq!(dedupe(&server, &["lookup", "short"]).status, 1);
    assert_eq!(dedupe(&server, &["lookup"]).status, 2);
}

#[test]
fn a_check_finds_faults_and_a_repair_mends_them() {
    let server = Options::new().plain().start();
    let mut c = index(&server);
    let shown = dedupe(&server, &["check"]);
    assert_eq!(shown.status, 0, "{shown:?}");
    assert!(
        shown.out.starts_with("The index is consistent.\n"),
        "{}",
        shown.out
    );
    ok!(
        c,
        "HSET",
        format!("{INDEX}allhashes"),
        sha256_of(50),
        "2026-01"
    );
    let shown = dedupe(&server, &["check"]);
    assert_eq!(shown.status, 1);
    assert!(
        shown.out.starts_with("The index is NOT consistent"),
        "{}",
        shown.out
    );
    assert!(shown.out.contains("hidden owners"), "{}", shown.out);
    let found = dedupe(&server, &["check", "--json"]);
    assert_eq!(
        (found.status, &found.object()["hiddenOwners"]),
        (1, &json!(1))
    );
    let mended = dedupe(&server, &["repair", "--json"]);
    assert_eq!(
        (mended.status, &mended.object()["repaired"]),
        (0, &json!(1))
    );
    assert_eq!(dedupe(&server, &["check"]).status, 0);
}

#[test]
fn what_replay_needs_is_listed() {
    let server = Server::start();
    index(&server);
    let entry = json!({
        "filename": "2026-02-0.wacz",
        "hash": sha256_of(1000),
        "size": 5_242_880,
        "crawlId": "2026-02",
    });
    for words in [
        &["requires", "2026-03"][..],
        &["requires", "2026-03", "--transitive"],
        &["requires", "--wacz", "5c0a2b7e"],
        &["requires", "--ref", "2026-02 0"],
    ] {
        let required = dedupe(&server, &[words, &["--json"]].concat());
        assert_eq!(
            (required.status, required.json()),
            (0, vec![entry.clone()]),
            "{words:?}"
        );
        assert!(
            dedupe(&server, words)
                .out
                .contains("2026-02-0.wacz  2026-02  5.2 MB"),
            "{words:?}"
        );
    }
    let none = dedupe(&server, &["requires", "2026-02"]);
    assert_eq!(
        (none.status, &none.out[..], &none.errors[..]),
        (0, "", "nothing is needed\n")
    );
    let by = dedupe(&server, &["requiredby", "2026-02", "--json"]);
    assert_eq!(by.object(), json!({"crawl": "2026-03", "revisits": 2}));
    let shown = dedupe(&server, &["requiredby", "2026-02"]).out;
    assert_eq!(shown, "crawl    revisits\n2026-03         2\n");
    assert_eq!(dedupe(&server, &["requiredby", "2026-09"]).status, 1);
    for wrong in [
        &["requires"][..],
        &["requires", "2026-03", "--wacz", "x"],
        &["requires", "--wacz", "x", "--ref", "y 0"],
    ] {
        assert_eq!(dedupe(&server, wrong).status, 2, "{wrong:?}");
    }
}

#[test]
fn the_profile_is_shown_and_set() {
    let server = Server::start();
    assert_eq!(dedupe(&server, &["profile"]).out, "document\n");
    assert_eq!(
        dedupe(&server, &["profile", "browsertrix"]).out,
        "browsertrix\n"
    );
    let used = dedupe(&server, &["profile", "--json"]).object();
    assert_eq!(used, json!({"profile": "browsertrix"}));
    assert_eq!(dedupe(&server, &["profile", "other"]).status, 2);
    index(&server);
    let refused = dedupe(&server, &["profile", "document"]);
    assert!(
        refused.status == 1 && refused.errors.contains("HASCRAWLS"),
        "{refused:?}"
    );
}

#[test]
fn an_index_is_packed_and_unpacked() {
    let server = Options::new().plain().start();
    let mut c = index(&server);
    let hash = sha256_of(2);
    let known = dedupe(&server, &["lookup", "--json", &hash]).out;
    let shown = dedupe(&server, &["pack"]);
    assert_eq!((shown.status, &shown.errors[..]), (0, ""), "{shown:?}");
    let lines: Vec<&str> = shown.out.lines().collect();
    assert_eq!(
        lines[..3],
        [
            "The index is packed.",
            "  hashes                   5  of the merged index moved",
            "  records                  6  of committed crawls moved",
        ]
    );
    assert!(
        lines[3].starts_with("  memory ") && lines[3].ends_with("for all of them"),
        "{shown:?}"
    );
    assert_eq!(dedupe(&server, &["lookup", "--json", &hash]).out, known);
    let stats = dedupe(&server, &["stats"]).out;
    assert!(stats.ends_with("  storage             packed\n"), "{stats}");
    let stats = dedupe(&server, &["stats", "--json"]).object();
    assert_eq!(stats["storage"], "packed");
    let again = dedupe(&server, &["pack", "--json"]).object();
    let memory = again["memory"].as_u64().unwrap();
    assert_eq!(
        again,
        json!({"storage": "packed", "hashes": 0, "records": 0, "memory": memory})
    );
    let refused = c.expect_error(&["HGET", &format!("{INDEX}allhashes"), &hash]);
    assert!(refused.starts_with("WRONGTYPE"), "{refused}");

    let moved = dedupe(&server, &["unpack", "--json"]).object();
    assert_eq!(
        (&moved["storage"], &moved["hashes"], &moved["records"]),
        (&json!("plain"), &json!(5), &json!(6))
    );
    let owner = ok!(c, "HGET", format!("{INDEX}allhashes"), &hash);
    assert_eq!(owner, bulk("2026-02"));
    assert!(
        dedupe(&server, &["unpack"])
            .out
            .starts_with("The index is in plain keys.\n")
    );
    assert!(!dedupe(&server, &["stats"]).out.contains("storage"));
    assert_eq!(dedupe(&server, &["pack", "crawl"]).status, 2);
}

#[test]
fn what_is_still_to_be_packed_is_told() {
    let server = Options::new().plain().start();
    let mut c = index(&server);
    let key = |name: &str| format!("{INDEX}{name}");
    // As a server leaves it that dies at the beginning.
    ok!(c, "RENAME", key("allhashes"), key("moving"));
    ok!(c, "HSET", key("crawlspace"), "storage", "packed");
    let shown = dedupe(&server, &["stats"]).out;
    let note = "packing  it runs, or was cut short; dedupe pack goes on\n";
    assert!(shown.ends_with(note), "{shown}");
    assert_eq!(dedupe(&server, &["lookup", &sha256_of(2)]).status, 0);
    let moved = dedupe(&server, &["pack", "--json"]).object();
    assert_eq!(
        (&moved["storage"], &moved["hashes"]),
        (&json!("packed"), &json!(5))
    );
    assert_eq!(ok!(c, "EXISTS", key("moving")), int(0));
    assert_eq!(dedupe(&server, &["check"]).status, 0);
}

#[test]
fn ids_may_be_any_bytes_and_terminals_obey_none_of_them() {
    let server = Server::start();
    let mut c = server.wire();
    let (prefix, crawl): (&[u8], &[u8]) =
        (b"{\xfe}:", b"caf\xe9 \x1b[31m\x07 \xc2\x9b\xe2\x80\xae");
    let url = &b"https://example.com/\xff\x1b]0;title\x07"[..];
    ok!(
        c,
        "DEDUPE.ADD",
        prefix,
        crawl,
        sha256_of(1),
        0,
        DATE,
        url,
        5
    );
    let given = |words: &[&str]| {
        let mut words: Vec<OsString> = words.iter().map(OsString::from).collect();
        words.push(OsString::from_vec(crawl.to_vec()));
        crawlspace_bytes(&server, prefix, &words)
    };
    let escaped = "caf\\xe9 \\u{1b}[31m\\u{7} \\u{9b}\\u{202e}";
    let committed = given(&["dedupe", "commit"]);
    assert_eq!(committed.status, 0, "{committed:?}");
    assert!(
        committed
            .out
            .starts_with(&format!("crawl {escaped}: committed\n")),
        "{committed:?}"
    );
    let stats = given(&["dedupe", "stats", "--json"]);
    assert_eq!(
        stats.object()["crawl"],
        "caf\\xe9 \u{1b}[31m\u{7} \u{9b}\u{202e}"
    );
    let words = ["dedupe", "crawls"].map(OsString::from);
    let crawls = crawlspace_bytes(&server, prefix, &words);
    assert!(crawls.out.contains(escaped), "{crawls:?}");
    let words = [
        "dedupe".into(),
        "lookup".into(),
        OsString::from(sha256_of(1)),
    ];
    let found = crawlspace_bytes(&server, prefix, &words);
    assert!(
        found.out.contains("/\\xff\\u{1b}]0;title\\u{7}"),
        "{found:?}"
    );
    let unknown = given(&["dedupe", "stats", "--prefix", "{other}:"]);
    for outcome in [committed, stats, crawls, found, unknown] {
        let (out, errors) = (&outcome.out, &outcome.errors);
        let raw = |c: char| c.is_control() && c != '\n' || c == '\u{202e}';
        assert!(!out.contains(raw) && !errors.contains(raw), "{outcome:?}");
    }
    assert_eq!(
        ok!(c, "DEDUPE.LOOKUP", prefix, sha256_of(1), sha256_of(2)),
        array([
            array([bulk(crawl), int(0), bulk(DATE), bulk(url), int(5)]),
            nil(),
        ])
    );
}

#[test]
fn the_environment_says_where() {
    let server = Server::start();
    index(&server);
    let mut command = program();
    command
        .env("CRAWLSPACE_REDIS", server.url())
        .env("CRAWLSPACE_PREFIX", INDEX);
    let stats = run(command.args(["dedupe", "stats", "--json"])).object();
    assert_eq!(stats["crawls"], 2);
    // What is said on the command line counts more.
    let stats = run(command.args(["--prefix", "{other}:"])).object();
    assert_eq!(stats["crawls"], 0);
    // A password of the environment is nobody's business.
    let help = run(program()
        .env("CRAWLSPACE_REDIS", "redis://:secret@host/")
        .args(["dedupe", "stats", "--help"]));
    assert!(
        help.status == 0 && help.out.contains("CRAWLSPACE_REDIS"),
        "{help:?}"
    );
    assert!(!help.out.contains("secret"), "{help:?}");
}

#[test]
fn one_node_of_a_cluster_is_enough() {
    let cluster = Cluster::start(3);
    for prefix in ["{a}:", "{b}:", "{c}:", "{d}:"] {
        let mut c = cluster.owner(prefix).wire();
        ok!(
            c,
            "DEDUPE.ADD",
            prefix,
            "crawl",
            sha256_of(1),
            0,
            DATE,
            "https://example.com/",
            5
        );
        let committed = crawlspace(
            &cluster.nodes()[0],
            prefix,
            &["dedupe", "commit", "crawl", "--json"],
        );
        assert_eq!(committed.object()["new"], 1, "{committed:?}");
    }
    let refused = crawlspace(&cluster.nodes()[0], "a:", &["dedupe", "stats"]);
    assert!(
        refused.status == 1 && refused.errors.contains("BADPREFIX"),
        "{refused:?}"
    );
}

#[test]
fn nobody_there_is_told_without_the_password() {
    let words = ["dedupe", "stats", "--redis", "redis://:secret@127.0.0.1:1/"];
    let failed = run(program().args(words));
    assert_eq!((failed.status, &failed.out[..]), (1, ""));
    assert!(
        failed.errors.contains("127.0.0.1:1") && !failed.errors.contains("secret"),
        "{failed:?}"
    );
}
