//! COMMAND DOCS, COMMAND INFO, CONFIG and INFO tell what there is of `CHG.*`.

use std::collections::HashMap;

use redis_tests::{
    BusyFrontier, Frontier, Options, Reply, Server, T0, Wire, array, bulk, err, int, ok, run,
    simulated,
};

/// Command, words of its shortest call, whether it writes, whether it may add data.
const COMMANDS: [(&str, i64, bool, bool); 20] = [
    ("chg.add", 5, true, true),
    ("chg.adduri", 7, true, true),
    ("chg.next", 2, true, true),
    ("chg.release", 4, true, false),
    ("chg.extend", 5, true, false),
    ("chg.sweep", 2, true, false),
    ("chg.expired", 2, true, false),
    ("chg.block", 5, true, false),
    ("chg.pause", 2, true, false),
    ("chg.resume", 2, true, false),
    ("chg.limit", 5, true, false),
    ("chg.group", 4, true, false),
    ("chg.drop", 3, true, false),
    ("chg.move", 4, true, false),
    ("chg.why", 3, false, false),
    ("chg.info", 2, false, false),
    ("chg.list", 2, false, false),
    ("chg.uris", 3, false, false),
    ("chg.check", 2, false, false),
    ("chg.repair", 2, true, false),
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
        assert!(!has("no-cluster"), "{name}");
        if grows && name != "chg.next" {
            assert!(has("denyoom"), "{name}: {flags:?}");
        }
        if name == "chg.release" || name == "chg.drop" {
            // What frees memory must work when there is none.
            assert!(!has("denyoom"), "{name}: {flags:?}");
        }
        let specs = &items[8];
        assert_eq!(specs.items().len(), 1, "{name}: {specs:?}");
        let begin = specs.items()[0].field("begin_search");
        let index = begin.field("spec").field("index");
        assert_eq!(index, int(1), "{name}: {specs:?}");
        assert_eq!(items[3], int(1), "first key of {name}");
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
        let arguments = docs.field("arguments");
        let first = &arguments.items()[0];
        assert_eq!(first.field("name").text(), "prefix", "{name}: {first:?}");
        assert!(!first.field("type").text().is_empty());
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
    for (name, keywords) in [
        ("chg.add", "NOW SEQ"),
        ("chg.adduri", "NOW WEIGHT"),
        ("chg.next", "NOW LEASE COUNT BLOCK GROUP"),
        (
            "chg.release",
            "NOW AT DELAY ELAPSED FACTOR MIN MAX CRAWLDELAY RETRYAFTER STATUS DONE RETRY NEXT \
             LEASE BLOCK",
        ),
        ("chg.sweep", "NOW LIMIT"),
        ("chg.expired", "NOW COUNT"),
        ("chg.block", "NOW UNTIL"),
        ("chg.pause", "NOW EXECUTION"),
        ("chg.resume", "NOW EXECUTION"),
        ("chg.limit", "NOW PARALLEL GAP DELAY BUDGET"),
        ("chg.drop", "NOW GROUP"),
        ("chg.why", "NOW"),
        ("chg.list", "NOW STATE WAITING READY BUSY CURSOR COUNT"),
        ("chg.uris", "NOW CURSOR COUNT"),
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
fn wrong_arity_is_refused_by_the_server() {
    let server = Server::start();
    let mut c = server.wire();
    for (name, shortest, ..) in COMMANDS {
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
fn getkeys_does_not_fail_oddly() {
    let server = Server::start();
    let mut c = server.wire();
    for (name, shortest, ..) in COMMANDS {
        let mut words = ["COMMAND", "GETKEYS", name, "{f}:"]
            .map(String::from)
            .to_vec();
        words.resize(2 + shortest as usize, "1".to_owned());
        match c.call(&words) {
            Reply::Error(line) => assert!(line.starts_with(b"ERR "), "{name}"),
            keys => assert!(
                keys == array([]) || keys == array([bulk("{f}:")]),
                "{name}: {keys:?}"
            ),
        }
    }
}

fn setting(c: &mut Wire, name: &str) -> String {
    ok!(c, "CONFIG", "GET", name).pairs()[0].1.text()
}

#[test]
fn settings_are_read_and_set() {
    let server = Server::start();
    let mut c = server.wire();
    for (name, default, other, bad) in [
        (
            "crawlspace.chg-lease",
            "600000",
            "1000",
            &["0", "-1", "x", ""][..],
        ),
        ("crawlspace.chg-attempts", "5", "3", &["0", "-1", "x"]),
        (
            "crawlspace.chg-simulated-time",
            "no",
            "yes",
            &["maybe", "2"],
        ),
    ] {
        assert_eq!(setting(&mut c, name), default);
        ok!(c, "CONFIG", "SET", name, other);
        assert_eq!(setting(&mut c, name), other);
        for value in bad {
            err!(c, "CONFIG", "SET", name, value);
        }
        assert_eq!(setting(&mut c, name), other);
    }
}

#[test]
fn module_arguments_and_configuration_lines_are_settings() {
    let words = [
        "chg-lease",
        "1000",
        "chg-attempts",
        "2",
        "chg-simulated-time",
        "yes",
    ];
    let server = Options::new().module_args(&words).start();
    let mut c = server.wire();
    for pair in words.chunks(2) {
        let name = format!("crawlspace.{}", pair[0]);
        assert_eq!(setting(&mut c, &name), pair[1], "{name}");
    }
    let lines = [
        "--crawlspace.chg-lease",
        "77",
        "--crawlspace.chg-attempts",
        "9",
    ];
    let server = Options::new().args(&lines).start();
    let mut c = server.wire();
    assert_eq!(setting(&mut c, "crawlspace.chg-lease"), "77");
    assert_eq!(setting(&mut c, "crawlspace.chg-attempts"), "9");
}

#[test]
fn maps_are_maps_to_clients_of_both_protocols() {
    let server = simulated().start();
    let mut f = Frontier::at(&server, T0);
    BusyFrontier::build(&mut f);
    let mut new = Frontier::over(server.wire3(), "{f}:");
    new.now = f.now;
    for line in ["WHY held", "INFO", "CHECK"] {
        let (old, new) = (f.ok(line), new.ok(line));
        assert!(matches!(new, Reply::Map(_)), "{line}: {new:?}");
        assert!(matches!(old, Reply::Array(_)), "{line}: {old:?}");
        assert_eq!(old.pairs().len(), new.pairs().len(), "{line}");
    }
    for mut conn in [server.conn(), server.conn3()] {
        let now = T0.to_string();
        let why = run(&mut conn, &["CHG.WHY", "{f}:", "NOW", &now, "waiting"]);
        let why: HashMap<String, redis::Value> =
            redis::from_redis_value(why.expect("a map")).expect("a map");
        assert_eq!(why["count"], redis::Value::Int(1));
        let words = ["CHG.ADD", "{f}:", "NOW", &now, "crawl", "another", "0"];
        let counts: Vec<i64> = redis::from_redis_value(run(&mut conn, &words).expect("counts"))
            .expect("an array of integers");
        assert_eq!(counts.len(), 1);
        let error = run(&mut conn, &["CHG.WHY", "{f}:", "nobody"]).expect_err("unknown");
        assert!(redis_tests::error_line(&error).starts_with("NOCHG "));
    }
}

#[test]
fn there_is_no_unknown_command() {
    let server = Server::start();
    let mut c = server.wire();
    let listed = ok!(c, "COMMAND", "LIST", "FILTERBY", "MODULE", "crawlspace").texts();
    let mut ours: Vec<&String> = listed.iter().filter(|c| c.starts_with("chg.")).collect();
    ours.sort();
    let mut known = COMMANDS.map(|(name, ..)| name).to_vec();
    known.sort_unstable();
    known.dedup();
    assert_eq!(ours, known);
}
