//! The resource API: the record of a URL, of the first row for which there is one.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::{self, StreamExt};
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, HeaderName, HeaderValue};
use http::{HeaderMap, Response, StatusCode};

use super::attempts::Attempts;
use super::capture::Capture;
use super::client_request::ClientRequest;
use super::record::{LoadError, Record};
use super::revisit::Originals;
use super::stored::header::Fields;
use super::{Resources, captured, live};
use crate::Federation;
use crate::collection::{Collection, Failure, Step};
use crate::config::Loader;
use crate::group::{Report, ascii};
use crate::query::{Output, Query};
use crate::reason::Reason;
use crate::server::links::{BaseUrl, link, timemap_link};
use crate::server::{Body, gzip, message, refusal, whole, with_errors, with_ignored};
use crawlspace_archive::row::Row;
use url::Url;

/// Maximum number of rows tried.
const MAX_TRIES: u64 = 100;
/// Timeout until a record is found.
const TIMEOUT: Duration = Duration::from_secs(120);
/// Maximum size of a row in a header, in bytes. A longer one is left out.
const MAX_ROW: usize = 6 * 1024;

/// The form in which a capture is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A WARC record.
    Record,
    /// The HTTP response that was captured.
    Replay,
}

/// A request to the resource API.
pub struct Request<'a> {
    /// What is wanted.
    pub form: Form,
    /// The query string.
    pub query: &'a str,
    /// The access point that the path names.
    pub point: Option<&'a str>,
    /// The header, of which the host counts.
    pub headers: &'a HeaderMap,
    /// The request to send on to the server of the resource.
    pub message: ClientRequest,
}

/// Loads a record.
struct RecordSearch<'a> {
    federation: &'a Federation,
    collection: &'a Arc<Collection>,
    query: Arc<Query>,
    message: &'a ClientRequest,
    report: Report,
    tried: Attempts,
}

/// The record of the first row that has one; else 404, with what was tried.
pub async fn answer(
    federation: &Federation,
    collection: &Arc<Collection>,
    request: Request<'_>,
) -> Response<Body> {
    let query = match query(&request, collection).await {
        Ok(query) => query,
        Err(failure) => return refusal(&failure),
    };
    let mut search = RecordSearch {
        federation,
        collection,
        query,
        message: &request.message,
        report: Report::default(),
        tried: Attempts::default(),
    };
    // What it may have to do is too much for the future of a connection to hold all of it.
    let run: BoxFuture<'_, _> = Box::pin(search.run());
    let found = match tokio::time::timeout(TIMEOUT, run).await {
        Ok(Ok(found)) => found,
        Ok(Err(failure)) => return with_errors(refusal(&failure), &search.report),
        Err(_) => {
            search.tried.timed_out(TIMEOUT);
            None
        }
    };
    let response = match (found, search.report.unanswered()) {
        (Some((row, record)), _) => {
            let public = federation.public_url.as_deref();
            let base_url = BaseUrl::seen(public, request.headers, &collection.name, request.point);
            let source = record.source.clone().unwrap_or_else(|| row.field("source"));
            match request.form {
                Form::Record if search.query.compress => {
                    compressed(present(&row, record, &source, &base_url))
                }
                Form::Record => present(&row, record, &source, &base_url),
                Form::Replay => captured::response(record, &source, &base_url)
                    .await
                    .unwrap_or_else(|error| {
                        tracing::info!(%error, "a record cannot be replayed");
                        let reason = Reason::from(&error).to_string();
                        message(StatusCode::BAD_GATEWAY, &reason)
                    }),
            }
        }
        (None, Some(sources)) if search.tried.is_empty() => refusal(&sources.into()),
        (None, _) => search.tried.not_found(&search.query.url, &search.report),
    };
    with_ignored(with_errors(response, &search.report), &search.query)
}

/// What is asked of the index.
async fn query(request: &Request<'_>, collection: &Collection) -> Result<Arc<Query>, Failure> {
    let pairs: Vec<_> = url::form_urlencoded::parse(request.query.as_bytes()).collect();
    let pairs = pairs.iter().map(|(name, value)| (&name[..], &value[..]));
    let mut query = Query::parse(pairs, request.point)?;
    query.limit = Some(query.limit.unwrap_or(MAX_TRIES).min(MAX_TRIES));
    query.output = Output::default();
    query.fields = None;
    query.show_num_pages = false;
    request.message.look_up(&mut query).await?;
    let mut query = collection.prepare(query)?;
    // Programs that replay ask this alone.
    Arc::make_mut(&mut query).fuzzy.get_or_insert(true);
    Ok(query)
}

impl RecordSearch<'_> {
    async fn run(&mut self) -> Result<Option<(Row, Record)>, Failure> {
        // Nobody follows a redirect who asks for the record of one second.
        let names_one_moment = self.query.from.is_some() && self.query.from == self.query.to;
        for step in &self.collection.steps {
            let mut rows = self
                .collection
                .step(step, &self.query, &self.report)
                .await?;
            while let Some(batch) = rows.next().await.transpose()? {
                for row in batch {
                    if self.tried.rows() >= MAX_TRIES {
                        return Ok(None);
                    }
                    let Ok(capture) = Capture::of(&row) else {
                        self.tried.add(
                            None,
                            None,
                            &LoadError::Unfit("the row is not valid".to_owned()),
                        );
                        continue;
                    };
                    let Some(record) = self.load(step, &row, &capture).await else {
                        continue;
                    };
                    if names_one_moment || !capture.sends_on_to_itself(&record) {
                        return Ok(Some((row, record)));
                    }
                    self.tried
                        .add(Some(&capture), None, &LoadError::SelfRedirect);
                }
            }
        }
        Ok(None)
    }

    /// The record of a row, by the first loader that has it.
    async fn load(&mut self, step: &Step, row: &Row, capture: &Capture) -> Option<Record> {
        let mut is_fit = false;
        for loader in &step.resource {
            let is_live = *loader == Loader::Live;
            let fits = if is_live {
                capture.is_live || capture.upstream.is_some()
            } else {
                capture.extent.is_some()
            };
            if !fits {
                continue;
            }
            is_fit = true;
            let loaded = if is_live {
                self.fetch(row, capture.upstream.as_ref()).await
            } else {
                self.read(step, loader, capture).await
            };
            match loaded {
                Ok(record) => return Some(record),
                Err(error) => self.tried.add(Some(capture), Some(loader), &error),
            }
        }
        if !is_fit {
            let what = match (capture.is_live, capture.extent.is_some()) {
                (true, _) => "the row has a live_url, and $live is not among the loaders",
                (_, true) => "the row names a file, and no loader of files is there",
                _ => "the row says neither live_url nor filename and offset",
            };
            self.tried
                .add(Some(capture), None, &LoadError::Unfit(what.to_owned()));
        }
        None
    }

    async fn fetch(&self, row: &Row, upstream: Option<&Url>) -> Result<Record, LoadError> {
        let (net, limits) = (&self.federation.net, &self.federation.resources.limits);
        let load: BoxFuture<'_, _> = match upstream {
            Some(collection) => Box::pin(live::load_upstream(
                net,
                limits,
                collection,
                row,
                self.message,
            )),
            None => Box::pin(live::load(net, limits, row, self.message)),
        };
        load.await
    }

    async fn read(
        &self,
        step: &Step,
        loader: &Loader,
        capture: &Capture,
    ) -> Result<Record, LoadError> {
        let Resources { archives, .. } = &self.federation.resources;
        let Some(extent) = &capture.extent else {
            return Err(LoadError::Unfit("the row names no file".to_owned()));
        };
        let accept = |stored: &super::stored::Stored| capture.agrees_with(stored.header());
        let stored = archives
            .load(loader, extent, &self.collection.name, &accept)
            .await?;
        if stored.header().kind() != b"revisit" {
            return stored.into_record();
        }
        let others = self.federation.collections.iter();
        let others = others.filter(|other| other.name != self.collection.name);
        let originals = Originals {
            archives,
            net: (&self.federation.net, &self.federation.resources.limits),
            collections: std::iter::once(self.collection).chain(others).collect(),
            loaders: &step.resource,
            point: self.query.point.as_deref(),
        };
        let resolve: BoxFuture<'_, _> = Box::pin(originals.resolve(capture, stored));
        resolve.await
    }
}

/// The answer with a record.
fn present(row: &Row, record: Record, source: &str, base_url: &BaseUrl) -> Response<Body> {
    let length = record.length;
    let mut headers = HeaderMap::new();
    let mut add = |name: &'static str, value: &[u8]| {
        if let Ok(value) = HeaderValue::from_bytes(value) {
            headers.insert(HeaderName::from_static(name), value);
        }
    };
    let source = in_header(source);
    add("archive-source-coll", source.as_bytes());
    add("warcserver-source-coll", source.as_bytes());
    add("warcserver-type", b"warc");
    add("warcserver-cdx", &shown(row, &record));
    add("memento-datetime", record.date.http_date().as_bytes());
    let target = &record.target_uri;
    add("warc-target-uri", in_header(target).as_bytes());
    let links = [
        link(target, "original"),
        link(&base_url.timegate(target), "timegate"),
        timemap_link(&base_url.timemap(target), "timemap"),
    ];
    add("link", links.join(", ").as_bytes());
    add("content-type", b"application/warc-record");
    headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    let body = if length == record.head.len() as u64 {
        whole(record.head)
    } else {
        let head = stream::iter([Ok(record.head)]);
        captured::body(head.chain(record.body).boxed())
    };
    let mut response = Response::new(body);
    *response.headers_mut() = headers;
    response
}

/// Compresses the body of an answer with gzip while it is sent.
fn compressed(response: Response<Body>) -> Response<Body> {
    let (mut parts, body) = response.into_parts();
    parts.headers.remove(CONTENT_LENGTH);
    let gzip = HeaderValue::from_static("gzip");
    parts.headers.insert(CONTENT_ENCODING, gzip);
    Response::from_parts(parts, gzip::body(body))
}

/// The row, for those who want to know what the record is of.
fn shown(row: &Row, record: &Record) -> Vec<u8> {
    let date = record.date.to_string();
    // An archive may have had another moment than its index said.
    let timestamp = if row.timestamp().starts_with(date.as_bytes()) {
        row.timestamp()
    } else {
        date.as_bytes()
    };
    let json = String::from_utf8_lossy(row.json());
    let json = if row.line().len() > MAX_ROW {
        let members = ["url", "source", "source-coll"];
        let members = members.map(|name| (name.to_owned(), row.field(name).into()));
        serde_json::Value::Object(members.into_iter().collect()).to_string()
    } else {
        json.into_owned()
    };
    [row.urlkey(), b" ", timestamp, b" ", ascii(&json).as_bytes()].concat()
}

/// A text in ASCII without what means something in headers; URLs stay what they are.
pub(super) fn in_header(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'!' | b'#'..=b';' | b'=' | b'?'..=b'[' | b']'..=b'~' => out.push(char::from(byte)),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}
