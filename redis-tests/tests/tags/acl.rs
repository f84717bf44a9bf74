//! The key of a space is a key: who may not read it learns nothing, who may not write it changes
//! nothing.

use redis_tests::{Reply, Server, TagSpace, Wire, array, bulk, ok};

fn user(server: &Server, name: &str, rules: &[&str]) -> Wire {
    let mut c = server.wire();
    let mut words = vec!["ACL", "SETUSER", name, "on", "nopass", "+@all"];
    words.extend(rules);
    c.expect_ok(&words);
    let mut wire = server.wire();
    ok!(wire, "AUTH", name, "any");
    wire
}

const READS: [&str; 11] = [
    "GET FILE f",
    "GET FILE f ALL",
    "RULES",
    "POINTS",
    "POINTS p",
    "FILTER POINT p FORMAT FILE LINES f",
    "FILTER FORMAT FILE BLOB f",
    "EXPLAIN POINT p FORMAT FILE LINES f",
    "LIST *",
    "SCAN FILE 0",
    "INFO",
];

const WRITES: [&str; 13] = [
    "ADD FILE g t",
    "REM FILE g t",
    "LOAD FILE MERGE g t",
    "LOAD FILE SET g ''",
    "LOAD RECORD REPLACE g t",
    "LOAD TAG STAGE g t",
    "SWAP TAG",
    "LOAD TAG STAGE g t",
    "SWAP TAG DISCARD",
    "RULESET r filename x t",
    "RULEDEL r",
    "POINTSET q t",
    "POINTDEL q",
];

fn fill(server: &Server, key: &str) {
    let mut s = TagSpace::over(server.wire(), key);
    s.ok("ADD FILE f t");
    s.ok("POINTSET p t");
}

fn denied(line: &str, reply: &Reply) {
    let Reply::Error(error) = reply else {
        panic!("{line} is not denied: {reply:?}");
    };
    assert!(error.starts_with(b"NOPERM "), "{line}: {reply:?}");
}

#[test]
fn user_of_one_space_can_do_everything_there_and_nothing_elsewhere() {
    let server = Server::start();
    fill(&server, "mine");
    fill(&server, "theirs");
    let mut s = TagSpace::over(user(&server, "alice", &["~mine"]), "mine");
    for line in READS.iter().chain(&WRITES) {
        s.ok(line);
    }
    let before = server.digest();
    for key in ["theirs", "mine2", "", "missing"] {
        s.key = key.to_owned();
        for line in READS.iter().chain(&WRITES) {
            let reply = s.call(line);
            denied(line, &reply);
        }
    }
    assert_eq!(server.digest(), before);
}

#[test]
fn user_who_may_only_read_can_look_but_not_touch() {
    let server = Server::start();
    fill(&server, "tags");
    let before = server.digest();
    let mut s = TagSpace::over(user(&server, "reader", &["%R~tags"]), "tags");
    for line in READS {
        s.ok(line);
    }
    for line in WRITES {
        let reply = s.call(line);
        denied(line, &reply);
    }
    assert_eq!(server.digest(), before);
}

#[test]
fn user_who_may_only_write_does_not_read() {
    let server = Server::start();
    fill(&server, "tags");
    let mut s = TagSpace::over(user(&server, "writer", &["%W~tags"]), "tags");
    for line in READS {
        let reply = s.call(line);
        denied(line, &reply);
    }
}

#[test]
fn categories_and_single_commands_can_be_taken_away() {
    let server = Server::start();
    fill(&server, "tags");
    let mut s = TagSpace::over(user(&server, "bob", &["~*", "-tags.load"]), "tags");
    let reply = s.call("LOAD FILE MERGE g t");
    denied("LOAD", &reply);
    s.ok("ADD FILE g t");
    let mut s = TagSpace::over(user(&server, "viewer", &["~*", "-@all", "+@read"]), "tags");
    for line in READS {
        let reply = s.call(line);
        // A server older than 7.0 does not put a module's commands into categories.
        assert!(
            !reply.is_error() || matches!(&reply, Reply::Error(e) if e.starts_with(b"NOPERM ")),
            "{line}: {reply:?}"
        );
    }
    for line in WRITES {
        let reply = s.call(line);
        denied(line, &reply);
    }
}

#[test]
fn the_key_is_told_to_whom_it_concerns() {
    let server = Server::start();
    let mut s = TagSpace::of(&server);
    for line in READS.iter().chain(&WRITES) {
        let words = s.words(line);
        let mut getkeys: Vec<&[u8]> = vec![b"COMMAND", b"GETKEYS"];
        getkeys.extend(words.iter().map(Vec::as_slice));
        assert_eq!(s.wire.expect_ok(&getkeys), array([bulk("tags")]), "{line}");
        getkeys[1] = b"GETKEYSANDFLAGS";
        let reply = s.wire.expect_ok(&getkeys);
        let flags = reply.items()[0].items()[1].texts();
        let writes = WRITES.contains(line);
        assert_eq!(
            flags.iter().any(|f| f == "RW" || f == "OW"),
            writes,
            "{line}: {flags:?}"
        );
    }
}

#[test]
fn other_keys_named_in_arguments_are_not_looked_at() {
    let server = Server::start();
    fill(&server, "theirs");
    let mut s = TagSpace::over(user(&server, "alice", &["~mine"]), "mine");
    s.ok("ADD FILE theirs theirs");
    assert_eq!(
        s.kept("WHERE theirs FORMAT FILE", &["theirs", "f"]),
        ["theirs"]
    );
}
