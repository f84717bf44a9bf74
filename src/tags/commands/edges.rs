//! Commands for the tags of one id: `TAGS.ADD`, `TAGS.REM`, `TAGS.GET`.

use crawlspace_cdx::{Format, Line, Read};

use super::settings::{tags_batch_ms, tags_inline_bytes};
use super::store::{change, read};
use crate::tags::grammar::{Add, Get, Rem, Subject};
use crate::tags::index::{Index, Tagged, plain};
use crate::tags::view::View;
use crawlspace_host::reply::Reply;
use crawlspace_host::server::command::{Act, Answer, Call};
use crawlspace_host::server::worker::{Terms, in_one_turn, submit};

impl Act for Add<'static> {
    fn act(asked: Add<'_>, call: &mut Call<'_>) -> Result<Answer, String> {
        let Subject { kind, id } = asked.to;
        let added = change(call, true, c"tags.add", |space| {
            let added = space.add(kind, id, &asked.tags)?;
            Ok((added, added > 0))
        })?;
        Ok(Answer::Reply(Reply::count(added.unwrap_or(0))))
    }
}

impl Act for Rem<'static> {
    fn act(asked: Rem<'_>, call: &mut Call<'_>) -> Result<Answer, String> {
        let Subject { kind, id } = asked.from;
        let removed = change(call, false, c"tags.rem", |space| {
            let removed = space.remove(kind, id, &asked.tags);
            Ok((removed, removed > 0))
        })?;
        Ok(Answer::Reply(Reply::count(removed.unwrap_or(0))))
    }
}

impl Act for Get<'static> {
    fn act(asked: Get<'_>, call: &mut Call<'_>) -> Result<Answer, String> {
        let Subject { kind, id } = asked.of;
        let Some(space) = read(call)? else {
            return Ok(Answer::Reply(shown(Vec::new())));
        };
        if !asked.all {
            return Ok(Answer::Reply(shown(own_tags(space.index(), kind, id))));
        }
        let view = space.view();
        if kind == Tagged::Tag || view.work(id.len(), None) <= tags_inline_bytes() {
            return Ok(Answer::Reply(shown(all_tags(&view, kind, id))));
        }
        let found = in_one_turn(move |id| Ok(shown(all_tags(&view, kind, id[0]))));
        let terms = Terms::heavy(tags_batch_ms());
        submit(call.ctx, vec![call.argument(3)], terms, found)
    }
}

fn shown(tags: Vec<Vec<u8>>) -> Reply {
    Reply::Array(tags.into_iter().map(Reply::Bulk).collect())
}

fn own_tags(index: &Index, kind: Tagged, id: &[u8]) -> Vec<Vec<u8>> {
    let mut tags = index.tags_of(kind, id).to_vec();
    if kind == Tagged::Record {
        tags.extend(index.tags_of(kind, &plain(id)));
    }
    let tags = tags.into_iter().map(|tag| index.name(tag).to_vec());
    let mut tags: Vec<_> = tags.collect();
    tags.sort();
    tags.dedup();
    tags
}

/// Returns the tags of an id and all tags that these tags carry. For a record or file, includes the
/// tags of its filename and of the rules.
fn all_tags(view: &View, kind: Tagged, id: &[u8]) -> Vec<Vec<u8>> {
    let format = match kind {
        Tagged::Record => Format::Record,
        Tagged::File => Format::File,
        Tagged::Tag => Format::Auto,
    };
    if kind != Tagged::Tag
        && let Ok(Read::Capture(line)) = Line::read(id, format)
    {
        return view.tags(&line);
    }
    // An id that is not a valid line has no fields, so rules do not apply to it.
    let mut tags = own_tags(&view.index, kind, id);
    view.close(&mut tags);
    tags
}
