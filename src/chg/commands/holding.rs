//! Commands that hold groups back or release them (`CHG.BLOCK`, `CHG.PAUSE`, `CHG.RESUME`,
//! `CHG.LIMIT`, `CHG.GROUP`) and commands that report their state (`CHG.WHY`, `CHG.INFO`).

use crate::chg::grammar::{Block, DoneLimit, Group, Info, Limit, Now, Pause, Resume, Why};
use crate::chg::hold::Target;
use crate::chg::limiting::limit_done;
use crate::chg::store::check_packed;
use crawlspace_host::reply::Reply;
use crawlspace_host::server::acl::Access;
use crawlspace_host::server::command::{Act, Answer, Call};

use super::allowed;
use super::frontiers::{Touched, anchor, change, on_frontier, permit, record_storage};
use super::jobs::{Work, pause_in_slices, submit};

impl Act for Block<'static> {
    fn act(asked: Block<'_>, call: &mut Call<'_>) -> Result<Answer, String> {
        let now = allowed(asked.now)?;
        let Block { chg, until, .. } = asked;
        change(call, &Touched::Groups(&[chg]), now, |frontier, keys| {
            frontier.block(keys, chg, until, now.ms)
        })?;
        Ok(Answer::Reply(Reply::Ok))
    }
}

fn pause(
    call: &mut Call<'_>,
    now: Now,
    what: Option<Target<'_>>,
    pause: bool,
) -> Result<Answer, String> {
    let now = allowed(now)?;
    match what {
        Some(Target::Execution(execution)) => {
            permit(call, &Touched::AnyGroup, Access::Write)?;
            return pause_in_slices(call, &now, execution, pause);
        }
        Some(Target::Group(chg)) => {
            change(call, &Touched::Groups(&[chg]), now, |frontier, keys| {
                frontier.pause_group(keys, chg, pause, now.ms)
            })?
        }
        None => change(call, &Touched::AnyGroup, now, |frontier, keys| {
            frontier.pauses.set(keys, None, pause).map(drop)
        })?,
    }
    Ok(Answer::Reply(Reply::Ok))
}

impl Act for Pause<'static> {
    fn act(asked: Pause<'_>, call: &mut Call<'_>) -> Result<Answer, String> {
        pause(call, asked.now, asked.what, true)
    }
}

impl Act for Resume<'static> {
    fn act(asked: Resume<'_>, call: &mut Call<'_>) -> Result<Answer, String> {
        pause(call, asked.now, asked.what, false)
    }
}

impl Act for Limit<'static> {
    fn act(asked: Limit<'_>, call: &mut Call<'_>) -> Result<Answer, String> {
        let now = allowed(asked.now)?;
        let Limit { chg, limits, .. } = asked;
        if let Some(done) = &limits.done {
            permit(call, &Touched::Groups(&[chg]), Access::Write)?;
            on_frontier(call, |_, keys| check_packed(keys))?;
            let DoneLimit { most, execution } = *done;
            let (group, owned, limits) = (chg.to_vec(), execution.to_vec(), limits.limits());
            let text = format!("{most} {limits:?}");
            let arguments = [chg, execution, text.as_bytes()];
            let work = Work::new(move || limit_done(&group, (&owned, most), &limits, now.ms));
            anchor(call)?;
            return submit(call, Some(&now), ("limit", &arguments), work);
        }
        let limits = limits.limits();
        change(call, &Touched::Groups(&[chg]), now, |frontier, keys| {
            frontier.limit(keys, chg, &limits, now.ms)
        })?;
        record_storage(call)?;
        anchor(call)?;
        Ok(Answer::Reply(Reply::Ok))
    }
}

impl Act for Group<'static> {
    fn act(asked: Group<'_>, call: &mut Call<'_>) -> Result<Answer, String> {
        let now = allowed(asked.now)?;
        let Group { gate, groups, .. } = asked;
        change(call, &Touched::Groups(&groups), now, |frontier, keys| {
            frontier.group(keys, gate, &groups, now.ms)
        })?;
        record_storage(call)?;
        anchor(call)?;
        Ok(Answer::Reply(Reply::Ok))
    }
}

impl Act for Why<'static> {
    fn act(asked: Why<'_>, call: &mut Call<'_>) -> Result<Answer, String> {
        let now = allowed(asked.now)?;
        let chg = asked.chg;
        permit(call, &Touched::Groups(&[chg]), Access::Read)?;
        on_frontier(call, |cached, keys| cached.frontier.why(keys, chg, now.ms)).map(Answer::Reply)
    }
}

impl Act for Info<'static> {
    fn act(asked: Info<'_>, call: &mut Call<'_>) -> Result<Answer, String> {
        let now = allowed(asked.now)?;
        permit(call, &Touched::AnyGroup, Access::Read)?;
        on_frontier(call, |cached, keys| {
            let waiters = cached.waiters.all.len() as u64;
            let frontier = &mut cached.frontier;
            match asked.execution {
                Some(execution) => frontier.info_of(keys, execution, now.ms),
                None => frontier.info(keys, waiters, now.ms),
            }
        })
        .map(Answer::Reply)
    }
}
