//! `DEDUPE.ADD` and `DEDUPE.REVISIT`.

use smallvec::SmallVec;

use crate::dedupe::grammar::{Add, Revisit};
use crate::dedupe::keys::CrawlKey;
use crate::dedupe::revisit::Dependency;
use crawlspace_host::reply::Reply;
use crawlspace_host::server::acl::Access;
use crawlspace_host::server::api::RmString;
use crawlspace_host::server::clock::even_ms;
use crawlspace_host::server::command::{Act, Answer, Call};

use super::claims;
use super::indexes::{Keys, on_index, permit};
use super::lookup::offer;
use super::metrics;

impl Act for Add<'static> {
    fn act(asked: Add<'_>, call: &mut Call<'_>) -> Result<Answer, String> {
        let Add {
            crawl,
            how,
            responses,
        } = asked;
        let n = responses.len();
        let given = (1..=n).rev().map(|n| call.from_end(n * Add::WORDS));
        let given: SmallVec<[RmString; 1]> = given.collect();
        permit(
            call,
            &[
                (Keys::One(|names| &names.uncommitted), Access::Write),
                (
                    Keys::Of(crawl, &[CrawlKey::Records, CrawlKey::Counts]),
                    Access::Write,
                ),
            ],
        )?;
        let new = on_index(call, |cached, keys| {
            let index = &mut cached.index;
            let digests = responses.iter().map(|response| &response.digest);
            offer(keys, index.profile(), given.into_iter().zip(digests));
            index.add(keys, crawl, &responses, how, even_ms())
        })?;
        metrics::ADDS.add(responses.len() as u64);
        if claims::anybody_waits() {
            let digests: Vec<_> = responses.into_iter().map(|r| r.digest).collect();
            claims::serve(call.db, call.prefix, &mut call.keys, Some(&digests));
        }
        Ok(Answer::Reply(Reply::count(new)))
    }
}

impl Act for Revisit<'static> {
    fn act(asked: Revisit<'_>, call: &mut Call<'_>) -> Result<Answer, String> {
        let Revisit {
            crawl,
            dependency,
            seq,
            revisits,
        } = asked;
        let dependency = dependency.unwrap_or(Dependency::Crawl);
        permit(
            call,
            &[
                (Keys::One(|names| &names.merged), Access::Read),
                (Keys::One(|names| &names.allcrawls), Access::Read),
                (Keys::One(|names| &names.uncommitted), Access::Write),
                (Keys::Of(crawl, &[CrawlKey::Records]), Access::Read),
                (Keys::Of(crawl, &[CrawlKey::Counts]), Access::Write),
            ],
        )?;
        if dependency != Dependency::Elsewhere {
            let requires = Keys::Of(crawl, &[CrawlKey::Requires]);
            permit(call, &[(requires, Access::Write)])?;
        }
        if let Dependency::Wacz(uuid) = dependency {
            let user = call.user();
            let references = on_index(call, |cached, keys| {
                Ok(cached.index.references_key(keys, uuid))
            })?;
            user.check(&references, Access::Write)?;
        }
        let n = on_index(call, |cached, keys| {
            let index = &mut cached.index;
            index.revisit(keys, crawl, &revisits, dependency, seq)
        })?;
        metrics::REVISITS.add(n);
        Ok(Answer::Reply(Reply::count(n)))
    }
}
