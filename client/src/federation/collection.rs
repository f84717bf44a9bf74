//! A collection: steps that are tried one after the other.

use std::fmt;
use std::sync::Arc;

use futures_util::stream::{self, BoxStream, StreamExt};

use super::access::{Access, AccessError};
use super::config;
use super::figures::Requests;
use super::group::{Group, Member, Report};
use super::net::Net;
use super::operations::{Operations, Reorder, SORTED};
use super::query::{BadQuery, Order, Query, Selection};
use super::row;
use super::source::{Batch, Limits, Lookup};
use super::sources::{self, Identity};

/// A collection.
pub struct Collection {
    /// The first part of its URLs.
    pub name: Arc<str>,
    /// Tried one after the other.
    pub steps: Vec<Step>,
    /// What was asked of it so far.
    pub requests: Requests,
    access: Option<Access>,
    access_point: Option<String>,
}

/// A step of a collection.
pub struct Step {
    /// Its sources.
    pub group: Group,
    /// What its rows are loaded with.
    pub resource: Vec<config::Loader>,
}

/// Rows of an answer, which ends with an error when nobody can say how it goes on.
pub type Rows = BoxStream<'static, Result<Batch, Failure>>;

/// Why a query has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The query is wrong.
    Query(BadQuery),
    /// It cannot be said which rows may be seen, or there is no such access point.
    Access(AccessError),
    /// There are more rows than are put into another order.
    TooMany,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Query(bad) => bad.fmt(f),
            Failure::Access(error) => error.fmt(f),
            Failure::TooMany => write!(
                f,
                "more than {SORTED} captures, which would have to be sorted: narrow the query by from, to or filter, \
                 or say limit"
            ),
        }
    }
}

impl std::error::Error for Failure {}

impl From<AccessError> for Failure {
    fn from(error: AccessError) -> Failure {
        Failure::Access(error)
    }
}

impl From<BadQuery> for Failure {
    fn from(bad: BadQuery) -> Failure {
        Failure::Query(bad)
    }
}

impl Collection {
    /// Makes what the configuration says. Nothing is asked or opened yet.
    ///
    /// # Errors
    /// What cannot work, in words.
    pub fn open(config: &config::Collection, net: &Arc<Net>) -> Result<Collection, String> {
        let access = config.tags.as_deref().map(Access::new).transpose()?;
        let steps = config.steps.iter().map(|step| Step::open(step, net));
        Ok(Collection {
            name: config.name.as_str().into(),
            steps: steps.collect(),
            requests: Requests::default(),
            access,
            access_point: config.access_point.clone(),
        })
    }

    /// All sources of all steps.
    pub fn members(&self) -> impl Iterator<Item = &Arc<Member>> {
        self.steps.iter().flat_map(|step| &step.group.members)
    }

    /// The query as this collection understands it: its access point stands for one that is not said.
    ///
    /// # Errors
    /// When it asks for tags of a collection without any, or for sources that there are not.
    pub fn prepare(&self, mut query: Query) -> Result<Arc<Query>, Failure> {
        if query.point.is_none() {
            query.point.clone_from(&self.access_point);
        }
        if self.access.is_none() {
            if query.point.is_some() {
                let why = "the collection has no access points (tags: in its configuration)";
                return Err(AccessError::NoPoint(why.to_owned()).into());
            }
            if let Some(filter) = query.tag_filters.first() {
                let why = format!("filter={filter}: the collection has no tags");
                return Err(BadQuery(why).into());
            }
        }
        let (Selection::Only(names) | Selection::Except(names)) = &query.sources else {
            return Ok(Arc::new(query));
        };
        for name in names {
            if !self.members().any(|member| *member.name == **name) {
                let known: Vec<&str> = self.members().map(|member| &*member.name).collect();
                let why = format!("sources={name}: there are {}", known.join(", "));
                return Err(BadQuery(why).into());
            }
        }
        Ok(Arc::new(query))
    }

    /// The rows of the first step that has any.
    ///
    /// # Errors
    /// When there is no answer at all; sources that are missing from it are in the report.
    pub async fn rows(&self, query: &Arc<Query>, report: &Report) -> Result<Rows, Failure> {
        for step in &self.steps {
            let mut rows = self.step(step, query, report).await?;
            if let Some(first) = next(&mut rows).await? {
                return Ok(stream::once(async { Ok(first) }).chain(rows).boxed());
            }
        }
        Ok(stream::empty().boxed())
    }

    /// The rows of one step, after everything that is done to them.
    ///
    /// # Errors
    /// When there is no answer.
    pub async fn step(
        &self,
        step: &Step,
        query: &Arc<Query>,
        report: &Report,
    ) -> Result<Rows, Failure> {
        let ascending = query.needs_ascending();
        let asked = match query.resolve_revisits {
            // Originals may be from before.
            true => Arc::new(Query {
                from: None,
                to: None,
                ..(**query).clone()
            }),
            false => Arc::clone(query),
        };
        let skipped = query.skipped();
        let lookup = Arc::new(Lookup {
            order: if ascending {
                Order::Ascending
            } else {
                query.order
            },
            at_most: match (query.wanted(), query.keeps_all()) {
                (Some(wanted), true) => Some(wanted.saturating_add(skipped)),
                _ => None,
            },
            query: asked,
            collection: Arc::clone(&self.name),
        });
        let mut rows: Rows = step.group.ask(&lookup, report).await.map(Ok).boxed();
        if let Some(access) = self.access.clone() {
            if query.point.is_some() || !query.tag_filters.is_empty() {
                rows = visible(rows, access, query);
            }
        }
        if let Some(mut operations) = Operations::of(query) {
            rows = rows.map(move |batch| Ok(operations.apply(batch?))).boxed();
        }
        if ascending && query.order != Order::Ascending {
            let wanted = query.wanted().map(|wanted| wanted.saturating_add(skipped));
            let mut reorder = Reorder::new(query.order, wanted);
            while let Some(batch) = next(&mut rows).await? {
                reorder.take(batch).map_err(|_| Failure::TooMany)?;
            }
            rows = stream::once(async { Ok(reorder.finish()) }).boxed();
        }
        Ok(part(rows, skipped, query.wanted()))
    }
}

impl Step {
    fn open(config: &config::Step, net: &Arc<Net>) -> Step {
        let live = config.resource.contains(&config::Loader::Live);
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
            row::member("source_type", kind, &mut members);
            let identity = Identity {
                name: source.name.as_str().into(),
                kind,
                members: members.into(),
                limits,
                live,
            };
            Arc::new(Member {
                name: Arc::clone(&identity.name),
                kind,
                limits,
                source: sources::open(source, identity, net),
                breaker: Default::default(),
                figures: Default::default(),
            })
        });
        Step {
            group: Group {
                members: members.collect(),
            },
            resource: config.resource.clone(),
        }
    }
}

/// The rows that may be seen.
fn visible(rows: Rows, access: Access, query: &Arc<Query>) -> Rows {
    let query = Arc::clone(query);
    let filtered = rows.then(move |batch| {
        let (access, query) = (access.clone(), Arc::clone(&query));
        async move {
            let point = query.point.as_deref();
            Ok(access.filter(point, &query.tag_filters, batch?).await?)
        }
    });
    filtered.boxed()
}

/// So many rows, after so many.
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
            batch.drain(..dropped);
            batch.truncate(many(wanted));
            wanted -= batch.len() as u64;
            if !batch.is_empty() {
                return Some((Ok(batch), (rows, skipped, wanted)));
            }
        }
    });
    part.boxed()
}

/// The next batch with something in it.
///
/// # Errors
/// When nobody can say how it goes on.
pub async fn next(rows: &mut Rows) -> Result<Option<Batch>, Failure> {
    loop {
        match rows.next().await.transpose()? {
            Some(batch) if batch.is_empty() => {}
            other => return Ok(other),
        }
    }
}
