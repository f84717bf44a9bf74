//! Clients that race on known URLs, while jobs move, drop, forget, count and repair them: no URL is leased twice, and
//! nothing is lost or counted twice, also on a replica and after a restart.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::thread;

use redis_tests::{Frontier, Options, Reply, Rng, assert_replicated, rounds};

const EXECUTIONS: [&str; 3] = ["one", "two", "three"];
/// The execution whose URLs are settled while they are leased, so that two clients may fetch them.
const SETTLED: &str = "three";
const GROUPS: u64 = 6;
const URLS: u64 = 400;
const CLIENTS: usize = 4;

/// The URLs that are leased now, each with its execution.
type Leased = Mutex<BTreeSet<(String, String)>>;

/// A client with a lease, or without one.
struct Client<'l> {
    f: Frontier,
    rng: Rng,
    leased: &'l Leased,
}

/// A lease: its group, its token, its execution and its URLs.
struct Held {
    chg: String,
    token: i64,
    execution: String,
    keys: Vec<String>,
}

impl Client<'_> {
    fn execution(&mut self) -> &'static str {
        self.rng.pick::<&str>(&EXECUTIONS)
    }

    fn chg(&mut self) -> String {
        format!("host-{}", self.rng.below(GROUPS))
    }

    fn key(&mut self) -> String {
        format!("url-{}", self.rng.below(URLS))
    }

    /// Sends a command that may be refused because of another client.
    fn tries(&mut self, line: &str, errors: &[&str]) -> Option<Reply> {
        match self.f.call(line) {
            Reply::Error(error) => {
                let error = String::from_utf8(error).expect("text");
                let code = error.split(' ').next().unwrap_or_default();
                assert!(errors.contains(&code), "{line}: {error}");
                None
            }
            reply => Some(reply),
        }
    }

    fn work(&mut self, steps: u64) {
        for _ in 0..steps {
            let (execution, chg, key) = (self.execution(), self.chg(), self.key());
            match self.rng.below(20) {
                0..=5 => {
                    let mut line = format!("DISCOVER {execution} KEYPAYLOAD FRESH 0 ITEMS 4");
                    for _ in 0..4 {
                        let (chg, key) = (self.chg(), self.key());
                        line += &format!(" {chg} 0 1 page-{key} {key} of-{key}");
                    }
                    self.f.ok(line);
                }
                6..=13 => self.fetch(),
                14 => drop(
                    self.f
                        .ok(format!("SETTLE {SETTLED} ITEMS 1 {chg} {key} NEVER")),
                ),
                15 => drop(self.f.ok(format!("SETTLE {SETTLED} ITEMS 1 {chg} {key} 0"))),
                16 => drop(self.f.ok(format!("FORGET {execution} URIS 1 {key}"))),
                _ => self.job(execution, &chg),
            }
        }
    }

    /// Runs a job, in slices between the commands of the other clients.
    fn job(&mut self, execution: &str, chg: &str) {
        let to = self.chg();
        // Two jobs of the same kind exclude each other.
        let errors = ["LEASED", "NOCHG", "BUSY", "ERR"];
        let line = match self.rng.below(8) {
            0..=1 => format!("MOVE {chg} {to}"),
            2 => format!("FORGET {execution} STATE DONE"),
            3 => format!("FORGET {execution} GROUP {chg}"),
            4 => format!(
                "LIMIT {chg} DONE {} EXECUTION {execution}",
                self.rng.below(40)
            ),
            5 => format!("COUNT {execution} GROUP {chg}"),
            6 => "REPAIR".to_owned(),
            _ => "CHECK".to_owned(),
        };
        let reply = self.tries(&line, &errors);
        if let Some(reply) = reply.filter(|_| line == "REPAIR" || line == "CHECK") {
            assert_eq!(reply.field("consistent").int(), 1, "{reply:?}");
        }
    }

    /// Leases URLs, and ends the lease in one of the possible ways.
    fn fetch(&mut self) {
        let gate = if self.rng.chance(30) { " GATE 0" } else { "" };
        let mut line = format!("NEXT URIS {}{gate}", 1 + self.rng.below(4));
        if self.rng.chance(50) {
            line += &format!(" EXECUTION {}", self.execution());
        }
        let Reply::Array(leases) = self.f.ok(&line) else {
            return;
        };
        let held = Held::of(&leases[0]);
        let places = || {
            let keys = held.keys.iter().filter(|_| held.execution != SETTLED);
            keys.map(|key| (held.execution.clone(), key.clone()))
        };
        let mut leased = self.leased.lock().expect("no client has failed");
        for place in places() {
            let is_new = leased.insert(place);
            assert!(is_new, "leased twice: {leases:?}");
        }
        drop(leased);
        // This client may be interrupted here, while the URLs are leased.
        thread::yield_now();
        // Other clients may lease the URLs as soon as the lease ends, before this client has the reply.
        let mut leased = self.leased.lock().expect("no client has failed");
        leased.retain(|place| !places().any(|ended| ended == *place));
        drop(leased);
        self.end(&held, !gate.is_empty());
    }

    fn end(&mut self, held: &Held, is_free: bool) {
        let Held {
            chg,
            token,
            execution,
            ..
        } = held;
        let gone = ["STALE", "NOCHG"];
        let done = format!("DONE {chg} {token} {execution}");
        let release = format!("RELEASE {chg} {token} DELAY 0");
        match self.rng.below(4) {
            _ if is_free => drop(self.tries(&done, &gone)),
            0 => {
                // The URLs may have been settled.
                let later = self.tries(&format!("{release} LATER 3600000"), &["ERR"]);
                match later {
                    Some(_) => drop(self.tries(&done, &gone)),
                    None => drop(self.f.ok(release)),
                }
            }
            1 => drop(self.f.ok(release)),
            2 => drop(self.f.ok(format!("{release} RETRY 0"))),
            _ => drop(self.f.ok(format!("{release} DONE {execution}"))),
        }
    }
}

impl Held {
    fn of(lease: &Reply) -> Held {
        let parts = lease.items();
        let keys = parts[7].items().iter().map(|item| {
            let [uri, key, payload, ..] = item.items() else {
                panic!("{item:?}")
            };
            // A URL that was settled while it was done has neither key nor payload.
            if key.is_nil() {
                assert!(payload.is_nil(), "{item:?}");
                return uri.text();
            }
            let key = key.text();
            assert_eq!(uri.text(), format!("page-{key}"));
            assert_eq!(payload.text(), format!("of-{key}"));
            key
        });
        Held {
            chg: parts[0].text(),
            token: parts[1].int(),
            execution: parts[5].text(),
            keys: keys.collect(),
        }
    }
}

/// Returns the sums over all executions: queued, leased and all known URLs.
fn sums(f: &mut Frontier) -> [i64; 3] {
    let mut sums = [0; 3];
    for execution in EXECUTIONS {
        let counts = f.ok(format!("COUNT {execution}"));
        let count = |name: &str| counts.field(name).int();
        let states = ["queued", "leased", "done", "given-up"].map(count);
        assert_eq!(count("known"), states.iter().sum::<i64>(), "{counts:?}");
        sums[0] += count("queued");
        sums[1] += count("leased");
        sums[2] += count("known");
    }
    assert_eq!(f.figure("uris"), sums[0] + sums[1]);
    sums
}

#[test]
fn clients_that_race_on_known_urls_agree() {
    let mut rng = Rng::new("clients_that_race_on_known_urls");
    let options = || Options::new().packed().module_args(&["slice-us", "50"]);
    let mut server = options().aof_unsynced(true).start();
    let replica = options().replica_of(&server).start();
    let mut f = Frontier::real(&server);
    for execution in &EXECUTIONS[..2] {
        f.ok(format!("SPACE {execution} SHARE both"));
    }
    let leased = Leased::default();
    let steps = rounds("HISTORY_STEPS", 4000) / CLIENTS as u64;
    thread::scope(|scope| {
        for _ in 0..CLIENTS {
            let mut client = Client {
                f: Frontier::real(&server),
                rng: Rng::seeded(rng.bits()),
                leased: &leased,
            };
            scope.spawn(move || client.work(steps));
        }
    });
    let mut f = Frontier::real(&server);
    f.assert_consistent();
    assert_replicated(&server, &replica);
    let (before, digest) = (sums(&mut f), server.digest());
    assert_eq!(sums(&mut Frontier::real(&replica)), before);
    for file in ["RELOAD", "LOADAOF"] {
        f.wire.expect_ok(&["DEBUG", file]);
        assert_eq!(server.digest(), digest, "{file}");
        f.assert_consistent();
    }
    server.restart();
    let mut f = Frontier::real(&server);
    assert_eq!(sums(&mut f), before);
    for group in 0..GROUPS {
        for execution in EXECUTIONS {
            f.ok(format!("LIMIT host-{group} DONE 0 EXECUTION {execution}"));
        }
    }
    let mut fetched = 0;
    while let Reply::Array(leases) = f.ok("NEXT URIS 1000") {
        let held = Held::of(&leases[0]);
        fetched += held.keys.len() as i64;
        let Held {
            chg,
            token,
            execution,
            ..
        } = held;
        f.ok(format!("RELEASE {chg} {token} DELAY 0 DONE {execution}"));
    }
    assert_eq!((before[0], before[1]), (fetched, 0));
    assert_eq!(sums(&mut f), [0, 0, before[2]]);
    f.assert_consistent();
    assert_eq!(server.info_number("panics"), 0);
}
