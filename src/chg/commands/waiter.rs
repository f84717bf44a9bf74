//! A client that is waiting for a lease, and its reply.

use crate::chg::Token;
use crate::chg::error::Result;
use crate::chg::frontier::Frontier;
use crate::chg::next::Lease;
use crate::chg::time::Millis;
use crawlspace_host::reply::Reply;

use super::reply::{leases_reply, released_reply};
use super::store::FrontierKeys;

/// A client that waits for a lease.
pub struct Waiter {
    /// Duration of the requested leases.
    pub lease: Millis,
    /// Maximum number of leases.
    pub count: usize,
    /// Maximum number of URIs of each lease.
    pub uris: usize,
    /// True if the reply contains the details of each URI of a lease.
    pub is_full: bool,
    /// Pause after which the group is free again; `None` if the group stays leased until the
    /// release.
    pub gate: Option<Millis>,
    /// The execution of the requested URIs; `None` for any execution.
    pub execution: Option<Vec<u8>>,
    /// True if the client waits because the search takes a long time, instead of waiting for a
    /// group to become due.
    pub searches: bool,
    /// The release that the client combined with this request: group, token, and due time in the
    /// reply.
    pub after: Option<(Vec<u8>, Token, Millis)>,
    /// The leases granted so far.
    pub leases: Vec<Lease>,
}

impl Waiter {
    /// Returns the reply to the client: its leases, or nil.
    pub(super) fn answer(
        &mut self,
        frontier: &mut Frontier<FrontierKeys>,
        keys: &mut FrontierKeys,
    ) -> Result<Reply> {
        if let (Some((chg, token, _)), Some(lease)) = (&self.after, self.leases.first()) {
            frontier.keep_next(keys, chg, *token, lease)?;
        }
        Ok(self.reply())
    }

    pub(super) fn reply(&mut self) -> Reply {
        let leases = std::mem::take(&mut self.leases);
        match &self.after {
            None => leases_reply(leases, self.is_full),
            Some((_, _, due)) => released_reply(*due, leases.into_iter().next(), self.is_full),
        }
    }
}
