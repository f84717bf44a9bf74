//! Changes of the URIs of a group, as values.
//!
//! A change contains everything that determines its effect, so that the same changes result in the
//! same state on a replica and after loading an append-only file.

use crawlspace_host::text::parse_unsigned;

use super::super::time::Millis;
use super::bounds::{EXECUTION_BYTES, MAX_INTEGER, MAX_WEIGHT, URI_BYTES};
use super::encoding;

/// A change of the URIs of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op<'a> {
    /// Queues a URI, unless the URI is already queued or leased for the execution.
    Add {
        /// The crawl execution.
        execution: &'a [u8],
        /// New weight of the execution, if given.
        weight: Option<u64>,
        /// Due time of the URI.
        due: Millis,
        /// Number of links between a seed and the URI.
        depth: u32,
        /// Number of failed attempts.
        attempts: u32,
        /// The URI.
        uri: &'a [u8],
    },
    /// Leases the next due URI of an execution: the URI with the lowest depth, then the earliest
    /// due time, then the lowest insertion order.
    Take {
        /// Token of the lease. The lease may already have URIs of this execution.
        token: u64,
        /// The crawl execution.
        execution: &'a [u8],
        /// The current time.
        now: Millis,
    },
    /// Removes the first URI of a lease after the URI was fetched successfully.
    Done {
        /// Token of the lease.
        token: u64,
        /// Reason why the URI leaves the queue.
        end: End,
    },
    /// Returns the first URI of a lease to its position in the queue.
    Return {
        /// Token of the lease.
        token: u64,
        /// New due time, if it changes.
        due: Option<Millis>,
        /// True if the attempt failed.
        failed: bool,
    },
    /// Removes queued URIs of an execution, starting with the first. Drops the leased URIs of the
    /// execution: their leases remain, but the URIs are not counted any more.
    Drop {
        /// The crawl execution.
        execution: &'a [u8],
        /// Maximum number of queued URIs to remove.
        limit: u64,
    },
    /// Removes a queued URI, for example because it moves to another group.
    Remove {
        /// The crawl execution.
        execution: &'a [u8],
        /// The URI.
        uri: &'a [u8],
    },
    /// Ends a queued or leased URI: removes a queued URI from the queue, or removes a leased URI from
    /// its lease. The lease remains.
    End {
        /// The crawl execution.
        execution: &'a [u8],
        /// The URI.
        uri: &'a [u8],
        /// Reason why the URI leaves the queue.
        end: End,
    },
    /// Changes the due time of a URI, and resets its number of failed attempts. A leased URI returns to the queue;
    /// its lease remains, but does not contain the URI any more.
    Reschedule {
        /// The crawl execution.
        execution: &'a [u8],
        /// The URI.
        uri: &'a [u8],
        /// New due time.
        due: Millis,
    },
    /// Adds the contents of a chunk of an encoded value.
    Load {
        /// A chunk created by [`super::Uris::encode`].
        chunk: &'a [u8],
    },
}

/// The reason why a URI permanently leaves the queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct End {
    /// The URI was not fetched, because its leases expired too often.
    pub is_given_up: bool,
    /// HTTP status of the fetch, 0 to 999, if known.
    pub status: Option<u16>,
}

impl End {
    /// Returns the value as a number: bit 0 is set if the URI was given up, and the other bits contain
    /// the status plus 1.
    pub fn to_number(self) -> u64 {
        let status = self.status.map_or(0, |status| u64::from(status) + 1);
        status << 1 | u64::from(self.is_given_up)
    }

    /// Parses the result of [`End::to_number`].
    pub fn from_number(number: u64) -> Option<End> {
        let status = number >> 1;
        (status <= 1000).then(|| End {
            is_given_up: number & 1 == 1,
            status: status.checked_sub(1).map(|status| status as u16),
        })
    }
}

/// The effect of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changed {
    /// Nothing changed. For example, the execution already had the URI, no URI was due, or the
    /// lease did not exist.
    Nothing,
    /// The URI was queued.
    Added,
    /// The execution already had the URI, and the weight of the execution changed.
    Weighed,
    /// A URI was leased.
    Taken,
    /// The URI returned to the queue, or moved within it.
    Returned,
    /// Number of URIs that are not counted any more; 0 if the lease of a dropped URI ended.
    Removed(u64),
    /// Number of URIs added from a chunk.
    Loaded(u64),
}

fn number(n: u64) -> Vec<u8> {
    n.to_string().into_bytes()
}

impl<'a> Op<'a> {
    /// Returns the change that removes a leased URI that is done.
    pub fn done(token: u64) -> Op<'a> {
        let end = End::default();
        Op::Done { token, end }
    }

    /// Returns true if the change adds URIs. A change that adds URIs creates the key if necessary.
    pub fn makes_the_key(&self) -> bool {
        matches!(self, Op::Add { .. } | Op::Load { .. })
    }

    /// Encodes the change as arguments of a command.
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
            // Only packed frontiers know URIs that are done.
            Op::Done { token, .. } => vec![b"DONE".to_vec(), number(token)],
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
            // Only packed frontiers end or schedule URIs by name, and they use a different log.
            Op::End { execution, uri, .. } => {
                vec![b"END".to_vec(), execution.to_vec(), uri.to_vec()]
            }
            Op::Reschedule {
                execution,
                uri,
                due,
            } => vec![
                b"RESCHEDULE".to_vec(),
                execution.to_vec(),
                uri.to_vec(),
                number(due),
            ],
            Op::Load { chunk } => vec![b"LOAD".to_vec(), chunk.to_vec()],
        }
    }

    /// Parses the result of [`Op::to_args`].
    ///
    /// # Errors
    /// If the arguments are invalid, returns a description of the problem.
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
                end: End::default(),
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
            (b"END", &[execution, uri]) => Op::End {
                execution: execution_id(execution)?,
                uri: checked_uri(uri)?,
                end: End::default(),
            },
            (b"RESCHEDULE", &[execution, uri, due]) => Op::Reschedule {
                execution: execution_id(execution)?,
                uri: checked_uri(uri)?,
                due: unsigned("due time", due, MAX_INTEGER)?,
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
