//! Sources that are collections of upstream servers.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::cdx::word;
use super::pages::{Next, Pages, Question};
use super::rows::rows;
use super::template::{Parameters, Template, Values};
use super::translation::translated;
use super::whitelist::{RecordLocation, Whitelist};
use crate::config::Dialect;
use crate::source::{Lookup, Rows, Source};
use crate::sources::Identity;
use crawlspace_fetch::Net;
use crawlspace_index::row::member;
use crawlspace_index::sorted::Order;
use crawlspace_index::source::SourceError;

/// A collection of another Crawlspace server, or of pywb's warcserver.
///
/// All query parameters are supported. The `source` of its rows is the configured name of the
/// upstream, followed by the upstream's own source. `upstream_url` is the URL to request their
/// records from.
pub struct UpstreamSource {
    net: Arc<Net>,
    identity: Identity,
    collection: Template,
}

impl UpstreamSource {
    /// Creates a source from the URL of a collection, without `/index`.
    pub(crate) fn new(net: Arc<Net>, identity: Identity, url: &str) -> UpstreamSource {
        UpstreamSource {
            net,
            identity,
            collection: Template::new(url.trim_end_matches('/')),
        }
    }

    /// Returns the URL of the collection.
    fn url(&self, lookup: &Lookup) -> String {
        let values = Values {
            collection: &lookup.collection,
            ..Values::default()
        };
        self.collection.fill(values).unwrap_or_default()
    }

    fn question(&self, lookup: &Lookup) -> Question {
        let query = &*lookup.query;
        let mut full = Parameters::of(&format!("{}/index", self.url(lookup)));
        full.add("url", &query.url);
        full.add("matchType", word(query.match_type));
        for (name, moment) in [("from", query.from), ("to", query.to)] {
            if let Some(moment) = moment {
                full.add(name, &moment.to_string());
            }
        }
        match lookup.order {
            Order::Ascending => {}
            Order::Descending => full.add("sort", "reverse"),
            Order::Closest(moment) => full.add("closest", &moment.to_string()),
        }
        for filter in query
            .filters
            .iter()
            .filter_map(|filter| translated(filter, Dialect::Pywb))
        {
            full.add("filter", &filter);
        }
        if let Some(most) = lookup.at_most {
            full.add("limit", &most.to_string());
        }
        Question {
            full,
            plain: None,
            next: Next::Nothing,
        }
    }
}

impl Source for UpstreamSource {
    fn rows(&self, lookup: Arc<Lookup>) -> BoxFuture<'_, Result<Rows, SourceError>> {
        async move {
            let mut members = self.identity.members.to_string();
            member("upstream_url", &self.url(&lookup), &mut members);
            let whitelist = Whitelist::new(
                &lookup.query,
                members.into(),
                RecordLocation::Given,
                &lookup.collection,
            );
            let limits = self.identity.limits;
            let pages = Pages::new(self.net.clone(), limits, self.question(&lookup), whitelist);
            rows(pages, &lookup, &limits).await
        }
        .boxed()
    }
}
