//! Calls for operators that list, count or remove queues and URLs.

use std::collections::HashSet;
use std::pin::pin;
use std::time::Duration;

use crawlspace_client::Batch;
use crawlspace_client::frontier::{Held, ListedUri, Millis, Selection};
use futures_util::{Stream, StreamExt};

use crate::store::Store;

type Result<T> = std::result::Result<T, crawlspace_client::Error>;

/// Groups or URIs of a page.
const PAGE: u32 = 1000;
/// Number of groups whose state is read together.
const GROUPS: usize = 128;

/// Selects URLs by a part of their text.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filter {
    pub(crate) part: String,
    pub(crate) ignore_case: bool,
}

impl Filter {
    pub(crate) fn of(part: Option<String>, ignore_case: Option<bool>) -> Filter {
        let ignore_case = ignore_case.unwrap_or(false);
        let part = part.unwrap_or_default();
        let part = if ignore_case {
            part.to_lowercase()
        } else {
            part
        };
        Filter { part, ignore_case }
    }

    fn fits(&self, url: &str) -> bool {
        if self.ignore_case {
            url.to_lowercase().contains(&self.part)
        } else {
            url.contains(&self.part)
        }
    }
}

impl Store {
    /// Lists the queued groups that have URIs of a crawl, each once. Without `blocked`, omits those that are blocked.
    pub(crate) async fn queues(
        &self,
        crawl: &str,
        blocked: bool,
        (skip, take): (usize, usize),
    ) -> Result<Vec<String>> {
        let (mut seen, mut found, mut cursor) = (HashSet::new(), Vec::new(), None::<Vec<u8>>);
        let mut passed = 0;
        loop {
            let page = self.frontier.list(None, cursor.as_deref(), PAGE).await?;
            let groups = page.entries.into_iter().map(|group| group.chg);
            let groups: Vec<Vec<u8>> = groups.filter(|chg| seen.insert(chg.clone())).collect();
            for slice in groups.chunks(GROUPS) {
                let batch = Batch::new();
                let over = self.frontier.over(&batch);
                let asked: Vec<_> = slice.iter().map(|chg| over.why(chg)).collect();
                batch.send_async(self.frontier.server()).await?;
                for (chg, why) in slice.iter().zip(asked) {
                    // The group may have ended in the meantime.
                    let Ok(why) = why.take() else { continue };
                    let ours = why
                        .executions
                        .iter()
                        .any(|one| one.execution == crawl.as_bytes());
                    if (ours || why.more_executions) && (blocked || why.state != "blocked") {
                        if passed >= skip {
                            found.push(String::from_utf8_lossy(chg).into_owned());
                        }
                        passed += 1;
                    }
                }
                if found.len() >= take {
                    found.truncate(take);
                    return Ok(found);
                }
            }
            match page.next {
                Some(next) => cursor = Some(next),
                None => return Ok(found),
            }
        }
    }

    /// Lists the queued URIs of a crawl that fit, of one queue or of all, with their queue.
    pub(crate) fn queued<'a>(
        &'a self,
        crawl: &'a str,
        key: Option<&'a str>,
        filter: &'a Filter,
    ) -> impl Stream<Item = Result<(String, ListedUri)>> + Send + 'a {
        let pages = futures_util::stream::try_unfold(
            (Walk::default(), HashSet::<Vec<u8>>::new()),
            move |(mut walk, mut seen)| async move {
                loop {
                    if let Some((chg, cursor)) = walk.uris.take() {
                        let page = match self.frontier.uris(&chg, cursor.as_deref(), PAGE).await {
                            Ok(page) => page,
                            Err(error) if error.word() == Some("NOCHG") => continue,
                            Err(error) => return Err(error),
                        };
                        let queue = String::from_utf8_lossy(&chg).into_owned();
                        walk.uris = page.next.map(|next| (chg, Some(next)));
                        let uris = page
                            .entries
                            .into_iter()
                            .map(move |uri| Ok((queue.clone(), uri)));
                        let uris: Vec<Result<(String, ListedUri)>> = uris.collect();
                        return Ok(Some((futures_util::stream::iter(uris), (walk, seen))));
                    }
                    if let Some(chg) = walk.groups.pop() {
                        if seen.insert(chg.clone()) {
                            walk.uris = Some((chg, None));
                        }
                        continue;
                    }
                    if walk.ended {
                        return Ok(None);
                    }
                    if let Some(key) = key {
                        walk.ended = true;
                        walk.groups.push(key.as_bytes().to_vec());
                        continue;
                    }
                    let page = self
                        .frontier
                        .list(None, walk.cursor.as_deref(), PAGE)
                        .await?;
                    walk.groups = page.entries.into_iter().map(|group| group.chg).collect();
                    walk.groups.reverse();
                    walk.ended = page.next.is_none();
                    walk.cursor = page.next;
                }
            },
        );
        let uris = futures_util::TryStreamExt::try_flatten(pages);
        uris.filter(move |uri| {
            let fits = uri.as_ref().map_or(true, |(_, uri)| {
                let url = std::str::from_utf8(&uri.uri);
                uri.execution == crawl.as_bytes() && url.is_ok_and(|url| filter.fits(url))
            });
            std::future::ready(fits)
        })
    }

    /// Removes all URLs of a crawl, and returns their number.
    pub(crate) async fn delete_crawl(&self, crawl: &str) -> Result<u64> {
        let known = self.frontier.count(crawl, None).await?.known;
        let (_, dropped) = self.frontier.drop_execution(crawl).await?;
        self.frontier
            .forget_all(crawl, &Selection::default())
            .await?;
        // Clients that hold URLs of the crawl may not keep it from being started again.
        self.frontier
            .resume(Held::Execution(crawl.as_bytes()))
            .await?;
        self.drop_crawl(crawl).await?;
        Ok(known.max(dropped))
    }

    /// Removes the URLs of a queue of a crawl, and returns their number. URLs of other crawls stay.
    pub(crate) async fn delete_queue(&self, crawl: &str, key: &str) -> Result<u64> {
        let known = self
            .frontier
            .count(crawl, Some(key.as_bytes()))
            .await?
            .known;
        self.forget_queued(crawl, Some(key), None).await?;
        let selection = Selection {
            group: Some(key.as_bytes()),
            ..Selection::default()
        };
        self.frontier.forget_all(crawl, &selection).await?;
        let left = self
            .frontier
            .count(crawl, Some(key.as_bytes()))
            .await?
            .known;
        Ok(known.saturating_sub(left))
    }

    /// Removes the URLs of a crawl whose state changed before a time, of one queue or of all.
    pub(crate) async fn purge(
        &self,
        crawl: &str,
        key: Option<&str>,
        before: Millis,
    ) -> Result<u64> {
        let queued = self.forget_queued(crawl, key, Some(before)).await?;
        let selection = Selection {
            group: key.map(str::as_bytes),
            before: Some(before),
            state: None,
        };
        Ok(queued + self.frontier.forget_all(crawl, &selection).await?)
    }

    /// Forgets queued URLs, and returns their number.
    async fn forget_queued(
        &self,
        crawl: &str,
        key: Option<&str>,
        before: Option<Millis>,
    ) -> Result<u64> {
        let filter = Filter::default();
        let mut forgotten = 0;
        // Removing a URL while its queue is listed skips no other one.
        let mut chunks = pin!(self.queued(crawl, key, &filter).ready_chunks(PAGE as usize));
        while let Some(chunk) = chunks.next().await {
            let uris = chunk.into_iter().map(|uri| uri.map(|(_, uri)| uri.uri));
            let mut uris = uris.collect::<Result<Vec<Vec<u8>>>>()?;
            if let Some(before) = before {
                let known = self.frontier.known(crawl, &uris).await?;
                let mut known = known.into_iter();
                uris.retain(|_| {
                    known
                        .next()
                        .flatten()
                        .is_some_and(|known| known.changed < before)
                });
            }
            forgotten += self.frontier.forget(crawl, &uris).await?;
        }
        Ok(forgotten)
    }
}

/// The place of a walk through groups and their URIs.
#[derive(Default)]
struct Walk {
    /// Groups of the page that are left, the next one last.
    groups: Vec<Vec<u8>>,
    /// Cursor of the next page of groups.
    cursor: Option<Vec<u8>>,
    ended: bool,
    /// The group whose URIs are listed, and the cursor of its next page.
    uris: Option<(Vec<u8>, Option<Vec<u8>>)>,
}

/// Returns the time that was this many days before `now`.
pub(crate) fn days_before(now: Millis, days: u32) -> Millis {
    let span = Duration::from_secs(u64::from(days) * 24 * 60 * 60);
    now.saturating_sub(span.as_millis() as Millis)
}
