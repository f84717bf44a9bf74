//! Clients work on known URLs while the server is killed: after each restart, every URL has the state of the last
//! command that was answered.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use redis_tests::{Frontier, Options, Reply, Rng, rounds, until};

const WORKERS: usize = 3;
const HOSTS: u64 = 80;
/// Duration of leases, in milliseconds. No lease expires during the test.
const LONG: u64 = 3_600_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Queued,
    Leased,
    Done,
}

impl State {
    fn name(self) -> &'static str {
        match self {
            State::Queued => "queued",
            State::Leased => "leased",
            State::Done => "done",
        }
    }
}

/// A URL, with the host and the payload that it must have.
#[derive(Clone, Debug)]
struct Url {
    host: u64,
    state: State,
    payload: Option<String>,
    /// True if the URL was discovered with a key.
    has_key: bool,
}

/// A lease with URLs.
#[derive(Clone, Debug)]
struct Held {
    chg: String,
    token: i64,
    keys: Vec<String>,
    /// Number of URLs when the lease was granted.
    uris: usize,
    /// True if the lease has freed its group.
    is_free: bool,
}

/// A command, and its effect on URLs once it is answered. `None` removes a URL.
#[derive(Clone, Debug)]
struct Command {
    line: String,
    becomes: BTreeMap<String, Option<Url>>,
}

/// A client that works on the URLs of its own execution.
struct Worker {
    execution: String,
    rng: Rng,
    urls: BTreeMap<String, Url>,
    leases: Vec<Held>,
    names: u64,
    /// The command that was not answered before the server was killed.
    open: Option<Command>,
}

impl Worker {
    fn new(nth: usize, rng: Rng) -> Worker {
        Worker {
            execution: format!("crawl-{nth}"),
            rng,
            urls: BTreeMap::new(),
            leases: Vec::new(),
            names: 0,
            open: None,
        }
    }

    /// Works until the server is killed.
    fn work(&mut self, f: &mut Frontier, answered: &AtomicU64) {
        while self.step(f).is_ok() {
            answered.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn step(&mut self, f: &mut Frontier) -> io::Result<()> {
        let command = match self.rng.below(10) {
            0..=2 => self.discover(),
            3..=4 => return self.next(f),
            5 => self.settle(),
            6 => self.forget(),
            7 => self.done(),
            _ => self.release(),
        };
        let Some(command) = command else {
            return self.next(f);
        };
        self.open = Some(command.clone());
        let reply = send(f, &command.line)?;
        assert!(!reply.is_error(), "{}: {reply:?}", command.line);
        self.answered(command);
        Ok(())
    }

    fn answered(&mut self, command: Command) {
        self.open = None;
        for (key, url) in command.becomes {
            // The URL of a lease may have been settled.
            for held in &mut self.leases {
                held.keys.retain(|held| *held != key);
            }
            match url {
                Some(url) => drop(self.urls.insert(key, url)),
                None => drop(self.urls.remove(&key)),
            }
        }
        self.leases
            .retain(|held| !held.is_free || !held.keys.is_empty());
    }

    fn payload(&mut self) -> String {
        format!("payload-{}", self.rng.bits())
    }

    fn discover(&mut self) -> Option<Command> {
        let has_key = self.rng.chance(70);
        let form = if has_key { "KEYPAYLOAD" } else { "URI" };
        let mut line = format!("DISCOVER {} {form} ITEMS 3", self.execution);
        let mut becomes = BTreeMap::new();
        for _ in 0..3 {
            self.names += 1;
            let (key, host) = (format!("url-{}", self.names), self.rng.below(HOSTS));
            let payload = has_key.then(|| self.payload());
            line += &match &payload {
                None => format!(" host-{host} 0 1 {key}"),
                Some(payload) => format!(" host-{host} 0 1 page-of-{key} {key} {payload}"),
            };
            let url = Url {
                host,
                state: State::Queued,
                payload,
                has_key,
            };
            becomes.insert(key, Some(url));
        }
        Some(Command { line, becomes })
    }

    /// Returns one of the URLs.
    fn some_url(&mut self) -> Option<(String, Url)> {
        let nth = self.rng.below(self.urls.len().max(1) as u64) as usize;
        let url = self.urls.iter().nth(nth)?;
        Some((url.0.clone(), url.1.clone()))
    }

    fn settle(&mut self) -> Option<Command> {
        let (key, mut url) = self.some_url()?;
        let payload = self.payload();
        let is_done = self.rng.chance(50);
        let time = if is_done { "NEVER" } else { "0" };
        let line = format!(
            "SETTLE {} PAYLOAD ITEMS 1 host-{} {key} {time} {payload}",
            self.execution, url.host
        );
        if is_done {
            url.state = State::Done;
        } else {
            // A URL that is done has lost its text.
            url.has_key &= url.state != State::Done;
            url.state = State::Queued;
            url.payload = Some(payload);
        }
        let becomes = BTreeMap::from([(key, Some(url))]);
        Some(Command { line, becomes })
    }

    fn forget(&mut self) -> Option<Command> {
        let (key, url) = self.some_url()?;
        let line = format!("FORGET {} URIS 1 {key}", self.execution);
        let goes = Some((key, None)).filter(|_| url.state != State::Leased);
        let becomes = goes.into_iter().collect();
        Some(Command { line, becomes })
    }

    fn ended(&self, keys: &[String], change: impl Fn(&mut Url)) -> BTreeMap<String, Option<Url>> {
        let changed = keys.iter().map(|key| {
            let mut url = self.urls[key].clone();
            change(&mut url);
            (key.clone(), Some(url))
        });
        changed.collect()
    }

    fn done(&mut self) -> Option<Command> {
        let held = self.leases.last()?.clone();
        let some = self.rng.below(held.keys.len() as u64 + 1) as usize;
        let keys = &held.keys[..some];
        if keys.is_empty() {
            return None;
        }
        let names = keys.join(" ");
        let line = format!(
            "DONE {} {} {} {names}",
            held.chg, held.token, self.execution
        );
        let becomes = self.ended(keys, |url| url.state = State::Done);
        Some(Command { line, becomes })
    }

    fn release(&mut self) -> Option<Command> {
        let at = self.leases.iter().position(|held| !held.is_free)?;
        let held = self.leases[at].clone();
        // The lease of a release that is sent again is not needed any more.
        let mut end = self.rng.below(4);
        if held.keys.is_empty() {
            end = 3;
        }
        let (end, becomes) = match end {
            0 => {
                self.leases[at].is_free = true;
                (format!("LATER {LONG}"), BTreeMap::new())
            }
            1 => {
                let done = self.ended(&held.keys, |url| url.state = State::Done);
                (format!("DONE {}", self.execution), done)
            }
            2 if held.uris == 1 => {
                let payload = self.payload();
                let back = self.ended(&held.keys, |url| {
                    url.state = State::Queued;
                    url.payload = Some(payload.clone());
                });
                (format!("RETRY 0 PAYLOAD {payload}"), back)
            }
            _ => {
                let back = self.ended(&held.keys, |url| url.state = State::Queued);
                ("RETRY 0".to_owned(), back)
            }
        };
        if !self.leases[at].is_free {
            self.leases.remove(at);
        }
        let line = format!("RELEASE {} {} DELAY 0 {end}", held.chg, held.token);
        Some(Command { line, becomes })
    }

    fn next(&mut self, f: &mut Frontier) -> io::Result<()> {
        let gate = if self.rng.chance(30) { " GATE 0" } else { "" };
        let uris = 1 + self.rng.below(3);
        let execution = &self.execution;
        let line = format!("NEXT LEASE {LONG} EXECUTION {execution} URIS {uris}{gate}");
        let becomes = BTreeMap::new();
        self.open = Some(Command { line, becomes });
        let line = &self.open.as_ref().expect("just set").line;
        let reply = send(f, line)?;
        self.open = None;
        let lease = match &reply {
            Reply::Nil => return Ok(()),
            Reply::Array(leases) => leases[0].items(),
            other => panic!("{other:?}"),
        };
        assert_eq!(lease[5].text(), self.execution);
        let mut held = Held {
            chg: lease[0].text(),
            token: lease[1].int(),
            keys: Vec::new(),
            uris: lease[7].items().len(),
            is_free: !gate.is_empty(),
        };
        for item in lease[7].items() {
            held.keys.push(self.took(&held.chg, item.items()));
        }
        self.leases.push(held);
        Ok(())
    }

    /// Records the lease of a URL, and returns its key. The URL must have been queued, with its last payload.
    fn took(&mut self, chg: &str, item: &[Reply]) -> String {
        let [uri, key, payload, ..] = item else {
            panic!("{item:?}")
        };
        let has_key = !key.is_nil();
        let key = if has_key { key.text() } else { uri.text() };
        let url = self.urls.get_mut(&key).expect("it was discovered");
        assert_eq!(url.state, State::Queued, "{key} is leased twice: {url:?}");
        assert_eq!(chg, format!("host-{}", url.host));
        assert_eq!(has_key, url.has_key, "{key}");
        let expected = if has_key {
            format!("page-of-{key}")
        } else {
            key.clone()
        };
        assert_eq!(uri.text(), expected);
        let payload = (!payload.is_nil()).then(|| payload.text());
        assert_eq!(payload, url.payload, "{key}");
        url.state = State::Leased;
        key
    }

    /// Sends the command again that was not answered, and compares the states of all URLs.
    fn resume(&mut self, f: &mut Frontier) {
        let open = self.open.take();
        let is_next = open
            .as_ref()
            .is_some_and(|open| open.line.starts_with("NEXT"));
        if let Some(open) = open.filter(|_| !is_next) {
            let reply = f.call(&open.line);
            // Another client may have leased the group of a release that was applied.
            let is_stale = matches!(&reply, Reply::Error(line) if line.starts_with(b"STALE "));
            let may_be_stale = open.line.starts_with("RELEASE");
            assert!(
                !reply.is_error() || is_stale && may_be_stale,
                "{open:?}: {reply:?}"
            );
            self.answered(open);
        }
        // A lease that was granted but not answered has some of the queued URLs.
        let mut lost = 0;
        for (key, url) in &mut self.urls {
            let known = f.ok(format!("KNOWN {} {key}", self.execution));
            let known = &known.items()[0];
            assert!(!known.is_nil(), "{key} is lost: {url:?}");
            let state = known.items()[0].text();
            if is_next && url.state == State::Queued && state == "leased" {
                url.state = State::Leased;
                lost += 1;
            }
            assert_eq!(state, url.state.name(), "{key}: {url:?}");
        }
        assert!(lost <= 3, "{lost} URLs of one lease");
        self.assert_counted(f);
    }

    fn assert_counted(&self, f: &mut Frontier) {
        let counts = f.ok(format!("COUNT {}", self.execution));
        let states = [State::Queued, State::Leased, State::Done];
        for state in states {
            let expected = self.urls.values().filter(|url| url.state == state).count();
            assert_eq!(
                counts.field(state.name()).int(),
                expected as i64,
                "{counts:?}"
            );
        }
        assert_eq!(counts.field("known").int(), self.urls.len() as i64);
    }

    /// Leases all queued URLs.
    fn drain(&mut self, f: &mut Frontier) {
        loop {
            let line = format!("NEXT EXECUTION {} URIS 1000 GATE 0", self.execution);
            let Reply::Array(leases) = f.ok(line) else {
                return;
            };
            let lease = leases[0].items();
            for item in lease[7].items() {
                self.took(&lease[0].text(), item.items());
            }
        }
    }
}

fn send(f: &mut Frontier, line: &str) -> io::Result<Reply> {
    let words = f.words(line);
    f.wire.try_send(&words)?;
    f.wire.try_recv()
}

#[test]
fn server_killed_under_clients_that_use_known_urls_loses_nothing() {
    let mut rng = Rng::new("server_killed_under_clients_that_use_known_urls");
    let mut server = Options::new().packed().aof(true).start();
    let mut workers: Vec<_> = (0..WORKERS)
        .map(|nth| Worker::new(nth, Rng::seeded(rng.bits())))
        .collect();
    let kills = rounds("KILLS", 8);
    for round in 1..=kills {
        if rng.chance(25) {
            server.wire().call(&["BGREWRITEAOF"]);
        }
        let mut clients: Vec<_> = workers.iter().map(|_| Frontier::real(&server)).collect();
        let (answered, wanted) = (AtomicU64::new(0), 50 + rng.below(300));
        thread::scope(|scope| {
            for (worker, client) in workers.iter_mut().zip(&mut clients) {
                scope.spawn(|| worker.work(client, &answered));
            }
            until("the clients have worked", || {
                answered.load(Ordering::Relaxed) >= wanted
            });
            server.kill9();
        });
        server.restart();
        let mut f = Frontier::real(&server);
        for worker in &mut workers {
            worker.resume(&mut f);
        }
        f.assert_consistent();
        let open = workers.iter().flat_map(|worker| worker.urls.values());
        let open = open.filter(|url| url.state != State::Done).count();
        assert_eq!(f.figure("uris"), open as i64, "after {round} kills");
    }
    let mut f = Frontier::real(&server);
    for worker in &mut workers {
        for held in std::mem::take(&mut worker.leases) {
            if !held.is_free {
                f.ok(format!(
                    "RELEASE {} {} DELAY 0 LATER {LONG}",
                    held.chg, held.token
                ));
            }
        }
    }
    for worker in &mut workers {
        worker.drain(&mut f);
        worker.assert_counted(&mut f);
        for (key, url) in &worker.urls {
            // A lease whose reply was lost still holds its group.
            if url.state == State::Queued {
                let state = f.state(&format!("host-{}", url.host));
                assert_eq!(state, "busy", "{key} is not leased: {url:?}");
            }
        }
    }
    f.assert_consistent();
    assert_eq!(server.info_number("panics"), 0);
}
