//! Builds requests with `CHG.*` commands and parses the leases in their replies.

use crate::load::{Feeder, Pieces};

use super::hosts::{EXECUTIONS, Hosts};

/// The parts of a lease that a client needs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lease {
    pub chg: String,
    pub token: i64,
    /// Due time of the group.
    pub due: u64,
    /// Execution of the URI; empty if the frontier stores no URI.
    pub execution: String,
}

impl Lease {
    /// Parses the lease in a reply, if there is one. Skips `skip` integers before the lease, such
    /// as the due time in the reply to a release.
    pub fn of(reply: Pieces, skip: usize) -> Option<Lease> {
        let mut texts = reply.texts.into_iter();
        Some(Lease {
            chg: texts.next()?,
            token: reply.ints[skip],
            due: reply.ints.get(skip + 2).map_or(0, |&due| due as u64),
            execution: texts.next().unwrap_or_default(),
        })
    }
}

/// Queues groups with `CHG.ADD`, 100 per call. Each group is given by its number and due time.
pub fn fill(
    feeder: &mut Feeder,
    hosts: &Hosts,
    now: u64,
    groups: impl Iterator<Item = (u64, u64)>,
) {
    let groups: Vec<[String; 2]> = groups
        .map(|(n, at)| [hosts.chg(n), at.to_string()])
        .collect();
    let (execution, _) = hosts.execution(0);
    for chunk in groups.chunks(100) {
        feeder.request_with(
            &format!("CHG.ADD '' NOW {now} {execution}"),
            chunk.as_flattened(),
        );
    }
    feeder.finish();
}

/// Adds URIs of groups with `CHG.ADDURI`, one call per execution. The URIs are due now.
pub fn keep(feeder: &mut Feeder, hosts: &Hosts, chg: u64, uris: u64) {
    let executions = EXECUTIONS.len();
    for lane in 0..uris.min(executions as u64) {
        let (execution, weight) = hosts.execution(lane);
        let tuple = |i| hosts.tuple(chg, i);
        let tuples: Vec<[String; 4]> = (lane..uris).step_by(executions).map(tuple).collect();
        for chunk in tuples.chunks(100) {
            let head = format!("CHG.ADDURI '' {execution} WEIGHT {weight}");
            feeder.request_with(&head, chunk.as_flattened());
        }
    }
}
