//! Bad input that only an index can be given: bytes of clients in the log, very long calls.

use redis_tests::{Reply, Server, add, ok, sha256_of};

const P: &str = "p:";

#[test]
fn log_takes_client_bytes_as_they_are() {
    let mut server = Server::start();
    let mut c = server.wire();
    for text in ["%s%s%s%n%n", "%1000000d", "\u{0}%n"] {
        add(&mut c, text, text, [1]);
        ok!(c, "DEDUPE.WACZOPEN", text, text, text);
        ok!(c, "DEDUPE.COMMIT", text, text);
        c.call(&["DEDUPE.COMMIT", text, "nobody%n"]);
        c.call(&["DEDUPE.PROFILE", text, "%n%n"]);
        ok!(c, "DEDUPE.CHECK", text);
        ok!(c, "DEDUPE.REMOVE", text, text);
    }
    assert!(server.is_alive());
}

#[test]
fn one_call_with_very_many_hashes_is_served() {
    let server = Server::start();
    let mut c = server.wire();
    let hashes: Vec<String> = (0..100_000).map(sha256_of).collect();
    let mut words = vec!["DEDUPE.LOOKUP", P];
    words.extend(hashes.iter().map(String::as_str));
    let found = c.expect_ok(&words);
    assert_eq!(found.items().len(), 100_000);
    assert!(found.items().iter().all(Reply::is_nil));
}
