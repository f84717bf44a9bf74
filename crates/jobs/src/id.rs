//! Identifiers of the entries of a cache: a job, or a set of jobs.

use std::fmt;
use std::str::FromStr;

use md5::{Digest, Md5};

/// Maximum number of ids in a set, so that a mistyped range cannot use much memory.
const MAX_JOBS: usize = 10_000_000;
/// Maximum number of ids that appear in the name of a set.
const MAX_NAMED: usize = 4;

/// Identifies an item of a `FileBasedCache`.
pub trait Id: Clone + Eq + std::hash::Hash + fmt::Display + Send + Sync {
    /// Returns the first part of the name of the file or folder; the cache appends a common suffix.
    fn name(&self) -> String;

    /// Returns the jobs of the item.
    fn jobs(&self) -> JobSet;
}

/// The number of a job, which is one run of a harvester.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub u64);

impl fmt::Display for JobId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

impl Id for JobId {
    fn name(&self) -> String {
        self.0.to_string()
    }

    fn jobs(&self) -> JobSet {
        [*self].into_iter().collect()
    }
}

/// A set of jobs, sorted by number.
///
/// ```
/// use crawlspace_jobs::{Id, JobSet};
/// let jobs: JobSet = "3,1,2".parse()?;
/// assert_eq!(jobs.name(), "1-2-3");
/// let jobs: JobSet = "1-8".parse()?;
/// assert_eq!(jobs.name(), "1-2-3-4-d28f2f51ffe4b6d42b3e46a7cd7a72da");
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobSet(Vec<JobId>);

impl JobSet {
    /// Returns the number of jobs.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the jobs in ascending order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = JobId> + '_ {
        self.0.iter().copied()
    }

    /// Returns the job, if there is exactly one.
    pub(crate) fn only(&self) -> Option<JobId> {
        match self.0.as_slice() {
            [job] => Some(*job),
            _ => None,
        }
    }

    /// Returns whether the set contains a job.
    pub(crate) fn contains(&self, job: JobId) -> bool {
        self.0.binary_search(&job).is_ok()
    }

    /// Returns whether another set contains all of these jobs.
    pub(crate) fn is_subset(&self, others: &JobSet) -> bool {
        self.iter().all(|job| others.contains(job))
    }

    /// Returns the jobs that are not in another set.
    pub fn without(&self, others: &JobSet) -> JobSet {
        JobSet(self.iter().filter(|job| !others.contains(*job)).collect())
    }
}

impl FromIterator<JobId> for JobSet {
    fn from_iter<T: IntoIterator<Item = JobId>>(jobs: T) -> JobSet {
        let mut jobs: Vec<JobId> = jobs.into_iter().collect();
        jobs.sort_unstable();
        jobs.dedup();
        JobSet(jobs)
    }
}

impl Id for JobSet {
    /// Returns the ids joined by `-`; for more than four ids, the four lowest and the MD5 of all of them joined;
    /// `empty` for an empty set. NetarchiveSuite uses the same names.
    fn name(&self) -> String {
        if self.is_empty() {
            return "empty".to_owned();
        }
        let joined = |jobs: &[JobId]| {
            let mut text = String::with_capacity(jobs.len() * 6);
            for job in jobs {
                if !text.is_empty() {
                    text.push('-');
                }
                text.push_str(&job.0.to_string());
            }
            text
        };
        match self.0.get(..MAX_NAMED) {
            Some(lowest) if self.len() > MAX_NAMED => {
                let digest = Md5::digest(joined(&self.0).as_bytes());
                let hex = data_encoding::HEXLOWER.encode(&digest);
                format!("{}-{hex}", joined(lowest))
            }
            _ => joined(&self.0),
        }
    }

    fn jobs(&self) -> JobSet {
        self.clone()
    }
}

/// Formats the set in the form that [`JobSet::parse`] accepts: `1,2,5-8`.
impl fmt::Display for JobSet {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = &self.0[..];
        let mut first = true;
        while let Some(begin) = rest.first() {
            let run = (0..)
                .zip(rest)
                .take_while(|(n, job)| begin.0.checked_add(*n) == Some(job.0))
                .count();
            if !first {
                out.write_str(",")?;
            }
            first = false;
            let (these, others) = rest.split_at(run);
            match these.last() {
                Some(end) if run > 2 => {
                    write!(out, "{begin}-{end}")?;
                    rest = others;
                }
                _ => {
                    write!(out, "{begin}")?;
                    rest = &rest[1..];
                }
            }
        }
        Ok(())
    }
}

impl FromStr for JobSet {
    type Err = String;

    /// Parses numbers and ranges, separated by commas: `1,2,5-8`.
    fn from_str(text: &str) -> Result<JobSet, String> {
        JobSet::parse(text, MAX_JOBS)
    }
}

impl JobSet {
    /// Parses at most `most` jobs, like [`from_str`](FromStr::from_str); duplicates count.
    ///
    /// # Errors
    /// Fails with the invalid part, or if there are more than `most` jobs.
    pub fn parse(text: &str, most: usize) -> Result<JobSet, String> {
        let mut jobs = Vec::new();
        if text.trim().is_empty() {
            return Ok(JobSet::default());
        }
        for part in text.split(',') {
            let part = part.trim();
            let number = |text: &str| {
                let is_number = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
                let number = is_number.then(|| text.parse::<u64>().ok()).flatten();
                number.ok_or_else(|| {
                    format!("invalid job number {part:?}: write numbers and ranges, as in 1,2,5-8")
                })
            };
            let (begin, end) = match part.split_once('-') {
                Some((begin, end)) => (number(begin.trim())?, number(end.trim())?),
                None => (number(part)?, number(part)?),
            };
            if end < begin {
                return Err(format!(
                    "{part:?} ends before it starts: write the lower number first"
                ));
            }
            if end - begin >= most.saturating_sub(jobs.len()) as u64 {
                return Err(format!("{part:?} names more than {most} jobs, the maximum"));
            }
            jobs.extend((begin..=end).map(JobId));
        }
        Ok(jobs.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jobs(text: &str) -> JobSet {
        text.parse().expect(text)
    }

    #[test]
    fn names_match_netarchivesuite() {
        assert_eq!(jobs("").name(), "empty");
        assert_eq!(jobs("7").name(), "7");
        assert_eq!(jobs("10,9,1,2").name(), "1-2-9-10");
        assert_eq!(
            jobs("1-8").name(),
            "1-2-3-4-d28f2f51ffe4b6d42b3e46a7cd7a72da"
        );
        assert_eq!(jobs("8,7,6,5,4,3,2,1,1").name(), jobs("1-8").name());
        assert_ne!(jobs("1-9").name(), jobs("1-8").name());
    }

    #[test]
    fn set_reads_back() {
        for text in [
            "",
            "1",
            "1,2",
            "1-3",
            "1,3,5-9,11",
            "18446744073709551613-18446744073709551615",
        ] {
            assert_eq!(jobs(text).to_string(), text);
        }
        assert_eq!(jobs("2,1, 3,3").to_string(), "1-3");
    }

    #[test]
    fn invalid_set_is_refused() {
        for text in [
            "x",
            "1,,2",
            "-1",
            "1-",
            "3-1",
            "1.5",
            "+1",
            "18446744073709551616",
            "0-18446744073709551615",
            "1;2",
        ] {
            assert!(text.parse::<JobSet>().is_err(), "{text}");
        }
    }
}
