//! `DEDUPE.LOOKUPURL` and `DEDUPE.URLS`.

use crate::dedupe::grammar::{LookUpUrl, Urls};
use crate::dedupe::keys::{CrawlKey, Group};
use crate::dedupe::urls::{Asked, CAPTURES, look_up, switch};
use crawlspace_host::server::acl::Access;
use crawlspace_host::server::command::{Act, Answer, Call};

use super::indexes::{Keys, permit, permit_committed};
use super::jobs::{JobKind, id, submit, submit_reading};

impl Act for LookUpUrl<'static> {
    fn act(asked: LookUpUrl<'_>, call: &mut Call<'_>) -> Result<Answer, String> {
        permit(call, &[(Keys::All(Group::State), Access::Read)])?;
        let asked = Asked {
            own: asked.own.map(<[u8]>::to_vec),
            limit: asked.limit.unwrap_or(CAPTURES),
            before: asked.before.map(<[u8]>::to_vec),
            urls: asked.urls.iter().map(|url| url.to_vec()).collect(),
        };
        submit_reading(call, "lookupurl", &[], look_up(asked))
    }
}

impl Act for Urls {
    fn act(Urls { on }: Urls, call: &mut Call<'_>) -> Result<Answer, String> {
        permit(call, &[(Keys::All(Group::Whole), Access::Write)])?;
        permit_committed(call, &[CrawlKey::Records], Access::Read)?;
        let (kind, work) = if on {
            (JobKind::Grows, "urls on")
        } else {
            (JobKind::Shrinks, "urls off")
        };
        let id = id(call, kind, work, &[]);
        submit(call, kind, id, switch(on), true)
    }
}
