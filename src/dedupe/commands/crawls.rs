//! Statistics, checks and the profile of an index.

use std::os::raw::c_int;

use crate::dedupe::check;
use crate::dedupe::grammar::{Check, ListCrawls, Profile, Repair, Stats};
use crate::dedupe::keys::{CrawlKey, Group};
use crate::dedupe::stats::{self, Figures, UnderWay, Which};
use crawlspace_host::reply::Reply;
use crawlspace_host::server::acl::Access;
use crawlspace_host::server::command::{Act, Answer, Call};
use crawlspace_host::server::job;

use super::indexes::{Keys, on_index, permit, permit_committed};
use super::jobs::{submit_reading, submit_repair};
use super::pack::permit_packing;

impl Act for Stats<'static> {
    fn act(Stats { of }: Stats<'_>, call: &mut Call<'_>) -> Result<Answer, String> {
        let crawl = match of {
            None => return submit_reading(call, "stats", &[], stats::stats()),
            Some(Figures::Sampled(samples)) => {
                let job = stats::sampled_stats(samples);
                return submit_reading(call, "stats", &[], job);
            }
            Some(Figures::Crawl(crawl)) => crawl,
        };
        permit(
            call,
            &[
                (Keys::All(Group::State), Access::Read),
                (Keys::Of(crawl, CrawlKey::DOCUMENTED), Access::Read),
            ],
        )?;
        let figures = on_index(call, |cached, keys| {
            stats::crawl_stats(&mut cached.index, keys, crawl)
        })?;
        Ok(Answer::Reply(figures))
    }
}

impl Act for ListCrawls {
    fn act(asked: ListCrawls, call: &mut Call<'_>) -> Result<Answer, String> {
        let which = asked.which.unwrap_or(Which::All);
        permit(call, &[(Keys::All(Group::State), Access::Read)])?;
        let under_way = under_way(call.db, call.prefix);
        submit_reading(call, "crawls", &[], stats::crawls(which, under_way))
    }
}

/// Returns the progress of the jobs that commit, cancel or remove crawls of an index. If a crawl
/// has several jobs, returns the progress of the first job.
fn under_way(db: c_int, prefix: &[u8]) -> UnderWay {
    let mut found = UnderWay::new();
    job::each(|id, completion| {
        let is_about_crawls = matches!(id.work, "commit" | "cancel" | "remove");
        if is_about_crawls && id.db == db && id.prefix == prefix {
            for crawl in &id.arguments {
                found.entry(crawl.clone()).or_insert(completion);
            }
        }
    });
    found
}

impl Act for Check {
    fn act(_: Check, call: &mut Call<'_>) -> Result<Answer, String> {
        submit_reading(call, "check", &[], check::check(false))
    }
}

impl Act for Repair {
    fn act(_: Repair, call: &mut Call<'_>) -> Result<Answer, String> {
        permit(call, &[(Keys::All(Group::Whole), Access::Write)])?;
        permit_committed(call, &[CrawlKey::Records, CrawlKey::Counts], Access::Read)?;
        if on_index(call, |cached, keys| {
            Ok(cached
                .index
                .places
                .has_left_to_pack(keys, &cached.index.crawls))
        })? {
            permit_packing(call)?;
        }
        submit_repair(call, check::check(true))
    }
}

impl Act for Profile {
    fn act(Profile { profile }: Profile, call: &mut Call<'_>) -> Result<Answer, String> {
        let Some(profile) = profile else {
            permit(call, &[(Keys::One(|names| &names.meta), Access::Read)])?;
            let name = on_index(call, |cached, _| Ok(cached.index.profile().name()))?;
            return Ok(Answer::Reply(Reply::bulk(name)));
        };
        permit(call, &[(Keys::One(|names| &names.meta), Access::Write)])?;
        on_index(call, |cached, keys| cached.index.set_profile(keys, profile))?;
        Ok(Answer::Reply(Reply::Ok))
    }
}
