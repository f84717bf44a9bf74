//! What is in a space: `TAGS.LIST`, `TAGS.SCAN`, `TAGS.INFO`.

use super::arguments::{KIND, kind};
use super::settings::tags_batch_ms;
use super::store::read;
use crate::tags::error::Error;
use crate::tags::expression::Bounds;
use crate::tags::index::Tagged;
use crate::tags::list::{Wanted, list};
use crate::tags::space::Space;
use crate::tags::view::Asked;
use crawlspace_cdx::Dialect;
use crawlspace_host::reply::Reply;
use crawlspace_host::server::args::Args;
use crawlspace_host::server::command::{Answer, Arg, Call, Command, Spec};
use crawlspace_host::server::worker::{Terms, in_one_turn, submit};
use crawlspace_host::text::Shown;

/// How many entries a call gives unless it says.
const COUNT: u64 = 1000;
/// How many it may ask for.
const MAX_COUNT: u64 = 100_000;

/// How many questions about tags are answered on the main thread, some milliseconds.
const FEW_QUESTIONS: usize = 500_000;

/// How many are answered on another thread, some seconds.
const MAX_QUESTIONS: usize = 1 << 30;

const PREFIX: Arg = Arg::text("prefix").after("PREFIX").optional();
const COUNT_ARG: Arg = Arg::integer("count").after("COUNT").optional();

/// Tags that satisfy an expression.
pub struct List;

impl Command for List {
    const SPEC: Spec = Spec {
        name: "tags.list",
        flags: "readonly",
        arity: -3,
        summary: "Gives the tags of which a capture that has one of them alone passes an expression.",
        complexity: "O(N) where N is COUNT",
        args: &[
            Arg::key(),
            Arg::text("expression"),
            PREFIX,
            Arg::integer("cursor").after("CURSOR").optional(),
            COUNT_ARG,
        ],
    };

    fn run(call: &mut Call<'_>) -> Result<Answer, String> {
        let expression = call.args.next("expression")?;
        let options = Options::read(&mut call.args, true)?;
        let view = read(call)?.map(|space| space.view()).unwrap_or_default();
        let asked = Asked {
            point: None,
            expression: Some(expression.to_vec()),
            filters: Vec::new(),
            dialect: Dialect::Outback,
        };
        let wanted = Wanted {
            prefix: options.prefix,
            cursor: options.cursor,
            count: options.count as usize,
        };
        let long = asked.bytes() > Bounds::NARROW.parts || view.points.have_heavy();
        if !long {
            match list(&view, &asked, Bounds::NARROW, FEW_QUESTIONS, &wanted) {
                Err(Error::TooBig(_)) => {}
                Ok(listed) => return Ok(Answer::Reply(page(listed))),
                Err(error) => return Err(error.to_string()),
            }
        }
        let (prefix, cursor, count) = (options.prefix.to_vec(), wanted.cursor, wanted.count);
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

/// Ids with their tags.
pub struct Scan;

impl Command for Scan {
    const SPEC: Spec = Spec {
        name: "tags.scan",
        flags: "readonly",
        arity: -4,
        summary: "Walks through the records, files or tags that have tags.",
        complexity: "O(N) where N is COUNT",
        args: &[Arg::key(), KIND, Arg::integer("cursor"), PREFIX, COUNT_ARG],
    };

    fn run(call: &mut Call<'_>) -> Result<Answer, String> {
        let kind = kind(&mut call.args)?;
        let cursor = cursor(&mut call.args)?;
        let options = Options::read(&mut call.args, false)?;
        let mut found = Vec::new();
        let mut next = 0;
        if let Some(space) = read(call)? {
            let index = space.index();
            next = index.scan(kind, cursor, options.count as usize, &mut |id, tags| {
                if id.starts_with(options.prefix) {
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

/// Figures of a space.
pub struct Info;

impl Command for Info {
    const SPEC: Spec = Spec {
        name: "tags.info",
        flags: "readonly fast",
        arity: 2,
        summary: "Tells how much there is in a tag space.",
        complexity: "O(1)",
        args: &[Arg::key()],
    };

    fn run(call: &mut Call<'_>) -> Result<Answer, String> {
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

/// A cursor with what was found. Cursors use all 64 bits, so they go out as text.
fn page((next, found): (u64, Vec<Reply>)) -> Reply {
    Reply::Array(vec![Reply::bulk(next.to_string()), Reply::Array(found)])
}

/// Reads a cursor, which an earlier call has given.
fn cursor(args: &mut Args<'_>) -> Result<u64, String> {
    let text = args.next("cursor")?;
    let number = std::str::from_utf8(text)
        .ok()
        .filter(|text| text.bytes().all(|b| b.is_ascii_digit()))
        .and_then(|text| text.parse().ok());
    number.ok_or_else(|| {
        format!(
            "ERR invalid cursor '{}': 0, or what the last call gave, is expected (argument {})",
            Shown(text),
            args.position()
        )
    })
}

struct Options<'a> {
    prefix: &'a [u8],
    cursor: u64,
    count: u64,
}

impl<'a> Options<'a> {
    fn read(args: &mut Args<'a>, with_cursor: bool) -> Result<Options<'a>, String> {
        let mut options = Options {
            prefix: b"",
            cursor: 0,
            count: COUNT,
        };
        while args.left() > 0 {
            if args.keyword("PREFIX") {
                options.prefix = args.next("prefix")?;
            } else if args.keyword("COUNT") {
                options.count = args.unsigned("count", 1, MAX_COUNT)?;
            } else if with_cursor && args.keyword("CURSOR") {
                options.cursor = cursor(args)?;
            } else {
                args.end()?;
            }
        }
        Ok(options)
    }
}
