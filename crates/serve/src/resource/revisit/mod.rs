//! Revisits: captures whose payload is in another record, their original.

mod budget;
pub(crate) mod referred;
pub(crate) mod response;

use std::sync::Arc;
use std::time::Duration;

use crawlspace_cdx::surt::{KeyRange, MatchType};
use crawlspace_index::Aliases;
use futures_util::stream::BoxStream;
use futures_util::{StreamExt, stream};
use tokio::time::timeout;

pub(super) use self::budget::Budget;
use self::referred::{referred, row_of};
use self::response::{of_nothing, with_payload};
use super::capture::{Capture, Extent};
use super::client_request::ClientRequest;
use super::digest::Digest;
use super::input::Input;
use super::live;
use super::loader::Archives;
use super::note;
use super::record::{LoadError, Record};
use super::stored::Stored;
use super::stored::header::Fields;
use crate::collection::Collection;
use crate::config::Loader;
use crate::gate::Reader;
use crate::group::Member;
use crate::query::{BadQuery, Query, Selection};
use crate::source::{Lookup, Source};
use crate::sources::{FileSource, Identity};
use crawlspace_fetch::Net;
use crawlspace_index::row::Row;
use crawlspace_index::sorted::Order;
use crawlspace_index::source::{Batch, Limits};
use crawlspace_index::timestamp::Timestamp;
use crawlspace_wacz::Location;
use crawlspace_warc::Header;
use crawlspace_warc::http::Head;

/// Timeout of the search for the original of a revisit.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Part of the profile URI of revisits for which the server answered "not modified" (ISO 28500,
/// section 6.7.3).
const UNMODIFIED: &[u8] = b"server-not-modified";

/// Context of a search for originals.
pub(super) struct Originals<'a> {
    /// Loaders of WARC files.
    pub archives: &'a Archives,
    /// Client for other archives, and the limits of their responses.
    pub net: (&'a Net, &'a Limits),
    /// The collection of the revisit, followed by the others.
    pub collections: Vec<&'a Arc<Collection>>,
    /// Loaders of the revisit's step.
    pub loaders: &'a [Loader],
    /// The reader of the request.
    pub reader: Reader<'a>,
    /// Remaining budget of the request.
    pub budget: &'a Budget,
}

/// Known facts about a revisit.
struct Revisit<'a> {
    capture: &'a Capture,
    header: &'a Header,
    digest: Option<Digest>,
    /// The server answered "not modified", so the original has the same URL, but not necessarily the same digest.
    is_unmodified: bool,
}

/// The record that has the payload of a revisit.
pub(super) struct Original {
    stored: Stored,
    /// The reader may learn its URL and date.
    may_be_named: bool,
}

/// A search for an original: captures of a URL, in order of their distance from a timestamp.
struct Wanted {
    uri: String,
    closest: Option<Timestamp>,
    /// Date of the original, if the revisit or the dedupe index states it.
    exact: Option<Timestamp>,
    /// Set if the original is the response to a request with a body; the key then includes the body.
    sent: bool,
    /// Accepts the closest earlier capture, because the server stated that the resource had not
    /// changed.
    is_unmodified: bool,
}

impl Originals<'_> {
    /// Returns a `response` record with the metadata of the revisit and the payload of its original.
    ///
    /// # Errors
    /// Fails if the original cannot be found.
    pub(super) async fn resolve(
        &self,
        capture: &Capture,
        revisit: Stored,
    ) -> Result<Record, LoadError> {
        // The record is not `Sync`, but its header is.
        let header = revisit.header().clone();
        let stated = revisit.stated_digest().cloned();
        let status = Head::of(revisit.http_head()).status();
        let profile = header.get("WARC-Profile").unwrap_or_default();
        let is_unmodified =
            memchr::memmem::find(profile, UNMODIFIED).is_some() || status == Some(304);
        let digest = stated.or_else(|| Digest::parse(capture.digest.as_bytes()));
        let is_of_nothing = digest.as_ref().is_some_and(Digest::is_of_nothing);
        let known = Revisit {
            capture,
            header: &header,
            // The digest of an empty "not modified" response does not describe the page.
            digest: digest.filter(|_| !(is_unmodified && is_of_nothing)),
            is_unmodified,
        };
        if is_of_nothing && !is_unmodified {
            let may_name = self.may_name(&header).await;
            return of_nothing(&revisit, may_name);
        }
        // Clients do not use the payload of a redirect, so only the revisit's own collection is searched for it.
        let is_redirect = matches!(status, Some(300..=303 | 305..=399));
        let most = if is_redirect { 1 } else { usize::MAX };
        match timeout(TIMEOUT, self.original(&known, most)).await {
            Ok(Ok(original)) => with_payload(&revisit, original, &known.digest),
            _ if is_redirect => {
                let may_name = self.may_name(&header).await;
                of_nothing(&revisit, may_name)
            }
            Ok(Err(error)) => Err(error),
            Err(_) => {
                let seconds = TIMEOUT.as_secs();
                let what =
                    format!("the original of the revisit was not found within {seconds} seconds");
                Err(LoadError::Missing(what))
            }
        }
    }

    /// Searches for the original, unless the same search failed recently.
    async fn original(&self, revisit: &Revisit<'_>, most: usize) -> Result<Original, LoadError> {
        let extent = revisit.capture.extent.as_ref();
        let collection = self.collections.first();
        let search = extent.zip(collection).map(|(extent, collection)| {
            let point = self.reader.point.unwrap_or_default();
            let (file, offset, package) = (&extent.filename, extent.offset, extent.package);
            format!("{} {point} {package} {offset} {file}", collection.name)
        });
        let in_vain = &self.archives.in_vain;
        if let Some(error) = search.as_ref().and_then(|search| in_vain.get(search)) {
            return Err(error);
        }
        let found = self.search(revisit, most).await;
        if let (Err(error @ (LoadError::Missing(_) | LoadError::Limit(_))), Some(search)) =
            (&found, search)
        {
            in_vain.add(search, error.clone());
        }
        found
    }

    async fn search(&self, revisit: &Revisit<'_>, most: usize) -> Result<Original, LoadError> {
        let mut failed =
            LoadError::Missing("the original of the revisit is not in any index".to_owned());
        let collection = self
            .collections
            .first()
            .map_or("", |collection| &*collection.name);
        if let Some(extent) = &revisit.capture.original {
            match self.named(extent, collection, revisit).await {
                Ok(original) => return Ok(original),
                Err(error) => failed = error,
            }
        }
        let refers_to = revisit.header.text("WARC-Refers-To-Target-URI");
        let refers_to = refers_to
            .map(|uri| uri.trim_matches(['<', '>']).to_owned())
            .filter(|uri| !uri.is_empty());
        let date = revisit
            .header
            .get("WARC-Refers-To-Date")
            .and_then(Timestamp::from_iso);
        let own_date = revisit.header.moment();
        let own = revisit.header.uri().unwrap_or_default();
        let mut lookups = Vec::new();
        if let Some(uri) = refers_to.clone() {
            lookups.push(Wanted::of(uri, date.or(own_date), date));
        }
        // Without a digest, captures of the same URL cannot be told apart.
        if revisit.digest.is_some() && lookups.first().is_none_or(|first| first.uri != own) {
            lookups.push(Wanted::of(own.clone(), own_date, None));
        }
        // The same payload may occur in responses to several requests with bodies.
        if let (Some(first), Some(_), Some(_)) = (lookups.first(), date, &revisit.digest) {
            lookups.push(Wanted {
                sent: true,
                ..Wanted::of(first.uri.clone(), date, date)
            });
        }
        if revisit.is_unmodified {
            lookups.push(Wanted {
                is_unmodified: true,
                ..Wanted::of(refers_to.unwrap_or(own), date.or(own_date), None)
            });
        }
        for (number, collection) in self.collections.iter().take(most).enumerate() {
            for lookup in &lookups {
                match self.look_up(collection, lookup, revisit).await {
                    Ok(Some(original)) => return Ok(original),
                    Ok(None) => {}
                    Err(error) => failed = error,
                }
            }
            if number > 0 {
                continue;
            }
            match self.elsewhere(collection, &lookups, revisit).await {
                Ok(Some(original)) => return Ok(original),
                Ok(None) => {}
                Err(error) => failed = error,
            }
        }
        Err(match self.budget.limit().unwrap_or(failed) {
            LoadError::Missing(what) | LoadError::Record(what) => {
                LoadError::Missing(format!("the original of the revisit: {what}"))
            }
            other => other,
        })
    }

    /// Searches for the original at the location that the dedupe index of the collection gives, and in the packages
    /// that the package of the revisit requires.
    async fn elsewhere(
        &self,
        collection: &Arc<Collection>,
        lookups: &[Wanted],
        revisit: &Revisit<'_>,
    ) -> Result<Option<Original>, LoadError> {
        let located = match (&collection.originals, &revisit.digest) {
            (Some(index), Some(digest)) => {
                let located = index.locate(digest.text().as_bytes()).await;
                located.unwrap_or_else(|error| {
                    tracing::warn!(%error, "a dedupe index cannot be queried for an original");
                    None
                })
            }
            _ => None,
        };
        let mut failed = None;
        let mut file = None;
        let mut of_index = None;
        if let Some(located) = located {
            let text = |bytes: Vec<u8>| String::from_utf8(bytes).ok();
            let date = date_of(&located.original.date);
            file = located.filename.and_then(text);
            of_index = text(located.original.url).map(|uri| Wanted::of(uri, date, date));
        }
        if let Some(wanted) = &of_index {
            match self.look_up(collection, wanted, revisit).await {
                Ok(Some(original)) => return Ok(Some(original)),
                Ok(None) => {}
                Err(error) => failed = Some(error),
            }
        }
        let Some(Extent { filename, .. }) = &revisit.capture.extent else {
            return failed.map_or(Ok(None), Err);
        };
        let name = &collection.name;
        let container = revisit.container();
        let others: Vec<&str> = [&container, &file]
            .into_iter()
            .flatten()
            .map(|it| &**it)
            .collect();
        let beside = self.archives.beside(self.loaders, filename, &others, name);
        for (package, size) in beside.await {
            for wanted in of_index.iter().chain(lookups) {
                match self.look_into(&package, size, wanted, revisit).await {
                    Ok(Some(original)) => return Ok(Some(original)),
                    Ok(None) => {}
                    Err(error) => failed = Some(error),
                }
            }
        }
        failed.map_or(Ok(None), Err)
    }

    /// Searches for captures of a URL in a package outside the collection.
    async fn look_into(
        &self,
        location: &Location,
        size: Option<u64>,
        wanted: &Wanted,
        revisit: &Revisit<'_>,
    ) -> Result<Option<Original>, LoadError> {
        let packages = self.archives.packages(location);
        let name: Arc<str> = location.name().into();
        let listing = packages.listing(&name).await?;
        let found = listing.packages.first().and_then(|package| package.size());
        if let (Some(size), Some(found)) = (size, found)
            && size != found
        {
            let what = format!("{name} should have {size} bytes, but has {found}");
            return Err(LoadError::Missing(what));
        }
        let members = String::from("\"source_type\": \"wacz\"");
        let identity = Identity {
            name: Arc::clone(&name),
            kind: "wacz",
            members: members.into(),
            limits: Limits::default(),
            live: false,
        };
        let query = wanted.query(revisit)?;
        let lookup = Lookup {
            order: query.order,
            query: Arc::new(query),
            at_most: None,
            collection: Arc::clone(&name),
        };
        let source = FileSource::of(packages, identity);
        let rows = source.rows(Arc::new(lookup)).await?.batches;
        let mut rows = rows.map(|batch| batch.ok()).boxed();
        let loaders = [Loader::Packages(location.clone())];
        self.first_of(&mut rows, &loaders, &name, wanted, revisit)
            .await
    }

    /// Searches for captures of a URL in a collection.
    async fn look_up(
        &self,
        collection: &Collection,
        wanted: &Wanted,
        revisit: &Revisit<'_>,
    ) -> Result<Option<Original>, LoadError> {
        let is_own = self
            .collections
            .first()
            .is_some_and(|own| own.name == collection.name);
        let mut query = wanted.query(revisit)?;
        query.point = self.reader.point.filter(|_| is_own).map(str::to_owned);
        if !is_own {
            // The archives behind other collections must not learn of this request, so only local sources are searched.
            let here =
                |member: &&Arc<Member>| matches!(member.kind, "file" | "redis" | "wacz" | "zipnum");
            let names: Vec<_> = collection
                .members()
                .filter(here)
                .map(|one| one.name.to_string())
                .collect();
            if names.is_empty() {
                return Ok(None);
            }
            query.sources = Selection::Only(names);
        }
        let Ok(query) = collection.prepare(query) else {
            return Ok(None);
        };
        let mut failed = None;
        for step in &collection.steps {
            let Ok(rows) = collection.candidates(step, &query).await else {
                continue;
            };
            let mut rows = rows.map(Some).boxed();
            let (loaders, name) = (&step.resource, &collection.name);
            match self
                .first_of(&mut rows, loaders, name, wanted, revisit)
                .await
            {
                Ok(Some(original)) => return Ok(Some(original)),
                Ok(None) => {}
                Err(error) => failed = Some(error),
            }
        }
        failed.map_or(Ok(None), Err)
    }

    /// Returns the first row that has the payload, until the budget is exhausted.
    async fn first_of(
        &self,
        rows: &mut BoxStream<'_, Option<Batch>>,
        loaders: &[Loader],
        collection: &str,
        wanted: &Wanted,
        revisit: &Revisit<'_>,
    ) -> Result<Option<Original>, LoadError> {
        let mut failed = None;
        // The first accepted record is the fallback in case the record in `WARC-Refers-To` is not found.
        let mut last = None;
        let id = revisit.header.get("WARC-Refers-To");
        let named = id.filter(|id| wanted.is_unmodified && !id.is_empty());
        'rows: while let Some(Some(batch)) = rows.next().await {
            // Rows of local files arrive without waiting, so other tasks need a chance to run.
            tokio::task::yield_now().await;
            for row in &batch {
                if !self.budget.take_row() {
                    break 'rows;
                }
                // Cheap pre-check without parsing: most captures of an unchanging page are revisits.
                if memchr::memmem::find(row.json(), b"\"warc/revisit\"").is_some() {
                    continue;
                }
                let Ok(candidate) = Capture::of(row) else {
                    continue;
                };
                let is_sent = memchr::memmem::find(row.urlkey(), b"__wb_method=").is_some();
                if wanted.sent && !is_sent || !revisit.may_be_of(&candidate, wanted) {
                    continue;
                }
                let Some(may_be_named) = self.may_lend(row).await else {
                    continue;
                };
                if !self.budget.take_try() {
                    break 'rows;
                }
                let loaded = match &candidate.extent {
                    Some(extent) => {
                        let accept = |stored: &Stored| {
                            candidate.agrees_with(stored.header())?;
                            revisit.accepts(stored, wanted.is_unmodified)
                        };
                        self.load(loaders, extent, collection, &accept).await
                    }
                    None => self.fetch(&candidate, loaders, revisit).await,
                };
                match loaded {
                    Ok(stored) => {
                        let is_named =
                            named.is_none_or(|id| stored.header().record_id() == Some(id));
                        let original = Original {
                            stored,
                            may_be_named,
                        };
                        if is_named {
                            return Ok(Some(original));
                        }
                        last.get_or_insert(original);
                    }
                    Err(error) => failed = Some(error),
                }
            }
        }
        match last {
            Some(last) => Ok(Some(last)),
            None => failed.map_or(Ok(None), Err),
        }
    }

    /// Returns whether the response may name the original, or `None` if the revisit's collection does not even lend the
    /// original's payload. The decision does not depend on where the original was found.
    async fn may_lend(&self, original: &Row) -> Option<bool> {
        let Some(own) = self.collections.first() else {
            return Some(true);
        };
        let is_seen = own.gate.shows(original, self.reader).await;
        (is_seen || own.gate.lends_hidden()).then_some(is_seen)
    }

    /// Returns whether the collection allows naming the original that a revisit refers to.
    async fn may_name(&self, header: &Header) -> bool {
        match referred(header) {
            Some((uri, original)) if !uri.is_empty() => match original {
                Some(row) => self.may_lend(&row).await == Some(true),
                None => false,
            },
            _ => true,
        }
    }

    /// Loads the original that the row itself locates.
    async fn named(
        &self,
        extent: &Extent,
        collection: &str,
        revisit: &Revisit<'_>,
    ) -> Result<Original, LoadError> {
        let accept = |stored: &Stored| revisit.accepts(stored, false);
        let stored = self.load(self.loaders, extent, collection, &accept).await?;
        let header = stored.header();
        let uri = header.uri().unwrap_or_default();
        let row = row_of(&uri, header.moment(), Some(extent));
        let lent = match row {
            Some(row) => self.may_lend(&row).await,
            None => None,
        };
        match lent {
            Some(may_be_named) => Ok(Original {
                stored,
                may_be_named,
            }),
            None => Err(LoadError::Missing(
                "the collection hides this capture from the reader".to_owned(),
            )),
        }
    }

    async fn load(
        &self,
        loaders: &[Loader],
        extent: &Extent,
        collection: &str,
        accept: &(dyn Fn(&Stored) -> Result<(), LoadError> + Sync),
    ) -> Result<Stored, LoadError> {
        let mut failed = no_loader();
        for loader in loaders.iter().filter(|loader| **loader != Loader::Live) {
            match self.archives.load(loader, extent, collection, accept).await {
                Ok(stored) => {
                    if let Some(own) = self.collections.first() {
                        note(own, extent, stored.deviations());
                    }
                    return Ok(stored);
                }
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    /// Fetches a record from another archive.
    async fn fetch(
        &self,
        candidate: &Capture,
        loaders: &[Loader],
        revisit: &Revisit<'_>,
    ) -> Result<Stored, LoadError> {
        if !loaders.contains(&Loader::Live) {
            return Err(no_loader());
        }
        let ((net, limits), message) = (self.net, ClientRequest::default());
        let record = live::load(net, limits, candidate, &message).await?;
        let head = stream::iter([Ok(record.head)]);
        let input = Input::Record(head.chain(record.body).boxed());
        let stored = Stored::read(input, b"").await?;
        // The archive may have answered with a capture of another time or URL.
        candidate.agrees_with(stored.header())?;
        revisit.accepts(&stored, false)?;
        Ok(stored)
    }
}

impl Wanted {
    fn of(uri: String, closest: Option<Timestamp>, exact: Option<Timestamp>) -> Wanted {
        Wanted {
            uri,
            closest,
            exact,
            sent: false,
            is_unmodified: false,
        }
    }

    fn query(&self, revisit: &Revisit<'_>) -> Result<Query, LoadError> {
        let unfit = |bad: BadQuery| LoadError::Unfit(bad.to_string());
        let mut query = Query::of_url(&self.uri).map_err(unfit)?;
        if self.sent {
            let place = self.uri.split(['?', '#']).next().unwrap_or_default();
            let aimed = query.aim(format!("{place}?"), MatchType::Prefix);
            aimed.map_err(|bad| LoadError::Unfit(bad.to_string()))?;
            (query.from, query.to) = (self.exact, self.exact);
            return Ok(query);
        }
        if revisit.header.uri().as_deref() == Some(&*self.uri) {
            // The key may include the body of the request in addition to the URL.
            let (key, (method, body)) = (&revisit.capture.urlkey, &revisit.capture.request);
            query.keys = KeyRange {
                from: format!("{key} ").into(),
                to: format!("{key}!").into(),
            };
            query.aliases = Arc::new(Aliases::of_row(&self.uri, key, method, body));
        }
        query.order = Order::Closest(self.closest.unwrap_or_else(Timestamp::now));
        if self.is_unmodified {
            query.to = self.closest;
        }
        Ok(query)
    }
}

/// Parses the date of a dedupe index entry: digits, or ISO 8601.
fn date_of(date: &[u8]) -> Option<Timestamp> {
    let digits = date.get(..14).unwrap_or(date);
    if digits.iter().all(u8::is_ascii_digit) {
        Timestamp::earliest(digits)
    } else {
        Timestamp::from_iso(date)
    }
}

fn no_loader() -> LoadError {
    LoadError::Missing("no loader has it".to_owned())
}

impl Revisit<'_> {
    /// Returns the name of the package with the original, if the revisit states it.
    fn container(&self) -> Option<String> {
        let container = self.header.text("WARC-Refers-To-Container")?;
        let name = container.trim_matches(['<', '>']).rsplit('/').next()?;
        Some(name.to_owned()).filter(|name| !name.is_empty())
    }

    /// Returns whether a capture may be the original.
    fn may_be_of(&self, candidate: &Capture, wanted: &Wanted) -> bool {
        // Rows for the live web are not captures.
        let is_stored = candidate.extent.is_some()
            || candidate.upstream.is_some()
            || candidate.is_live() && candidate.source_type != "live";
        let is_itself = candidate.extent.is_some() && self.capture.extent == candidate.extent;
        if wanted.is_unmodified {
            // Only a response with a payload can be the resource that is still valid.
            let was_sent = candidate.status.is_empty() || candidate.status.starts_with('2');
            return is_stored && was_sent && !is_itself;
        }
        let same_digest = self
            .digest
            .as_ref()
            .is_none_or(|digest| candidate.may_have(digest));
        // Without digests, only the capture that the revisit names can be its original.
        let is_sure = self.digest.is_some() && !candidate.digest.is_empty()
            || wanted.exact.is_some_and(|exact| {
                Timestamp::earliest(candidate.timestamp.as_bytes()) == Some(exact)
            });
        let is_revisit = candidate.mime == "warc/revisit";
        is_stored && same_digest && is_sure && !is_itself && !is_revisit
    }

    /// Checks that a record has the payload. With `is_unmodified` the digest need not match.
    fn accepts(&self, stored: &Stored, is_unmodified: bool) -> Result<(), LoadError> {
        let kind = stored.header().kind();
        if kind != b"response" && kind != b"resource" {
            let what = format!("its record type is {:?}", String::from_utf8_lossy(kind));
            return Err(LoadError::Record(what));
        }
        let Some(digest) = self.digest.as_ref().filter(|_| !is_unmodified) else {
            return Ok(());
        };
        let same = stored.stated_digest() == Some(digest)
            || match stored.payload_digest(digest.algorithm) {
                Some(real) => real == *digest,
                // The payload is too large to compute its digest here. If its header has no digest of this algorithm,
                // accept it.
                None => stored
                    .stated_digest()
                    .is_none_or(|stated| stated.algorithm != digest.algorithm),
            };
        same.then_some(())
            .ok_or_else(|| LoadError::Record("its payload has a different digest".to_owned()))
    }
}
