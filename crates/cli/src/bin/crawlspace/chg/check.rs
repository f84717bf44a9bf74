//! `crawlspace chg check` and `repair`.

use std::io;

use clap::Args;
use crawlspace_client::frontier::Check;

use super::existing;
use crate::Asking;
use crate::table::{Table, count};

/// Check that all counts agree and that each group is in the right queue. Exit status 1 if
/// something is wrong.
#[derive(Args)]
#[command(after_help = "Example:
  crawlspace chg check --prefix '{web}:' || crawlspace chg repair --prefix '{web}:'")]
pub(crate) struct ShowCheck {
    #[command(flatten)]
    asking: Asking,
}

impl ShowCheck {
    pub(crate) fn run(&self) -> io::Result<bool> {
        let frontier = self.asking.frontier()?;
        let check = frontier.check().map_err(io::Error::other)?;
        if check.consistent {
            existing(&self.asking, &frontier)?;
        }
        self.asking.tell(&check, print_check)?;
        Ok(check.consistent)
    }
}

/// Make the frontier consistent.
///
/// Repairs the faults that `check` finds. Exit status 0 when the repair is complete, even if there were faults.
#[derive(Args)]
#[command(after_help = "Example:
  crawlspace chg repair --prefix '{web}:' --json")]
pub(crate) struct Mend {
    #[command(flatten)]
    asking: Asking,
}

impl Mend {
    pub(crate) fn run(&self) -> io::Result<bool> {
        let mended = self.asking.frontier()?.repair().map_err(io::Error::other)?;
        self.asking.tell(&mended, print_check)?;
        Ok(true)
    }
}

fn print_check(check: &Check) -> io::Result<()> {
    let verdict = match (check.consistent, check.mended) {
        (true, _) => "The frontier is consistent.",
        (false, None) => "The frontier is NOT consistent; chg repair fixes it.",
        (false, Some(_)) => "The frontier was NOT consistent.",
    };
    let mut table = Table::new(verdict, 16)?;
    table.row("groups", count(check.groups), "")?;
    table.row("executions", count(check.executions), "")?;
    table.row("URIs", count(check.total), "in total (QCT)")?;
    table.row("", count(check.sum_groups), "sum over the groups")?;
    let executions = "sum over the executions";
    table.row("", count(check.sum_executions), executions)?;
    table.row("problems", count(check.problems_total), "")?;
    for problem in &check.problems {
        table.line(problem)?;
    }
    if let Some(mended) = check.mended {
        table.row("mended", count(mended), "faults fixed")?;
    }
    if check.disturbed {
        table.line(
            "Clients wrote to the frontier meanwhile: run the check again before you act on it.",
        )?;
    }
    table.end()
}
