//! Revisits: captures whose payload is in another record.

use std::sync::Arc;
use std::time::Duration;

use crawlspace_cdx::surt::KeyRange;
use futures_util::{stream, StreamExt};
use tokio::time::timeout;

use super::capture::{Capture, Extent};
use super::client_request::ClientRequest;
use super::digest::{self, Algorithm, Digest};
use super::http_head::Head;
use super::input::Input;
use super::live;
use super::loader::Archives;
use super::record::{LoadError, Record};
use super::stored::header::{moment, Header};
use super::stored::{compose, made_id, Payload, Stored};
use crate::federation::collection::Collection;
use crate::federation::config::Loader;
use crate::federation::group::Report;
use crate::federation::net::Net;
use crate::federation::query::{Order, Query};
use crate::federation::row::Row;
use crate::federation::source::Limits;
use crate::federation::timestamp::Timestamp;

/// How long the original of a revisit is looked for.
const PATIENCE: Duration = Duration::from_secs(30);
/// How many captures are tried for the original of a revisit.
const TRIES: usize = 20;
/// How many rows are looked at for them.
const ROWS: usize = 2000;
/// What says how a payload is written, and comes with it.
const FRAMING: [&str; 3] = ["Content-Length", "Transfer-Encoding", "Content-Encoding"];

/// Where originals are looked for.
pub(super) struct Originals<'a> {
    /// Where files are.
    pub archives: &'a Archives,
    /// The way to other archives, and how much they may cost.
    pub net: (&'a Net, &'a Limits),
    /// The collection that the revisit was found in, and then the others.
    pub collections: Vec<&'a Arc<Collection>>,
    /// The loaders that found the revisit.
    pub loaders: &'a [Loader],
    /// The access point of the request.
    pub point: Option<&'a str>,
}

/// What is known of a revisit.
struct Revisit<'a> {
    capture: &'a Capture,
    header: &'a Header,
    digest: Option<Digest>,
}

impl Originals<'_> {
    /// A `response` record with what the revisit says, and the payload of its original.
    ///
    /// # Errors
    /// When the original is nowhere.
    pub(super) async fn resolve(
        &self,
        capture: &Capture,
        revisit: Stored,
    ) -> Result<Record, LoadError> {
        let header = revisit.header();
        let stated = revisit.stated_digest().cloned();
        let known = Revisit {
            capture,
            header,
            digest: stated.or_else(|| Digest::parse(capture.digest.as_bytes())),
        };
        if known.digest.as_ref() == Some(&digest::of(Algorithm::Sha1, b"")) {
            return of_nothing(&revisit);
        }
        // Nobody reads the payload of a redirect, so that it is not looked for everywhere.
        let status = Head::of(revisit.http_head()).status();
        let is_redirect = matches!(status, Some(300..=303 | 305..=399));
        let most = if is_redirect { 1 } else { usize::MAX };
        match timeout(PATIENCE, self.original(&known, most)).await {
            Ok(Ok(original)) => with_payload(&revisit, original, &known.digest),
            _ if is_redirect => of_nothing(&revisit),
            Ok(Err(error)) => Err(error),
            Err(_) => {
                let seconds = PATIENCE.as_secs();
                let what =
                    format!("the original of the revisit was not found within {seconds} seconds");
                Err(LoadError::Missing(what))
            }
        }
    }

    async fn original(&self, revisit: &Revisit<'_>, most: usize) -> Result<Stored, LoadError> {
        let mut failed =
            LoadError::Missing("the original of the revisit is not in any index".to_owned());
        let collection = self
            .collections
            .first()
            .map_or("", |collection| &*collection.name);
        if let Some(extent) = &revisit.capture.original {
            match self
                .load(self.loaders, extent, collection, revisit, None)
                .await
            {
                Ok(original) => return Ok(original),
                Err(error) => failed = error,
            }
        }
        let refers_to = revisit.header.text("WARC-Refers-To-Target-URI");
        let refers_to = refers_to
            .map(|uri| uri.trim_matches(['<', '>']).to_owned())
            .filter(|uri| !uri.is_empty());
        let date = revisit.header.get("WARC-Refers-To-Date").and_then(moment);
        let own_date = revisit.header.date();
        let own = revisit.header.target_uri().unwrap_or_default();
        let mut lookups = Vec::new();
        if let Some(uri) = refers_to {
            lookups.push((uri, date.or(own_date), date));
        }
        // Without a digest there is no telling which of the captures of the same URL it is.
        if revisit.digest.is_some() && lookups.first().is_none_or(|(uri, ..)| *uri != own) {
            lookups.push((own, own_date, None));
        }
        let mut tries = TRIES;
        for collection in self.collections.iter().take(most) {
            for (uri, closest, exact) in &lookups {
                match self
                    .look_up(collection, uri, *closest, *exact, revisit, &mut tries)
                    .await
                {
                    Ok(Some(original)) => return Ok(original),
                    Ok(None) => {}
                    Err(error) => failed = error,
                }
            }
        }
        Err(match failed {
            LoadError::Missing(what) | LoadError::Record(what) => {
                LoadError::Missing(format!("the original of the revisit: {what}"))
            }
            other => other,
        })
    }

    /// Captures of a URL in a collection, from the one closest to a moment on.
    async fn look_up(
        &self,
        collection: &Collection,
        uri: &str,
        closest: Option<Timestamp>,
        exact: Option<Timestamp>,
        revisit: &Revisit<'_>,
        tries: &mut usize,
    ) -> Result<Option<Stored>, LoadError> {
        let is_own = self
            .collections
            .first()
            .is_some_and(|own| own.name == collection.name);
        let point = self.point.filter(|_| is_own).map(str::to_owned);
        let mut query = Query::of_url(uri).map_err(|bad| LoadError::Unfit(bad.to_string()))?;
        if revisit.header.target_uri().as_deref() == Some(uri) {
            // It may say more than the URL: what was posted.
            let key = revisit.capture.urlkey.as_bytes();
            query.keys = KeyRange {
                from: [key, b" "].concat(),
                to: [key, b"!"].concat(),
            };
        }
        query.order = Order::Closest(closest.unwrap_or_else(Timestamp::now));
        query.point = point;
        let Ok(query) = collection.prepare(query) else {
            return Ok(None);
        };
        let mut failed = None;
        for step in &collection.steps {
            let Ok(mut rows) = collection.step(step, &query, &Report::default()).await else {
                continue;
            };
            let mut seen = 0;
            while let Some(Ok(batch)) = rows.next().await {
                for row in &batch {
                    let Ok(candidate) = Capture::of(row) else {
                        continue;
                    };
                    if !revisit.may_be_of(&candidate, exact) {
                        continue;
                    }
                    if *tries == 0 {
                        return failed.map_or(Ok(None), Err);
                    }
                    *tries -= 1;
                    let name = &collection.name;
                    let loaded = match &candidate.extent {
                        Some(extent) => {
                            self.load(&step.resource, extent, name, revisit, Some(&candidate))
                                .await
                        }
                        None => self.fetch(row, &candidate, &step.resource, revisit).await,
                    };
                    match loaded {
                        Ok(original) => return Ok(Some(original)),
                        Err(error) => failed = Some(error),
                    }
                }
                seen += batch.len();
                if seen > ROWS {
                    break;
                }
            }
        }
        failed.map_or(Ok(None), Err)
    }

    async fn load(
        &self,
        loaders: &[Loader],
        extent: &Extent,
        collection: &str,
        revisit: &Revisit<'_>,
        candidate: Option<&Capture>,
    ) -> Result<Stored, LoadError> {
        let accept = |stored: &Stored| {
            if let Some(candidate) = candidate {
                candidate.agrees_with(stored.header())?;
            }
            revisit.accepts(stored)
        };
        let mut failed = no_loader();
        for loader in loaders.iter().filter(|loader| **loader != Loader::Live) {
            match self
                .archives
                .load(loader, extent, collection, &accept)
                .await
            {
                Ok(stored) => return Ok(stored),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    /// A record that another archive has.
    async fn fetch(
        &self,
        row: &Row,
        candidate: &Capture,
        loaders: &[Loader],
        revisit: &Revisit<'_>,
    ) -> Result<Stored, LoadError> {
        if !loaders.contains(&Loader::Live) {
            return Err(no_loader());
        }
        let ((net, limits), message) = (self.net, ClientRequest::default());
        let record = match &candidate.upstream {
            Some(collection) => live::load_upstream(net, limits, collection, row, &message).await?,
            None => live::load(net, limits, row, &message).await?,
        };
        let head = stream::iter([Ok(record.head)]);
        let input = Input::Record(head.chain(record.body).boxed());
        let stored = Stored::read(input, b"").await?;
        revisit.accepts(&stored)?;
        Ok(stored)
    }
}

fn no_loader() -> LoadError {
    LoadError::Missing("there is no loader for it".to_owned())
}

impl Revisit<'_> {
    /// Whether a capture may be the original.
    fn may_be_of(&self, candidate: &Capture, exact: Option<Timestamp>) -> bool {
        // The live web has no originals, but what is there now.
        let is_stored = candidate.extent.is_some()
            || candidate.upstream.is_some()
            || candidate.is_live && candidate.source_type != "live";
        let same_digest = self
            .digest
            .as_ref()
            .is_none_or(|digest| candidate.may_have(digest));
        // Without digests, only what the revisit names is its original.
        let is_sure = self.digest.is_some() && !candidate.digest.is_empty()
            || exact.is_some_and(|exact| {
                Timestamp::earliest(candidate.timestamp.as_bytes()) == Some(exact)
            });
        let is_itself = candidate.extent.is_some() && self.capture.extent == candidate.extent;
        let is_revisit = candidate.mime == "warc/revisit";
        is_stored && same_digest && is_sure && !is_itself && !is_revisit
    }

    /// Whether a record has the payload.
    fn accepts(&self, stored: &Stored) -> Result<(), LoadError> {
        let kind = stored.header().record_type();
        if kind != b"response" && kind != b"resource" {
            let what = format!(
                "it is a record of the type {:?}",
                String::from_utf8_lossy(kind)
            );
            return Err(LoadError::Record(what));
        }
        let Some(digest) = &self.digest else {
            return Ok(());
        };
        let same = stored.stated_digest() == Some(digest)
            || match stored.payload_digest(digest.algorithm) {
                Some(real) => real == *digest,
                // The header states it in another way, and the payload is too large to see.
                None => stored
                    .stated_digest()
                    .is_none_or(|stated| stated.algorithm != digest.algorithm),
            };
        same.then_some(())
            .ok_or_else(|| LoadError::Record("its payload has another digest".to_owned()))
    }
}

/// The answer without a payload.
fn of_nothing(revisit: &Stored) -> Result<Record, LoadError> {
    let head = Head::of(revisit.http_head());
    if head.status().is_none() {
        let what = "the revisit has neither an HTTP header nor a payload".to_owned();
        return Err(LoadError::Record(what));
    }
    let none = Head::of(b"-\r\nContent-Length: 0\r\n\r\n");
    let has_none =
        head.get("Content-Length") == Some(b"0") && head.get("Transfer-Encoding").is_none();
    let http_head = match has_none {
        true => revisit.http_head().to_vec(),
        false => head.with_fields_of(&none, &FRAMING),
    };
    let payload = Payload {
        length: 0,
        first: bytes::Bytes::new(),
        rest: None,
    };
    let mut header = response(revisit)?;
    finish(&mut header, revisit, &http_head, payload, &None)
}

/// The answer with the payload of the original.
fn with_payload(
    revisit: &Stored,
    original: Stored,
    digest: &Option<Digest>,
) -> Result<Record, LoadError> {
    let mut header = response(revisit)?;
    let theirs = original.header();
    for (name, value) in [
        (
            "WARC-Refers-To",
            theirs.get("WARC-Record-ID").unwrap_or_default(),
        ),
        (
            "WARC-Refers-To-Target-URI",
            theirs.target_uri().unwrap_or_default().as_bytes(),
        ),
        (
            "WARC-Refers-To-Date",
            theirs.get("WARC-Date").unwrap_or_default(),
        ),
    ] {
        header.set(name, value);
    }
    let http_head = {
        let (own, other) = (
            Head::of(revisit.http_head()),
            Head::of(original.http_head()),
        );
        let is_same = FRAMING.iter().all(|name| own.get(name) == other.get(name));
        match own.status() {
            // That nothing has changed is not what the payload came with.
            None | Some(304) => original.http_head().to_vec(),
            Some(_) if original.http_head().is_empty() => {
                let length = format!("-\r\nContent-Length: {}\r\n\r\n", original.content_length());
                own.with_fields_of(&Head::of(length.as_bytes()), &FRAMING)
            }
            Some(_) if is_same => revisit.http_head().to_vec(),
            Some(_) => own.with_fields_of(&other, &FRAMING),
        }
    };
    if http_head.is_empty() {
        header.set("WARC-Type", b"resource");
        header.set(
            "Content-Type",
            theirs
                .get("Content-Type")
                .unwrap_or(b"application/octet-stream"),
        );
    }
    let known = match original.is_checked() {
        true => None,
        // It is checked when it goes by.
        false => theirs.get("WARC-Payload-Digest").and_then(Digest::parse),
    };
    let algorithm = digest
        .as_ref()
        .map_or(Algorithm::Sha1, |digest| digest.algorithm);
    let known = original.payload_digest(algorithm).or(known);
    let (_, payload) = original.into_parts();
    finish(&mut header, revisit, &http_head, payload, &known)
}

/// The header of the answer, as far as the revisit says what is in it.
fn response(revisit: &Stored) -> Result<Header, LoadError> {
    let theirs = revisit.header();
    let missing = |what: &str| LoadError::Record(format!("the revisit has no valid {what}"));
    let date = theirs.date().ok_or_else(|| missing("WARC-Date"))?;
    let uri = theirs
        .target_uri()
        .ok_or_else(|| missing("WARC-Target-URI"))?;
    let version: &[u8] = if theirs.version() == b"WARC/1.1" {
        b"WARC/1.1"
    } else {
        b"WARC/1.0"
    };
    let mut header = Header::new(version);
    header.set("WARC-Type", b"response");
    // It is neither of the two records that it is made of.
    let id = theirs.get("WARC-Record-ID").unwrap_or_default();
    header.set("WARC-Record-ID", made_id(&[b"resolved", id]).as_bytes());
    header.set("WARC-Target-URI", uri.as_bytes());
    let stated = theirs.get("WARC-Date").filter(|_| version == b"WARC/1.1");
    header.set("WARC-Date", stated.unwrap_or(date.iso().as_bytes()));
    for name in [
        "WARC-IP-Address",
        "WARC-Refers-To-Target-URI",
        "WARC-Refers-To-Date",
    ] {
        if let Some(value) = theirs.get(name) {
            header.set(name, value);
        }
    }
    header.set("Content-Type", b"application/http; msgtype=response");
    Ok(header)
}

fn finish(
    header: &mut Header,
    revisit: &Stored,
    http_head: &[u8],
    payload: Payload,
    payload_digest: &Option<Digest>,
) -> Result<Record, LoadError> {
    if payload.rest.is_none() {
        let mut digester = digest::Digester::new(Algorithm::Sha1);
        digester.update(http_head);
        digester.update(&payload.first);
        header.set("WARC-Block-Digest", digester.finish().text().as_bytes());
    }
    let of_payload = || digest::of(Algorithm::Sha1, &payload.first);
    let known = payload_digest
        .clone()
        .or_else(|| payload.rest.is_none().then(of_payload));
    if let Some(digest) = known {
        header.set("WARC-Payload-Digest", digest.text().as_bytes());
    }
    let uri = revisit.header().target_uri().unwrap_or_default();
    let date = revisit.header().date().unwrap_or_else(Timestamp::now);
    Ok(compose(header, http_head, payload, uri, date))
}
