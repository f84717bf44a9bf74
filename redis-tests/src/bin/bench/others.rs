//! Other clients that go on asking at a bounded rate while something long runs, and how long they
//! waited.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use redis_tests::Server;

use crate::load::{Batches, Connection, Item};
use crate::series::Series;

/// Requests a second, all clients together.
pub const RATE: u32 = 5_000;

/// Clients under way in a thread of their own.
///
/// Requests are sent when they are due, whether or not earlier ones have been answered, and the
/// time of each is counted from the moment it was due: a server that pauses is charged with every
/// request that would have come meanwhile.
pub struct Others {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Waits>,
}

/// When each request was due and how long its reply took.
#[derive(Default)]
pub struct Waits {
    waits: Vec<(Instant, Duration)>,
    /// Null replies.
    pub nils: u64,
}

impl Waits {
    /// Milliseconds of the requests that were due between two moments.
    pub fn between(&self, from: Instant, to: Instant) -> Series {
        let due = self
            .waits
            .iter()
            .filter(|(due, _)| (from..=to).contains(due));
        due.map(|(_, wait)| wait.as_secs_f64() * 1e3).collect()
    }
}

impl Others {
    /// Starts asking; `requests` are batches of one request.
    pub fn start(server: &Server, requests: Arc<Batches>) -> Others {
        let stop = Arc::new(AtomicBool::new(false));
        let connections: Vec<_> = (0..4)
            .map(|_| Connection::unix(server).nonblocking())
            .collect();
        let thread = std::thread::spawn({
            let stop = Arc::clone(&stop);
            move || ask(connections, &requests, &stop)
        });
        Others { stop, thread }
    }

    /// Stops asking and waits for the last replies.
    pub fn finish(self) -> Waits {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the other clients are answered")
    }
}

/// Something long with other clients asking before and meanwhile.
#[derive(Default)]
pub struct Loaded {
    /// Seconds of the long thing.
    pub seconds: Series,
    /// Milliseconds that others waited before it started.
    pub idle: Vec<Series>,
    /// Milliseconds that others waited while it ran.
    pub during: Vec<Series>,
}

impl Loaded {
    /// Does it once. Every look-up of the others must find its hash.
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
        self.seconds.0.push(long(server));
        let end = Instant::now();
        let waits = others.finish();
        assert_eq!(waits.nils, 0, "others find every hash all along");
        self.idle.push(waits.between(begin, start));
        self.during.push(waits.between(start, end));
    }

    /// In each repetition: how much more the slowest one in a thousand waits, in milliseconds.
    pub fn above_idle(&self) -> Series {
        let pairs = self.during.iter().zip(&self.idle);
        let above = pairs.map(|(during, idle)| during.quantile(0.999) - idle.quantile(0.999));
        above.collect()
    }

    /// `0.05 / 0.1 / 0.9 ms`: half, 99 %, 99.9 % of all repetitions together.
    pub fn quantiles(series: &[Series]) -> String {
        let all: Series = series.iter().flat_map(|s| s.0.iter().copied()).collect();
        let [half, p99, p999] = [0.5, 0.99, 0.999].map(|q| all.quantile(q));
        format!("{half:.2} / {p99:.2} / {p999:.2} ms")
    }
}

struct Client {
    connection: Connection,
    unsent: Vec<u8>,
    due: VecDeque<Instant>,
}

fn ask(connections: Vec<Connection>, requests: &Batches, stop: &AtomicBool) -> Waits {
    let mut clients: Vec<Client> = connections
        .into_iter()
        .map(|connection| Client {
            connection,
            unsent: Vec::new(),
            due: VecDeque::new(),
        })
        .collect();
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

/// Sleeps until a reply is there or `patience` is over (std has no wait on several sockets).
fn wait_readable(clients: &[Client], patience: Duration) {
    let mut fds: Vec<libc::pollfd> = clients
        .iter()
        .map(|client| libc::pollfd {
            fd: client.connection.fd(),
            events: libc::POLLIN,
            revents: 0,
        })
        .collect();
    let timeout = libc::timespec {
        tv_sec: 0,
        tv_nsec: patience.subsec_nanos().into(),
    };
    // SAFETY: `fds` and `timeout` live through the call, and the length is that of `fds`.
    unsafe {
        libc::ppoll(
            fds.as_mut_ptr(),
            fds.len() as libc::nfds_t,
            &timeout,
            std::ptr::null(),
        );
    }
}
