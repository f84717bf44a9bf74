//! What stands in the queues, page by page: `CHG.LIST` and `CHG.URIS`.

use crate::chg::listing::{Cursor, Queue};
use crate::chg::uris::Position;
use crawlspace_host::server::acl::Access;
use crawlspace_host::server::args::Args;
use crawlspace_host::server::command::{Answer, Arg, Call, Command, Spec};
use crawlspace_host::text::Shown;

use super::NOW;
use super::arguments::{id, now};
use super::frontiers::{Touched, on_frontier, permit};

/// Maximum number of entries of a page.
const MAX_COUNT: u64 = 1000;

/// Entries of a page when nothing is said.
const COUNT: u64 = 100;

/// Reads a cursor; `None` is the beginning.
fn cursor<T>(
    args: &mut Args<'_>,
    parse: impl FnOnce(&[u8]) -> Option<T>,
) -> Result<Option<T>, String> {
    let text = args.next("CURSOR")?;
    if text == b"0" {
        return Ok(None);
    }
    parse(text).map(Some).ok_or_else(|| {
        format!(
            "ERR invalid CURSOR '{}': 0, or what this command gave, is expected (argument {})",
            Shown(text),
            args.position()
        )
    })
}

const CURSOR: Arg = Arg::text("cursor").after("CURSOR").optional();
const COUNTS: Arg = Arg::integer("count").after("COUNT").optional();

/// The groups of a frontier.
pub struct List;

impl Command for List {
    const SPEC: Spec = Spec {
        name: "chg.list",
        flags: "readonly",
        arity: -2,
        summary: "Lists the groups that wait, are ready or are being fetched from, page by page.",
        complexity: "O(N + log M squared) where N is the number of groups listed and M that of all",
        args: &[
            Arg::prefix(),
            NOW,
            Arg::one_of(
                "state",
                &[
                    Arg::word("waiting", "WAITING"),
                    Arg::word("ready", "READY"),
                    Arg::word("busy", "BUSY"),
                ],
            )
            .after("STATE")
            .optional(),
            CURSOR,
            COUNTS,
        ],
    };

    fn run(call: &mut Call<'_>) -> Result<Answer, String> {
        now(call)?;
        let args = &mut call.args;
        let (mut only, mut from, mut count) = (None, None, COUNT);
        while args.left() > 0 {
            if args.keyword("STATE") {
                only = Some(state(args)?);
            } else if args.keyword("CURSOR") {
                from = cursor(args, Cursor::parse)?;
            } else if args.keyword("COUNT") {
                count = args.unsigned("COUNT", 1, MAX_COUNT)?;
            } else {
                args.end()?;
            }
        }
        let queue = from.as_ref().map(Cursor::queue);
        if let (Some(queue), Some(only)) = (queue, only.filter(|only| Some(*only) != queue)) {
            return Err(format!(
                "ERR CURSOR is of a listing of groups that are {}, and STATE says {} (argument {})",
                queue.name(),
                only.name(),
                args.position()
            ));
        }
        permit(call, &Touched::AnyGroup, Access::Read)?;
        on_frontier(call, |cached, keys| {
            cached.frontier.list(keys, only, from.as_ref(), count)
        })
        .map(Answer::Reply)
    }
}

/// Reads the name of a queue.
fn state(args: &mut Args<'_>) -> Result<Queue, String> {
    let named = Queue::ALL
        .into_iter()
        .find(|queue| args.keyword(queue.name()));
    match named {
        Some(queue) => Ok(queue),
        None => Err(format!(
            "ERR invalid STATE '{}': waiting, ready or busy is expected (argument {})",
            Shown(args.next("STATE")?),
            args.position()
        )),
    }
}

/// The URIs of a group.
pub struct Uris;

impl Command for Uris {
    const SPEC: Spec = Spec {
        name: "chg.uris",
        flags: "readonly",
        arity: -3,
        summary: "Lists the URIs that are kept and queued for a group, page by page.",
        complexity: "O(N + log M) where N is the number of URIs listed and M that of all of the group",
        args: &[Arg::prefix(), NOW, Arg::text("chg"), CURSOR, COUNTS],
    };

    fn run(call: &mut Call<'_>) -> Result<Answer, String> {
        let now = now(call)?;
        let args = &mut call.args;
        let chg = id(args, "chg")?;
        let (mut from, mut count) = (None, COUNT);
        while args.left() > 0 {
            if args.keyword("CURSOR") {
                from = cursor(args, Position::parse)?;
            } else if args.keyword("COUNT") {
                count = args.unsigned("COUNT", 1, MAX_COUNT)?;
            } else {
                args.end()?;
            }
        }
        permit(call, &Touched::Groups(&[chg]), Access::Read)?;
        let from = from.unwrap_or_default();
        on_frontier(call, |cached, keys| {
            let frontier = &mut cached.frontier;
            frontier.list_uris(keys, chg, from, count as usize, now.ms)
        })
        .map(Answer::Reply)
    }
}
