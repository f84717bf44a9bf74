//! The live web as a source.

use std::sync::Arc;

use crawlspace_cdx::surt::{MatchType, urlkey};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, StreamExt};

use crate::source::{Lookup, Rows, Source};
use crate::sources::Identity;
use crawlspace_index::row::{Row, build, member};
use crawlspace_index::source::SourceError;
use crawlspace_index::spelling::as_requested;
use crawlspace_index::timestamp::Timestamp;

/// The live web: every URL has one capture, dated now. Queries for more than a single URL match nothing.
pub struct LiveSource {
    identity: Identity,
}

impl LiveSource {
    /// Creates the source.
    pub(crate) fn new(identity: Identity) -> LiveSource {
        LiveSource { identity }
    }

    fn row(&self, lookup: &Lookup) -> Option<Row> {
        let query = &*lookup.query;
        let now = Timestamp::now();
        let is_asked = query.match_type == MatchType::Exact
            && query.from.is_none_or(|from| from <= now)
            && query.to.is_none_or(|to| now <= to);
        if !is_asked || !query.url.contains("://") {
            return None;
        }
        // Access rules are checked for the key of the URL that is fetched.
        let url = String::from(as_requested(&query.url)?);
        let mut members = String::new();
        member("url", &url, &mut members);
        member("mime", "", &mut members);
        member("live_url", &url, &mut members);
        member("load_url", &url, &mut members);
        member("is_live", "true", &mut members);
        let members = format!("{members}, {}", self.identity.members);
        build(&urlkey(&url).ok()?, &now.to_string(), &members)
    }
}

impl Source for LiveSource {
    fn rows(&self, lookup: Arc<Lookup>) -> BoxFuture<'_, Result<Rows, SourceError>> {
        let batch = self.row(&lookup).map(|row| Ok(vec![row]));
        let rows = Rows::whole(true, stream::iter(batch).boxed());
        std::future::ready(Ok(rows)).boxed()
    }
}

#[cfg(test)]
mod tests {
    use url::Url;

    use redis_tests::Rng;

    use super::*;
    use crate::query::Query;
    use crate::sources::file::tests::identity;
    use crawlspace_index::sorted::Order;

    /// Parts of URLs that parsers interpret differently.
    const PARTS: [&str; 44] = [
        "http://",
        "https://",
        "HTTP://",
        "http:\\\\",
        "//",
        "/",
        "/",
        "\\",
        "..",
        ".",
        "/../",
        "/./",
        "%2e%2e",
        "%2E",
        "%2f",
        "a",
        "B",
        "example.com",
        "EXAMPLE.com",
        "hid",
        "x",
        "@",
        "u:p@",
        ":",
        ":80",
        ":443",
        ":8080",
        "?",
        "a=1",
        "&",
        "#",
        "#f",
        "\t",
        "\n",
        " ",
        "%20",
        "%41",
        "127.1",
        "0x7f.1",
        "[::1]",
        "\u{ff45}xample.com",
        "\u{e9}",
        "xn--a",
        "www.",
    ];

    #[test]
    fn rules_see_the_key_of_the_fetched_url() {
        let source = LiveSource::new(identity());
        let mut rng = Rng::new("rules_see_the_key_of_the_fetched_url");
        let mut rows = 0;
        for n in 0..100_000 {
            let mut url = if n % 3 > 0 { "http://example.com/" } else { "" }.to_owned();
            for _ in 0..1 + rng.below(7) {
                url.push_str(rng.pick::<&str>(&PARTS));
            }
            let Ok(query) = Query::of_url(&url) else {
                continue;
            };
            let lookup = Lookup {
                query: std::sync::Arc::new(query),
                order: Order::Ascending,
                at_most: None,
                collection: "c".into(),
            };
            let Some(row) = source.row(&lookup) else {
                continue;
            };
            rows += 1;
            let fetched = as_requested(&row.field("live_url")).unwrap();
            assert_eq!(fetched.as_str(), row.field("live_url"), "{url:?}");
            assert_eq!(fetched.as_str(), row.field("url"), "{url:?}");
            let key = urlkey(fetched.as_str()).unwrap();
            assert_eq!(row.urlkey(), key.as_bytes(), "{url:?}");
            // The path must not contain anything that another parser interprets differently.
            let path = fetched.as_str().split('?').next().unwrap();
            assert!(
                !path.contains(['\\', '\t', '\n', ' ']),
                "{url:?}: {fetched}"
            );
            assert_eq!(Url::parse(fetched.as_str()).unwrap(), fetched);
            assert_eq!(
                (fetched.username(), fetched.password()),
                ("", None),
                "{url:?}"
            );
        }
        assert!(rows > 50_000, "{rows}");
    }
}
