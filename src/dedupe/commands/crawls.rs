//! Figures, checks and the profile of an index.

use crate::dedupe::check;
use crate::dedupe::keys::CrawlKey;
use crate::dedupe::profile::Profile as Layout;
use crate::dedupe::stats::{self, Which};
use crawlspace_host::reply::Reply;
use crawlspace_host::server::acl::Access;
use crawlspace_host::server::command::{Answer, Arg, Call, Command, Spec};
use crawlspace_host::text::Shown;

use super::crawl_argument;
use super::indexes::{on_index, permit};
use super::jobs::{OF_CRAWL, STATE, WHOLE_INDEX, submit_reading, submit_repair};

/// Figures of an index or of one crawl.
pub struct Stats;

impl Command for Stats {
    const SPEC: Spec = Spec {
        name: "dedupe.stats",
        flags: "readonly blocking",
        arity: -2,
        summary: "Counts, hashes, savings and memory of an index, or of one crawl.",
        complexity: "O(C) where C is the number of crawls, in slices; O(1) for one crawl",
        args: &[Arg::prefix(), Arg::text("crawl").optional()],
    };

    fn run(call: &mut Call<'_>) -> Result<Answer, String> {
        if call.args.left() == 0 {
            return submit_reading(call, "stats", &[], stats::stats());
        }
        let crawl = crawl_argument(&mut call.args)?;
        call.args.end()?;
        permit(call, &STATE, &[(crawl, &OF_CRAWL, Access::Read)])?;
        let figures = on_index(call, |cached, keys| cached.index.crawl_stats(keys, crawl))?;
        Ok(Answer::Reply(figures))
    }
}

/// The crawls of an index.
pub struct Crawls;

impl Command for Crawls {
    const SPEC: Spec = Spec {
        name: "dedupe.crawls",
        flags: "readonly blocking",
        arity: -2,
        summary: "Lists the crawls of an index with their figures.",
        complexity: "O(C) where C is the number of crawls, in slices; with UNLISTED O(K) for the K keys of the database",
        args: &[
            Arg::prefix(),
            Arg::one_of(
                "which",
                &[
                    Arg::word("uncommitted", "UNCOMMITTED"),
                    Arg::word("committed", "COMMITTED"),
                    Arg::word("unlisted", "UNLISTED"),
                ],
            )
            .optional(),
        ],
    };

    fn run(call: &mut Call<'_>) -> Result<Answer, String> {
        let which = if call.args.keyword("UNCOMMITTED") {
            Which::Uncommitted
        } else if call.args.keyword("COMMITTED") {
            Which::Committed
        } else if call.args.keyword("UNLISTED") {
            Which::Unlisted
        } else {
            Which::All
        };
        call.args.end()?;
        permit(call, &STATE, &[])?;
        submit_reading(call, "crawls", &[], stats::crawls(which))
    }
}

/// Proves an index consistent.
pub struct Check;

impl Command for Check {
    const SPEC: Spec = Spec {
        name: "dedupe.check",
        flags: "readonly blocking",
        arity: 2,
        summary: "Looks at every key of an index and counts what does not fit together.",
        complexity: "O(N) where N is the number of hashes of all crawls, in slices",
        args: &[Arg::prefix()],
    };

    fn run(call: &mut Call<'_>) -> Result<Answer, String> {
        submit_reading(call, "check", &[], check::check(false))
    }
}

/// Sets an index right.
pub struct Repair;

impl Command for Repair {
    const SPEC: Spec = Spec {
        name: "dedupe.repair",
        flags: "write deny-oom blocking",
        arity: 2,
        summary: "Does what DEDUPE.CHECK does, and sets right what it finds.",
        complexity: "O(N) where N is the number of hashes of all crawls, in slices",
        args: &[Arg::prefix()],
    };

    fn run(call: &mut Call<'_>) -> Result<Answer, String> {
        let committed = on_index(call, |cached, keys| cached.index.committed(keys))?;
        let crawls: Vec<_> = committed
            .iter()
            .map(|crawl| {
                (
                    &crawl[..],
                    &[CrawlKey::Records, CrawlKey::Counts][..],
                    Access::Read,
                )
            })
            .collect();
        permit(call, &WHOLE_INDEX, &crawls)?;
        submit_repair(call, check::check(true))
    }
}

/// Reads or sets the layout of an index.
pub struct Profile;

impl Command for Profile {
    const SPEC: Spec = Spec {
        name: "dedupe.profile",
        flags: "write fast",
        arity: -2,
        summary: "Reads or sets the key layout of an index.",
        complexity: "O(1)",
        args: &[
            Arg::prefix(),
            Arg::one_of(
                "profile",
                &[
                    Arg::word("document", "document"),
                    Arg::word("browsertrix", "browsertrix"),
                ],
            )
            .optional(),
        ],
    };

    fn run(call: &mut Call<'_>) -> Result<Answer, String> {
        if call.args.left() == 0 {
            permit(call, &[(|names| &names.meta, Access::Read)], &[])?;
            let name = on_index(call, |cached, _| Ok(cached.index.profile().name()))?;
            return Ok(Answer::Reply(Reply::bulk(name)));
        }
        let name = call.args.next("profile")?;
        let profile = Layout::parse(name).ok_or_else(|| {
            format!(
                "ERR invalid profile '{}': document or browsertrix is expected (argument {})",
                Shown(name),
                call.args.position()
            )
        })?;
        call.args.end()?;
        permit(call, &[(|names| &names.meta, Access::Write)], &[])?;
        on_index(call, |cached, keys| cached.index.set_profile(keys, profile))?;
        Ok(Answer::Reply(Reply::Ok))
    }
}
