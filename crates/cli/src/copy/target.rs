//! The copy: an index on a server with the module, written by commands that can be repeated.

use std::cell::Cell;
use std::collections::{BTreeMap, HashSet};

use crawlspace_client::dedupe::{CrawlState, Listed, Profile, Storage};
use crawlspace_client::{Ask, Batch, Call, Code, Pending, Server, redis};
use crawlspace_index::Work;
use redis::{Cmd, FromRedisValue, Value};

use super::source::{Content, NO_CURSOR, Page, Scanned, command, is_scanned, pattern};
use super::{Crawls, Error, PACK_AFTER, PAGE, Standing};
use crate::any_index::{AnyIndex, IndexName, OpenError};

/// Replaces a list in one step, because pushing the same members twice would not give the same list.
const REPLACE: &str = "redis.call('DEL', KEYS[1])
for i = 1, #ARGV do redis.call('RPUSH', KEYS[1], ARGV[i]) end";
/// Writes owners of a packed index to a plain hash under the key of the merged index, which the next `DEDUPE.PACK`
/// packs. First deletes the marker under this key.
const OWN: &str =
    "if redis.call('TYPE', KEYS[1]).ok == 'crawlmark' then redis.call('DEL', KEYS[1]) end
redis.call('HSET', KEYS[1], unpack(ARGV))";

/// Scans on the node that has the key, which a plain `SCAN` may miss in a cluster.
const SCAN: &str = "return redis.call('SCAN', ARGV[1], 'MATCH', ARGV[2], 'COUNT', ARGV[3])";

/// The target of a copy. In a sharded index, the records and their owners are in the shard of their hash, the sets of
/// crawls are in all shards, and the other keys are in the home shard.
pub(super) struct Target {
    index: AnyIndex,
    packed: bool,
    profile: Profile,
    /// Number of records that were written since the index was last packed.
    unpacked: Cell<u64>,
}

impl Target {
    pub(super) fn open(url: &str, name: &IndexName, packed: bool) -> Result<Target, Error> {
        let server = Server::open(url).map_err(Error::Target)?;
        let index = name.open(&server).map_err(|error| match error {
            OpenError::Index(error) => Error::Target(error),
            missing @ OpenError::Missing(_) => Error::Refused(missing.to_string()),
        })?;
        Ok(Target {
            index,
            packed,
            profile: Profile::Document,
            unpacked: Cell::new(0),
        })
    }

    fn merged(&self) -> &'static [u8] {
        match self.profile {
            Profile::Document => b"allhashes",
            Profile::Browsertrix => b"alldupes",
        }
    }

    /// Returns the prefixes of the shards, that of the home shard last: a crawl is complete once it is in the home
    /// shard.
    fn prefixes(&self) -> impl Iterator<Item = &[u8]> {
        self.index.shards().iter().rev().map(|shard| shard.prefix())
    }

    /// Sets the profile, and returns the crawls that the target has already. Refuses a target that has
    /// crawls that the source does not have.
    pub(super) fn prepare(&mut self, profile: Profile, crawls: &Crawls) -> Result<Crawls, Error> {
        let stats = self.index.stats().map_err(Error::Target)?;
        self.profile = profile;
        self.packed |= stats.storage != Storage::Plain;
        if stats.storage != Storage::Plain && stats.hashes > 0 {
            // A record that an interrupted run wrote again is in both storages, and would count twice.
            self.pack()?;
        }
        let there = self.there(crawls)?;
        if stats.profile != profile {
            self.index.set_profile(profile).map_err(Error::Target)?;
        }
        Ok(there)
    }

    /// Returns the crawls of the target. Refuses a target that has crawls that the source does not have.
    pub(super) fn there(&self, crawls: &Crawls) -> Result<Crawls, Error> {
        let target = Error::Target;
        let mut there = Crawls::new();
        for listed in self.index.crawls(None).map_err(target)? {
            let (committed, uncommitted) = match listed.standing.state {
                CrawlState::Committed => (true, false),
                CrawlState::Continued => (true, true),
                CrawlState::Uncommitted => (false, true),
                _ => (false, false),
            };
            let records = listed.standing.hashes;
            if listed.standing.state == CrawlState::Canceled && records == 0 {
                // Nothing is left of the crawl but its id in `canceledcrawls`.
                continue;
            }
            refuse_unknown(&listed.crawl, crawls)?;
            let standing = Standing {
                committed,
                uncommitted,
                records,
            };
            there.insert(listed.crawl, standing);
        }
        for (crawl, standing) in crawls {
            if standing.committed || standing.uncommitted {
                continue;
            }
            let stats = match self.index.crawl_stats(crawl) {
                Ok(stats) => stats,
                Err(error) if error.code() == Some(Code::NoCrawl) => continue,
                Err(error) => return Err(target(error)),
            };
            if stats.state == CrawlState::Unlisted {
                let records = stats.hashes;
                there.insert(
                    crawl.clone(),
                    Standing {
                        records,
                        ..*standing
                    },
                );
            }
        }
        Ok(there)
    }

    /// Refuses a target with records of a crawl that is in none of its sets of crawls, if the source does not have the
    /// crawl.
    pub(super) fn refuse_unlisted(&self, crawls: &Crawls) -> Result<(), Error> {
        let unlisted = self.index.crawls(Some(Listed::Unlisted));
        let unlisted = unlisted.map_err(Error::Target)?;
        unlisted
            .iter()
            .try_for_each(|listed| refuse_unknown(&listed.crawl, crawls))
    }

    /// Gives small keys exactly this content. Deletes keys without content.
    pub(super) fn replace(&self, keys: &[(Vec<u8>, Content)]) -> Result<(), Error> {
        let batch = Batch::new();
        let mut asked = Vec::new();
        let mut sizes = Vec::new();
        for (name, content) in keys {
            let key = self.home_key(name);
            if content.is_empty() {
                let delete = Call::new(command("DEL", &key));
                asked.push(batch.ask(delete.repeatable()));
                continue;
            }
            self.put(&batch, &mut asked, name, content);
            let (size, members): (_, HashSet<&[u8]>) = match content {
                Content::Hash(pairs) => ("HLEN", pairs.iter().step_by(2).map(|v| &v[..]).collect()),
                Content::Set(members) => ("SCARD", members.iter().map(|v| &v[..]).collect()),
                _ => continue,
            };
            let size = batch.ask(Call::<u64>::new(command(size, &key)).repeatable());
            sizes.push((key, content, members, size));
        }
        self.send(&batch, asked)?;
        for (key, content, members, size) in sizes {
            if size.take().map_err(Error::Target)? > members.len() as u64 {
                self.remove_others(&key, content, &members)?;
            }
        }
        Ok(())
    }

    /// Removes all other fields of a hash or members of a set.
    fn remove_others(
        &self,
        key: &[u8],
        content: &Content,
        members: &HashSet<&[u8]>,
    ) -> Result<(), Error> {
        let (list, remove) = match content {
            Content::Hash(_) => ("HKEYS", "HDEL"),
            _ => ("SMEMBERS", "SREM"),
        };
        let there: Vec<Vec<u8>> = self.ask(command(list, key))?;
        let others: Vec<_> = there
            .iter()
            .filter(|member| !members.contains(&member[..]))
            .collect();
        for some in others.chunks(PAGE) {
            let mut command = command(remove, key);
            command.arg(some);
            self.ask::<u64>(command)?;
        }
        Ok(())
    }

    /// Deletes the references and the unsettled revisits whose names are not in this sorted list.
    pub(super) fn delete_others(&self, names: &[Vec<u8>]) -> Result<(), Error> {
        let prefix = self.index.home().prefix();
        let pattern = pattern(prefix);
        let page = PAGE.to_string();
        let mut cursor = NO_CURSOR.to_vec();
        loop {
            let arguments = [&cursor[..], &pattern, page.as_bytes()];
            // After a failover, a cursor may mean something else, so this call is not repeated.
            let scan =
                Call::<Scanned>::new(script(SCAN, &self.home_key(b"crawlspace"), &arguments));
            let server = self.index.home().server();
            let (next, page) = server.ask(scan).map_err(Error::Target)?;
            for key in page {
                let is_other = key.strip_prefix(prefix).is_some_and(|name| {
                    is_scanned(name, self.profile.references())
                        && names.binary_search_by(|known| known[..].cmp(name)).is_err()
                });
                if is_other {
                    self.ask::<u64>(command("DEL", &key))?;
                }
            }
            if next == NO_CURSOR {
                return Ok(());
            }
            cursor = next;
        }
    }

    /// Adds this content to a key. Replaces the values of existing fields, and lists and strings.
    pub(super) fn write_key(&self, name: &[u8], content: &Content) -> Result<(), Error> {
        let batch = Batch::new();
        let mut asked = Vec::new();
        self.put(&batch, &mut asked, name, content);
        self.send(&batch, asked)
    }

    fn home_key(&self, name: &[u8]) -> Vec<u8> {
        [self.index.home().prefix(), name].concat()
    }

    /// Sends a command that can be repeated.
    fn ask<T: FromRedisValue + Send + 'static>(&self, command: Cmd) -> Result<T, Error> {
        let call = Call::new(command).repeatable();
        self.index.home().server().ask(call).map_err(Error::Target)
    }

    fn put(&self, batch: &Batch, asked: &mut Vec<Pending<Value>>, name: &[u8], content: &Content) {
        let key = self.home_key(name);
        let mut chunks = |command: &str, members: &[Vec<u8>]| {
            for some in members.chunks(2 * PAGE) {
                let mut write = redis::cmd(command);
                write.arg(&key).arg(some);
                asked.push(batch.ask(Call::new(write).repeatable()));
            }
        };
        match content {
            Content::Hash(pairs) => chunks("HSET", pairs),
            Content::Set(members) => chunks("SADD", members),
            Content::List(members) if !members.is_empty() => {
                asked.push(batch.ask(Call::new(script(REPLACE, &key, members)).repeatable()));
            }
            Content::String(value) => chunks("SET", std::slice::from_ref(value)),
            Content::List(_) | Content::Nothing => {}
        }
    }

    fn send(&self, batch: &Batch, asked: Vec<Pending<Value>>) -> Result<(), Error> {
        batch
            .send(self.index.home().server())
            .map_err(Error::Target)?;
        for reply in asked {
            reply.take().map_err(Error::Target)?;
        }
        Ok(())
    }

    /// Writes records of a crawl, and the crawl as the owner of its hashes.
    pub(super) fn write_page(&self, crawl: &[u8], page: &Page) -> Result<(), Error> {
        let batch = Batch::new();
        let mut asked = Vec::new();
        let mut written: BTreeMap<&[u8], Vec<&[u8]>> = BTreeMap::new();
        for pair in page.pairs.chunks_exact(2) {
            let fields = written.entry(self.index.shard_of(&pair[0]).prefix());
            fields.or_default().extend(pair.iter().map(Vec::as_slice));
        }
        for (prefix, pairs) in written {
            for some in pairs.chunks(2 * PAGE) {
                let mut write = redis::cmd("HSET");
                write.arg([prefix, b"h:", crawl].concat()).arg(some);
                asked.push(batch.ask(Call::new(write).repeatable()));
            }
        }
        let mut owned: BTreeMap<&[u8], Vec<&[u8]>> = BTreeMap::new();
        for hash in &page.owned {
            let fields = owned.entry(self.index.shard_of(hash).prefix());
            fields.or_default().extend([hash, crawl]);
        }
        for (prefix, pairs) in owned {
            let merged = [prefix, self.merged()].concat();
            for some in pairs.chunks(2 * PAGE) {
                let write = if self.packed {
                    script(OWN, &merged, some)
                } else {
                    let mut write = redis::cmd("HSET");
                    write.arg(&merged).arg(some);
                    write
                };
                asked.push(batch.ask(Call::new(write).repeatable()));
            }
        }
        let unpacked = self.unpacked.get() + page.records() as u64;
        self.unpacked.set(unpacked);
        self.send(&batch, asked)
    }

    /// Adds a crawl to the sets of crawls, after all of its records were written.
    pub(super) fn list(&self, crawl: &[u8], standing: Standing) -> Result<(), Error> {
        for prefix in self.prefixes() {
            let batch = Batch::new();
            let mut asked = Vec::new();
            for (set, is_member) in [
                (&b"uncommittedcrawls"[..], standing.uncommitted),
                (b"allcrawls", standing.committed),
            ] {
                if is_member {
                    let mut add = redis::cmd("SADD");
                    add.arg([prefix, set].concat()).arg(crawl);
                    asked.push(batch.ask(Call::new(add).repeatable()));
                }
            }
            self.send(&batch, asked)?;
        }
        if self.packed && self.unpacked.get() >= PACK_AFTER {
            self.pack()?;
        }
        Ok(())
    }

    /// Gives a committed crawl the next number in the order of commits. The commit merges nothing, because
    /// the crawl is in `allcrawls`.
    pub(super) fn number(&self, crawl: &[u8], standing: Standing) -> Result<(), Error> {
        if standing.committed && !standing.uncommitted {
            self.index.commit(crawl).map_err(Error::Target)?;
        }
        Ok(())
    }

    fn pack(&self) -> Result<(), Error> {
        self.index.pack().map_err(Error::Target)?;
        self.unpacked.set(0);
        Ok(())
    }

    /// Ends the copy: removes crawls from `uncommittedcrawls` that an earlier run added and that are not uncommitted
    /// anymore. Packs the remaining records.
    pub(super) fn finish(&self, crawls: &Crawls, work: &Work) -> Result<Storage, Error> {
        let ended = crawls.iter().filter(|(_, standing)| !standing.uncommitted);
        let ended: Vec<&[u8]> = ended.map(|(crawl, _)| &crawl[..]).collect();
        for some in ended.chunks(PAGE) {
            for prefix in self.prefixes() {
                let mut remove = redis::cmd("SREM");
                let key = [prefix, b"uncommittedcrawls"].concat();
                remove.arg(key).arg(some);
                self.ask::<u64>(remove)?;
            }
        }
        if self.packed {
            work.begin("packing", 0);
            self.pack()?;
        }
        let stats = self.index.stats().map_err(Error::Target)?;
        Ok(stats.storage)
    }
}

/// Refuses a crawl of the target that the source does not have.
fn refuse_unknown(crawl: &[u8], crawls: &Crawls) -> Result<(), Error> {
    if crawls.contains_key(crawl) {
        return Ok(());
    }
    let crawl = crawl.escape_ascii();
    Err(Error::Refused(format!(
        "the target has the crawl '{crawl}', which the source does not have: copy to a prefix without an index"
    )))
}

/// Makes a script call with one key.
fn script(script: &str, key: &[u8], arguments: &[impl redis::ToRedisArgs]) -> Cmd {
    let mut eval = redis::cmd("EVAL");
    eval.arg(script).arg(1).arg(key).arg(arguments);
    eval
}
