//! The live web, of which nothing is known until it is fetched.

use std::sync::Arc;

use crawlspace_cdx::surt::{MatchType, urlkey};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, StreamExt};

use crate::source::{Lookup, Rows, Source};
use crate::sources::Identity;
use crawlspace_archive::row::{Row, build, member};
use crawlspace_archive::source::SourceError;
use crawlspace_archive::timestamp::Timestamp;

/// The live web: every URL has one capture, of now. More than a single URL cannot be asked for, and matches nothing.
pub struct LiveSource {
    identity: Identity,
}

impl LiveSource {
    /// The live web.
    pub(crate) fn new(identity: Identity) -> LiveSource {
        LiveSource { identity }
    }

    fn row(&self, lookup: &Lookup) -> Option<Row> {
        let query = &*lookup.query;
        let now = Timestamp::now();
        let is_asked = query.match_type == MatchType::Exact
            && query.from.is_none_or(|from| from <= now)
            && query.to.is_none_or(|to| now <= to);
        let url = &query.url;
        let scheme = url
            .split_once("://")
            .map(|(scheme, _)| scheme.to_ascii_lowercase());
        let is_web = matches!(scheme.as_deref(), Some("http" | "https"));
        if !is_asked || !is_web {
            return None;
        }
        let mut members = String::new();
        member("url", url, &mut members);
        member("mime", "", &mut members);
        member("live_url", url, &mut members);
        member("load_url", url, &mut members);
        member("is_live", "true", &mut members);
        let members = format!("{members}, {}", self.identity.members);
        build(&urlkey(url).ok()?, &now.to_string(), &members)
    }
}

impl Source for LiveSource {
    fn rows(&self, lookup: Arc<Lookup>) -> BoxFuture<'_, Result<Rows, SourceError>> {
        let batch = self.row(&lookup).map(|row| Ok(vec![row]));
        let rows = Rows::whole(true, stream::iter(batch).boxed());
        std::future::ready(Ok(rows)).boxed()
    }
}
