//! Commands that add URIs: `CHG.ADD` and `CHG.ADDURI`.

use crate::chg::add::Counts;
use crate::chg::grammar::{Add, AddUri};
use crawlspace_host::reply::Reply;
use crawlspace_host::server::command::{Act, Answer, Call};
use smallvec::SmallVec;

use super::allowed;
use super::frontiers::{Touched, anchor, change};

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
        let groups: SmallVec<[&[u8]; 1]> = uris.iter().map(|uri| uri.chg).collect();
        let counts = change(call, &Touched::Groups(&groups), now, |frontier, keys| {
            frontier.add(keys, execution, sequence, &uris, now.ms)
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
        let groups: SmallVec<[&[u8]; 1]> = uris.iter().map(|uri| uri.chg).collect();
        let counts = change(call, &Touched::Groups(&groups), now, |frontier, keys| {
            frontier.add_kept(keys, execution, weight, &uris, now.ms)
        })?;
        anchor(call)?;
        Ok(Answer::Reply(counts_reply(counts)))
    }
}
