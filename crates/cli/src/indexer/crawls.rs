//! Import steps on whole crawls: commit, retain and removal.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::present::{LISTS, wacz_lists};
use super::report::{CommittedCrawl, Event, Failed, LeftInPlace};
use super::scripts::SET_ASIDE;
use super::{Error, Listed, Work};
use crate::any_index::AnyIndex;
use crawlspace_client::dedupe::{
    CrawlState, Doing, Index, Listed as Which, Removed, Retained, Wacz,
};
use crawlspace_client::{Ask, Batch, Call, Code, Pending};

/// Maximum number of times the list of crawls is read while other clients remove crawls.
const MAX_TRIES: usize = 20;
/// Number of crawls whose state is read per round trip.
const ASKED: usize = 500;
/// Number of crawls committed per round trip.
const COMMITTED: usize = 64;
/// Age at which a run of Browsertrix's importer is considered dead.
const LONGEST_RUN: Duration = Duration::from_secs(24 * 3600);

impl Work<'_> {
    /// Commits the imported crawls in the order of the manifest: the first crawl that has a hash owns it.
    pub(super) fn commit(&self) -> Result<(), Error> {
        let mut crawls = self.queue.crawls()?;
        let mut uncommitted = self.uncommitted(&crawls)?;
        if let AnyIndex::Sharded(index) = &self.index {
            // Repeat commits that were interrupted after the home shard, to remove their marks.
            let marks = index.unfinished()?.into_iter();
            let marks = marks.filter(|mark| mark.doing == Doing::Commit);
            uncommitted.extend(marks.map(|mark| mark.crawl));
        }
        crawls.retain(|crawl| uncommitted.contains(crawl.as_bytes()));
        let reported = self.report().crawls.len();
        let mut known: HashMap<String, usize> = (0..reported)
            .map(|at| (self.report().crawls[at].crawl.clone(), at))
            .collect();
        for some in crawls.chunks(COMMITTED) {
            let ids: Vec<&[u8]> = some.iter().map(String::as_bytes).collect();
            for (crawl, commit) in some.iter().zip(self.index.commit_each(&ids)?) {
                let hashes = match commit {
                    Ok(hashes) => hashes,
                    // The crawl was canceled or removed meanwhile.
                    Err(error) if matches!(error.code(), Some(Code::NoCrawl | Code::Canceled)) => {
                        continue;
                    }
                    Err(error) => return Err(error.into()),
                };
                let crawls = &mut self.report().crawls;
                match known.get(crawl) {
                    Some(&at) => {
                        crawls[at].hashes.new += hashes.new;
                        crawls[at].hashes.known += hashes.known;
                    }
                    None => {
                        let crawl = crawl.clone();
                        let committed = CommittedCrawl { crawl, hashes };
                        self.watch.event(Event::Committed(&committed));
                        known.insert(committed.crawl.clone(), crawls.len());
                        crawls.push(committed);
                    }
                }
            }
        }
        Ok(())
    }

    /// Makes the manifest's crawls the whole collection; other crawls are tracked as removed, or removed.
    pub(super) fn retain(&self, listed: &Listed) -> Result<(), Error> {
        if let Some(name) = listed.of_unknown_crawl.first() {
            // The package could belong to any crawl.
            let reason = format!(
                "no crawl is removed or counted as removed, because the manifest does not name the crawl of {name}: \
                 add it to that entry"
            );
            self.report().not_compared = Some(reason);
            return Ok(());
        }
        let failed_names = self.queue.failed()?;
        for _ in 0..MAX_TRIES {
            let committed = self.committed()?;
            let mut kept: HashSet<&[u8]> = listed
                .crawls
                .values()
                .map(String::as_bytes)
                .filter(|crawl| committed.contains(*crawl))
                .collect();
            let unlisted: Vec<&[u8]> = committed
                .iter()
                .map(|crawl| &crawl[..])
                .filter(|crawl| !kept.contains(crawl))
                .collect();
            // Crawls that Browsertrix set aside are removed together with the unlisted crawls.
            let aside = self.aside()?;
            let removes = !unlisted.is_empty() || !aside.is_empty();
            let elsewhere = if self.import.remove && removes {
                self.listed_elsewhere()?
            } else {
                HashSet::new()
            };
            let (mut failed, mut running) = (Vec::new(), Vec::new());
            let mut stay: HashSet<&[u8]> = HashSet::new();
            let mut unfinished: Vec<Vec<u8>> = Vec::new();
            for some in unlisted.chunks(LISTS) {
                for (crawl, waczs) in some.iter().zip(wacz_lists(self.index.home(), some)?) {
                    let under_another = listed_of(crawl, &waczs, listed);
                    if !under_another.is_empty() {
                        kept.insert(crawl);
                        failed.extend(under_another);
                        continue;
                    }
                    let begun = waczs.into_iter().filter(|wacz| wacz.size.is_none());
                    // Packages that failed in an import are also unfinished.
                    let (failed, open): (Vec<Vec<u8>>, Vec<_>) = begun
                        .map(|wacz| wacz.filename)
                        .partition(|name| failed_names.contains(name));
                    let is_listed = elsewhere.contains(*crawl);
                    match why_it_stays(open.first().map(|name| &name[..]), is_listed) {
                        Some(reason) => {
                            stay.insert(crawl);
                            let crawl = String::from_utf8_lossy(crawl).into_owned();
                            running.push(LeftInPlace { crawl, reason });
                        }
                        None => unfinished.extend(failed),
                    }
                }
            }
            if aside.iter().any(|crawl| elsewhere.contains(crawl)) {
                let reason = "no crawl is removed, because Browsertrix's importer is removing crawls of this index: \
                 import again when it has finished";
                self.report().not_compared = Some(reason.to_owned());
                return Ok(());
            }
            let all = committed.iter().cloned().chain(aside);
            let is_other =
                |crawl: &Vec<u8>| !kept.contains(&crawl[..]) && !stay.contains(&crawl[..]);
            let others: HashSet<Vec<u8>> = all.filter(is_other).collect();
            // If only running crawls are kept, the manifest may be the wrong one.
            if kept.is_empty() {
                self.refuse_to_empty(&others)?;
            }
            kept.extend(stay);
            let kept: Vec<&[u8]> = kept.into_iter().collect();
            let retained = if !kept.is_empty() {
                self.index.retain(self.import.remove, &kept)
            } else {
                self.retain_nothing(&others)?
            };
            match retained {
                Ok(Retained {
                    crawls, dropped, ..
                }) => {
                    let mut report = self.report();
                    for failed in failed {
                        if !report.failed.contains(&failed) {
                            self.watch.event(Event::Failed(&failed));
                            report.failed.push(failed);
                        }
                    }
                    report.unlisted_crawls = others.len() as u64;
                    report.left_in_place = running;
                    if self.import.remove {
                        report.removed_crawls += crawls;
                        report.removed_hashes += dropped;
                        drop(report);
                        self.queue.forget(&unfinished)?;
                    }
                    return Ok(());
                }
                // A crawl was removed since the list was read.
                Err(error) if error.code() == Some(Code::NoCrawl) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(Error::Refused(
            "other clients keep removing crawls: import again when they have finished".to_owned(),
        ))
    }

    /// Returns the crawls that a running import of Browsertrix's importer keeps.
    fn listed_elsewhere(&self) -> Result<HashSet<Vec<u8>>, Error> {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Ok(self
            .queue
            .listed_by_browsertrix(now.saturating_sub(LONGEST_RUN))?)
    }

    fn refuse_to_empty(&self, others: &HashSet<Vec<u8>>) -> Result<(), Error> {
        if !self.import.remove || self.import.allow_empty || others.is_empty() {
            return Ok(());
        }
        Err(Error::Refused(format!(
            "the index has none of the crawls that {} lists, so removing the unlisted crawls would empty it: pass \
             --allow-empty if that is intended",
            self.import.source
        )))
    }

    /// Handles a manifest that lists none of the index's crawls.
    fn retain_nothing(
        &self,
        others: &HashSet<Vec<u8>>,
    ) -> Result<Result<Retained, crawlspace_client::Error>, Error> {
        let none = Retained::default();
        if others.is_empty() {
            return Ok(Ok(none));
        }
        if !self.import.remove {
            let mut size = 0;
            for crawl in others {
                match self.index.crawl_stats(crawl) {
                    Ok(stats) => size += stats.total_crawl_size,
                    Err(error) => return Ok(Err(error)),
                }
            }
            self.track(others.len() as u64, size)?;
            return Ok(Ok(none));
        }
        let all: Vec<&[u8]> = others.iter().map(|crawl| &crawl[..]).collect();
        let removed = self.index.remove(&all);
        if removed.is_ok() {
            self.track(0, 0)?;
        }
        Ok(removed.map(|removed| {
            let Removed {
                crawls,
                dropped,
                reowned,
            } = removed;
            Retained {
                crawls,
                dropped,
                reowned,
            }
        }))
    }

    /// Writes the same counts as `DEDUPE.RETAIN` writes for unlisted crawls.
    fn track(&self, crawls: u64, size: u64) -> Result<(), Error> {
        let mut track = redis::cmd("HSET");
        track.arg([self.index.home().prefix(), b"allcounts"].concat());
        track.arg("removedCrawls").arg(crawls);
        track.arg("removedCrawlSize").arg(size);
        self.server.ask(Call::<u64>::new(track).repeatable())?;
        Ok(())
    }

    /// Returns crawls that Browsertrix set aside for removal, or canceled after merging some of them.
    fn aside(&self) -> Result<Vec<Vec<u8>>, Error> {
        let crawls = self.index.home().crawls(None)?.into_iter();
        let is_aside = |state| matches!(state, CrawlState::Outgoing | CrawlState::Canceled);
        let aside = crawls.filter(|crawl| is_aside(crawl.standing.state));
        Ok(aside.map(|crawl| crawl.crawl).collect())
    }

    /// Returns the committed crawls. The home shard of a sharded index commits last.
    fn committed(&self) -> Result<HashSet<Vec<u8>>, Error> {
        let crawls = self.index.home().crawls(Some(Which::Committed))?;
        let is_purged = |state| matches!(state, CrawlState::Outgoing);
        let is_one = matches!(self.index, AnyIndex::One(_));
        let crawls = crawls.into_iter();
        let crawls = crawls.filter(|crawl| is_one || !is_purged(crawl.standing.state));
        Ok(crawls.map(|crawl| crawl.crawl).collect())
    }

    /// Returns those of these crawls that have uncommitted records in any shard, or that other shards have committed
    /// and the home shard has not.
    fn uncommitted(&self, crawls: &[String]) -> Result<HashSet<Vec<u8>>, Error> {
        let mut uncommitted = HashSet::new();
        for some in crawls.chunks(ASKED) {
            let batch = Batch::new();
            let are_in = |shard: &Index, set: &str| -> Pending<Vec<bool>> {
                let mut members = redis::cmd("SMISMEMBER");
                members
                    .arg([shard.prefix(), set.as_bytes()].concat())
                    .arg(some);
                batch.ask(Call::new(members).repeatable())
            };
            let shards = self.index.shards();
            let asked: Vec<_> = shards
                .iter()
                .map(|shard| {
                    let committed = (shards.len() > 1).then(|| are_in(shard, "allcrawls"));
                    (are_in(shard, "uncommittedcrawls"), committed)
                })
                .collect();
            batch.send(self.server)?;
            let mut open = vec![false; some.len()];
            let mut at_home: Option<Vec<bool>> = None;
            for (is_open, committed) in asked {
                for (open, is_open) in open.iter_mut().zip(is_open.take()?) {
                    *open |= is_open;
                }
                let Some(committed) = committed.map(Pending::take).transpose()? else {
                    continue;
                };
                match &at_home {
                    None => at_home = Some(committed),
                    Some(at_home) => {
                        let states = committed.iter().zip(at_home);
                        for (open, (is_in, is_at_home)) in open.iter_mut().zip(states) {
                            *open |= *is_in && !is_at_home;
                        }
                    }
                }
            }
            let open = some.iter().zip(open).filter(|(_, open)| *open);
            uncommitted.extend(open.map(|(crawl, _)| crawl.as_bytes().to_vec()));
        }
        Ok(uncommitted)
    }
}

/// Returns the reason why a crawl that the manifest does not list is kept, if there is one.
fn why_it_stays(open: Option<&[u8]>, is_listed_elsewhere: bool) -> Option<String> {
    match open {
        Some(name) => Some(format!(
            "it is running: its file {} is not finished; if the crawl died, remove it with DEDUPE.REMOVE",
            String::from_utf8_lossy(name)
        )),
        None if is_listed_elsewhere => {
            Some("a running import of Browsertrix's importer lists it".to_owned())
        }
        None => None,
    }
}

/// Returns the packages of a crawl that the manifest lists for another crawl. A package whose name is known is not
/// imported again, so removing this crawl would lose the package.
fn listed_of(crawl: &[u8], waczs: &[Wacz], listed: &Listed) -> Vec<Failed> {
    let finished = waczs.iter().filter(|wacz| wacz.size.is_some());
    let names = finished.filter_map(|wacz| std::str::from_utf8(&wacz.filename).ok());
    let failed = names.filter_map(|name| {
        let (crawl, other) = (String::from_utf8_lossy(crawl), listed.crawls.get(name)?);
        Some(Failed {
            name: name.to_owned(),
            path: String::new(),
            reason: format!(
                "it was imported as part of crawl {crawl}, but the manifest says {other}; it stays in {crawl}: to \
                 move it, remove that crawl and import again"
            ),
        })
    });
    failed.collect()
}

/// Sets a committed crawl aside like Browsertrix's indexer when it cancels a crawl: the crawl is added to
/// `canceledcrawls` and counted as removed, once. Its hashes stay in the index until an import removes it.
///
/// # Errors
/// Fails if the server returns an error or cannot be reached.
pub fn set_aside(index: &AnyIndex, crawl: &str) -> Result<(), crawlspace_client::Error> {
    let size = index.crawl_stats(crawl.as_bytes())?.total_crawl_size;
    let home = index.home();
    let key = |name: &[u8]| [home.prefix(), name].concat();
    let mut aside = redis::cmd("EVAL");
    aside.arg(SET_ASIDE).arg(2);
    aside.arg(key(b"canceledcrawls")).arg(key(b"allcounts"));
    aside.arg(crawl).arg(size);
    let call: Call<u64> = Call::new(aside).repeatable();
    home.server().ask(call).map(|_| ())
}
