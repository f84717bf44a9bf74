//! Calls for operators that list, count or remove queues and URLs.

use std::collections::HashSet;
use std::pin::pin;
use std::time::Duration;

use crawlspace_client::Batch;
use crawlspace_client::frontier::{Held, ListedUrl, Millis, Selection, State};
use futures_util::{Stream, StreamExt, TryStreamExt};

use crate::store::Store;

type Result<T> = std::result::Result<T, crawlspace_client::Error>;

/// Number of URLs of a page.
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
    /// Lists the queues that have queued or held URLs of a crawl, each once. Without `inactive`, omits those that are
    /// blocked or paused.
    pub(crate) async fn queues(
        &self,
        crawl: &str,
        inactive: bool,
        (skip, take): (usize, usize),
    ) -> Result<Vec<String>> {
        let filter = Filter::default();
        let (mut seen, mut found) = (HashSet::new(), Vec::new());
        let urls = self.walk(crawl, &[None], None, &filter);
        let mut chunks = pin!(urls.ready_chunks(PAGE as usize));
        while found.len() < skip + take
            && let Some(chunk) = chunks.next().await
        {
            let mut groups = Vec::new();
            for url in chunk {
                let chg = url?.chg;
                if seen.insert(chg.clone()) {
                    groups.push(chg);
                }
            }
            for some in groups.chunks(GROUPS) {
                let active = if inactive {
                    vec![true; some.len()]
                } else {
                    self.are_active(some).await?
                };
                let some = some.iter().zip(active).filter(|(_, active)| *active);
                found.extend(some.map(|(chg, _)| String::from_utf8_lossy(chg).into_owned()));
            }
        }
        Ok(found.into_iter().skip(skip).take(take).collect())
    }

    /// Returns, for each group, true if it is neither blocked nor paused.
    async fn are_active(&self, groups: &[Vec<u8>]) -> Result<Vec<bool>> {
        let batch = Batch::new();
        let over = self.frontier.over(&batch);
        let asked: Vec<_> = groups.iter().map(|chg| over.why(chg)).collect();
        batch.send_async(self.frontier.server()).await?;
        let active = asked.into_iter().map(|why| match why.take() {
            Ok(why) => Ok(!matches!(&why.state[..], "blocked" | "paused")),
            // The group may have ended in the meantime.
            Err(error) if error.word() == Some("NOCHG") => Ok(false),
            Err(error) => Err(error),
        });
        active.collect()
    }

    /// Lists the matching URLs of a crawl, of one queue or of all queues: queued and held ones, and
    /// completed ones if the crawl keeps them in full.
    pub(crate) fn urls<'a>(
        &'a self,
        crawl: &'a str,
        key: Option<&'a str>,
        filter: &'a Filter,
    ) -> impl Stream<Item = Result<ListedUrl>> + Send + 'a {
        const ALL: [Option<State>; 3] = [None, Some(State::Done), Some(State::GivenUp)];
        self.walk(crawl, &ALL, key, filter)
    }

    /// Lists the URLs of a crawl in some states; without a state, those that are queued or held.
    fn walk<'a>(
        &'a self,
        crawl: &'a str,
        states: &'static [Option<State>],
        key: Option<&'a str>,
        filter: &'a Filter,
    ) -> impl Stream<Item = Result<ListedUrl>> + Send + 'a {
        let begun = (states.iter(), None::<(Option<State>, Vec<u8>)>);
        let pages =
            futures_util::stream::try_unfold(begun, move |(mut states, place)| async move {
                let (state, cursor) = match place {
                    Some((state, cursor)) => (state, Some(cursor)),
                    None => match states.next() {
                        Some(state) => (*state, None),
                        None => return Ok(None),
                    },
                };
                let page = self.frontier.urls(crawl, state, cursor.as_deref(), PAGE);
                let (entries, next) = match page.await {
                    Ok(page) => (page.entries, page.next),
                    // The crawl does not keep completed URLs in full.
                    Err(error) if error.word() == Some("KNOWN") => (Vec::new(), None),
                    Err(error) => return Err(error),
                };
                let entries = futures_util::stream::iter(entries.into_iter().map(Ok));
                Ok(Some((entries, (states, next.map(|next| (state, next))))))
            });
        pages.try_flatten().try_filter(move |url| {
            let is_here = key.is_none_or(|key| url.chg == key.as_bytes());
            let text = std::str::from_utf8(&url.uri);
            std::future::ready(is_here && text.is_ok_and(|text| filter.fits(text)))
        })
    }

    /// Removes all URLs of a crawl, and returns their number.
    pub(crate) async fn delete_crawl(&self, crawl: &str) -> Result<u64> {
        let known = self.frontier.count(crawl, None).await?.known;
        let (_, dropped) = self.frontier.drop_execution(crawl).await?;
        self.frontier
            .forget_all(crawl, &Selection::default())
            .await?;
        // Lets the crawl be started again at once, even while clients hold URLs of it.
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

    /// Removes the URLs of a crawl whose state changed before the given time, in one queue or in all queues.
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
        // Removing a URL during the listing does not make the listing skip any other URL.
        let queued = self.walk(crawl, &[Some(State::Queued)], key, &filter);
        let mut chunks = pin!(queued.ready_chunks(PAGE as usize));
        while let Some(chunk) = chunks.next().await {
            let urls = chunk.into_iter().collect::<Result<Vec<ListedUrl>>>()?;
            let old = urls.into_iter().filter(|url| {
                before.is_none_or(|before| url.changed.is_some_and(|changed| changed < before))
            });
            let names: Vec<Vec<u8>> = old.map(|url| url.key.unwrap_or(url.uri)).collect();
            forgotten += self.frontier.forget(crawl, &names).await?;
        }
        Ok(forgotten)
    }
}

/// Returns the time that was this many days before `now`.
pub(crate) fn days_before(now: Millis, days: u32) -> Millis {
    let span = Duration::from_secs(u64::from(days) * 24 * 60 * 60);
    now.saturating_sub(span.as_millis() as Millis)
}
