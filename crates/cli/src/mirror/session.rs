//! A connection to PostgreSQL that runs the query and receives notifications of changes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use postgres::error::SqlState;
use postgres::fallible_iterator::FallibleIterator;
use postgres::{CancelToken, Client, IsolationLevel, Statement};

use super::Error;
use super::row::{Row, shown};
use super::schema::identifier;
use crawlspace_client::tags::Kind;

/// Time without a reply after which the connection is checked; a dead server is noticed after about a minute.
pub(super) const SILENCE: Duration = Duration::from_secs(30);
/// Limits the wait for the lock of a space.
const LOCK_TIMEOUT: &str = "SET lock_timeout = '1s'";

/// Number of rows passed on together.
const PAGE: usize = 1000;

/// Set of changed ids.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Changes {
    /// Any id may have changed.
    pub everything: bool,
    pub ids: BTreeSet<String>,
}

impl Changes {
    pub(crate) fn is_empty(&self) -> bool {
        !self.everything && self.ids.is_empty()
    }

    /// Parses the payload of a notification. Ids of captures and files may contain spaces, so for them only line breaks
    /// are separators.
    fn read(&mut self, kind: Kind, payload: &str) {
        let separates = |c: char| c == '\n' || (c == ' ' && kind == Kind::Tag);
        let ids = payload.split(separates).filter(|id| !id.is_empty());
        let mut none = true;
        for id in ids {
            none = false;
            self.ids.insert(id.to_owned());
        }
        self.everything |= none;
    }

    pub(crate) fn add(&mut self, other: &Changes) {
        self.everything |= other.everything;
        self.ids.extend(other.ids.iter().cloned());
    }
}

/// A connection to the database.
pub(super) struct Session {
    pub(super) client: Client,
    /// Statements for all rows, and for the rows of some ids.
    pub(super) all: Statement,
    pub(super) some: Statement,
    /// True if the query returns tags as an array.
    pub(super) array: bool,
    pub(super) channel: String,
    pub(super) kind: Kind,
}

impl Session {
    /// Locks this name for the duration of the session, or returns the holder of the lock. Waits a
    /// moment for the lock, because the server releases the lock of an ended process only when it
    /// notices that end.
    pub(crate) fn lock(&mut self, name: &str) -> Result<Result<(), String>, Error> {
        let failed = |cause| Error::postgres("the lock of the space")(cause);
        let set = |client: &mut Client, setting| client.batch_execute(setting).map_err(failed);
        set(&mut self.client, LOCK_TIMEOUT)?;
        let take = "SELECT pg_advisory_lock(hashtextextended($1, 0))";
        let taken = self.client.execute(take, &[&name]);
        set(&mut self.client, "RESET lock_timeout")?;
        match taken {
            Ok(_) => return Ok(Ok(())),
            Err(cause) if cause.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => {}
            Err(cause) => return Err(failed(cause)),
        }
        let holder = "SELECT pid FROM pg_locks
            WHERE locktype = 'advisory' AND granted AND objsubid = 1
            AND (classid::bigint << 32 | objid::bigint) = hashtextextended($1, 0)
            AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
        let holder = self.client.query_opt(holder, &[&name]).map_err(failed)?;
        Ok(Err(match holder {
            Some(row) => format!("process {} of PostgreSQL", row.get::<_, i32>(0)),
            None => "a process of PostgreSQL that has just ended".to_owned(),
        }))
    }

    /// Starts to receive notifications.
    pub(crate) fn listen(&mut self) -> Result<(), Error> {
        let listen = format!("LISTEN {}", identifier(&self.channel));
        let listening = self.client.batch_execute(&listen);
        listening.map_err(Error::postgres("LISTEN"))
    }

    /// Returns changes already announced; if there are none, those that arrive within `timeout`.
    pub(crate) fn changes(&mut self, timeout: Duration) -> Result<Changes, Error> {
        let changes = self.hear(timeout);
        let changes = changes.map_err(Error::postgres("waiting for changes"))?;
        if changes.is_empty() && self.client.is_closed() {
            self.prove_alive()?;
        }
        Ok(changes)
    }

    fn hear(&mut self, timeout: Duration) -> Result<Changes, postgres::Error> {
        let mut changes = Changes::default();
        let mut notifications = self.client.notifications();
        // With a timeout of zero the socket would not be read.
        let timeout = timeout.max(Duration::from_millis(1));
        let mut next = notifications.timeout_iter(timeout).next()?;
        while let Some(notification) = next {
            if notification.channel() == self.channel {
                changes.read(self.kind, notification.payload());
            }
            next = notifications.iter().next()?;
        }
        Ok(changes)
    }

    /// Makes one round trip to the server. Changes of one transaction are announced together, so if one change of a
    /// transaction was received before this call, all of its changes have been received after it.
    pub(crate) fn prove_alive(&mut self) -> Result<(), Error> {
        let alive = self.client.is_valid(SILENCE);
        alive.map_err(Error::postgres("PostgreSQL"))
    }

    /// Queries the current rows of these ids; an id without row gets no tags. For invalid rows, error messages are
    /// returned instead.
    pub(crate) fn ask(&mut self, ids: &BTreeSet<String>) -> Result<(Vec<Row>, Vec<String>), Error> {
        let list: Vec<&str> = ids.iter().map(String::as_str).collect();
        let asked = self.client.query(&self.some, &[&list]);
        let asked = asked.map_err(Error::postgres("the query of changed ids"))?;
        let mut rows: BTreeMap<&str, Result<Row, String>> = ids
            .iter()
            .map(|id| (&id[..], Row::of_text(self.kind, id.as_bytes(), b"")))
            .collect();
        for row in &asked {
            let id: &str = row
                .try_get(0)
                .map_err(Error::postgres("the query of changed ids"))?;
            let read = read(self.kind, self.array, row);
            let Some(known) = rows.get_mut(id) else {
                continue;
            };
            match (known, read) {
                (Ok(known), Ok(read)) => known.unite(read),
                (known @ Ok(_), Err(reason)) => *known = Err(reason),
                (Err(_), _) => {}
            }
        }
        let mut bad = Vec::new();
        let mut good = Vec::new();
        for row in rows.into_values() {
            match row {
                Ok(row) => good.push(row),
                Err(reason) => bad.push(reason),
            }
        }
        Ok((good, bad))
    }

    /// Returns a token that cancels the running query from another thread.
    pub(crate) fn canceller(&self) -> CancelToken {
        self.client.cancel_token()
    }

    /// Reads all ids from one snapshot, each once, in pages. The rows are streamed, not read into memory. `take`
    /// returns false to stop.
    pub(crate) fn each_page(
        &mut self,
        mut take: impl FnMut(Vec<Row>) -> bool,
    ) -> Result<(), Error> {
        let failed = |cause| Error::postgres("the query")(cause);
        let mut snapshot = self
            .client
            .build_transaction()
            .isolation_level(IsolationLevel::RepeatableRead)
            .read_only(true)
            .start()
            .map_err(failed)?;
        let none: [&str; 0] = [];
        let mut rows = snapshot.query_raw(&self.all, none).map_err(failed)?;
        let mut page: Vec<Row> = Vec::new();
        let mut number = 0u64;
        while let Some(row) = rows.next().map_err(failed)? {
            number += 1;
            let row = read(self.kind, self.array, &row)
                .map_err(|reason| Error::Row(format!("row {number} of the query: {reason}")))?;
            match page.last_mut() {
                Some(last) if last.id == row.id => last.unite(row),
                // An id is complete only when a different id follows.
                _ => {
                    if page.len() == PAGE && !take(std::mem::take(&mut page)) {
                        return Ok(());
                    }
                    page.push(row);
                }
            }
        }
        drop(rows);
        if !page.is_empty() {
            take(page);
        }
        // A session that lost its connection has also lost the lock, and must not continue.
        snapshot.commit().map_err(failed)
    }
}

fn read(kind: Kind, array: bool, row: &postgres::Row) -> Result<Row, String> {
    let as_text = |cause: postgres::Error| cause.to_string();
    let id: Option<&str> = row.try_get(0).map_err(as_text)?;
    if array {
        let tags: Option<Vec<Option<&str>>> = row.try_get(1).map_err(as_text)?;
        let tags = tags.unwrap_or_default();
        let Some(id) = id else {
            let tags: Vec<&str> = tags.into_iter().flatten().collect();
            return Err(without_id(&tags.join(" ")));
        };
        // `CASE WHEN private THEN 'private' END` is NULL for a missing tag.
        let tags = tags.into_iter().flatten().map(str::as_bytes);
        Row::new(kind, id.as_bytes(), tags)
    } else {
        let tags: Option<&str> = row.try_get(1).map_err(as_text)?;
        let tags = tags.unwrap_or_default();
        let id = id.ok_or_else(|| without_id(tags))?;
        Row::of_text(kind, id.as_bytes(), tags.as_bytes())
    }
}

fn without_id(tags: &str) -> String {
    format!("the id is NULL (its tags: '{}')", shown(tags.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notification_names_ids_or_everything() {
        let read = |kind, payload| {
            let mut changes = Changes::default();
            changes.read(kind, payload);
            let ids: Vec<_> = changes.ids.into_iter().collect();
            (changes.everything, ids.join("|"))
        };
        assert_eq!(read(Kind::Tag, "b a\nc b "), (false, "a|b|c".to_owned()));
        assert_eq!(read(Kind::Record, "b a\nc"), (false, "b a|c".to_owned()));
        assert_eq!(read(Kind::Tag, ""), (true, String::new()));
        assert_eq!(read(Kind::Tag, " \n"), (true, String::new()));
    }
}
