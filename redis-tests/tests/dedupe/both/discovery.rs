//! COMMAND DOCS, COMMAND INFO, CONFIG and INFO tell what there is.

use redis_tests::{
    Options, Reply, Server, Wire, add, array, bulk, commit, err, int, ok, record_of, run, sha256_of,
};

const P: &str = "p:";

/// Command, words of its shortest call, whether it writes.
const COMMANDS: [(&str, i64, bool); 22] = [
    ("dedupe.lookup", 3, false),
    ("dedupe.claim", 6, true),
    ("dedupe.unclaim", 4, true),
    ("dedupe.begin", 3, true),
    ("dedupe.add", 8, true),
    ("dedupe.revisit", 5, true),
    ("dedupe.waczopen", 4, true),
    ("dedupe.waczclose", 7, true),
    ("dedupe.waczlist", 3, false),
    ("dedupe.commit", 3, true),
    ("dedupe.cancel", 3, true),
    ("dedupe.retain", 3, true),
    ("dedupe.remove", 3, true),
    ("dedupe.requires", 3, false),
    ("dedupe.requiredby", 3, false),
    ("dedupe.stats", 2, false),
    ("dedupe.crawls", 2, false),
    ("dedupe.check", 2, false),
    ("dedupe.repair", 2, true),
    ("dedupe.pack", 2, true),
    ("dedupe.unpack", 2, true),
    ("dedupe.profile", 2, true),
];

#[test]
fn command_info_tells_arity_flags_and_key_specs() {
    let server = Server::start();
    let mut c = server.wire();
    for (name, shortest, writes) in COMMANDS {
        let info = ok!(c, "COMMAND", "INFO", name).items()[0].clone();
        assert!(!info.is_nil(), "{name} is not there");
        let items = info.items();
        assert_eq!(items[0], bulk(name));
        assert_eq!(items[1].int().abs(), shortest, "arity of {name}");
        let flags = items[2].texts();
        let has = |flag: &str| flags.iter().any(|f| f == flag);
        assert_eq!(has("write"), writes, "{name}: {flags:?}");
        assert_eq!(has("readonly"), !writes, "{name}: {flags:?}");
        assert!(!has("no-cluster"), "{name}");
        let frees = ["dedupe.unclaim", "dedupe.cancel", "dedupe.remove"];
        let grows = writes && !frees.contains(&name);
        let either = [
            "dedupe.retain",
            "dedupe.repair",
            "dedupe.profile",
            "dedupe.pack",
        ];
        if !either.contains(&name) {
            assert_eq!(has("denyoom"), grows, "{name}: {flags:?}");
        }
        let specs = &items[8];
        assert_eq!(specs.items().len(), 1, "{name}: {specs:?}");
        let begin = specs.items()[0].field("begin_search");
        assert_eq!(
            begin.field("spec").field("index"),
            int(1),
            "{name}: {specs:?}"
        );
        assert_eq!(items[3], int(1), "first key of {name}");
    }
}

#[test]
fn command_docs_are_complete() {
    let server = Server::start();
    let mut c = server.wire();
    for (name, _, _) in COMMANDS {
        let docs = ok!(c, "COMMAND", "DOCS", name);
        let docs = docs.field(name);
        for field in ["summary", "since", "group", "complexity"] {
            assert!(!docs.field(field).text().is_empty(), "{field} of {name}");
        }
        let arguments = docs.field("arguments");
        let first = &arguments.items()[0];
        assert_eq!(first.field("name").text(), "prefix", "{name}: {first:?}");
        assert!(!first.field("type").text().is_empty());
    }
}

#[test]
fn there_is_no_undocumented_command() {
    let server = Server::start();
    let mut c = server.wire();
    let known = COMMANDS.map(|(name, ..)| name);
    for name in ok!(c, "COMMAND", "LIST", "FILTERBY", "MODULE", "crawlspace").texts() {
        let internal = ["slice", "uris", "tags", "packed"];
        let internal = internal
            .map(|word| format!("crawlspace.{word}"))
            .contains(&name);
        // The commands of other families have their own tests of this kind.
        let other = name.starts_with("chg.") || name.starts_with("tags.");
        assert!(
            internal || other || known.contains(&name.as_str()),
            "{name}"
        );
    }
}

#[test]
fn getkeys_does_not_fail_oddly() {
    let server = Server::start();
    let mut c = server.wire();
    for (name, shortest, _) in COMMANDS {
        let mut words = vec![
            "COMMAND".to_owned(),
            "GETKEYS".into(),
            name.into(),
            P.into(),
        ];
        words.resize(2 + shortest as usize, "1".to_owned());
        // The prefix is no key, so there are none; a server may also name the prefix.
        match c.call(&words) {
            Reply::Error(line) => assert!(line.starts_with(b"ERR "), "{name}"),
            keys => assert!(
                keys == array([]) || keys == array([bulk(P)]),
                "{name}: {keys:?}"
            ),
        }
    }
}

#[test]
fn wrong_arity_is_refused_by_the_server() {
    let server = Server::start();
    let mut c = server.wire();
    for (name, shortest, _) in COMMANDS {
        for n in 1..shortest as usize {
            let mut words = vec![name.to_owned()];
            words.resize(n, "1".to_owned());
            let line = c.expect_error(&words);
            assert!(
                line.contains("wrong number of arguments"),
                "{words:?}: {line}"
            );
        }
    }
}

#[test]
fn internal_command_is_refused_to_clients() {
    let server = Server::start();
    let mut c = server.wire();
    for words in [
        &["crawlspace.slice"][..],
        &["crawlspace.slice", "1"],
        &["crawlspace.slice", "a", "b"],
    ] {
        assert!(c.call(words).is_error());
    }
    let script = "return redis.call('crawlspace.slice')";
    assert!(c.call(&["EVAL", script, "0"]).is_error());
    ok!(c, "PING");
}

#[test]
fn settings_are_read_and_set() {
    let server = Server::start();
    let mut c = server.wire();
    let get = |c: &mut Wire, name: &str| ok!(c, "CONFIG", "GET", name).pairs()[0].1.text();
    assert_eq!(get(&mut c, "crawlspace.dedupe-profile"), "document");
    assert_eq!(get(&mut c, "crawlspace.slice-us"), "500");
    ok!(
        c,
        "CONFIG",
        "SET",
        "crawlspace.dedupe-profile",
        "browsertrix"
    );
    ok!(c, "CONFIG", "SET", "crawlspace.slice-us", 1000);
    assert_eq!(get(&mut c, "crawlspace.dedupe-profile"), "browsertrix");
    assert_eq!(get(&mut c, "crawlspace.slice-us"), "1000");
    assert_eq!(ok!(c, "DEDUPE.PROFILE", P).text(), "browsertrix");
    for (name, value) in [
        ("crawlspace.dedupe-profile", "warcprox"),
        ("crawlspace.slice-us", "49"),
        ("crawlspace.slice-us", "1001"),
        ("crawlspace.slice-us", "x"),
    ] {
        err!(c, "CONFIG", "SET", name, value);
    }
    assert_eq!(get(&mut c, "crawlspace.slice-us"), "1000");
}

#[test]
fn module_arguments_are_settings() {
    let options = Options::new();
    let server = options
        .module_args(&["slice-us", "123", "dedupe-profile", "browsertrix"])
        .start();
    let mut c = server.wire();
    let settings = ok!(c, "CONFIG", "GET", "crawlspace.*");
    assert_eq!(settings.field("crawlspace.slice-us"), bulk("123"));
    assert_eq!(
        settings.field("crawlspace.dedupe-profile"),
        bulk("browsertrix")
    );
}

#[test]
fn settings_of_the_configuration_file_work() {
    let server = Options::new()
        .args(&["--crawlspace.slice-us", "77"])
        .start();
    let settings = ok!(server.wire(), "CONFIG", "GET", "crawlspace.*");
    assert_eq!(settings.field("crawlspace.slice-us"), bulk("77"));
}

#[test]
fn info_counts_what_happens() {
    let server = Server::start();
    let mut c = server.wire();
    let info = ok!(c, "INFO", "crawlspace").text();
    let fields = [
        "lookups",
        "hits",
        "adds",
        "revisits",
        "claims_granted",
        "claims_pending",
        "jobs_running",
        "jobs_done",
        "slices",
        "slice_longest_us",
        "panics",
        "indexes",
        "evicting_policy",
    ];
    for field in fields {
        assert!(info.contains(field), "{field} in {info}");
    }
    let before: Vec<i64> = [
        "lookups",
        "hits",
        "adds",
        "revisits",
        "claims_granted",
        "jobs_done",
    ]
    .map(|f| server.info_number(f))
    .to_vec();
    add(&mut c, P, "a", 0..3);
    commit(&mut c, P, "a");
    ok!(c, "DEDUPE.LOOKUP", P, sha256_of(1), sha256_of(9));
    ok!(c, "DEDUPE.REVISIT", P, "a", sha256_of(1), 5);
    ok!(c, "DEDUPE.CLAIM", P, "a", sha256_of(9), "PX", 1000);
    let after: Vec<i64> = [
        "lookups",
        "hits",
        "adds",
        "revisits",
        "claims_granted",
        "jobs_done",
    ]
    .map(|f| server.info_number(f))
    .to_vec();
    for (i, name) in ["lookups", "hits", "adds", "revisits", "claims_granted"]
        .iter()
        .enumerate()
    {
        assert!(
            after[i] > before[i],
            "{name}: {} then {}",
            before[i],
            after[i]
        );
    }
    assert_eq!(server.info_number("panics"), 0);
    assert_eq!(server.info_number("jobs_running"), 0);
}

#[test]
fn client_crate_speaks_both_protocols() {
    let server = Server::start();
    let mut c = server.wire();
    add(&mut c, P, "a", 0..3);
    commit(&mut c, P, "a");
    for mut conn in [server.conn(), server.conn3()] {
        let found = run(&mut conn, &["DEDUPE.LOOKUP", P, &sha256_of(1)]).unwrap();
        let found: Vec<(String, i64, String, String, i64)> =
            redis::from_redis_value(found).unwrap();
        assert_eq!(found[0].0, "a");
        assert_eq!(found[0].4, 1001);
        let stats = run(&mut conn, &["DEDUPE.STATS", P, "a"]).unwrap();
        let stats: std::collections::HashMap<String, redis::Value> =
            redis::from_redis_value(stats).unwrap();
        assert_eq!(stats["hashes"], redis::Value::Int(3));
        let error = run(&mut conn, &["DEDUPE.COMMIT", P, "nobody"]).unwrap_err();
        assert!(redis_tests::error_line(&error).starts_with("NOCRAWL "));
    }
    assert_eq!(
        ok!(c, "DEDUPE.LOOKUP", P, sha256_of(1)),
        array([record_of("a", 1)])
    );
}
