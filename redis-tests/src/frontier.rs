//! A test connection to a frontier: one `CHG.*` command per line, at a simulated time or with the
//! server's clock.
//!
//! ```no_run
//! use redis_tests::{Frontier, T0};
//! let server = redis_tests::simulated().start();
//! let mut f = Frontier::at(&server, T0);
//! f.add("crawl", "host", T0);
//! let lease = f.take("host");
//! assert_eq!(f.release(&lease, format!("AT {} DONE crawl", T0 + 2000)), T0 + 2000);
//! f.pass(2000);
//! f.assert_conserved();
//! ```

use crawlspace_compact::limits::chg as limits;

use crate::server::{Options, Server};
use crate::storage::frontier_view;
use crate::wire::{Reply, Wire, runs_lines};

/// Start of simulated time in tests, in the year 2096. For commands without `NOW`, which use the
/// server's own clock, no group is ever due.
pub const T0: i64 = 4_000_000_000_000;

/// Maximum distance between a time and now, in milliseconds.
pub const TEN_YEARS: i64 = limits::TEN_YEARS as i64;

/// Default duration of a lease, in milliseconds.
pub const LEASE: i64 = limits::LEASE_MS as i64;

/// Returns options for a server that accepts `NOW`.
pub fn simulated() -> Options {
    Options::new().module_args(&["chg-simulated-time", "yes"])
}

/// A lease of `CHG.NEXT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The group.
    pub chg: String,
    /// The token that a release needs.
    pub token: i64,
    /// Time at which the lease expires.
    pub deadline: i64,
    /// Due time of the group before the lease.
    pub n: i64,
    /// Number of queued URIs, including the leased one.
    pub c: i64,
    /// Execution of the URI, if the frontier stores URIs.
    pub execution: Option<String>,
    /// The URI, if the frontier stores URIs.
    pub uri: Option<String>,
}

impl Lease {
    /// Parses one lease of a reply.
    ///
    /// # Panics
    /// Panics if the lease does not have the seven or eight documented elements.
    #[track_caller]
    pub fn of(reply: &Reply) -> Lease {
        let (parts, uris) = match reply.items() {
            [parts @ .., uris] if parts.len() == 7 => (parts, uris.items()),
            parts => (parts, &[][..]),
        };
        let [chg, token, deadline, n, c, execution, uri] = parts else {
            panic!("expected a lease, got {reply:?}");
        };
        let uri = uris.first().map_or(uri, |first| &first.items()[0]);
        let text = |reply: &Reply| (!reply.is_nil()).then(|| reply.text());
        Lease {
            chg: chg.text(),
            token: token.int(),
            deadline: deadline.int(),
            n: n.int(),
            c: c.int(),
            execution: text(execution),
            uri: text(uri),
        }
    }

    /// Parses the leases in a reply of `CHG.NEXT`. Nil means no lease.
    #[track_caller]
    pub fn all(reply: &Reply) -> Vec<Lease> {
        if reply.is_nil() {
            return Vec::new();
        }
        let leases: Vec<Lease> = reply.items().iter().map(Lease::of).collect();
        assert!(
            !leases.is_empty(),
            "without a lease, the reply is nil, not an empty array"
        );
        leases
    }

    /// Parses a reply of `CHG.NEXT` that must contain one lease.
    #[track_caller]
    pub fn only(reply: &Reply) -> Lease {
        let mut leases = Lease::all(reply);
        assert_eq!(leases.len(), 1, "{leases:?}");
        leases.remove(0)
    }
}

/// A connection that uses one frontier.
pub struct Frontier {
    /// The connection, for plain commands.
    pub wire: Wire,
    /// Simulated time; `None` uses the server's clock.
    pub now: Option<i64>,
    prefix: String,
}

impl Frontier {
    /// Connects to the frontier `{f}:` at a simulated time.
    pub fn at(server: &Server, now: i64) -> Frontier {
        Frontier {
            now: Some(now),
            ..Frontier::of(server, "{f}:")
        }
    }

    /// Connects to the frontier `{f}:` with the server's clock.
    pub fn real(server: &Server) -> Frontier {
        Frontier::of(server, "{f}:")
    }

    /// Connects to a frontier with the server's clock.
    pub fn of(server: &Server, prefix: &str) -> Frontier {
        Frontier::over(server.wire(), prefix)
    }

    /// Uses an existing connection for a frontier with the server's clock.
    pub fn over(wire: Wire, prefix: &str) -> Frontier {
        Frontier {
            wire,
            now: None,
            prefix: prefix.to_owned(),
        }
    }

    /// Returns the prefix.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Returns the full name of a key of this frontier.
    pub fn key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// Returns the time, simulated or from the server's clock.
    pub fn time(&mut self) -> i64 {
        self.now.unwrap_or_else(|| server_time(&mut self.wire))
    }

    /// Advances the simulated time.
    pub fn pass(&mut self, ms: i64) {
        *self.now.as_mut().expect("simulated time") += ms;
    }

    /// Parses a line into the arguments of a command: `ADD crawl host 0` is `CHG.ADD {f}: NOW <now>
    /// crawl host 0`.
    pub fn words(&self, line: impl AsRef<str>) -> Vec<Vec<u8>> {
        let mut rest = line.as_ref().split(' ');
        let name = rest.next().unwrap_or_default();
        let mut words = vec![format!("CHG.{name}"), self.prefix.clone()];
        if let Some(now) = self.now {
            words.extend(["NOW".to_owned(), now.to_string()]);
        }
        words.extend(rest.map(str::to_owned));
        words.into_iter().map(String::into_bytes).collect()
    }

    runs_lines!();

    /// Runs `ADD` with one URI and returns the number of URIs that the group has now.
    #[track_caller]
    pub fn add(&mut self, execution: &str, chg: &str, at: i64) -> i64 {
        let reply = self.ok(format!("ADD {execution} {chg} {at}"));
        assert_eq!(reply.items().len(), 1, "{reply:?}");
        reply.items()[0].int()
    }

    /// Runs `ADDURI` with one URI and returns the number of URIs that the group has now.
    #[track_caller]
    pub fn add_uri(&mut self, execution: &str, chg: &str, at: i64, depth: u32, uri: &str) -> i64 {
        let reply = self.ok(format!("ADDURI {execution} {chg} {at} {depth} {uri}"));
        assert_eq!(reply.items().len(), 1, "{reply:?}");
        reply.items()[0].int()
    }

    /// Runs `NEXT` and returns the lease, if a group is due.
    #[track_caller]
    pub fn try_take(&mut self) -> Option<Lease> {
        let mut leases = Lease::all(&self.ok("NEXT"));
        assert!(leases.len() <= 1, "{leases:?}");
        leases.pop()
    }

    /// Runs `NEXT`, which must lease this group.
    #[track_caller]
    pub fn take(&mut self, chg: &str) -> Lease {
        let lease = self.try_take();
        let lease = lease.unwrap_or_else(|| panic!("expected a lease of {chg}, got nothing"));
        assert_eq!(lease.chg, chg, "{lease:?}");
        lease
    }

    /// Runs `NEXT`, which must find no group.
    #[track_caller]
    pub fn take_none(&mut self) {
        assert_eq!(self.try_take(), None, "expected no lease");
    }

    /// Runs `RELEASE` with this lease and returns the due time of the reply.
    #[track_caller]
    pub fn release(&mut self, lease: &Lease, rest: impl AsRef<str>) -> i64 {
        self.ok(release(lease, rest)).int()
    }

    /// Runs `NEXT`, which must lease this group, then `RELEASE` with that lease. Returns the due
    /// time of the reply.
    #[track_caller]
    pub fn fetch(&mut self, chg: &str, rest: impl AsRef<str>) -> i64 {
        let lease = self.take(chg);
        self.release(&lease, rest)
    }

    /// Returns the reply to a command that only reads plain keys. If the frontier is packed, the
    /// command reads the keys that the frontier would have in plain storage.
    #[track_caller]
    pub fn read(&mut self, words: &[&str]) -> Reply {
        frontier_view(&mut self.wire, &self.prefix, |wire| wire.expect_ok(words))
    }

    /// Returns a number in a field of one of the frontier's hashes.
    pub fn number(&mut self, key: &str, field: &str) -> Option<i64> {
        let key = self.key(key);
        let value = self.read(&["HGET", &key, field]);
        (!value.is_nil()).then(|| {
            let text = value.text();
            text.parse()
                .unwrap_or_else(|_| panic!("{key} {field} is {text}"))
        })
    }

    /// Returns `n` of a group.
    pub fn due(&mut self, chg: &str) -> Option<i64> {
        self.number(&format!("CHG:{chg}"), "n")
    }

    /// Returns `c` of a group; 0 if the group does not exist.
    pub fn count(&mut self, chg: &str) -> i64 {
        self.number(&format!("CHG:{chg}"), "c").unwrap_or(0)
    }

    /// Returns true if the group's hash exists.
    pub fn exists(&mut self, chg: &str) -> bool {
        let key = self.key(&format!("CHG:{chg}"));
        self.read(&["EXISTS", &key]).int() == 1
    }

    /// Returns `QCT`.
    pub fn total(&mut self) -> i64 {
        let key = self.key("QCT");
        let value = self.read(&["GET", &key]);
        match value {
            Reply::Nil => 0,
            value => value.text().parse().expect("QCT is a number"),
        }
    }

    /// Returns `EIDC` of an execution; 0 if it does not exist.
    pub fn queued(&mut self, execution: &str) -> i64 {
        self.number("EIDC", execution).unwrap_or(0)
    }

    /// Returns `chg_ready`, starting at its head.
    pub fn ready(&mut self) -> Vec<String> {
        let key = self.key("chg_ready");
        self.read(&["LRANGE", &key, "0", "-1"]).texts()
    }

    /// Returns `chg_wait` in order, with times in whole milliseconds.
    pub fn wait(&mut self) -> Vec<(String, i64)> {
        self.zset("chg_wait")
    }

    /// Returns `chg_busy` in order.
    pub fn busy(&mut self) -> Vec<(String, i64)> {
        self.zset("chg_busy")
    }

    fn zset(&mut self, name: &str) -> Vec<(String, i64)> {
        let key = self.key(name);
        let members = self
            .read(&["ZRANGE", &key, "0", "-1", "WITHSCORES"])
            .texts();
        let pairs = members.chunks_exact(2);
        pairs
            .map(|pair| {
                let score: f64 = pair[1].parse().expect("a score");
                (pair[0].clone(), score.floor() as i64)
            })
            .collect()
    }

    /// Returns the queues of a group: `""`, `"wait"`, `"ready"`, `"busy"`, or several joined by
    /// `+`.
    pub fn place(&mut self, chg: &str) -> String {
        let in_zset = |members: Vec<(String, i64)>| members.iter().any(|(id, _)| id == chg);
        let places = [
            ("wait", in_zset(self.wait())),
            ("ready", self.ready().iter().any(|id| id == chg)),
            ("busy", in_zset(self.busy())),
        ];
        let names = places
            .iter()
            .filter(|(_, there)| *there)
            .map(|(name, _)| *name);
        names.collect::<Vec<_>>().join("+")
    }

    /// Returns the reply of `WHY` for a group.
    pub fn why(&mut self, chg: &str) -> Reply {
        self.ok(format!("WHY {chg}"))
    }

    /// Returns the state of a group according to `WHY`.
    pub fn state(&mut self, chg: &str) -> String {
        self.why(chg).field("state").text()
    }

    /// Returns a number of `INFO`.
    pub fn figure(&mut self, field: &str) -> i64 {
        self.ok("INFO").field(field).int()
    }

    /// Returns the sum of `c`, the sum of `EIDC`, and `QCT`, as a plain client reads them.
    pub fn sums(&mut self) -> [i64; 3] {
        let pattern = self.key("CHG:*").replace(['[', ']', '?'], "?");
        let counts = frontier_view(&mut self.wire, &self.prefix, |wire| {
            let keys = wire.expect_ok(&["KEYS", &pattern]).texts();
            wire.pipeline(keys.iter().map(|key| vec!["HGET", key.as_str(), "c"]))
        });
        let numbers = |replies: Vec<Reply>| -> i64 {
            let texts = replies
                .iter()
                .filter(|r| !r.is_nil())
                .map(|r| r.text().parse::<i64>());
            texts.map(|n| n.expect("a number")).sum()
        };
        let key = self.key("EIDC");
        let executions = self.read(&["HVALS", &key]).items().to_vec();
        [numbers(counts), numbers(executions), self.total()]
    }

    /// Fails unless the sum of `c`, the sum of `EIDC` and `QCT` are equal, each group is in the
    /// right queue, and `CHECK` finds no problems.
    #[track_caller]
    pub fn assert_conserved(&mut self) {
        let [groups, executions, total] = self.sums();
        assert!(
            groups == executions && executions == total,
            "sum of c {groups}, sum of EIDC {executions}, QCT {total}"
        );
        let check = self.ok("CHECK");
        assert_eq!(check.field("consistent").int(), 1, "{check:?}");
        assert_eq!(check.field("total").int(), total, "{check:?}");
    }

    /// Fails unless `CHECK` finds no problems and equal sums. Unlike [`Frontier::assert_conserved`], reads no documented
    /// keys, so that it also checks a frontier that cannot be unpacked, or is being converted.
    #[track_caller]
    pub fn assert_consistent(&mut self) {
        let check = self.ok("CHECK");
        assert_eq!(check.field("consistent").int(), 1, "{check:?}");
        for sum in ["sum-groups", "sum-executions"] {
            assert_eq!(check.field(sum), check.field("total"), "{check:?}");
        }
    }
}

/// Returns the line that releases a lease.
pub fn release(lease: &Lease, rest: impl AsRef<str>) -> String {
    format!("RELEASE {} {} {}", lease.chg, lease.token, rest.as_ref())
}

/// Returns the server's clock in milliseconds.
pub fn server_time(wire: &mut Wire) -> i64 {
    let reply = wire.expect_ok(&["TIME"]);
    let parts: Vec<i64> = reply
        .texts()
        .iter()
        .map(|t| t.parse().expect("a number"))
        .collect();
    parts[0] * 1000 + parts[1] / 1000
}

/// Runs `line` in a new client of this frontier. Waits until the server reports that the client is
/// blocked.
pub fn blocked(server: &Server, prefix: &str, line: &str) -> Frontier {
    let before = server.info_number("blocked_clients");
    let mut waiter = Frontier::of(server, prefix);
    waiter.send(line);
    crate::until("the client is blocked", || {
        server.info_number("blocked_clients") > before
    });
    waiter
}
