//! The peer: the seed's keys worked by its own scripts and plain commands, as a frontier in Java
//! does it (Veidemann). Written anew from the descriptions; its faults are kept:
//!
//! * `BRPOP` takes the group that became ready last, and a client that dies after it has the group
//!   in no queue at all;
//! * a release is four commands with gaps between them;
//! * nobody checks who releases, and counts go down to where they go.
//!
//! One fault is not: the script that adds puts the execution's id into `chg_wait` in place of the
//! group's, with which nothing would ever be fetched. The group's id goes in here.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use redis_tests::{Server, ok};

use super::hosts::Hosts;
use crate::load::{Connection, Feeder, Item, encode};

/// How often the queue worker looks.
pub const SWEEP_EVERY: Duration = Duration::from_millis(50);
/// How long a group rests that was found empty.
const EMPTY: Duration = Duration::from_secs(1);
/// How long a harvester has.
const BUSY_MS: u64 = 600_000;

/// Adding, the part that has to do with the group. `KEYS`: group, `chg_wait`, `EIDC`, `QCT`;
/// `ARGV`: due time, execution, group.
pub const ADD: &str = "\
local new = redis.call('HSETNX', KEYS[1], 'n', ARGV[1])
redis.call('HINCRBY', KEYS[1], 'c', 1)
redis.call('HINCRBY', KEYS[3], ARGV[2], 1)
redis.call('INCR', KEYS[4])
if new > 0 then redis.call('ZADD', KEYS[2], ARGV[1], ARGV[3]) end";

/// Taking. `KEYS`: `chg_busy`, group; `ARGV`: group, deadline.
pub const BUSY: &str = "\
redis.call('ZADD', KEYS[1], ARGV[2], ARGV[1])
return redis.call('HGETALL', KEYS[2])";

/// The queue worker's. `KEYS`: `chg_wait` or `chg_busy`, `chg_ready`; `ARGV`: now.
pub const SWEEP: &str = "\
local due = redis.call('ZRANGEBYSCORE', KEYS[1], 0, ARGV[1])
for _, chg in ipairs(due) do
  redis.call('ZREM', KEYS[1], chg)
  redis.call('RPUSH', KEYS[2], chg)
end
return #due";

/// Adding, the part that keeps the URI: `KEYS`: queue of the execution in this group, executions of
/// the group; `ARGV`: `depth:time:uri`, weight, execution.
const KEEP: &str = "\
redis.call('ZADD', KEYS[1], 0, ARGV[1])
redis.call('ZADD', KEYS[2], ARGV[2], ARGV[3])";

/// Removing a URI that is done. `KEYS`: queue of the execution in this group, executions of the
/// group, group, `EIDC`, `QCT`; `ARGV`: `depth:time:uri`, execution.
const REMOVE: &str = "\
local gone = redis.call('ZREM', KEYS[1], ARGV[1])
if gone > 0 then
  redis.call('HINCRBY', KEYS[3], 'c', -1)
  if redis.call('HINCRBY', KEYS[4], ARGV[2], -1) <= 0 then redis.call('HDEL', KEYS[4], ARGV[2]) end
  redis.call('DECR', KEYS[5])
end
if redis.call('EXISTS', KEYS[1]) == 0 then redis.call('ZREM', KEYS[2], ARGV[2]) end
return gone";

/// A new deadline when the URI goes to a harvester. `KEYS`: `chg_busy`; `ARGV`: group, deadline.
const EXTEND: &str = "return redis.call('ZADD', KEYS[1], 'XX', 'CH', ARGV[2], ARGV[1])";

/// Milliseconds since the epoch, by this machine's clock.
pub fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |d| d.as_millis() as u64)
}

/// Key of a group.
pub fn key(chg: &str) -> String {
    format!("CHG:{chg}")
}

/// Digests of the scripts, which are loaded once.
pub struct Scripts {
    pub add: Vec<u8>,
    pub busy: Vec<u8>,
    pub sweep: Vec<u8>,
    keep: Vec<u8>,
    remove: Vec<u8>,
    extend: Vec<u8>,
}

impl Scripts {
    /// Loads them.
    pub fn load(server: &Server) -> Scripts {
        let mut wire = server.wire();
        let mut load = |script: &str| ok!(wire, "SCRIPT", "LOAD", script).bytes().to_vec();
        Scripts {
            add: load(ADD),
            busy: load(BUSY),
            sweep: load(SWEEP),
            keep: load(KEEP),
            remove: load(REMOVE),
            extend: load(EXTEND),
        }
    }

    /// The call that counts a URI.
    pub fn count(&self, chg: &str, execution: &str, at: u64) -> Vec<Vec<u8>> {
        let text = |s: &str| s.as_bytes().to_vec();
        vec![
            text("EVALSHA"),
            self.add.clone(),
            text("4"),
            key(chg).into_bytes(),
            text("chg_wait"),
            text("EIDC"),
            text("QCT"),
            at.to_string().into_bytes(),
            text(execution),
            text(chg),
        ]
    }

    /// The two calls that queue the `i`-th URI of a group.
    pub fn queue(&self, feeder: &mut Feeder, hosts: &Hosts, chg: u64, i: u64, at: u64) {
        let id = hosts.chg(chg);
        let (execution, weight) = hosts.execution(i);
        let member = format!("{}:{at}:{}", hosts.depth(i), hosts.uri(chg, i));
        feeder.request(&[
            b"EVALSHA",
            &self.keep,
            b"2",
            queue_key(&id, execution).as_bytes(),
            executions_key(&id).as_bytes(),
            member.as_bytes(),
            weight.to_string().as_bytes(),
            execution.as_bytes(),
        ]);
        let count = self.count(&id, execution, at);
        let words: Vec<&[u8]> = count.iter().map(Vec::as_slice).collect();
        feeder.request(&words);
    }
}

/// Queue of an execution in a group: all scores are 0, so that members sort by depth, then time.
fn queue_key(chg: &str, execution: &str) -> String {
    format!("UEID:{chg}:{execution}")
}

/// Executions of a group by weight.
fn executions_key(chg: &str) -> String {
    format!("UCHG:{chg}")
}

/// The background job: every 50 ms both queues, on a connection of its own.
pub struct Worker {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Worker {
    /// Starts it.
    pub fn start(server: &Server) -> Worker {
        let stop = Arc::new(AtomicBool::new(false));
        let sha = Scripts::load(server).sweep;
        let mut connection = Connection::unix(server);
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                let round = Instant::now();
                for queue in [b"chg_wait", b"chg_busy"] {
                    sweep(&mut connection, &sha, queue);
                }
                std::thread::sleep(SWEEP_EVERY.saturating_sub(round.elapsed()));
            }
        });
        Worker { stop, thread }
    }

    /// Stops it.
    pub fn finish(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the worker is answered");
    }
}

/// One run of the worker's script; how many groups it moved.
pub fn sweep(connection: &mut Connection, sha: &[u8], queue: &[u8]) -> u64 {
    let now = now_ms().to_string();
    let mut request = Vec::new();
    encode(
        &mut request,
        &[b"EVALSHA", sha, b"2", queue, b"chg_ready", now.as_bytes()],
    );
    connection.send(&request);
    let mut moved = 0;
    connection.read(1, |item| {
        if let Item::Int(n) = item {
            moved = n as u64;
        }
    });
    moved
}

/// A harvester with its frontier: takes a group, finds a URI, reports it done, one round trip after
/// the other.
pub struct Harvester {
    connection: Connection,
    scripts: Arc<Scripts>,
    request: Vec<u8>,
    draws: u64,
    /// Round trips so far.
    pub trips: u64,
}

impl Harvester {
    /// On a connection of its own.
    pub fn new(server: &Server) -> Harvester {
        Harvester {
            connection: Connection::unix(server),
            scripts: Arc::new(Scripts::load(server)),
            request: Vec::new(),
            draws: 0,
            trips: 0,
        }
    }

    /// One round trip: the strings of its reply (an integer or null is none).
    fn trip(&mut self, words: &[&[u8]]) -> Vec<String> {
        self.trips += 1;
        self.request.clear();
        encode(&mut self.request, words);
        self.connection.send(&self.request);
        let mut texts = Vec::new();
        self.connection.read(1, |item| {
            if let Item::Bulk(bytes) = item {
                texts.push(String::from_utf8_lossy(bytes).into_owned());
            }
        });
        texts
    }

    /// A page from its choice to the release of its group, which then waits `pause`. False when no
    /// group was ready in time.
    pub fn page(&mut self, pause: Duration) -> bool {
        // 1. A group that is ready.
        let Some(chg) = self.trip(&[b"BRPOP", b"chg_ready", b"5"]).pop() else {
            return false;
        };
        let scripts = Arc::clone(&self.scripts);
        let group = key(&chg);
        let deadline = || (now_ms() + BUSY_MS).to_string();
        // 2. It becomes busy; its fields.
        self.trip(&[
            b"EVALSHA",
            &scripts.busy,
            b"2",
            b"chg_busy",
            group.as_bytes(),
            chg.as_bytes(),
            deadline().as_bytes(),
        ]);
        // 3. The largest weight among the group's executions.
        let executions = executions_key(&chg);
        let executions = executions.as_bytes();
        let largest = self
            .trip(&[
                b"ZREVRANGEBYSCORE",
                executions,
                b"+inf",
                b"-inf",
                b"WITHSCORES",
                b"LIMIT",
                b"0",
                b"1",
            ])
            .pop();
        let largest: f64 = largest.and_then(|w| w.parse().ok()).unwrap_or(0.0);
        // 4. An execution by a random draw below it.
        self.draws = self.draws.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let draw = largest * (self.draws >> 11) as f64 / (1u64 << 53) as f64;
        let Some(execution) = self
            .trip(&[
                b"ZRANGEBYSCORE",
                executions,
                draw.to_string().as_bytes(),
                b"+inf",
                b"LIMIT",
                b"0",
                b"1",
            ])
            .pop()
        else {
            // The release of a group's last URI queues it all the same: later, perhaps.
            self.release(&chg, pause.max(EMPTY));
            return self.page(pause);
        };
        // 5. Its first URI.
        let queue = queue_key(&chg, &execution);
        let queue = queue.as_bytes();
        let uri = self.trip(&[b"ZRANGE", queue, b"0", b"0"]).pop();
        let uri = uri.expect("an execution of a group has URIs");
        // 6. The deadline anew, as the URI goes to a harvester.
        self.trip(&[
            b"EVALSHA",
            &scripts.extend,
            b"1",
            b"chg_busy",
            chg.as_bytes(),
            deadline().as_bytes(),
        ]);

        // Here the page is fetched.

        // 7. The group once more, for whoever hears of the result.
        self.trip(&[b"HGETALL", group.as_bytes()]);
        // 8. The URI is done.
        self.trip(&[
            b"EVALSHA",
            &scripts.remove,
            b"5",
            queue,
            executions,
            group.as_bytes(),
            b"EIDC",
            b"QCT",
            uri.as_bytes(),
            execution.as_bytes(),
        ]);
        // 9, 10. What is left of the execution and of all: is the crawl at its end?
        self.trip(&[b"HGET", b"EIDC", execution.as_bytes()]);
        self.trip(&[b"GET", b"QCT"]);
        // 11 to 14. The release.
        self.release(&chg, pause);
        true
    }

    /// The four commands of a release.
    fn release(&mut self, chg: &str, pause: Duration) {
        let group = key(chg);
        let group = group.as_bytes();
        let due = now_ms() + pause.as_millis() as u64;
        let text = due.to_string();
        self.trip(&[b"EXISTS", group]);
        self.trip(&[b"ZREM", b"chg_busy", chg.as_bytes()]);
        self.trip(&[b"HSET", group, b"n", text.as_bytes()]);
        if due > now_ms() {
            self.trip(&[b"ZADD", b"chg_wait", text.as_bytes(), chg.as_bytes()]);
        } else {
            self.trip(&[b"RPUSH", b"chg_ready", chg.as_bytes()]);
        }
    }
}

/// One waiting client of C4: takes a group as soon as one is ready. Returns its due time.
pub fn take(connection: &mut Connection, busy: &[u8], request: &mut Vec<u8>) -> (String, u64) {
    request.clear();
    encode(request, &[b"BRPOP", b"chg_ready", b"5"]);
    connection.send(request);
    let mut chg = String::new();
    connection.read(1, |item| {
        if let Item::Bulk(bytes) = item {
            chg = String::from_utf8_lossy(bytes).into_owned();
        }
    });
    assert!(!chg.is_empty(), "no group became ready in five seconds");
    request.clear();
    let deadline = (now_ms() + BUSY_MS).to_string();
    let group = key(&chg);
    encode(
        request,
        &[
            b"EVALSHA",
            busy,
            b"2",
            b"chg_busy",
            group.as_bytes(),
            chg.as_bytes(),
            deadline.as_bytes(),
        ],
    );
    connection.send(request);
    let mut fields = Vec::new();
    connection.read(1, |item| {
        if let Item::Bulk(bytes) = item {
            fields.push(String::from_utf8_lossy(bytes).into_owned());
        }
    });
    let pairs = fields.chunks_exact(2).find(|pair| pair[0] == "n");
    let due = pairs.and_then(|pair| pair[1].parse().ok());
    (chg, due.expect("a group has a due time"))
}

/// The four commands of a release.
pub fn release_requests(chg: &str, due: u64) -> [Vec<u8>; 4] {
    let group = key(chg);
    let (chg, group, due) = (chg.as_bytes(), group.as_bytes(), due.to_string());
    let commands: [&[&[u8]]; 4] = [
        &[b"EXISTS", group],
        &[b"ZREM", b"chg_busy", chg],
        &[b"HSET", group, b"n", due.as_bytes()],
        &[b"ZADD", b"chg_wait", due.as_bytes(), chg],
    ];
    commands.map(|words| {
        let mut out = Vec::new();
        encode(&mut out, words);
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use redis_tests::Options;

    #[test]
    fn the_sequence_fetches_every_uri_once() {
        let server = Options::new().no_module().start();
        let hosts = Hosts { seed: 1 };
        let scripts = Scripts::load(&server);
        let mut feeder = Feeder::new(&server);
        for chg in 0..3 {
            for i in 0..7 {
                scripts.queue(&mut feeder, &hosts, chg, i, now_ms());
            }
        }
        feeder.finish();
        let worker = Worker::start(&server);
        let mut harvester = Harvester::new(&server);
        for _ in 0..20 {
            assert!(harvester.page(Duration::from_millis(1)));
        }
        assert!(harvester.trips >= 20 * 14, "{} trips", harvester.trips);
        let mut wire = server.wire();
        assert_eq!(ok!(wire, "GET", "QCT").text(), "1");
        let left = ok!(wire, "KEYS", "UEID:*").texts();
        assert_eq!(left.len(), 1, "{left:?}");
        worker.finish();
    }
}
