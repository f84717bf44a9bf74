//! Commands that test captures: `TAGS.FILTER`, `TAGS.EXPLAIN`.

use super::metrics;
use super::settings::{tags_batch_ms, tags_inline_bytes};
use super::store::read;
use crate::tags::error::Error;
use crate::tags::explain::explain;
use crate::tags::expression::Bounds;
use crate::tags::filter::Batch;
use crate::tags::grammar::{Explain, Filter};
use crate::tags::space::{Conditions, Lent};
use crate::tags::task::Task;
use crate::tags::view::View;
use crawlspace_host::server::blocked::can_block;
use crawlspace_host::server::command::{Act, Answer, Call};
use crawlspace_host::server::worker::{Terms, in_one_turn, submit};

/// Maximum size in bytes of a batch from a client that cannot be blocked.
const AT_ONCE_BYTES: usize = 64 << 20;

/// Maximum CPU time in milliseconds of a batch from a client that cannot be blocked.
const AT_ONCE_MS: u64 = 2_000;

/// Maximum work of a light batch, in bytes. Light batches do not wait for long batches of other
/// clients.
const LIGHT: usize = 4 << 20;

impl Act for Filter<'static> {
    fn act(asked: Filter<'_>, call: &mut Call<'_>) -> Result<Answer, String> {
        let Filter { request, batch } = asked;
        let (blob, n) = match batch {
            Batch::Blob(_) => (true, 1),
            Batch::Lines(lines) => (false, lines.len()),
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
        let lines_held = (1..=n).rev().map(|n| call.from_end(n));
        let mut task = Task::new(request, view, conditions, lent, condition, batch);
        if !is_slow && work <= here {
            let outcome = task.at_once(batch).map(Answer::Reply);
            return outcome.map_err(|error| error.to_string());
        }
        let waits = can_block(call.ctx);
        if !waits && batch.bytes() > AT_ONCE_BYTES {
            return Err(Error::TooBig(format!(
                "the batch has {} bytes, the maximum is {AT_ONCE_BYTES} in MULTI, in scripts and where the client cannot be blocked; split it, or send it outside of them",
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

/// Counts a batch in the metric of waiting batches until this value is dropped.
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

impl Act for Explain<'static> {
    fn act(asked: Explain<'_>, call: &mut Call<'_>) -> Result<Answer, String> {
        let Explain { request, line } = asked;
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
        submit(call.ctx, vec![call.from_end(1)], terms, explained)
    }
}
