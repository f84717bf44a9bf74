//! The copy: an index on a server with the module, written by commands that can be repeated.

use std::cell::Cell;
use std::collections::BTreeMap;

use crawlspace_client::dedupe::{CrawlState, Profile, Storage};
use crawlspace_client::{Ask, Batch, Call, Code, Pending, Server, redis};
use crawlspace_index::Work;
use redis::{Cmd, Value};

use super::source::{Content, Details, Page};
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
        let target = Error::Target;
        let stats = self.index.stats().map_err(target)?;
        self.profile = profile;
        self.packed |= stats.storage != Storage::Plain;
        let mut there = Crawls::new();
        for listed in self.index.crawls(None).map_err(target)? {
            let (committed, uncommitted) = match listed.standing.state {
                CrawlState::Committed => (true, false),
                CrawlState::Continued => (true, true),
                CrawlState::Uncommitted => (false, true),
                _ => (false, false),
            };
            if !crawls.contains_key(&listed.crawl) {
                let crawl = listed.crawl.escape_ascii();
                return Err(Error::Refused(format!(
                    "the target has the crawl '{crawl}', which the source does not have: copy to a prefix without an \
                     index"
                )));
            }
            let records = listed.standing.hashes;
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
        if stats.profile != profile {
            self.index.set_profile(profile).map_err(target)?;
        }
        Ok(there)
    }

    /// Writes the small keys of a crawl.
    pub(super) fn write(&self, keys: Details) -> Result<(), Error> {
        let batch = Batch::new();
        let mut asked = Vec::new();
        for (name, content) in keys {
            self.put(&batch, &mut asked, &name, content);
        }
        self.send(&batch, asked)
    }

    /// Writes a key with this content.
    pub(super) fn write_key(&self, name: &[u8], content: Content) -> Result<(), Error> {
        let batch = Batch::new();
        let mut asked = Vec::new();
        self.put(&batch, &mut asked, name, content);
        self.send(&batch, asked)
    }

    fn put(&self, batch: &Batch, asked: &mut Vec<Pending<Value>>, name: &[u8], content: Content) {
        let key = [self.index.home().prefix(), name].concat();
        let mut chunks = |command: &str, members: &[Vec<u8>]| {
            for some in members.chunks(2 * PAGE) {
                let mut write = redis::cmd(command);
                write.arg(&key).arg(some);
                asked.push(batch.ask(Call::new(write).repeatable()));
            }
        };
        match content {
            Content::Hash(pairs) => chunks("HSET", &pairs),
            Content::Set(members) => chunks("SADD", &members),
            Content::List(members) if !members.is_empty() => {
                asked.push(batch.ask(Call::new(script(REPLACE, &key, &members)).repeatable()));
            }
            Content::String(value) => chunks("SET", &[value]),
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

    /// Ends the copy: removes crawls that were committed since an earlier run from `uncommittedcrawls`. Packs
    /// what is left.
    pub(super) fn finish(&self, crawls: &Crawls, work: &Work) -> Result<Storage, Error> {
        let ended = crawls
            .iter()
            .filter(|(_, standing)| standing.committed && !standing.uncommitted);
        let ended: Vec<&[u8]> = ended.map(|(crawl, _)| &crawl[..]).collect();
        for some in ended.chunks(PAGE) {
            for prefix in self.prefixes() {
                let mut remove = redis::cmd("SREM");
                let key = [prefix, b"uncommittedcrawls"].concat();
                remove.arg(key).arg(some);
                let remove = Call::<u64>::new(remove).repeatable();
                let server = self.index.home().server();
                server.ask(remove).map_err(Error::Target)?;
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

/// Makes a script call with one key.
fn script(script: &str, key: &[u8], arguments: &[impl redis::ToRedisArgs]) -> Cmd {
    let mut eval = redis::cmd("EVAL");
    eval.arg(script).arg(1).arg(key).arg(arguments);
    eval
}
