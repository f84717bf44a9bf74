//! Our commands as requests, and their leases as replies.

use crate::load::{Connection, Feeder, Item, encode};

use super::hosts::Hosts;

/// Prefix of the frontier: none, so that the keys are the seed's.
pub const PREFIX: &[u8] = b"";

/// What a client needs of a lease.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lease {
    pub chg: String,
    pub token: u64,
    /// When the group was due.
    pub due: u64,
    /// Execution of the URI; empty when none is kept.
    pub execution: String,
}

/// Reads `replies` replies, each with at most one lease in it, and shows the leases.
///
/// `skip` integers come before a lease: the due time that a release answers.
pub fn leases(
    connection: &mut Connection,
    replies: usize,
    skip: usize,
    mut see: impl FnMut(Option<Lease>),
) {
    for _ in 0..replies {
        let (mut bulks, mut ints) = (0, 0);
        let mut lease = Lease::default();
        connection.read(1, |item| match item {
            Item::Bulk(bytes) => {
                bulks += 1;
                let text = || String::from_utf8_lossy(bytes).into_owned();
                match bulks {
                    1 => lease.chg = text(),
                    2 => lease.execution = text(),
                    _ => (),
                }
            }
            Item::Int(n) => {
                ints += 1;
                if ints == skip + 1 {
                    lease.token = n as u64;
                } else if ints == skip + 3 {
                    lease.due = n as u64;
                }
            }
            _ => (),
        });
        see((bulks > 0).then_some(lease));
    }
}

/// `CHG.ADD` at a simulated time.
pub fn add(out: &mut Vec<u8>, now: &str, execution: &str, chg: &str, at: u64) {
    encode(
        out,
        &[
            b"CHG.ADD",
            PREFIX,
            b"NOW",
            now.as_bytes(),
            execution.as_bytes(),
            chg.as_bytes(),
            at.to_string().as_bytes(),
        ],
    );
}

/// Queues groups by `CHG.ADD`, a hundred a call: number and due time of each.
pub fn fill(
    feeder: &mut Feeder,
    hosts: &Hosts,
    now: u64,
    groups: impl Iterator<Item = (u64, u64)>,
) {
    let now = now.to_string();
    let groups: Vec<[String; 2]> = groups
        .map(|(n, at)| [hosts.chg(n), at.to_string()])
        .collect();
    for chunk in groups.chunks(100) {
        let (execution, _) = hosts.execution(0);
        let mut words: Vec<&[u8]> = vec![
            b"CHG.ADD",
            PREFIX,
            b"NOW",
            now.as_bytes(),
            execution.as_bytes(),
        ];
        words.extend(chunk.iter().flatten().map(|word| word.as_bytes()));
        feeder.request(&words);
    }
    feeder.finish();
}

/// `CHG.ADDURI` of some URIs of one group, due now: those of each execution in one call.
pub fn keep(feeder: &mut Feeder, hosts: &Hosts, chg: u64, uris: std::ops::Range<u64>) {
    let id = hosts.chg(chg);
    let executions = super::hosts::EXECUTIONS.len() as u64;
    for lane in 0..executions.min(uris.end - uris.start) {
        let (execution, weight) = hosts.execution(uris.start + lane);
        let ours = uris
            .clone()
            .filter(|i| (i - uris.start) % executions == lane);
        let tuples: Vec<[String; 2]> = ours
            .map(|i| [hosts.depth(i).to_string(), hosts.uri(chg, i)])
            .collect();
        for chunk in tuples.chunks(100) {
            let weight = weight.to_string();
            let mut words: Vec<&[u8]> = vec![
                b"CHG.ADDURI",
                PREFIX,
                execution.as_bytes(),
                b"WEIGHT",
                weight.as_bytes(),
            ];
            for [depth, uri] in chunk {
                words.extend([id.as_bytes(), b"0", depth.as_bytes(), uri.as_bytes()]);
            }
            feeder.request(&words);
        }
    }
}
