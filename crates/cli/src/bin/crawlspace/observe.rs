//! Queries the state of a server with a few cheap commands: `INFO crawlspace`, and statistics of the data sets that it
//! names.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::Duration;

use crawlspace_cli::any_index::{IndexName, OpenError};
use crawlspace_client::dedupe::{Index, Stats};
use crawlspace_client::frontier::{self, Frontier, Queue};
use crawlspace_client::server::without_password;
use crawlspace_client::tags::{self, TagSpace};
use crawlspace_client::{Ask, Batch, Call, Error, Pending, Server, redis};

use crate::terminal::{Bytes, plain};

/// Timeout of a command.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Number of crawls sampled to estimate the memory of an index.
const SAMPLES: u32 = 4;
/// Number of commands per round trip. A round trip costs the server as much as one such command,
/// but other clients wait until all commands of the round trip are done.
const AT_ONCE: usize = 16;

/// A data set: its database, and its prefix or key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Name {
    pub(crate) db: u32,
    pub(crate) name: Vec<u8>,
}

impl Name {
    /// Returns the name as text for people and programs.
    pub(crate) fn text(&self) -> String {
        plain(&self.name)
    }
}

/// Formats a prefix or key for tables: with the number of its database unless that is 0.
pub(crate) fn shown(db: u32, name: &str) -> String {
    match (db, name) {
        (0, "") => "''".to_owned(),
        (0, name) => name.to_owned(),
        _ => quoted(db, name),
    }
}

/// Formats a prefix or key for sentences.
fn quoted(db: u32, name: &str) -> String {
    match db {
        0 => format!("'{name}'"),
        db => format!("'{name}' in db {db}"),
    }
}

/// A kind of data set.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Index,
    Frontier,
    Space,
}

/// Maximum number of data sets listed in a message.
const NAMED: usize = 20;

/// Makes the error for a prefix or key without data, which lists the existing data sets.
pub(crate) fn missing(url: &str, kind: Kind, name: &[u8]) -> io::Error {
    let (one, many, by) = match kind {
        Kind::Index => ("index", "indexes", "prefix"),
        Kind::Frontier => ("frontier", "frontiers", "prefix"),
        Kind::Space => ("tag space", "tag spaces", "key"),
    };
    let wanted = Wanted {
        limit: NAMED,
        ..Wanted::default()
    };
    let seen = Observed::new(url).look(&wanted);
    let exist = seen.map(|seen| match kind {
        Kind::Index => seen.indexes.shown(),
        Kind::Frontier => seen.frontiers.shown(),
        Kind::Space => seen.spaces.shown(),
    });
    let exist = match exist {
        Ok(exist) if exist.is_empty() => format!("; no {one} was used since the server started"),
        Ok(exist) => format!("; {many} used since the server started: {exist}"),
        // The user may lack the permission to list the data sets.
        Err(_) => String::new(),
    };
    let name = quoted(database(url), &plain(name));
    io::Error::other(format!("no {one} has the {by} {name}{exist}"))
}

/// A running job.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    /// The index or frontier.
    pub(crate) of: Name,
    pub(crate) work: String,
    /// The crawl or other object that the job works on.
    pub(crate) what: Vec<u8>,
    pub(crate) done: u64,
    pub(crate) total: u64,
}

impl Job {
    /// Returns the fraction that is done; `None` while unknown.
    pub(crate) fn part(&self) -> Option<f64> {
        (self.total > 0).then(|| self.done as f64 / self.total as f64)
    }
}

/// A leased group.
#[derive(Clone, Debug)]
pub(crate) struct Busy {
    pub(crate) chg: Vec<u8>,
    /// Deadline of its first lease.
    pub(crate) until: u64,
}

/// Data sets of one kind.
#[derive(Debug)]
pub(crate) struct Seen<T> {
    pub(crate) figures: Vec<(Name, T)>,
    /// Number of further data sets.
    pub(crate) others: u64,
}

impl<T> Seen<T> {
    fn shown(&self) -> String {
        let names = self
            .figures
            .iter()
            .map(|(name, _)| quoted(name.db, &name.text()));
        names.collect::<Vec<_>>().join(", ")
    }
}

/// Current state of a server.
pub(crate) struct Observation {
    /// Numeric fields of `INFO`. The prefix `crawlspace_` of the module's fields is removed.
    pub(crate) info: BTreeMap<String, u64>,
    /// Text fields of the server's own `INFO`.
    pub(crate) texts: BTreeMap<String, String>,
    pub(crate) indexes: Seen<Stats>,
    pub(crate) frontiers: Seen<frontier::Info>,
    pub(crate) spaces: Seen<tags::Info>,
    pub(crate) jobs: Vec<Job>,
    /// Groups of each frontier whose leases expire first.
    pub(crate) busy: BTreeMap<Name, Vec<Busy>>,
}

/// Data sets that are always queried, in the database of the URL.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    pub(crate) indexes: Vec<Bytes>,
    pub(crate) frontiers: Vec<Bytes>,
    pub(crate) spaces: Vec<Bytes>,
    /// Sharded indexes, whose shards are left out.
    pub(crate) sharded: Vec<Bytes>,
    /// Maximum number of data sets of each kind.
    pub(crate) limit: usize,
    /// Number of groups listed per frontier, those whose leases expire first.
    pub(crate) busy: u32,
}

/// A server that is queried repeatedly over one connection, with or without a cluster.
pub(crate) struct Observed {
    url: String,
    server: Option<Server>,
}

impl Observed {
    pub(crate) fn new(url: &str) -> Observed {
        Observed {
            url: url.to_owned(),
            server: None,
        }
    }

    /// Queries the server, and fails if it has not loaded the module. The next call replaces a broken connection.
    pub(crate) fn look(&mut self, wanted: &Wanted) -> io::Result<Observation> {
        let looked = self
            .connected()
            .and_then(|server| Look { server, db: None }.at(&self.url, wanted));
        if looked.is_err() {
            self.server = None;
        }
        let seen = looked.map_err(io::Error::other)?;
        if !seen.info.contains_key("lookups") {
            return Err(io::Error::other(format!(
                "{}: the server has not loaded the Crawlspace module: start it with --loadmodule libcrawlspace.so",
                without_password(&self.url)
            )));
        }
        Ok(seen)
    }

    /// Returns the running jobs.
    pub(crate) fn jobs(&mut self) -> Result<Vec<Job>, Error> {
        let server = self.connected()?;
        let info = Look { server, db: None }.info(&["crawlspace"])?;
        Ok(Fields::read(&info).jobs)
    }

    fn connected(&mut self) -> Result<Server, Error> {
        if let Some(server) = &self.server {
            return Ok(server.clone());
        }
        let server = Server::options(&self.url)
            .only_one()
            .timeout(TIMEOUT)
            .job_timeout(TIMEOUT)
            .retries(0)
            .open()?;
        self.server = Some(server.clone());
        Ok(server)
    }
}

/// Servers of sharded indexes. Each index is on one of the servers, or on the cluster to which a server belongs.
pub(crate) struct ShardedIndexes {
    /// URLs, each with its connection.
    servers: Vec<(String, Option<Server>)>,
}

impl ShardedIndexes {
    pub(crate) fn new(urls: &[String]) -> ShardedIndexes {
        ShardedIndexes {
            servers: urls.iter().map(|url| (url.clone(), None)).collect(),
        }
    }

    /// Returns the sums over all shards of a sharded index. The next call replaces a broken connection.
    pub(crate) fn stats(&mut self, name: &Bytes) -> io::Result<(Name, Stats)> {
        let mut failed = None;
        for (url, server) in &mut self.servers {
            match sum_of_shards(url, server, name) {
                Ok(stats) => {
                    let (db, name) = (database(url), name.as_bytes().to_vec());
                    return Ok((Name { db, name }, stats));
                }
                Err(error) => {
                    *server = None;
                    // The index may be on a server that is down.
                    if !matches!(failed, Some(OpenError::Index(_))) {
                        failed = Some(error);
                    }
                }
            }
        }
        Err(failed.map_or_else(|| io::Error::other("no server is given"), io::Error::other))
    }
}

fn sum_of_shards(
    url: &str,
    connection: &mut Option<Server>,
    name: &Bytes,
) -> Result<Stats, OpenError> {
    let server = match connection {
        Some(server) => server,
        None => {
            let options = Server::options(url).timeout(TIMEOUT).job_timeout(TIMEOUT);
            connection.insert(options.retries(0).open()?)
        }
    };
    let name = IndexName::Sharded(name.as_bytes().to_vec(), None);
    Ok(name.open(server)?.sampled_stats(SAMPLES)?)
}

/// Returns true if a prefix is the prefix of a shard of the index with this name: `{name-0}:` or `{name-7.1}:`.
fn is_shard(prefix: &[u8], name: &[u8]) -> bool {
    let number = prefix
        .strip_prefix(b"{")
        .and_then(|rest| rest.strip_prefix(name)?.strip_prefix(b"-"))
        .and_then(|rest| std::str::from_utf8(rest.strip_suffix(b"}:")?).ok());
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    number.is_some_and(|number| match number.split_once('.') {
        Some((shard, salt)) => is_number(shard) && is_number(salt),
        None => number == "0",
    })
}

/// Returns true if an index with these statistics contains data.
pub(crate) fn is_index(stats: &Stats) -> bool {
    stats.hashes + stats.crawls + stats.uncommitted + stats.total_urls + stats.removed_crawls > 0
}

/// Returns true if a frontier with these statistics contains data or is used by workers.
pub(crate) fn is_frontier(info: &frontier::Info) -> bool {
    let groups = info.groups_waiting + info.groups_ready + info.groups_busy + info.groups_idle;
    let queued = groups + info.groups_gated + info.uris + info.executions;
    queued + info.waiters + info.leases + info.expired_reports > 0 || info.paused != "0"
}

/// Returns true if a tag space with these statistics contains data.
pub(crate) fn is_space(info: &tags::Info) -> bool {
    let staged = info.staged_record_ids + info.staged_file_ids + info.staged_tag_ids;
    info.record_ids + info.file_ids + info.tag_ids + staged + info.rules + info.points > 0
}

/// Data sets of one kind to query.
struct Sought {
    /// Data sets named by the caller.
    named: Vec<Name>,
    /// Data sets named by `INFO`.
    found: Vec<Name>,
    /// Number of data sets counted by `INFO`.
    count: u64,
    /// Maximum number of data sets with statistics.
    limit: usize,
}

/// A single query of a server, over a connection with a selected database.
struct Look {
    server: Server,
    db: Option<u32>,
}

impl Look {
    fn at(mut self, url: &str, wanted: &Wanted) -> Result<Observation, Error> {
        let sections = ["memory", "persistence", "replication", "crawlspace"];
        let fields = Fields::read(&self.info(&sections)?);
        let db = database(url);
        let limit = wanted.limit;
        let count = |name: &str| fields.info.get(name).copied().unwrap_or(0);
        let all = |what: &str, wanted: &[Bytes], count: u64| {
            let named = wanted.iter().map(|name| Name {
                db,
                name: name.as_bytes().to_vec(),
            });
            let named: BTreeSet<Name> = named.collect();
            let found = fields.names.get(what).into_iter().flatten();
            let found = found.filter(|name| !named.contains(name)).cloned();
            Sought {
                count,
                limit,
                found: found.collect(),
                named: named.into_iter().collect(),
            }
        };
        let mut indexes = all("index", &wanted.indexes, count("indexes"));
        let found = indexes.found.len();
        let sharded = |name: &Name| {
            let mut sharded = wanted.sharded.iter();
            name.db == db && sharded.any(|index| is_shard(&name.name, index.as_bytes()))
        };
        indexes.found.retain(|name| !sharded(name));
        let shards = (found - indexes.found.len()) as u64;
        indexes.count = indexes.count.saturating_sub(shards);
        let frontiers = all("frontier", &wanted.frontiers, count("frontiers"));
        let spaces = all("space", &wanted.spaces, count("tags_spaces"));
        let indexes = self.each(indexes, is_index, |batch, prefix| {
            Index::on(batch, prefix).sampled_stats(SAMPLES)
        })?;
        let frontiers = self.each(frontiers, is_frontier, |batch, prefix| {
            Frontier::on(batch, prefix).info()
        })?;
        let busy = match wanted.busy {
            0 => BTreeMap::new(),
            most => self.busy(&frontiers.figures, most)?,
        };
        let spaces = self.each(spaces, is_space, |batch, key| {
            TagSpace::on(batch, key).info()
        })?;
        Ok(Observation {
            info: fields.info,
            texts: fields.texts,
            indexes,
            frontiers,
            spaces,
            jobs: fields.jobs,
            busy,
        })
    }

    fn info(&self, sections: &[&str]) -> Result<String, Error> {
        let mut info = redis::cmd("INFO");
        info.arg(sections);
        self.server.ask(Call::new(info))
    }

    /// Returns the groups of each frontier whose leases expire first, up to `most`.
    fn busy(
        &mut self,
        frontiers: &[(Name, frontier::Info)],
        most: u32,
    ) -> Result<BTreeMap<Name, Vec<Busy>>, Error> {
        let names = frontiers.iter().filter(|(_, info)| info.groups_busy > 0);
        let names = names.map(|(name, _)| name.clone()).collect();
        let sought = Sought {
            named: names,
            found: Vec::new(),
            count: 0,
            limit: usize::MAX,
        };
        let pages = self.each(
            sought,
            |_| true,
            |batch, prefix| Frontier::on(batch, prefix).list(Some(Queue::Busy), None, most),
        )?;
        let busy = pages.figures.into_iter().map(|(name, page)| {
            let groups = page.entries.into_iter().map(|group| Busy {
                chg: group.chg,
                until: group.due,
            });
            (name, groups.collect())
        });
        Ok(busy.collect())
    }

    /// Queries the statistics of each data set until the limit is reached. Leaves out empty data sets unless the caller
    /// named them. Data sets that the server refuses to show are only counted, in `others`.
    fn each<T>(
        &mut self,
        sought: Sought,
        holds: impl Fn(&T) -> bool,
        ask: impl Fn(&Batch, Vec<u8>) -> Pending<T>,
    ) -> Result<Seen<T>, Error> {
        let mut figures = Vec::new();
        let mut empty = 0;
        let named = sought.named.len();
        let names = [sought.named, sought.found].concat();
        let mut from = 0;
        while from < names.len() && figures.len() < sought.limit {
            let db = names[from].db;
            self.select(db)?;
            let most = AT_ONCE.min(sought.limit - figures.len());
            let some = names[from..].iter().take(most);
            let some: Vec<&Name> = some.take_while(|name| name.db == db).collect();
            let batch = Batch::new();
            let asked = some.iter().map(|name| ask(&batch, name.name.clone()));
            let asked: Vec<Pending<T>> = asked.collect();
            batch.send(&self.server)?;
            for (at, (name, answer)) in (from..).zip(some.iter().zip(asked)) {
                match answer.take() {
                    Ok(of) if at < named || holds(&of) => figures.push(((*name).clone(), of)),
                    Ok(_) => empty += 1,
                    Err(error) if error.is_connection() => return Err(error),
                    Err(_) => {}
                }
            }
            from += some.len();
        }
        let all = sought.count.max(names.len() as u64);
        let others = all - empty - figures.len() as u64;
        Ok(Seen { figures, others })
    }

    fn select(&mut self, db: u32) -> Result<(), Error> {
        if self.db != Some(db) {
            let mut select = redis::cmd("SELECT");
            select.arg(db);
            self.server.ask(Call::<redis::Value>::new(select))?;
            self.db = Some(db);
        }
        Ok(())
    }
}

/// Returns the number of the database in a URL.
pub(crate) fn database(url: &str) -> u32 {
    let client = redis::Client::open(url);
    client.map_or(0, |client| {
        let db = client.get_connection_info().redis_settings().db();
        u32::try_from(db).unwrap_or(0)
    })
}

/// Parsed fields of `INFO`.
#[derive(Default)]
struct Fields {
    info: BTreeMap<String, u64>,
    texts: BTreeMap<String, String>,
    names: BTreeMap<String, Vec<Name>>,
    jobs: Vec<Job>,
}

impl Fields {
    fn read(text: &str) -> Fields {
        let mut fields = Fields::default();
        for line in text.lines() {
            let Some((name, value)) = line.split_once(':') else {
                continue;
            };
            let name = name.strip_prefix("crawlspace_").unwrap_or(name);
            if let Ok(n) = value.parse() {
                fields.info.insert(name.to_owned(), n);
            } else if value.starts_with("db=") {
                let kind = name.rsplit_once('_').map_or(name, |(kind, _)| kind);
                fields.list(kind, value);
            } else {
                fields.texts.insert(name.to_owned(), value.to_owned());
            }
        }
        fields
    }

    /// Parses a line that names a data set or a job.
    fn list(&mut self, kind: &str, value: &str) {
        let pairs = value.split(',').filter_map(|pair| pair.split_once('='));
        let pairs: BTreeMap<&str, &str> = pairs.collect();
        let number = |name: &str| pairs.get(name).and_then(|n| n.parse().ok()).unwrap_or(0);
        let bytes = |name: &str| {
            pairs
                .get(name)
                .map_or_else(Vec::new, |text| unescaped(text))
        };
        let by = if kind == "space" { "key" } else { "prefix" };
        let of = Name {
            db: number("db") as u32,
            name: bytes(by),
        };
        if kind != "job" {
            self.names.entry(kind.to_owned()).or_default().push(of);
            return;
        }
        self.jobs.push(Job {
            of,
            work: pairs.get("work").unwrap_or(&"").to_string(),
            what: bytes("of"),
            done: number("done"),
            total: number("total"),
        });
    }
}

/// Unescapes bytes that `INFO crawlspace` wrote as `\x2c`.
fn unescaped(text: &str) -> Vec<u8> {
    let mut pieces = text.split("\\x");
    let mut bytes = pieces.next().unwrap_or_default().as_bytes().to_vec();
    for piece in pieces {
        let digits = piece
            .get(..2)
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        bytes.extend(digits);
        bytes.extend_from_slice(piece.get(2..).unwrap_or_default().as_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_have_the_name_of_their_index() {
        for prefix in ["{coll-42-0}:", "{coll-42-7.1}:", "{coll-42-10.123}:"] {
            assert!(is_shard(prefix.as_bytes(), b"coll-42"), "{prefix}");
        }
        for prefix in [
            "",
            "{coll-42}:",
            "{coll-42-7}:",
            "{coll-42-7.}:",
            "{coll-42-7.1}",
            "{coll-42-x.1}:",
            "{coll-421-0}:",
        ] {
            assert!(!is_shard(prefix.as_bytes(), b"coll-42"), "{prefix}");
        }
    }

    #[test]
    fn names_and_jobs_are_parsed_from_info() {
        let text = "# crawlspace_\r\ncrawlspace_lookups:12\r\ncrawlspace_index_0:db=3,prefix={a}\\x2c\\xc3\\xa9:\r\n\
            crawlspace_space_0:db=0,key=archive\r\n\
            crawlspace_job_0:db=3,prefix={a}:,kind=index,work=commit,of=crawl-1,done=5,total=20\r\nrole:master\r\n";
        let fields = Fields::read(text);
        assert_eq!(fields.info["lookups"], 12);
        assert_eq!(fields.texts["role"], "master");
        let index = &fields.names["index"][0];
        assert_eq!((index.db, &index.name[..]), (3, "{a},\u{e9}:".as_bytes()));
        assert_eq!(fields.names["space"][0].name, b"archive");
        let job = &fields.jobs[0];
        assert_eq!((&job.work[..], &job.what[..]), ("commit", &b"crawl-1"[..]));
        assert_eq!(job.part(), Some(0.25));
    }
}
