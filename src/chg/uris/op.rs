//! Changes of the URIs of a group, as values.
//!
//! A change says everything that its effect depends on, so that the same changes give the same state
//! on a replica and from an append-only file.

use crawlspace_host::text::parse_unsigned;

use super::super::time::Millis;
use super::bounds::{EXECUTION_BYTES, MAX_INTEGER, MAX_WEIGHT, URI_BYTES};
use super::encoding;

/// A change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op<'a> {
    /// Queues a URI, unless the execution has it already, queued or leased.
    Add {
        /// The crawl execution.
        execution: &'a [u8],
        /// Its weight from now on, if given.
        weight: Option<u64>,
        /// When the URI is due.
        due: Millis,
        /// How many links it is away from a seed.
        depth: u32,
        /// How often it was tried in vain.
        attempts: u32,
        /// The URI.
        uri: &'a [u8],
    },
    /// Leases the next URI of an execution: of those that are due the lowest depth first, then the
    /// earliest due time, then the order of adding.
    Take {
        /// Names the lease; not in use.
        token: u64,
        /// The crawl execution.
        execution: &'a [u8],
        /// The time now.
        now: Millis,
    },
    /// The leased URI is done with.
    Done {
        /// The lease.
        token: u64,
    },
    /// The leased URI goes back to its place in the queue.
    Return {
        /// The lease.
        token: u64,
        /// When it is due now, if that changes.
        due: Option<Millis>,
        /// Whether it was tried in vain.
        failed: bool,
    },
    /// Removes queued URIs of an execution, first ones first; leased ones are dropped: the lease
    /// stays, the URI counts no more.
    Drop {
        /// The crawl execution.
        execution: &'a [u8],
        /// How many queued URIs at most.
        limit: u64,
    },
    /// Removes a queued URI, for example because it moves to another group.
    Remove {
        /// The crawl execution.
        execution: &'a [u8],
        /// The URI.
        uri: &'a [u8],
    },
    /// Adds what a chunk of an encoded value holds.
    Load {
        /// As [`super::Uris::encode`] made it.
        chunk: &'a [u8],
    },
}

/// What a change came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changed {
    /// Nothing is different: the URI is known, nothing was due, there is no such lease, …
    Nothing,
    /// The URI was queued.
    Added,
    /// The URI was known; the execution has another weight.
    Weighed,
    /// A URI was leased.
    Taken,
    /// The URI is in the queue again.
    Returned,
    /// Number of URIs that count no more; 0 when a lease ended whose URI had been dropped.
    Removed(u64),
    /// Number of URIs that came from a chunk.
    Loaded(u64),
}

fn number(n: u64) -> Vec<u8> {
    n.to_string().into_bytes()
}

impl<'a> Op<'a> {
    /// Whether the change adds URIs, so that it makes the key that holds them.
    pub fn makes_the_key(&self) -> bool {
        matches!(self, Op::Add { .. } | Op::Load { .. })
    }

    /// The change as arguments of a command.
    pub fn to_args(&self) -> Vec<Vec<u8>> {
        match *self {
            Op::Add {
                execution,
                weight,
                due,
                depth,
                attempts,
                uri,
            } => vec![
                b"ADD".to_vec(),
                execution.to_vec(),
                number(weight.unwrap_or(0)),
                number(due),
                number(depth.into()),
                number(attempts.into()),
                uri.to_vec(),
            ],
            Op::Take {
                token,
                execution,
                now,
            } => vec![
                b"TAKE".to_vec(),
                number(token),
                execution.to_vec(),
                number(now),
            ],
            Op::Done { token } => vec![b"DONE".to_vec(), number(token)],
            Op::Return { token, due, failed } => vec![
                b"RETURN".to_vec(),
                number(token),
                due.map_or_else(|| b"-".to_vec(), number),
                number(failed.into()),
            ],
            Op::Drop { execution, limit } => {
                vec![b"DROP".to_vec(), execution.to_vec(), number(limit)]
            }
            Op::Remove { execution, uri } => {
                vec![b"REMOVE".to_vec(), execution.to_vec(), uri.to_vec()]
            }
            Op::Load { chunk } => vec![b"LOAD".to_vec(), chunk.to_vec()],
        }
    }

    /// Reads what [`Op::to_args`] wrote; an error says what is wrong.
    ///
    /// # Errors
    /// What is wrong with the arguments.
    pub fn parse(args: &[&'a [u8]]) -> Result<Op<'a>, String> {
        let Some((&name, args)) = args.split_first() else {
            return Err("a change is missing".to_string());
        };
        let op = match (name, args) {
            (b"ADD", &[execution, weight, due, depth, attempts, uri]) => {
                let weight = unsigned("weight", weight, MAX_WEIGHT)?;
                Op::Add {
                    execution: execution_id(execution)?,
                    weight: (weight > 0).then_some(weight),
                    due: unsigned("due time", due, MAX_INTEGER)?,
                    depth: unsigned("depth", depth, u32::MAX.into())? as u32,
                    attempts: unsigned("attempts", attempts, u32::MAX.into())? as u32,
                    uri: checked_uri(uri)?,
                }
            }
            (b"TAKE", &[token, execution, now]) => Op::Take {
                token: unsigned("token", token, MAX_INTEGER)?,
                execution: execution_id(execution)?,
                now: unsigned("time", now, MAX_INTEGER)?,
            },
            (b"DONE", &[token]) => Op::Done {
                token: unsigned("token", token, MAX_INTEGER)?,
            },
            (b"RETURN", &[token, due, failed]) => Op::Return {
                token: unsigned("token", token, MAX_INTEGER)?,
                due: match due {
                    b"-" => None,
                    due => Some(unsigned("due time", due, MAX_INTEGER)?),
                },
                failed: unsigned("failed", failed, 1)? == 1,
            },
            (b"DROP", &[execution, limit]) => Op::Drop {
                execution: execution_id(execution)?,
                limit: unsigned("limit", limit, MAX_INTEGER)?,
            },
            (b"REMOVE", &[execution, uri]) => Op::Remove {
                execution: execution_id(execution)?,
                uri: checked_uri(uri)?,
            },
            (b"LOAD", &[chunk]) => {
                encoding::check(chunk)?;
                Op::Load { chunk }
            }
            _ => return Err("unknown change, or wrong number of arguments".to_string()),
        };
        Ok(op)
    }
}

fn unsigned(name: &str, argument: &[u8], most: u64) -> Result<u64, String> {
    parse_unsigned(argument)
        .filter(|&n| n <= most)
        .ok_or_else(|| format!("{name} is not an integer from 0 to {most}"))
}

/// Checks the name of an execution.
pub(super) fn execution_id(id: &[u8]) -> Result<&[u8], String> {
    if (1..=EXECUTION_BYTES).contains(&id.len()) {
        Ok(id)
    } else {
        Err(format!(
            "the execution has {} bytes, not 1 to {EXECUTION_BYTES}",
            id.len()
        ))
    }
}

/// Checks a URI.
pub(super) fn checked_uri(uri: &[u8]) -> Result<&[u8], String> {
    if (1..=URI_BYTES).contains(&uri.len()) {
        Ok(uri)
    } else {
        Err(format!(
            "the URI has {} bytes, not 1 to {URI_BYTES}",
            uri.len()
        ))
    }
}
