//! Commands for operators: move, drop, list, check and repair.

use redis::{FromRedisValue, ParsingError, Value};
use serde::Serialize;

use super::listing::{ListedGroup, ListedUri, Page, Queue, paged};
use super::{Check, ExecutionInfo, Frontier, Info, Why};
use crate::reply::{as_optional_text, as_text};
use crate::server::{Ask, Call};

/// A lease that expired before it was released.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct Expired {
    /// Host group (CHG).
    #[serde(serialize_with = "as_text")]
    pub chg: Vec<u8>,
    /// Execution of the leased URI, if the frontier stores URIs.
    #[serde(serialize_with = "as_optional_text")]
    pub execution: Option<Vec<u8>>,
    /// Leased URI, if the frontier stores URIs.
    #[serde(serialize_with = "as_optional_text")]
    pub uri: Option<Vec<u8>>,
    /// Number of expired leases of this URI. If the frontier only counts URIs, number of
    /// consecutive expired leases of the group.
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
    /// Moves all queued URIs of `from` to `to` (`CHG.MOVE`). Returns the number of moved URIs, and
    /// the number of URIs that `to` has now. The client does not retry the call if the connection
    /// breaks.
    ///
    /// ```no_run
    /// # use crawlspace_client::frontier::*;
    /// # let frontier = Frontier::open("redis://127.0.0.1/", "")?;
    /// let (moved, queued) = frontier.move_uris(b"www.example.com", b"example.com")?;
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// `LEASED` when `from` is leased by a worker, `NOCHG` when the group does not exist; or
    /// another server or connection error.
    pub fn move_uris(&self, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> S::Answer<(u64, u64)> {
        let (from, to) = (from.as_ref(), to.as_ref());
        let mut moving = self.command("CHG.MOVE");
        moving.arg(from).arg(to);
        self.server.ask(Call::new(moving).waits())
    }

    /// Drops all URIs of an aborted crawl (`CHG.DROP`). Returns the number of groups that had such
    /// URIs, and the number of URIs. After a retry, the numbers cover only the second attempt.
    ///
    /// ```no_run
    /// # use crawlspace_client::frontier::*;
    /// # let frontier = Frontier::open("redis://127.0.0.1/", "")?;
    /// let (groups, uris) = frontier.drop_execution(b"crawl-1")?;
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fails with the error of the server, or a connection error.
    pub fn drop_execution(&self, execution: impl AsRef<[u8]>) -> S::Answer<(u64, u64)> {
        let execution = execution.as_ref();
        let mut drop = self.command("CHG.DROP");
        drop.arg(execution);
        self.server.ask(Call::new(drop).repeatable().waits())
    }

    /// Drops the URIs of all crawls from a group, and keeps its pause and limits
    /// (`CHG.DROP … GROUP`). Returns the number of executions that had URIs in the group, and the
    /// number of URIs. After a retry, the numbers cover only the second attempt.
    ///
    /// ```no_run
    /// # use crawlspace_client::frontier::*;
    /// # let frontier = Frontier::open("redis://127.0.0.1/", "")?;
    /// let (executions, uris) = frontier.drop_group(b"example.com")?;
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fails with the error of the server, or a connection error.
    pub fn drop_group(&self, chg: impl AsRef<[u8]>) -> S::Answer<(u64, u64)> {
        let chg = chg.as_ref();
        let mut drop = self.command("CHG.DROP");
        drop.arg("GROUP").arg(chg);
        self.server.ask(Call::new(drop).repeatable().waits())
    }

    /// Moves due groups to `chg_ready`, for plain clients that take groups from this list
    /// (`CHG.SWEEP`). Moves all due groups, or at most `limit`. Returns the numbers of groups moved
    /// from `chg_wait` and from `chg_busy`.
    ///
    /// ```no_run
    /// # use crawlspace_client::frontier::*;
    /// # let frontier = Frontier::open("redis://127.0.0.1/", "")?;
    /// let (waited, ran_out) = frontier.sweep(Some(1000))?;
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fails with the error of the server, or a connection error.
    pub fn sweep(&self, limit: Option<u64>) -> S::Answer<(u64, u64)> {
        let mut sweep = self.command("CHG.SWEEP");
        if let Some(limit) = limit {
            sweep.arg("LIMIT").arg(limit);
        }
        self.server.ask(Call::new(sweep).repeatable().waits())
    }

    /// Packs the frontier into one value, which takes a fraction of the memory, or creates an empty
    /// packed frontier (`CHG.PACK`). Returns the number of moved groups; 0 if the frontier is packed
    /// already. All calls return the same results as before, but plain clients can no longer read
    /// the keys. The server serves workers during the conversion.
    ///
    /// An interrupted conversion resumes where it stopped. If the connection breaks and the client
    /// retries the command, the retry waits for the running conversion. The reply then counts the
    /// groups of both attempts, unless the server was restarted.
    ///
    /// ```no_run
    /// # use crawlspace_client::frontier::*;
    /// # let frontier = Frontier::open("redis://127.0.0.1/", "")?;
    /// println!("{} groups moved", frontier.pack()?);
    /// assert_eq!(frontier.info()?.storage, Storage::Packed);
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// `WRONGTYPE` when a key of the frontier has another type (nothing is moved), or another server or
    /// connection error.
    pub fn pack(&self) -> S::Answer<u64> {
        let pack = self.command("CHG.PACK");
        self.server.ask(Call::new(pack).repeatable().waits())
    }

    /// Unpacks the frontier into the documented keys (`CHG.UNPACK`), which take several times as much
    /// memory. Returns the number of moved groups; 0 if the frontier is plain already. An interrupted
    /// conversion resumes as with [`pack`](Frontier::pack).
    ///
    /// ```no_run
    /// # use crawlspace_client::frontier::*;
    /// # let frontier = Frontier::open("redis://127.0.0.1/", "")?;
    /// println!("{} groups are in plain keys again", frontier.unpack()?);
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// `MIXED` when another program has written a key that `unpack` would write (nothing is moved).
    /// `OOM` when the server has reached `maxmemory`: free memory and call `unpack` again, or call
    /// `pack`. Otherwise, another server or connection error.
    pub fn unpack(&self) -> S::Answer<u64> {
        let unpack = self.command("CHG.UNPACK");
        self.server.ask(Call::new(unpack).repeatable().waits())
    }

    /// Returns up to `count` expired leases, oldest first (`CHG.EXPIRED`). Each expired lease is
    /// reported once, so the client does not repeat this command: if the connection breaks before the
    /// reply arrives, the call returns an error, and its reports are lost.
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
    /// Fails with the error of the server, or a connection error.
    pub fn expired(&self, count: u32) -> S::Answer<Vec<Expired>> {
        let mut expired = self.command("CHG.EXPIRED");
        expired.arg("COUNT").arg(count);
        self.once(expired)
    }

    /// Explains why no worker fetches from a group (`CHG.WHY`).
    ///
    /// ```no_run
    /// # use crawlspace_client::frontier::*;
    /// # let frontier = Frontier::open("redis://127.0.0.1/", "")?;
    /// println!("{}", frontier.why(b"example.com")?.why);
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// `NOCHG` when the group does not exist, or another server or connection error.
    pub fn why(&self, chg: impl AsRef<[u8]>) -> S::Answer<Why> {
        let chg = chg.as_ref();
        let mut why = self.command("CHG.WHY");
        why.arg(chg);
        self.repeat(why)
    }

    /// Returns a page of up to `count` groups of one queue, or of all queues (`CHG.LIST`). Pass no cursor for
    /// the first page, then the cursor of the previous page, until it is `None`.
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
    /// Fails with the error of the server, or a connection error.
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

    /// Returns a page of up to `count` stored and queued URIs of a group, in order (`CHG.URIS`).
    /// Paging works as in [`Frontier::list`].
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
    /// `NOCHG` when the group does not exist, or another server or connection error.
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

    /// Returns the statistics of the frontier (`CHG.INFO`).
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
    /// Fails with the error of the server, or a connection error.
    pub fn info(&self) -> S::Answer<Info> {
        let info = self.command("CHG.INFO");
        self.repeat(info)
    }

    /// Returns the statistics of an execution (`CHG.INFO … EXECUTION`).
    ///
    /// ```no_run
    /// # use crawlspace_client::frontier::*;
    /// # let frontier = Frontier::open("redis://127.0.0.1/", "")?;
    /// println!("{:?} URLs are done", frontier.info_of("crawl-1")?.done);
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fails with the error of the server, or a connection error.
    pub fn info_of(&self, execution: impl AsRef<[u8]>) -> S::Answer<ExecutionInfo> {
        let mut info = self.command("CHG.INFO");
        info.arg("EXECUTION").arg(execution.as_ref());
        self.repeat(info)
    }

    /// Checks that all counts are consistent and that each group is in the right queue
    /// (`CHG.CHECK`).
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
    /// Fails with the error of the server, or a connection error.
    pub fn check(&self) -> S::Answer<Check> {
        let check = self.command("CHG.CHECK");
        self.server.ask(Call::new(check).repeatable().waits())
    }

    /// Repairs an inconsistent frontier (`CHG.REPAIR`). Returns the errors that were found, and the number of
    /// repairs.
    ///
    /// ```no_run
    /// # use crawlspace_client::frontier::*;
    /// # let frontier = Frontier::open("redis://127.0.0.1/", "")?;
    /// println!("{:?} problems were repaired", frontier.repair()?.mended);
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fails with the error of the server, or a connection error.
    pub fn repair(&self) -> S::Answer<Check> {
        let repair = self.command("CHG.REPAIR");
        self.server.ask(Call::new(repair).repeatable().waits())
    }
}
