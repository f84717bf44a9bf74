//! Pages of what is queued.

use redis::{Cmd, FromRedisValue, ParsingError, Value};
use serde::Serialize;

use super::Millis;
use crate::reply::as_text;

/// A part of a listing.
#[derive(Clone, PartialEq, Eq)]
pub struct Page<T> {
    /// What to ask for the next page with; `None` behind the last one.
    pub next: Option<Vec<u8>>,
    /// What is listed.
    pub entries: Vec<T>,
}

debug_as_text! { Page<T> where T { next: optional, entries: plain } }

impl<T: FromRedisValue> FromRedisValue for Page<T> {
    fn from_redis_value(value: Value) -> Result<Page<T>, ParsingError> {
        let (next, entries): (Vec<u8>, _) = FromRedisValue::from_redis_value(value)?;
        Ok(Page {
            next: Some(next).filter(|next| next != b"0"),
            entries,
        })
    }
}

/// The options of a page.
pub(super) fn paged(mut command: Cmd, cursor: Option<&[u8]>, count: u32) -> Cmd {
    if let Some(cursor) = cursor {
        command.arg("CURSOR").arg(cursor);
    }
    command.arg("COUNT").arg(count);
    command
}

/// The queue that a group stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Queue {
    /// The group waits until it is due.
    Waiting,
    /// The group is due.
    Ready,
    /// The group is being fetched from.
    Busy,
}

impl Queue {
    /// The queue's name on the wire.
    pub(super) fn name(self) -> &'static str {
        match self {
            Queue::Waiting => "waiting",
            Queue::Ready => "ready",
            Queue::Busy => "busy",
        }
    }
}

impl FromRedisValue for Queue {
    fn from_redis_value(value: Value) -> Result<Queue, ParsingError> {
        let name: String = FromRedisValue::from_redis_value(value)?;
        let all = [Queue::Waiting, Queue::Ready, Queue::Busy];
        let named = all.into_iter().find(|queue| queue.name() == name);
        named.ok_or_else(|| format!("invalid queue '{name}' of groups").into())
    }
}

/// A group that is queued.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct ListedGroup {
    /// The group.
    #[serde(serialize_with = "as_text")]
    pub chg: Vec<u8>,
    /// The queue that it stands in.
    pub state: Queue,
    /// When it is due; when it is busy, the first deadline of its leases.
    pub due: Millis,
    /// URIs queued.
    pub count: u64,
}

debug_as_text! { ListedGroup { chg: text, state: plain, due: plain, count: plain } }

impl FromRedisValue for ListedGroup {
    fn from_redis_value(value: Value) -> Result<ListedGroup, ParsingError> {
        let (chg, state, due, count) = FromRedisValue::from_redis_value(value)?;
        Ok(ListedGroup {
            chg,
            state,
            due,
            count,
        })
    }
}

/// A URI that is kept and queued.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct ListedUri {
    /// The crawl execution.
    #[serde(serialize_with = "as_text")]
    pub execution: Vec<u8>,
    /// How many links it is away from a seed.
    pub depth: u32,
    /// When it is due.
    pub due: Millis,
    /// How often it was tried in vain.
    pub attempts: u32,
    /// The URI.
    #[serde(serialize_with = "as_text")]
    pub uri: Vec<u8>,
}

debug_as_text! { ListedUri { execution: text, depth: plain, due: plain, attempts: plain, uri: text } }

impl FromRedisValue for ListedUri {
    fn from_redis_value(value: Value) -> Result<ListedUri, ParsingError> {
        let (execution, depth, due, attempts, uri) = FromRedisValue::from_redis_value(value)?;
        Ok(ListedUri {
            execution,
            depth,
            due,
            attempts,
            uri,
        })
    }
}
