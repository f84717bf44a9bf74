//! What a user with a narrow ACL may do: the documented keys are checked, keys of the module's own are not.

use redis_tests::{DedupeIndex, assert_error, ok, rows};

const P: &str = "p:";
const URL: &str = "http://e.com/a";

/// The documented keys that a crawl uses from its first record to its commit.
const KEYS: [&str; 10] = rows![
    "allhashes"; "allcounts"; "allcrawls"; "uncommittedcrawls"; "src:d"; "to-remove-crawls"; "canceledcrawls";
    "h:a"; "h:a:counts"; "c:a:wacz";
];

#[test]
fn documented_keys_are_checked_and_keys_of_our_own_are_not() {
    let (server, mut c) = DedupeIndex::start(P);
    c.ok("URLS ON");
    let mut admin = server.wire();
    let mut user = server.wire();
    let add = format!(
        "DEDUPE.ADD p: a {} 0 20240101000000 {URL} 5",
        redis_tests::sha256_of(1)
    );
    let look_up = format!("DEDUPE.LOOKUPURL p: {URL}");
    let lines = [&add[..], "DEDUPE.COMMIT p: a", &look_up];
    let rules = |left_out: &str| {
        let keys = KEYS.into_iter().filter(|key| *key != left_out);
        let keys: Vec<String> = keys.map(|key| format!("~{P}{key}")).collect();
        format!(
            "ACL SETUSER narrow on nopass +@all resetkeys {}",
            keys.join(" ")
        )
    };
    admin.ok_line(&rules(""));
    ok!(user, "AUTH", "narrow", "any");
    for (left_out, refused) in [("uncommittedcrawls", 0), ("h:a", 0), ("allhashes", 1)] {
        admin.ok_line(&rules(left_out));
        let words: Vec<&str> = lines[refused].split(' ').collect();
        assert_error(&user.call(&words), "NOPERM ", left_out);
        admin.ok_line(&rules(""));
        if refused == 0 && left_out == "h:a" {
            user.ok_line(lines[0]);
        }
    }
    user.ok_line(lines[1]);
    let found = user.ok_line(lines[2]);
    assert_eq!(found.items()[0].items().len(), 1);
    // The commands have written and read keys that the user itself may not touch.
    for key in ["crawlspace", "commits", "h:a:urls"] {
        assert_eq!(admin.ok_line(&format!("EXISTS p:{key}")).int(), 1, "{key}");
        let reply = user.call(&["TYPE", &format!("p:{key}")]);
        assert_error(&reply, "NOPERM ", key);
    }
    // An index of another prefix stays closed.
    let other = look_up.replace("p:", "q:");
    let words: Vec<&str> = other.split(' ').collect();
    assert_error(&user.call(&words), "NOPERM ", "another prefix");
}
