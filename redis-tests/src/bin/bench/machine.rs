//! The machine and the date of a run.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use redis_tests::Options;

/// Returns the machine, server, module and date in one line.
pub fn describe() -> String {
    let (model, cores, server, today) = (cpu_model(), cores(), server_version(), today());
    let version = env!("CARGO_PKG_VERSION");
    format!("{model} ({cores} cores), {server}, module {version} in release build, {today}")
}

/// Returns the number of processors.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn cpu_model() -> String {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"));
    let model = line.and_then(|line| line.split(':').nth(1));
    model.unwrap_or("unknown processor").trim().to_owned()
}

/// Returns the version of the server, such as `Redis 7.0.15` or `Valkey 8.0.1`.
fn server_version() -> String {
    let server = Options::new().no_module().start();
    match server.info("valkey_version") {
        Some(version) => format!("Valkey {version}"),
        None => format!("Redis {}", server.info("redis_version").unwrap_or_default()),
    }
}

/// Returns today's date in UTC as `2026-03-19`.
fn today() -> String {
    let date = Command::new("date").args(["-u", "+%F"]).output();
    String::from_utf8_lossy(&date.expect("date runs").stdout)
        .trim()
        .to_owned()
}

/// Returns the processor use of other processes during one second, in percent of all processors.
pub fn busy_with_others() -> f64 {
    let before = idle_and_all();
    std::thread::sleep(Duration::from_secs(1));
    let after = idle_and_all();
    100.0 * (1.0 - (after.0 - before.0) / (after.1 - before.1).max(1.0))
}

/// Returns the idle ticks and all ticks of all processors since boot.
fn idle_and_all() -> (f64, f64) {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let first = stat.lines().next().unwrap_or_default();
    let ticks = first.split_whitespace().skip(1).take(8);
    let ticks: Vec<f64> = ticks.filter_map(|t| t.parse().ok()).collect();
    // The fourth column is idle time, the fifth is I/O wait.
    (ticks.iter().skip(3).take(2).sum(), ticks.iter().sum())
}

/// Reads the clock in a loop for `span` and returns the longest time, in seconds, during which the
/// operating system did not schedule this thread.
pub fn longest_stall(span: Duration) -> f64 {
    let start = Instant::now();
    let mut last = start;
    let mut longest = Duration::ZERO;
    while last - start < span {
        let now = Instant::now();
        longest = longest.max(now - last);
        last = now;
    }
    longest.as_secs_f64()
}

/// Returns the resident memory of a process in bytes, or 0 if there is no such process.
pub fn resident(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    kilobytes.map_or(0, |kilobytes: u64| kilobytes << 10)
}

/// Returns true if the main thread of a process waits for an event.
pub fn is_asleep(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name of the program, in parentheses, comes before the state.
    let state = stat.rsplit_once(") ").map(|(_, rest)| rest);
    state.is_some_and(|rest| rest.starts_with('S'))
}

/// Returns the CPU time of a process in seconds, or 0 if there is no such process. The resolution
/// is one nanosecond; `/proc` has only hundredths of a second.
pub fn cpu_seconds(pid: u32) -> f64 {
    let mut clock: libc::clockid_t = 0;
    // SAFETY: a timespec of zeros is valid.
    let mut time: libc::timespec = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers point to live values of the right type.
    let failed = unsafe {
        libc::clock_getcpuclockid(pid as libc::pid_t, &mut clock) != 0
            || libc::clock_gettime(clock, &mut time) != 0
    };
    if failed {
        return 0.0;
    }
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
