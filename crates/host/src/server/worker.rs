//! Worker threads that run commands while their clients are blocked.
//!
//! A task gets all its input when it is submitted, because only the main thread may read keys. The
//! worker thread also builds the reply, so that a long reply does not delay other clients; the main
//! thread only passes the reply on. Threads work in turns: if other tasks are waiting, the current
//! task returns to the queue after a turn. In addition to the threads for all tasks, one thread
//! runs only light tasks, so that these never wait for a long turn.

use std::os::raw::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rustc_hash::{FxBuildHasher, FxHashMap};

use super::api::{Ctx, RmString, raw, rm};
use super::blocked::can_block;
use super::command::Answer;
use super::event;
use super::guard::guarded;
use super::main_thread::MainThread;
use super::reply::{Outcome, send_outcome};
use crate::turns::{Next, Taken, Turn, Turns};

/// Maximum number of threads, excluding the thread for light tasks.
const THREADS: usize = 4;

/// Duration of a turn while other tasks are waiting, in microseconds of CPU time. An operation that
/// cannot be interrupted may extend a turn.
const PIECE_US: u64 = 2_000;

/// Limits of a task.
#[derive(Clone, Copy)]
pub struct Terms {
    /// True if the task is known to be short in total. Such a task does not wait for long turns of
    /// other tasks.
    pub light: bool,
    /// Maximum CPU time, in milliseconds.
    pub most_ms: u64,
}

impl Terms {
    /// Returns the limits of a task that may take a long time.
    pub fn heavy(most_ms: u64) -> Terms {
        Terms {
            light: false,
            most_ms,
        }
    }
}

/// A task for another thread. The thread calls the task repeatedly with its arguments until the
/// task returns an outcome. The task pauses when its turn ends.
type Work = Box<dyn FnMut(&[&[u8]], &mut dyn Turn) -> Option<Outcome> + Send>;

/// Arguments of a command that a thread reads. The unused memory of the strings is already freed,
/// so the server does not move the bytes while a reference exists. The main thread releases the
/// references, because it manages their counts.
struct Held(Vec<RmString>);

// SAFETY: other threads only read the bytes, which do not move while the `RmString` lives; the reference
// count changes only on the main thread, where `Held` is created and dropped.
unsafe impl Send for Held {}

impl Held {
    fn bytes(&self) -> Vec<&[u8]> {
        self.0.iter().map(AsRef::as_ref).collect()
    }
}

/// A task in the queue of the threads, waiting or done.
struct Order {
    /// The task. The task is dropped with all its data when it is done.
    work: Option<Work>,
    arguments: Held,
    client: *mut raw::RedisModuleBlockedClient,
    /// Context in which the thread builds the reply.
    ctx: Ctx,
    stop: Arc<AtomicBool>,
    /// Maximum CPU time, in microseconds.
    most_us: u64,
}

// SAFETY: the work is `Send`. Client and context are used by one thread at a time: the module API
// lets a thread build the reply of a client that it holds blocked, and all other uses happen on the
// main thread.
unsafe impl Send for Order {}

/// Numbers of threads of one kind.
struct Threads {
    /// Number of threads.
    count: usize,
    /// Number of threads that are waiting for a task.
    idle: usize,
}

/// The queue of orders, and the threads that take orders from it.
struct Pool {
    orders: Turns<Order>,
    /// Threads for all tasks, and threads for light tasks only.
    threads: [Threads; 2],
}

static POOL: Mutex<Pool> = Mutex::new(Pool {
    orders: Turns::new(),
    threads: [const { Threads { count: 0, idle: 0 } }; 2],
});
/// Number of orders that are waiting for a turn. It is atomic instead of protected by a lock,
/// because every check of a turn reads it.
static WAIT_FOR_A_TURN: AtomicUsize = AtomicUsize::new(0);
/// Wakes threads for all tasks, and threads for light tasks only.
static COMING: [Condvar; 2] = [const { Condvar::new() }; 2];
/// Blocked clients by address, each with the flag that stops its task.
static WAITING: MainThread<FxHashMap<usize, Arc<AtomicBool>>> =
    MainThread::new(FxHashMap::with_hasher(FxBuildHasher));
/// Completed orders whose replies were not sent yet.
static DONE: Mutex<Vec<Order>> = Mutex::new(Vec::new());
/// Descriptor that wakes the event loop when orders are complete.
static EVENT: AtomicI32 = AtomicI32::new(-1);

/// Submits a task for the client of `ctx`, with arguments of its command. The caller must not read
/// the bytes of these arguments afterwards. If the client cannot be blocked (`MULTI`, scripts),
/// runs the task immediately.
///
/// # Errors
/// The error reply of a task that ran immediately.
pub fn submit(
    ctx: Ctx,
    arguments: Vec<RmString>,
    terms: Terms,
    mut work: impl FnMut(&[&[u8]], &mut dyn Turn) -> Option<Outcome> + Send + 'static,
) -> Result<Answer, String> {
    if !can_block(ctx) {
        let arguments = Held(arguments);
        let (bytes, mut turn) = (arguments.bytes(), Share::at_once(terms));
        return to_the_end(|| work(&bytes, &mut turn)).map(Answer::Reply);
    }
    // SAFETY: after this, the caller only sends the reply.
    let trimmed = |argument: RmString| unsafe { argument.trimmed() };
    let arguments = Held(arguments.into_iter().map(trimmed).collect());
    let stop = Arc::new(AtomicBool::new(false));
    // SAFETY: main thread, live context of a client that may be blocked. Client and context are released in `pass_on`,
    // once.
    let order = unsafe {
        let client = rm!(RedisModule_BlockClient(ctx.raw(), None, None, None, 0));
        rm!(RedisModule_SetDisconnectCallback(client, Some(gone)));
        let ctx = Ctx::new(rm!(RedisModule_GetThreadSafeContext(client)));
        Order {
            work: Some(Box::new(work)),
            arguments,
            client,
            ctx,
            stop: stop.clone(),
            most_us: terms.most_ms.saturating_mul(1000),
        }
    };
    WAITING.borrow().insert(order.client as usize, stop);
    let mut pool = Pool::lock();
    pool.start_threads(terms.light);
    if pool.threads[0].count == 0 {
        // No thread could be started, so run the task on the main thread.
        drop(pool);
        let (mut order, mut turn) = (order, Share::at_once(terms));
        while !do_turn(&mut order, &mut turn) {}
        pass_on(order);
        return Ok(Answer::Sent);
    }
    pool.put(order, terms.light, 0);
    Ok(Answer::Sent)
}

/// Converts a task that runs in a single turn for [`submit`].
pub fn in_one_turn(
    work: impl FnOnce(&[&[u8]]) -> Outcome + Send + 'static,
) -> impl FnMut(&[&[u8]], &mut dyn Turn) -> Option<Outcome> + Send + 'static {
    let mut work = Some(work);
    move |arguments, _| work.take().map(|work| work(arguments))
}

fn to_the_end(mut turn: impl FnMut() -> Option<Outcome>) -> Outcome {
    loop {
        if let Some(outcome) = turn() {
            return outcome;
        }
    }
}

impl Pool {
    fn lock() -> MutexGuard<'static, Pool> {
        POOL.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a thread for another order, unless a thread is idle or the maximum is reached.
    fn start_threads(&mut self, light: bool) {
        let many = std::thread::available_parallelism().map_or(1, usize::from);
        for (kind, most) in [(0, many.clamp(1, THREADS)), (1, usize::from(light))] {
            let threads = &mut self.threads[kind];
            if threads.idle <= self.orders.len()
                && threads.count < most
                && start(move || work_off(kind))
            {
                threads.count += 1;
            }
        }
    }

    fn put(&mut self, order: Order, light: bool, had: u64) {
        self.orders.put(order, light, had);
        WAIT_FOR_A_TURN.store(self.orders.len(), Relaxed);
        COMING[0].notify_one();
        if light {
            COMING[1].notify_one();
        }
    }
}

/// Takes the next order from the queue. Blocks until an order is available.
fn next_order(kind: usize) -> Taken<Order> {
    let mut pool = Pool::lock();
    loop {
        if let Some(taken) = pool.orders.take(kind == 1) {
            WAIT_FOR_A_TURN.store(pool.orders.len(), Relaxed);
            return taken;
        }
        pool.threads[kind].idle += 1;
        pool = COMING[kind]
            .wait(pool)
            .unwrap_or_else(PoisonError::into_inner);
        pool.threads[kind].idle -= 1;
    }
}

/// A turn of an order, measured in CPU time of its thread.
struct Share {
    began_us: u64,
    /// CPU time left for the order.
    left_us: u64,
    stop: Arc<AtomicBool>,
    /// True if the turn ends when other orders are waiting.
    in_turn: bool,
}

impl Share {
    fn of(order: &Order, had_us: u64) -> Share {
        Share {
            began_us: processor_us(),
            left_us: order.most_us.saturating_sub(had_us),
            stop: order.stop.clone(),
            in_turn: true,
        }
    }

    /// Creates a turn for a task that runs immediately.
    fn at_once(terms: Terms) -> Share {
        Share {
            began_us: processor_us(),
            left_us: terms.most_ms.saturating_mul(1000),
            stop: Arc::new(AtomicBool::new(false)),
            in_turn: false,
        }
    }

    fn spent_us(&self) -> u64 {
        processor_us().saturating_sub(self.began_us)
    }
}

impl Turn for Share {
    fn next(&mut self) -> Next {
        let spent = self.spent_us();
        let others_wait = self.in_turn && WAIT_FOR_A_TURN.load(Relaxed) > 0;
        if spent > self.left_us {
            Next::Enough
        } else if self.stop.load(Relaxed) || others_wait && spent >= PIECE_US {
            Next::Pause
        } else {
            Next::GoOn
        }
    }
}

/// Returns the CPU time of this thread, in microseconds.
pub(super) fn processor_us() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: a plain call that writes the time to a local variable.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as u64 * 1_000_000 + time.tv_nsec as u64 / 1000
}

fn work_off(kind: usize) {
    loop {
        let Taken {
            what: mut order,
            light,
            had,
        } = next_order(kind);
        let mut share = Share::of(&order, had);
        if do_turn(&mut order, &mut share) {
            DONE.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(order);
            event::ring(EVENT.load(Relaxed));
        } else {
            Pool::lock().put(order, light, had.saturating_add(share.spent_us().max(1)));
        }
    }
}

/// Runs one turn of an order. Returns true if the order is done.
fn do_turn(order: &mut Order, turn: &mut dyn Turn) -> bool {
    // If the client disconnected while the order was waiting, the task is not called at all.
    let no_more = order.stop.load(Relaxed);
    // SAFETY: the client is blocked, and the server allows any thread to measure time and to build
    // the reply for a blocked client.
    unsafe { rm!(RedisModule_BlockedClientMeasureTimeStart(order.client)) };
    let outcome = guarded("work on another thread", || {
        let work = order.work.as_mut().filter(|_| !no_more)?;
        work(&order.arguments.bytes(), turn)
    })
    .unwrap_or_else(|bug| Some(Err(bug)));
    // SAFETY: as above.
    unsafe { rm!(RedisModule_BlockedClientMeasureTimeEnd(order.client)) };
    let is_gone = order.stop.load(Relaxed);
    if outcome.is_none() && !is_gone {
        return false;
    }
    let _ = guarded("the end of work on another thread", || {
        order.work = None;
        if let (Some(outcome), false) = (&outcome, is_gone) {
            send_outcome(order.ctx, outcome);
        }
    });
    true
}

/// Starts a thread. Returns false if the thread cannot be started. The thread blocks all signals, because the main
/// thread handles them.
fn start(what: impl FnOnce() + Send + 'static) -> bool {
    // SAFETY: plain calls on local signal sets; the mask is restored.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        let started = std::thread::Builder::new()
            .name("crawlspace".to_string())
            .spawn(what);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, ptr::null_mut());
        started.is_ok()
    }
}

/// Unblocks the client, which then receives the reply.
fn pass_on(order: Order) {
    WAITING.borrow().remove(&(order.client as usize));
    // SAFETY: main thread; created in `submit`, released once. The server keeps the blocked client
    // of a closed connection until this call.
    unsafe {
        rm!(RedisModule_FreeThreadSafeContext(order.ctx.raw()));
        rm!(RedisModule_UnblockClient(order.client, ptr::null_mut()));
    }
}

extern "C" fn gone(_: *mut raw::RedisModuleCtx, client: *mut raw::RedisModuleBlockedClient) {
    let _ = guarded("a disconnect", || {
        if let Some(stop) = WAITING.borrow().get(&(client as usize)) {
            stop.store(true, Relaxed);
        }
    });
}

extern "C" fn done(bell: c_int, _: *mut c_void, _: c_int) {
    let _ = guarded("the event loop", || {
        event::heard(bell);
        let orders = std::mem::take(&mut *DONE.lock().unwrap_or_else(PoisonError::into_inner));
        orders.into_iter().for_each(pass_on);
    });
}

/// Drops a value on a separate thread, because dropping it takes a long time.
pub fn drop_away<T: Send + 'static>(what: T) {
    // If no thread can be started, drops the value on the current thread.
    start(move || drop(what));
}

/// Creates the event descriptor and adds it to the event loop.
///
/// # Safety
/// Called once, on the main thread, while the module loads.
///
/// # Errors
/// Fails if the system provides no descriptor, or the event loop refuses it.
pub unsafe fn ready() -> Result<(), String> {
    // SAFETY: by contract.
    EVENT.store(unsafe { event::bell(done)? }, Relaxed);
    Ok(())
}
