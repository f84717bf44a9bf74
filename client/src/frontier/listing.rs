//! Listings of queued groups and URIs, page by page.

use redis::{Cmd, FromRedisValue, ParsingError, Value};
use serde::Serialize;

use super::Millis;
use crate::reply::{as_optional_text, as_text};

/// A page of a listing.
#[derive(Clone, PartialEq, Eq)]
pub struct Page<T> {
    /// Cursor of the next page; `None` after the last page.
    pub next: Option<Vec<u8>>,
    /// Entries of this page.
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

/// Adds the cursor and the page size to a command.
pub(super) fn paged(mut command: Cmd, cursor: Option<&[u8]>, count: u32) -> Cmd {
    if let Some(cursor) = cursor {
        command.arg("CURSOR").arg(cursor);
    }
    command.arg("COUNT").arg(count);
    command
}

/// The queue of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Queue {
    /// Groups that are waiting until they are due.
    Waiting,
    /// Groups that are due.
    Ready,
    /// Groups that workers are fetching from.
    Busy,
    /// Groups that were freed while a lease still holds URIs of them. A listing of all queues omits them.
    Freed,
}

impl Queue {
    /// Returns the name of the queue in the protocol.
    pub fn name(self) -> &'static str {
        match self {
            Queue::Waiting => "waiting",
            Queue::Ready => "ready",
            Queue::Busy => "busy",
            Queue::Freed => "freed",
        }
    }
}

impl FromRedisValue for Queue {
    fn from_redis_value(value: Value) -> Result<Queue, ParsingError> {
        let name: String = FromRedisValue::from_redis_value(value)?;
        let all = [Queue::Waiting, Queue::Ready, Queue::Busy, Queue::Freed];
        let named = all.into_iter().find(|queue| queue.name() == name);
        named.ok_or_else(|| format!("invalid group queue '{name}'").into())
    }
}

/// An entry of the list of queued groups.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct ListedGroup {
    /// Host group (CHG).
    #[serde(serialize_with = "as_text")]
    pub chg: Vec<u8>,
    /// The queue that contains the group.
    pub state: Queue,
    /// Due time of the group; for a busy group, the earliest deadline of its leases.
    pub due: Millis,
    /// Number of queued URIs.
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

/// A URI that is stored and queued.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct ListedUri {
    /// Crawl execution that queued the URI.
    #[serde(serialize_with = "as_text")]
    pub execution: Vec<u8>,
    /// Number of links between a seed and this URI.
    pub depth: u32,
    /// Due time of the URI.
    pub due: Millis,
    /// Number of failed attempts.
    pub attempts: u32,
    /// The URI.
    #[serde(serialize_with = "as_text")]
    pub uri: Vec<u8>,
    /// The key with which the URI was discovered, if there is one.
    #[serde(
        serialize_with = "as_optional_text",
        skip_serializing_if = "Option::is_none"
    )]
    pub key: Option<Vec<u8>>,
}

debug_as_text! {
    ListedUri { execution: text, depth: plain, due: plain, attempts: plain, uri: text, key: optional }
}

impl FromRedisValue for ListedUri {
    fn from_redis_value(value: Value) -> Result<ListedUri, ParsingError> {
        let mut value = value;
        // Only a URI with a key has a sixth element.
        if let Value::Array(parts) = &mut value {
            parts.resize(6, Value::Nil);
        }
        let (execution, depth, due, attempts, uri, key) = FromRedisValue::from_redis_value(value)?;
        Ok(ListedUri {
            execution,
            depth,
            due,
            attempts,
            uri,
            key,
        })
    }
}
