//! What operators do, and what they look at.

use redis::{FromRedisValue, ParsingError, Value};
use serde::Serialize;

use super::listing::{ListedGroup, ListedUri, Page, Queue, paged};
use super::{Check, Frontier, Info, Why};
use crate::reply::{as_optional_text, as_text};
use crate::server::{Ask, Call};

/// A lease that ran out before it was released.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct Expired {
    /// The group.
    #[serde(serialize_with = "as_text")]
    pub chg: Vec<u8>,
    /// Whose URI was leased, if the frontier keeps URIs.
    #[serde(serialize_with = "as_optional_text")]
    pub execution: Option<Vec<u8>>,
    /// The URI that was leased, if the frontier keeps URIs.
    #[serde(serialize_with = "as_optional_text")]
    pub uri: Option<Vec<u8>>,
    /// How many times this has happened to it.
    pub times: u64,
}

debug_as_text! { Expired { chg: text, execution: optional, uri: optional, times: plain } }

impl FromRedisValue for Expired {
    fn from_redis_value(value: Value) -> Result<Expired, ParsingError> {
        let (chg, execution, uri, times) = FromRedisValue::from_redis_value(value)?;
        Ok(Expired {
            chg,
            execution,
            uri,
            times,
        })
    }
}

impl<S: Ask> Frontier<S> {
    /// `CHG.MOVE`: everything queued for `from` belongs to `to` now. Gives the number of URIs moved, and the
    /// number that `to` has now. It is not sent again after a connection that broke.
    ///
    /// ```no_run
    /// # use crawlspace_client::frontier::*;
    /// # let frontier = Frontier::open("redis://127.0.0.1/", "")?;
    /// let (moved, queued) = frontier.move_uris(b"www.example.com", b"example.com")?;
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// `LEASED` while somebody fetches from `from`, `NOCHG` when there is no such group; or when the server
    /// refuses or cannot be reached.
    pub fn move_uris(&self, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> S::Answer<(u64, u64)> {
        let (from, to) = (from.as_ref(), to.as_ref());
        let mut moving = self.command("CHG.MOVE");
        moving.arg(from).arg(to);
        self.server.ask(Call::new(moving).waits())
    }

    /// `CHG.DROP`: this crawl is aborted; its URIs go. Gives the number of groups that had any, and the
    /// number of URIs. After a connection that broke, what was left for the second time.
    ///
    /// ```no_run
    /// # use crawlspace_client::frontier::*;
    /// # let frontier = Frontier::open("redis://127.0.0.1/", "")?;
    /// let (groups, uris) = frontier.drop_execution(b"crawl-1")?;
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the server refuses or cannot be reached.
    pub fn drop_execution(&self, execution: impl AsRef<[u8]>) -> S::Answer<(u64, u64)> {
        let execution = execution.as_ref();
        let mut drop = self.command("CHG.DROP");
        drop.arg(execution);
        self.server.ask(Call::new(drop).repeatable().waits())
    }

    /// `CHG.DROP … GROUP`: the URIs of all crawls leave this group; its pause and its limits stay. Gives the number
    /// of executions that had any, and the number of URIs. After a connection that broke, what was left for the
    /// second time.
    ///
    /// ```no_run
    /// # use crawlspace_client::frontier::*;
    /// # let frontier = Frontier::open("redis://127.0.0.1/", "")?;
    /// let (executions, uris) = frontier.drop_group(b"example.com")?;
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the server refuses or cannot be reached.
    pub fn drop_group(&self, chg: impl AsRef<[u8]>) -> S::Answer<(u64, u64)> {
        let chg = chg.as_ref();
        let mut drop = self.command("CHG.DROP");
        drop.arg("GROUP").arg(chg);
        self.server.ask(Call::new(drop).repeatable().waits())
    }

    /// `CHG.SWEEP`: moves what is due to `chg_ready`, for plain clients that take groups from there: all, or so
    /// many groups. Gives the number of groups from `chg_wait` and from `chg_busy`.
    ///
    /// ```no_run
    /// # use crawlspace_client::frontier::*;
    /// # let frontier = Frontier::open("redis://127.0.0.1/", "")?;
    /// let (waited, ran_out) = frontier.sweep(Some(1000))?;
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the server refuses or cannot be reached.
    pub fn sweep(&self, limit: Option<u64>) -> S::Answer<(u64, u64)> {
        let mut sweep = self.command("CHG.SWEEP");
        if let Some(limit) = limit {
            sweep.arg("LIMIT").arg(limit);
        }
        self.server.ask(Call::new(sweep).repeatable().waits())
    }

    /// `CHG.EXPIRED`: up to `count` leases that ran out, oldest first. Each is reported once, and not again
    /// when the connection breaks on the way.
    ///
    /// ```no_run
    /// # use crawlspace_client::frontier::*;
    /// # let frontier = Frontier::open("redis://127.0.0.1/", "")?;
    /// for report in frontier.expired(100)? {
    ///     println!("{} ran out {} times", String::from_utf8_lossy(&report.chg), report.times);
    /// }
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the server refuses or cannot be reached.
    pub fn expired(&self, count: u32) -> S::Answer<Vec<Expired>> {
        let mut expired = self.command("CHG.EXPIRED");
        expired.arg("COUNT").arg(count);
        self.repeat(expired)
    }

    /// `CHG.WHY`: why is this group not being fetched from?
    ///
    /// ```no_run
    /// # use crawlspace_client::frontier::*;
    /// # let frontier = Frontier::open("redis://127.0.0.1/", "")?;
    /// println!("{}", frontier.why(b"example.com")?.why);
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// `NOCHG` when there is no such group; or when the server refuses or cannot be reached.
    pub fn why(&self, chg: impl AsRef<[u8]>) -> S::Answer<Why> {
        let chg = chg.as_ref();
        let mut why = self.command("CHG.WHY");
        why.arg(chg);
        self.repeat(why)
    }

    /// `CHG.LIST`: a page of up to `count` groups of one queue, or of all. The first page has
    /// no cursor; the next one has that of the page before, until that is `None`.
    ///
    /// ```no_run
    /// # use crawlspace_client::frontier::*;
    /// # let frontier = Frontier::open("redis://127.0.0.1/", "")?;
    /// let mut cursor = None;
    /// loop {
    ///     let page = frontier.list(Some(Queue::Waiting), cursor.as_deref(), 100)?;
    ///     for group in page.entries {
    ///         println!("{} has {} URIs", String::from_utf8_lossy(&group.chg), group.count);
    ///     }
    ///     cursor = page.next;
    ///     if cursor.is_none() {
    ///         break;
    ///     }
    /// }
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the server refuses or cannot be reached.
    pub fn list(
        &self,
        queue: Option<Queue>,
        cursor: Option<&[u8]>,
        count: u32,
    ) -> S::Answer<Page<ListedGroup>> {
        let mut list = self.command("CHG.LIST");
        if let Some(queue) = queue {
            list.arg("STATE").arg(queue.name());
        }
        self.repeat(paged(list, cursor, count))
    }

    /// `CHG.URIS`: a page of up to `count` URIs that are kept and queued for a group, in order. Pages follow
    /// each other as those of [`Frontier::list`] do.
    ///
    /// ```no_run
    /// # use crawlspace_client::frontier::*;
    /// # let frontier = Frontier::open("redis://127.0.0.1/", "")?;
    /// for queued in frontier.uris(b"example.com", None, 100)?.entries {
    ///     println!("{}", String::from_utf8_lossy(&queued.uri));
    /// }
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// `NOCHG` when there is no such group; or when the server refuses or cannot be reached.
    pub fn uris(
        &self,
        chg: impl AsRef<[u8]>,
        cursor: Option<&[u8]>,
        count: u32,
    ) -> S::Answer<Page<ListedUri>> {
        let chg = chg.as_ref();
        let mut uris = self.command("CHG.URIS");
        uris.arg(chg);
        self.repeat(paged(uris, cursor, count))
    }

    /// `CHG.INFO`: the figures of the frontier.
    ///
    /// ```no_run
    /// # use crawlspace_client::frontier::*;
    /// # let frontier = Frontier::open("redis://127.0.0.1/", "")?;
    /// let info = frontier.info()?;
    /// println!("{} URIs, {} hosts are due", info.uris, info.due);
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the server refuses or cannot be reached.
    pub fn info(&self) -> S::Answer<Info> {
        let info = self.command("CHG.INFO");
        self.repeat(info)
    }

    /// `CHG.CHECK`: do all counts agree, and is each group where it belongs?
    ///
    /// ```no_run
    /// # use crawlspace_client::frontier::*;
    /// # let frontier = Frontier::open("redis://127.0.0.1/", "")?;
    /// let check = frontier.check()?;
    /// assert!(check.consistent, "{:?}", check.problems);
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the server refuses or cannot be reached.
    pub fn check(&self) -> S::Answer<Check> {
        let check = self.command("CHG.CHECK");
        self.server.ask(Call::new(check).repeatable().waits())
    }

    /// `CHG.REPAIR`: makes it so. Gives what was found, and how much of it was mended.
    ///
    /// ```no_run
    /// # use crawlspace_client::frontier::*;
    /// # let frontier = Frontier::open("redis://127.0.0.1/", "")?;
    /// println!("{:?} things were mended", frontier.repair()?.mended);
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the server refuses or cannot be reached.
    pub fn repair(&self) -> S::Answer<Check> {
        let repair = self.command("CHG.REPAIR");
        self.server.ask(Call::new(repair).repeatable().waits())
    }
}
