//! URIs come: `CHG.ADD` and `CHG.ADDURI`.

use crate::chg::add::Counts;
use crate::chg::grammar::{Add, AddUri};
use crawlspace_host::reply::Reply;
use crawlspace_host::server::acl::Access;
use crawlspace_host::server::command::{Act, Answer, Call};

use super::allowed;
use super::frontiers::{Touched, anchor, on_frontier, permit};

fn counts_reply(counts: Counts) -> Reply {
    let counts = counts.into_iter();
    Reply::Array(counts.map(|c| c.map_or(Reply::Nil, Reply::count)).collect())
}

impl Act for Add<'static> {
    fn act(asked: Add<'_>, call: &mut Call<'_>) -> Result<Answer, String> {
        let now = allowed(asked.now)?;
        let Add {
            execution,
            sequence,
            uris,
            ..
        } = asked;
        let groups: Vec<&[u8]> = uris.iter().map(|uri| uri.chg).collect();
        permit(call, &Touched::Groups(&groups), Access::Write)?;
        let counts = on_frontier(call, |cached, keys| {
            cached.simulated = now.simulated;
            let frontier = &mut cached.frontier;
            let counts = frontier.add(keys, execution, sequence, &uris, now.ms)?;
            cached.serve(keys, now.ms)?;
            Ok(counts)
        })?;
        anchor(call)?;
        Ok(Answer::Reply(counts_reply(counts)))
    }
}

impl Act for AddUri<'static> {
    fn act(asked: AddUri<'_>, call: &mut Call<'_>) -> Result<Answer, String> {
        let now = allowed(asked.now)?;
        let AddUri {
            execution,
            weight,
            uris,
            ..
        } = asked;
        let groups: Vec<&[u8]> = uris.iter().map(|uri| uri.chg).collect();
        permit(call, &Touched::Groups(&groups), Access::Write)?;
        let counts = on_frontier(call, |cached, keys| {
            cached.simulated = now.simulated;
            let frontier = &mut cached.frontier;
            let counts = frontier.add_kept(keys, execution, weight, &uris, now.ms)?;
            cached.serve(keys, now.ms)?;
            Ok(counts)
        })?;
        anchor(call)?;
        Ok(Answer::Reply(counts_reply(counts)))
    }
}
