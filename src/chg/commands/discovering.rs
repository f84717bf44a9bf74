//! Known URLs: `CHG.SPACE`, `CHG.DISCOVER`, `CHG.SETTLE`, `CHG.KNOWN`, `CHG.COUNT` and `CHG.FORGET`.

use crate::chg::add::Entered;
use crate::chg::discover::{
    Asked, Selection, count_in_group, count_known, counts_in_group, forget_selected, known,
};
use crate::chg::grammar::{Count, Discover, Forget, Forgotten, Known, Settle, Space};
use crawlspace_host::reply::Reply;
use crawlspace_host::server::acl::Access;
use crawlspace_host::server::command::{Act, Answer, Call};

use super::allowed;
use super::frontiers::{Touched, anchor, change, on_frontier, permit};
use super::jobs::{Work, submit};

impl Act for Space<'static> {
    fn act(asked: Space<'_>, call: &mut Call<'_>) -> Result<Answer, String> {
        let now = allowed(asked.now)?;
        let space = Asked {
            bits: asked.bits,
            share: asked.share,
            text: asked.text,
        };
        change(call, &Touched::Groups(&[]), now, |frontier, keys| {
            frontier.space(keys, asked.execution, &space, now.ms)
        })?;
        anchor(call)?;
        Ok(Answer::Reply(Reply::Ok))
    }
}

impl Act for Discover<'static> {
    fn act(asked: Discover<'_>, call: &mut Call<'_>) -> Result<Answer, String> {
        let now = allowed(asked.now)?;
        let Discover {
            execution, what, ..
        } = asked;
        let groups: Vec<&[u8]> = what.items.iter().map(|item| item.url.chg).collect();
        let entered = change(call, &Touched::Groups(&groups), now, |frontier, keys| {
            let options = (what.weight, what.fresh);
            frontier.discover(keys, execution, options, &what.items, now.ms)
        })?;
        anchor(call)?;
        let replies = entered.into_iter().map(|entered| match entered {
            Entered::New(n) => Reply::count(n),
            Entered::Known(_) => Reply::count(0),
            Entered::Refused => Reply::Nil,
        });
        Ok(Answer::Reply(Reply::Array(replies.collect())))
    }
}

impl Act for Settle<'static> {
    fn act(asked: Settle<'_>, call: &mut Call<'_>) -> Result<Answer, String> {
        let now = allowed(asked.now)?;
        let Settle {
            execution,
            status,
            urls,
            ..
        } = asked;
        let settled = change(call, &Touched::AnyGroup, now, |frontier, keys| {
            frontier.settle(keys, execution, status, &urls, now.ms)
        })?;
        anchor(call)?;
        let replies = settled.into_iter().map(|changed| match changed {
            Some(changed) => Reply::Int(changed.into()),
            None => Reply::Nil,
        });
        Ok(Answer::Reply(Reply::Array(replies.collect())))
    }
}

impl Act for Known<'static> {
    fn act(asked: Known<'_>, call: &mut Call<'_>) -> Result<Answer, String> {
        allowed(asked.now)?;
        let Known {
            execution, urls, ..
        } = asked;
        permit(call, &Touched::AnyGroup, Access::Read)?;
        on_frontier(call, |_, keys| known(keys, execution, &urls)).map(Answer::Reply)
    }
}

impl Act for Count<'static> {
    fn act(asked: Count<'_>, call: &mut Call<'_>) -> Result<Answer, String> {
        allowed(asked.now)?;
        let execution = asked.execution;
        permit(call, &Touched::AnyGroup, Access::Read)?;
        match asked.group {
            Some(group) => {
                let counts = on_frontier(call, |_, keys| counts_in_group(keys, execution, group))?;
                if let Some(counts) = counts {
                    return Ok(Answer::Reply(counts));
                }
                let owned = [execution, group].map(<[u8]>::to_vec);
                let work = Work::new(move || count_in_group(&owned[0], &owned[1]));
                submit(call, None, ("count", &[execution, group]), work)
            }
            None => on_frontier(call, |_, keys| count_known(keys, execution)).map(Answer::Reply),
        }
    }
}

impl Act for Forget<'static> {
    fn act(asked: Forget<'_>, call: &mut Call<'_>) -> Result<Answer, String> {
        let now = allowed(asked.now)?;
        let execution = asked.execution;
        match asked.what.unwrap_or_default() {
            Forgotten::Urls(urls) => {
                let forgotten = change(call, &Touched::AnyGroup, now, |frontier, keys| {
                    frontier.forget(keys, execution, &urls, now.ms)
                })?;
                Ok(Answer::Reply(Reply::count(forgotten)))
            }
            Forgotten::Selected(selection) => {
                permit(call, &Touched::AnyGroup, Access::Write)?;
                let before_text = selection
                    .before
                    .map_or(Vec::new(), |before| before.to_string().into_bytes());
                let state = selection.state.map_or("", |state| state.name());
                let group = selection.group.unwrap_or_default();
                let arguments = [execution, group, &before_text, state.as_bytes()];
                let (owned, owned_group) =
                    (execution.to_vec(), selection.group.map(<[u8]>::to_vec));
                let (before, state) = (selection.before, selection.state);
                let work = Work::new(move || {
                    let group = owned_group.as_deref();
                    let selection = Selection {
                        group,
                        before,
                        state,
                    };
                    forget_selected(&owned, &selection)
                });
                submit(call, Some(&now), ("forget", &arguments), work)
            }
        }
    }
}
