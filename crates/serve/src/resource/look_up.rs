//! Lookup of requests with methods other than `GET`.

use std::sync::Arc;

use crawlspace_cdx::surt::MatchType;
use crawlspace_cdx::{post, surt};
use crawlspace_index::Aliases;
use futures_util::StreamExt;
use http::Method;

use super::client_request::ClientRequest;
use super::spool::Spooled;
use crate::failure::Failure;
use crate::memory::Reservation;
use crate::query::{BadQuery, Query};

/// Number of copies of a body in memory during a lookup: the body, the URL made from it, its parts and the urlkey.
const COPIES: usize = 4;

impl ClientRequest {
    /// Changes a query so that it finds responses to requests with the method and body of this request, which are part
    /// of the urlkey.
    ///
    /// # Errors
    /// Fails if the URL cannot be combined with the body, or the memory limit is exceeded.
    pub(super) async fn look_up(&self, query: &mut Query) -> Result<(), Failure> {
        if matches!(self.method, Method::GET | Method::HEAD) {
            return Ok(());
        }
        let mut kept = Reservation::default();
        let body = match &self.body {
            Some(spooled) if spooled.length() <= post::MAX_BODY as u64 => {
                let length = usize::try_from(spooled.length()).unwrap_or(usize::MAX);
                kept.bytes(length.saturating_mul(COPIES))?;
                all(spooled).await
            }
            _ => Vec::new(),
        };
        let media = self
            .fields
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(b"Content-Type"));
        let media = media.and_then(|(_, value)| std::str::from_utf8(value).ok());
        let url = post::lookup_url(&query.url, self.method.as_str(), media, &body);
        query.keys =
            surt::range(&url, query.match_type).map_err(|bad| BadQuery(format!("url: {bad}")))?;
        query.aliases = Arc::new(match query.match_type {
            MatchType::Exact => Aliases::of_request(&query.url, self.method.as_str(), media, &body),
            match_type => Aliases::of(&url, match_type),
        });
        Ok(())
    }
}

/// Reads a whole body. A read error ends the body early.
async fn all(spooled: &Spooled) -> Vec<u8> {
    let mut body = Vec::new();
    let mut pieces = spooled.stream(0);
    while let Some(Ok(piece)) = pieces.next().await {
        body.extend_from_slice(&piece);
    }
    body
}
