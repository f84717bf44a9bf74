//! The index that is copied, read by plain commands.

use std::collections::{BTreeSet, HashMap};

use crawlspace_client::dedupe::{Profile, Sharded};
use crawlspace_client::{Ask, Batch, Call, Pending, Server, redis};
use crawlspace_index::Work;
use redis::{Cmd, FromRedisValue};

use super::{Crawls, Error, PAGE, Standing};
use crate::any_index::IndexName;

/// Keys that exist once per index, besides the sets of crawls and the merged index.
const ONCE: [&str; 7] = [
    "allcounts",
    "canceledcrawls",
    "src:q",
    "src:qset",
    "src:d",
    "pending:q",
    "last_update_ts",
];
/// Suffixes of key names that begin like the key of a crawl's records. Only the module writes these keys.
const OF_THE_MODULE: [&str; 8] = [
    ":baseline",
    ":added",
    ":merging",
    ":unstored",
    ":deps",
    ":refs",
    ":seq",
    ":urls",
];
/// Fields of `allcounts` that are not sums over crawls.
const OF_NO_CRAWL: [&[u8]; 3] = [b"removedCrawls", b"removedCrawlSize", b"updateProgress"];
/// Reply to a scan: the next cursor, and a part of the elements.
pub(super) type Scanned = (Vec<u8>, Vec<Vec<u8>>);

/// First and last cursor of a scan.
pub(super) const NO_CURSOR: &[u8] = b"0";

/// The source. An index under one prefix is read over one connection that is never replaced.
pub(super) struct Source {
    server: Server,
    /// Prefixes of the shards, that of the home shard first.
    prefixes: Vec<Vec<u8>>,
    pub(super) profile: Profile,
    /// True if the hashes of the index are in a packed value.
    is_packed: bool,
}

/// A part of the records of a crawl.
pub(super) struct Page {
    /// Hash and record, alternating.
    pub(super) pairs: Vec<Vec<u8>>,
    /// Hashes among them that the crawl owns in the merged index.
    pub(super) owned: Vec<Vec<u8>>,
}

impl Page {
    pub(super) fn records(&self) -> usize {
        self.pairs.len() / 2
    }
}

/// The content of a key.
pub(super) enum Content {
    /// Field and value, alternating.
    Hash(Vec<Vec<u8>>),
    Set(Vec<Vec<u8>>),
    List(Vec<Vec<u8>>),
    String(Vec<u8>),
    /// The key does not exist.
    Nothing,
}

/// The small keys of a crawl, by their names after the prefix.
pub(super) type Details = Vec<(Vec<u8>, Content)>;

/// A key to copy unchanged: its name after the prefix, and its content.
pub(super) struct Kept {
    pub(super) name: Vec<u8>,
    pub(super) value: Result<Content, Error>,
}

impl Content {
    /// Returns true for a key that does not exist or has no content.
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Content::Hash(members) | Content::Set(members) | Content::List(members) => {
                members.is_empty()
            }
            Content::String(_) => false,
            Content::Nothing => true,
        }
    }

    /// Adds the same key of another shard: counts are added, sets are united. Lists, and fields that are not sums,
    /// are only in the home shard, which comes first.
    fn join(&mut self, other: Content) {
        match (self, other) {
            (Content::Hash(all), Content::Hash(more)) => {
                let fields = all.iter().step_by(2).cloned();
                let values: HashMap<Vec<u8>, usize> = fields.zip((1..).step_by(2)).collect();
                for pair in more.chunks_exact(2) {
                    match values.get(&pair[0]) {
                        None => all.extend_from_slice(pair),
                        Some(&value) => all[value] = sum(&all[value], &pair[1]),
                    }
                }
            }
            (Content::Set(all), Content::Set(more)) => {
                let united: BTreeSet<Vec<u8>> = all.drain(..).chain(more).collect();
                all.extend(united);
            }
            (Content::List(all), Content::List(more)) if all.is_empty() => *all = more,
            (nothing @ Content::Nothing, other) => *nothing = other,
            _ => {}
        }
    }
}

/// Adds two numbers; returns the first string if one is not a number.
fn sum(first: &[u8], second: &[u8]) -> Vec<u8> {
    let number = |text| std::str::from_utf8(text).ok()?.parse::<i64>().ok();
    match (number(first), number(second)) {
        (Some(a), Some(b)) => a.saturating_add(b).to_string().into_bytes(),
        _ => first.to_vec(),
    }
}

impl Source {
    /// Connects, and checks that the index can be copied.
    pub(super) fn open(url: &str, name: &IndexName) -> Result<Source, Error> {
        let (server, prefixes) = match name {
            IndexName::Prefix(prefix) => {
                let server = Server::options(url).only_one().open();
                (server.map_err(Error::Source)?, vec![prefix.clone()])
            }
            IndexName::Sharded(name, _) => {
                let server = Server::open(url).map_err(Error::Source)?;
                let prefixes = shards(&server, name)?;
                (server, prefixes)
            }
        };
        let mut source = Source {
            server,
            prefixes,
            profile: Profile::Document,
            is_packed: false,
        };
        source.is_packed = source.exists("packedhashes")?;
        if source.is_packed && !source.reads_packed()? {
            return Err(Error::Refused(
                "the source is packed, and its version of the module is older than 0.2.0: run crawlspace dedupe unpack \
                 there first"
                    .to_owned(),
            ));
        }
        if source.exists("to-remove-crawls")? {
            return Err(Error::Refused(
                "Browsertrix is purging the source, or its purge was interrupted: run its indexer with --remove \
                 to the end, then copy"
                    .to_owned(),
            ));
        }
        Ok(source)
    }

    /// Returns true if the source has the commands that read the hashes of a packed index.
    fn reads_packed(&self) -> Result<bool, Error> {
        let mut known = redis::cmd("COMMAND");
        known.arg("INFO").arg("DEDUPE.HSCAN");
        let known: Vec<redis::Value> = self.ask(known)?;
        Ok(!matches!(known[..], [redis::Value::Nil] | []))
    }

    /// Returns a command that reads the merged index or the records of a crawl.
    fn reading(&self, name: &str, key: &[u8]) -> Cmd {
        if self.is_packed {
            command(&format!("DEDUPE.{name}"), key)
        } else {
            command(name, key)
        }
    }

    /// Returns the key of this name in each shard, the home shard first.
    fn keys(&self, name: impl AsRef<[u8]>) -> impl Iterator<Item = Vec<u8>> {
        let keys = self.prefixes.iter();
        keys.map(move |prefix| [prefix, name.as_ref()].concat())
    }

    /// Sends a command once. The connection is not replaced, so a cursor always belongs to it.
    fn ask<T: FromRedisValue + Send + 'static>(&self, command: Cmd) -> Result<T, Error> {
        self.server.ask(Call::new(command)).map_err(Error::Source)
    }

    fn exists(&self, name: &str) -> Result<bool, Error> {
        for key in self.keys(name) {
            if self.ask(command("EXISTS", &key))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns all members of a set.
    fn members(&self, name: &str) -> Result<Vec<Vec<u8>>, Error> {
        let mut all = Vec::new();
        for key in self.keys(name) {
            all.extend(self.scan("SSCAN", Some(&key), &[])?);
        }
        Ok(all)
    }

    /// Runs a scan to its end.
    fn scan(
        &self,
        scan: &str,
        key: Option<&[u8]>,
        options: &[&[u8]],
    ) -> Result<Vec<Vec<u8>>, Error> {
        let mut all = Vec::new();
        let mut cursor = NO_CURSOR.to_vec();
        loop {
            let mut command = redis::cmd(scan);
            command.arg(key).arg(cursor).arg(options);
            command.arg("COUNT").arg(PAGE);
            let (next, page): Scanned = self.ask(command)?;
            all.extend(page);
            if next == NO_CURSOR {
                return Ok(all);
            }
            cursor = next;
        }
    }

    /// Returns the crawls in the sets of crawls.
    pub(super) fn crawls(&self) -> Result<Crawls, Error> {
        let mut crawls = Crawls::new();
        for crawl in self.members("allcrawls")? {
            crawls.entry(crawl).or_default().committed = true;
        }
        for crawl in self.members("uncommittedcrawls")? {
            crawls.entry(crawl).or_default().uncommitted = true;
        }
        Ok(crawls)
    }

    /// Returns the crawls in the order of their first commits, as the module recorded it. Crawls without a recorded
    /// commit come last, in the order of their ids.
    pub(super) fn in_order(&self, crawls: &Crawls) -> Result<Vec<Vec<u8>>, Error> {
        let home = [&self.prefixes[0], &b"commits"[..]].concat();
        let commits = self.scan("HSCAN", Some(&home), &[])?;
        let mut first: HashMap<&[u8], u64> = HashMap::new();
        for commit in commits.chunks_exact(2) {
            let number = std::str::from_utf8(&commit[0]).unwrap_or_default();
            let number = number.parse().unwrap_or(u64::MAX);
            let earliest = first.entry(&commit[1]).or_insert(number);
            *earliest = number.min(*earliest);
        }
        let mut ordered: Vec<Vec<u8>> = crawls.keys().cloned().collect();
        ordered.sort_by_key(|crawl| first.get(&crawl[..]).copied().unwrap_or(u64::MAX));
        Ok(ordered)
    }

    /// Determines the profile from the name of the merged index or, without committed crawls, from a record.
    pub(super) fn find_profile(&mut self, crawls: &Crawls) -> Result<(), Error> {
        self.profile = match (self.exists("allhashes")?, self.exists("alldupes")?) {
            (true, false) => Profile::Document,
            (false, true) => Profile::Browsertrix,
            (true, true) => {
                return Err(Error::Refused(
                    "the source has both keys of a merged index, allhashes and alldupes: delete the one that is not used"
                        .to_owned(),
                ));
            }
            (false, false) => self.profile_of_records(crawls)?,
        };
        Ok(())
    }

    fn profile_of_records(&self, crawls: &Crawls) -> Result<Profile, Error> {
        let records = |crawl: &Vec<u8>| self.keys([b"h:", &crawl[..]].concat());
        for records in crawls.keys().flat_map(records) {
            let mut first = self.reading("HSCAN", &records);
            first.arg(NO_CURSOR).arg("COUNT").arg(1);
            let (_, record): Scanned = self.ask(first)?;
            if let Some(hash) = record.first() {
                let is_labelled = hash.contains(&b':');
                return Ok(if is_labelled {
                    Profile::Document
                } else {
                    Profile::Browsertrix
                });
            }
        }
        Ok(Profile::Document)
    }

    /// Returns the names of the references that the crawls of a sharded index wrote. A scan of one
    /// server would miss some of them, because the shards may be on several servers.
    fn references(&self, crawls: &Crawls) -> Result<Vec<Vec<u8>>, Error> {
        let mut names = BTreeSet::new();
        for crawl in crawls.keys() {
            for key in self.keys([b"h:", &crawl[..], b":refs"].concat()) {
                let ids = self.scan("SSCAN", Some(&key), &[])?;
                names.extend(
                    ids.iter()
                        .map(|id| [id, self.profile.references()].concat()),
                );
            }
        }
        Ok(names.into_iter().collect())
    }

    /// Scans the names of all keys with the prefix. Adds crawls that are in none of the sets of crawls, and returns
    /// the names of references and of unsettled revisits.
    pub(super) fn scan_keys(
        &self,
        crawls: &mut Crawls,
        work: &Work,
    ) -> Result<Vec<Vec<u8>>, Error> {
        let [prefix] = &self.prefixes[..] else {
            return self.references(crawls);
        };
        let pattern = pattern(prefix);
        let references = self.profile.references();
        let mut kept = Vec::new();
        for key in self.scan("SCAN", None, &[b"MATCH", &pattern])? {
            let Some(name) = key.strip_prefix(&prefix[..]) else {
                continue;
            };
            if is_scanned(name, references) {
                kept.push(name.to_vec());
            } else if let Some(crawl) = name.strip_prefix(b"h:")
                && !OF_THE_MODULE
                    .iter()
                    .any(|end| crawl.ends_with(end.as_bytes()))
            {
                let crawl = crawl.strip_suffix(b":counts").unwrap_or(crawl);
                crawls.entry(crawl.to_vec()).or_default();
            }
        }
        work.check()?;
        // A scan may return a name more than once.
        kept.sort_unstable();
        kept.dedup();
        if crawls.is_empty() && !self.exists("allcounts")? {
            let prefix = prefix.escape_ascii();
            return Err(Error::Refused(format!(
                "the source has no dedupe index with the prefix '{prefix}'"
            )));
        }
        Ok(kept)
    }

    /// Counts the records of each crawl.
    pub(super) fn count_records(&self, crawls: &mut Crawls) -> Result<(), Error> {
        let mut all: Vec<(&Vec<u8>, &mut Standing)> = crawls.iter_mut().collect();
        for some in all.chunks_mut(PAGE) {
            let batch = Batch::new();
            let asked: Vec<Vec<Pending<u64>>> = some
                .iter()
                .map(|(crawl, _)| {
                    let records = self.keys([b"h:", &crawl[..]].concat());
                    records
                        .map(|key| batch.ask(Call::new(self.reading("HLEN", &key))))
                        .collect()
                })
                .collect();
            batch.send(&self.server).map_err(Error::Source)?;
            for ((_, standing), records) in some.iter_mut().zip(asked) {
                standing.records = 0;
                for records in records {
                    standing.records += records.take().map_err(Error::Source)?;
                }
            }
        }
        Ok(())
    }

    /// Reads the small keys of a crawl: counts, WACZ files, required crawls and, if the module wrote them, the numbers
    /// of revisits for each required crawl and the names of references.
    pub(super) fn details(&self, crawl: &[u8]) -> Result<Details, Error> {
        let [counts, dependencies] =
            [&b":counts"[..], b":deps"].map(|end| [b"h:", crawl, end].concat());
        let [references, requires] = [
            [b"h:", crawl, b":refs"].concat(),
            [crawl, b":reqCrawls"].concat(),
        ];
        let waczs = [b"c:", crawl, b":wacz"].concat();
        let batch = Batch::new();
        let key = |prefix: &[u8], name: &[u8]| [prefix, name].concat();
        let asked: Vec<_> = (self.prefixes.iter())
            .map(|prefix| {
                let hash = |name| batch.ask(Call::new(command("HGETALL", &key(prefix, name))));
                let set = |name| batch.ask(Call::new(command("SMEMBERS", &key(prefix, name))));
                let mut list = command("LRANGE", &key(prefix, &waczs));
                list.arg(0).arg(-1);
                let hashes = [&counts, &dependencies].map(|name| (hash(name), name));
                let sets = [&references, &requires].map(|name| (set(name), name));
                (batch.ask(Call::new(list)), hashes, sets)
            })
            .collect();
        batch.send(&self.server).map_err(Error::Source)?;
        let mut details = Details::new();
        let mut add =
            |name: &Vec<u8>, content| match details.iter_mut().find(|(known, _)| known == name) {
                None => details.push((name.clone(), content)),
                Some((_, known)) => known.join(content),
            };
        for (list, hashes, sets) in asked {
            add(&waczs, Content::List(list.take().map_err(Error::Source)?));
            for (pairs, name) in hashes {
                let pairs = flat(pairs.take().map_err(Error::Source)?);
                add(name, Content::Hash(pairs));
            }
            for (members, name) in sets {
                add(name, Content::Set(members.take().map_err(Error::Source)?));
            }
        }
        Ok(details)
    }

    /// Asks for the owners of the hashes in a list that alternates hash and record.
    fn ask_owners(
        &self,
        batch: &Batch,
        merged: &[u8],
        records: &[Vec<u8>],
    ) -> Vec<Pending<Vec<Option<Vec<u8>>>>> {
        let hashes: Vec<&Vec<u8>> = records.iter().step_by(2).collect();
        // A packed index has no command that reads several fields.
        let (name, size) = if self.is_packed {
            ("HGET", 1)
        } else {
            ("HMGET", PAGE.max(hashes.len()))
        };
        let ask = |some: &[&Vec<u8>]| {
            let mut owners = self.reading(name, merged);
            owners.arg(some);
            batch.ask(Call::new(owners))
        };
        hashes.chunks(size).map(ask).collect()
    }

    /// Reads the records of a crawl and, for a committed crawl, their owners, until `each` returns false.
    pub(super) fn read_records(
        &self,
        crawl: &[u8],
        committed: bool,
        mut each: impl FnMut(Page) -> bool,
    ) -> Result<(), Error> {
        for prefix in &self.prefixes {
            if !self.read_shard(prefix, crawl, committed, &mut each)? {
                break;
            }
        }
        Ok(())
    }

    /// Reads the records of a crawl in a shard. Returns false if `each` did.
    fn read_shard(
        &self,
        prefix: &[u8],
        crawl: &[u8],
        committed: bool,
        each: &mut impl FnMut(Page) -> bool,
    ) -> Result<bool, Error> {
        let records = [prefix, b"h:", crawl].concat();
        let merged: &[u8] = match self.profile {
            Profile::Document => b"allhashes",
            Profile::Browsertrix => b"alldupes",
        };
        let merged = [prefix, merged].concat();
        let mut cursor = Some(NO_CURSOR.to_vec());
        let mut read: Vec<Vec<u8>> = Vec::new();
        // One round trip asks for a page, and for the owners of the previous page.
        while cursor.is_some() || !read.is_empty() {
            let batch = Batch::new();
            let next: Option<Pending<Scanned>> = cursor.take().map(|cursor| {
                let mut scan = self.reading("HSCAN", &records);
                scan.arg(cursor).arg("COUNT").arg(PAGE);
                batch.ask(Call::new(scan))
            });
            let owners = self.ask_owners(&batch, &merged, if committed { &read } else { &[] });
            batch.send(&self.server).map_err(Error::Source)?;
            let pairs = std::mem::take(&mut read);
            if let Some(next) = next {
                let (next, page) = next.take().map_err(Error::Source)?;
                cursor = (next != NO_CURSOR).then_some(next);
                read = page;
            }
            if pairs.is_empty() {
                continue;
            }
            let owners = owners.into_iter().map(Pending::take);
            let owners: Vec<Vec<_>> = owners.collect::<Result<_, _>>().map_err(Error::Source)?;
            let owned = pairs.iter().step_by(2).zip(owners.concat());
            let owned = owned.filter(|(_, owner)| owner.as_deref() == Some(crawl));
            let owned = owned.map(|(hash, _)| hash.clone()).collect();
            if !each(Page { pairs, owned }) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Reads the keys that are copied unchanged, one by one.
    pub(super) fn other_keys(&self, scanned: Vec<Vec<u8>>) -> impl Iterator<Item = Kept> {
        let once = ONCE.iter().map(|name| name.as_bytes().to_vec());
        once.chain(scanned).map(|name| Kept {
            value: self.joined(&name),
            name,
        })
    }

    /// Returns the content of a key in all shards.
    fn joined(&self, name: &[u8]) -> Result<Content, Error> {
        let mut all = Content::Nothing;
        for (shard, key) in self.keys(name).enumerate() {
            let mut content = self.content(&key)?;
            if let Content::Hash(pairs) = &mut content
                && shard > 0
            {
                // These are figures of the whole index, which each shard may have.
                let sums = std::mem::take(pairs);
                let sums = sums.chunks_exact(2);
                let sums = sums.filter(|pair| !OF_NO_CRAWL.contains(&&pair[0][..]));
                *pairs = sums.flatten().cloned().collect();
            }
            all.join(content);
        }
        Ok(all)
    }

    fn content(&self, key: &[u8]) -> Result<Content, Error> {
        let kind: String = self.ask(command("TYPE", key))?;
        Ok(match &kind[..] {
            "hash" => Content::Hash(self.scan("HSCAN", Some(key), &[])?),
            "set" => Content::Set(self.scan("SSCAN", Some(key), &[])?),
            "list" => {
                let mut list = command("LRANGE", key);
                list.arg(0).arg(-1);
                Content::List(self.ask(list)?)
            }
            "string" => {
                let value: Option<Vec<u8>> = self.ask(command("GET", key))?;
                value.map_or(Content::Nothing, Content::String)
            }
            "none" => Content::Nothing,
            other => {
                let key = key.escape_ascii();
                return Err(Error::Refused(format!(
                    "the source has a {other} at {key}: it belongs to another program"
                )));
            }
        })
    }
}

/// Returns the pattern of a scan for all keys with a prefix.
pub(super) fn pattern(prefix: &[u8]) -> Vec<u8> {
    let mut pattern = Vec::new();
    for &byte in prefix {
        if b"*?[]\\^".contains(&byte) {
            pattern.push(b'\\');
        }
        pattern.push(byte);
    }
    pattern.push(b'*');
    pattern
}

/// Returns true for the name of a reference or of an unsettled revisit. Only a scan finds these keys. `references` is
/// the end of the names of references.
pub(super) fn is_scanned(name: &[u8], references: &[u8]) -> bool {
    let is_unsettled =
        name.starts_with(b"rev:") && (name.ends_with(b":c") || name.ends_with(b":s"));
    let reference = name.strip_suffix(references);
    is_unsettled || reference.is_some_and(|id| !id.contains(&b':'))
}

/// Returns the prefixes of the shards of an index. Refuses an index with an operation that not all shards have finished.
fn shards(server: &Server, name: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
    let found = Sharded::find(server, name).map_err(Error::Source)?;
    let Some(index) = found else {
        return Err(Error::Refused(format!(
            "the source has no sharded index with the name '{}'",
            name.escape_ascii()
        )));
    };
    if let Some(half) = index.unfinished().map_err(Error::Source)?.first() {
        return Err(Error::Refused(format!(
            "an operation on the crawl '{}' has not finished on all shards: send it again, or wait for it",
            half.crawl.escape_ascii()
        )));
    }
    let prefixes = index.shards().iter();
    Ok(prefixes.map(|shard| shard.prefix().to_vec()).collect())
}

pub(super) fn command(name: &str, key: &[u8]) -> Cmd {
    let mut command = redis::cmd(name);
    command.arg(key);
    command
}

/// Joins pairs, because RESP3 returns a hash as a map.
fn flat(pairs: Vec<(Vec<u8>, Vec<u8>)>) -> Vec<Vec<u8>> {
    pairs.into_iter().flat_map(|(a, b)| [a, b]).collect()
}
