//! Replies of the family.

use crate::chg::next::Lease;
use crate::chg::time::Millis;
use crawlspace_host::reply::Reply;

/// Returns a lease as `[chg, token, deadline, n, c, execution, uri]`.
pub fn lease_reply(lease: Lease) -> Reply {
    let (execution, uri) = match lease.uri {
        Some((execution, uri)) => (Reply::Bulk(execution), Reply::Bulk(uri)),
        None => (Reply::Nil, Reply::Nil),
    };
    Reply::Array(vec![
        Reply::Bulk(lease.chg),
        Reply::count(lease.token),
        Reply::count(lease.deadline),
        Reply::count(lease.due),
        Reply::count(lease.uris),
        execution,
        uri,
    ])
}

/// Returns an array of leases; nil if there are none.
pub fn leases_reply(leases: Vec<Lease>) -> Reply {
    if leases.is_empty() {
        return Reply::Nil;
    }
    Reply::Array(leases.into_iter().map(lease_reply).collect())
}

/// Returns the reply to a release with `NEXT`.
pub fn released_reply(due: Millis, next: Option<Lease>) -> Reply {
    let next = next.map_or(Reply::Nil, lease_reply);
    Reply::Array(vec![Reply::count(due), next])
}
