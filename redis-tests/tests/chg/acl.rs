//! Users with a part of the keys can work on their frontier, and on nothing else.

use redis_tests::{BusyFrontier, Frontier, Lease, Reply, Server, T0, Wire, blocked, ok, simulated};

fn user(server: &Server, name: &str, rules: &[&str]) -> Wire {
    let mut c = server.wire();
    let mut words = vec!["ACL", "SETUSER", name, "on", "nopass", "+@all"];
    words.extend(rules);
    c.expect_ok(&words);
    let mut wire = server.wire();
    ok!(wire, "AUTH", name, "any");
    wire
}

/// One call of each command, in an order in which each has something to do.
fn every_command(out: &BusyFrontier) -> Vec<String> {
    let (held, kept) = (out.held.token, out.kept.token);
    [
        "WHY held".to_owned(),
        "INFO".to_owned(),
        "LIST".to_owned(),
        "URIS kept".to_owned(),
        "CHECK".to_owned(),
        format!("ADD crawl host {T0}"),
        format!("ADD crawl SEQ w 1 host {T0}"),
        format!("ADDURI crawl another {T0} 0 http://another/"),
        "NEXT COUNT 3".to_owned(),
        format!("EXTEND held {held} 5000"),
        format!("RELEASE held {held} AT 0 DONE crawl NEXT"),
        format!("RELEASE kept {kept} ELAPSED 5 STATUS 503"),
        "SWEEP".to_owned(),
        "EXPIRED".to_owned(),
        "BLOCK waiting UNTIL 0".to_owned(),
        "PAUSE waiting".to_owned(),
        "RESUME waiting".to_owned(),
        "PAUSE".to_owned(),
        "RESUME".to_owned(),
        "PAUSE EXECUTION crawl".to_owned(),
        "RESUME EXECUTION crawl".to_owned(),
        "LIMIT waiting GAP 5".to_owned(),
        "GROUP shared waiting".to_owned(),
        "MOVE waiting elsewhere".to_owned(),
        "DROP GROUP waiting".to_owned(),
        "DROP crawl".to_owned(),
        "REPAIR".to_owned(),
    ]
    .into()
}

fn denied(what: &str, reply: &Reply, key: &str) {
    let Reply::Error(line) = reply else {
        panic!("{what} is not denied: {reply:?}");
    };
    let line = String::from_utf8_lossy(line);
    assert!(
        line.starts_with("NOPERM ") && line.contains(key),
        "{what}: {line}"
    );
}

#[test]
fn user_of_a_prefix_can_do_everything_there() {
    let server = simulated().start();
    let wire = user(&server, "alice", &["~{f}:*"]);
    let mut f = Frontier::over(wire, "{f}:");
    f.now = Some(T0);
    let out = BusyFrontier::build(&mut f);
    for line in every_command(&out) {
        f.ok(&line);
    }
    // Waiting as well: what wakes it may come from somebody else.
    f.now = None;
    f.send("NEXT BLOCK 60000");
    let mut other = Frontier::real(&server);
    other.add("begun-later", "woken", 0);
    while Lease::only(&f.wire.recv()).chg != "woken" {
        f.send("NEXT BLOCK 60000");
    }
}

#[test]
fn user_of_a_prefix_can_do_nothing_elsewhere() {
    let server = simulated().start();
    for prefix in ["{g}:", "", "{f}"] {
        let mut theirs = Frontier::of(&server, prefix);
        theirs.now = Some(T0);
        let out = BusyFrontier::build(&mut theirs);
        let before = server.snapshot();
        let mut f = Frontier::over(user(&server, "alice", &["~{f}:*"]), prefix);
        f.now = theirs.now;
        for line in every_command(&out) {
            let reply = f.call(&line);
            denied(&line, &reply, prefix);
        }
        f.now = None;
        let reply = f.call("NEXT BLOCK 0");
        denied("NEXT BLOCK 0", &reply, prefix);
        server.snapshot().assert_same(&before, "denied commands");
    }
}

#[test]
fn user_who_may_only_read_can_look_but_not_touch() {
    let server = simulated().start();
    let mut f = Frontier::at(&server, T0);
    let out = BusyFrontier::build(&mut f);
    let before = server.snapshot();
    let mut reader = Frontier::over(user(&server, "reader", &["%R~{f}:*"]), "{f}:");
    reader.now = f.now;
    for line in every_command(&out) {
        let reply = reader.call(&line);
        if ["WHY", "INFO", "LIST", "URIS", "CHECK"]
            .iter()
            .any(|name| line.starts_with(name))
        {
            assert!(!reply.is_error(), "{line}: {reply:?}");
        } else {
            denied(&line, &reply, "{f}:");
        }
    }
    server
        .snapshot()
        .assert_same(&before, "a reader's commands");
}

#[test]
fn denial_names_the_key_and_changes_nothing() {
    let server = simulated().start();
    let mut f = Frontier::at(&server, T0);
    f.add("crawl", "mine", T0);
    f.add("crawl", "theirs", T0);
    // Everything but the hash of one group.
    let rules = ["~{f}:chg_*", "~{f}:EIDC", "~{f}:QCT", "~{f}:CHG:m*"];
    let mut narrow = Frontier::over(user(&server, "narrow", &rules), "{f}:");
    narrow.now = f.now;
    let before = server.snapshot();
    for line in [
        "ADD crawl mine 0 theirs 0",
        "ADDURI crawl theirs 0 0 http://theirs/",
        "WHY theirs",
        "BLOCK theirs UNTIL 0",
        "PAUSE theirs",
        "LIMIT theirs GAP 5",
        "GROUP shared mine theirs",
        "MOVE mine theirs",
        "MOVE theirs mine",
        "DROP GROUP theirs",
    ] {
        let reply = narrow.call(line);
        denied(line, &reply, "{f}:CHG:theirs");
        server.snapshot().assert_same(&before, line);
    }
    // Which group comes next is not known before, so whoever asks for it must be allowed all.
    for line in [
        "NEXT",
        "SWEEP",
        "EXPIRED",
        "DROP crawl",
        "LIST",
        "CHECK",
        "REPAIR",
    ] {
        let reply = narrow.call(line);
        denied(line, &reply, "{f}:CHG:");
        server.snapshot().assert_same(&before, line);
    }
    assert_eq!(narrow.add("crawl", "mine", T0), 2);
    let lease = f.take("mine");
    assert_eq!(narrow.release(&lease, "DELAY 10 DONE crawl"), T0 + 10);
}

#[test]
fn commands_without_permission_to_run_them_are_denied() {
    let server = Server::start();
    let mut bob = Frontier::over(user(&server, "bob", &["~*", "-chg.drop"]), "{f}:");
    bob.add("crawl", "host", 0);
    let line = bob.err("DROP crawl");
    assert!(line.starts_with("NOPERM "), "{line}");
    bob.take("host");
}

#[test]
fn waiter_that_lost_its_permission_takes_no_group_from_others() {
    let server = Server::start();
    let mut f = Frontier::real(&server);
    let mut alice = Frontier::over(user(&server, "alice", &["~{f}:*"]), "{f}:");
    alice.send("NEXT BLOCK 0");
    redis_tests::until("the client is blocked", || {
        server.info_number("blocked_clients") == 1
    });
    let mut patient = blocked(&server, "{f}:", "NEXT BLOCK 0");
    ok!(f.wire, "ACL", "SETUSER", "alice", "resetkeys", "~elsewhere");
    f.add("crawl", "one", 0);
    f.add("crawl", "two", 0);
    // The connection may have been closed, or the wait have ended with an error, or it was served;
    // the other one is served in any case.
    let lease = Lease::only(&patient.wire.recv());
    assert!(["one", "two"].contains(&lease.chg.as_str()), "{lease:?}");
    f.assert_conserved();
}
