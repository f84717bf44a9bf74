//! A frontier at a simulated time, as most tests begin with.

use std::ops::{Deref, DerefMut};

use redis_tests::{Frontier, Server, T0, simulated};

/// A frontier whose counts must agree when its test is over, and each group stand where it should.
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

/// An empty frontier at [`T0`], and its server.
pub fn stage() -> (Server, Audited) {
    let server = simulated().start();
    let frontier = Frontier::at(&server, T0);
    (server, Audited(frontier))
}

/// An empty frontier in the server's own time, and its server.
pub fn real_stage() -> (Server, Audited) {
    let server = Server::start();
    let frontier = Frontier::real(&server);
    (server, Audited(frontier))
}

/// `uris` URIs for a group, due now.
pub fn add(f: &mut Frontier, chg: &str, uris: usize) {
    let now = f.time();
    f.ok(format!("ADD crawl{}", format!(" {chg} {now}").repeat(uris)));
}

/// Groups `host-<thousand>-<n>` with a URI of this execution each, due now, a thousand a call.
pub fn add_thousands(f: &mut Frontier, execution: &str, thousands: usize) {
    let now = f.time();
    for thousand in 0..thousands {
        let groups = (0..1000).map(|n| format!(" host-{thousand}-{n} {now}"));
        f.ok(format!("ADD {execution}{}", groups.collect::<String>()));
    }
}
