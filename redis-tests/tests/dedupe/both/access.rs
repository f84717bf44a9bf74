//! Tests with a user with few permissions: the module checks access to documented keys, but not to
//! its own keys.

use redis_tests::{DedupeIndex, assert_error, int, ok, rows};

const P: &str = "p:";
const URL: &str = "http://e.com/a";

/// The documented keys that a crawl uses from its first record to its commit.
const KEYS: [&str; 10] = rows![
    "allhashes"; "allcounts"; "allcrawls"; "uncommittedcrawls"; "src:d"; "to-remove-crawls"; "canceledcrawls";
    "h:a"; "h:a:counts"; "c:a:wacz";
];

#[test]
fn documented_keys_are_checked_and_keys_of_the_module_are_not() {
    let (server, mut c) = DedupeIndex::start(P);
    c.ok("URLS ON");
    let mut admin = server.wire();
    let mut user = server.wire();
    let add = format!(
        "DEDUPE.ADD p: a {} 0 20240101000000 {URL} 5",
        redis_tests::sha256_of(1)
    );
    let look_up = format!("DEDUPE.LOOKUPURL p: {URL}");
    let commit = "DEDUPE.COMMIT p: a";
    let mut admit = |left_out: &str| {
        let keys = KEYS.into_iter().filter(|key| *key != left_out);
        let keys: Vec<String> = keys.map(|key| format!("~{P}{key}")).collect();
        admin.ok_line(format!(
            "ACL SETUSER narrow on nopass +@all resetkeys {}",
            keys.join(" ")
        ));
    };
    admit("");
    ok!(user, "AUTH", "narrow", "any");
    for (line, needed) in [
        (&add[..], ["uncommittedcrawls", "h:a"]),
        (commit, ["allhashes", "c:a:wacz"]),
        (&look_up, ["allcrawls", "h:a"]),
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        for key in needed {
            admit(key);
            assert_error(&user.call(&words), "NOPERM ", key);
        }
        admit("");
        let reply = user.ok_line(line);
        if line == look_up {
            assert_eq!(reply.items()[0].items().len(), 1);
        }
    }
    // The commands have written and read keys to which the user has no direct access.
    for key in ["crawlspace", "commits", "h:a:urls"] {
        assert_eq!(c.plain(format!("EXISTS p:{key}")), int(1), "{key}");
        let reply = user.call(&["TYPE", &format!("p:{key}")]);
        assert_error(&reply, "NOPERM ", key);
    }
    // The user still has no access to an index with another prefix.
    let other = look_up.replace("p:", "q:");
    let words: Vec<&str> = other.split(' ').collect();
    assert_error(&user.call(&words), "NOPERM ", "another prefix");
}
