//! Jobs that are missing from an index, and the reasons.

use std::fmt;

use super::{JobId, JobSet};

/// The reason why a job is not in an index. Only [`Missing::Unreadable`] can go away without a
/// change of the archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Missing {
    /// The archive has no metadata file of the job.
    NoJob,
    /// The metadata files contain no record of the requested kind for the job.
    NoRecord {
        /// The names of the files that were read.
        files: Vec<String>,
        /// Other jobs with records in these files, according to the `jobid=` in their URLs: the first few.
        others: JobSet,
    },
    /// Reading failed.
    Unreadable {
        /// The error message, which names the file and the offset.
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
                    1 => write!(
                        out,
                        ", whose records belong to job {others} according to their jobid="
                    ),
                    _ => write!(
                        out,
                        ", whose records belong to jobs {others} according to their jobid="
                    ),
                }
            }
            Missing::Unreadable { why } => write!(out, "failed to read: {why}"),
        }
    }
}

/// A job that is not in an index, with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingJob {
    /// The job.
    pub job: JobId,
    /// The reason.
    pub why: Missing,
}
