//! `DEDUPE.WACZOPEN`, `DEDUPE.WACZCLOSE` and `DEDUPE.WACZLIST`.

use crate::dedupe::files::{Finished, close_wacz, list_waczs, open_wacz};
use crate::dedupe::grammar::{WaczClose, WaczList, WaczOpen};
use crate::dedupe::keys::CrawlKey;
use crate::dedupe::requires::entry_members;
use crawlspace_host::reply::Reply;
use crawlspace_host::server::acl::Access;
use crawlspace_host::server::command::{Act, Answer, Call};

use super::indexes::{Keys, on_index, permit};

impl Act for WaczOpen<'static> {
    fn act(
        WaczOpen { crawl, filename }: WaczOpen<'_>,
        call: &mut Call<'_>,
    ) -> Result<Answer, String> {
        permit(
            call,
            &[
                (Keys::One(|names| &names.uncommitted), Access::Write),
                (Keys::Of(crawl, &[CrawlKey::Waczs]), Access::Write),
            ],
        )?;
        let i = on_index(call, |cached, keys| {
            open_wacz(&mut cached.index, keys, crawl, filename)
        })?;
        Ok(Answer::Reply(Reply::count(i)))
    }
}

impl Act for WaczClose<'static> {
    fn act(asked: WaczClose<'_>, call: &mut Call<'_>) -> Result<Answer, String> {
        let crawl = asked.crawl;
        let file = Finished {
            filename: asked.filename,
            hash: asked.hash,
            size: asked.size,
            renames: asked.renames,
        };
        permit(
            call,
            &[
                (Keys::One(|names| &names.uncommitted), Access::Write),
                (
                    Keys::Of(crawl, &[CrawlKey::Waczs, CrawlKey::Counts]),
                    Access::Write,
                ),
            ],
        )?;
        on_index(call, |cached, keys| {
            close_wacz(&mut cached.index, keys, crawl, asked.index, file)
        })?;
        Ok(Answer::Reply(Reply::Ok))
    }
}

impl Act for WaczList<'static> {
    fn act(WaczList { crawl }: WaczList<'_>, call: &mut Call<'_>) -> Result<Answer, String> {
        permit(call, &[(Keys::Of(crawl, &[CrawlKey::Waczs]), Access::Read)])?;
        let entries = on_index(call, |cached, keys| {
            cached.index.require_known(keys, crawl)?;
            list_waczs(&mut cached.index, keys, crawl)
        })?;
        let entries = entries.iter().map(|e| Reply::named(entry_members(e)));
        Ok(Answer::Reply(Reply::Array(entries.collect())))
    }
}
