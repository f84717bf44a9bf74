//! The name of the crawl in a dedupe index that holds a job.

use std::fmt;
use std::str::FromStr;

use super::super::JobId;

/// Placeholder of the number of the job.
const JOB: &str = "{job}";

/// A template of the names of crawls, in which `{job}` is replaced by the number of the job. Default: `job-{job}`.
///
/// ```
/// use crawlspace_jobs::load::CrawlName;
/// use crawlspace_jobs::JobId;
/// assert_eq!(CrawlName::default().of(JobId(7)), "job-7");
/// let name: CrawlName = "snapshot-3/{job}".parse()?;
/// assert_eq!(name.of(JobId(7)), "snapshot-3/7");
/// assert!("the-same-for-all".parse::<CrawlName>().is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrawlName(String);

impl CrawlName {
    /// Returns the name of the crawl of a job.
    pub fn of(&self, job: JobId) -> String {
        self.0.replace(JOB, &job.to_string())
    }
}

impl Default for CrawlName {
    fn default() -> CrawlName {
        CrawlName(format!("job-{JOB}"))
    }
}

impl FromStr for CrawlName {
    type Err = String;

    fn from_str(text: &str) -> Result<CrawlName, String> {
        if text.contains(JOB) {
            Ok(CrawlName(text.to_owned()))
        } else {
            Err(format!(
                "the name must contain {JOB}, because each job becomes a separate crawl: write job-{JOB}, for example"
            ))
        }
    }
}

impl fmt::Display for CrawlName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}
