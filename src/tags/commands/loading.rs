//! Commands that change many edges: `TAGS.LOAD`, `TAGS.SWAP`.

use super::store::change;
use crate::tags::grammar::{Condition, Load, Swap};
use crate::tags::index::{Dropped, Mode};
use crawlspace_host::reply::Reply;
use crawlspace_host::server::command::{Act, Answer, Call};
use crawlspace_host::server::worker::drop_away;

/// Maximum number of memory blocks that are freed on the main thread. If there are more blocks, a
/// background thread frees them.
const FREED_AT_ONCE: usize = 64;

impl Act for Load<'static> {
    fn act(asked: Load<'_>, call: &mut Call<'_>) -> Result<Answer, String> {
        let Load { kind, mode, .. } = asked;
        let pairs = asked.entries.unwrap_or_default();
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

impl Act for Swap {
    fn act(asked: Swap, call: &mut Call<'_>) -> Result<Answer, String> {
        let kind = asked.kind;
        let (discard, expect) = match asked.condition {
            Some(Condition::Discard) => (true, None),
            Some(Condition::Expect(ids)) => (false, Some(ids)),
            None => (false, None),
        };
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
