//! Replies of the family.

use crate::chg::next::Lease;
use crate::chg::time::Millis;
use crawlspace_host::reply::Reply;

fn optional(bytes: Option<&Vec<u8>>) -> Reply {
    bytes.map_or(Reply::Nil, Reply::bulk)
}

/// Returns a lease as `[chg, token, deadline, n, c, execution, uri]`.
pub fn lease_reply(lease: &Lease) -> Reply {
    let uri = lease.uri.as_ref();
    Reply::Array(vec![
        Reply::bulk(&lease.chg),
        Reply::count(lease.token),
        Reply::count(lease.deadline),
        Reply::count(lease.due),
        Reply::count(lease.uris),
        optional(uri.map(|(execution, _)| execution)),
        optional(uri.map(|(_, uri)| uri)),
    ])
}

/// Returns an array of leases; nil if there are none.
pub fn leases_reply(leases: &[Lease]) -> Reply {
    match leases {
        [] => Reply::Nil,
        leases => Reply::Array(leases.iter().map(lease_reply).collect()),
    }
}

/// Returns the reply to a release with `NEXT`.
pub fn released_reply(due: Millis, next: Option<&Lease>) -> Reply {
    let next = next.map_or(Reply::Nil, lease_reply);
    Reply::Array(vec![Reply::count(due), next])
}
