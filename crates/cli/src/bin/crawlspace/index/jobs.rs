//! Parsing of job lists on the command line.

use std::fs::File;
use std::io::{self, Read};

use crawlspace_jobs::JobSet;

/// Maximum size of a list, in bytes.
const MAX_LIST: u64 = 256 << 20;

/// Parses `1,2,5-8`, `@FILE` for a file with a list, or `-` for a list on standard input. A list may have spaces and
/// line breaks instead of commas.
pub(super) fn jobs(given: &str) -> Result<JobSet, String> {
    match given.strip_prefix('@') {
        _ if given == "-" => listed(io::stdin().lock(), "standard input"),
        Some(path) => {
            let file = File::open(path).map_err(|error| format!("{path}: {error}"))?;
            listed(file, path)
        }
        None => given.parse(),
    }
}

fn listed(from: impl Read, name: &str) -> Result<JobSet, String> {
    let mut text = String::new();
    let wrong = |error: String| format!("{name}: {error}");
    let read = from.take(MAX_LIST).read_to_string(&mut text);
    read.map_err(|error| wrong(error.to_string()))?;
    let is_between = |c: char| c == ',' || c.is_ascii_whitespace();
    let parts: Vec<&str> = text
        .split(is_between)
        .filter(|part| !part.is_empty())
        .collect();
    parts.join(",").parse().map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::listed;

    #[test]
    fn job_list_may_span_lines() {
        let jobs = listed(&b"1,2\n5-7 \n\n 9\t3,\n"[..], "here").expect("a list");
        assert_eq!(jobs.to_string(), "1-3,5-7,9");
        assert!(listed(&b"\n"[..], "here").expect("a list").is_empty());
        let error = listed(&b"1\nseven\n"[..], "here").expect_err("no number");
        assert!(error.starts_with("here: "), "{error}");
        assert!(listed(&b"1 \xff"[..], "here").is_err());
    }
}
