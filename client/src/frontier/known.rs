//! URLs that a frontier remembers. These calls need a packed frontier ([`Frontier::pack`]).

use std::time::Duration;

use redis::{Cmd, FromRedisValue, ParsingError, Value};
use serde::Serialize;

use super::listing::paged;
use super::{Frontier, Millis, Page, Uri, millis};
use crate::reply::{as_optional_text, as_text};
use crate::server::{Ask, Call};

/// Options of [`Frontier::discover`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Discovery {
    /// Fetches a URL again that was done or given up at least this long ago. The frontier stores
    /// times in steps of ten minutes, so a URL may count as new up to ten minutes early.
    pub fresh: Option<Duration>,
    /// Share of the execution in the fetches of a group, as for [`Frontier::add_uris`].
    pub weight: Option<u32>,
}

impl Discovery {
    fn write_to(&self, command: &mut Cmd) {
        if let Some(fresh) = self.fresh {
            command.arg("FRESH").arg(millis(fresh));
        }
        if let Some(weight) = self.weight {
            command.arg("WEIGHT").arg(weight);
        }
    }
}

fn write_url(url: &Uri<'_>, command: &mut Cmd) {
    command.arg(url.chg).arg(url.at).arg(url.depth).arg(url.uri);
}

/// A request to discover.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// Its URL.
    pub url: Uri<'a>,
    /// Identifies the request, 1 to 64 bytes.
    pub key: &'a [u8],
    /// Returned with the lease, up to 64 KiB.
    pub payload: &'a [u8],
}

debug_as_text! { Request<'_> { url: plain, key: text, payload: text } }

/// The outcome of the discovery of a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discovered {
    /// The URL was new and is queued. The value is the new number of URIs in its group.
    New(u64),
    /// The execution knows the URL.
    Known,
    /// The budget of the group is used up, or the execution is being dropped.
    Refused,
}

impl FromRedisValue for Discovered {
    fn from_redis_value(value: Value) -> Result<Discovered, ParsingError> {
        Ok(match FromRedisValue::from_redis_value(value)? {
            Some(0) => Discovered::Known,
            Some(count) => Discovered::New(count),
            None => Discovered::Refused,
        })
    }
}

/// A URL to mark as done or to schedule, see [`Frontier::settle`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Settled<'a> {
    /// Group in which the URL is queued, if it is not queued or leased already.
    pub chg: &'a [u8],
    /// The URL.
    pub uri: &'a [u8],
    /// Due time of the URL; `None` if it is done.
    pub at: Option<Millis>,
}

debug_as_text! { Settled<'_> { chg: text, uri: text, at: plain } }

impl Settled<'_> {
    fn write_to(&self, command: &mut Cmd) {
        command.arg(self.chg).arg(self.uri);
        match self.at {
            Some(at) => command.arg(at),
            None => command.arg("NEVER"),
        };
    }
}

/// The state of a known URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// The URL is queued.
    Queued,
    /// A worker holds a lease of the URL. A lease that has expired counts until a command ends it.
    Leased,
    /// The URL was fetched.
    Done,
    /// Too many leases of the URL have expired.
    GivenUp,
}

impl FromRedisValue for State {
    fn from_redis_value(value: Value) -> Result<State, ParsingError> {
        let name: String = FromRedisValue::from_redis_value(value)?;
        Ok(match &name[..] {
            "queued" => State::Queued,
            "leased" => State::Leased,
            "done" => State::Done,
            "given-up" => State::GivenUp,
            _ => return Err(format!("invalid state '{name}' of a URL").into()),
        })
    }
}

/// The record of a known URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Known {
    /// State of the URL.
    pub state: State,
    /// Due time of a queued or leased URL.
    pub due: Option<Millis>,
    /// Status of the last fetch, if the worker reported it.
    pub status: Option<u16>,
    /// Number of expired leases; 15 means 15 or more.
    pub attempts: u32,
    /// Time of the last change of the state, rounded down to ten minutes.
    pub changed: Millis,
}

impl FromRedisValue for Known {
    fn from_redis_value(value: Value) -> Result<Known, ParsingError> {
        let (state, due, status, attempts, changed): (_, i64, i64, _, _) =
            FromRedisValue::from_redis_value(value)?;
        Ok(Known {
            state,
            due: due.try_into().ok(),
            status: status.try_into().ok(),
            attempts,
            changed,
        })
    }
}

map_reply! {
    /// The number of URLs that an execution knows, in each state (`CHG.COUNT`).
    Counts {
        /// Number of queued URLs.
        queued: u64,
        /// Number of leased URLs.
        leased: u64,
        /// Number of fetched URLs.
        done: u64,
        /// Number of URLs that were given up.
        given_up: u64,
        /// Number of all URLs.
        known: u64,
    }
}

/// Selects URLs for [`Frontier::forget_all`]. Without any condition, all URLs of the execution that
/// are done or given up are selected.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Selection<'a> {
    /// Only URLs of this group.
    pub group: Option<&'a [u8]>,
    /// Only URLs whose state changed before this time.
    pub before: Option<Millis>,
    /// Only URLs in this state: [`State::Done`] or [`State::GivenUp`].
    pub state: Option<State>,
}

debug_as_text! { Selection<'_> { group: optional, before: plain, state: plain } }

/// Options of the space in which an execution remembers its URLs, see [`Frontier::space`].
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Space<'a> {
    /// Uses fingerprints of 128 bits instead of 96, so that no URL is mistaken for another one.
    pub wide: bool,
    /// Keeps done and given-up URLs in full, not only as fingerprints, for [`Frontier::urls`].
    pub text: bool,
    /// Name of a space that several executions share.
    pub share: Option<&'a [u8]>,
}

debug_as_text! { Space<'_> { wide: plain, text: plain, share: optional } }

/// A URL of an execution, see [`Frontier::urls`].
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct ListedUrl {
    /// Host group (CHG).
    #[serde(serialize_with = "as_text")]
    pub chg: Vec<u8>,
    /// The URL.
    #[serde(serialize_with = "as_text")]
    pub uri: Vec<u8>,
    /// The key that identifies the URL.
    #[serde(serialize_with = "as_optional_text")]
    pub key: Option<Vec<u8>>,
    /// Number of links between a seed and the URL, if it is queued or leased.
    pub depth: Option<u32>,
    /// State of the URL.
    pub state: State,
    /// Due time of a queued or leased URL.
    pub due: Option<Millis>,
    /// Status of the last fetch, if the worker reported it.
    pub status: Option<u16>,
    /// Number of expired leases; for a done URL, 15 means 15 or more.
    pub attempts: u32,
    /// Time of the last change of its state, rounded down to ten minutes, if the execution remembers its URLs.
    pub changed: Option<Millis>,
}

debug_as_text! {
    ListedUrl {
        chg: text, uri: text, key: optional, depth: plain, state: plain, due: plain, status: plain, attempts: plain,
        changed: plain
    }
}

impl FromRedisValue for ListedUrl {
    fn from_redis_value(value: Value) -> Result<ListedUrl, ParsingError> {
        type Entry = (
            Vec<u8>,
            Vec<u8>,
            Option<Vec<u8>>,
            i64,
            State,
            i64,
            i64,
            u32,
            i64,
        );
        let (chg, uri, key, depth, state, due, status, attempts, changed): Entry =
            FromRedisValue::from_redis_value(value)?;
        Ok(ListedUrl {
            chg,
            uri,
            key,
            depth: depth.try_into().ok(),
            state,
            due: due.try_into().ok(),
            status: status.try_into().ok(),
            attempts,
            changed: changed.try_into().ok(),
        })
    }
}

impl<S: Ask> Frontier<S> {
    /// Queues the URLs that the execution does not know yet (`CHG.DISCOVER`). Returns the outcome for
    /// each URL. If the connection breaks and the client retries the call, a URL that the first
    /// attempt queued is reported as known.
    ///
    /// ```no_run
    /// # use crawlspace_client::frontier::*;
    /// # let frontier = Frontier::open("redis://127.0.0.1/", "")?;
    /// let link = Uri { chg: b"example.com", at: 0, depth: 1, uri: b"https://example.com/about" };
    /// let outcome = frontier.discover(b"crawl-1", &Discovery::default(), &[link])?;
    /// if outcome == [Discovered::Known] {
    ///     println!("seen before");
    /// }
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// `PLAIN` when the frontier is not packed, `KNOWN` when the execution has URIs that were queued
    /// before it remembered its URLs, or another server or connection error. After an error of the
    /// server, nothing is queued.
    pub fn discover(
        &self,
        execution: impl AsRef<[u8]>,
        options: &Discovery,
        uris: &[Uri<'_>],
    ) -> S::Answer<Vec<Discovered>> {
        if uris.is_empty() {
            return self.server.ask(Call::known(Vec::new()));
        }
        let mut discover = self.command("CHG.DISCOVER");
        discover.arg(execution.as_ref()).arg("URI");
        options.write_to(&mut discover);
        discover.arg("ITEMS").arg(uris.len());
        uris.iter().for_each(|uri| write_url(uri, &mut discover));
        self.repeat(discover)
    }

    /// Queues the requests that the execution does not know yet, each with a key that identifies it and
    /// a payload that is returned with its lease (`CHG.DISCOVER … KEYPAYLOAD`); otherwise as
    /// [`discover`](Frontier::discover).
    ///
    /// # Errors
    /// Returns the errors of [`discover`](Frontier::discover).
    pub fn discover_requests(
        &self,
        execution: impl AsRef<[u8]>,
        options: &Discovery,
        requests: &[Request<'_>],
    ) -> S::Answer<Vec<Discovered>> {
        if requests.is_empty() {
            return self.server.ask(Call::known(Vec::new()));
        }
        let mut discover = self.command("CHG.DISCOVER");
        discover.arg(execution.as_ref()).arg("KEYPAYLOAD");
        options.write_to(&mut discover);
        discover.arg("ITEMS").arg(requests.len());
        for Request { url, key, payload } in requests {
            write_url(url, &mut discover);
            discover.arg(*key).arg(*payload);
        }
        self.repeat(discover)
    }

    /// Queues the URLs that the execution does not know yet, each with a payload that is returned with its
    /// lease (`CHG.DISCOVER … PAYLOAD`); otherwise as [`discover`](Frontier::discover).
    ///
    /// # Errors
    /// Returns the errors of [`discover`](Frontier::discover).
    pub fn discover_payloads(
        &self,
        execution: impl AsRef<[u8]>,
        options: &Discovery,
        uris: &[(Uri<'_>, &[u8])],
    ) -> S::Answer<Vec<Discovered>> {
        if uris.is_empty() {
            return self.server.ask(Call::known(Vec::new()));
        }
        let mut discover = self.command("CHG.DISCOVER");
        discover.arg(execution.as_ref()).arg("PAYLOAD");
        options.write_to(&mut discover);
        discover.arg("ITEMS").arg(uris.len());
        for (uri, payload) in uris {
            write_url(uri, &mut discover);
            discover.arg(*payload);
        }
        self.repeat(discover)
    }

    /// Marks URLs as done or schedules them, without a lease (`CHG.SETTLE`). The frontier stores `status` with the
    /// URLs that are done. Returns, for each URL, whether something changed; `None` if the URL was refused because
    /// the budget of its group is used up or the execution is being dropped.
    ///
    /// ```no_run
    /// # use crawlspace_client::frontier::*;
    /// # let frontier = Frontier::open("redis://127.0.0.1/", "")?;
    /// let gone = Settled { chg: b"example.com", uri: b"https://example.com/old", at: None };
    /// frontier.settle(b"crawl-1", Some(410), &[gone])?;
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// `PLAIN` when the frontier is not packed, `KNOWN` when the execution has URIs that were queued
    /// before it remembered its URLs, or another server or connection error. After an error of the
    /// server, nothing has changed.
    pub fn settle(
        &self,
        execution: impl AsRef<[u8]>,
        status: Option<u16>,
        urls: &[Settled<'_>],
    ) -> S::Answer<Vec<Option<bool>>> {
        if urls.is_empty() {
            return self.server.ask(Call::known(Vec::new()));
        }
        let mut settle = self.settle_command(execution.as_ref(), status);
        settle.arg("ITEMS").arg(urls.len());
        urls.iter().for_each(|url| url.write_to(&mut settle));
        self.repeat(settle)
    }

    /// Marks URLs as done or schedules them, as [`settle`](Frontier::settle) does, and replaces the payload
    /// of each URL (`CHG.SETTLE … PAYLOAD`). An empty payload removes the old one. A URL that is done has no
    /// payload.
    ///
    /// # Errors
    /// Returns the errors of [`settle`](Frontier::settle).
    pub fn settle_payloads(
        &self,
        execution: impl AsRef<[u8]>,
        status: Option<u16>,
        urls: &[(Settled<'_>, &[u8])],
    ) -> S::Answer<Vec<Option<bool>>> {
        if urls.is_empty() {
            return self.server.ask(Call::known(Vec::new()));
        }
        let mut settle = self.settle_command(execution.as_ref(), status);
        settle.arg("PAYLOAD").arg("ITEMS").arg(urls.len());
        for (url, payload) in urls {
            url.write_to(&mut settle);
            settle.arg(*payload);
        }
        self.repeat(settle)
    }

    fn settle_command(&self, execution: &[u8], status: Option<u16>) -> Cmd {
        let mut settle = self.command("CHG.SETTLE");
        settle.arg(execution);
        if let Some(status) = status {
            settle.arg("STATUS").arg(status);
        }
        settle
    }

    /// Returns what the execution knows about each URL; `None` for an unknown one (`CHG.KNOWN`).
    ///
    /// ```no_run
    /// # use crawlspace_client::frontier::*;
    /// # let frontier = Frontier::open("redis://127.0.0.1/", "")?;
    /// let known = frontier.known(b"crawl-1", &[b"https://example.com/"])?[0];
    /// println!("{:?}", known.map(|known| known.state));
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// `PLAIN` when the frontier is not packed, or another server or connection error.
    pub fn known(
        &self,
        execution: impl AsRef<[u8]>,
        uris: &[impl AsRef<[u8]>],
    ) -> S::Answer<Vec<Option<Known>>> {
        if uris.is_empty() {
            return self.server.ask(Call::known(Vec::new()));
        }
        let mut known = self.command("CHG.KNOWN");
        known.arg(execution.as_ref());
        for uri in uris {
            known.arg(uri.as_ref());
        }
        self.repeat(known)
    }

    /// Returns a page of up to `count` URLs of an execution: the URLs in `state` or, without a state,
    /// the queued and leased URLs (`CHG.URIS … EXECUTION`). Lists URLs that are done or given up only
    /// if the execution keeps them in full ([`Space::text`]). Paging works as in [`Frontier::list`].
    ///
    /// ```no_run
    /// # use crawlspace_client::frontier::*;
    /// # let frontier = Frontier::open("redis://127.0.0.1/", "")?;
    /// for done in frontier.urls(b"crawl-1", Some(State::Done), None, 100)?.entries {
    ///     println!("{}", String::from_utf8_lossy(&done.uri));
    /// }
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// `PLAIN` when the frontier is not packed, `KNOWN` when the URLs are not kept in full, or another
    /// server or connection error.
    pub fn urls(
        &self,
        execution: impl AsRef<[u8]>,
        state: Option<State>,
        cursor: Option<&[u8]>,
        count: u32,
    ) -> S::Answer<Page<ListedUrl>> {
        let mut uris = self.command("CHG.URIS");
        uris.arg("EXECUTION").arg(execution.as_ref());
        if let Some(state) = state {
            uris.arg("STATE").arg(match state {
                State::Queued => "QUEUED",
                State::Leased => "LEASED",
                State::Done => "DONE",
                State::GivenUp => "GIVENUP",
            });
        }
        self.repeat(paged(uris, cursor, count))
    }

    /// Counts the URLs that the execution knows, in all groups or in one group (`CHG.COUNT`). With a
    /// group, the server scans all URLs of the execution.
    ///
    /// ```no_run
    /// # use crawlspace_client::frontier::*;
    /// # let frontier = Frontier::open("redis://127.0.0.1/", "")?;
    /// println!("{} URLs are done", frontier.count(b"crawl-1", None)?.done);
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// `PLAIN` when the frontier is not packed, or another server or connection error.
    pub fn count(&self, execution: impl AsRef<[u8]>, group: Option<&[u8]>) -> S::Answer<Counts> {
        let mut count = self.command("CHG.COUNT");
        count.arg(execution.as_ref());
        if let Some(group) = group {
            count.arg("GROUP").arg(group);
        }
        self.server.ask(Call::new(count).repeatable().waits())
    }

    /// Forgets URLs, so that they are new when they are discovered again (`CHG.FORGET … URIS`).
    /// Queued URLs are removed from the queue; leased URLs are not forgotten. Returns the number of
    /// forgotten URLs; after a retry, the number covers only the second attempt.
    ///
    /// ```no_run
    /// # use crawlspace_client::frontier::*;
    /// # let frontier = Frontier::open("redis://127.0.0.1/", "")?;
    /// let forgotten = frontier.forget(b"crawl-1", &[b"https://example.com/"])?;
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// `PLAIN` when the frontier is not packed, or another server or connection error.
    pub fn forget(&self, execution: impl AsRef<[u8]>, uris: &[impl AsRef<[u8]>]) -> S::Answer<u64> {
        if uris.is_empty() {
            return self.server.ask(Call::known(0));
        }
        let mut forget = self.command("CHG.FORGET");
        forget.arg(execution.as_ref()).arg("URIS").arg(uris.len());
        for uri in uris {
            forget.arg(uri.as_ref());
        }
        self.repeat(forget)
    }

    /// Forgets all URLs of the execution that are selected (`CHG.FORGET`). Without a condition, also removes
    /// the space of the execution once it has no known URL. Returns the number of forgotten URLs; after a
    /// retry, the number covers only the second attempt.
    ///
    /// ```no_run
    /// # use crawlspace_client::frontier::*;
    /// # let frontier = Frontier::open("redis://127.0.0.1/", "")?;
    /// let given_up = Selection { state: Some(State::GivenUp), ..Selection::default() };
    /// let forgotten = frontier.forget_all(b"crawl-1", &given_up)?;
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// `PLAIN` when the frontier is not packed, or another server or connection error.
    pub fn forget_all(
        &self,
        execution: impl AsRef<[u8]>,
        selection: &Selection<'_>,
    ) -> S::Answer<u64> {
        let mut forget = self.command("CHG.FORGET");
        forget.arg(execution.as_ref());
        if let Some(group) = selection.group {
            forget.arg("GROUP").arg(group);
        }
        if let Some(before) = selection.before {
            forget.arg("BEFORE").arg(before);
        }
        if let Some(state) = selection.state {
            let name = match state {
                State::Queued => "QUEUED",
                State::Leased => "LEASED",
                State::Done => "DONE",
                State::GivenUp => "GIVENUP",
            };
            forget.arg("STATE").arg(name);
        }
        self.server.ask(Call::new(forget).repeatable().waits())
    }

    /// Creates the space of an execution (`CHG.SPACE`). Without this call, the first discovery creates a
    /// space with the default options.
    ///
    /// ```no_run
    /// # use crawlspace_client::frontier::*;
    /// # let frontier = Frontier::open("redis://127.0.0.1/", "")?;
    /// let weekly = Space { share: Some(b"weekly"), ..Space::default() };
    /// frontier.space(b"crawl-2", &weekly)?;
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// `PLAIN` when the frontier is not packed, `KNOWN` when the execution has a space with other options, or
    /// URIs that were queued before it remembered its URLs; or another server or connection error.
    pub fn space(&self, execution: impl AsRef<[u8]>, options: &Space<'_>) -> S::Answer<()> {
        let mut space = self.command("CHG.SPACE");
        space.arg(execution.as_ref()).arg("BITS");
        space.arg(if options.wide { 128 } else { 96 });
        if options.text {
            space.arg("TEXT").arg("YES");
        }
        if let Some(share) = options.share {
            space.arg("SHARE").arg(share);
        }
        self.repeat(space)
    }
}
