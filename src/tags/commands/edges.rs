//! Edges one by one: `TAGS.ADD`, `TAGS.REM`, `TAGS.GET`.

use crawlspace_cdx::{Format, Line, Read};

use super::arguments::{KIND, id, kind, tags};
use super::settings::{tags_batch_ms, tags_inline_bytes};
use super::store::{change, read};
use crate::tags::index::{Index, Tagged};
use crate::tags::view::View;
use crawlspace_host::reply::Reply;
use crawlspace_host::server::command::{Answer, Arg, Call, Command, Spec};
use crawlspace_host::server::worker::{Terms, in_one_turn, submit};

/// Tags are attached.
pub struct Add;

impl Command for Add {
    const SPEC: Spec = Spec {
        name: "tags.add",
        flags: "write fast deny-oom",
        arity: -5,
        summary: "Attaches tags to a record, a file or another tag.",
        complexity: "O(N) where N is the number of tags given; for a tag, and of those that carry it",
        args: &[
            Arg::key(),
            KIND,
            Arg::text("id"),
            Arg::text("tag").multiple(),
        ],
    };

    fn run(call: &mut Call<'_>) -> Result<Answer, String> {
        let kind = kind(&mut call.args)?;
        let id = id(&mut call.args, kind)?;
        let tags = tags(&mut call.args)?;
        let added = change(call, true, c"tags.add", |space| {
            let added = space.add(kind, id, &tags)?;
            Ok((added, added > 0))
        })?;
        Ok(Answer::Reply(Reply::count(added.unwrap_or(0))))
    }
}

/// Tags are taken off.
pub struct Rem;

impl Command for Rem {
    const SPEC: Spec = Spec {
        name: "tags.rem",
        flags: "write fast",
        arity: -5,
        summary: "Takes tags off a record, a file or another tag.",
        complexity: "O(N) where N is the number of tags given; for a tag, and of those that carry it",
        args: &[
            Arg::key(),
            KIND,
            Arg::text("id"),
            Arg::text("tag").multiple(),
        ],
    };

    fn run(call: &mut Call<'_>) -> Result<Answer, String> {
        let kind = kind(&mut call.args)?;
        let id = id(&mut call.args, kind)?;
        let tags = tags(&mut call.args)?;
        let removed = change(call, false, c"tags.rem", |space| {
            let removed = space.remove(kind, id, &tags);
            Ok((removed, removed > 0))
        })?;
        Ok(Answer::Reply(Reply::count(removed.unwrap_or(0))))
    }
}

/// The tags of something.
pub struct Get;

impl Command for Get {
    const SPEC: Spec = Spec {
        name: "tags.get",
        flags: "readonly fast",
        arity: -4,
        summary: "Tells the tags of a record, a file or another tag.",
        complexity: "O(N) where N is the number of tags, with ALL of those they carry as well",
        args: &[
            Arg::key(),
            KIND,
            Arg::text("id"),
            Arg::word("all", "ALL").optional(),
        ],
    };

    fn run(call: &mut Call<'_>) -> Result<Answer, String> {
        let kind = kind(&mut call.args)?;
        let id = id(&mut call.args, kind)?;
        let all = call.args.keyword("ALL");
        call.args.end()?;
        let Some(space) = read(call)? else {
            return Ok(Answer::Reply(shown(Vec::new())));
        };
        if !all {
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
    let tags = index.tags_of(kind, id).iter();
    let mut tags: Vec<_> = tags.map(|&tag| index.name(tag).to_vec()).collect();
    tags.sort();
    tags
}

/// The tags with all that they carry, and for a record or file those that its parts give it.
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
    // An id that is no line of its kind has no parts.
    let mut tags = own_tags(&view.index, kind, id);
    view.close(&mut tags);
    tags
}
