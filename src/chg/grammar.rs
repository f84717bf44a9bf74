//! Grammar of the `CHG` commands: names, flags, descriptions and arguments.
//!
//! The grammar is one long file because its entries share options.

// Without the feature `module`, only tests read the parsed values.
#![cfg_attr(
    not(feature = "module"),
    allow(dead_code, unused_imports, unused_macros)
)]

use crawlspace_compact::limits::chg::{
    KEY_BYTES, MAX_COUNT, MAX_LEASED, MAX_PARALLEL, MAX_URLS, PAYLOAD_BYTES,
};
use crawlspace_host::grammar::{
    AnyOf, Before, Bytes, Choice, Counted, Flag, Form, Integer, Many, OneOf, Optional, Shape, block,
};
use crawlspace_host::text::{Shown, parse_signed};
use crawlspace_host::{command, grammar};
use smallvec::SmallVec;

use super::add::{Item, Kept, Queued, Sequence};
use super::discover::Selection;
use super::hold::{Limits, Target};
use super::keys::ID_BYTES;
use super::known::{MAX_STATUS, State};
use super::lease::{Fate, When};
use super::listing::{Cursor, Queue, UrlCursor};
use super::politeness::{Factor, Facts};
use super::settle::Settled;
use super::spans::{NOW, OrNone, Time, span};
use super::time::Millis;
use super::uris::{MAX_WEIGHT, Position, URI_BYTES};

pub use super::spans::Now;

const CHG: Bytes = Bytes::new("chg", ID_BYTES);
const EXECUTION: Bytes = Bytes::new("execution", ID_BYTES);
const URL: Bytes = Bytes::new("uri", URI_BYTES);
const TOKEN: Integer = Integer::from("token", 1);
const COUNT: Integer = Integer::new("count", 1, MAX_COUNT);
const LEASE: Integer = span("milliseconds", 1);
const KEY: Bytes = Bytes::new("key", KEY_BYTES);
const URIS: Integer = Integer::new("n", 1, MAX_LEASED);
const PAYLOAD: Bytes = Bytes::new("payload", PAYLOAD_BYTES).or_empty();
const PAUSE: Integer = span("gate-milliseconds", 0);
const BLOCK: Integer = span("block-milliseconds", 0);

type Groups<'a> = SmallVec<[&'a [u8]; 4]>;

/// Parses a cursor with `parse`. `None` is the beginning of a listing.
fn cursor<T>(text: &[u8], parse: impl FnOnce(&[u8]) -> Option<T>) -> Result<Option<T>, String> {
    if text == b"0" {
        return Ok(None);
    }
    parse(text).map(Some).ok_or_else(|| {
        format!(
            "ERR invalid CURSOR '{}': use 0, or the cursor that the previous page returned",
            Shown(text)
        )
    })
}

fn read_factor(text: &[u8]) -> Result<Factor, String> {
    Factor::parse(text).ok_or_else(|| {
        format!(
            "ERR invalid FACTOR '{}': a number from 0 to 1000 with at most three decimals is expected",
            Shown(text)
        )
    })
}

/// Parses a status: three digits, or a negative number if there was no response.
fn read_status(text: &[u8]) -> Result<i64, String> {
    let status = parse_signed(text).filter(|n| (-9999..=999).contains(n));
    status.ok_or_else(|| {
        format!(
            "ERR invalid STATUS '{}': an integer from -9999 to 999 is expected",
            Shown(text)
        )
    })
}

/// Parses a pause that a host requested. Out-of-range values are accepted here and clamped later,
/// because a release must not fail because of a value that a host sent.
fn read_wait(option: &str, text: &[u8]) -> Result<i64, String> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(format!(
            "ERR invalid {option} '{}': a whole number of milliseconds is expected",
            Shown(text)
        ));
    }
    let digit = |wait: i64, digit: &u8| {
        wait.saturating_mul(10)
            .saturating_add((digit - b'0').into())
    };
    let wait = digits.iter().fold(0, digit);
    Ok(if digits.len() < text.len() {
        -wait
    } else {
        wait
    })
}

grammar! {
    impl Sequence<'a> {
        writer = Bytes::new("writer", ID_BYTES),
        n = Integer::from("n", 1).called("sequence number"),
    }
}

grammar! {
    impl Queued<'a> {
        chg = CHG,
        at = Time::new("at"),
    }
}

command! {
    prefix "chg.add", "write deny-oom";
    /// Counts URIs that were queued for crawl host groups, and queues each group until it is due.
    ///
    /// O(N log M) where N is the number of URIs and M the number of waiting groups
    pub struct Add<'a> {
        now: Now = NOW,
        execution: &'a [u8] = EXECUTION,
        {
            sequence: Option<Sequence<'a>> = Before {
                shape: block("sequence").after("SEQ"),
                length: 3,
                words: 2,
                block: block::<Queued<'a>>("uri"),
            },
        }
        uris: SmallVec<[Queued<'a>; 4]> = Many(block("uri")),
    }
}

grammar! {
    impl Kept<'a> {
        chg = CHG,
        at = Time::new("at"),
        depth = Integer::new("depth", 0, u64::from(u32::MAX)).map(|depth| depth as u32),
        uri = Bytes::new("uri", URI_BYTES),
    }
}

command! {
    prefix "chg.adduri", "write deny-oom";
    /// Queues URIs for crawl host groups, and stores the URIs in the frontier.
    ///
    /// O(N log M) where N is the number of URIs and M the number of waiting groups and kept URIs
    pub struct AddUri<'a> {
        now: Now = NOW,
        execution: &'a [u8] = EXECUTION,
        {
            weight: Option<u64> = Before {
                shape: Integer::new("weight", 1, MAX_WEIGHT).after("WEIGHT"),
                length: 2,
                words: 4,
                block: block::<Kept<'a>>("uri"),
            },
        }
        uris: SmallVec<[Kept<'a>; 4]> = Many(block("uri")),
    }
}

command! {
    prefix "chg.space", "write deny-oom", since "0.2.0";
    /// Makes an execution remember its URLs, in a space of its own or in a shared one.
    ///
    /// O(1)
    pub struct Space<'a> {
        now: Now = NOW,
        execution: &'a [u8] = EXECUTION,
        {
            bits: Option<u64> = Choice("bits", &[("96", 96), ("128", 128)]).after("BITS"),
            text: Option<bool> = Choice("text", &[("YES", true), ("NO", false)]).after("TEXT"),
            share: Option<&'a [u8]> = Bytes::new("name", ID_BYTES).after("SHARE"),
        }
    }
}

grammar! {
    struct KeyItem<'a> {
        url: Kept<'a> = block("url"),
        key: &'a [u8] = KEY,
    }
}

grammar! {
    struct PayloadItem<'a> {
        url: Kept<'a> = block("url"),
        payload: &'a [u8] = PAYLOAD,
    }
}

grammar! {
    struct KeyPayloadItem<'a> {
        url: Kept<'a> = block("url"),
        key: &'a [u8] = KEY,
        payload: &'a [u8] = PAYLOAD,
    }
}

/// URLs to discover, and the options for discovering them.
pub struct Discovery<'a> {
    pub fresh: Option<Millis>,
    pub weight: Option<u64>,
    pub items: SmallVec<[Item<'a>; 4]>,
}

/// Declares a form of `CHG.DISCOVER`: its keyword, and the type of its items.
macro_rules! discovery {
    ($name:ident, $word:literal, $item:expr) => {
        grammar! {
            struct $name<'a> {
                form: () = Flag($word),
                {
                    fresh: Option<Millis> = span("milliseconds", 0).after("FRESH"),
                    weight: Option<u64> = Integer::new("weight", 1, MAX_WEIGHT).after("WEIGHT"),
                }
                items: SmallVec<[Item<'a>; 4]> = Counted {
                    name: "",
                    word: "ITEMS",
                    most: MAX_URLS,
                    shape: $item,
                },
            }
        }

        impl<'a> $name<'a> {
            fn discovery(self) -> Discovery<'a> {
                Discovery {
                    fresh: self.fresh,
                    weight: self.weight,
                    items: self.items,
                }
            }
        }
    };
}

discovery!(ByUri, "URI", block("item").map(Item::of));
discovery!(
    ByKey,
    "KEY",
    block("item").map(|item: KeyItem<'a>| Item {
        key: Some(item.key),
        ..Item::of(item.url)
    })
);
discovery!(
    WithPayload,
    "PAYLOAD",
    block("item").map(|item: PayloadItem<'a>| Item {
        payload: Some(item.payload),
        ..Item::of(item.url)
    })
);
discovery!(
    ByKeyWithPayload,
    "KEYPAYLOAD",
    block("item").map(|item: KeyPayloadItem<'a>| Item {
        url: item.url,
        key: Some(item.key),
        payload: Some(item.payload),
    })
);

command! {
    prefix "chg.discover", "write deny-oom", since "0.2.0";
    /// Queues URLs that the execution does not know yet.
    ///
    /// O(N log M) where N is the number of new URLs and M the number of waiting groups and kept URIs; O(1) for a known URL
    pub struct Discover<'a> {
        now: Now = NOW,
        execution: &'a [u8] = EXECUTION,
        what: Discovery<'a> = OneOf("form", (
            block("by-uri").map(ByUri::<'a>::discovery),
            block("by-key").map(ByKey::<'a>::discovery),
            block("with-payload").map(WithPayload::<'a>::discovery),
            block("by-key-with-payload").map(ByKeyWithPayload::<'a>::discovery),
        )),
    }
}

grammar! {
    struct SettleItem<'a> {
        chg: &'a [u8] = CHG,
        uri: &'a [u8] = URL,
        at: Option<Millis> = OneOf("at", (Flag("NEVER").map(|()| None), Time::new("time").map(Some))),
    }
}

grammar! {
    struct SettlePayloadItem<'a> {
        url: SettleItem<'a> = block("url"),
        payload: &'a [u8] = PAYLOAD,
    }
}

impl<'a> SettleItem<'a> {
    fn settled(self, payload: Option<&'a [u8]>) -> Settled<'a> {
        Settled {
            chg: self.chg,
            uri: self.uri,
            at: self.at,
            payload,
        }
    }
}

type Settlements<'a> = SmallVec<[Settled<'a>; 4]>;

grammar! {
    struct SettlePayloads<'a> {
        form: () = Flag("PAYLOAD"),
        urls: Settlements<'a> = Counted {
            name: "",
            word: "ITEMS",
            most: MAX_URLS,
            shape: block("item").map(|item: SettlePayloadItem<'a>| item.url.settled(Some(item.payload))),
        },
    }
}

command! {
    prefix "chg.settle", "write deny-oom", since "0.2.0";
    /// Ends or schedules URLs by name, with or without a lease.
    ///
    /// O(N log M) where N is the number of URLs and M the number of waiting groups and kept URIs
    pub struct Settle<'a> {
        now: Now = NOW,
        execution: &'a [u8] = EXECUTION,
        { status: Option<u16> = Integer::new("status", 0, u64::from(MAX_STATUS)).map(|status| status as u16).after("STATUS"), }
        urls: Settlements<'a> = OneOf("items", (
            Counted {
                name: "urls",
                word: "ITEMS",
                most: MAX_URLS,
                shape: block("item").map(|item: SettleItem<'a>| item.settled(None)),
            },
            block("with-payload").map(|urls: SettlePayloads<'a>| urls.urls),
        )),
    }
}

command! {
    prefix "chg.known", "readonly", since "0.2.0";
    /// Returns the states of URLs: queued, leased, done or given up.
    ///
    /// O(N) where N is the number of URLs
    pub struct Known<'a> {
        now: Now = NOW,
        execution: &'a [u8] = EXECUTION,
        urls: SmallVec<[&'a [u8]; 4]> = Many(URL),
    }
    where Known::check
}

impl Known<'_> {
    fn check(&self) -> Result<(), String> {
        match self.urls.len() as u64 {
            n if n > MAX_URLS => Err(format!(
                "ERR {n} URLs are too many for one call; send at most {MAX_URLS}"
            )),
            _ => Ok(()),
        }
    }
}

command! {
    prefix "chg.count", "readonly blocking", since "0.2.0";
    /// Returns how many URLs of an execution are queued, leased, done and given up.
    ///
    /// O(1); with GROUP O(N) where N is the number of known URLs of the space, in slices
    pub struct Count<'a> {
        now: Now = NOW,
        execution: &'a [u8] = EXECUTION,
        { group: Option<&'a [u8]> = CHG.after("GROUP"), }
    }
}

grammar! {
    impl Selection<'a> {
        {
            group = CHG.after("GROUP"),
            before = Time::new("time").after("BEFORE"),
            state = Choice("state", &[("DONE", State::Done), ("GIVENUP", State::GivenUp)]).after("STATE"),
        }
    }
}

/// The URLs that `CHG.FORGET` forgets.
pub enum Forgotten<'a> {
    /// These URLs.
    Urls(SmallVec<[&'a [u8]; 4]>),
    /// All selected URLs that are neither queued nor leased.
    Selected(Selection<'a>),
}

impl Default for Forgotten<'_> {
    fn default() -> Self {
        Forgotten::Selected(Selection::default())
    }
}

command! {
    prefix "chg.forget", "write blocking", since "0.2.0";
    /// Forgets URLs, so that CHG.DISCOVER adds them again.
    ///
    /// O(N) where N is the number of URLs given; without URIS, the number of known URLs of the space, in slices
    pub struct Forget<'a> {
        now: Now = NOW,
        execution: &'a [u8] = EXECUTION,
        what: Option<Forgotten<'a>> = Optional(OneOf("what", (
            Counted { name: "urls", word: "URIS", most: MAX_URLS, shape: URL }.map(Forgotten::Urls),
            block("selection").map(Forgotten::Selected),
        ))),
    }
}

command! {
    prefix "chg.next", "write blocking";
    /// Leases the groups that have been due for longest; with BLOCK, waits until a group is due.
    ///
    /// O(N log M) where N is the number of leases and M the number of waiting and busy groups
    pub struct Next<'a> {
        now: Now = NOW,
        {
            lease: Option<Millis> = LEASE.after("LEASE"),
            count: Option<u64> = COUNT.after("COUNT"),
            block: Option<Millis> = BLOCK.after("BLOCK"),
            group: Option<&'a [u8]> = CHG.after("GROUP"),
            uris: Option<u64> = URIS.after("URIS"),
            gate: Option<Millis> = PAUSE.after("GATE"),
            execution: Option<&'a [u8]> = EXECUTION.after("EXECUTION"),
        }
    }
    where Next::check
}

impl Next<'_> {
    fn check(&self) -> Result<(), String> {
        if self.group.is_some() && (self.count.is_some() || self.block.is_some()) {
            return Err("ERR syntax error: GROUP leases one group without waiting, so it cannot be combined with COUNT or BLOCK".to_owned());
        }
        check_block(self.now, self.block)
    }
}

fn check_block(now: Now, block: Option<Millis>) -> Result<(), String> {
    if now.simulated && block.is_some() {
        return Err(
            "ERR BLOCK waits by the server's clock, and cannot be combined with NOW".to_owned(),
        );
    }
    Ok(())
}

grammar! {
    /// The results of a fetch that a release reports.
    struct Given {
        elapsed: Millis = span("elapsed", 0).after("ELAPSED"),
        {
            factor: Option<Factor> = Form::text("factor", "1.5", read_factor).after("FACTOR"),
            min: Option<Millis> = span("min", 0).after("MIN"),
            max: Option<Millis> = span("max", 0).after("MAX"),
            crawl_delay: Option<i64> =
                Form::number("crawl-delay", "0", |text| read_wait("CRAWLDELAY", text)).after("CRAWLDELAY"),
            retry_after: Option<i64> =
                Form::number("retry-after", "0", |text| read_wait("RETRYAFTER", text)).after("RETRYAFTER"),
            status: Option<i64> = Form::number("status", "200", read_status).after("STATUS"),
        }
    }
    where Given::check
}

impl Given {
    fn check(&self) -> Result<(), String> {
        match (self.min, self.max) {
            (Some(min), Some(max)) if max < min => {
                Err(format!("ERR MAX {max} is less than MIN {min}"))
            }
            _ => Ok(()),
        }
    }

    fn facts(self) -> Facts {
        Facts {
            elapsed: self.elapsed,
            factor: self.factor.unwrap_or(Factor::ONE),
            min: self.min.unwrap_or(0),
            max: self.max,
            crawl_delay: self.crawl_delay.unwrap_or(0),
            retry_after: self.retry_after.unwrap_or(0),
            status: self.status,
        }
    }
}

grammar! {
    struct Done<'a> {
        execution: &'a [u8] = EXECUTION,
        count: Option<u64> = Optional(Integer::from("count", 1)),
    }
}

impl<'a> Done<'a> {
    fn fate(self) -> Fate<'a> {
        Fate::Done {
            execution: self.execution,
            count: self.count,
        }
    }
}

grammar! {
    /// Options of the lease that a client requests next.
    pub struct Taking<'a> {
        next: () = Flag("NEXT"),
        {
            lease: Option<Millis> = LEASE.after("LEASE"),
            block: Option<Millis> = BLOCK.after("BLOCK"),
            uris: Option<u64> = URIS.after("URIS"),
            gate: Option<Millis> = PAUSE.after("GATE"),
            execution: Option<&'a [u8]> = EXECUTION.after("EXECUTION"),
        }
    }
}

grammar! {
    struct Retry<'a> {
        at: Millis = Time::new("at"),
        payload: Option<&'a [u8]> = Optional(PAYLOAD.after("PAYLOAD")),
    }
}

impl<'a> Retry<'a> {
    fn fate(self) -> Fate<'a> {
        Fate::Retry(self.at, self.payload)
    }
}

command! {
    prefix "chg.release", "write blocking";
    /// Ends a lease; the group becomes due again after its politeness pause.
    ///
    /// O(log M) where M is the number of waiting and busy groups
    pub struct Release<'a> {
        now: Now = NOW,
        chg: &'a [u8] = CHG,
        token: u64 = TOKEN,
        when: Option<When> = Optional(OneOf("when", (
            Time::new("time").after("AT").map(When::At),
            span("milliseconds", 0).after("DELAY").map(When::Delay),
            block("facts").map(|given: Given| When::Facts(given.facts())),
        ))),
        {
            fate: Option<Fate<'a>> = OneOf("fate", (
                block("done").after("DONE").map(Done::<'a>::fate),
                block("retry").after("RETRY").map(Retry::<'a>::fate),
                span("later-milliseconds", 1).after("LATER").map(Fate::Later),
            )),
        }
        next: Option<Taking<'a>> = Optional(block("next")),
    }
    where Release::check
}

impl Release<'_> {
    fn check(&self) -> Result<(), String> {
        check_block(self.now, self.next.as_ref().and_then(|next| next.block))
    }
}

command! {
    prefix "chg.done", "write", since "0.2.0";
    /// Marks URIs of a lease as done, even after its group was freed.
    ///
    /// O(N log M) where N is the number of URIs of the lease and M the number of waiting groups and kept URIs
    pub struct EndUris<'a> {
        now: Now = NOW,
        chg: &'a [u8] = CHG,
        token: u64 = TOKEN,
        execution: &'a [u8] = EXECUTION,
        names: Option<SmallVec<[&'a [u8]; 4]>> = Optional(Many(URL)),
    }
}

command! {
    prefix "chg.extend", "write fast";
    /// Sets a new deadline for a lease, so that a slow fetch can finish.
    ///
    /// O(log M) where M is the number of busy groups
    pub struct Extend<'a> {
        now: Now = NOW,
        chg: &'a [u8] = CHG,
        token: u64 = TOKEN,
        ms: Millis = LEASE,
    }
}

command! {
    prefix "chg.expired", "write";
    /// Returns reports of expired leases, and removes them from the list.
    ///
    /// O(N log M) where N is the number of reports and M the number of busy groups
    pub struct Expired {
        now: Now = NOW,
        { count: Option<u64> = COUNT.after("COUNT"), }
    }
}

command! {
    prefix "chg.sweep", "write blocking";
    /// Moves due groups to the ready queue, for plain clients that take groups from it.
    ///
    /// O(N log M) where N is the number of groups moved and M the number of waiting and busy groups, in slices
    pub struct Sweep {
        now: Now = NOW,
        { limit: Option<u64> = Integer::from("groups", 1).after("LIMIT"), }
    }
}

command! {
    prefix "chg.block", "write fast";
    /// Blocks a group until a given time, for example because the host is down.
    ///
    /// O(log M) where M is the number of waiting groups
    pub struct Block<'a> {
        now: Now = NOW,
        chg: &'a [u8] = CHG,
        until: Millis = Time::new("time").after("UNTIL"),
    }
}

/// The target of `PAUSE` and `RESUME`; `None` for the whole frontier.
type What<'a> = Option<Target<'a>>;

command! {
    prefix "chg.pause", "write blocking";
    /// Pauses a group, a crawl execution or the whole frontier until CHG.RESUME.
    ///
    /// O(1); for an execution O(N log M) where N is the number of due groups that the pause affects and M the number of waiting groups, in slices
    pub struct Pause<'a> {
        now: Now = NOW,
        what: What<'a> = Optional(OneOf("what", (
            EXECUTION.after("EXECUTION").or_value().map(Target::Execution),
            CHG.map(Target::Group),
        ))),
    }
}

command! {
    prefix "chg.resume", "write blocking";
    /// Resumes a group, a crawl execution or the whole frontier after CHG.PAUSE.
    ///
    /// O(1); for an execution O(N log M) where N is the number of due groups that are still paused and M the number of waiting groups, in slices
    pub struct Resume<'a> {
        now: Now = NOW,
        what: What<'a> = Optional(OneOf("what", (
            EXECUTION.after("EXECUTION").or_value().map(Target::Execution),
            CHG.map(Target::Group),
        ))),
    }
}

grammar! {
    /// A limit of done URLs: the execution, and the number.
    pub struct DoneLimit<'a> {
        most: u64 = Integer::from("done-urls", 0),
        execution: &'a [u8] = EXECUTION.after("EXECUTION"),
    }
}

const DELAY: Integer =
    span("delay-milliseconds", 0).noting(", which is ten years in milliseconds; -1 for none");
const BUDGET: Integer = Integer::from("uris", 0).noting("; -1 for none");

grammar! {
    /// Limits of a group.
    #[derive(Default)]
    pub struct GroupLimits<'a> {
        {
            parallel: Option<u64> = Integer::new("fetches", 1, MAX_PARALLEL).after("PARALLEL"),
            gap: Option<Millis> = span("milliseconds", 0).after("GAP"),
            delay: Option<Option<Millis>> = OrNone(DELAY.after("DELAY")),
            budget: Option<Option<u64>> = OrNone(BUDGET.after("BUDGET")),
            done: Option<DoneLimit<'a>> = block("done").after("DONE"),
        }
    }
}

impl GroupLimits<'_> {
    /// Returns the limits, except the limit of done URLs.
    pub fn limits(&self) -> Limits {
        Limits {
            parallel: self.parallel,
            gap: self.gap,
            delay: self.delay,
            budget: self.budget,
        }
    }
}

command! {
    prefix "chg.limit", "write deny-oom blocking";
    /// Sets limits of a group: parallel fetches, the gap between them, the pause after each, and the number of URIs.
    ///
    /// O(log M) where M is the number of waiting groups; with DONE O(N) where N is the number of known URLs of the space, in slices
    pub struct Limit<'a> {
        now: Now = NOW,
        chg: &'a [u8] = CHG,
        limits: GroupLimits<'a> = AnyOf("limit", block("")),
    }
}

command! {
    prefix "chg.group", "write deny-oom";
    /// Puts groups behind one shared gate, for hosts of one server or one operator.
    ///
    /// O(N log M) where N is the number of groups given and M the number of waiting groups
    pub struct Group<'a> {
        now: Now = NOW,
        gate: &'a [u8] = Bytes::new("group", ID_BYTES).or_empty(),
        groups: Groups<'a> = Many(CHG),
    }
}

/// Target of `CHG.DROP`.
#[derive(Clone, Copy)]
pub enum Dropped<'a> {
    /// Removes all URIs of an execution.
    Execution(&'a [u8]),
    /// Removes all URIs of a group.
    Group(&'a [u8]),
}

command! {
    prefix "chg.drop", "write blocking";
    /// Removes the URIs of a crawl execution from all groups, or all URIs from one group.
    ///
    /// O(N + M log K) where N is the number of groups of the execution, M the number of its URIs and K the number of waiting groups, in slices
    pub struct Drop<'a> {
        now: Now = NOW,
        what: Dropped<'a> = OneOf("what", (
            CHG.after("GROUP").or_value().map(Dropped::Group),
            EXECUTION.map(Dropped::Execution),
        )),
    }
}

command! {
    prefix "chg.move", "write deny-oom blocking";
    /// Moves everything that is queued for one group to another.
    ///
    /// O(N log M) where N is the number of URIs moved and M the number of URIs of the other group, in slices
    pub struct Move<'a> {
        now: Now = NOW,
        from: &'a [u8] = Bytes::new("from", ID_BYTES),
        to: &'a [u8] = Bytes::new("to", ID_BYTES),
    }
    where Move::check
}

impl Move<'_> {
    fn check(&self) -> Result<(), String> {
        if self.from == self.to {
            return Err("ERR from and to are the same group".to_owned());
        }
        Ok(())
    }
}

command! {
    prefix "chg.why", "readonly";
    /// Explains why a group is not being fetched from: its state, its leases, its gate, and when it is due.
    ///
    /// O(log M + N) where M is the number of waiting groups and N the number of executions listed, at most 1000
    pub struct Why<'a> {
        now: Now = NOW,
        chg: &'a [u8] = CHG,
    }
}

command! {
    prefix "chg.info", "readonly";
    /// Returns the lengths of the queues, their rates, and whether politeness was kept; or the figures of one execution.
    ///
    /// O(log M) where M is the number of waiting groups
    pub struct Info<'a> {
        now: Now = NOW,
        execution: Option<&'a [u8]> = Optional(EXECUTION.after("EXECUTION")),
    }
}

command! {
    prefix "chg.list", "readonly";
    /// Lists the groups that are waiting, ready or being fetched from, page by page.
    ///
    /// O(N + (log M)^2) where N is the number of groups listed and M the number of all groups
    pub struct List {
        now: Now = NOW,
        {
            only: Option<Queue> = Choice("STATE", &[
                ("WAITING", Queue::Waiting),
                ("READY", Queue::Ready),
                ("BUSY", Queue::Busy),
                ("FREED", Queue::Freed),
            ]).after("STATE"),
            from: Option<Option<Cursor>> =
                Form::text("cursor", "0", |text| cursor(text, Cursor::parse)).after("CURSOR"),
            count: Option<u64> = COUNT.after("COUNT"),
        }
    }
    where List::check
}

impl List {
    fn check(&self) -> Result<(), String> {
        let queue = self
            .from
            .as_ref()
            .and_then(Option::as_ref)
            .map(Cursor::queue);
        match (queue, self.only) {
            (Some(queue), Some(only)) if queue != only => Err(format!(
                "ERR CURSOR belongs to a listing with STATE {}, but STATE is {}; use the same STATE for every page",
                queue.name(),
                only.name()
            )),
            _ => Ok(()),
        }
    }
}

/// The position from which a list of URIs continues.
#[derive(Clone, Copy)]
pub enum UriCursor {
    /// A position in a group.
    Group(Position),
    /// A position among the URLs of an execution.
    Execution(UrlCursor),
}

impl UriCursor {
    fn parse(text: &[u8]) -> Option<UriCursor> {
        let position = Position::parse(text).map(UriCursor::Group);
        position.or_else(|| UrlCursor::parse(text).map(UriCursor::Execution))
    }
}

command! {
    prefix "chg.uris", "readonly";
    /// Lists the URIs that the frontier stores for a group, or the URLs of an execution, page by page.
    ///
    /// O(N + log M) where N is the number of URIs listed and M the number of all URIs of the group; with EXECUTION O(N + M) where M is the number of groups or known URLs looked at, at most 4096
    pub struct Uris<'a> {
        now: Now = NOW,
        what: Target<'a> = OneOf("what", (
            EXECUTION.after("EXECUTION").or_value().map(Target::Execution),
            CHG.map(Target::Group),
        )),
        {
            state: Option<State> = Choice("state", &[
                ("QUEUED", State::Queued),
                ("LEASED", State::Leased),
                ("DONE", State::Done),
                ("GIVENUP", State::GivenUp),
            ]).after("STATE"),
            from: Option<Option<UriCursor>> =
                Form::text("cursor", "0", |text| cursor(text, UriCursor::parse)).after("CURSOR"),
            count: Option<u64> = COUNT.after("COUNT"),
        }
    }
    where Uris::check
}

impl Uris<'_> {
    fn check(&self) -> Result<(), String> {
        if matches!(self.what, Target::Group(_)) && self.state.is_some() {
            return Err(
                "ERR syntax error: STATE selects URLs of an execution, so it needs EXECUTION"
                    .to_owned(),
            );
        }
        let ends = self.state.is_some_and(|state| !state.has_text());
        let fits = match (self.from.flatten(), self.what) {
            (None, _) | (Some(UriCursor::Group(_)), Target::Group(_)) => true,
            (Some(UriCursor::Execution(cursor)), Target::Execution(_)) => {
                ends == matches!(cursor, UrlCursor::Ended(_))
            }
            _ => false,
        };
        if fits {
            return Ok(());
        }
        Err(
            "ERR CURSOR belongs to another listing; use the same arguments for every page"
                .to_owned(),
        )
    }
}

command! {
    prefix "chg.check", "readonly blocking";
    /// Checks a frontier for lost and double-counted URIs, and for groups in the wrong queue.
    ///
    /// O(N) where N is the number of keys in the database, in slices
    pub struct Check {
        now: Now = NOW,
    }
}

command! {
    prefix "chg.repair", "write deny-oom blocking";
    /// Repairs the inconsistencies that CHG.CHECK finds: wrong counts, and groups that are in no queue.
    ///
    /// O(N) where N is the number of keys in the database, in slices
    pub struct Repair {
        now: Now = NOW,
    }
}

command! {
    prefix "chg.pack", "write deny-oom blocking", since "0.2.0";
    /// Moves a frontier into one packed value, or makes an empty packed frontier.
    ///
    /// O(N) where N is the number of keys in the database, in slices
    pub struct Pack {
        now: Now = NOW,
    }
}

command! {
    prefix "chg.unpack", "write deny-oom blocking", since "0.2.0";
    /// Moves a packed frontier back into the documented keys.
    ///
    /// O(N) where N is the number of groups and URIs, in slices
    pub struct Unpack {
        now: Now = NOW,
    }
}

/// Calls a macro with the names of all commands.
macro_rules! all {
    ($with:ident) => {
        $with! {
            Add AddUri Space Discover Settle Known Count Forget Next Release EndUris Extend Expired Sweep Block Pause Resume Limit Group Drop Move
            Why Info List Uris Check Repair Pack Unpack
        }
    };
}
pub(crate) use all;
