//! Listings of the queues, page by page: `CHG.LIST` and `CHG.URIS`.

use crate::chg::grammar::{List, Uris};
use crawlspace_compact::limits::chg::COUNT;
use crawlspace_host::server::acl::Access;
use crawlspace_host::server::command::{Act, Answer, Call};

use super::allowed;
use super::frontiers::{Touched, on_frontier, permit};

impl Act for List {
    fn act(asked: List, call: &mut Call<'_>) -> Result<Answer, String> {
        allowed(asked.now)?;
        let (from, count) = (asked.from.flatten(), asked.count.unwrap_or(COUNT));
        permit(call, &Touched::AnyGroup, Access::Read)?;
        on_frontier(call, |cached, keys| {
            cached.frontier.list(keys, asked.only, from.as_ref(), count)
        })
        .map(Answer::Reply)
    }
}

impl Act for Uris<'static> {
    fn act(asked: Uris<'_>, call: &mut Call<'_>) -> Result<Answer, String> {
        let now = allowed(asked.now)?;
        let chg = asked.chg;
        permit(call, &Touched::Groups(&[chg]), Access::Read)?;
        let from = asked.from.flatten().unwrap_or_default();
        let count = asked.count.unwrap_or(COUNT) as usize;
        on_frontier(call, |cached, keys| {
            let frontier = &mut cached.frontier;
            frontier.list_uris(keys, chg, from, count, now.ms)
        })
        .map(Answer::Reply)
    }
}
