//! `DEDUPE.BEGIN`.

use crate::dedupe::keys::CrawlKey;
use crawlspace_host::reply::Reply;
use crawlspace_host::server::acl::Access;
use crawlspace_host::server::command::{Answer, Arg, Call, Command, Spec};

use super::indexes::{on_index, permit};
use super::{claims, crawl_argument};

/// A crawl begins.
pub struct Begin;

impl Command for Begin {
    const SPEC: Spec = Spec {
        name: "dedupe.begin",
        flags: "write deny-oom fast",
        arity: -3,
        summary: "Makes a crawl known before its first record, or continues a committed one.",
        complexity: "O(1)",
        args: &[
            Arg::prefix(),
            Arg::text("crawl"),
            Arg::word("visible", "VISIBLE").optional(),
        ],
    };

    fn run(call: &mut Call<'_>) -> Result<Answer, String> {
        let crawl = crawl_argument(&mut call.args)?;
        let visible = call.args.keyword("VISIBLE");
        call.args.end()?;
        permit(
            call,
            &[(|names| &names.uncommitted, Access::Write)],
            &[(crawl, &[CrawlKey::Records], Access::Write)],
        )?;
        let begins = on_index(call, |cached, keys| {
            cached.index.begin(keys, crawl, visible)
        })?;
        if visible && begins && claims::anybody_waits() {
            claims::serve(call.db, call.prefix, &mut call.keys, None);
        }
        Ok(Answer::Reply(Reply::Int(i64::from(begins))))
    }
}
