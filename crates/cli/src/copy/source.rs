//! The index that is copied, read by plain commands.

use std::collections::HashMap;

use crawlspace_client::dedupe::Profile;
use crawlspace_client::{Ask, Batch, Call, Pending, Server, redis};
use crawlspace_index::Work;
use redis::{Cmd, FromRedisValue};

use super::{Crawls, Error, PAGE, Standing};

/// Keys that an index has once, besides its sets of crawls and its merged index.
const ONCE: [&str; 7] = [
    "allcounts",
    "canceledcrawls",
    "src:q",
    "src:qset",
    "src:d",
    "pending:q",
    "last_update_ts",
];
/// Endings of keys that begin like the records of a crawl: only the module writes them.
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
/// Reply to a scan: the next cursor, and a part of the elements.
type Scanned = (Vec<u8>, Vec<Vec<u8>>);

/// First and last cursor of a scan.
const NO_CURSOR: &[u8] = b"0";

/// The source, over one connection that is never replaced.
pub(super) struct Source {
    server: Server,
    prefix: Vec<u8>,
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

impl Source {
    /// Connects, and checks that the index can be copied.
    pub(super) fn open(url: &str, prefix: &[u8]) -> Result<Source, Error> {
        let server = Server::options(url).only_one().open();
        let mut source = Source {
            server: server.map_err(Error::Source)?,
            prefix: prefix.to_vec(),
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

    fn key(&self, name: impl AsRef<[u8]>) -> Vec<u8> {
        [&self.prefix[..], name.as_ref()].concat()
    }

    /// Sends a command once. The connection is not replaced, so a cursor always belongs to it.
    fn ask<T: FromRedisValue + Send + 'static>(&self, command: Cmd) -> Result<T, Error> {
        self.server.ask(Call::new(command)).map_err(Error::Source)
    }

    fn exists(&self, name: &str) -> Result<bool, Error> {
        self.ask(command("EXISTS", &self.key(name)))
    }

    /// Returns all members of a set.
    fn members(&self, name: &str) -> Result<Vec<Vec<u8>>, Error> {
        let key = self.key(name);
        self.scan("SSCAN", Some(&key), &[])
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
        let commits = self.scan("HSCAN", Some(&self.key("commits")), &[])?;
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
        for crawl in crawls.keys() {
            let mut first = self.reading("HSCAN", &self.key([b"h:", &crawl[..]].concat()));
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

    /// Scans the names of all keys with the prefix. Adds crawls that are in none of the sets of crawls, and returns
    /// the names of references and of unsettled revisits.
    pub(super) fn scan_keys(
        &self,
        crawls: &mut Crawls,
        work: &Work,
    ) -> Result<Vec<Vec<u8>>, Error> {
        let mut pattern = Vec::new();
        for &byte in &self.prefix {
            if b"*?[]\\^".contains(&byte) {
                pattern.push(b'\\');
            }
            pattern.push(byte);
        }
        pattern.push(b'*');
        let references: &[u8] = match self.profile {
            Profile::Document => b":duperefs",
            Profile::Browsertrix => b":duperef",
        };
        let mut kept = Vec::new();
        for key in self.scan("SCAN", None, &[b"MATCH", &pattern])? {
            let Some(name) = key.strip_prefix(&self.prefix[..]) else {
                continue;
            };
            let is_reference = name.strip_suffix(references);
            let is_unsettled =
                name.starts_with(b"rev:") && (name.ends_with(b":c") || name.ends_with(b":s"));
            if is_unsettled || is_reference.is_some_and(|id| !id.contains(&b':')) {
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
            let prefix = self.prefix.escape_ascii();
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
            let asked: Vec<Pending<u64>> = some
                .iter()
                .map(|(crawl, _)| {
                    let records = self.key([b"h:", &crawl[..]].concat());
                    batch.ask(Call::new(self.reading("HLEN", &records)))
                })
                .collect();
            batch.send(&self.server).map_err(Error::Source)?;
            for ((_, standing), records) in some.iter_mut().zip(asked) {
                standing.records = records.take().map_err(Error::Source)?;
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
        let hash = |name: &[u8]| batch.ask(Call::new(command("HGETALL", &self.key(name))));
        let set = |name: &[u8]| batch.ask(Call::new(command("SMEMBERS", &self.key(name))));
        let hashes = [counts, dependencies].map(|name| (hash(&name), name));
        let sets = [references, requires].map(|name| (set(&name), name));
        let mut list = command("LRANGE", &self.key(&waczs));
        list.arg(0).arg(-1);
        let list = batch.ask(Call::new(list));
        batch.send(&self.server).map_err(Error::Source)?;
        let mut details = vec![(waczs, Content::List(list.take().map_err(Error::Source)?))];
        for (pairs, name) in hashes {
            details.push((
                name,
                Content::Hash(flat(pairs.take().map_err(Error::Source)?)),
            ));
        }
        for (members, name) in sets {
            details.push((name, Content::Set(members.take().map_err(Error::Source)?)));
        }
        Ok(details)
    }

    /// Asks for the owners of hashes, which alternate with their records.
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
        let records = self.key([b"h:", crawl].concat());
        let merged = self.key(match self.profile {
            Profile::Document => "allhashes",
            Profile::Browsertrix => "alldupes",
        });
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
                break;
            }
        }
        Ok(())
    }

    /// Reads the keys that are copied unchanged, one by one.
    pub(super) fn other_keys(&self, scanned: Vec<Vec<u8>>) -> impl Iterator<Item = Kept> {
        let once = ONCE.iter().map(|name| name.as_bytes().to_vec());
        once.chain(scanned).map(|name| Kept {
            value: self.content(&self.key(&name)),
            name,
        })
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

fn command(name: &str, key: &[u8]) -> Cmd {
    let mut command = redis::cmd(name);
    command.arg(key);
    command
}

/// Joins pairs, because RESP3 returns a hash as a map.
fn flat(pairs: Vec<(Vec<u8>, Vec<u8>)>) -> Vec<Vec<u8>> {
    pairs.into_iter().flat_map(|(a, b)| [a, b]).collect()
}
