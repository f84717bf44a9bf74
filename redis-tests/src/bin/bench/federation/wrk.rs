//! Runs wrk, the load generator, which keeps a number of connections busy.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use redis_tests::packages::run;

use crate::Plan;

/// Number of concurrent requests.
pub const CONNECTIONS: usize = 16;

/// Returns the duration of one run.
pub fn span(plan: &Plan) -> Duration {
    // wrk only accepts whole seconds.
    Duration::from_secs(if plan.quick { 1 } else { 5 })
}

/// Requests these targets in turn over persistent connections, and returns the number of requests
/// per second.
///
/// # Panics
/// Panics if wrk is not installed, or a response has a status other than 200, because error
/// responses must not be measured.
pub fn rate(folder: &Path, address: SocketAddr, targets: &[String], span: Duration) -> f64 {
    let load = Load {
        connections: CONNECTIONS,
        pause: None,
    };
    load.run(folder, address, targets, span).rate
}

/// The load of a run.
#[derive(Clone, Copy)]
pub struct Load {
    /// Number of persistent connections.
    pub connections: usize,
    /// Average pause of a connection before its next request, in milliseconds.
    pub pause: Option<u64>,
}

/// The results of a run.
pub struct Outcome {
    /// Responses per second.
    pub rate: f64,
    /// 99th percentile of response times, in seconds.
    pub p99: f64,
}

impl Load {
    /// Requests these targets in turn.
    ///
    /// # Panics
    /// Panics if wrk is not installed, or a response has a status other than 200, because error
    /// responses must not be measured.
    pub fn run(
        self,
        folder: &Path,
        address: SocketAddr,
        targets: &[String],
        span: Duration,
    ) -> Outcome {
        let lines = targets.iter().map(|target| format!("  \"{target}\",\n"));
        let lines: String = lines.collect();
        let delay = self.pause.map_or(String::new(), |pause| {
            format!(
                "delay = function() return math.random(0, {}) end\n",
                2 * pause
            )
        });
        let script = format!(
            "local targets = {{\n{lines}}}\n{}{delay}",
            include_str!("wrk.lua")
        );
        let file = folder.join("wrk.lua");
        std::fs::write(&file, script).expect("the folder is writable");
        let told = run(Command::new("wrk")
            .args(["--latency", "-t", "1", "-c", &self.connections.to_string()])
            .args(["-d", &format!("{}s", span.as_secs())])
            .args(["--timeout", "60s", "-s"])
            .arg(&file)
            .arg(format!("http://{address}/")));
        let told = told.unwrap_or_else(|why| panic!("wrk: {why}"));
        assert!(!told.contains("Non-2xx"), "{told}");
        assert!(!told.contains("Socket errors"), "{told}");
        let figure = |name: &str| {
            let line = told.lines().find_map(|line| line.trim().strip_prefix(name));
            line.map(str::trim)
                .unwrap_or_else(|| panic!("wrk printed no {name}: {told}"))
        };
        let rate = figure("Requests/sec:");
        Outcome {
            rate: rate
                .parse()
                .unwrap_or_else(|_| panic!("wrk printed an invalid rate: {rate}")),
            p99: seconds(figure("99%")).unwrap_or_else(|| panic!("{told}")),
        }
    }
}

/// Parses a time as wrk prints it: `3.45ms`.
fn seconds(text: &str) -> Option<f64> {
    let end = text.find(|c: char| c.is_ascii_alphabetic())?;
    let unit = match &text[end..] {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        _ => return None,
    };
    Some(text[..end].parse::<f64>().ok()? * unit)
}
