//! What a request other than `GET` is looked up by.

use crawlspace_cdx::surt;
use http::Method;

use super::client_request::ClientRequest;
use crate::federation::query::{BadQuery, Query};

impl ClientRequest {
    /// Makes a query look for what answered requests like this one: their method and body are part of the urlkey.
    ///
    /// # Errors
    /// When the URL cannot be looked up so.
    pub(super) fn look_up(&self, query: &mut Query) -> Result<(), BadQuery> {
        if matches!(self.method, Method::GET | Method::HEAD) {
            return Ok(());
        }
        let mut url = query.url.clone();
        url.push(if url.contains('?') { '&' } else { '?' });
        url.push_str("__wb_method=");
        url.push_str(self.method.as_str());
        query.keys = surt::range(&url, query.match_type).map_err(|bad| BadQuery(format!("url: {bad}")))?;
        Ok(())
    }
}
