//! `DEDUPE.PACK` and `DEDUPE.UNPACK`.

use crate::dedupe::pack::move_to;
use crate::dedupe::storage::Storage;
use crawlspace_host::server::acl::Access;
use crawlspace_host::server::command::{Answer, Arg, Call, Command, Spec};

use super::indexes::{Once, on_index, permit};
use super::jobs::{JobKind, OF_CRAWL, WHOLE_INDEX, id, submit};

/// Moves the committed part of an index into one packed value.
pub struct Pack;

impl Command for Pack {
    const SPEC: Spec = Spec {
        name: "dedupe.pack",
        flags: "write blocking",
        arity: 2,
        summary: "Moves the committed part of an index into one packed value, which takes a sixth of the memory.",
        complexity: "O(N) where N is the number of records of committed crawls, in slices",
        args: &[Arg::prefix()],
    };

    fn run(call: &mut Call<'_>) -> Result<Answer, String> {
        // Who packs may do so because memory is short: every slice frees more than it takes.
        run(call, Storage::Packed, JobKind::Shrinks, "pack")
    }
}

/// Moves it back into the documented keys.
pub struct Unpack;

impl Command for Unpack {
    const SPEC: Spec = Spec {
        name: "dedupe.unpack",
        flags: "write deny-oom blocking",
        arity: 2,
        summary: "Moves the committed part of a packed index back into the documented keys.",
        complexity: "O(N) where N is the number of records of committed crawls, in slices",
        args: &[Arg::prefix()],
    };

    fn run(call: &mut Call<'_>) -> Result<Answer, String> {
        run(call, Storage::Plain, JobKind::Grows, "unpack")
    }
}

/// The keys that the committed part moves between.
const MOVED: [(Once, Access); 2] = [
    (|names| &names.holders, Access::Write),
    (|names| &names.moving, Access::Write),
];

fn run(call: &mut Call<'_>, to: Storage, kind: JobKind, work: &str) -> Result<Answer, String> {
    call.args.end()?;
    permit(call, &WHOLE_INDEX, &[])?;
    permit(call, &MOVED, &[])?;
    let committed = on_index(call, |cached, keys| cached.index.committed(keys))?;
    let records = committed
        .iter()
        .map(|crawl| (&crawl[..], &OF_CRAWL[..1], Access::Write));
    let records: Vec<_> = records.collect();
    permit(call, &[], &records)?;
    let id = id(call, kind, work, &[]);
    submit(call, kind, id, move_to(to), true)
}
