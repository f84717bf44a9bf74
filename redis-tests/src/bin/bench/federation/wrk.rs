//! The load generator: wrk, which keeps so many connections busy.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use redis_tests::packages::run;

use crate::Plan;

/// Requests under way at a time.
pub const CONNECTIONS: usize = 16;

/// How long one run lasts.
pub fn span(plan: &Plan) -> Duration {
    // Its unit is a second.
    Duration::from_secs(if plan.quick { 1 } else { 5 })
}

/// Requests a second for these targets, by turns, over connections that are kept.
///
/// # Panics
/// When wrk is not there, or an answer is not 200: a benchmark of errors is none.
pub fn rate(folder: &Path, address: SocketAddr, targets: &[String], span: Duration) -> f64 {
    let lines: String = targets
        .iter()
        .map(|target| format!("  \"{target}\",\n"))
        .collect();
    let script = format!("local targets = {{\n{lines}}}\n{}", include_str!("wrk.lua"));
    let file = folder.join("wrk.lua");
    std::fs::write(&file, script).expect("the folder is writable");
    let told = run(Command::new("wrk")
        .args(["-t", "1", "-c", &CONNECTIONS.to_string()])
        .args(["-d", &format!("{}s", span.as_secs())])
        .args(["--timeout", "60s", "-s"])
        .arg(&file)
        .arg(format!("http://{address}/")));
    let told = told.unwrap_or_else(|why| panic!("wrk: {why}"));
    assert!(!told.contains("Non-2xx"), "{told}");
    assert!(!told.contains("Socket errors"), "{told}");
    let line = told
        .lines()
        .find_map(|line| line.strip_prefix("Requests/sec:"));
    let rate = line.and_then(|figure| figure.trim().parse().ok());
    rate.unwrap_or_else(|| panic!("wrk says no rate: {told}"))
}
