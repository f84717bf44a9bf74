//! The queue of an import, in Redis: `src:q`, `src:qset`, `src:d` and `pending:q` as documented by Browsertrix, so that
//! several importers on several machines share the work.
//!
//! The worker that takes a package from `src:q` adds it to `pending:q` and sets a guard key, `pending:q:<name>`, which
//! expires when the worker stops renewing it. Then another worker takes the package over. All steps are scripts, and
//! every step after the first checks that the caller still holds the guard: an importer that was suspended for a minute
//! and resumes changes nothing.
//!
//! Revisit records have their own queue, `src:r` with `pending:r`, because they can be counted only once every original
//! is in the index.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redis::Cmd;

use super::package::Package;
use super::scripts::{
    ADOPT, CLOSE, COUNT, COUNT_ALL, DROP, ENQUEUE, LEAVE, READY, RENEW, RUN, SCAN, SETTLE, SKIP,
    TAKE, TAKE_THIS,
};
use crawlspace_client::{Ask, Call, Error, Server};

/// Number of packages queued per call.
const ENQUEUED: usize = 200;
/// Divisor of a worker's share of the queue. Taking only a fraction at a time leaves work for all workers until the
/// end.
const SHARES: usize = 8;

/// End of the name of a sequence whose package was the only one of its crawl when it was queued. Packages that are
/// queued later come after it in the WACZ list of the crawl, so its worker need not know them.
const ALONE: &str = "-alone";

/// Stage of an import, with its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Packages whose responses are not added yet: `src:q`.
    Responses,
    /// Packages whose revisits are not counted yet: `src:r`.
    Revisits,
}

/// Result of taking packages from the queue.
#[derive(Debug)]
pub(super) enum Taken {
    /// The packages taken, and unreadable entries, which were removed from the queue: their names, if they have one,
    /// and the error.
    Packages(Vec<Entry>, Vec<(String, String)>),
    /// The queue is empty, but other workers still process this number of packages.
    Others(u64),
}

/// A package taken from the queue.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub package: Package,
    /// Queue entry of the package, unchanged.
    pub item: Vec<u8>,
    /// Name of the sequence of calls that adds the package, if it has one already.
    pub run: Option<String>,
    /// True if the package was the only one of its crawl when it was queued.
    pub is_alone: bool,
}

/// Progress of an import after packages were finished.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Left {
    /// Number of packages not finished.
    pub left: u64,
    /// Number of packages in total.
    pub total: u64,
    /// True for each package that this worker held, in the order of the packages.
    pub own: Vec<bool>,
}

/// Records of a package that are counted in one step.
pub(super) struct ToCount<'a> {
    pub package: &'a Package,
    pub item: &'a [u8],
    pub revisits: Vec<(&'a [u8], u64)>,
    pub redundant: Redundant,
}

/// Outcome of the work on a package.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// The package is imported.
    Done,
    /// The package moves to the next stage; after the last stage, to the packages that the next import retries.
    Next,
    /// The package is faulty, and the next import retries it. If `partly` is true, the next import continues the
    /// work of this one.
    Failed { partly: bool },
}

/// Result of counting a batch of revisits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counted {
    /// The batch is counted, now or earlier.
    Once,
    /// This worker no longer holds the package's guard.
    Lost,
    /// The crawl was removed.
    Gone,
}

impl Counted {
    /// Returns the result for this reply of a script.
    fn of(code: i64) -> Counted {
        match code {
            0 => Counted::Lost,
            1 => Counted::Once,
            _ => Counted::Gone,
        }
    }
}

/// Responses that could have been revisits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Redundant {
    /// Bytes that revisits would have saved.
    pub size: u64,
    pub urls: u64,
}

/// Counts of the packages queued from a manifest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Enqueued {
    pub new: u64,
    /// Imported earlier.
    pub done: u64,
    /// Queued by another importer, running or dead.
    pub underway: u64,
}

/// State of a package after earlier imports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Before {
    /// The package is in `src:d`.
    pub is_imported: bool,
    /// True if an import began the package and did not finish it.
    pub is_begun: bool,
}

/// Queues of one index.
#[derive(Clone)]
pub(super) struct Queue {
    server: Server,
    prefix: Vec<u8>,
    /// Value of this importer's guard keys, unique to it.
    token: String,
    lease: Duration,
    /// Crawl of entries that other importers queued without one.
    crawl: Option<String>,
}

/// Makes the error for a key whose value was not written by an importer.
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

    /// Returns the queue for another worker, with guards of its own.
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

    /// Returns true if any of these crawls has a WACZ list.
    pub(crate) fn have_lists(&self, crawls: &[&str]) -> Result<bool, Error> {
        let mut exist = redis::cmd("EXISTS");
        for crawl in crawls {
            exist.arg(self.key(&format!("c:{crawl}:wacz")));
        }
        let exist: u64 = self.server.ask(Call::new(exist).repeatable())?;
        Ok(exist > 0)
    }

    /// Returns the state in which earlier imports left these packages.
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

    /// Queues packages, in this order, that are neither imported nor queued; stops early if the import is stopped.
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
            enqueue.arg(self.key("src:later:")).arg(ALONE);
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

    /// Records the crawls of packages that other clients queued, in the order of the queue: they precede the packages
    /// that this import queues. Packages taken meanwhile are recorded by [`Queue::run`]. Packages that `missing` does
    /// not return are in the index and are removed from the queue; returns their number.
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
            items.reverse(); // importers take the last item first
            // Unreadable entries are reported when they are taken.
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

    /// Queues again the packages whose revisits the last import could not read.
    pub(crate) fn retry(&self) -> Result<(), Error> {
        const RETRY: &str = "while redis.call('RPOPLPUSH', KEYS[1], KEYS[2]) do end";
        let retry = self.script(RETRY, &["src:retry", "src:r"], &[]);
        let call: Call<redis::Value> = Call::new(retry).repeatable();
        self.server.ask(call).map(|_| ())
    }

    /// Takes packages and sets their guards: up to `most`, and at most the share of one of `workers`.
    pub(crate) fn take(&self, stage: Stage, most: usize, workers: usize) -> Result<Taken, Error> {
        let keys = [stage.queue(), stage.pending(), "src:d", "src:runs"];
        let mut take = self.script(TAKE, &keys, &[]);
        take.arg(self.guard(stage, "")).arg(&self.token[..]);
        take.arg(self.lease_ms()).arg(most).arg(workers * SHARES);
        let taken: Vec<(Vec<u8>, String)> = match self.server.ask(Call::new(take).repeatable())? {
            redis::Value::Int(others) => return Ok(Taken::Others(others.unsigned_abs())),
            taken => redis::from_redis_value(taken)
                .map_err(|error| broken(stage.queue(), error.to_string()))?,
        };
        let (mut entries, mut unreadable) = (Vec::new(), Vec::new());
        for (item, run) in taken {
            match self.package(&item) {
                Ok(package) => entries.push(Entry {
                    package,
                    item,
                    is_alone: run.ends_with(ALONE),
                    run: Some(run).filter(|run| !run.is_empty()),
                }),
                Err(reason) => {
                    let reason = format!("its entry in {} cannot be read: {reason}", stage.queue());
                    unreadable.push((self.skip(stage, &item)?, reason));
                }
            }
        }
        Ok(Taken::Packages(entries, unreadable))
    }

    /// Removes an unreadable entry from the queue. Returns its name, which may be empty.
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

    /// Renews the guard if it is still held; returns false otherwise.
    pub(crate) fn renew(&self, stage: Stage, name: &str) -> Result<bool, Error> {
        let mut renew = self.script(RENEW, &[], &[self.guard(stage, name)]);
        renew.arg(&self.token[..]).arg(self.lease_ms());
        self.server.ask(Call::new(renew).repeatable())
    }

    /// Releases a package immediately, so that another worker can take it.
    pub(crate) fn drop_guard(&self, stage: Stage, name: &str) -> Result<(), Error> {
        const LET_GO: &str =
            "if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end";
        let mut drop = self.script(LET_GO, &[], &[self.guard(stage, name)]);
        drop.arg(&self.token[..]);
        let call: Call<redis::Value> = Call::new(drop).repeatable();
        self.server.ask(call).map(|_| ())
    }

    /// Finishes packages, given with their queue entries, at this stage.
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

    /// Counts all records of packages in the queue of the second stage, and finishes these packages. Packages that are
    /// not finished afterwards must be taken one by one.
    pub(crate) fn count_all(&self, packages: &[ToCount<'_>]) -> Result<Left, Error> {
        if packages.is_empty() {
            return Ok(Left::default());
        }
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
        // The call is repeatable: a repetition finds none of the packages in the queue.
        let left: Vec<u64> = self.server.ask(Call::new(count).repeatable())?;
        Ok(Left::of(&left))
    }

    /// Returns the name of the sequence of calls that adds this package, which stays the same until
    /// the package is complete. Returns `None` if another importer holds the package, because a new
    /// name would count all its records again. Also records that the crawl must be committed, which
    /// other importers do not record when they queue a package.
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

    /// Returns the crawls of all packages queued now or earlier, in the order of their manifests.
    pub(crate) fn crawls(&self) -> Result<Vec<String>, Error> {
        let mut crawls = redis::cmd("LRANGE");
        crawls.arg(self.key("src:crawls")).arg(0).arg(-1);
        self.server.ask(Call::new(crawls).repeatable())
    }

    /// Returns the names of a crawl's packages, in the order of their manifests.
    pub(crate) fn names(&self, crawl: &str) -> Result<Vec<String>, Error> {
        let mut names = redis::cmd("LRANGE");
        names
            .arg(self.key_of("src:w", crawl.as_bytes()))
            .arg(0)
            .arg(-1);
        self.server.ask(Call::new(names).repeatable())
    }

    /// Closes the import and records the time if everything is done; returns false otherwise.
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

    /// Returns the number of the last batch of a package's revisits that is counted.
    pub(crate) fn noted(&self, name: &str) -> Result<u64, Error> {
        let mut noted = redis::cmd("HGET");
        noted.arg(self.key("src:noted")).arg(name);
        let noted: Option<u64> = self.server.ask(Call::new(noted).repeatable())?;
        Ok(noted.unwrap_or(0))
    }

    /// Returns, for each package (given with its crawl), the name of its sequence of calls if its batch of this
    /// number is still to be counted.
    pub(crate) fn ready(
        &self,
        number: u64,
        packages: &[(&str, &str)],
    ) -> Result<Vec<Result<String, Counted>>, Error> {
        let keys = ["src:runs", "src:noted", "src:d", "uncommittedcrawls"];
        let mut ready = self.script(READY, &keys, &[]);
        ready.arg(number);
        for (name, crawl) in packages {
            ready.arg(*name).arg(*crawl);
        }
        let call: Call<Vec<redis::Value>> = Call::new(ready).repeatable();
        let all = self.server.ask(call)?.into_iter().map(|one| match one {
            redis::Value::Int(code) => Ok(Err(Counted::of(code))),
            run => redis::from_redis_value(run)
                .map(Ok)
                .map_err(|error| broken("src:runs", error.to_string())),
        });
        all.collect()
    }

    /// Counts a batch of records unless it was counted before, and stores its revisits without an original
    /// for later.
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
        let call: Call<i64> = Call::new(count).repeatable();
        Ok(Counted::of(self.server.ask(call)?))
    }

    /// Returns the names of packages that failed and have not been imported since.
    pub(crate) fn failed(&self) -> Result<HashSet<Vec<u8>>, Error> {
        let mut failed = redis::cmd("SMEMBERS");
        failed.arg(self.key("src:f"));
        self.server.ask(Call::new(failed).repeatable())
    }

    /// Removes packages of deleted crawls from the list of failures.
    pub(crate) fn forget(&self, names: &[Vec<u8>]) -> Result<(), Error> {
        for some in names.chunks(ENQUEUED) {
            let mut forget = redis::cmd("SREM");
            forget.arg(self.key("src:f")).arg(some);
            let call: Call<u64> = Call::new(forget).repeatable();
            self.server.ask(call)?;
        }
        Ok(())
    }

    /// Returns the crawls that running imports of Browsertrix's importer list. While it runs, it keeps them in a set
    /// whose name ends with its start time in milliseconds. Sets that began before `since` belong to dead runs.
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
            // Run it as a script, so that in a cluster it runs on the node that has the keys of the
            // index.
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

    /// Returns the names of packages that have revisits without an original.
    pub(crate) fn later(&self) -> Result<Vec<String>, Error> {
        let mut later = redis::cmd("SMEMBERS");
        later.arg(self.key("src:later"));
        self.server.ask(Call::new(later).repeatable())
    }

    /// Returns the numbers of a package's batches of revisits that were set aside.
    pub(crate) fn later_of(&self, name: &str) -> Result<Vec<String>, Error> {
        let mut keys = redis::cmd("HKEYS");
        keys.arg(self.key_of("src:later", name.as_bytes()));
        self.server.ask(Call::new(keys).repeatable())
    }

    /// Returns a batch of revisits that was set aside.
    pub(crate) fn aside(&self, name: &str, number: &str) -> Result<Option<String>, Error> {
        let mut aside = redis::cmd("HGET");
        aside
            .arg(self.key_of("src:later", name.as_bytes()))
            .arg(number);
        self.server.ask(Call::new(aside).repeatable())
    }

    /// Counts these revisits of a set-aside batch, and replaces the batch with `aside`. If `counts` is true, records
    /// that the crawl must be committed. Returns false if the batch is no longer equal to `was`.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn settle(
        &self,
        name: &str,
        number: &str,
        was: &str,
        aside: &str,
        crawl: &str,
        counts: bool,
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
        settle.arg(u8::from(counts));
        for (hash, size) in revisits {
            settle.arg(*hash).arg(*size);
        }
        // The call is repeatable: a repetition finds the batch settled.
        self.server.ask(Call::new(settle).repeatable())
    }

    fn lease_ms(&self) -> u64 {
        u64::try_from(self.lease.as_millis()).unwrap_or(u64::MAX)
    }

    /// Builds a call of a script on these keys: names within the index, and complete keys.
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
