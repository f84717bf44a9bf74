//! Deeds as the words of commands.

use super::super::worker::{Deed, End, Release};
use super::super::{EXECUTIONS, LEASE};
use super::{Book, Queued, id};

impl Book {
    /// The command of a deed.
    pub fn line_of(&mut self, deed: &mut Deed) -> String {
        match deed {
            Deed::Release(release) => self.release_line(release),
            Deed::Extend { fetch, ms } => {
                format!("EXTEND {} {} {ms}", id(fetch.group), fetch.token)
            }
            Deed::Block { group, until } => format!("BLOCK {} UNTIL {until}", id(*group)),
            Deed::Add { what, again } => self.add_line(what, *again),
            Deed::AddAgain { what, .. } => add_words(what, true),
            Deed::Ask(_) | Deed::Reports | Deed::Halt(_) => unreachable!("not on the agenda"),
        }
    }

    fn release_line(&self, release: &Release) -> String {
        let Release {
            fetch, when, end, ..
        } = release;
        let (execution, _) = EXECUTIONS[fetch.execution];
        let end = match end {
            End::Done(1) => format!(" DONE {execution}"),
            End::Done(n) => format!(" DONE {execution} {n}"),
            End::Retry(at) => format!(" RETRY {at}"),
            End::Unchanged => String::new(),
        };
        let next = if release.next {
            format!(" NEXT LEASE {LEASE}")
        } else {
            String::new()
        };
        let group = id(fetch.group);
        format!("RELEASE {group} {} {when}{end}{next}", fetch.token)
    }

    /// `ADD` or `ADDURI` of URIs of one execution, which is sent now. What will be sent `again` has
    /// a writer of its own, so that no other number comes in between.
    pub fn add_line(&mut self, what: &mut [Queued], again: bool) -> String {
        let first = &mut what[0];
        let seq = &mut self.seqs[first.execution];
        *seq += 1;
        first.seq = *seq;
        add_words(what, again)
    }
}

fn add_words(what: &[Queued], again: bool) -> String {
    let first = &what[0];
    let (execution, weight) = EXECUTIONS[first.execution];
    let seq = first.seq;
    let mut line = match first.uri {
        Some(_) => format!("ADDURI {execution} WEIGHT {weight}"),
        None if again => format!("ADD {execution} SEQ w{seq} 1"),
        None => format!("ADD {execution} SEQ w {seq}"),
    };
    for queued in what {
        let group = id(queued.group);
        line += &match queued.uri {
            Some(uri) => format!(" {group} {} {} http://{group}/{uri}", queued.at, uri % 5),
            None => format!(" {group} {}", queued.at),
        };
    }
    line
}
