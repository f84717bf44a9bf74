//! The peer: Veidemann's frontier, a Java program that works on the documented keys with its own
//! scripts and plain commands. This code follows the documentation, and reproduces these defects of
//! the program:
//!
//! * `BRPOP` takes the group that became ready last. If the client crashes after `BRPOP`, the group
//!   is in no queue.
//! * A release is four separate commands.
//! * A release is not checked against the lease, and counts can become negative.
//!
//! One defect is not reproduced: the original script for adding puts the execution's id into
//! `chg_wait` instead of the group's, so no page would ever be fetched. Here, the script adds
//! the group's id.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use redis_tests::{Server, ok};

use super::hosts::Hosts;
use crate::load::{Client, Feeder};

/// Interval of the queue worker.
pub const SWEEP_EVERY: Duration = Duration::from_millis(50);
/// Pause of a group without a URI.
const EMPTY: Duration = Duration::from_secs(1);
/// Duration of a harvester's lease, in milliseconds.
const BUSY_MS: u64 = 600_000;

/// Returns milliseconds since the epoch by this machine's clock.
pub fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |d| d.as_millis() as u64)
}

/// Digests of the loaded scripts.
pub struct Scripts {
    pub add: String,
    pub busy: String,
    pub sweep: String,
    keep: String,
    remove: String,
    extend: String,
}

impl Scripts {
    /// Loads the scripts.
    pub fn load(server: &Server) -> Scripts {
        let mut wire = server.wire();
        let mut load = |script: &str| ok!(wire, "SCRIPT", "LOAD", script).text();
        Scripts {
            add: load(include_str!("veidemann/add.lua")),
            busy: load(include_str!("veidemann/busy.lua")),
            sweep: load(include_str!("veidemann/sweep.lua")),
            keep: load(include_str!("veidemann/keep.lua")),
            remove: load(include_str!("veidemann/remove.lua")),
            extend: load(include_str!("veidemann/extend.lua")),
        }
    }

    /// Returns the call that counts a URI.
    pub fn count(&self, chg: &str, execution: &str, at: u64) -> String {
        let add = &self.add;
        format!("EVALSHA {add} 4 CHG:{chg} chg_wait EIDC QCT {at} {execution} {chg}")
    }

    /// Counts a URI in each of these groups. Each group is given by its number and due time.
    pub fn fill(
        &self,
        feeder: &mut Feeder,
        hosts: &Hosts,
        groups: impl Iterator<Item = (u64, u64)>,
    ) {
        let (execution, _) = hosts.execution(0);
        for (n, at) in groups {
            feeder.line(&self.count(&hosts.chg(n), execution, at));
        }
        feeder.finish();
    }

    /// Sends the two calls that queue the `i`-th URI of a group. In the queue of an execution, all
    /// scores are 0, so the members are sorted by depth and then by time.
    pub fn queue(&self, feeder: &mut Feeder, hosts: &Hosts, chg: u64, i: u64, at: u64) {
        let (keep, id) = (&self.keep, hosts.chg(chg));
        let (execution, weight) = hosts.execution(i);
        let (depth, uri) = (hosts.depth(i), hosts.uri(chg, i));
        feeder.line(&format!(
            "EVALSHA {keep} 2 UEID:{id}:{execution} UCHG:{id} {depth}:{at}:{uri} {weight} {execution}"
        ));
        feeder.line(&self.count(&id, execution, at));
    }
}

/// The background job, which processes both queues every 50 ms on its own connection.
pub struct Worker {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Worker {
    /// Starts the worker.
    pub fn start(server: &Server) -> Worker {
        let stop = Arc::new(AtomicBool::new(false));
        let sha = Scripts::load(server).sweep;
        let mut client = Client::unix(server);
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                let round = Instant::now();
                for queue in ["chg_wait", "chg_busy"] {
                    sweep(&mut client, &sha, queue);
                }
                std::thread::sleep(SWEEP_EVERY.saturating_sub(round.elapsed()));
            }
        });
        Worker { stop, thread }
    }

    /// Stops the worker.
    pub fn finish(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the worker gets its replies");
    }
}

/// Runs the worker's script once. Returns the number of moved groups.
pub fn sweep(client: &mut Client, sha: &str, queue: &str) -> i64 {
    client
        .line(&format!("EVALSHA {sha} 2 {queue} chg_ready {}", now_ms()))
        .ints[0]
}

/// A harvester and its frontier client. The harvester takes a group, finds a URI and reports the
/// URI as done, one round trip after the other.
pub struct Harvester {
    client: Client,
    scripts: Scripts,
    draws: u64,
}

impl Harvester {
    /// Opens a connection and creates a harvester.
    pub fn new(server: &Server) -> Harvester {
        Harvester {
            client: Client::unix(server),
            scripts: Scripts::load(server),
            draws: 0,
        }
    }

    /// Returns the number of round trips so far.
    pub fn trips(&self) -> u64 {
        self.client.trips
    }

    /// Returns the last string of a reply. Returns `None` for an integer or null.
    fn ask(&mut self, line: String) -> Option<String> {
        self.client.line(&line).texts.pop()
    }

    /// Fetches a page, from the choice of a group to its release with `pause`. Returns false if no
    /// group became ready in time.
    pub fn page(&mut self, pause: Duration) -> bool {
        // 1. Take a ready group.
        let Some(chg) = self.ask("BRPOP chg_ready 5".into()) else {
            return false;
        };
        let deadline = || now_ms() + BUSY_MS;
        // 2. Mark the group as busy and read its fields.
        let busy = &self.scripts.busy;
        self.ask(format!(
            "EVALSHA {busy} 2 chg_busy CHG:{chg} {chg} {}",
            deadline()
        ));
        // 3. Read the largest weight among the group's executions.
        let largest = self.ask(format!(
            "ZREVRANGEBYSCORE UCHG:{chg} +inf -inf WITHSCORES LIMIT 0 1"
        ));
        let largest: f64 = largest.and_then(|w| w.parse().ok()).unwrap_or(0.0);
        // 4. Choose an execution by a random number below that weight.
        self.draws = self.draws.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let draw = largest * (self.draws >> 11) as f64 / (1u64 << 53) as f64;
        let execution = self.ask(format!("ZRANGEBYSCORE UCHG:{chg} {draw} +inf LIMIT 0 1"));
        let Some(execution) = execution else {
            // After the last URI of the group, the group is still queued. This round releases the
            // group with a longer pause.
            self.release(&chg, pause.max(EMPTY));
            return self.page(pause);
        };
        // 5. Read the first URI of the execution.
        let uri = self.ask(format!("ZRANGE UEID:{chg}:{execution} 0 0"));
        let uri = uri.expect("an execution of a group has URIs");
        // 6. Extend the deadline when the URI is passed to a harvester.
        let extend = &self.scripts.extend;
        self.ask(format!("EVALSHA {extend} 1 chg_busy {chg} {}", deadline()));

        // At this point, a real harvester fetches the page.

        // 7. Read the group again for the receiver of the result.
        self.ask(format!("HGETALL CHG:{chg}"));
        // 8. Remove the completed URI.
        let remove = &self.scripts.remove;
        self.ask(format!(
            "EVALSHA {remove} 5 UEID:{chg}:{execution} UCHG:{chg} CHG:{chg} EIDC QCT {uri} {execution}"
        ));
        // 9, 10. Read the remaining counts, both for the execution and in total, to detect the end
        // of the crawl.
        self.ask(format!("HGET EIDC {execution}"));
        self.ask("GET QCT".into());
        // 11 to 14. Release the group.
        self.release(&chg, pause);
        true
    }

    fn release(&mut self, chg: &str, pause: Duration) {
        for line in release(chg, now_ms() + pause.as_millis() as u64) {
            self.ask(line);
        }
    }
}

/// Takes a group when one becomes ready, for the waiting clients of C4. Returns the group and its
/// due time.
pub fn take(client: &mut Client, busy: &str) -> (String, u64) {
    let chg = client.line("BRPOP chg_ready 5").texts.pop();
    let chg = chg.expect("a group becomes ready in five seconds");
    let deadline = now_ms() + BUSY_MS;
    let fields = client.line(&format!(
        "EVALSHA {busy} 2 chg_busy CHG:{chg} {chg} {deadline}"
    ));
    let mut pairs = fields.texts.chunks_exact(2);
    let due = pairs
        .find(|pair| pair[0] == "n")
        .and_then(|pair| pair[1].parse().ok());
    (chg, due.expect("a group has a due time"))
}

/// Returns the four commands of a release.
pub fn release(chg: &str, due: u64) -> [String; 4] {
    let mut queue = format!("RPUSH chg_ready {chg}");
    if due > now_ms() {
        queue = format!("ZADD chg_wait {due} {chg}");
    }
    let [exists, leave] = [format!("EXISTS CHG:{chg}"), format!("ZREM chg_busy {chg}")];
    [exists, leave, format!("HSET CHG:{chg} n {due}"), queue]
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
        let trips = harvester.trips();
        assert!(trips >= 20 * 14, "{trips} trips");
        let mut wire = server.wire();
        assert_eq!(ok!(wire, "GET", "QCT").text(), "1");
        let left = ok!(wire, "KEYS", "UEID:*").texts();
        assert_eq!(left.len(), 1, "{left:?}");
        worker.finish();
    }
}
