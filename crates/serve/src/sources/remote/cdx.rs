//! Sources that are CDX servers.

use std::sync::Arc;

use crawlspace_cdx::surt::MatchType;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::pages::{Next, Pages, Question};
use super::rows::rows;
use super::template::{NO_STEPS, Parameters, Template, Values};
use super::translation::translated;
use super::whitelist::{RecordLocation, Whitelist};
use crate::config::Dialect;
use crate::source::{Lookup, Rows, Source};
use crate::sources::Identity;
use crawlspace_fetch::Net;
use crawlspace_index::sorted::Order;
use crawlspace_index::source::SourceError;

/// A CDX server: pywb's, OutbackCDX, the Internet Archive's wayback-cdx-server, or a compatible one.
///
/// All are queried with `url`, `matchType`, `from`, `to` and `closest`. If a server answers 400, the query is repeated
/// once without the times, since some servers support them only for a single URL. No output format is requested: the
/// default formats of all these servers are supported.
pub struct CdxSource {
    net: Arc<Net>,
    identity: Identity,
    api: Template,
    replay: Option<Template>,
    dialect: Option<Dialect>,
}

impl CdxSource {
    /// Creates a source with the URL of its API, and optionally a replay URL and a filter dialect.
    pub fn new(
        net: Arc<Net>,
        identity: Identity,
        api_url: &str,
        replay_url: Option<&str>,
        dialect: Option<Dialect>,
    ) -> CdxSource {
        CdxSource {
            net,
            identity,
            api: Template::new(api_url),
            replay: replay_url.map(Template::new),
            dialect,
        }
    }

    fn question(&self, lookup: &Lookup) -> Question {
        let query = &*lookup.query;
        let is_exact = query.match_type == MatchType::Exact;
        let closest = match lookup.order {
            Order::Closest(moment) => moment.to_string(),
            _ => String::new(),
        };
        let plain = self.filled("", lookup);
        let mut full = self.filled(&closest, lookup);
        // OutbackCDX supports times and orders for a single URL only.
        let has_times = is_exact || self.dialect != Some(Dialect::Outback);
        if has_times {
            for (name, moment) in [("from", query.from), ("to", query.to)] {
                if let Some(moment) = moment {
                    full.add_new(name, &moment.to_string());
                }
            }
        }
        if !closest.is_empty() && has_times {
            full.add_new("closest", &closest);
        }
        let is_ordered = self.sort(lookup, &mut full);
        if let Some(dialect) = self.dialect {
            let filters = query.filters.iter();
            for filter in filters.filter_map(|filter| translated(filter, dialect)) {
                full.add("filter", &filter);
            }
        }
        let is_clamped = query.from.is_none() && query.to.is_none() || has_times;
        if let Some(most) = lookup.at_most.filter(|_| is_ordered && is_clamped) {
            full.add_new("limit", &most.to_string());
        }
        // An answer that was cut off by a limit of this server counts as complete, so the rest is
        // not requested.
        let next = match (lookup.order, full.has("limit")) {
            (Order::Ascending, false) if is_exact => Next::KeyOrTime,
            (Order::Ascending, false) => Next::Key,
            _ => Next::Nothing,
        };
        let resumes = !matches!(self.dialect, Some(Dialect::Pywb | Dialect::Outback));
        if next != Next::Nothing && resumes {
            full.add_new("showResumeKey", "true");
        }
        Question {
            full,
            plain: Some(plain),
            next,
        }
    }

    /// Returns the API URL; `None` if the query's URL cannot be part of its path.
    fn url(&self, closest: &str, lookup: &Lookup) -> Option<String> {
        self.api.fill(Values {
            url: &lookup.query.url,
            timestamp: closest,
            collection: &lookup.collection,
        })
    }

    /// Returns the parameters that every server understands.
    fn filled(&self, closest: &str, lookup: &Lookup) -> Parameters {
        let query = &*lookup.query;
        let url = self.url(closest, lookup).unwrap_or_default();
        let mut parameters = Parameters::of(&url);
        if !self.api.has_url() {
            parameters.add_new("url", &query.url);
        }
        parameters.add_new("matchType", word(query.match_type));
        parameters
    }

    /// Requests an order of rows, and returns whether the rows will be in that order.
    fn sort(&self, lookup: &Lookup, parameters: &mut Parameters) -> bool {
        let is_known = match self.dialect {
            None => false,
            Some(Dialect::Pywb) => true,
            Some(Dialect::Outback | Dialect::Ia) => lookup.query.match_type == MatchType::Exact,
        };
        let order = match lookup.order {
            Order::Ascending => return !parameters.has("sort"),
            Order::Descending => "reverse",
            Order::Closest(_) => "closest",
        };
        if is_known {
            parameters.add_new("sort", order);
        }
        is_known
    }

    fn place(&self) -> RecordLocation {
        match self.replay.clone().filter(|_| self.identity.live) {
            Some(replay) => RecordLocation::Replay(replay),
            None => RecordLocation::File,
        }
    }
}

impl Source for CdxSource {
    fn rows(&self, lookup: Arc<Lookup>) -> BoxFuture<'_, Result<Rows, SourceError>> {
        async move {
            let knows_ranges = self.dialect == Some(Dialect::Outback);
            if lookup.query.match_type == MatchType::Range && !knows_ranges {
                let what = "matchType=range is only supported for servers with dialect: outback";
                return Err(SourceError::Unsupported(what.to_owned()));
            }
            if self.url("", &lookup).is_none() {
                return Err(SourceError::Unsupported(NO_STEPS.to_owned()));
            }
            let whitelist = Whitelist::new(
                &lookup.query,
                self.identity.members.clone(),
                self.place(),
                &lookup.collection,
            );
            let limits = self.identity.limits;
            let pages = Pages::new(self.net.clone(), limits, self.question(&lookup), whitelist);
            rows(pages, &lookup, &limits).await
        }
        .boxed()
    }
}

/// Returns the value of `matchType`.
pub(super) fn word(match_type: MatchType) -> &'static str {
    match match_type {
        MatchType::Exact => "exact",
        MatchType::Prefix => "prefix",
        MatchType::Host => "host",
        MatchType::Domain => "domain",
        MatchType::Range => "range",
    }
}
