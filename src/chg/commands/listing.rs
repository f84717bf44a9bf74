//! Listings of the queues, page by page: `CHG.LIST` and `CHG.URIS`.

use crate::chg::grammar::{List, UriCursor, Uris};
use crate::chg::hold::Target;
use crate::chg::listing::list_urls;
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
        let (from, state) = (asked.from.flatten(), asked.state);
        let count = asked.count.unwrap_or(COUNT) as usize;
        let touched = match &asked.what {
            Target::Group(chg) => Touched::Groups(std::slice::from_ref(chg)),
            Target::Execution(_) => Touched::AnyGroup,
        };
        permit(call, &touched, Access::Read)?;
        on_frontier(call, |cached, keys| {
            let frontier = &mut cached.frontier;
            match (asked.what, from) {
                (Target::Group(chg), from) => {
                    let from = match from {
                        Some(UriCursor::Group(from)) => from,
                        _ => Default::default(),
                    };
                    frontier.list_uris(keys, chg, from, count, now.ms)
                }
                (Target::Execution(execution), from) => {
                    let from = match from {
                        Some(UriCursor::Execution(from)) => Some(from),
                        _ => None,
                    };
                    list_urls(keys, execution, state, from, count)
                }
            }
        })
        .map(Answer::Reply)
    }
}
