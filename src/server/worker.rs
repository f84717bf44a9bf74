//! Work on other threads, for clients that wait meanwhile.
//!
//! Work gets everything it needs when it is handed in: it cannot see keys, because those belong to the
//! main thread. Its answer is made ready on the thread as well, so that a long one delays
//! nobody; the main thread only passes it on.

use std::collections::VecDeque;
use std::os::raw::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::Relaxed};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};

use rustc_hash::{FxBuildHasher, FxHashMap};

use super::api::{raw, rm, Ctx, RmString};
use super::blocked::can_block;
use super::command::Answer;
use super::event;
use super::guard::guarded;
use super::main_thread::MainThread;
use super::reply::{send_outcome, Outcome};

/// Most threads.
const THREADS: usize = 4;

/// Work for another thread, on the arguments that were held for it. It may ask whether to stop, because
/// the client is gone.
type Work = Box<dyn FnOnce(&[&[u8]], &dyn Fn() -> bool) -> Outcome + Send>;

/// Arguments of a command that a thread reads: their bytes do not change while somebody holds them.
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
    /// Taken on the thread, with all that it holds.
    work: Option<Work>,
    arguments: Held,
    client: *mut raw::RedisModuleBlockedClient,
    /// In whose name the answer is made.
    ctx: Ctx,
    stop: Arc<AtomicBool>,
}

// SAFETY: the work is `Send`. Client and context are used on one thread at a time: the module API lets
// a thread make the reply of a client that it holds blocked, and all else is done on the main thread.
unsafe impl Send for Order {}

/// The threads, as the main one knows them.
struct Threads {
    /// What each gets its orders by.
    orders: Vec<Sender<Order>>,
    /// Those with nothing to do. The last one to finish is the first to work again: what it needs may be
    /// in its processor's cache still.
    idle: Vec<usize>,
    /// What nobody has taken yet.
    waiting: VecDeque<Order>,
}

static THREADS_AT_WORK: MainThread<Threads> = MainThread::new(Threads {
    orders: Vec::new(),
    idle: Vec::new(),
    waiting: VecDeque::new(),
});
/// Clients that wait, by their address, with what stops the work for them.
static WAITING: MainThread<FxHashMap<usize, Arc<AtomicBool>>> =
    MainThread::new(FxHashMap::with_hasher(FxBuildHasher));
/// What is done and not passed on yet, and by which thread.
static DONE: Mutex<Vec<(usize, Order)>> = Mutex::new(Vec::new());
/// The descriptor that tells the event loop of it.
static EVENT: AtomicI32 = AtomicI32::new(-1);

/// Hands work in for the client of `ctx`, with arguments of its command. Where a client cannot wait
/// (`MULTI`, scripts) it is done at once.
pub fn submit(
    ctx: Ctx,
    arguments: Vec<RmString>,
    work: impl FnOnce(&[&[u8]], &dyn Fn() -> bool) -> Outcome + Send + 'static,
) -> Result<Answer, String> {
    let arguments = Held(arguments);
    if !can_block(ctx) {
        return work(&arguments.bytes(), &|| false).map(Answer::Reply);
    }
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
        }
    };
    WAITING.borrow().insert(order.client as usize, stop);
    THREADS_AT_WORK.borrow().waiting.push_back(order);
    hand_out();
    Ok(Answer::Sent)
}

/// Gives orders to threads that have nothing to do, or are still to be started.
fn hand_out() {
    loop {
        let mut threads = THREADS_AT_WORK.borrow();
        let Some(order) = threads.waiting.pop_front() else {
            return;
        };
        let Some(thread) = threads.idle.pop().or_else(|| threads.start_one()) else {
            if threads.orders.is_empty() {
                // No thread is to be had.
                drop(threads);
                let mut order = order;
                do_it(&mut order);
                pass_on(order);
                continue;
            }
            threads.waiting.push_front(order);
            return;
        };
        if let Err(lost) = threads.orders[thread].send(order) {
            // A thread never ends; should one have, the others do its work.
            threads.waiting.push_front(lost.0);
        }
    }
}

impl Threads {
    fn start_one(&mut self) -> Option<usize> {
        let many = std::thread::available_parallelism().map_or(1, usize::from);
        let thread = self.orders.len();
        if thread >= many.clamp(1, THREADS) {
            return None;
        }
        let (orders, taken) = channel();
        let started = start(move || work_off(thread, &taken));
        started.then(|| {
            self.orders.push(orders);
            thread
        })
    }
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

fn work_off(thread: usize, orders: &Receiver<Order>) {
    while let Ok(mut order) = orders.recv() {
        do_it(&mut order);
        DONE.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push((thread, order));
        event::ring(EVENT.load(Relaxed));
    }
}

fn do_it(order: &mut Order) {
    // SAFETY: the client is blocked; the server lets any thread measure and reply for it.
    unsafe { rm!(RedisModule_BlockedClientMeasureTimeStart(order.client)) };
    let outcome = guarded("work on another thread", || {
        let arguments = order.arguments.bytes();
        let stop = || order.stop.load(Relaxed);
        match order.work.take() {
            Some(work) => work(&arguments, &stop),
            None => Err("ERR work is done once".to_string()),
        }
    })
    .unwrap_or_else(Err);
    // SAFETY: as above.
    unsafe { rm!(RedisModule_BlockedClientMeasureTimeEnd(order.client)) };
    if !order.stop.load(Relaxed) {
        let _ = guarded("a reply on another thread", || {
            send_outcome(order.ctx, &outcome);
        });
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
        for (thread, order) in orders {
            THREADS_AT_WORK.borrow().idle.push(thread);
            pass_on(order);
        }
        hand_out();
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
pub unsafe fn ready() -> Result<(), String> {
    // SAFETY: by contract.
    EVENT.store(unsafe { event::bell(done)? }, Relaxed);
    Ok(())
}
