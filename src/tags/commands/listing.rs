//! Commands that list the contents of a space: `TAGS.LIST`, `TAGS.SCAN`, `TAGS.INFO`.

use super::settings::tags_batch_ms;
use super::store::read;
use crate::tags::error::Error;
use crate::tags::expression::Bounds;
use crate::tags::grammar::{Info, List, Scan};
use crate::tags::index::Tagged;
use crate::tags::list::{Wanted, list};
use crate::tags::space::Space;
use crate::tags::view::Asked;
use crawlspace_cdx::Dialect;
use crawlspace_compact::limits::tags::COUNT;
use crawlspace_host::reply::Reply;
use crawlspace_host::server::command::{Act, Answer, Call};
use crawlspace_host::server::worker::{Terms, in_one_turn, submit};

/// Maximum number of tag tests on the main thread, which take a few milliseconds.
const FEW_QUESTIONS: usize = 500_000;

/// Maximum number of tag tests on another thread, which take a few seconds.
const MAX_QUESTIONS: usize = 1 << 30;

impl Act for List<'static> {
    fn act(asked: List<'_>, call: &mut Call<'_>) -> Result<Answer, String> {
        let view = read(call)?.map(|space| space.view()).unwrap_or_default();
        let prefix = asked.prefix.unwrap_or_default();
        let (cursor, count) = (
            asked.cursor.unwrap_or(0),
            asked.count.unwrap_or(COUNT) as usize,
        );
        let asked = Asked {
            point: None,
            expression: Some(asked.expression.to_vec()),
            filters: Vec::new(),
            dialect: Dialect::Outback,
        };
        let wanted = Wanted {
            prefix,
            cursor,
            count,
        };
        let long = asked.bytes() > Bounds::NARROW.parts || view.points.have_heavy();
        if !long {
            match list(&view, &asked, Bounds::NARROW, FEW_QUESTIONS, &wanted) {
                Err(Error::TooBig(_)) => {}
                Ok(listed) => return Ok(Answer::Reply(page(listed))),
                Err(error) => return Err(error.to_string()),
            }
        }
        let prefix = prefix.to_vec();
        let listed = in_one_turn(move |_| {
            let wanted = Wanted {
                prefix: &prefix,
                cursor,
                count,
            };
            let listed = list(&view, &asked, Bounds::WIDE, MAX_QUESTIONS, &wanted);
            listed.map(page).map_err(|error| error.to_string())
        });
        submit(call.ctx, Vec::new(), Terms::heavy(tags_batch_ms()), listed)
    }
}

impl Act for Scan<'static> {
    fn act(asked: Scan<'_>, call: &mut Call<'_>) -> Result<Answer, String> {
        let prefix = asked.prefix.unwrap_or_default();
        let count = asked.count.unwrap_or(COUNT) as usize;
        let mut found = Vec::new();
        let mut next = 0;
        if let Some(space) = read(call)? {
            let index = space.index();
            next = index.scan(asked.kind, asked.cursor, count, &mut |id, tags| {
                if id.starts_with(prefix) {
                    let mut tags: Vec<&[u8]> = tags.iter().map(|&tag| index.name(tag)).collect();
                    tags.sort();
                    found.push(Reply::bulk(id));
                    found.push(Reply::Bulk(tags.join(&b' ')));
                }
            });
        }
        Ok(Answer::Reply(page((next, found))))
    }
}

impl Act for Info {
    fn act(_: Info, call: &mut Call<'_>) -> Result<Answer, String> {
        let none = Space::default();
        let found = read(call)?;
        let memory = found.map_or(0, |space| space.memory());
        let space = found.unwrap_or(&none);
        let index = space.index();
        let of = |kind| index.counts(kind);
        let staged = |kind| index.staged(kind).unwrap_or_default().ids;
        let figures = [
            ("record-ids", of(Tagged::Record).ids),
            ("record-edges", of(Tagged::Record).edges),
            ("file-ids", of(Tagged::File).ids),
            ("file-edges", of(Tagged::File).edges),
            ("tag-ids", of(Tagged::Tag).ids),
            ("tag-edges", of(Tagged::Tag).edges),
            ("staged-record-ids", staged(Tagged::Record)),
            ("staged-file-ids", staged(Tagged::File)),
            ("staged-tag-ids", staged(Tagged::Tag)),
            ("tags", index.tag_count()),
            ("rules", space.rules().len() as u64),
            ("points", space.points().len() as u64),
            ("memory", memory as u64),
        ];
        Ok(Answer::Reply(Reply::named(
            figures.map(|(name, n)| (name, Reply::count(n))),
        )))
    }
}

/// Returns a page: the cursor and the results. A cursor uses all 64 bits, so it is sent as a
/// string.
fn page((next, found): (u64, Vec<Reply>)) -> Reply {
    Reply::Array(vec![Reply::bulk(next.to_string()), Reply::Array(found)])
}
