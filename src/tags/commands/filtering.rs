//! Captures that pass, and why: `TAGS.FILTER`, `TAGS.EXPLAIN`.

use crawlspace_cdx::{Collapse, Dialect, Format};

use super::metrics;
use super::settings::{tags_batch_ms, tags_inline_bytes};
use super::store::read;
use crate::tags::error::Error;
use crate::tags::explain::explain;
use crate::tags::expression::Bounds;
use crate::tags::filter::{Batch, Request, Returns};
use crate::tags::space::{Conditions, Lent};
use crate::tags::task::Task;
use crate::tags::view::{Asked, View};
use crawlspace_host::server::args::Args;
use crawlspace_host::server::blocked::can_block;
use crawlspace_host::server::command::{Answer, Arg, Call, Command, Spec};
use crawlspace_host::server::worker::{Terms, in_one_turn, submit};
use crawlspace_host::text::Shown;

/// Largest batch for a client that cannot wait, in bytes.
const AT_ONCE_BYTES: usize = 64 << 20;

/// How long a batch may take for a client that cannot wait, in milliseconds of a processor's time.
const AT_ONCE_MS: u64 = 2_000;

/// A batch of so much work or less is light: it does not wait for long lines of others.
const LIGHT: usize = 4 << 20;

/// Words of the commands. A filter that is one of them must come right after `FILTER`.
const WORDS: [&str; 12] = [
    "POINT", "WHERE", "FILTER", "DIALECT", "COLLAPSE", "SKIP", "LIMIT", "FORMAT", "BADLINES",
    "RETURN", "LINES", "BLOB",
];

const ASKED: [Arg; 10] = [
    Arg::text("point").after("POINT").optional(),
    Arg::text("expression").after("WHERE").optional(),
    Arg::text("spec").after("FILTER").optional().multiple(),
    Arg::one_of(
        "dialect",
        &[
            Arg::word("outback", "OUTBACK"),
            Arg::word("ia", "IA"),
            Arg::word("pywb", "PYWB"),
        ],
    )
    .after("DIALECT")
    .optional(),
    Arg::text("field[:n]").after("COLLAPSE").optional(),
    Arg::integer("skip").after("SKIP").optional(),
    Arg::integer("limit").after("LIMIT").optional(),
    Arg::one_of(
        "format",
        &[
            Arg::word("auto", "AUTO"),
            Arg::word("cdx", "CDX"),
            Arg::word("cdxj", "CDXJ"),
            Arg::word("file", "FILE"),
            Arg::word("record", "RECORD"),
        ],
    )
    .after("FORMAT")
    .optional(),
    Arg::one_of(
        "badlines",
        &[Arg::word("error", "ERROR"), Arg::word("drop", "DROP")],
    )
    .after("BADLINES")
    .optional(),
    Arg::one_of(
        "returns",
        &[
            Arg::word("lines", "LINES"),
            Arg::word("index", "INDEX"),
            Arg::word("bits", "BITS"),
            Arg::word("count", "COUNT"),
            Arg::word("tags", "TAGS"),
        ],
    )
    .after("RETURN")
    .optional(),
];

/// The captures of a batch that pass.
pub struct Filter;

impl Command for Filter {
    const SPEC: Spec = Spec {
        name: "tags.filter",
        flags: "readonly",
        arity: -4,
        summary: "Gives the captures of a batch that an access point, an expression and filters let pass.",
        complexity: "O(N) where N is the number of captures, and linear in their length",
        args: &[
            Arg::key(),
            ASKED[0],
            ASKED[1],
            ASKED[2],
            ASKED[3],
            ASKED[4],
            ASKED[5],
            ASKED[6],
            ASKED[7],
            ASKED[8],
            ASKED[9],
            Arg::one_of(
                "batch",
                &[
                    Arg::text("line").after("LINES").multiple(),
                    Arg::text("text").after("BLOB"),
                ],
            ),
        ],
    };

    fn run(call: &mut Call<'_>) -> Result<Answer, String> {
        let request = request(&mut call.args)?;
        let blob = is_blob(&mut call.args)?;
        let first = call.args.position() + 1;
        let lines = call.args.rest();
        let batch = if blob {
            Batch::Blob(lines[0])
        } else {
            Batch::Lines(lines)
        };
        let space = read(call)?;
        let (view, conditions, lent) = match space {
            Some(space) => (space.view(), space.conditions(), space.lend_cache()),
            None => (View::default(), Conditions::default(), Lent::default()),
        };
        metrics::BATCHES.add(1);
        let here = tags_inline_bytes();
        let mut condition = conditions.ready(&request);
        let is_slow = request.is_heavy()
            || request.asks_for_points() && view.points.have_heavy()
            || request.is_long() && condition.is_none();
        if !is_slow && condition.is_none() {
            match conditions.of(&request, &view, Bounds::NARROW) {
                Ok(ready) => condition = Some(ready),
                Err(Error::TooBig(_)) => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        let work = condition.as_ref().map_or(usize::MAX, |condition| {
            request.work(&view, condition, batch)
        });
        let lines_held = (0..lines.len()).map(|n| call.argument(first + n));
        let mut task = Task::new(request, view, conditions, lent, condition, batch);
        if !is_slow && work <= here {
            let outcome = task.at_once(batch).map(Answer::Reply);
            return outcome.map_err(|error| error.to_string());
        }
        let waits = can_block(call.ctx);
        if !waits && batch.bytes() > AT_ONCE_BYTES {
            return Err(Error::TooBig(format!(
                "a batch of {} bytes; in MULTI, scripts and where blocking is denied at most {AT_ONCE_BYTES} are filtered at once; split it, or send it by itself",
                batch.bytes()
            ))
            .to_string());
        }
        metrics::BATCHES_AWAY.add(u64::from(waits));
        let terms = Terms {
            light: work <= LIGHT,
            most_ms: if waits {
                tags_batch_ms()
            } else {
                tags_batch_ms().min(AT_ONCE_MS)
            },
        };
        let waiting = Waiting::new();
        submit(call.ctx, lines_held.collect(), terms, move |lines, turn| {
            let _ = &waiting;
            let batch = if blob {
                Batch::Blob(lines[0])
            } else {
                Batch::Lines(lines)
            };
            let outcome = task.go_on(batch, turn)?;
            Some(outcome.map_err(|error| error.to_string()))
        })
    }
}

/// A batch that waits for another thread, as a figure.
struct Waiting;

impl Waiting {
    fn new() -> Waiting {
        metrics::BATCHES_WAITING.more();
        Waiting
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        metrics::BATCHES_WAITING.less();
    }
}

/// Why a capture passes or not.
pub struct Explain;

impl Command for Explain {
    const SPEC: Spec = Spec {
        name: "tags.explain",
        flags: "readonly",
        arity: -4,
        summary: "Tells why a capture passes or not: each tag with its source, each clause with its verdict.",
        complexity: "O(N) where N is the size of the condition with all access points in it",
        args: &[
            Arg::key(),
            ASKED[0],
            ASKED[1],
            ASKED[2],
            ASKED[3],
            ASKED[4],
            ASKED[5],
            ASKED[6],
            ASKED[7],
            ASKED[8],
            ASKED[9],
            Arg::text("line").after("LINES"),
        ],
    };

    fn run(call: &mut Call<'_>) -> Result<Answer, String> {
        let request = request(&mut call.args)?;
        if is_blob(&mut call.args)? {
            return Err(format!(
                "ERR syntax error: one line is explained at a time; LINES and the line are missing (argument {})",
                call.args.position()
            ));
        }
        let line = call.args.next("line")?;
        call.args.end()?;
        let view = read(call)?.map(|space| space.view()).unwrap_or_default();
        let slow = request.is_heavy() || request.is_long() || view.points.have_heavy();
        if !slow {
            match explain(&request, &view, line, Bounds::NARROW, tags_inline_bytes()) {
                Err(Error::TooBig(_)) => {}
                Ok(reply) => return Ok(Answer::Reply(reply)),
                Err(error) => return Err(error.to_string()),
            }
        }
        let explained = in_one_turn(move |lines: &[&[u8]]| {
            let explained = explain(&request, &view, lines[0], Bounds::WIDE, usize::MAX);
            explained.map_err(|error| error.to_string())
        });
        let terms = Terms::heavy(tags_batch_ms());
        submit(call.ctx, vec![call.last_argument()], terms, explained)
    }
}

/// Reads everything up to the batch.
fn request(args: &mut Args<'_>) -> Result<Request, String> {
    let mut request = Request {
        asked: Asked {
            point: None,
            expression: None,
            filters: Vec::new(),
            dialect: Dialect::Outback,
        },
        collapse: None,
        skip: 0,
        limit: None,
        format: Format::Auto,
        drop_bad_lines: false,
        returns: Returns::Lines,
    };
    let mut seen: Vec<&str> = Vec::new();
    loop {
        let next = args.peek();
        let Some(word) = next.and_then(word) else {
            return Err(match next {
                None => format!(
                    "ERR syntax error: LINES or BLOB is missing (argument {})",
                    args.position() + 1
                ),
                Some(other) => format!(
                    "ERR syntax error: unexpected '{}'; LINES or BLOB comes before captures (argument {})",
                    Shown(other),
                    args.position() + 1
                ),
            });
        };
        if word == "LINES" || word == "BLOB" {
            return Ok(request);
        }
        args.next(word)?;
        if word != "FILTER" && seen.contains(&word) {
            return Err(format!(
                "ERR syntax error: {word} stands twice (argument {})",
                args.position()
            ));
        }
        seen.push(word);
        match word {
            "POINT" => request.asked.point = Some(args.next("point")?.to_vec()),
            "WHERE" => request.asked.expression = Some(args.next("expression")?.to_vec()),
            "FILTER" => {
                request.asked.filters.push(args.next("filter")?.to_vec());
                while args.peek().is_some_and(|next| self::word(next).is_none()) {
                    request.asked.filters.push(args.next("filter")?.to_vec());
                }
            }
            "DIALECT" => {
                request.asked.dialect = choice(args, Dialect::parse, "OUTBACK, IA or PYWB")?;
            }
            "COLLAPSE" => {
                let spec = args.next("collapse")?;
                let collapse = Collapse::parse(spec);
                request.collapse = Some(
                    collapse
                        .map_err(|error| Error::of_spec("COLLAPSE", spec, error).to_string())?,
                );
            }
            "SKIP" => request.skip = args.unsigned("skip", 0, i64::MAX as u64)?,
            "LIMIT" => request.limit = Some(args.unsigned("limit", 0, i64::MAX as u64)?),
            "FORMAT" => {
                request.format = choice(args, Format::parse, "AUTO, CDX, CDXJ, FILE or RECORD")?;
            }
            "BADLINES" => {
                request.drop_bad_lines = choice(args, bad_lines, "ERROR or DROP")?;
            }
            _ => {
                request.returns =
                    choice(args, Returns::parse, "LINES, INDEX, BITS, COUNT or TAGS")?;
            }
        }
    }
}

fn word(argument: &[u8]) -> Option<&'static str> {
    let is = |word: &&&str| argument.eq_ignore_ascii_case(word.as_bytes());
    WORDS.iter().find(is).copied()
}

fn bad_lines(word: &[u8]) -> Option<bool> {
    if word.eq_ignore_ascii_case(b"DROP") {
        Some(true)
    } else {
        word.eq_ignore_ascii_case(b"ERROR").then_some(false)
    }
}

fn choice<T>(
    args: &mut Args<'_>,
    parse: fn(&[u8]) -> Option<T>,
    choices: &str,
) -> Result<T, String> {
    let word = args.next(choices)?;
    parse(word).ok_or_else(|| {
        format!(
            "ERR invalid word '{}': {choices} is expected (argument {})",
            Shown(word),
            args.position()
        )
    })
}

/// Reads `LINES` or `BLOB`; something must follow, and after `BLOB` one thing.
fn is_blob(args: &mut Args<'_>) -> Result<bool, String> {
    let blob = !args.keyword("LINES") && args.keyword("BLOB");
    let what = if blob { "text" } else { "line" };
    match args.left() {
        0 => Err(format!(
            "ERR {what} is missing (argument {})",
            args.position() + 1
        )),
        2.. if blob => Err(format!(
            "ERR syntax error: one text follows BLOB, not {} (argument {})",
            args.left(),
            args.position() + 2
        )),
        _ => Ok(blob),
    }
}
