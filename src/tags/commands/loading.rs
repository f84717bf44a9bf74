//! Many edges at once: `TAGS.LOAD`, `TAGS.SWAP`.

use super::arguments::{KIND, kind};
use super::store::change;
use crate::tags::index::{Dropped, ID_BYTES, Mode};
use crawlspace_host::reply::Reply;
use crawlspace_host::server::command::{Answer, Arg, Call, Command, Spec};
use crawlspace_host::server::worker::drop_away;
use crawlspace_host::text::Shown;

/// Up to how many pieces of memory are freed at once.
const FREED_AT_ONCE: usize = 64;

/// Ids with their tags are loaded.
pub struct Load;

impl Command for Load {
    const SPEC: Spec = Spec {
        name: "tags.load",
        flags: "write deny-oom",
        arity: -4,
        summary: "Loads many records, files or tags with their tags: adding, setting, replacing all, or into a staged copy.",
        complexity: "O(N) where N is the number of ids and tags given",
        args: &[
            Arg::key(),
            KIND,
            Arg::one_of(
                "mode",
                &[
                    Arg::word("merge", "MERGE"),
                    Arg::word("set", "SET"),
                    Arg::word("replace", "REPLACE"),
                    Arg::word("stage", "STAGE"),
                ],
            ),
            Arg::block("entry", &[Arg::text("id"), Arg::text("tags")])
                .optional()
                .multiple(),
        ],
    };

    fn run(call: &mut Call<'_>) -> Result<Answer, String> {
        let kind = kind(&mut call.args)?;
        let word = call.args.next("mode")?;
        let mode = Mode::parse(word).ok_or_else(|| {
            format!(
                "ERR invalid mode '{}': MERGE, SET, REPLACE or STAGE is expected (argument {})",
                Shown(word),
                call.args.position()
            )
        })?;
        let mut pairs = Vec::with_capacity(call.args.left() / 2);
        while call.args.left() > 0 {
            let id = call.args.bytes("id", ID_BYTES)?;
            pairs.push((id, call.args.next("tags")?));
        }
        let makes = mode == Mode::Stage || !pairs.is_empty();
        let dropped = change(call, makes, c"tags.load", |space| {
            let changes = !pairs.is_empty() || space.index().changes_without_ids(kind, mode);
            Ok((space.load(kind, mode, &pairs)?, changes))
        })?;
        if let Some(dropped) = dropped {
            free(dropped);
        }
        Ok(Answer::Reply(Reply::count(pairs.len() as u64)))
    }
}

/// The staged copy is put in place, or thrown away.
pub struct Swap;

impl Command for Swap {
    const SPEC: Spec = Spec {
        name: "tags.swap",
        flags: "write",
        arity: -3,
        summary: "Puts a staged copy in place of all records, files or tags, or throws it away.",
        complexity: "O(1); what was in place is freed in the background",
        args: &[
            Arg::key(),
            KIND,
            Arg::one_of(
                "condition",
                &[
                    Arg::integer("ids").after("EXPECT"),
                    Arg::word("discard", "DISCARD"),
                ],
            )
            .optional(),
        ],
    };

    fn run(call: &mut Call<'_>) -> Result<Answer, String> {
        let kind = kind(&mut call.args)?;
        let discard = call.args.keyword("DISCARD");
        let expect = if !discard && call.args.keyword("EXPECT") {
            Some(call.args.unsigned("ids", 0, i64::MAX as u64)?)
        } else {
            None
        };
        call.args.end()?;
        let changed = change(call, !discard, c"tags.swap", |space| {
            if discard {
                let staged = space.index().staged(kind).is_some();
                return Ok((space.discard(kind), staged));
            }
            Ok((space.swap(kind, expect)?, true))
        })?;
        let ids = match changed {
            None => 0,
            Some((ids, dropped)) => {
                free(dropped);
                ids
            }
        };
        Ok(Answer::Reply(Reply::count(ids)))
    }
}

fn free(dropped: Dropped) {
    if dropped.effort() > FREED_AT_ONCE {
        drop_away(dropped);
    }
}
