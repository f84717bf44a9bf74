//! The report of a simulation.

use std::fmt;

use super::FAIR;
use crate::frontier_model::{Figures, FrontierModel};

/// The events of a simulation in which every check passed.
#[derive(Debug)]
pub struct Report {
    /// Counts of the model.
    pub figures: Figures,
    /// Number of times that the simulation compared all counts.
    pub checkpoints: u64,
    /// Largest deviation of an execution's share in a large group, in percent of all leases of the
    /// group.
    pub share_deviation: f64,
    /// Simulated seconds.
    pub seconds: i64,
}

impl Report {
    /// Checks the final state: the shares match the weights, and every kind of event has happened.
    pub(super) fn new(
        model: &FrontierModel,
        elapsed: i64,
        checkpoints: u64,
        share_deviation: f64,
    ) -> Result<Report, String> {
        let f = model.figures();
        if share_deviation > FAIR {
            return Err(format!("a share deviates by {share_deviation:.2} %"));
        }
        let happened = rows![
            "expired leases", f.expired; "stale releases", f.stale; "repeated releases", f.repeated;
            "extensions", f.extended; "blocks", f.blocked; "URIs given up", f.given_up;
            "known additions", f.known; "leases behind shared gates", f.gated; "parallel leases", f.parallel;
        ];
        if model.remembers() && f.again == 0 {
            return Err("no URL was fetched again, so that was not tested".to_owned());
        }
        if let Some((what, _)) = happened.iter().find(|(_, times)| *times == 0) {
            return Err(format!("there were no {what}, so they were not tested"));
        }
        Ok(Report {
            figures: f,
            checkpoints,
            share_deviation,
            seconds: elapsed / 1000,
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = &self.figures;
        writeln!(
            f,
            "{} fetches in {} simulated seconds, {} releases",
            n.leases, self.seconds, n.releases
        )?;
        writeln!(
            f,
            "{} leases expired, {} stale releases were refused, {} repeated ones got the same reply",
            n.expired, n.stale, n.repeated
        )?;
        writeln!(
            f,
            "{} deadlines extended, {} groups blocked, {} URIs given up, {} additions of known URIs, {} URLs fetched again",
            n.extended, n.blocked, n.given_up, n.known, n.again
        )?;
        writeln!(
            f,
            "{} leases behind shared gates, {} beside another lease of their group",
            n.gated, n.parallel
        )?;
        write!(
            f,
            "smallest margin after a pause {} ms, shares deviate by at most {:.2} %, {} checkpoints",
            n.smallest_margin.unwrap_or_default(),
            self.share_deviation,
            self.checkpoints
        )
    }
}
