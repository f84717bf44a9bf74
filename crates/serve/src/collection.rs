//! A collection: a sequence of steps. The first step that has rows answers the query.

use std::sync::Arc;

use futures_util::stream::{self, BoxStream, StreamExt};

use super::access::{Access, AccessError};
use super::config;
use super::failure::Failure;
use super::figures::Requests;
use super::fuzzy;
pub(crate) use super::gate::Rows;
use super::gate::{Gate, Seen};
use super::group::{Group, Member, Part, Report, kept_rows};
use super::operations::{Operations, Reorder};
use super::packages::Packages;
use super::sources::{self, DedupeSource, Identity, Place};
use crate::query::{BadQuery, PAGE_OF_BLOCKS, Query, Selection};
use crate::source::Lookup;
use crate::writable::Writable;
use crawlspace_fetch::Net;
use crawlspace_index::row::{self, Row};
use crawlspace_index::sorted::Order;
use crawlspace_index::source::{Batch, Limits, SourceError};

/// A collection: its steps, and its access control.
pub struct Collection {
    /// First path segment of the collection's URLs.
    pub name: Arc<str>,
    /// Steps, in the order in which they are tried.
    pub steps: Vec<Step>,
    /// Counters of the collection's requests.
    pub requests: Requests,
    /// Access rules and access points, which decide what readers get.
    pub(crate) gate: Gate,
    access_point: Option<String>,
    /// Looks for captures of similar URLs if a URL has none.
    fuzzy: bool,
    /// Dedupe index that locates the originals of revisits, in addition to the collection's sources.
    pub(crate) originals: Option<DedupeSource>,
    /// The sorted set to which clients may add rows.
    pub(crate) writable: Option<Writable>,
}

/// A step of a collection.
pub struct Step {
    /// The sources of the step.
    pub group: Group,
    /// Loaders of the records of its rows.
    pub resource: Vec<config::Loader>,
    /// The first dedupe index among the sources.
    dedupe: Option<DedupeSource>,
}

impl Collection {
    /// Creates a collection from its configuration. Nothing is requested or opened yet.
    ///
    /// # Errors
    /// Fails if the configuration cannot work; the message says why.
    pub(crate) fn open(
        config: &config::Collection,
        net: &Arc<Net>,
        packages: &Packages,
    ) -> Result<Collection, String> {
        let access = config.tags.as_deref().map(Access::new).transpose()?;
        let steps = config
            .steps
            .iter()
            .map(|step| Step::open(step, net, packages));
        Ok(Collection {
            name: config.name.as_str().into(),
            steps: steps.collect(),
            requests: Requests::default(),
            // Without a tag space, the access point only selects access rules.
            access_point: config.access_point.clone().filter(|_| access.is_some()),
            gate: Gate::new(access, config.rules.clone(), config.lends_hidden),
            fuzzy: config.fuzzy,
            originals: config.dedupe.as_deref().map(originals),
            writable: config
                .writable
                .as_ref()
                .map(|writable| Writable::open(writable, &config.name))
                .transpose()?,
        })
    }

    /// Returns all sources of all steps.
    pub(crate) fn members(&self) -> impl Iterator<Item = &Arc<Member>> {
        self.steps.iter().flat_map(|step| &step.group.members)
    }

    /// Returns the first dedupe index of the collection, if it has one.
    pub(crate) fn dedupe(&self) -> Option<&DedupeSource> {
        self.steps.iter().find_map(|step| step.dedupe.as_ref())
    }

    /// Completes a query for this collection: applies the default access point if the query names none.
    ///
    /// # Errors
    /// Fails if the query filters by tags in a collection without a tag space, or selects unknown
    /// sources.
    pub(crate) fn prepare(&self, mut query: Query) -> Result<Arc<Query>, Failure> {
        if query.point.is_none() {
            query.point.clone_from(&self.access_point);
        }
        if query.fuzzy == Some(true) && !self.fuzzy {
            query.ignored.push("allowFuzzy".to_owned());
        }
        if !self.gate.has_tags() {
            if query.point.is_some() {
                let why = "the collection has no access points; set tags: in its configuration";
                return Err(AccessError::NoPoint(why.to_owned()).into());
            }
            if let Some(filter) = query.tag_filters.first() {
                let why = format!("filter={filter}: the collection has no tags");
                return Err(BadQuery(why).into());
            }
        }
        self.knows(&query.sources)?;
        Ok(Arc::new(query))
    }

    /// Checks that all sources of a selection exist.
    ///
    /// # Errors
    /// Fails if a source does not exist; the message names it and lists the existing ones.
    pub(crate) fn knows(&self, selection: &Selection) -> Result<(), BadQuery> {
        let (Selection::Only(names) | Selection::Except(names)) = selection else {
            return Ok(());
        };
        for name in names {
            if !self.members().any(|member| *member.name == **name) {
                let known: Vec<&str> = self.members().map(|member| &*member.name).collect();
                let why = format!(
                    "sources={name}: unknown source; the sources are {}",
                    known.join(", ")
                );
                return Err(BadQuery(why));
            }
        }
        Ok(())
    }

    /// Returns the rows of the first step that has any.
    ///
    /// # Errors
    /// Fails if there is no answer at all; sources that failed to answer are listed in the report.
    pub(crate) async fn rows(&self, query: &Arc<Query>, report: &Report) -> Result<Rows, Failure> {
        for step in &self.steps {
            if let Some(rows) = some(self.step(step, query, report).await?).await? {
                return Ok(rows);
            }
        }
        match report.unanswered() {
            Some(sources) => Err(sources.into()),
            None => Ok(stream::empty().boxed()),
        }
    }

    /// Returns the rows of one step, filtered and processed. If no row is left, returns the rows of
    /// similar URLs, provided that the query and the configuration allow it.
    ///
    /// # Errors
    /// Fails if there is no answer.
    pub(crate) async fn step(
        &self,
        step: &Step,
        query: &Arc<Query>,
        report: &Report,
    ) -> Result<Rows, Failure> {
        let rows = self.exactly(step, query, report).await?;
        match query.fuzzy {
            Some(true) if self.fuzzy => self.or_similar(rows, step, query).await,
            _ => Ok(rows),
        }
    }

    /// Returns rows of one step that may be originals of revisits. Never return them as rows of an answer: if the
    /// collection lends hidden captures, they include rows that the reader may not see.
    ///
    /// # Errors
    /// Fails if there is no answer.
    pub(crate) async fn candidates(
        &self,
        step: &Step,
        query: &Arc<Query>,
    ) -> Result<BoxStream<'static, Batch>, Failure> {
        let report = Report::default();
        if self.gate.lends_hidden() {
            let lookup = self.lookup(query, false, None);
            return Ok(step.group.ask(&lookup, &Part::All, &report).await.boxed());
        }
        let gate = self.gate.clone();
        let open = move |batch: Seen| {
            let mut rows: Batch = batch.into_iter().collect();
            rows.retain(|row| !gate.blocks_record(row));
            rows
        };
        let rows = self.step(step, query, &report).await?;
        let until_failure = rows.take_while(|batch| std::future::ready(batch.is_ok()));
        Ok(until_failure
            .map(move |batch| batch.map(&open).unwrap_or_default())
            .boxed())
    }

    async fn or_similar(
        &self,
        rows: Rows,
        step: &Step,
        query: &Arc<Query>,
    ) -> Result<Rows, Failure> {
        if let Some(rows) = some(rows).await? {
            return Ok(rows);
        }
        for similar in fuzzy::similar(query) {
            // The report is discarded: sources that fail were already reported for the exact query,
            // and sources that cannot answer the similar query need no report.
            let rows = match self.exactly(step, &similar, &Report::default()).await {
                Err(Failure::TooMany | Failure::TooMuch) => continue,
                rows => rows?,
            };
            if let Some(rows) = some(rows).await? {
                let marked = rows.map(|batch: Result<Seen, Failure>| {
                    let marked = |row: Row| row.with(r#""is_fuzzy": "1""#);
                    Ok(batch?.map(|rows| rows.into_iter().map(marked).collect()))
                });
                return Ok(marked.boxed());
            }
        }
        Ok(stream::empty().boxed())
    }

    /// Returns the rows of one step for exactly this query, without similar URLs.
    async fn exactly(
        &self,
        step: &Step,
        query: &Arc<Query>,
        report: &Report,
    ) -> Result<Rows, Failure> {
        let (part, skipped, wanted) = self.part(step, query).await?;
        // Blocks are in ascending order of time.
        let ascending = query.needs_ascending() || part != Part::All;
        let lookup = self.lookup(query, ascending, wanted.map(|n| n.saturating_add(skipped)));
        let found = step.group.ask(&lookup, &part, report).await;
        let found = found.map(readable).boxed();
        if matches!(part, Part::Index(_)) {
            return Ok(self::part(self.gate.blocks(found), skipped, wanted));
        }
        let mut rows = self.gate.rows(found, query);
        if let Some(mut operations) = Operations::of(query) {
            let ended = rows.map(Some).chain(stream::once(async { None }));
            let left = ended.map(move |batch| match batch {
                Some(batch) => Ok(batch?.map(|rows| operations.apply(rows))),
                None => Ok(Seen::again(operations.finish())),
            });
            rows = left.boxed();
        }
        if ascending && query.order != Order::Ascending {
            let most = wanted.map(|wanted| wanted.saturating_add(skipped));
            let mut reorder = Reorder::new(query.order, most);
            while let Some(batch) = next(&mut rows).await? {
                reorder.take(batch.into_iter().collect())?;
            }
            let (sorted, kept) = reorder.finish();
            let sorted = kept_rows(sorted, kept);
            rows = sorted.map(|batch| Ok(Seen::again(batch))).boxed();
        }
        Ok(self::part(rows, skipped, wanted))
    }

    /// Returns the number of pages of the answer. Pages of a source with blocks consist of blocks, other pages of rows.
    ///
    /// # Errors
    /// Fails if there is no answer.
    pub(crate) async fn pages(
        &self,
        query: &Arc<Query>,
        report: &Report,
    ) -> Result<Pages, Failure> {
        let mut none = Pages {
            count: 0,
            size: query.rows_of_page(),
            of_blocks: false,
        };
        for step in &self.steps {
            let pages = match self.blocks(step, query).await {
                Ok(Some(blocks)) => {
                    report.answered();
                    let size = query.page_size.unwrap_or(PAGE_OF_BLOCKS);
                    Pages {
                        count: blocks,
                        size,
                        of_blocks: true,
                    }
                }
                Ok(None) => {
                    let mut rows = self.step(step, query, report).await?;
                    let mut count = 0;
                    while let Some(batch) = next(&mut rows).await? {
                        count += batch.len() as u64;
                    }
                    let size = query.rows_of_page();
                    Pages {
                        count,
                        size,
                        of_blocks: false,
                    }
                }
                Err((name, error)) => {
                    report.add(&name, error);
                    continue;
                }
            };
            if pages.count > 0 {
                return Ok(pages);
            }
            // This step has no pages. Its result has the count 0, and the page size and unit of this step.
            none = pages;
        }
        match report.unanswered() {
            Some(sources) => Err(sources.into()),
            None => Ok(none),
        }
    }

    /// Returns whether pages of the answer consist of blocks, some of which may have no matching row.
    pub(crate) async fn has_blocks(&self, query: &Arc<Query>) -> bool {
        for step in &self.steps {
            if let Ok(Some(1..)) = self.blocks(step, query).await {
                return true;
            }
        }
        false
    }

    /// Returns the number of blocks that may have rows of the query, or `None` if the pages consist of rows. Pages of
    /// collections that hide rows always consist of rows, since blocks contain hidden rows as well.
    async fn blocks(
        &self,
        step: &Step,
        query: &Arc<Query>,
    ) -> Result<Option<u64>, (Arc<str>, SourceError)> {
        if query.point.is_some() || !query.tag_filters.is_empty() || self.gate.has_rules() {
            return Ok(None);
        }
        step.group.blocks(&self.lookup(query, true, None)).await
    }

    fn lookup(&self, query: &Arc<Query>, ascending: bool, most: Option<u64>) -> Arc<Lookup> {
        let asked = if query.resolve_revisits {
            // Originals may be older than the time range of the query.
            Arc::new(Query {
                from: None,
                to: None,
                ..(**query).clone()
            })
        } else {
            Arc::clone(query)
        };
        Arc::new(Lookup {
            order: if ascending {
                Order::Ascending
            } else {
                query.order
            },
            at_most: most.filter(|_| query.keeps_all() && !self.gate.has_rules()),
            query: asked,
            collection: Arc::clone(&self.name),
        })
    }

    /// Determines which part of the sources to query, how many rows to skip, and how many rows the page has.
    async fn part(
        &self,
        step: &Step,
        query: &Arc<Query>,
    ) -> Result<(Part, u64, Option<u64>), Failure> {
        let of_rows = (Part::All, query.skipped(), query.wanted());
        // All rows are counted, regardless of the page.
        if query.show_num_pages {
            return Ok((Part::All, 0, None));
        }
        if query.page.is_none() && !query.show_paged_index {
            return Ok(of_rows);
        }
        let Ok(Some(count)) = self.blocks(step, query).await else {
            return if query.show_paged_index {
                Err(BadQuery(NO_BLOCKS.to_owned()).into())
            } else {
                Ok(of_rows)
            };
        };
        let size = query.page_size.unwrap_or(PAGE_OF_BLOCKS);
        let page = query.page.unwrap_or(0);
        let first = page.saturating_mul(size);
        if page > 0 && first >= count {
            let last = count.div_ceil(size).saturating_sub(1);
            return Err(BadQuery(format!("page={page}: the last page is {last}")).into());
        }
        let blocks = first..first.saturating_add(size);
        let part = if query.show_paged_index {
            Part::Index(blocks)
        } else {
            Part::Blocks(blocks)
        };
        Ok((part, query.offset, query.limit))
    }
}

/// Creates a client of the dedupe index at `redis://host:port/db/prefix`, which locates originals.
fn originals(url: &str) -> DedupeSource {
    let slash = url
        .match_indices('/')
        .nth(3)
        .map_or(url.len(), |(at, _)| at);
    let (server, prefix) = url.split_at(slash);
    let prefix = prefix.strip_prefix('/').unwrap_or(prefix);
    DedupeSource::new(
        server,
        Place::Prefix(prefix.to_owned()),
        None,
        &Arc::from(""),
        Limits::default().first,
    )
}

const NO_BLOCKS: &str = "showPagedIndex: works only for a single source with blocks, in a collection without access \
 points and access rules";

/// Number of pages of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pages {
    /// Number of items (rows or blocks) on all pages.
    pub count: u64,
    /// Number of items of one page.
    pub size: u64,
    /// Items are blocks of a source instead of rows.
    pub of_blocks: bool,
}

impl Step {
    fn open(config: &config::Step, net: &Arc<Net>, packages: &Packages) -> Step {
        let live = config.resource.contains(&config::Loader::Live);
        let mut dedupe = None;
        let members = config.sources.iter().map(|source| {
            let kind = source.kind.word();
            let mut limits = Limits {
                first: source.timeout,
                ..Limits::default()
            };
            limits.bytes = source.max_bytes.unwrap_or(limits.bytes);
            limits.rows = source.max_rows.unwrap_or(limits.rows);
            let mut members = String::new();
            row::member("source", &source.name, &mut members);
            // The name that pywb uses for this field; its Memento links get their value from it.
            row::member("source-coll", &source.name, &mut members);
            row::member("source_type", kind, &mut members);
            let identity = Identity {
                name: source.name.as_str().into(),
                kind,
                members: members.into(),
                limits,
                live,
            };
            let name = Arc::clone(&identity.name);
            let opened = sources::open(source, identity, net, packages);
            dedupe = dedupe.take().or(opened.dedupe);
            Arc::new(Member {
                name,
                kind,
                limits,
                source: opened.source,
                breaker: Default::default(),
                figures: Default::default(),
            })
        });
        let members = members.collect();
        Step {
            group: Group { members },
            resource: config.resource.clone(),
            dedupe,
        }
    }
}

/// Replaces invalid UTF-8 in the JSON of rows by U+FFFD, so that filters and all outputs can read it. Urlkeys keep
/// their bytes, because rows are sorted by them.
fn readable(mut batch: Batch) -> Batch {
    for row in &mut batch {
        if !row::is_utf8(row.json()) {
            let json = String::from_utf8_lossy(row.json());
            let columns = &row.line()[..row.line().len() - row.json().len()];
            let line = [columns, json.as_bytes()].concat();
            if let Some(readable) = Row::new(line.into()) {
                *row = readable.made_of(row);
            }
        }
    }
    batch
}

/// Skips the first `skipped` rows, and ends after `wanted` further rows if there is a limit.
fn part(rows: Rows, skipped: u64, wanted: Option<u64>) -> Rows {
    if skipped == 0 && wanted.is_none() {
        return rows;
    }
    let state = (rows, skipped, wanted.unwrap_or(u64::MAX));
    let part = stream::unfold(state, |(mut rows, mut skipped, mut wanted)| async move {
        loop {
            if wanted == 0 {
                return None;
            }
            let mut batch = match rows.next().await? {
                Ok(batch) => batch,
                Err(failure) => return Some((Err(failure), (rows, 0, 0))),
            };
            let many = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
            let dropped = many(skipped).min(batch.len());
            skipped -= dropped as u64;
            batch = batch.map(|mut rows| {
                rows.drain(..dropped);
                rows.truncate(many(wanted));
                rows
            });
            wanted -= batch.len() as u64;
            if !batch.is_empty() {
                return Some((Ok(batch), (rows, skipped, wanted)));
            }
        }
    });
    part.boxed()
}

/// Returns the next batch that is not empty.
///
/// # Errors
/// Fails if the access point cannot be checked.
pub(crate) async fn next(rows: &mut Rows) -> Result<Option<Seen>, Failure> {
    loop {
        match rows.next().await.transpose()? {
            Some(batch) if batch.is_empty() => {}
            other => return Ok(other),
        }
    }
}

/// Returns the rows, or `None` if there are none.
///
/// # Errors
/// Fails if the access point cannot be checked.
pub(crate) async fn some(mut rows: Rows) -> Result<Option<Rows>, Failure> {
    let first = next(&mut rows).await?;
    Ok(first.map(|first| stream::once(async { Ok(first) }).chain(rows).boxed()))
}
