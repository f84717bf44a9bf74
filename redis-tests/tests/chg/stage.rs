//! A frontier at a simulated time, as most tests begin with.

use redis_tests::{Frontier, Server, T0, simulated};

/// An empty frontier at [`T0`], and its server.
pub fn stage() -> (Server, Frontier) {
    let server = simulated().start();
    let frontier = Frontier::at(&server, T0);
    (server, frontier)
}

/// `uris` URIs for a group, due now.
pub fn add(f: &mut Frontier, chg: &str, uris: usize) {
    let now = f.time();
    f.ok(format!("ADD crawl{}", format!(" {chg} {now}").repeat(uris)));
}
