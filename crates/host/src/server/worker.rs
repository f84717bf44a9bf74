//! Work on other threads, for clients that wait meanwhile.
//!
//! Work gets everything it needs when it is handed in: it cannot see keys, because those belong to the
//! main thread. Its answer is made ready on the thread as well, so that a long one delays
//! nobody; the main thread only passes it on. Threads work in turns: what others wait behind is put aside
//! after a piece. One more thread than there are processors is kept for light work, which must not wait
//! for a piece that takes long.

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

/// Most threads, the one for light work left out.
const THREADS: usize = 4;

/// How long a turn lasts while others wait, in microseconds of a processor's time. What cannot be interrupted may
/// make one longer.
const PIECE_US: u64 = 2_000;

/// How work is done.
#[derive(Clone, Copy)]
pub struct Terms {
    /// Whether it is known to be little in all, so that it need not wait for long pieces of others.
    pub light: bool,
    /// How much of a processor's time it may take, in milliseconds.
    pub most_ms: u64,
}

impl Terms {
    /// Of work that may be much.
    pub fn heavy(most_ms: u64) -> Terms {
        Terms {
            light: false,
            most_ms,
        }
    }
}

/// Work for another thread, on the arguments that were held for it. It is called again and again until it has
/// an outcome, and pauses where its turn says so.
type Work = Box<dyn FnMut(&[&[u8]], &mut dyn Turn) -> Option<Outcome> + Send>;

/// Arguments of a command that a thread reads: trimmed, so that their bytes stay where they are while somebody holds them.
/// They are given back on the main thread, which counts who does.
struct Held(Vec<RmString>);

// SAFETY: other threads only read the bytes, which `RmString` keeps the address of; counting who holds
// a string is left to the main thread, where `Held` is made and dropped.
unsafe impl Send for Held {}

impl Held {
    fn bytes(&self) -> Vec<&[u8]> {
        self.0.iter().map(AsRef::as_ref).collect()
    }
}

/// Something that a thread is to do, or has done.
struct Order {
    /// Gone with all that it holds once it is done.
    work: Option<Work>,
    arguments: Held,
    client: *mut raw::RedisModuleBlockedClient,
    /// In whose name the answer is made.
    ctx: Ctx,
    stop: Arc<AtomicBool>,
    /// How much of a processor's time it may take, in microseconds.
    most_us: u64,
}

// SAFETY: the work is `Send`. Client and context are used on one thread at a time: the module API lets
// a thread make the reply of a client that it holds blocked, and all else is done on the main thread.
unsafe impl Send for Order {}

/// The threads of one kind.
struct Threads {
    /// How many there are.
    count: usize,
    /// How many of them wait for work.
    idle: usize,
}

/// What waits for a turn, and who gives turns.
struct Pool {
    orders: Turns<Order>,
    /// Threads for all work, and those for light work alone.
    threads: [Threads; 2],
}

static POOL: Mutex<Pool> = Mutex::new(Pool {
    orders: Turns::new(),
    threads: [const { Threads { count: 0, idle: 0 } }; 2],
});
/// How many orders wait for a turn: whether a turn is to end is asked too often for a lock.
static WAIT_FOR_A_TURN: AtomicUsize = AtomicUsize::new(0);
/// Wakes threads for all work, and those for light work alone.
static COMING: [Condvar; 2] = [const { Condvar::new() }; 2];
/// Clients that wait, by their address, with what stops the work for them.
static WAITING: MainThread<FxHashMap<usize, Arc<AtomicBool>>> =
    MainThread::new(FxHashMap::with_hasher(FxBuildHasher));
/// What is done and not passed on yet.
static DONE: Mutex<Vec<Order>> = Mutex::new(Vec::new());
/// The descriptor that tells the event loop of it.
static EVENT: AtomicI32 = AtomicI32::new(-1);

/// Hands work in for the client of `ctx`, with arguments of its command, whose bytes the caller reads no more.
/// Where a client cannot wait (`MULTI`, scripts) it is done at once.
///
/// # Errors
/// The error reply of work that was done at once.
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
    // SAFETY: all that the caller does after this is to answer.
    let trimmed = |argument: RmString| unsafe { argument.trimmed() };
    let arguments = Held(arguments.into_iter().map(trimmed).collect());
    let stop = Arc::new(AtomicBool::new(false));
    // SAFETY: main thread, live context of a client that may block. Client and context are given back
    // in `pass_on`, once.
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
        // No thread is to be had.
        drop(pool);
        let (mut order, mut turn) = (order, Share::at_once(terms));
        while !do_turn(&mut order, &mut turn) {}
        pass_on(order);
        return Ok(Answer::Sent);
    }
    pool.put(order, terms.light, 0);
    Ok(Answer::Sent)
}

/// Work that is done in a single turn, as [`submit`] takes it.
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

    /// Starts a thread for one more order, unless one is idle or there are enough.
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

/// What has its turn now; waits until there is something.
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

/// A turn of an order, measured by the time of the processor that the thread has had.
struct Share {
    began_us: u64,
    /// What is left of the time of the order.
    left_us: u64,
    stop: Arc<AtomicBool>,
    /// Whether it ends for others that wait.
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

    /// For work that is done at once.
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

/// How much of a processor's time this thread has had, in microseconds.
fn processor_us() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: a plain call that writes the time into a variable of ours.
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

/// Gives an order a turn; whether it is done.
fn do_turn(order: &mut Order, turn: &mut dyn Turn) -> bool {
    // Of a client that went while it waited for a turn, not even a piece.
    let no_more = order.stop.load(Relaxed);
    // SAFETY: the client is blocked; the server lets any thread measure and reply for it.
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

/// Starts a thread; whether there is one to be had. Signals are for the main one.
fn start(what: impl FnOnce() + Send + 'static) -> bool {
    // SAFETY: plain calls on sets of signals of our own; the mask is set back.
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

/// The client goes on, with the answer that was made.
fn pass_on(order: Order) {
    WAITING.borrow().remove(&(order.client as usize));
    // SAFETY: main thread; made in `submit`, given back once. One whose connection ended is known to
    // the server until now.
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

/// Frees what would take long on a thread of its own.
pub fn drop_away<T: Send + 'static>(what: T) {
    // If there is none to be had, it is freed here.
    start(move || drop(what));
}

/// Readies the event loop.
///
/// # Safety
/// Called once, on the main thread, while the module loads.
///
/// # Errors
/// When the system gives no descriptor, or the event loop refuses it.
pub unsafe fn ready() -> Result<(), String> {
    // SAFETY: by contract.
    EVENT.store(unsafe { event::bell(done)? }, Relaxed);
    Ok(())
}
