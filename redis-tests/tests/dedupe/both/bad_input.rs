//! Bad input that only an index can receive: bytes from clients that appear in the log, and very
//! long calls.

use redis_tests::{DedupeIndex, Reply, Server};

#[test]
fn log_takes_client_bytes_as_they_are() {
    let mut server = Server::start();
    for text in ["%s%s%s%n%n", "%1000000d", "\u{0}%n"] {
        let mut c = DedupeIndex::of(&server, text);
        c.add(text, [1]);
        c.ok(format!("WACZOPEN {text} {text}"));
        c.commit(text);
        c.call("COMMIT nobody%n");
        c.call("PROFILE %n%n");
        c.ok("CHECK");
        c.ok(format!("REMOVE {text}"));
    }
    assert!(server.is_alive());
}

#[test]
fn one_call_with_very_many_hashes_is_served() {
    let (_server, mut c) = DedupeIndex::start("p:");
    let found = c.ok("LOOKUP #0..100000");
    assert_eq!(found.items().len(), 100_000);
    assert!(found.items().iter().all(Reply::is_nil));
}
