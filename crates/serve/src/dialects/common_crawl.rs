//! Paths of Common Crawl's index server: `/<coll>-index?url=…` and `/collinfo.json`.

use std::sync::Arc;

use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use serde_json::json;

use super::index::{self, NoRows};
use crate::Federation;
use crate::figures::Api;
use crate::server::body::Body;
use crate::server::links::BaseUrl;
use crate::server::reply::json as reply_json;
use crate::server::target::{RequestTarget, only_read};

/// Path suffix after the name of a collection.
const SUFFIX: &str = "-index";

/// Answers requests to these paths, unless a collection has that name. Returns `None` for other
/// paths.
pub(crate) async fn answer(
    federation: &Arc<Federation>,
    request: &Request<Incoming>,
    name: &str,
    rest: &str,
) -> Option<Response<Body>> {
    if !rest.is_empty() {
        return None;
    }
    if name == "collinfo.json" {
        return Some(collections(federation, request));
    }
    let collection = federation.collection(name.strip_suffix(SUFFIX)?)?;
    let asked = RequestTarget {
        federation,
        collection,
        point: None,
    };
    let response = index::answer(&asked, request, NoRows::NotFound).await;
    let status = response.status().as_u16();
    collection.requests.record(Api::Index, status);
    Some(response)
}

/// Lists the collections as Common Crawl lists its crawls.
fn collections(federation: &Federation, request: &Request<Incoming>) -> Response<Body> {
    if let Some(refused) = only_read(request.method()) {
        return refused;
    }
    let public = federation.public_url.as_deref();
    let collections = federation.collections.iter().map(|one| {
        let base = BaseUrl::seen(public, request.headers(), &one.name, None);
        // A collection whose name ends in the suffix takes precedence.
        let is_taken = federation
            .collection(&format!("{}{SUFFIX}", one.name))
            .is_some();
        let index = base.with(if is_taken { "/index" } else { SUFFIX });
        json!({ "id": *one.name, "name": *one.name, "timegate": base.timegate(""), "cdx-api": index })
    });
    reply_json(StatusCode::OK, &collections.collect())
}
