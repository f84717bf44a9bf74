//! Statistics that the server reports about its work.

use redis_tests::Server;

/// Returns the longest slice of the server's jobs so far, in milliseconds: CPU time if the
/// module reports it, otherwise wall-clock time.
pub fn slice_longest(server: &Server) -> f64 {
    let cpu = server.info("slice_longest_cpu_us");
    let cpu = cpu.and_then(|us| us.parse().ok());
    cpu.unwrap_or_else(|| server.info_number("slice_longest_us") as f64) / 1e3
}

/// Number of calls and microseconds of each command since the statistics were reset.
pub struct Spent(Vec<(String, u64, f64)>);

impl Spent {
    /// Resets the statistics.
    pub fn reset(server: &Server) {
        redis_tests::ok!(server.wire(), "CONFIG", "RESETSTAT");
    }

    /// Returns the statistics since the reset.
    pub fn since_reset(server: &Server) -> Spent {
        let text = redis_tests::ok!(server.wire(), "INFO", "commandstats").text();
        let lines = text.lines().filter_map(|line| {
            let (name, figures) = line.strip_prefix("cmdstat_")?.split_once(':')?;
            let figure = |wanted: &str| {
                let mut pairs = figures.split(',').filter_map(|pair| pair.split_once('='));
                pairs.find(|(name, _)| *name == wanted)?.1.parse().ok()
            };
            let calls: f64 = figure("calls")?;
            Some((name.to_owned(), calls as u64, figure("usec")?))
        });
        Spent(lines.collect())
    }

    /// Returns the total microseconds of these commands. The time of a script includes the commands
    /// that it calls.
    pub fn micros(&self, commands: &[&str]) -> f64 {
        let ours = |name: &str| commands.iter().any(|c| c.eq_ignore_ascii_case(name));
        let spent = self.0.iter().filter(|(name, ..)| ours(name));
        spent.map(|(.., usec)| usec).sum()
    }

    /// Returns the average microseconds per call of a command.
    pub fn each(&self, command: &str) -> f64 {
        self.micros(&[command]) / self.calls(command).max(1) as f64
    }

    /// Returns the number of calls of a command.
    pub fn calls(&self, command: &str) -> u64 {
        let mut all = self.0.iter();
        let found = all.find(|(name, ..)| command.eq_ignore_ascii_case(name));
        found.map_or(0, |(_, calls, _)| *calls)
    }
}
