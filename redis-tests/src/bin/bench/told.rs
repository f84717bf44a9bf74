//! Statistics of the server about its work.

use redis_tests::Server;

/// Longest slice of the server's jobs so far, in milliseconds: of processor time if the module
/// tells it, or else by the clock on the wall.
pub fn slice_longest(server: &Server) -> f64 {
    let cpu = server.info("slice_longest_cpu_us");
    let cpu = cpu.and_then(|us| us.parse().ok());
    cpu.unwrap_or_else(|| server.info_number("slice_longest_us") as f64) / 1e3
}

/// Microseconds that the server spent in commands since its statistics were reset, and how many
/// calls there were, by command.
pub struct Spent(Vec<(String, u64, f64)>);

impl Spent {
    /// Resets the counts.
    pub fn reset(server: &Server) {
        redis_tests::ok!(server.wire(), "CONFIG", "RESETSTAT");
    }

    /// Returns the counts since the reset.
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

    /// Microseconds in these commands together. Time in a script includes what it calls.
    pub fn micros(&self, commands: &[&str]) -> f64 {
        let ours = |name: &str| commands.iter().any(|c| c.eq_ignore_ascii_case(name));
        let spent = self.0.iter().filter(|(name, ..)| ours(name));
        spent.map(|(.., usec)| usec).sum()
    }

    /// Microseconds of one call of a command, on average.
    pub fn each(&self, command: &str) -> f64 {
        self.micros(&[command]) / self.calls(command).max(1) as f64
    }

    /// Calls of a command.
    pub fn calls(&self, command: &str) -> u64 {
        let mut all = self.0.iter();
        let found = all.find(|(name, ..)| command.eq_ignore_ascii_case(name));
        found.map_or(0, |(_, calls, _)| *calls)
    }
}
