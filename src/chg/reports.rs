//! Reports of expired leases: `chg_expired`.

use std::rc::Rc;

use crawlspace_compact::limits::chg::MAX_REPORTS;
use crawlspace_host::text::{parse_unsigned, push_number};

use super::error::Result;
use super::keys::Keys;
use super::store::Store;

/// A lease that expired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The group.
    pub chg: Vec<u8>,
    /// Execution and URI, if the frontier stores the URI.
    pub uri: Option<(Vec<u8>, Vec<u8>)>,
    /// Number of expired leases on the URI or, if the frontier does not store the URI, number of
    /// consecutive expired leases on the group.
    pub times: u64,
    /// True if the frontier does not retry the URI.
    pub given_up: bool,
    /// True if the URI is still counted, because its execution was not dropped.
    pub counts: bool,
}

impl Report {
    pub(super) fn of_group(chg: &[u8], times: u64) -> Report {
        Report {
            chg: chg.to_vec(),
            uri: None,
            times,
            given_up: false,
            counts: true,
        }
    }

    /// Encodes the report as an element of `chg_expired`: the number of expired leases, the lengths
    /// of group, execution and URI (`-` if absent), and these three strings.
    fn write(&self) -> Vec<u8> {
        let mut text = Vec::new();
        push_number(&mut text, self.times);
        let uri = self.uri.as_ref();
        let parts = [
            Some(&self.chg),
            uri.map(|(execution, _)| execution),
            uri.map(|(_, uri)| uri),
        ];
        for part in parts {
            text.push(b' ');
            match part {
                Some(part) => push_number(&mut text, part.len() as u64),
                None => text.push(b'-'),
            }
        }
        text.push(b' ');
        for part in parts.into_iter().flatten() {
            text.extend_from_slice(part);
        }
        text
    }

    fn read(text: &[u8]) -> Option<Report> {
        let mut words = text.splitn(5, |&b| b == b' ');
        let times = parse_unsigned(words.next()?)?;
        let mut len = || Some(parse_unsigned(words.next()?).map(|n| n as usize));
        let (chg, execution, uri) = (len()??, len()?, len()?);
        let mut rest = words.next()?;
        let mut take = |len: usize| {
            let (part, after) = rest.split_at_checked(len)?;
            rest = after;
            Some(part.to_vec())
        };
        Some(Report {
            chg: take(chg)?,
            uri: match (execution, uri) {
                (Some(execution), Some(uri)) => Some((take(execution)?, take(uri)?)),
                _ => None,
            },
            times,
            given_up: false,
            counts: true,
        })
    }
}

/// The list of reports.
pub(super) struct Reports<K: Store> {
    keys: Rc<Keys<K>>,
}

impl<K: Store> Reports<K> {
    pub(super) fn new(keys: Rc<Keys<K>>) -> Reports<K> {
        Reports { keys }
    }

    /// Stores a report until a client reads it. Returns the number of reports that were dropped
    /// because the list is full. Never drops reports of URIs that were given up.
    pub(super) fn keep(&self, ks: &mut K, report: &Report) -> Result<u64> {
        if !report.given_up && ks.list_len(&self.keys.once.expired)? >= MAX_REPORTS {
            return Ok(1);
        }
        ks.list_push(&self.keys.once.expired, &report.write())?;
        Ok(0)
    }

    /// Removes the oldest reports from the list and returns them, at most `most`.
    pub(super) fn take(&self, ks: &mut K, most: usize) -> Result<Vec<Report>> {
        let mut reports = Vec::new();
        while reports.len() < most {
            let Some(text) = ks.list_take(&self.keys.once.expired, 0)? else {
                break;
            };
            // Skip elements that a plain client added.
            reports.extend(Report::read(text.as_ref()));
        }
        Ok(reports)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read_as_it_was_written() {
        let mut report = Report::of_group(b"a b\xff", 3);
        assert_eq!(Report::read(&report.write()), Some(report.clone()));
        report.uri = Some((b"exec 1".to_vec(), b"https://h/ 7 9".to_vec()));
        assert_eq!(Report::read(&report.write()), Some(report));
        for bad in ["", "1", "1 2 - -", "x 1 - - a", "1 9 - - a", "1 1 9 9 a"] {
            assert_eq!(Report::read(bad.as_bytes()), None, "{bad}");
        }
    }
}
