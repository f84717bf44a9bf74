//! `DEDUPE.PACK` and `DEDUPE.UNPACK`.

use crate::dedupe::grammar::{Pack, Unpack};
use crate::dedupe::keys::CrawlKey;
use crate::dedupe::pack::move_to;
use crate::dedupe::storage::Storage;
use crawlspace_host::server::acl::Access;
use crawlspace_host::server::command::{Act, Answer, Call};

use super::indexes::{Once, on_index, permit};
use super::jobs::{JobKind, WHOLE_INDEX, id, submit};

impl Act for Pack {
    fn act(_: Pack, call: &mut Call<'_>) -> Result<Answer, String> {
        // Who packs may do so because memory is short: every slice frees more than it takes.
        run(call, Storage::Packed, JobKind::Shrinks, "pack")
    }
}

impl Act for Unpack {
    fn act(_: Unpack, call: &mut Call<'_>) -> Result<Answer, String> {
        run(call, Storage::Plain, JobKind::Grows, "unpack")
    }
}

/// The keys that the committed part moves between.
const MOVED: [(Once, Access); 2] = [
    (|names| &names.holders, Access::Write),
    (|names| &names.moving, Access::Write),
];

fn run(call: &mut Call<'_>, to: Storage, kind: JobKind, work: &str) -> Result<Answer, String> {
    permit(call, &WHOLE_INDEX, &[])?;
    permit(call, &MOVED, &[])?;
    let committed = on_index(call, |cached, keys| cached.index.committed(keys))?;
    let records = committed
        .iter()
        .map(|crawl| (&crawl[..], &CrawlKey::DOCUMENTED[..1], Access::Write));
    let records: Vec<_> = records.collect();
    permit(call, &[], &records)?;
    let id = id(call, kind, work, &[]);
    submit(call, kind, id, move_to(to), true)
}
