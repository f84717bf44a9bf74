//! Checks conservation: every queued URI is counted once in its group, its execution and the total,
//! and every group with queued URIs is in exactly one queue. Repairs violations on request.

mod account;
mod derived;
mod known;
mod limits;
mod queues;
mod sums;

use std::collections::BTreeSet;
use std::rc::Rc;

use crawlspace_compact::keyed;
use crawlspace_host::reply::Reply;
use crawlspace_host::text::parse_unsigned;

use super::audit::Audit;
use super::error::Result;
use super::frontier::Frontier;
use super::job::{Job, Lent, Scan};
use super::keys::{GROUP, OF, URIS};
use super::packed::misplaced;
use super::reconcile::Table;
use super::store::Store;
use super::time::Millis;

/// Maximum number of problems that are described in the report.
const MAX_PROBLEMS: usize = 100;

/// Number of names that are processed together.
const PAGE: usize = 32;

/// Names of groups or executions.
type Ids = BTreeSet<Box<[u8]>>;

/// Creates a job that checks a whole frontier and, with `repairs`, fixes the problems that it
/// finds.
pub fn check<K: Store>(repairs: bool, now: Millis) -> Job<K> {
    Job::new(async move |lent: Lent<K>| check_in(&lent, repairs, now).await)
}

/// Checks a whole frontier, as a part of a job.
pub(super) async fn check_in<K: Store>(
    lent: &Lent<K>,
    repairs: bool,
    now: Millis,
) -> Result<Reply> {
    let mut check = Check::new(repairs, now);
    check.run(lent).await?;
    check.free(lent).await;
    Ok(check.report())
}

/// A check of a frontier. It reports the state of the frontier at the time when the check began.
struct Check {
    repairs: bool,
    now: Millis,
    owner: Rc<()>,
    /// True if an execution remembers its URLs.
    remembers: bool,
    /// Executions whose records of URLs disagree with the queues.
    misrecorded: Ids,
    /// Keyed hashes of the groups seen so far.
    seen: BTreeSet<u64>,
    /// Groups that should be in `chg_ready` or behind a gate.
    elsewhere: Ids,
    gates: Ids,
    /// Executions: the count in `EIDC` when the check began, and the number of URIs in groups.
    executions: Table,
    /// Executions that have a list of their groups.
    lists: Ids,
    counts: Counts,
    problems: Vec<String>,
    problems_total: u64,
    /// Stored texts of URLs that are missing, wrong or needless.
    wrong_texts: u64,
    /// Entries of agendas that are missing or wrong.
    wrong_agendas: u64,
    mended: u64,
    /// Groups that the check has repaired and that no command has changed.
    mended_groups: Ids,
    disturbed: bool,
}

#[derive(Debug, Default)]
struct Counts {
    groups: u64,
    executions: u64,
    total: i64,
    sum_groups: u64,
    sum_executions: u64,
    /// URIs that groups count without storing them. Does not include implausible counts.
    counted: u64,
}

impl Check {
    fn new(repairs: bool, now: Millis) -> Check {
        Check {
            repairs,
            now,
            owner: Rc::new(()),
            remembers: false,
            misrecorded: Ids::new(),
            seen: BTreeSet::new(),
            elsewhere: Ids::new(),
            gates: Ids::new(),
            executions: Table::new(),
            lists: Ids::new(),
            counts: Counts::default(),
            problems: Vec::new(),
            problems_total: 0,
            wrong_texts: 0,
            wrong_agendas: 0,
            mended: 0,
            mended_groups: Ids::new(),
            disturbed: false,
        }
    }

    async fn run<K: Store>(&mut self, lent: &Lent<K>) -> Result<()> {
        lent.with(|frontier, ks| self.begin(frontier, ks))?;
        self.look_at_executions(lent).await?;
        self.look_at_groups(lent).await?;
        self.mend_lists(lent).await?;
        self.look_for_strangers(lent).await?;
        self.look_at_ready(lent).await?;
        self.look_behind_gates(lent).await?;
        self.look_for_lost(lent).await?;
        self.look_at_limits(lent).await?;
        self.compare_sums(lent).await?;
        self.mend_records(lent).await?;
        self.look_at_texts(lent).await?;
        self.look_at_agendas(lent).await
    }

    fn begin<K: Store>(&mut self, frontier: &mut Frontier<K>, ks: &mut K) -> Result<()> {
        if self.repairs {
            frontier.evict_idle(ks, self.now)?;
        }
        frontier.ledger.audits.begin(&self.owner);
        self.counts.total = ks.number(&frontier.keys.once.total)?;
        for (name, _) in frontier.keys.once.all() {
            if ks.is_misplaced(name) {
                self.problem(|| misplaced(name.as_ref()));
            }
        }
        self.compare_records(frontier, ks)
    }

    fn problem(&mut self, text: impl FnOnce() -> String) {
        self.problems_total += 1;
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(text());
        }
    }

    /// Returns true if the group has not been seen before. A scan may return a group twice.
    fn is_new(&mut self, id: &[u8]) -> bool {
        self.seen.insert(keyed::hash(id))
    }

    /// Returns the changes since the check began, or `None` if the frontier was opened again.
    fn audit<'f, K: Store>(&mut self, frontier: &'f Frontier<K>) -> Option<&'f Audit> {
        let audit = frontier.ledger.audits.of(&self.owner);
        self.disturbed |= audit.is_none_or(|audit| audit.disturbed);
        audit
    }

    /// Returns true if other clients have changed a group since the check began. The queue of a
    /// changed group cannot be checked.
    fn was_changed<K: Store>(&mut self, frontier: &Frontier<K>, id: &[u8]) -> bool {
        let audit = self.audit(frontier);
        let changed = audit.is_none_or(|audit| audit.groups.contains_key(id));
        changed && !self.mended_groups.contains(id)
    }

    /// Reads the counts in `EIDC`.
    async fn look_at_executions<K: Store>(&mut self, lent: &Lent<K>) -> Result<()> {
        let executions = lent.with(|frontier, _| frontier.keys.once.executions.clone());
        let mut executions = Scan::hash(lent, executions);
        while let Some(batch) = executions.next().await? {
            lent.with(|frontier, _| {
                for (execution, count) in batch.iter() {
                    let audit = self.audit(frontier);
                    let then = audit.and_then(|audit| audit.executions.get(execution));
                    let now = || parse_unsigned(count).unwrap_or(0);
                    self.found(execution, then.copied().unwrap_or_else(now));
                }
            });
            lent.pause().await;
        }
        // Include executions that were deleted since the check began.
        self.each_changed(lent, |audit| &audit.executions, Check::found)
            .await;
        Ok(())
    }

    /// Records the count in `EIDC` that an execution had when the check began. If a count was
    /// already recorded, it stays unchanged.
    fn found(&mut self, execution: &[u8], count: u64) {
        if self.executions.contains_key(execution) {
            return;
        }
        self.counts.executions += u64::from(count > 0);
        self.counts.sum_executions = self.counts.sum_executions.saturating_add(count);
        let has = self.executions.entry(execution.into()).or_default();
        has.found = count;
    }

    /// Checks each group.
    async fn look_at_groups<K: Store>(&mut self, lent: &Lent<K>) -> Result<()> {
        let prefix = lent.with(|frontier, _| frontier.keys.prefix.len());
        let mut keys = Scan::keys(lent);
        while let Some(batch) = keys.next().await? {
            for (key, _) in batch.iter() {
                let name = &key[prefix..];
                // A group may have stored URIs but no hash.
                let group = GROUP.id(name).or(URIS.id(name));
                if let Some(id) = group.filter(|id| !id.is_empty()) {
                    if self.is_new(id) {
                        self.look_at_group(lent, id).await?;
                        self.look_at_urls(lent, id).await?;
                    }
                } else if let Some(execution) = OF.id(name).filter(|_| self.repairs) {
                    self.lists.insert(execution.into());
                }
                lent.pause().await;
            }
        }
        // Include groups that were deleted since the check began.
        let went = |check: &mut Check, id: &[u8], count| {
            if check.is_new(id) {
                check.counts.sum_groups = check.counts.sum_groups.saturating_add(count);
            }
        };
        self.each_changed(lent, |audit| &audit.groups, went).await;
        Ok(())
    }

    fn report(&self) -> Reply {
        let count = Reply::count;
        let counts = &self.counts;
        let problems = self.problems.iter().map(Reply::bulk).collect();
        let mut report = vec![
            ("groups", count(counts.groups)),
            ("executions", count(counts.executions)),
            ("total", Reply::Int(counts.total.max(0))),
            ("sum-groups", count(counts.sum_groups)),
            ("sum-executions", count(counts.sum_executions)),
            (
                "consistent",
                Reply::Int(i64::from(self.problems_total == 0)),
            ),
            ("problems", Reply::Array(problems)),
            ("problems-total", count(self.problems_total)),
            ("disturbed", Reply::Int(i64::from(self.disturbed))),
        ];
        let derived = [
            ("wrong-texts", self.wrong_texts),
            ("wrong-agendas", self.wrong_agendas),
        ];
        let found = derived.into_iter().filter(|(_, wrong)| *wrong > 0);
        report.extend(found.map(|(name, wrong)| (name, count(wrong))));
        if self.repairs {
            report.push(("mended", count(self.mended)));
        }
        Reply::named(report)
    }

    /// Frees the memory of the check in slices, because it may be large.
    async fn free<K: Store>(&mut self, lent: &Lent<K>) {
        let audit = lent.with(|frontier, _| {
            self.audit(frontier);
            frontier.ledger.audits.end(&self.owner)
        });
        let audit = audit.unwrap_or_default();
        free(lent, std::mem::take(&mut self.seen)).await;
        free(lent, std::mem::take(&mut self.elsewhere)).await;
        free(lent, std::mem::take(&mut self.mended_groups)).await;
        free(lent, std::mem::take(&mut self.executions)).await;
        free(lent, audit.groups).await;
        free(lent, audit.executions).await;
    }
}

async fn free<K: Store>(lent: &Lent<K>, pieces: impl IntoIterator) {
    for piece in pieces {
        drop(piece);
        lent.pause().await;
    }
}
