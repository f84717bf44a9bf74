//! Replies of the family.

use crate::chg::next::Lease;
use crate::chg::time::Millis;
use crawlspace_host::reply::Reply;

/// Returns a lease as `[chg, token, deadline, n, c, execution, uri]`. In a full reply, the URI is nil, and an array
/// with one `[uri, key, payload, depth, attempts]` per URI follows.
pub fn lease_reply(lease: Lease, is_full: bool) -> Reply {
    let optional = |bytes: Option<Vec<u8>>| bytes.map_or(Reply::Nil, Reply::Bulk);
    let mut items = lease.items.into_iter();
    let uri = if is_full { None } else { items.next() };
    let mut parts = Vec::with_capacity(8);
    parts.extend([
        Reply::Bulk(lease.chg),
        Reply::count(lease.token),
        Reply::count(lease.deadline),
        Reply::count(lease.due),
        Reply::count(lease.uris),
        optional(lease.execution),
        optional(uri.map(|item| item.uri)),
    ]);
    if is_full {
        let items = items.map(|item| {
            Reply::Array(vec![
                Reply::Bulk(item.uri),
                optional(item.key),
                optional(item.payload),
                Reply::count(item.depth.into()),
                Reply::count(item.attempts.into()),
            ])
        });
        parts.push(Reply::Array(items.collect()));
    }
    Reply::Array(parts)
}

/// Returns an array of leases; nil if there are none.
pub fn leases_reply(leases: Vec<Lease>, is_full: bool) -> Reply {
    if leases.is_empty() {
        return Reply::Nil;
    }
    let leases = leases.into_iter();
    Reply::Array(leases.map(|lease| lease_reply(lease, is_full)).collect())
}

/// Returns the reply to a release with `NEXT`.
pub fn released_reply(due: Millis, next: Option<Lease>, is_full: bool) -> Reply {
    let next = next.map_or(Reply::Nil, |next| lease_reply(next, is_full));
    Reply::Array(vec![Reply::count(due), next])
}
