//! The queue of an import, in Redis: `src:q`, `src:qset`, `src:d` and `pending:q` as the documents have them, so
//! that several importers, on several machines, share the work.
//!
//! The worker that takes a package from `src:q` puts it into `pending:q` and holds a key beside it,
//! `pending:q:<name>`, that expires when the worker no longer renews it. Then another worker takes the
//! package over. All steps are scripts, and each of them but the first looks whether the caller still holds
//! that key: an importer that was stopped for a minute and comes back changes nothing.
//!
//! Revisit records have a queue of their own, `src:r` with `pending:r`, because they can be counted only when
//! every original is in the index.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redis::Cmd;

use super::package::Package;
use super::scripts::{
    ADOPT, CLOSE, COUNT, COUNT_ALL, DROP, ENQUEUE, LEAVE, RENEW, RUN, SCAN, SETTLE, SKIP, TAKE,
    TAKE_THIS,
};
use crawlspace_client::{Ask, Call, Error, Server};

/// Packages in one call that queues them.
const ENQUEUED: usize = 200;
/// A worker takes no more than this part of its share of what is queued, so that all of them have work until the end.
const SHARES: usize = 8;

/// Which queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Packages whose responses are to be added: `src:q`.
    Responses,
    /// Packages whose revisits are to be counted: `src:r`.
    Revisits,
}

/// What there is to do.
#[derive(Debug)]
pub(super) enum Taken {
    /// These packages, and entries that cannot be read, which are out of the queue: their names, as far as they have one,
    /// and what is wrong with them.
    Packages(Vec<Entry>, Vec<(String, String)>),
    /// Nothing, but others are at work on this number of packages.
    Others(u64),
}

/// A package to work on.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub package: Package,
    /// The package as it stands in the queue.
    pub item: Vec<u8>,
    /// The name of the sequence of calls by which it is added, if it has one already.
    pub run: Option<String>,
    /// The package is the only one of its crawl in this import.
    pub is_alone: bool,
}

/// The state of an import after workers were done with packages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Left {
    /// Number of packages not finished.
    pub left: u64,
    /// Number of packages in total.
    pub total: u64,
    /// True for each package that was this worker's, in order.
    pub own: Vec<bool>,
}

/// Records of a package that are counted in one step.
pub(super) struct ToCount<'a> {
    pub package: &'a Package,
    pub item: &'a [u8],
    pub revisits: Vec<(&'a [u8], u64)>,
    pub redundant: Redundant,
}

/// What becomes of a package that an importer is done with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// The package is imported.
    Done,
    /// The package goes on to the next stage; from the last one, to the packages that the next import retries.
    Next,
    /// The package is at fault, and the next import retries it. `partly`: that one goes on with what this one began.
    Failed { partly: bool },
}

/// What became of a batch of revisits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counted {
    /// The batch is counted, now or before.
    Once,
    /// The guard of the package is no longer this worker's.
    Lost,
    /// The crawl was removed.
    Gone,
}

/// Responses that could have been revisits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Redundant {
    /// What revisits in their places would have saved, in bytes.
    pub size: u64,
    pub urls: u64,
}

/// What a manifest added to the queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Enqueued {
    pub new: u64,
    /// Imported before.
    pub done: u64,
    /// Queued by another importer, or by one that died.
    pub underway: u64,
}

/// The state in which earlier imports left a package.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Before {
    /// The package is in `src:d`.
    pub is_imported: bool,
    /// An import has begun the package, and not finished it.
    pub is_begun: bool,
}

/// The queues of one index.
#[derive(Clone)]
pub(super) struct Queue {
    server: Server,
    prefix: Vec<u8>,
    /// The value of this importer's guards, unique to it.
    token: String,
    lease: Duration,
    /// The crawl of entries that other importers queued without one.
    crawl: Option<String>,
}

/// A key holds something that no importer writes.
pub(super) fn broken(key: &str, why: String) -> Error {
    let what = "not written by an importer: repair or delete it";
    let kind = redis::ErrorKind::UnexpectedReturnType;
    Error::new(key, redis::RedisError::from((kind, what, why)))
}

impl Left {
    fn of(reply: &[u64]) -> Left {
        let (counts, own) = reply.split_at(reply.len().min(2));
        Left {
            left: counts.first().copied().unwrap_or(0),
            total: counts.get(1).copied().unwrap_or(0),
            own: own.iter().map(|own| *own == 1).collect(),
        }
    }
}

impl Stage {
    fn queue(self) -> &'static str {
        match self {
            Stage::Responses => "src:q",
            Stage::Revisits => "src:r",
        }
    }

    fn pending(self) -> &'static str {
        match self {
            Stage::Responses => "pending:q",
            Stage::Revisits => "pending:r",
        }
    }
}

impl Queue {
    pub(crate) fn new(
        server: &Server,
        prefix: &[u8],
        token: String,
        lease: Duration,
        crawl: Option<String>,
    ) -> Queue {
        Queue {
            server: server.clone(),
            prefix: prefix.to_vec(),
            token,
            lease,
            crawl,
        }
    }

    /// This queue for another worker, which has guards of its own.
    pub(crate) fn for_worker(&self, number: usize) -> Queue {
        Queue {
            token: format!("{}.{number}", self.token),
            ..self.clone()
        }
    }

    fn key(&self, name: &str) -> Vec<u8> {
        [&self.prefix[..], name.as_bytes()].concat()
    }

    fn key_of(&self, name: &str, of: &[u8]) -> Vec<u8> {
        [&self.prefix[..], name.as_bytes(), b":", of].concat()
    }

    fn guard(&self, stage: Stage, name: &str) -> Vec<u8> {
        self.key_of(stage.pending(), name.as_bytes())
    }

    /// Returns whether any of these crawls has a WACZ list.
    pub(crate) fn have_lists(&self, crawls: &[&str]) -> Result<bool, Error> {
        let mut exist = redis::cmd("EXISTS");
        for crawl in crawls {
            exist.arg(self.key(&format!("c:{crawl}:wacz")));
        }
        let exist: u64 = self.server.ask(Call::new(exist).repeatable())?;
        Ok(exist > 0)
    }

    /// Returns what imports did with these packages before.
    pub(crate) fn standing(&self, names: &[&str]) -> Result<HashMap<String, Before>, Error> {
        let mut standing = HashMap::new();
        for some in names.chunks(ENQUEUED) {
            let mut imported = redis::cmd("SMISMEMBER");
            imported.arg(self.key("src:d")).arg(some);
            let imported: Vec<bool> = self.server.ask(Call::new(imported).repeatable())?;
            let mut begun = redis::cmd("HMGET");
            begun.arg(self.key("src:runs")).arg(some);
            let begun: Vec<Option<String>> = self.server.ask(Call::new(begun).repeatable())?;
            for ((name, is_imported), begun) in some.iter().zip(imported).zip(begun) {
                let is_begun = begun.is_some();
                let before = Before {
                    is_imported,
                    is_begun,
                };
                standing.insert((*name).to_owned(), before);
            }
        }
        Ok(standing)
    }

    /// Queues packages, in this order, that are neither imported nor queued; not all of them if it is stopped.
    pub(crate) fn enqueue(
        &self,
        packages: &[Package],
        stop: &AtomicBool,
    ) -> Result<Enqueued, Error> {
        let mut sum = Enqueued::default();
        for some in packages.chunks(ENQUEUED) {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let keys = [
                "src:q",
                "src:qset",
                "src:d",
                "src:crawls",
                "src:runs",
                "allcounts",
                "src:f",
            ];
            let mut enqueue = self.script(ENQUEUE, &keys, &[self.key("src:later")]);
            enqueue.arg(self.key("src:w:")).arg(&self.token[..]);
            enqueue.arg(self.key("src:later:"));
            for package in some {
                enqueue.arg(&package.name[..]).arg(&package.crawl[..]);
                enqueue.arg(package.to_json());
            }
            let call: Call<(u64, u64, u64)> = Call::new(enqueue).repeatable();
            let (new, done, underway) = self.server.ask(call)?;
            sum.new += new;
            sum.done += done;
            sum.underway += underway;
        }
        Ok(sum)
    }

    /// Notes the crawls of packages that other clients queued, in the order of the queue: they stand before those that
    /// this import queues. Packages that are taken meanwhile are noted by [`Queue::run`]. Packages that `missing` does not
    /// return are in the index and leave the queue; returns their number.
    pub(crate) fn adopt(
        &self,
        mut missing: impl FnMut(Vec<Package>) -> Result<Vec<Package>, Error>,
    ) -> Result<u64, Error> {
        let page = ENQUEUED as i64;
        let mut known = Vec::new();
        for number in 0.. {
            let mut range = redis::cmd("LRANGE");
            range.arg(self.key("src:q"));
            range.arg(-page * (number + 1)).arg(-page * number - 1);
            let mut items: Vec<Vec<u8>> = self.server.ask(Call::new(range).repeatable())?;
            if items.is_empty() {
                break;
            }
            items.reverse(); // the next to be taken stands last
            // Entries that cannot be read are reported when they are taken.
            let packages: Vec<(Package, Vec<u8>)> = items
                .into_iter()
                .filter_map(|item| Some((self.package(&item).ok()?, item)))
                .collect();
            let others = missing(
                packages
                    .iter()
                    .map(|(package, _)| package.clone())
                    .collect(),
            )?;
            let others: HashSet<&str> = others.iter().map(|one| &one.name[..]).collect();
            let mut adopt = self.script(ADOPT, &["src:crawls", "src:runs"], &[]);
            adopt.arg(self.key("src:w:")).arg(&self.token[..]);
            for (package, item) in packages {
                if others.contains(&package.name[..]) {
                    adopt.arg(package.name).arg(package.crawl);
                } else {
                    known.push((package.name, item));
                }
            }
            let call: Call<u64> = Call::new(adopt).repeatable();
            self.server.ask(call)?;
        }
        let mut dropped = 0;
        for some in known.chunks(ENQUEUED) {
            let mut drop = self.script(DROP, &["src:q", "src:qset"], &[]);
            for (name, item) in some {
                drop.arg(&name[..]).arg(&item[..]);
            }
            let call: Call<u64> = Call::new(drop).repeatable();
            dropped += self.server.ask(call)?;
        }
        Ok(dropped)
    }

    fn package(&self, item: &[u8]) -> Result<Package, serde_json::Error> {
        Package::from_json(item, self.crawl.as_deref())
    }

    /// Packages whose revisits could not be read last time are queued again.
    pub(crate) fn retry(&self) -> Result<(), Error> {
        const RETRY: &str = "while redis.call('RPOPLPUSH', KEYS[1], KEYS[2]) do end";
        let retry = self.script(RETRY, &["src:retry", "src:r"], &[]);
        let call: Call<redis::Value> = Call::new(retry).repeatable();
        self.server.ask(call).map(|_| ())
    }

    /// Packages to work on, whose guards are held from now on: up to `most`, and no more than the share of one of `workers`.
    pub(crate) fn take(&self, stage: Stage, most: usize, workers: usize) -> Result<Taken, Error> {
        let keys = [stage.queue(), stage.pending(), "src:d", "src:runs"];
        let mut take = self.script(TAKE, &keys, &[]);
        take.arg(self.guard(stage, "")).arg(&self.token[..]);
        take.arg(self.lease_ms()).arg(self.key("src:w:"));
        take.arg(most).arg(workers * SHARES);
        let taken: Vec<(Vec<u8>, String, u64)> =
            match self.server.ask(Call::new(take).repeatable())? {
                redis::Value::Int(others) => return Ok(Taken::Others(others.unsigned_abs())),
                taken => redis::from_redis_value(taken)
                    .map_err(|error| broken(stage.queue(), error.to_string()))?,
            };
        let (mut entries, mut unreadable) = (Vec::new(), Vec::new());
        for (item, run, files) in taken {
            match self.package(&item) {
                Ok(package) => entries.push(Entry {
                    package,
                    item,
                    run: Some(run).filter(|run| !run.is_empty()),
                    is_alone: files == 1,
                }),
                Err(reason) => {
                    let reason = format!(
                        "it stands in {}, and cannot be read: {reason}",
                        stage.queue()
                    );
                    unreadable.push((self.skip(stage, &item)?, reason));
                }
            }
        }
        Ok(Taken::Packages(entries, unreadable))
    }

    /// Takes an entry that cannot be read out of the queue. Gives its name, which may be empty.
    fn skip(&self, stage: Stage, item: &[u8]) -> Result<String, Error> {
        let mut skip = self.script(SKIP, &[stage.pending(), "src:f"], &[]);
        skip.arg(self.guard(stage, "")).arg(&self.token[..]);
        skip.arg(item);
        let name: Vec<u8> = self.server.ask(Call::new(skip).repeatable())?;
        Ok(String::from_utf8_lossy(&name).into_owned())
    }

    /// Takes this package, if it is in the queue.
    pub(crate) fn take_this(&self, stage: Stage, name: &str, item: &[u8]) -> Result<bool, Error> {
        let keys = [stage.queue(), stage.pending()].map(|key| self.key(key));
        let guard = self.guard(stage, name);
        let mut take = self.script(TAKE_THIS, &[], &[&keys[..], &[guard]].concat());
        take.arg(item).arg(&self.token[..]).arg(self.lease_ms());
        self.server.ask(Call::new(take).repeatable())
    }

    /// Whether the guard is still held; if so, for another while.
    pub(crate) fn renew(&self, stage: Stage, name: &str) -> Result<bool, Error> {
        let mut renew = self.script(RENEW, &[], &[self.guard(stage, name)]);
        renew.arg(&self.token[..]).arg(self.lease_ms());
        self.server.ask(Call::new(renew).repeatable())
    }

    /// Leaves a package for another worker, now.
    pub(crate) fn drop_guard(&self, stage: Stage, name: &str) -> Result<(), Error> {
        const LET_GO: &str =
            "if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end";
        let mut drop = self.script(LET_GO, &[], &[self.guard(stage, name)]);
        drop.arg(&self.token[..]);
        let call: Call<redis::Value> = Call::new(drop).repeatable();
        self.server.ask(call).map(|_| ())
    }

    /// Packages, with their entries of the queue, are done with at this stage.
    pub(crate) fn leave(
        &self,
        stage: Stage,
        packages: &[(&str, &[u8], Fate)],
    ) -> Result<Left, Error> {
        if packages.is_empty() {
            return Ok(Left::default());
        }
        let into = match stage {
            Stage::Responses => "src:r",
            Stage::Revisits => "src:retry",
        };
        let keys = [
            stage.pending(),
            into,
            "src:runs",
            "src:noted",
            "allcounts",
            "src:qset",
            "src:f",
            "src:q",
            "pending:q",
            "src:r",
            "pending:r",
        ];
        let mut leave = self.script(LEAVE, &keys, &[]);
        leave.arg(self.guard(stage, "")).arg(&self.token[..]);
        for (name, item, fate) in packages {
            let next = *fate == Fate::Next;
            let whole = matches!(fate, Fate::Done | Fate::Failed { partly: false });
            let failed = matches!(fate, Fate::Failed { .. });
            leave.arg(*name).arg(*item);
            for flag in [next, whole, failed] {
                leave.arg(u8::from(flag));
            }
        }
        let left: Vec<u64> = self.server.ask(Call::new(leave).repeatable())?;
        Ok(Left::of(&left))
    }

    /// Counts all records of packages that are in the queue of the second stage, and finishes these. Those that are not done
    /// afterwards need to be taken one by one.
    pub(crate) fn count_all(&self, packages: &[ToCount<'_>]) -> Result<Left, Error> {
        let keys = [
            "src:runs",
            "src:noted",
            "src:d",
            "uncommittedcrawls",
            "allcounts",
            "src:qset",
            "src:q",
            "pending:q",
            "src:r",
            "pending:r",
        ];
        let mut count = self.script(COUNT_ALL, &keys, &[]);
        count.arg(&self.prefix[..]);
        for ToCount {
            package,
            item,
            revisits,
            redundant,
        } in packages
        {
            count.arg(&package.name[..]).arg(&package.crawl[..]);
            count.arg(*item).arg(redundant.size).arg(redundant.urls);
            count.arg(revisits.len() * 2);
            for (hash, size) in revisits {
                count.arg(*hash).arg(*size);
            }
        }
        // Sent twice it finds none of them in the queue.
        let left: Vec<u64> = self.server.ask(Call::new(count).repeatable())?;
        Ok(Left::of(&left))
    }

    /// What names the sequence of calls by which this package is added, the same until it is whole. `None` when
    /// another importer has it: a name made up then would count all of it again. The crawl is noted as one to commit,
    /// which other importers do not note when they queue.
    pub(crate) fn run(&self, package: &Package) -> Result<Option<String>, Error> {
        let (name, crawl) = (&package.name[..], &package.crawl[..]);
        let keys = [
            self.guard(Stage::Responses, name),
            self.key("src:runs"),
            self.key("src:crawls"),
            self.key_of("src:w", crawl.as_bytes()),
        ];
        let mut run = self.script(RUN, &[], &keys);
        run.arg(&self.token[..]).arg(name).arg(crawl);
        self.server.ask(Call::new(run).repeatable())
    }

    /// The crawls of the packages that are queued or were, in the order of their manifests.
    pub(crate) fn crawls(&self) -> Result<Vec<String>, Error> {
        let mut crawls = redis::cmd("LRANGE");
        crawls.arg(self.key("src:crawls")).arg(0).arg(-1);
        self.server.ask(Call::new(crawls).repeatable())
    }

    /// The names of a crawl's packages, in the order of their manifests.
    pub(crate) fn names(&self, crawl: &str) -> Result<Vec<String>, Error> {
        let mut names = redis::cmd("LRANGE");
        names
            .arg(self.key_of("src:w", crawl.as_bytes()))
            .arg(0)
            .arg(-1);
        self.server.ask(Call::new(names).repeatable())
    }

    /// Everything is done: notes the time. `false` when there is more to do.
    pub(crate) fn close(&self, now: &str) -> Result<bool, Error> {
        let keys = [
            "src:q",
            "pending:q",
            "src:r",
            "pending:r",
            "src:qset",
            "src:f",
            "src:crawls",
            "allcounts",
            "last_update_ts",
        ];
        let mut close = self.script(CLOSE, &keys, &[]);
        close.arg(self.key("src:w:")).arg(self.key("c:")).arg(now);
        self.server.ask(Call::new(close).repeatable())
    }

    /// Up to which batch the revisits of a package were counted.
    pub(crate) fn noted(&self, name: &str) -> Result<u64, Error> {
        let mut noted = redis::cmd("HGET");
        noted.arg(self.key("src:noted")).arg(name);
        let noted: Option<u64> = self.server.ask(Call::new(noted).repeatable())?;
        Ok(noted.unwrap_or(0))
    }

    /// Counts a batch of records once, and puts revisits aside that have no original.
    pub(crate) fn count(
        &self,
        package: &Package,
        number: u64,
        revisits: &[(&[u8], u64)],
        aside: &str,
        redundant: Redundant,
    ) -> Result<Counted, Error> {
        let name = &package.name[..];
        let keys = [
            self.guard(Stage::Revisits, name),
            self.key("src:noted"),
            self.key("src:later"),
            self.key_of("src:later", name.as_bytes()),
            self.key("src:d"),
            self.key("uncommittedcrawls"),
            self.key("allcounts"),
        ];
        let mut count = self.script(COUNT, &[], &keys);
        count.arg(&self.token[..]).arg(name).arg(number).arg(aside);
        count.arg(&self.prefix[..]).arg(&package.crawl[..]);
        count.arg(redundant.size).arg(redundant.urls);
        for (hash, size) in revisits {
            count.arg(*hash).arg(*size);
        }
        let call: Call<u64> = Call::new(count).repeatable();
        Ok(match self.server.ask(call)? {
            0 => Counted::Lost,
            1 => Counted::Once,
            _ => Counted::Gone,
        })
    }

    /// Names of packages that failed, and were not imported since.
    pub(crate) fn failed(&self) -> Result<HashSet<Vec<u8>>, Error> {
        let mut failed = redis::cmd("SMEMBERS");
        failed.arg(self.key("src:f"));
        self.server.ask(Call::new(failed).repeatable())
    }

    /// Forgets that packages failed: their crawls are gone.
    pub(crate) fn forget(&self, names: &[Vec<u8>]) -> Result<(), Error> {
        for some in names.chunks(ENQUEUED) {
            let mut forget = redis::cmd("SREM");
            forget.arg(self.key("src:f")).arg(some);
            let call: Call<u64> = Call::new(forget).repeatable();
            self.server.ask(call)?;
        }
        Ok(())
    }

    /// Returns the crawls that running imports of Browsertrix's importer list: it keeps them, while it runs, in a set whose
    /// name ends with the milliseconds at which it began. Sets that are older than `since` are of runs that died.
    pub(crate) fn listed_by_browsertrix(&self, since: Duration) -> Result<HashSet<Vec<u8>>, Error> {
        let mut crawls = HashSet::new();
        let begin = self.key("noremove:");
        let mut pattern = Vec::new();
        for &byte in &begin {
            if b"*?[]^\\".contains(&byte) {
                pattern.push(b'\\');
            }
            pattern.push(byte);
        }
        pattern.push(b'*');
        let mut cursor = "0".to_owned();
        loop {
            // As a script, it runs where the keys of the index are, on a cluster too.
            let mut scan = self.script(SCAN, &["noremove:"], &[]);
            scan.arg(&cursor[..]).arg(&pattern[..]);
            let (next, keys): (String, Vec<Vec<u8>>) =
                self.server.ask(Call::new(scan).repeatable())?;
            for key in keys {
                let millis = key
                    .get(begin.len()..)
                    .and_then(|millis| std::str::from_utf8(millis).ok());
                let begun = millis
                    .and_then(|millis| millis.parse().ok())
                    .map(Duration::from_millis);
                if begun.is_some_and(|begun| begun >= since) {
                    let mut members = redis::cmd("SMEMBERS");
                    members.arg(key);
                    let members: Vec<Vec<u8>> = self.server.ask(Call::new(members).repeatable())?;
                    crawls.extend(members);
                }
            }
            if next == "0" {
                return Ok(crawls);
            }
            cursor = next;
        }
    }

    /// Names of packages that have revisits without an original.
    pub(crate) fn later(&self) -> Result<Vec<String>, Error> {
        let mut later = redis::cmd("SMEMBERS");
        later.arg(self.key("src:later"));
        self.server.ask(Call::new(later).repeatable())
    }

    /// The batches of such a package, by number.
    pub(crate) fn later_of(&self, name: &str) -> Result<Vec<String>, Error> {
        let mut keys = redis::cmd("HKEYS");
        keys.arg(self.key_of("src:later", name.as_bytes()));
        self.server.ask(Call::new(keys).repeatable())
    }

    /// One of them.
    pub(crate) fn aside(&self, name: &str, number: &str) -> Result<Option<String>, Error> {
        let mut aside = redis::cmd("HGET");
        aside
            .arg(self.key_of("src:later", name.as_bytes()))
            .arg(number);
        self.server.ask(Call::new(aside).repeatable())
    }

    /// Counts what has an original now of a batch that was put aside, and leaves the rest there. `false` when
    /// it is not as it `was` any more.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn settle(
        &self,
        name: &str,
        number: &str,
        was: &str,
        aside: &str,
        crawl: &str,
        revisits: &[(&[u8], u64)],
    ) -> Result<bool, Error> {
        let keys = [
            self.key("src:later"),
            self.key_of("src:later", name.as_bytes()),
            self.key("src:crawls"),
        ];
        let mut settle = self.script(SETTLE, &[], &keys);
        settle.arg(name).arg(number).arg(was).arg(aside);
        settle.arg(&self.prefix[..]).arg(crawl);
        for (hash, size) in revisits {
            settle.arg(*hash).arg(*size);
        }
        // Sent twice it finds that it is done.
        self.server.ask(Call::new(settle).repeatable())
    }

    fn lease_ms(&self) -> u64 {
        u64::try_from(self.lease.as_millis()).unwrap_or(u64::MAX)
    }

    /// A call of a script on these keys: names of the index's, and whole ones.
    fn script(&self, text: &str, names: &[&str], keys: &[Vec<u8>]) -> Cmd {
        let mut eval = redis::cmd("EVAL");
        eval.arg(text).arg(names.len() + keys.len());
        for name in names {
            eval.arg(self.key(name));
        }
        eval.arg(keys);
        eval
    }
}
