//! Users with a part of the keys can work on it, and on nothing else.

use redis_tests::{
    DATE, Reply, Server, Wire, add, array, commit, int, ok, owners, record_of, sha256_of,
};

const P: &str = "{coll-42}:";

fn user(server: &Server, name: &str, rules: &[&str]) -> Wire {
    let mut c = server.wire();
    let mut words = vec!["ACL", "SETUSER", name, "on", "nopass", "+@all"];
    words.extend(rules);
    c.expect_ok(&words);
    let mut wire = server.wire();
    ok!(wire, "AUTH", name, "any");
    wire
}

fn denied(reply: Reply, key: &str) {
    match reply {
        Reply::Error(line) => {
            let line = String::from_utf8_lossy(&line).into_owned();
            assert!(
                line.starts_with("NOPERM ") && line.contains(key),
                "{key}: {line}"
            );
        }
        other => panic!("not denied: {other:?}"),
    }
}

/// One call of each command on prefix `p`.
fn every_command(p: &str) -> Vec<Vec<String>> {
    let h = sha256_of(1);
    let lines = [
        format!("DEDUPE.LOOKUP {p} {h}"),
        format!("DEDUPE.LOOKUP {p} CRAWL a WITHWACZ {h}"),
        format!("DEDUPE.BEGIN {p} a"),
        format!("DEDUPE.BEGIN {p} a VISIBLE"),
        format!("DEDUPE.CLAIM {p} a {h} PX 1000"),
        format!("DEDUPE.CLAIM {p} a {h} PX 1000 WITHWACZ"),
        format!("DEDUPE.UNCLAIM {p} {h} 1"),
        format!("DEDUPE.ADD {p} a {h} 0 {DATE} http://e.com/ 5"),
        format!("DEDUPE.REVISIT {p} a {h} 5"),
        format!("DEDUPE.REVISIT {p} a NOREF {h} 5 ORIGINAL b 0 9"),
        format!("DEDUPE.WACZOPEN {p} a a.wacz"),
        format!("DEDUPE.WACZCLOSE {p} a 0 b.wacz sha256:ab 5 RENAME"),
        format!("DEDUPE.WACZCLOSE {p} a 0 b.wacz sha256:ab 5"),
        format!("DEDUPE.WACZLIST {p} a"),
        format!("DEDUPE.COMMIT {p} a"),
        format!("DEDUPE.CANCEL {p} a"),
        format!("DEDUPE.RETAIN {p} a"),
        format!("DEDUPE.REMOVE {p} a"),
        format!("DEDUPE.REQUIRES {p} a"),
        format!("DEDUPE.REQUIRES {p} REF u"),
        format!("DEDUPE.REQUIREDBY {p} a"),
        format!("DEDUPE.STATS {p}"),
        format!("DEDUPE.STATS {p} a"),
        format!("DEDUPE.CRAWLS {p}"),
        format!("DEDUPE.CHECK {p}"),
        format!("DEDUPE.REPAIR {p}"),
        format!("DEDUPE.PACK {p}"),
        format!("DEDUPE.UNPACK {p}"),
        format!("DEDUPE.PROFILE {p}"),
        format!("DEDUPE.PROFILE {p} document"),
    ];
    let split = |line: &String| line.split(' ').map(str::to_owned).collect();
    lines.iter().map(split).collect()
}

#[test]
fn user_of_a_prefix_can_do_everything_there() {
    let server = Server::start();
    let mut c = user(&server, "alice", &["~{coll-42}:*"]);
    add(&mut c, P, "a", 0..3);
    commit(&mut c, P, "a");
    assert_eq!(owners(&mut c, P, [1]), ["a"]);
    for words in every_command(P) {
        if let Reply::Error(line) = c.call(&words) {
            assert!(
                !line.starts_with(b"NOPERM"),
                "{words:?}: {}",
                line.escape_ascii()
            );
        }
    }
}

#[test]
fn user_of_a_prefix_can_do_nothing_elsewhere() {
    let server = Server::start();
    for p in ["{coll-43}:", "", "{coll-42}"] {
        add(&mut server.wire(), p, "a", 0..3);
        commit(&mut server.wire(), p, "a");
    }
    let before = server.snapshot();
    let mut c = user(&server, "alice", &["~{coll-42}:*"]);
    for p in ["{coll-43}:", "", "{coll-42}"] {
        for words in every_command(p) {
            denied(c.call(&words), p);
        }
    }
    server.snapshot().assert_same(&before, "denied commands");
}

#[test]
fn denial_names_the_key() {
    let server = Server::start();
    let mut c = server.wire();
    add(&mut c, P, "a", 0..3);
    commit(&mut c, P, "a");
    let mut narrow = user(&server, "narrow", &["~{coll-42}:h:*"]);
    denied(narrow.call(&["DEDUPE.LOOKUP", P, &sha256_of(1)]), P);
    // With every key but the records of one crawl, the name of that key is told.
    let rules = ["~{coll-42}:[^h]*", "~{coll-42}:h:b*"];
    let mut narrow = user(&server, "narrower", &rules);
    denied(
        narrow.call(&["DEDUPE.LOOKUP", P, &sha256_of(1)]),
        "{coll-42}:h:a",
    );
    let record = [
        "DEDUPE.ADD",
        P,
        "a",
        &sha256_of(9),
        "0",
        DATE,
        "http://e.com/",
        "5",
    ];
    denied(narrow.call(&record), "{coll-42}:h:a");
    let mut own = record;
    own[2] = "b";
    assert_eq!(narrow.call(&own), int(1));
}

#[test]
fn claim_tells_nothing_of_a_crawl_that_its_user_may_not_read() {
    let server = Server::start();
    let mut c = server.wire();
    ok!(c, "DEDUPE.WACZOPEN", P, "a", "a.wacz");
    add(&mut c, P, "a", [1]);
    commit(&mut c, P, "a");
    let rules = [
        "~{coll-42}:[^hc]*",
        "~{coll-42}:claims",
        "~{coll-42}:c[^:]*",
        "~{coll-42}:h:b*",
    ];
    let mut narrow = user(&server, "narrow", &rules);
    let hash = sha256_of(1);
    let words = ["DEDUPE.CLAIM", P, "b", &hash, "PX", "1000", "WITHWACZ"];
    denied(narrow.call(&words[..6]), "{coll-42}:h:a");
    let mut rules = rules.to_vec();
    rules.push("~{coll-42}:h:a");
    let mut other = user(&server, "other", &rules);
    assert_eq!(other.call(&words[..6]).items()[1], record_of("a", 1));
    denied(other.call(&words), "{coll-42}:c:a:wacz");
}

#[test]
fn user_with_exactly_the_keys_of_a_lookup_can_look_up() {
    let server = Server::start();
    let mut c = server.wire();
    add(&mut c, P, "a", 0..3);
    commit(&mut c, P, "a");
    let rules = [
        "%R~{coll-42}:allhashes",
        "%R~{coll-42}:allcrawls",
        "%R~{coll-42}:committing",
        "%R~{coll-42}:removing",
        "%R~{coll-42}:crawlspace",
        "%R~{coll-42}:holders",
        "%R~{coll-42}:commits",
        "%R~{coll-42}:h:*",
    ];
    let mut reader = user(&server, "reader", &rules);
    assert_eq!(
        ok!(reader, "DEDUPE.LOOKUP", P, sha256_of(1)),
        array([record_of("a", 1)])
    );
    denied(
        reader.call(&[
            "DEDUPE.ADD",
            P,
            "a",
            &sha256_of(9),
            "0",
            DATE,
            "http://e.com/",
            "5",
        ]),
        "{coll-42}:",
    );
}

#[test]
fn user_who_may_only_read_can_look_but_not_touch() {
    let server = Server::start();
    let mut c = server.wire();
    add(&mut c, P, "a", 0..3);
    commit(&mut c, P, "a");
    let before = server.snapshot();
    let mut reader = user(&server, "reader", &["%R~{coll-42}:*"]);
    for words in every_command(P) {
        let reads = [
            "DEDUPE.LOOKUP",
            "DEDUPE.WACZLIST",
            "DEDUPE.REQUIRES",
            "DEDUPE.REQUIREDBY",
            "DEDUPE.STATS",
            "DEDUPE.CRAWLS",
            "DEDUPE.CHECK",
        ];
        let reply = reader.call(&words);
        if reads.contains(&words[0].as_str()) {
            assert!(!reply.is_error(), "{words:?}: {reply:?}");
        } else if words[0] != "DEDUPE.PROFILE" {
            denied(reply, P);
        }
    }
    server
        .snapshot()
        .assert_same(&before, "a reader's commands");
}

#[test]
fn commands_without_permission_to_run_them_are_denied() {
    let server = Server::start();
    let mut c = user(&server, "bob", &["~*", "-dedupe.commit"]);
    add(&mut c, P, "a", [1]);
    match c.call(&["DEDUPE.COMMIT", P, "a"]) {
        Reply::Error(line) => assert!(line.starts_with(b"NOPERM "), "{}", line.escape_ascii()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn cancel_does_not_reach_keys_the_user_may_not_touch() {
    // The WACZ references of a crawl lie under names of their own.
    let server = Server::start();
    let mut c = server.wire();
    add(&mut c, P, "base", [1]);
    commit(&mut c, P, "base");
    ok!(c, "DEDUPE.REVISIT", P, "a", "REF", "zoe", sha256_of(1), 5);
    let before = server.snapshot();
    let rules = ["~{coll-42}:[^z]*"];
    let mut narrow = user(&server, "narrow", &rules);
    denied(
        narrow.call(&["DEDUPE.CANCEL", P, "a"]),
        "{coll-42}:zoe:duperefs",
    );
    server.snapshot().assert_same(&before, "denied CANCEL");
}
