//! The frontier at a simulated time with which most tests start.

use std::ops::{Deref, DerefMut};

use redis_tests::{Frontier, Options, Server, T0, simulated};

/// A frontier that is checked at the end of its test: all counts must be consistent, and each group
/// must be in the right queue.
pub struct Audited(Frontier);

impl Deref for Audited {
    type Target = Frontier;

    fn deref(&self) -> &Frontier {
        &self.0
    }
}

impl DerefMut for Audited {
    fn deref_mut(&mut self) -> &mut Frontier {
        &mut self.0
    }
}

impl Drop for Audited {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.0.assert_conserved();
        }
    }
}

/// Returns an empty frontier at [`T0`], and its server.
pub fn stage() -> (Server, Audited) {
    let server = simulated().start();
    let frontier = Frontier::at(&server, T0);
    (server, Audited(frontier))
}

/// Returns an empty frontier with the server's clock, and its server.
pub fn real_stage() -> (Server, Audited) {
    let server = Server::start();
    let frontier = Frontier::real(&server);
    (server, Audited(frontier))
}

/// Creates the same as [`stage`], in plain storage regardless of `CRAWLSPACE_STORAGE`, for tests
/// that write to the documented keys as plain clients do.
pub fn plain_stage() -> (Server, Audited) {
    let server = simulated().plain().start();
    let frontier = Frontier::at(&server, T0);
    (server, Audited(frontier))
}

/// Creates the same as [`real_stage`], in plain storage regardless of `CRAWLSPACE_STORAGE`.
pub fn real_plain_stage() -> (Server, Audited) {
    let server = Options::new().plain().start();
    let frontier = Frontier::real(&server);
    (server, Audited(frontier))
}

/// Adds `uris` URIs to a group, due now.
pub fn add(f: &mut Frontier, chg: &str, uris: usize) {
    let now = f.time();
    f.ok(format!("ADD crawl{}", format!(" {chg} {now}").repeat(uris)));
}

/// Adds groups `host-<thousand>-<n>` with `ADD`, 1000 per call. Each has one URI of this execution,
/// due now.
pub fn add_thousands(f: &mut Frontier, execution: &str, thousands: usize) {
    let now = f.time();
    for thousand in 0..thousands {
        let groups = (0..1000).map(|n| format!(" host-{thousand}-{n} {now}"));
        f.ok(format!("ADD {execution}{}", groups.collect::<String>()));
    }
}
