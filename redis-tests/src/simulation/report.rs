//! What a simulation tells in the end.

use std::fmt;

/// What happened in a simulation in which everything held.
#[derive(Debug, Default)]
pub struct Report {
    /// Leases granted.
    pub fetches: u64,
    /// Releases that the server took.
    pub released: u64,
    /// Leases that ran out.
    pub expired: u64,
    /// Releases with an old token that were refused.
    pub stale: u64,
    /// Releases sent again that were answered like the first time.
    pub repeated: u64,
    /// Deadlines put off.
    pub extended: u64,
    /// Groups blocked.
    pub blocked: u64,
    /// URIs that were given up.
    pub given_up: u64,
    /// Additions of URIs that were queued already, and `SEQ` numbers sent twice.
    pub known: u64,
    /// Leases of groups behind a shared gate.
    pub gated: u64,
    /// Leases of groups with several fetches at a time, while another one was out.
    pub parallel: u64,
    /// Times that everything was counted.
    pub checkpoints: u64,
    /// Milliseconds between the gate and the next lease of a group: the smallest.
    pub smallest_margin: i64,
    /// Largest deviation of an execution's share in a large group, in percent of all its leases.
    pub share_deviation: f64,
    /// Simulated seconds.
    pub seconds: i64,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} fetches in {} simulated seconds, {} releases",
            self.fetches, self.seconds, self.released
        )?;
        writeln!(
            f,
            "{} leases ran out, {} stale releases refused, {} repeated ones answered as before",
            self.expired, self.stale, self.repeated
        )?;
        writeln!(
            f,
            "{} deadlines extended, {} groups blocked, {} URIs given up, {} additions known before",
            self.extended, self.blocked, self.given_up, self.known
        )?;
        writeln!(
            f,
            "{} leases behind shared gates, {} beside another lease of their group",
            self.gated, self.parallel
        )?;
        write!(
            f,
            "smallest margin after a pause {} ms, shares off by at most {:.2} %, {} checkpoints",
            self.smallest_margin, self.share_deviation, self.checkpoints
        )
    }
}
