//! Tests `crawlspace dedupe …`.

use redis_tests::{
    Cluster, DATE, FileHost, Options, Outcome, Server, array, assert_contains, assert_lacks,
    assert_starts, bulk, ends, err, int, nil, ok, outcome, sha256_of,
};
use serde_json::{Value, json};

use crate::operators::stage::{INDEX, crawlspace, crawlspace_bytes, index};
use crate::tool::tool;

pub fn dedupe(server: &Server, words: &str) -> Outcome {
    crawlspace(server, INDEX, &format!("dedupe {words}"))
}

#[test]
fn figures_of_an_index_and_a_crawl_are_shown() {
    let server = Options::new().plain().start();
    index(&server);
    let shown = dedupe(&server, "stats").exits(0);
    assert_starts(&shown.out, "index '{coll-42}:'\n  crawls ");
    assert_contains(&shown.out, "and 1 in progress");
    assert_contains(&shown.out, "25.0 %");
    assert_contains(&shown.out, "5.2 MB in finished WACZ files");
    let stats = dedupe(&server, "stats --json").object();
    // The server's own field names.
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

    let shown = dedupe(&server, "stats 2026-03");
    assert_starts(&shown.out, "crawl 2026-03: committed\n");
    let crawl = dedupe(&server, "stats 2026-03 --json").object();
    assert_eq!(crawl["crawl"], "2026-03");
    assert_eq!(crawl["requires"], 1);

    let unknown = dedupe(&server, "stats 2026-09");
    assert_eq!((unknown.status, &unknown.out[..]), (1, ""));
    assert_starts(&unknown.errors, "crawlspace: DEDUPE.STATS: NOCRAWL ");
}

#[test]
fn crawls_are_listed_in_an_aligned_table() {
    let server = Server::start();
    index(&server);
    let shown = dedupe(&server, "crawls");
    let table = "\
crawl    state        hashes  records  revisits   saved    size  waczs
2026-02  committed         3        3     0.0 %     0 B  5.2 MB      1
2026-03  committed         3        5    40.0 %  8.9 kB     0 B      1
2026-04  uncommitted       1        1     0.0 %     0 B     0 B      0
";
    assert_eq!((shown.status, &shown.out[..]), (0, table));
    let ids = |words: &str| -> Vec<String> {
        let crawls = dedupe(&server, &format!("crawls --json {words}")).json();
        crawls
            .iter()
            .map(|crawl| crawl["crawl"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(ids(""), ["2026-02", "2026-03", "2026-04"]);
    assert_eq!(ids("--committed"), ["2026-02", "2026-03"]);
    assert_eq!(ids("--uncommitted"), ["2026-04"]);
    dedupe(&server, "crawls --committed --uncommitted").exits(2);
}

#[test]
fn lookup_prints_the_original() {
    let server = Server::start();
    index(&server);
    let (known, unknown, open) = (sha256_of(2), sha256_of(77), sha256_of(9));
    let shown = dedupe(&server, &format!("lookup {known}")).exits(0);
    assert_contains(&shown.out, "2026-02");
    assert_contains(&shown.out, "2026-02-0.wacz");
    let found = dedupe(&server, &format!("lookup --json {known} {unknown}")).exits(1);
    let lines = found.json();
    assert_eq!(lines[0]["hash"], json!(known));
    assert_eq!(lines[0]["crawl"], "2026-02");
    assert_eq!(lines[0]["waczIndex"], 0);
    assert_eq!(lines[0]["filename"], "2026-02-0.wacz");
    assert_eq!(lines[1], json!({"hash": unknown, "known": false}));
    dedupe(&server, &format!("lookup {open}")).exits(1);
    dedupe(&server, &format!("lookup {open} --crawl 2026-04")).exits(0);
    dedupe(&server, "lookup short").exits(1);
    dedupe(&server, "lookup").exits(2);
}

#[test]
fn check_finds_faults_and_repair_fixes_them() {
    let server = Options::new().plain().start();
    let mut c = index(&server);
    let shown = dedupe(&server, "check").exits(0);
    assert_starts(&shown.out, "The index is consistent.\n");
    c.ok_line(format!("HSET {INDEX}allhashes {} 2026-01", sha256_of(50)));
    let shown = dedupe(&server, "check").exits(1);
    assert_starts(&shown.out, "The index is NOT consistent");
    assert_contains(&shown.out, "hidden owners");
    let found = dedupe(&server, "check --json");
    assert_eq!(found.status, 1);
    assert_eq!(found.object()["hiddenOwners"], 1);
    let mended = dedupe(&server, "repair --json");
    assert_eq!(mended.status, 0);
    assert_eq!(mended.object()["repaired"], 1);
    dedupe(&server, "check").exits(0);
}

#[test]
fn required_files_are_listed() {
    let server = Server::start();
    index(&server);
    let entry = json!({
        "filename": "2026-02-0.wacz",
        "hash": sha256_of(1000),
        "size": 5_242_880,
        "crawlId": "2026-02",
    });
    for words in [
        "requires 2026-03",
        "requires 2026-03 --transitive",
        "requires --wacz 5c0a2b7e",
        "requires --ref '2026-02 0'",
    ] {
        let required = dedupe(&server, &format!("{words} --json"));
        assert_eq!(required.status, 0, "{words:?}");
        assert_eq!(required.json(), vec![entry.clone()], "{words:?}");
        assert!(
            dedupe(&server, words)
                .out
                .contains("2026-02-0.wacz  2026-02  5.2 MB"),
            "{words:?}"
        );
    }
    let none = dedupe(&server, "requires 2026-02");
    assert_eq!(none.status, 0);
    assert_eq!(&none.out[..], "");
    assert_eq!(&none.errors[..], "nothing is needed\n");
    let by = dedupe(&server, "requiredby 2026-02 --json");
    assert_eq!(by.object(), json!({"crawl": "2026-03", "revisits": 2}));
    let shown = dedupe(&server, "requiredby 2026-02").out;
    assert_eq!(shown, "crawl    revisits\n2026-03         2\n");
    dedupe(&server, "requiredby 2026-09").exits(1);
    for wrong in [
        "requires",
        "requires 2026-03 --wacz x",
        "requires --wacz x --ref 'y 0'",
    ] {
        dedupe(&server, wrong).exits(2);
    }
}

#[test]
fn profile_is_shown_and_set() {
    let server = Server::start();
    assert_eq!(dedupe(&server, "profile").out, "document\n");
    assert_eq!(dedupe(&server, "profile browsertrix").out, "browsertrix\n");
    let used = dedupe(&server, "profile --json").object();
    assert_eq!(used, json!({"profile": "browsertrix"}));
    dedupe(&server, "profile other").exits(2);
    index(&server);
    let refused = dedupe(&server, "profile document").exits(1);
    assert_contains(&refused.errors, "HASCRAWLS");
}

#[test]
fn index_is_packed_and_unpacked() {
    let server = Options::new().plain().start();
    let mut c = index(&server);
    let hash = sha256_of(2);
    let known = dedupe(&server, &format!("lookup --json {hash}")).out;
    let shown = dedupe(&server, "pack");
    assert_eq!((shown.status, &shown.errors[..]), (0, ""), "{shown:?}");
    let lines: Vec<&str> = shown.out.lines().collect();
    assert_eq!(
        lines[..3],
        [
            "The index is packed.",
            "  hashes                   5  of the merged index were moved",
            "  records                  6  of committed crawls were moved",
        ]
    );
    assert!(
        lines[3].starts_with("  memory ") && lines[3].ends_with("for all of them"),
        "{shown:?}"
    );
    assert_eq!(dedupe(&server, &format!("lookup --json {hash}")).out, known);
    let stats = dedupe(&server, "stats").out;
    assert!(stats.ends_with("  storage             packed\n"), "{stats}");
    let stats = dedupe(&server, "stats --json").object();
    assert_eq!(stats["storage"], "packed");
    let again = dedupe(&server, "pack --json").object();
    let memory = again["memory"].as_u64().unwrap();
    let expected = json!({"storage": "packed", "hashes": 0, "records": 0, "memory": memory});
    assert_eq!(again, expected);
    let refused = err!(c, "HGET", format!("{INDEX}allhashes"), hash);
    assert_starts(&refused, "WRONGTYPE");

    let moved = dedupe(&server, "unpack --json").object();
    assert_eq!(moved["storage"], "plain");
    assert_eq!(moved["hashes"], 5);
    assert_eq!(moved["records"], 6);
    let owner = ok!(c, "HGET", format!("{INDEX}allhashes"), &hash);
    assert_eq!(owner, bulk("2026-02"));
    assert!(
        dedupe(&server, "unpack")
            .out
            .starts_with("The index is in plain keys.\n")
    );
    assert!(!dedupe(&server, "stats").out.contains("storage"));
    dedupe(&server, "pack crawl").exits(2);
}

#[test]
fn remaining_packing_work_is_reported() {
    let server = Options::new().plain().start();
    let mut c = index(&server);
    let key = |name: &str| format!("{INDEX}{name}");
    // Create the state that a server leaves if it dies at the beginning.
    ok!(c, "RENAME", key("allhashes"), key("moving"));
    ok!(c, "HSET", key("crawlspace"), "storage", "packed");
    let shown = dedupe(&server, "stats").out;
    let note = "packing  running or interrupted; dedupe pack resumes it\n";
    assert!(shown.ends_with(note), "{shown}");
    dedupe(&server, &format!("lookup {}", sha256_of(2))).exits(0);
    let moved = dedupe(&server, "pack --json").object();
    assert_eq!(moved["storage"], "packed");
    assert_eq!(moved["hashes"], 5);
    assert_eq!(ok!(c, "EXISTS", key("moving")), int(0));
    dedupe(&server, "check").exits(0);
}

#[test]
fn ids_may_be_any_bytes_and_are_escaped_on_terminals() {
    let server = Server::start();
    let mut c = server.wire();
    let (prefix, crawl): (&[u8], &[u8]) =
        (b"{\xfe}:", b"caf\xe9 \x1b[31m\x07 \xc2\x9b\xe2\x80\xae");
    let url = &b"https://example.com/\xff\x1b]0;title\x07"[..];
    let hash = sha256_of(1);
    ok!(c, "DEDUPE.ADD", prefix, crawl, hash, 0, DATE, url, 5);
    let given = |words: &str| crawlspace_bytes(&server, prefix, words, &[crawl]);
    let escaped = "caf\\xe9 \\u{1b}[31m\\u{7} \\u{9b}\\u{202e}";
    let committed = given("dedupe commit").exits(0);
    assert_starts(&committed.out, format!("crawl {escaped}: committed\n"));
    let stats = given("dedupe stats --json");
    let expected = "caf\\xe9 \u{1b}[31m\u{7} \u{9b}\u{202e}";
    assert_eq!(stats.object()["crawl"], expected);
    let crawls = crawlspace_bytes(&server, prefix, "dedupe crawls", &[]);
    assert_contains(&crawls.out, escaped);
    let lookup = format!("dedupe lookup {}", sha256_of(1));
    let found = crawlspace_bytes(&server, prefix, &lookup, &[]);
    assert_contains(&found.out, "/\\xff\\u{1b}]0;title\\u{7}");
    let unknown = given("dedupe stats --prefix {other}:");
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
fn server_is_taken_from_the_environment() {
    let server = Server::start();
    index(&server);
    let mut command = tool("");
    command
        .env("CRAWLSPACE_REDIS", server.url())
        .env("CRAWLSPACE_PREFIX", INDEX);
    let stats = outcome(command.args(["dedupe", "stats", "--json"])).object();
    assert_eq!(stats["crawls"], 2);
    // The command line overrides the environment.
    let other = ends(command.args(["--prefix", "{other}:"]), 1);
    assert_contains(&other.errors, "no index has the prefix '{other}:'");
    // A password in the environment must not be shown.
    let help = ends(
        tool("")
            .env("CRAWLSPACE_REDIS", "redis://:secret@host/")
            .args(["dedupe", "stats", "--help"]),
        0,
    );
    assert_contains(&help.out, "CRAWLSPACE_REDIS");
    assert_lacks(&help.out, "secret");
}

#[test]
fn host_and_port_are_accepted_and_invalid_servers_reported() {
    let server = Server::start();
    index(&server);
    let stats = |url: &str| format!("--redis {url} --prefix {INDEX}");
    let address = format!("127.0.0.1:{}", server.port());
    ends(&mut tool(format!("dedupe stats {}", stats(&address))), 0);
    ends(
        &mut tool(format!("top --once --interval 20ms --redis {address}")),
        0,
    );
    ends(&mut tool(format!("exporter --once --redis {address}")), 0);
    let web = FileHost::start();
    let web = web.url("").replace("http://", "").replace('/', "");
    for (url, reason) in [
        (
            &web[..],
            "this is not a Redis server: check the host and the port",
        ),
        (
            "http://u:secret@127.0.0.1:1",
            "invalid URL: write redis://HOST:PORT/DB",
        ),
    ] {
        let failed = ends(&mut tool(format!("dedupe stats {}", stats(url))), 1);
        assert_contains(&failed.errors, reason);
        assert_lacks(&failed.errors, "secret");
    }
}

#[test]
fn one_cluster_node_is_sufficient() {
    let cluster = Cluster::start(3);
    for prefix in ["{a}:", "{b}:", "{c}:", "{d}:"] {
        let mut c = cluster.owner(prefix).wire();
        c.ok_line(format!(
            "DEDUPE.ADD {prefix} crawl {} 0 {DATE} https://example.com/ 5",
            sha256_of(1)
        ));
        let committed = crawlspace(&cluster.nodes()[0], prefix, "dedupe commit crawl --json");
        assert_eq!(committed.object()["new"], 1, "{committed:?}");
    }
    let refused = crawlspace(&cluster.nodes()[0], "a:", "dedupe stats").exits(1);
    assert_contains(&refused.errors, "BADPREFIX");
}

#[test]
fn unreachable_server_is_reported_without_the_password() {
    let words = "dedupe stats --redis redis://:secret@127.0.0.1:1/";
    let failed = outcome(tool(words));
    assert_eq!((failed.status, &failed.out[..]), (1, ""));
    assert_contains(&failed.errors, "127.0.0.1:1");
    assert_lacks(&failed.errors, "secret");
}
