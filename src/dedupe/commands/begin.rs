//! `DEDUPE.BEGIN`.

use crate::dedupe::keys::CrawlKey;
use crate::reply::Reply;
use crate::server::acl::Access;
use crate::server::command::{Answer, Arg, Call, Command, Spec};

use super::crawl_argument;
use super::indexes::{on_index, permit};

/// A crawl begins.
pub struct Begin;

impl Command for Begin {
    const SPEC: Spec = Spec {
        name: "dedupe.begin",
        flags: "write deny-oom fast",
        arity: 3,
        summary: "Makes a crawl known before its first record, or continues a committed one.",
        complexity: "O(1)",
        args: &[Arg::prefix(), Arg::text("crawl")],
    };

    fn run(call: &mut Call<'_>) -> Result<Answer, String> {
        let crawl = crawl_argument(&mut call.args)?;
        call.args.end()?;
        permit(
            call,
            &[(|names| &names.uncommitted, Access::Write)],
            &[(crawl, &[CrawlKey::Records], Access::Write)],
        )?;
        let begins = on_index(call, |remembered, keys| remembered.index.begin(keys, crawl))?;
        Ok(Answer::Reply(Reply::Int(i64::from(begins))))
    }
}
