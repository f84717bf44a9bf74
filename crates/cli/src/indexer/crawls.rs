//! What an import does to whole crawls.

use std::collections::HashSet;

use super::report::{CommittedCrawl, Event, Failed};
use super::{Error, Listed, Work};
use crawlspace_client::dedupe::{CrawlState, Listed as Which, Removed, Retained};
use crawlspace_client::{Ask, Call, Code};

/// Maximum number of reads of the list of crawls, when others remove crawls meanwhile.
const MAX_TRIES: usize = 20;

impl Work<'_> {
    /// Commits what was imported, in the order of the manifest: the first crawl that has a hash owns it.
    pub(super) fn commit(&self) -> Result<(), Error> {
        let uncommitted: HashSet<Vec<u8>> = self.crawls(Which::Uncommitted)?;
        for crawl in self.queue.crawls()? {
            if !uncommitted.contains(crawl.as_bytes()) {
                continue;
            }
            let hashes = match self.index.commit(crawl.as_bytes()) {
                Ok(hashes) => hashes,
                // Somebody cancelled or removed it meanwhile, and that is what counts.
                Err(error) if matches!(error.code(), Some(Code::NoCrawl | Code::Canceled)) => {
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let mut report = self.report();
            let crawls = &mut report.crawls;
            match crawls.iter_mut().find(|other| other.crawl == crawl) {
                Some(other) => {
                    other.hashes.new += hashes.new;
                    other.hashes.known += hashes.known;
                }
                None => {
                    let committed = CommittedCrawl { crawl, hashes };
                    self.watch.event(Event::Committed(&committed));
                    crawls.push(committed);
                }
            }
        }
        Ok(())
    }

    /// The crawls of the manifest are the whole collection now; others are tracked, or removed.
    pub(super) fn retain(&self, listed: &Listed) -> Result<(), Error> {
        if let Some(name) = listed.of_unknown_crawl.first() {
            // Any crawl might be the one that it belongs to.
            let reason = format!(
                "nothing is removed, and nothing counted as removed, while the manifest does not say which crawl {name} \
                 belongs to: mend that entry"
            );
            self.report().not_compared = Some(reason);
            return Ok(());
        }
        for _ in 0..MAX_TRIES {
            let committed = self.crawls(Which::Committed)?;
            let mut kept: HashSet<&[u8]> = listed
                .crawls
                .values()
                .map(String::as_bytes)
                .filter(|crawl| committed.contains(*crawl))
                .collect();
            let mut failed = Vec::new();
            for crawl in &committed {
                if kept.contains(&crawl[..]) {
                    continue;
                }
                let under_another = self.listed_of(crawl, listed)?;
                if !under_another.is_empty() {
                    kept.insert(crawl);
                    failed.extend(under_another);
                }
            }
            // What Browsertrix put aside goes with those that are not listed.
            let all = committed.iter().cloned().chain(self.aside()?);
            let others: HashSet<Vec<u8>> = all.filter(|crawl| !kept.contains(&crawl[..])).collect();
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
                    if self.import.remove {
                        report.removed_crawls += crawls;
                        report.removed_hashes += dropped;
                    }
                    return Ok(());
                }
                // One was removed since we asked.
                Err(error) if error.code() == Some(Code::NoCrawl) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(Error::Refused(
            "crawls are being removed all the time: import again when that is over".to_owned(),
        ))
    }

    /// Packages of a crawl that the manifest lists, but for another crawl. What is known by its name is not
    /// imported a second time, so without this crawl it would be nowhere.
    fn listed_of(&self, crawl: &[u8], listed: &Listed) -> Result<Vec<Failed>, Error> {
        let waczs = match self.index.wacz_list(crawl) {
            Ok(waczs) => waczs,
            Err(error) if error.code() == Some(Code::NoCrawl) => Vec::new(),
            Err(error) => return Err(error.into()),
        };
        let finished = waczs.iter().filter(|wacz| wacz.size.is_some());
        let names = finished.filter_map(|wacz| std::str::from_utf8(&wacz.filename).ok());
        let failed = names.filter_map(|name| {
            let (crawl, other) = (String::from_utf8_lossy(crawl), listed.crawls.get(name)?);
            Some(Failed {
                name: name.to_owned(),
                path: String::new(),
                reason: format!(
                    "it was imported as part of crawl {crawl}, and the manifest says {other}: {crawl} stays as it is; to \
                     move it, remove that crawl and import again"
                ),
            })
        });
        Ok(failed.collect())
    }

    /// None of the crawls of the index is listed.
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
        if !self.import.allow_empty {
            return Err(Error::Refused(format!(
                "nothing that {} lists is in the index, and removing all crawls that are not listed would empty it: \
                 allow it if that is meant",
                self.import.source
            )));
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

    /// What `DEDUPE.RETAIN` writes for those that are left out.
    fn track(&self, crawls: u64, size: u64) -> Result<(), Error> {
        let mut track = redis::cmd("HSET");
        track.arg([&self.import.prefix[..], b"allcounts"].concat());
        track.arg("removedCrawls").arg(crawls);
        track.arg("removedCrawlSize").arg(size);
        self.server.ask(Call::<u64>::new(track).repeatable())?;
        Ok(())
    }

    /// Crawls that Browsertrix set aside to remove, or canceled after it had merged some of them.
    fn aside(&self) -> Result<Vec<Vec<u8>>, Error> {
        let crawls = self.index.crawls(None)?.into_iter();
        let is_aside = |state| matches!(state, CrawlState::Outgoing | CrawlState::Canceled);
        let aside = crawls.filter(|crawl| is_aside(crawl.standing.state));
        Ok(aside.map(|crawl| crawl.crawl).collect())
    }

    fn crawls(&self, which: Which) -> Result<HashSet<Vec<u8>>, Error> {
        let crawls = self.index.crawls(Some(which))?;
        Ok(crawls.into_iter().map(|crawl| crawl.crawl).collect())
    }
}
