//! Commands that run as jobs, in time slices.

use std::os::raw::c_int;

use rustc_hash::FxHashSet;

use crate::dedupe::commit::{self, check_committable};
use crate::dedupe::error::Error;
use crate::dedupe::gather::changed_since_commit_began;
use crate::dedupe::grammar::{Cancel, Commit, Remove, RequiredBy, Requires, Retain};
use crate::dedupe::job::{Job, Step};
use crate::dedupe::keys::{CrawlKey, Group, is_bookkeeping};
use crate::dedupe::removal::{self, check_cancelable, check_removable, references_of};
use crate::dedupe::requires::{self, Format, Of};
use crate::dedupe::stats::check_known;
use crawlspace_host::server::acl::{Access, User};
use crawlspace_host::server::api::{Ctx, RmString};
use crawlspace_host::server::cluster;
use crawlspace_host::server::command::{Act, Answer, Call};
use crawlspace_host::server::job::{self, JobId, Progress, Slices, Submitted};
use crawlspace_host::server::keyspace::RedisKeyspace;
use crawlspace_host::slices::Completion;

use super::indexes::{Keys, on_index, permit, slice};
use super::{claims, plain};

/// The effect of a job on the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobKind {
    /// Reads only, with the permissions of the calling user. May run on a replica.
    Reads,
    /// Writes, and uses more memory.
    Grows,
    /// Writes, and frees memory.
    Shrinks,
}

/// A job on an index in the key space of this server.
struct IndexJob {
    db: c_int,
    prefix: Vec<u8>,
    kind: JobKind,
    user: Option<RmString>,
    job: Job<RedisKeyspace>,
}

impl Slices for IndexJob {
    fn slice(&mut self, ctx: Ctx, time: &mut dyn FnMut() -> bool) -> Progress {
        let mut keys = RedisKeyspace::new(ctx);
        if let Err(error) = cluster::check(ctx, &RmString::new(&self.prefix), self.writes()) {
            return Progress::Done(Err(error));
        }
        let (job, kind) = (&mut self.job, self.kind);
        let (prefix, user) = (&self.prefix, &self.user);
        // The user needs no permissions for opening the index. Only the reads of the job itself are
        // checked.
        let mut opening = RedisKeyspace::new(ctx);
        let step = slice(self.db, &self.prefix, &mut opening, |index, opening| {
            opening.release();
            if kind != JobKind::Reads {
                index.prepare_storage(&mut keys)?;
            } else if let Some(user) = user {
                let packed = index.places.packed_key().cloned();
                let stands_for = packed.zip(Some(index.names().merged.clone()));
                keys.read_as(User::named(user), prefix, is_bookkeeping, stands_for);
            }
            let step = job.step(index, &mut keys, time);
            if kind != JobKind::Reads {
                index.refresh_storage(&mut keys)?;
                index.write_spelling(&mut keys)?;
                plain::note_storage(self.db, index);
            }
            step
        });
        let outcome = match step {
            Ok(Step::More) => return Progress::More,
            Ok(Step::Done(reply)) => Ok(reply),
            Err(error) => Err(error.to_string()),
        };
        if self.kind != JobKind::Reads && claims::anybody_waits() {
            claims::serve(self.db, &self.prefix, &mut keys, None);
        }
        Progress::Done(outcome)
    }

    fn db(&self) -> c_int {
        self.db
    }

    fn writes(&self) -> bool {
        self.kind != JobKind::Reads
    }

    fn grows(&self) -> bool {
        self.kind == JobKind::Grows
    }

    fn completion(&self) -> Completion {
        self.job.completion()
    }
}

/// Builds the id of a job. Writing jobs of an index run one at a time; reading jobs run in
/// parallel.
pub fn id(call: &Call<'_>, kind: JobKind, work: &'static str, arguments: &[&[u8]]) -> JobId {
    JobId::new(
        "index",
        call.db,
        call.prefix,
        kind != JobKind::Reads,
        work,
        arguments,
    )
}

/// Submits a job for the calling client.
pub fn submit(
    call: &mut Call<'_>,
    kind: JobKind,
    id: JobId,
    job: Job<RedisKeyspace>,
    may_attach: bool,
) -> Result<Answer, String> {
    // Replicate the writes of the command before those of the job, and close every key that the job
    // may free.
    call.keys.release();
    let job = IndexJob {
        db: call.db,
        prefix: call.prefix.to_vec(),
        kind,
        user: User::current_name(call.ctx),
        job,
    };
    match job::submit(call.ctx, id, Box::new(job), may_attach) {
        Submitted::Done(outcome) => outcome.map(Answer::Reply),
        Submitted::Waiting => Ok(Answer::Sent),
    }
}

/// Starts packing an index in the background. No client waits for the result.
pub fn start_packing(db: c_int, prefix: &[u8], job: Job<RedisKeyspace>) {
    let kind = JobKind::Shrinks;
    let id = JobId::new("index", db, prefix, true, "pack", &[]);
    let job = IndexJob {
        db,
        prefix: prefix.to_vec(),
        kind,
        user: None,
        job,
    };
    job::start_unattended(id, Box::new(job));
}

/// Submits a job that only reads.
pub fn submit_reading(
    call: &mut Call<'_>,
    work: &'static str,
    arguments: &[&[u8]],
    job: Job<RedisKeyspace>,
) -> Result<Answer, String> {
    let id = id(call, JobKind::Reads, work, arguments);
    // Equal calls may come from different users, so each call starts its own job.
    submit(call, JobKind::Reads, id, job, false)
}

/// Submits a job that repairs the whole index.
pub fn submit_repair(call: &mut Call<'_>, job: Job<RedisKeyspace>) -> Result<Answer, String> {
    let id = id(call, JobKind::Grows, "repair", &[]);
    submit(call, JobKind::Grows, id, job, true)
}

impl Act for Commit<'static> {
    fn act(Commit { crawls }: Commit<'_>, call: &mut Call<'_>) -> Result<Answer, String> {
        let mut keys = vec![(Keys::All(Group::Whole), Access::Write)];
        let contents = crawls
            .iter()
            .map(|crawl| Keys::Of(crawl, CrawlKey::CONTENT));
        keys.extend(contents.map(|content| (content, Access::Read)));
        permit(call, &keys)?;
        // A running commit does not include records added after it began, but this commit does.
        let may_attach = on_index(call, |cached, keys| {
            let index = &mut cached.index;
            if crawls.len() > 1 {
                check_committable(index, keys, &crawls)?;
            }
            for crawl in &crawls {
                if index.under_way.is_committing(keys, crawl)?
                    && changed_since_commit_began(index, keys, crawl)?
                {
                    return Ok(false);
                }
            }
            Ok(true)
        })?;
        let id = id(call, JobKind::Grows, "commit", &crawls);
        let job = match crawls[..] {
            [crawl] => commit::commit(crawl),
            _ => commit::commit_each(owned(&crawls)),
        };
        submit(call, JobKind::Grows, id, job, may_attach)
    }
}

impl Act for Cancel<'static> {
    fn act(Cancel { crawl }: Cancel<'_>, call: &mut Call<'_>) -> Result<Answer, String> {
        permit_removal(call, &[crawl])?;
        on_index(call, |cached, keys| {
            check_cancelable(&mut cached.index, keys, crawl)
        })?;
        permit_references(call, &[crawl])?;
        claims::cancel_waiters(call.db, call.prefix, crawl);
        // Cancel a running commit of the same crawl, even if it also commits other crawls.
        let commit = id(call, JobKind::Grows, "commit", &[crawl]);
        let canceled = Err(Error::Canceled(crawl.to_vec()).to_string());
        job::abort(&canceled, |id, _| {
            id.is_same_work(&commit) && id.arguments.iter().any(|other| other == crawl)
        });
        let id = id(call, JobKind::Shrinks, "cancel", &[crawl]);
        submit(call, JobKind::Shrinks, id, removal::cancel(crawl), true)
    }
}

fn owned(crawls: &[&[u8]]) -> Vec<Vec<u8>> {
    crawls.iter().map(|crawl| crawl.to_vec()).collect()
}

impl Act for Remove<'static> {
    fn act(Remove { crawls }: Remove<'_>, call: &mut Call<'_>) -> Result<Answer, String> {
        permit_removal(call, &crawls)?;
        on_index(call, |cached, keys| {
            check_removable(&mut cached.index, keys, &crawls)
        })?;
        permit_references(call, &crawls)?;
        let id = id(call, JobKind::Shrinks, "remove", &crawls);
        submit(
            call,
            JobKind::Shrinks,
            id,
            removal::remove(owned(&crawls)),
            true,
        )
    }
}

impl Act for Retain<'static> {
    fn act(asked: Retain<'_>, call: &mut Call<'_>) -> Result<Answer, String> {
        let (purge, crawls) = (asked.purge.is_some(), asked.crawls);
        if purge {
            permit_removal(call, &[])?;
            permit_removal_of_others(call, &crawls)?;
        } else {
            permit(
                call,
                &[
                    (Keys::One(|names| &names.allcrawls), Access::Read),
                    (Keys::One(|names| &names.allcounts), Access::Write),
                ],
            )?;
        }
        on_index(call, |cached, keys| {
            check_known(&mut cached.index, keys, &crawls)
        })?;
        let work = if purge { "retain purge" } else { "retain" };
        let id = id(call, JobKind::Shrinks, work, &crawls);
        let job = removal::retain(owned(&crawls), purge);
        submit(call, JobKind::Shrinks, id, job, true)
    }
}

/// Checks that the user may write all keys that a removal changes.
fn permit_removal(call: &mut Call<'_>, crawls: &[&[u8]]) -> Result<(), String> {
    let mut asked = vec![(Keys::All(Group::Whole), Access::Write)];
    let keys = crawls
        .iter()
        .map(|crawl| Keys::Of(crawl, CrawlKey::DOCUMENTED));
    asked.extend(keys.map(|keys| (keys, Access::Write)));
    permit(call, &asked)
}

/// Checks that the user may remove each crawl that `RETAIN` does not list.
fn permit_removal_of_others(call: &mut Call<'_>, kept: &[&[u8]]) -> Result<(), String> {
    let committed = on_index(call, |cached, keys| cached.index.crawls.committed(keys))?;
    let kept: FxHashSet<&[u8]> = kept.iter().copied().collect();
    let others = committed.iter().map(|crawl| &crawl[..]);
    let others: Vec<&[u8]> = others.filter(|crawl| !kept.contains(crawl)).collect();
    permit_removal(call, &others)?;
    permit_references(call, &others)
}

/// Checks that the user may write the sets of references of these crawls, because these sets are
/// removed together with the crawls.
fn permit_references(call: &mut Call<'_>, crawls: &[&[u8]]) -> Result<(), String> {
    let user = call.user();
    let references = on_index(call, |cached, keys| {
        let mut all = Vec::new();
        for crawl in crawls {
            all.extend(references_of(&mut cached.index, keys, crawl)?);
        }
        Ok(all)
    })?;
    references
        .iter()
        .try_for_each(|key| user.check(key, Access::Write))
}

impl Act for Requires {
    fn act(asked: Requires, call: &mut Call<'_>) -> Result<Answer, String> {
        let Requires {
            of,
            transitive,
            format,
        } = asked;
        let format = format.unwrap_or(Format::Json);
        if let Of::Crawl(crawl) = &of {
            permit(
                call,
                &[
                    (Keys::All(Group::State), Access::Read),
                    (Keys::Of(crawl, &[CrawlKey::Requires]), Access::Read),
                ],
            )?;
        }
        let job = requires::requires(of, transitive, format);
        submit_reading(call, "requires", &[], job)
    }
}

impl Act for RequiredBy<'static> {
    fn act(RequiredBy { crawl }: RequiredBy<'_>, call: &mut Call<'_>) -> Result<Answer, String> {
        permit(
            call,
            &[
                (Keys::One(|names| &names.uncommitted), Access::Read),
                (Keys::One(|names| &names.allcrawls), Access::Read),
            ],
        )?;
        on_index(call, |cached, keys| {
            cached.index.require_known(keys, crawl).map(drop)
        })?;
        let job = requires::required_by(crawl);
        submit_reading(call, "requiredby", &[crawl], job)
    }
}
