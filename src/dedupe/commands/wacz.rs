//! `DEDUPE.WACZOPEN`, `DEDUPE.WACZCLOSE` and `DEDUPE.WACZLIST`.

use crate::dedupe::keys::CrawlKey;
use crate::dedupe::requires::entry_members;
use crate::dedupe::wacz::{FILENAME_BYTES, Finished, WACZ_HASH_BYTES};
use crawlspace_host::reply::Reply;
use crawlspace_host::server::acl::Access;
use crawlspace_host::server::command::{Answer, Arg, Call, Command, Spec};

use super::crawl_argument;
use super::indexes::{on_index, permit};

/// A WACZ file is being written.
pub struct Open;

impl Command for Open {
    const SPEC: Spec = Spec {
        name: "dedupe.waczopen",
        flags: "write deny-oom",
        arity: 4,
        summary: "Lists a WACZ file that is being written, and gives its index.",
        complexity: "O(N) where N is the number of WACZ files of the crawl",
        args: &[Arg::prefix(), Arg::text("crawl"), Arg::text("filename")],
    };

    fn run(call: &mut Call<'_>) -> Result<Answer, String> {
        let crawl = crawl_argument(&mut call.args)?;
        let filename = call.args.bytes("filename", FILENAME_BYTES)?;
        permit(
            call,
            &[(|names| &names.uncommitted, Access::Write)],
            &[(crawl, &[CrawlKey::Waczs], Access::Write)],
        )?;
        let i = on_index(call, |cached, keys| {
            cached.index.wacz_open(keys, crawl, filename)
        })?;
        Ok(Answer::Reply(Reply::count(i)))
    }
}

/// A WACZ file is finished.
pub struct Close;

impl Command for Close {
    const SPEC: Spec = Spec {
        name: "dedupe.waczclose",
        flags: "write deny-oom",
        arity: -7,
        summary: "Fills in the hash and size of a finished WACZ file, and counts its size once.",
        complexity: "O(1) for the first and last files of the crawl, O(N) between",
        args: &[
            Arg::prefix(),
            Arg::text("crawl"),
            Arg::integer("index"),
            Arg::text("filename"),
            Arg::text("hash"),
            Arg::integer("size"),
            Arg::word("rename", "RENAME").optional(),
        ],
    };

    fn run(call: &mut Call<'_>) -> Result<Answer, String> {
        let crawl = crawl_argument(&mut call.args)?;
        let i = call.args.unsigned("index", 0, u64::from(u32::MAX))?;
        let filename = call.args.bytes("filename", FILENAME_BYTES)?;
        let hash = match call.args.peek() {
            Some(b"") => call.args.next("hash")?,
            _ => call.args.bytes("hash", WACZ_HASH_BYTES)?,
        };
        let size = call.args.unsigned("size", 0, (1 << 53) - 1)?;
        let file = Finished {
            filename,
            hash,
            size,
            renames: call.args.keyword("RENAME"),
        };
        call.args.end()?;
        permit(
            call,
            &[(|names| &names.uncommitted, Access::Write)],
            &[(crawl, &[CrawlKey::Waczs, CrawlKey::Counts], Access::Write)],
        )?;
        on_index(call, |cached, keys| {
            cached.index.wacz_close(keys, crawl, i, file)
        })?;
        Ok(Answer::Reply(Reply::Ok))
    }
}

/// The WACZ files of a crawl.
pub struct List;

impl Command for List {
    const SPEC: Spec = Spec {
        name: "dedupe.waczlist",
        flags: "readonly",
        arity: 3,
        summary: "Lists the WACZ files of a crawl in the order of their indexes.",
        complexity: "O(N) where N is the number of WACZ files of the crawl",
        args: &[Arg::prefix(), Arg::text("crawl")],
    };

    fn run(call: &mut Call<'_>) -> Result<Answer, String> {
        let crawl = crawl_argument(&mut call.args)?;
        permit(call, &[], &[(crawl, &[CrawlKey::Waczs], Access::Read)])?;
        let entries = on_index(call, |cached, keys| {
            cached.index.require_known(keys, crawl)?;
            cached.index.wacz_list(keys, crawl)
        })?;
        let entries = entries.iter().map(|e| Reply::named(entry_members(e)));
        Ok(Answer::Reply(Reply::Array(entries.collect())))
    }
}
