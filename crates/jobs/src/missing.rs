//! Jobs that are not in an index, and why.

use std::fmt;

use super::{JobId, JobSet};

/// Why a job is not in an index. The three are different answers: only the last one may be other next time
/// without anything having changed in the archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Missing {
    /// There is no metadata file of that job.
    NoJob,
    /// Its metadata files have no such record of this job.
    NoRecord {
        /// The names of the files that were read.
        files: Vec<String>,
        /// The jobs that records in these files are of, by the `jobid=` in their URLs: the first few, if there are any.
        others: JobSet,
    },
    /// Reading failed.
    Unreadable {
        /// Why: names the file and the offset.
        why: String,
    },
}

impl fmt::Display for Missing {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Missing::NoJob => out.write_str("no such job: no metadata file has its number"),
            Missing::NoRecord { files, others } => {
                write!(out, "no such record in {}", files.join(", "))?;
                match others.len() {
                    0 => Ok(()),
                    1 => write!(out, ", where records are of job {others} by their jobid="),
                    _ => write!(out, ", where records are of jobs {others} by their jobid="),
                }
            }
            Missing::Unreadable { why } => write!(out, "failed to read: {why}"),
        }
    }
}

/// A job that is not in an index, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingJob {
    /// Which one.
    pub job: JobId,
    /// Why.
    pub why: Missing,
}
