//! Where and when a run was made.

use std::fs;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use redis_tests::Options;

/// Machine, server, module and day in one line.
pub fn describe() -> String {
    format!(
        "{} ({} cores), {}, module {} in release build, {}",
        cpu_model(),
        std::thread::available_parallelism().map_or(1, usize::from),
        server_version(),
        env!("CARGO_PKG_VERSION"),
        today()
    )
}

fn cpu_model() -> String {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"));
    let model = line.and_then(|line| line.split(':').nth(1));
    model.unwrap_or("unknown processor").trim().to_owned()
}

/// `Redis 7.0.15` or `Valkey 8.0.1`.
fn server_version() -> String {
    let server = Options::new().no_module().start();
    match server.info("valkey_version") {
        Some(version) => format!("Valkey {version}"),
        None => format!("Redis {}", server.info("redis_version").unwrap_or_default()),
    }
}

/// Today in UTC as `2026-03-19`.
fn today() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let days = now.map_or(0, |d| d.as_secs() / 86_400) as i64;
    // Civil date from days, by Howard Hinnant's algorithm: years start in March.
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let day_of_era = z.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year}-{month:02}-{day:02}")
}

/// Percent of the machine's processors that others use while this process waits for a second.
pub fn busy_with_others() -> f64 {
    let before = idle_and_all();
    std::thread::sleep(Duration::from_secs(1));
    let after = idle_and_all();
    100.0 * (1.0 - (after.0 - before.0) / (after.1 - before.1).max(1.0))
}

/// Ticks that all processors were idle, and all ticks, since the start.
fn idle_and_all() -> (f64, f64) {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let first = stat.lines().next().unwrap_or_default();
    let ticks = first.split_whitespace().skip(1).take(8);
    let ticks: Vec<f64> = ticks.filter_map(|t| t.parse().ok()).collect();
    // The fourth is idle, the fifth is waiting for a disk.
    (ticks.iter().skip(3).take(2).sum(), ticks.iter().sum())
}

/// Looks at the clock and does nothing else for `span`: the longest time, in seconds, that the
/// operating system kept this thread from it.
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

/// Bytes of memory of the machine that a process has (0 when there is no such process).
pub fn resident(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    kilobytes.map_or(0, |kilobytes: u64| kilobytes << 10)
}

/// Seconds of processor time that a process has used so far, to the nanosecond (the figures in
/// `/proc` are in hundredths of a second). 0 when there is no such process.
pub fn cpu_seconds(pid: u32) -> f64 {
    let mut clock: libc::clockid_t = 0;
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: both pointers are to live values of the right type.
    let failed = unsafe {
        libc::clock_getcpuclockid(pid as libc::pid_t, &mut clock) != 0
            || libc::clock_gettime(clock, &mut time) != 0
    };
    if failed {
        0.0
    } else {
        time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
    }
}
