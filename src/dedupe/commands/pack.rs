//! `DEDUPE.PACK` and `DEDUPE.UNPACK`.

use crate::dedupe::grammar::{Pack, Unpack};
use crate::dedupe::index::storage::Storage;
use crate::dedupe::keys::{CrawlKey, Group};
use crate::dedupe::pack::move_to;
use crawlspace_host::server::acl::Access;
use crawlspace_host::server::command::{Act, Answer, Call};

use super::indexes::{Keys, permit, permit_committed};
use super::jobs::{JobKind, id, submit};

impl Act for Pack {
    fn act(_: Pack, call: &mut Call<'_>) -> Result<Answer, String> {
        // `PACK` must work when memory is short: every slice frees more memory than it uses.
        run(call, Storage::Packed, JobKind::Shrinks, "pack")
    }
}

impl Act for Unpack {
    fn act(_: Unpack, call: &mut Call<'_>) -> Result<Answer, String> {
        run(call, Storage::Plain, JobKind::Grows, "unpack")
    }
}

fn run(
    call: &mut Call<'_>,
    to: Storage,
    kind: JobKind,
    work: &'static str,
) -> Result<Answer, String> {
    permit_packing(call)?;
    let id = id(call, kind, work, &[]);
    submit(call, kind, id, move_to(to), true)
}

/// Refuses with `NOPERM` unless the user may write all keys that a storage conversion writes.
pub fn permit_packing(call: &mut Call<'_>) -> Result<(), String> {
    let whole = [Group::Whole, Group::Moved].map(|group| (Keys::All(group), Access::Write));
    permit(call, &whole)?;
    permit_committed(call, &[CrawlKey::Records], Access::Write)
}
