//! Alarm clock: calls registered functions at a given time, and only then.
//!
//! The alarm is a timer descriptor in the server's event loop. The server's own timers use
//! wall-clock time: if the clock is set back, those timers are late by the same amount. The alarm's
//! timer uses monotonic time; while the alarm is set, the timer wakes at least once a second to
//! check the clock.

use std::os::raw::{c_int, c_void};
use std::time::Duration;

use super::api::Ctx;
use super::clock;
use super::event;
use super::guard::guarded;
use super::main_thread::MainThread;
use super::metric;
use super::turn;

/// Maximum sleep, which bounds the delay caused by a jump of the clock.
const MAX_SLEEP: Duration = Duration::from_secs(1);

struct Clock {
    timer: c_int,
    /// Time at which the alarm goes off.
    set: Option<u64>,
    sleepers: Vec<fn(Ctx)>,
    watchers: Vec<fn()>,
}

static CLOCK: MainThread<Clock> = MainThread::new(Clock {
    timer: -1,
    set: None,
    sleepers: Vec::new(),
    watchers: Vec::new(),
});

/// Registers a function that is called whenever the alarm goes off, which may be earlier than
/// requested. The function may write, like a command.
pub fn wakes(sleeper: fn(Ctx)) {
    CLOCK.borrow().sleepers.push(sleeper);
}

/// Registers a function that is called whenever the alarm goes off, even while writes are
/// forbidden. The function must not write.
pub fn watches(watcher: fn()) {
    CLOCK.borrow().watchers.push(watcher);
}

/// Sets the alarm to go off after this many milliseconds, unless an earlier time is set.
pub fn set_in(ms: u64) {
    set(clock::now_ms().saturating_add(ms));
}

/// Sets the alarm to a time of [`clock`], in milliseconds, unless an earlier time is set.
pub fn set(when: u64) {
    let mut clock = CLOCK.borrow();
    if clock.set.is_some_and(|set| set <= when) {
        return;
    }
    clock.set = Some(when);
    let left = Duration::from_millis(when).saturating_sub(clock::now());
    // A duration of zero would disarm the timer.
    clock.arm(left.clamp(Duration::from_nanos(1), MAX_SLEEP));
}

impl Clock {
    fn arm(&self, left: Duration) {
        let time = |of: Duration| libc::timespec {
            tv_sec: of.as_secs() as libc::time_t,
            tv_nsec: libc::c_long::from(of.subsec_nanos() as i32),
        };
        let setting = libc::itimerspec {
            it_interval: time(Duration::ZERO),
            it_value: time(left),
        };
        // SAFETY: the module owns the descriptor, and the structure is only read.
        unsafe { libc::timerfd_settime(self.timer, 0, &setting, std::ptr::null_mut()) };
    }
}

/// Calls the functions that may write.
fn run_sleepers(ctx: Ctx) {
    let sleeper = |at: usize| CLOCK.borrow().sleepers.get(at).copied();
    let mut at = 0;
    while let Some(sleeper) = sleeper(at) {
        let _ = guarded("an alarm", || sleeper(ctx));
        at += 1;
    }
}

extern "C" fn went_off(timer: c_int, _: *mut c_void, _: c_int) {
    let _ = guarded("the alarm clock", || {
        event::heard(timer);
        let set = CLOCK.borrow().set.take();
        match set {
            // The time of the alarm is more than `MAX_SLEEP` away, so set the timer again.
            Some(when) if when > clock::now_ms() => self::set(when),
            _ => {
                metric::ALARMS.add(1);
                let watchers = CLOCK.borrow().watchers.clone();
                watchers.into_iter().for_each(|watcher| watcher());
                if turn::must_wait() {
                    set_in(turn::LATER_MS);
                } else {
                    turn::take(run_sleepers);
                }
            }
        }
    });
}

/// Creates the timer and adds it to the event loop.
///
/// # Safety
/// Called once, with the context of the module's load.
///
/// # Errors
/// Fails if the system provides no timer, or the event loop refuses it.
pub unsafe fn start() -> Result<(), String> {
    // SAFETY: by contract; the descriptor is ours for the life of the process.
    unsafe {
        let flags = libc::TFD_NONBLOCK | libc::TFD_CLOEXEC;
        let timer = libc::timerfd_create(libc::CLOCK_MONOTONIC, flags);
        if timer < 0 {
            return Err("creating a timer descriptor failed".to_string());
        }
        event::listen(timer, went_off)?;
        CLOCK.borrow().timer = timer;
    }
    Ok(())
}
