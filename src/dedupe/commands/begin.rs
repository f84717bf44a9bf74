//! `DEDUPE.BEGIN`.

use crate::dedupe::begin::begin;
use crate::dedupe::grammar::Begin;
use crate::dedupe::keys::CrawlKey;
use crawlspace_host::reply::Reply;
use crawlspace_host::server::acl::Access;
use crawlspace_host::server::command::{Act, Answer, Call};

use super::claims;
use super::indexes::{Keys, on_index, permit};

impl Act for Begin<'static> {
    fn act(Begin { crawl, visible }: Begin<'_>, call: &mut Call<'_>) -> Result<Answer, String> {
        permit(
            call,
            &[
                (Keys::One(|names| &names.uncommitted), Access::Write),
                (Keys::Of(crawl, &[CrawlKey::Records]), Access::Write),
            ],
        )?;
        let begins = on_index(call, |cached, keys| {
            begin(&mut cached.index, keys, crawl, visible)
        })?;
        if visible && begins && claims::anybody_waits() {
            claims::serve(call.db, call.prefix, &mut call.keys, None);
        }
        Ok(Answer::Reply(Reply::Int(i64::from(begins))))
    }
}
