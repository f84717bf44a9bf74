//! Leases that run out, and reports of them.

use super::Token;
use super::error::Result;
use super::frontier::Frontier;
use super::groups::Loaded;
use super::store::Store;
use super::time::{Millis, of_score};
use super::transition::{Event, Step};
use super::uris::Op;
use crawlspace_compact::limits::chg::MAX_REPORTS;
use crawlspace_host::text::{parse_unsigned, push_number};
use smallvec::SmallVec;

/// A lease that ran out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The group.
    pub chg: Vec<u8>,
    /// Execution and URI, if the frontier keeps them.
    pub uri: Option<(Vec<u8>, Vec<u8>)>,
    /// How many leases of the URI ran out; of the group, in a row, where no URI is kept.
    pub times: u64,
    /// Whether the URI is not tried again.
    pub given_up: bool,
    /// Whether the URI still counted: its execution was not dropped.
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

    /// As an element of `chg_expired`: how often, the lengths of group, execution and URI (`-` for
    /// none), and these three.
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

impl<K: Store> Frontier<K> {
    /// Ends the leases of a group that have run out. Their URIs go back, or are given up when they
    /// were tried often enough; either way there is a report. What follows is the caller's to carry out.
    pub(super) fn expire(
        &mut self,
        ks: &mut K,
        loaded: &mut Loaded<K>,
        now: Millis,
    ) -> Result<Step> {
        let holds = loaded.group.holds.iter();
        let over = holds.filter(|hold| hold.deadline <= now);
        let over: SmallVec<[Token; 1]> = over.map(|hold| hold.token).collect();
        let (mut given_up, mut counted) = (0, false);
        let mut times = loaded.group.expired;
        for &token in &over {
            times += 1;
            let report = self.end_attempt(ks, loaded, token, times)?;
            given_up += u64::from(report.given_up && report.counts);
            counted |= report.uri.is_none();
            self.report(ks, &report)?;
        }
        let seen = self.seen(ks, loaded, now)?;
        let step = (loaded.group).on(Event::Expired { given_up, counted }, &seen);
        let ended = loaded.group.expired - (times - over.len() as u64);
        self.figures.expired += ended;
        if ended > over.len() as u64 {
            // A plain client's, which keeps no token.
            let report = Report::of_group(&loaded.id, loaded.group.expired);
            self.report(ks, &report)?;
        }
        Ok(step)
    }

    fn end_attempt(
        &mut self,
        ks: &mut K,
        loaded: &Loaded<K>,
        token: Token,
        times: u64,
    ) -> Result<Report> {
        let key = self.groups.uris_of(ks, loaded);
        let leased = ks.uris(&key, |uris| {
            let leased = uris.leased(token)?;
            Some(Report {
                chg: loaded.id.to_vec(),
                uri: Some((leased.execution.to_vec(), leased.uri.to_vec())),
                times: u64::from(leased.attempts) + 1,
                given_up: false,
                counts: !leased.dropped,
            })
        })?;
        let Some(mut report) = leased.flatten() else {
            return Ok(Report::of_group(&loaded.id, times));
        };
        report.given_up = report.times >= self.attempts;
        let uri = report.uri.as_ref();
        match uri.filter(|_| report.given_up && report.counts) {
            Some((execution, _)) => {
                self.finish(ks, loaded, &Op::Done { token }, Some(execution))?;
            }
            None => {
                let back = Op::Return {
                    token,
                    due: None,
                    failed: true,
                };
                ks.change_uris(&key, &back)?;
            }
        }
        Ok(report)
    }

    /// Keeps a report until somebody reads it.
    pub(super) fn report(&mut self, ks: &mut K, report: &Report) -> Result<()> {
        if !report.given_up && ks.list_len(&self.keys.once.expired)? >= MAX_REPORTS {
            self.figures.reports_dropped += 1;
            return Ok(());
        }
        ks.list_push(&self.keys.once.expired, &report.write())?;
        Ok(())
    }

    /// Takes the oldest reports off the list. Leases that ran out unnoticed are noticed first.
    ///
    /// # Errors
    /// `WRONGTYPE` when a key holds another type; or when the server refuses.
    pub fn expired(&mut self, ks: &mut K, most: usize, now: Millis) -> Result<Vec<Report>> {
        self.tidy(ks, now)?;
        for _ in 0..most {
            let first = ks.zset_at(&self.keys.once.busy, 0)?;
            let Some((id, _)) = first.filter(|(_, score)| of_score(*score) <= now) else {
                break;
            };
            let mut loaded = self.groups.load(ks, id.as_ref())?;
            self.make_ready(ks, &mut loaded, now)?;
        }
        let mut reports = Vec::new();
        while reports.len() < most {
            let Some(text) = ks.list_take(&self.keys.once.expired, 0)? else {
                break;
            };
            // What a plain client put there is skipped.
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
