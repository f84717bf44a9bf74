//! The grammar of the family's commands: names, summaries and arguments.

// Without the feature `module`, only tests read the parsed arguments.
#![cfg_attr(
    not(feature = "module"),
    allow(dead_code, unused_imports, unused_macros)
)]

use crawlspace_compact::limits::dedupe::UUID_BYTES;
use crawlspace_host::grammar::{
    After, Arg, Args, Block, Bytes, BytesForm, Choice, Flag, Form, FormOf, Integer, Many, OneOf,
    Optional, Shape, block,
};
use crawlspace_host::text::Shown;
use crawlspace_host::{command, grammar};
use smallvec::SmallVec;

use super::add::{Adding, Response};
use super::digest::Digest;
use super::error::Error;
use super::index::claims::CLAIM_MS;
use super::keys::{CRAWL_BYTES, is_crawl_id};
use super::profile::Profile as Layout;
use super::record::{Record, URL_BYTES};
use super::requires::{Format, Of, check_references};
use super::revisit::{Dependency, Original, Revisit as Revisited};
use super::sequence::{Sequence, WRITER_BYTES};
use super::stats::{Figures, MAX_SAMPLES, Which};
use super::urls::MAX_CAPTURES;
use super::wacz::{FILENAME_BYTES, WACZ_HASH_BYTES};
use crawlspace_compact::date::{DATE_BYTES, is_date};

/// Maximum length of a reference (`crawl waczIndex`), in bytes; the number may have leading zeros.
const REFERENCE_BYTES: usize = CRAWL_BYTES + 76;

/// Maximum value of sizes and WACZ indexes: the largest integer that every client represents
/// exactly.
const MAX_INTEGER: u64 = (1 << 53) - 1;

type Hash<'a> = (&'a [u8], Digest);
type HashForm = Form<fn(&[u8]) -> Result<Hash<'_>, String>>;

const CRAWL: BytesForm = Form::text("crawl", "crawl", crawl_id);
const HASH: FormOf<Digest> = Form::text("hash", "sixteen bytes or more", digest);
const HASH_AS_GIVEN: HashForm = Form::text("hash", "sixteen bytes or more", |hash| {
    Ok((hash, digest(hash)?))
});
const AS_TEXT: After<Choice<()>> = After::new("FORMAT", Choice("format", &[("RECORD", ())]));
const UUID: Bytes = Bytes::new("uuid", UUID_BYTES);
const FILENAME: Bytes = Bytes::new("filename", FILENAME_BYTES);
const TOKEN: Integer = Integer::from("token", 1);
const SAMPLES: Integer = Integer::new("samples", 0, MAX_SAMPLES);
const SIZE: Integer = Integer::new("size", 0, MAX_INTEGER);
const WACZ_INDEX: Integer = Integer::new("waczIndex", 0, MAX_INTEGER);

fn crawl_id(crawl: &[u8]) -> Result<&[u8], String> {
    if !is_crawl_id(crawl) {
        return Err(Error::BadCrawl(crawl.to_vec()).to_string());
    }
    Ok(crawl)
}

/// Parses a hash in any notation.
fn digest(hash: &[u8]) -> Result<Digest, String> {
    Digest::parse(hash).map_err(|error| error.to_string())
}

/// A date of a record, in one of the supported formats. Contains the name of the argument for
/// errors.
#[derive(Clone, Copy)]
struct Date(&'static str);

const DATE: Date = Date("date");

impl<'a> Shape<'a> for Date {
    type Value = &'a [u8];

    fn arg(&self) -> Arg {
        Form::text("date", "20260319120000", Ok::<&[u8], String>).arg()
    }

    fn read(&self, args: &mut Args<'a>) -> Result<&'a [u8], String> {
        let date = args.bytes(self.0, 1, DATE_BYTES)?;
        if is_date(date) {
            return Ok(date);
        }
        Err(args.wrong(&format!(
            "ERR invalid {} '{}': a date of 14 or 17 digits, or in ISO 8601 form, is expected",
            self.0,
            Shown(date)
        )))
    }
}

grammar! {
    impl Sequence<'a> {
        writer = Bytes::new("writer", WRITER_BYTES),
        n = Integer::from("n", 1).called("sequence number"),
    }
}

const fn sequence<'a>() -> After<Block<Sequence<'a>>> {
    After::new("SEQ", block("seq"))
}

command! {
    prefix "dedupe.lookup", "readonly fast";
    /// Returns the original record of each hash: its crawl, WACZ index, date, URL and size.
    ///
    /// O(N) where N is the number of hashes
    pub struct Lookup<'a> {
        {
            own: Option<&'a [u8]> = CRAWL.after("CRAWL"),
            with_wacz: bool = Flag("WITHWACZ"),
            as_text: bool = AS_TEXT,
        }
        digests: SmallVec<[Digest; 1]> = Many(HASH),
    }
    where Lookup::check
}

impl Lookup<'_> {
    fn check(&self) -> Result<(), String> {
        check_text(self.as_text, self.with_wacz)
    }
}

/// Refuses `WITHWACZ` with `FORMAT RECORD`: within a single string, a file name could not be distinguished from
/// other fields.
fn check_text(as_text: bool, with_wacz: bool) -> Result<(), String> {
    if as_text && with_wacz {
        return Err("ERR WITHWACZ cannot be combined with FORMAT RECORD".to_owned());
    }
    Ok(())
}

command! {
    prefix "dedupe.lookupurl", "readonly blocking";
    /// Lists the captures of URLs, newest first.
    ///
    /// O(C*log(N)+C*L) for each URL, where C is the number of crawls, N the number of hashes and L the limit, in slices
    pub struct LookUpUrl<'a> {
        {
            own: Option<&'a [u8]> = CRAWL.after("CRAWL"),
            limit: Option<u64> = Integer::new("limit", 1, MAX_CAPTURES).after("LIMIT"),
            before: Option<&'a [u8]> = After::new("BEFORE", Date("BEFORE")),
        }
        urls: SmallVec<[&'a [u8]; 1]> = Many(Bytes::new("url", URL_BYTES)),
    }
}

command! {
    prefix "dedupe.urls", "write blocking";
    /// Switches the index by URL on or off.
    ///
    /// O(N) where N is the number of records, in slices
    pub struct Urls {
        on: bool = Choice("switch", &[("ON", true), ("OFF", false)]),
    }
}

command! {
    prefix "dedupe.claim", "write deny-oom blocking";
    /// Looks up a hash, and reserves it if it is unknown, so that only one worker stores the payload.
    ///
    /// O(1)
    pub struct Claim<'a> {
        crawl: &'a [u8] = CRAWL,
        digest: Digest = HASH,
        ms: u64 = Integer::new("milliseconds", 1, CLAIM_MS).after("PX"),
        {
            block: Option<u64> = Integer::new("block-milliseconds", 0, CLAIM_MS).after("BLOCK"),
            with_wacz: bool = Flag("WITHWACZ"),
            as_text: bool = AS_TEXT,
        }
    }
    where Claim::check
}

impl Claim<'_> {
    fn check(&self) -> Result<(), String> {
        check_text(self.as_text, self.with_wacz)
    }
}

command! {
    prefix "dedupe.unclaim", "write fast";
    /// Releases a claim, so that another worker can store the payload.
    ///
    /// O(1)
    pub struct Unclaim {
        digest: Digest = HASH,
        token: u64 = TOKEN,
    }
}

command! {
    prefix "dedupe.begin", "write deny-oom fast";
    /// Starts a crawl before its first record, or continues a committed crawl.
    ///
    /// O(1)
    pub struct Begin<'a> {
        crawl: &'a [u8] = CRAWL,
        { visible: bool = Flag("VISIBLE"), }
    }
}

grammar! {
    impl Adding<'a> {
        {
            token = TOKEN.after("TOKEN"),
            seq = sequence(),
            earliest = Flag("EARLIEST"),
        }
    }
}

grammar! {
    impl Record<'a> {
        wacz_index = WACZ_INDEX,
        date = DATE,
        url = Bytes::new("url", URL_BYTES),
        size = SIZE,
    }
}

grammar! {
    impl Response<'a> {
        digest = HASH,
        record = block(""),
    }
}

command! {
    prefix "dedupe.add", "write deny-oom fast";
    /// Adds the response records that a crawl has written, and settles a claim.
    ///
    /// O(N) where N is the number of records
    pub struct Add<'a> {
        crawl: &'a [u8] = CRAWL,
        how: Adding<'a> = block(""),
        responses: SmallVec<[Response<'a>; 1]> = Many(block("record")),
    }
}

impl Add<'_> {
    /// Number of arguments per record.
    pub const WORDS: usize = 5;
}

grammar! {
    impl Original<'a> {
        crawl = CRAWL,
        wacz_index = WACZ_INDEX,
        size = SIZE,
    }
}

grammar! {
    /// A `revisit` record, as given in the arguments.
    struct OneRevisit<'a> {
        hash: Hash<'a> = HASH_AS_GIVEN,
        size: u64 = Integer::new("revisit-size", 0, MAX_INTEGER),
        // The word `ORIGINAL` is too short to be a hash.
        { original: Option<Original<'a>> = block("original").after("ORIGINAL"), }
    }
}

impl<'a> From<OneRevisit<'a>> for Revisited<'a> {
    fn from(one: OneRevisit<'a>) -> Revisited<'a> {
        Revisited {
            digest: one.hash.1,
            given: one.hash.0,
            size: one.size,
            original: one.original,
        }
    }
}

command! {
    prefix "dedupe.revisit", "write deny-oom fast";
    /// Counts revisit records and the bytes that they save, and records which crawls they depend on.
    ///
    /// O(N) where N is the number of records
    pub struct Revisit<'a> {
        crawl: &'a [u8] = CRAWL,
        {
            dependency: Option<Dependency<'a>> = OneOf("dependency", (
                UUID.after("REF").map(Dependency::Wacz),
                Flag("NOREF").map(|()| Dependency::Elsewhere),
            )),
            seq: Option<Sequence<'a>> = sequence(),
        }
        revisits: SmallVec<[Revisited<'a>; 1]> =
            Many(block("record").map(|one: OneRevisit<'a>| one.into())),
    }
}

command! {
    prefix "dedupe.waczopen", "write deny-oom";
    /// Registers a WACZ file that a crawl begins to write, and returns its index.
    ///
    /// O(N) where N is the number of WACZ files of the crawl
    pub struct WaczOpen<'a> {
        crawl: &'a [u8] = CRAWL,
        filename: &'a [u8] = FILENAME,
    }
}

command! {
    prefix "dedupe.waczclose", "write deny-oom";
    /// Marks a WACZ file as finished, stores its hash and size, and counts its size once.
    ///
    /// O(1) for the first and last files of the crawl, O(N) for the others, where N is the number of WACZ files of the crawl
    pub struct WaczClose<'a> {
        crawl: &'a [u8] = CRAWL,
        index: u64 = Integer::new("index", 0, u32::MAX as u64),
        filename: &'a [u8] = FILENAME,
        hash: &'a [u8] = Bytes::new("hash", WACZ_HASH_BYTES).or_empty(),
        size: u64 = SIZE,
        { renames: bool = Flag("RENAME"), }
    }
}

command! {
    prefix "dedupe.waczlist", "readonly";
    /// Lists the WACZ files of a crawl, ordered by index.
    ///
    /// O(N) where N is the number of WACZ files of the crawl
    pub struct WaczList<'a> {
        crawl: &'a [u8] = CRAWL,
    }
}

command! {
    prefix "dedupe.commit", "write deny-oom blocking";
    /// Merges crawls into the index, in this order: all hashes of a crawl become visible at once.
    ///
    /// O(N) where N is the number of hashes added since the last commits, in slices
    pub struct Commit<'a> {
        crawls: Crawls<'a> = Many(CRAWL),
    }
}

command! {
    prefix "dedupe.cancel", "write blocking";
    /// Deletes an uncommitted crawl, or the changes to a committed crawl since its last commit.
    ///
    /// O(N) where N is the number of hashes dropped, in slices
    pub struct Cancel<'a> {
        crawl: &'a [u8] = CRAWL,
    }
}

type Crawls<'a> = SmallVec<[&'a [u8]; 4]>;

command! {
    prefix "dedupe.remove", "write blocking";
    /// Removes committed crawls: each of their hashes moves to the next crawl that has it, or is deleted.
    ///
    /// O(N) where N is the number of hashes of the removed crawls, in slices
    pub struct Remove<'a> {
        crawls: Crawls<'a> = Many(CRAWL),
    }
}

command! {
    prefix "dedupe.retain", "write blocking";
    /// Declares which crawls form the collection; counts all others as removed, or removes them with PURGE.
    ///
    /// O(C) where C is the number of crawls; with PURGE, plus the cost of removing the other crawls
    pub struct Retain<'a> {
        // A second word `PURGE` is the id of a crawl.
        purge: Option<()> = Optional(Flag("PURGE")),
        crawls: Crawls<'a> = Many(CRAWL),
    }
}

/// References, up to the next argument without a space.
#[derive(Clone, Copy)]
struct References;

impl<'a> Shape<'a> for References {
    type Value = Vec<Vec<u8>>;

    fn arg(&self) -> Arg {
        let reference = Form::text("reference", "crawl 0", Ok::<&[u8], String>);
        reference.arg().multiple()
    }

    fn read(&self, args: &mut Args<'a>) -> Result<Self::Value, String> {
        let mut references = Vec::new();
        while references.is_empty() || args.peek().is_some_and(|next| next.contains(&b' ')) {
            let reference = args.bytes("reference", 1, REFERENCE_BYTES)?;
            check_references(&[reference]).map_err(|error| args.wrong(&error.to_string()))?;
            references.push(reference.to_vec());
        }
        Ok(references)
    }
}

command! {
    prefix "dedupe.requires", "readonly blocking";
    /// Lists the WACZ files of other crawls that a crawl or a WACZ file needs for replay.
    ///
    /// O(N) where N is the number of WACZ files of the required crawls
    pub struct Requires {
        of: Of = OneOf("of", (
            UUID.after("REF").or_value().map(|uuid| Of::Wacz(uuid.to_vec())),
            References.after("REFS").or_value().map(Of::References),
            CRAWL.map(|crawl| Of::Crawl(crawl.to_vec())),
        )),
        {
            transitive: bool = Flag("TRANSITIVE"),
            format: Option<Format> =
                Choice("format", &[("JSON", Format::Json), ("RESP", Format::Resp)]).after("FORMAT"),
        }
    }
}

command! {
    prefix "dedupe.requiredby", "readonly blocking";
    /// Lists the crawls that could not be replayed in full without this one, with their numbers of revisits.
    ///
    /// O(C) where C is the number of crawls, in slices
    pub struct RequiredBy<'a> {
        crawl: &'a [u8] = CRAWL,
    }
}

command! {
    prefix "dedupe.stats", "readonly blocking";
    /// Returns the figures of an index or of one crawl: hashes, records, savings and memory.
    ///
    /// O(C) where C is the number of crawls, in slices; O(1) for one crawl; O(S) with SAMPLES, where S is the number of samples
    pub struct Stats<'a> {
        of: Option<Figures<'a>> = Optional(OneOf("of", (
            SAMPLES.after("SAMPLES").or_value().map(Figures::Sampled),
            CRAWL.map(Figures::Crawl),
        ))),
    }
}

command! {
    prefix "dedupe.crawls", "readonly blocking";
    /// Lists the crawls of an index with their states and counts.
    ///
    /// O(C) where C is the number of crawls, in slices; with UNLISTED O(K) where K is the number of keys in the database
    pub struct ListCrawls {
        which: Option<Which> = Optional(Choice("which", &[
            ("UNCOMMITTED", Which::Uncommitted),
            ("COMMITTED", Which::Committed),
            ("UNLISTED", Which::Unlisted),
        ])),
    }
}

command! {
    prefix "dedupe.check", "readonly blocking";
    /// Checks an index for inconsistencies, and counts them by kind.
    ///
    /// O(N) where N is the number of hashes of all crawls, in slices
    pub struct Check {}
}

command! {
    prefix "dedupe.repair", "write deny-oom blocking";
    /// Repairs the inconsistencies that DEDUPE.CHECK finds.
    ///
    /// O(N) where N is the number of hashes of all crawls, in slices
    pub struct Repair {}
}

command! {
    prefix "dedupe.profile", "write fast";
    /// Returns or sets the profile of an index: its key names and the notation of its hashes.
    ///
    /// O(1)
    pub struct Profile {
        profile: Option<Layout> = Optional(Choice("profile", &[
            ("document", Layout::Document),
            ("browsertrix", Layout::Browsertrix),
        ])),
    }
}

command! {
    prefix "dedupe.pack", "write blocking";
    /// Moves the committed part of an index into one packed value, which takes a sixth of the memory.
    ///
    /// O(N) where N is the number of records of committed crawls, in slices
    pub struct Pack {}
}

command! {
    prefix "dedupe.unpack", "write deny-oom blocking";
    /// Moves the committed part of a packed index back into the documented keys.
    ///
    /// O(N) where N is the number of records of committed crawls, in slices
    pub struct Unpack {}
}

/// Invokes a macro with the names of all commands.
macro_rules! all {
    ($with:ident) => {
        $with! {
            Lookup LookUpUrl Urls Claim Unclaim Begin Add Revisit WaczOpen WaczClose WaczList Commit Cancel
            Remove Retain Requires RequiredBy Stats ListCrawls Check Repair Profile Pack Unpack
        }
    };
}
pub(crate) use all;

command! {
    key "dedupe.hget", "readonly fast", since "0.2.0";
    /// Returns the value of a field, as `HGET` does; the hash may be in a packed index.
    ///
    /// O(1)
    pub struct HGet<'a> {
        field: &'a [u8] = FIELD,
    }
}

command! {
    key "dedupe.hsetnx", "write deny-oom fast", since "0.2.0";
    /// Sets a field that does not exist, as `HSETNX` does; the hash may be in a packed index.
    ///
    /// O(1)
    pub struct HSetNx<'a> {
        field: &'a [u8] = FIELD,
        value: &'a [u8] = Bytes::new("value", ANY_BYTES),
    }
}

command! {
    key "dedupe.hlen", "readonly fast", since "0.2.0";
    /// Returns the number of fields, as `HLEN` does; the hash may be in a packed index.
    ///
    /// O(1)
    pub struct HLen {}
}

command! {
    key "dedupe.hscan", "readonly", since "0.2.0";
    /// Iterates over the fields, as `HSCAN` does; the hash may be in a packed index.
    ///
    /// O(1) for each call, O(N) for a complete iteration, where N is the number of fields
    pub struct HScan<'a> {
        cursor: u64 = Integer::from("cursor", 0),
        {
            pattern: Option<&'a [u8]> = Bytes::new("pattern", ANY_BYTES).after("MATCH"),
            count: Option<u64> = Integer::from("count", 1).after("COUNT"),
            without_values: bool = Flag("NOVALUES"),
        }
    }
}

command! {
    key "dedupe.rename", "write", since "0.2.0";
    /// Renames a key, as `RENAME` does, but refuses to begin a purge of a packed index.
    ///
    /// O(1)
    pub struct Rename<'a> {
        new_key: &'a [u8] = Bytes::new("newkey", ANY_BYTES),
    }
}

command! {
    key "dedupe.renamenx", "write fast", since "0.2.0";
    /// Renames a key if the new name is free, as `RENAMENX` does, but refuses to begin a purge of a packed index.
    ///
    /// O(1)
    pub struct RenameNx<'a> {
        new_key: &'a [u8] = Bytes::new("newkey", ANY_BYTES),
    }
}

/// Maximum length of the server's strings.
const ANY_BYTES: usize = 512 << 20;
const FIELD: Bytes = Bytes::new("field", ANY_BYTES);

/// Calls a macro with the commands that run instead of commands of plain clients.
macro_rules! plain {
    ($with:ident) => {
        $with! { HGet HSetNx HLen HScan Rename RenameNx }
    };
}
pub(crate) use plain;
