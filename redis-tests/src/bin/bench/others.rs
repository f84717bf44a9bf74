//! Other clients that send requests at a fixed rate during a long operation, and their waiting
//! times.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use redis_tests::{Server, ok};

use crate::load::{Batches, Connection, Item, line};
use crate::machine::cpu_seconds;
use crate::series::{Series, time};
use crate::told::slice_longest;

/// Requests per second of all clients together.
pub const RATE: u32 = 5_000;

/// Name of a row about the waits of other clients: median, 99 % and 99.9 %.
pub const MEANWHILE: &str =
    "waiting time of other clients: p50 / p99 / p99.9; the result is p99.9 minus p99.9 when idle";

/// Creates requests of other clients. Each request reads a string.
pub fn pages(server: &Server) -> Arc<Batches> {
    ok!(server.wire(), "SET", "bench:page", "x".repeat(100));
    Arc::new(Batches::new(1_000, 1, |out| line(out, "GET bench:page")))
}

/// Clients that run in their own thread.
///
/// Requests are sent on schedule, even if earlier requests have no reply yet, and each wait is
/// measured from the scheduled time. Therefore a pause of the server increases the wait of every
/// request that was scheduled during the pause.
pub struct Others {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Waits>,
}

/// The scheduled time of each request and the time until its reply.
#[derive(Default)]
pub struct Waits {
    waits: Vec<(Instant, Duration)>,
    /// Number of null replies.
    pub nils: u64,
}

impl Waits {
    /// Returns the waits, in milliseconds, of the requests scheduled between two times.
    pub fn between(&self, from: Instant, to: Instant) -> Series {
        let waits = self.waits.iter();
        let due = waits.filter(|(due, _)| (from..=to).contains(due));
        due.map(|(_, wait)| wait.as_secs_f64() * 1e3).collect()
    }
}

impl Others {
    /// Starts the clients. `requests` contains batches of one request.
    pub fn start(server: &Server, requests: Arc<Batches>) -> Others {
        let stop = Arc::new(AtomicBool::new(false));
        let clients: Vec<Client> = (0..4).map(|_| Client::new(server)).collect();
        let thread = std::thread::spawn({
            let stop = Arc::clone(&stop);
            move || ask(clients, &requests, &stop)
        });
        Others { stop, thread }
    }

    /// Stops sending requests and waits for the last replies.
    pub fn finish(self) -> Waits {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the other clients are answered")
    }
}

/// A long operation, and other clients before and during it.
#[derive(Default)]
pub struct Loaded {
    /// Duration of the operation in seconds.
    pub seconds: Series,
    /// Waiting times of other clients before the operation, in milliseconds.
    idle: Vec<Series>,
    /// Waiting times of other clients during the operation, in milliseconds.
    during: Vec<Series>,
}

impl Loaded {
    /// Measures one run. Every look-up of the other clients must find its hash.
    pub fn measure(
        &mut self,
        server: &Server,
        requests: Arc<Batches>,
        long: impl FnOnce(&Server) -> f64,
    ) {
        let others = Others::start(server, requests);
        std::thread::sleep(Duration::from_millis(100));
        let begin = Instant::now();
        std::thread::sleep(Duration::from_secs(2));
        let start = Instant::now();
        self.seconds.push(long(server));
        let end = Instant::now();
        let waits = others.finish();
        assert_eq!(waits.nils, 0, "others find every hash all along");
        self.idle.push(waits.between(begin, start));
        self.during.push(waits.between(start, end));
    }

    /// Returns, for each repetition, the difference between the 99.9th percentiles of waits during
    /// the operation and on the idle server, in milliseconds.
    pub fn above_idle(&self) -> Series {
        let pairs = self.during.iter().zip(&self.idle);
        let above = pairs.map(|(during, idle)| during.quantile(0.999) - idle.quantile(0.999));
        above.collect()
    }

    /// Formats the waits before the operation, `0.05 / 0.10 / 0.90 ms`: median, 99th and 99.9th
    /// percentile of all repetitions together.
    pub fn idle(&self) -> String {
        quantiles(&self.idle)
    }

    /// Returns the waits during the operation in milliseconds: median, 90th, 99th, 99.9th
    /// percentile and maximum.
    pub fn waits(&self) -> Vec<f64> {
        let all = together(&self.during);
        WAITS.iter().map(|&(_, q)| all.quantile(q)).collect()
    }

    /// Formats the waits during the operation, like [`Loaded::idle`].
    pub fn during(&self) -> String {
        quantiles(&self.during)
    }
}

/// Names and quantiles of [`Loaded::waits`].
pub const WAITS: [(&str, f64); 5] = [
    ("50 %", 0.5),
    ("90 %", 0.9),
    ("99 %", 0.99),
    ("99.9 %", 0.999),
    ("all", 1.0),
];

fn together(series: &[Series]) -> Series {
    series.iter().flat_map(|s| s.0.iter().copied()).collect()
}

fn quantiles(series: &[Series]) -> String {
    let all = together(series);
    let [half, p99, p999] = [0.5, 0.99, 0.999].map(|q| all.quantile(q));
    format!("{half:.2} / {p99:.2} / {p999:.2} ms")
}

/// A long operation, repeated on an idle server and under the load of other clients.
#[derive(Default)]
pub struct Long {
    /// Seconds on an idle server.
    pub alone: Series,
    /// Seconds of the server's processor on an idle server.
    pub cpu: Series,
    /// Results under the load of other clients.
    pub loaded: Loaded,
    /// Milliseconds of the longest slice in each run, if the server has the module.
    pub slices: Series,
}

impl Long {
    /// Runs the operation once on an idle server.
    pub fn alone(&mut self, server: &Server, long: impl FnOnce(&Server) -> f64) {
        let cpu = cpu_seconds(server.pid());
        self.alone.push(long(server));
        self.cpu.push(cpu_seconds(server.pid()) - cpu);
        self.push_slice(server);
    }

    /// Measures one run under the load of other clients.
    pub fn loaded(
        &mut self,
        server: &Server,
        requests: Arc<Batches>,
        long: impl FnOnce(&Server) -> f64,
    ) {
        self.loaded.measure(server, requests, long);
        self.push_slice(server);
    }

    fn push_slice(&mut self, server: &Server) {
        if server.info("slices").is_some() {
            self.slices.push(slice_longest(server));
        }
    }

    /// Formats the longest slice of all runs.
    pub fn slice(&self) -> String {
        time(self.slices.high() / 1e3)
    }
}

struct Client {
    connection: Connection,
    unsent: Vec<u8>,
    due: VecDeque<Instant>,
}

impl Client {
    fn new(server: &Server) -> Client {
        Client {
            connection: Connection::nonblocking(server),
            unsent: Vec::new(),
            due: VecDeque::new(),
        }
    }
}

fn ask(mut clients: Vec<Client>, requests: &Batches, stop: &AtomicBool) -> Waits {
    let interval = Duration::from_secs(1) / RATE;
    let mut waits = Waits::default();
    let mut due = Instant::now();
    let mut number = 0;
    loop {
        let stopping = stop.load(Ordering::Relaxed);
        if stopping && clients.iter().all(|c| c.due.is_empty()) {
            return waits;
        }
        while !stopping && due <= Instant::now() {
            let at = number % clients.len();
            let client = &mut clients[at];
            client.unsent.extend_from_slice(requests.batch(number));
            client.due.push_back(due);
            number += 1;
            due += interval;
        }
        for client in &mut clients {
            if !client.unsent.is_empty() {
                let sent = client.connection.send_some(&client.unsent);
                client.unsent.drain(..sent);
            }
        }
        let patience = due.saturating_duration_since(Instant::now());
        wait_readable(&clients, patience.min(interval));
        for client in &mut clients {
            let mut nils = 0;
            let replies = client.connection.read_some(|item| {
                nils += u64::from(matches!(item, Item::Nil));
            });
            let now = Instant::now();
            waits.nils += nils;
            for due in client.due.drain(..replies) {
                waits.waits.push((due, now - due));
            }
        }
    }
}

/// Waits until a reply arrives or `patience` has passed, because std cannot wait for several
/// sockets.
fn wait_readable(clients: &[Client], patience: Duration) {
    let fd = |client: &Client| libc::pollfd {
        fd: client.connection.fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    let mut fds: Vec<libc::pollfd> = clients.iter().map(fd).collect();
    let timeout = libc::timespec {
        tv_sec: 0,
        tv_nsec: patience.subsec_nanos().into(),
    };
    let number = fds.len() as libc::nfds_t;
    // SAFETY: `fds` and `timeout` outlive the call, and the length passed is the length of `fds`.
    unsafe { libc::ppoll(fds.as_mut_ptr(), number, &timeout, std::ptr::null()) };
}
